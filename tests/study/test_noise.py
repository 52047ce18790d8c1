"""The default against itself, with values worked out by hand."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from vivace.core import Ratio, ServingConfig
from vivace.measure.samples import Samples
from vivace.study.finished import Finished, Turn
from vivace.study.noise import band, halves, itself

from .virtual import make_bed


def single(*ttft_ms: float, first: int = 0) -> Samples:
    ids = tuple(f"q{first + n}" for n in range(len(ttft_ms)))
    return Samples(single_ttft_ms=ttft_ms, single_tps=tuple(50.0 for _ in ttft_ms), single_ids=ids)


def loaded(tokens: float) -> Samples:
    return Samples(cycles=tuple((tokens, 1.0) for _ in range(8)))


BARE = Finished(
    id="engine-default", config=ServingConfig(), split="validate", status="ok", reason="",
    samples=Samples(), concurrency=16, wall_s=1.0, measured_at="",
)  # fmt: skip


def finished(**changes: object) -> Finished:
    return replace(BARE, **changes)  # type: ignore[arg-type]


def test_two_engines_of_one_configuration_in_turn_show_the_noise_pair_by_pair():
    other = Turn(samples=single(110, 220, 330))
    trial = finished(samples=single(100, 200, 300), in_turn={"engine-default-itself": other})
    noise = itself(trial, seed=0)
    assert noise["ttft_p50_ms"].ratio == pytest.approx(1 / 1.1)
    assert noise["tps_single"].ratio == pytest.approx(1.0)
    assert "memory_bytes" not in noise


def test_without_a_second_engine_nothing_is_known():
    assert itself(finished(samples=single(1, 2, 3)), seed=0) == {}


def test_single_halves_are_freed_of_their_questions_and_scaled_to_the_whole():
    # The second block asks twice as much of both sides; the default is 21 % slower in it.
    turn = Turn(samples=Samples(), single_blocks=(single(100, 110, 120), single(242, 266.2, 290.4, first=3)))  # fmt: skip
    winner = finished(single_blocks=(single(50, 55, 60), single(100, 110, 120, first=3)))
    found = halves(winner, turn, seed=0, known={})
    assert found["ttft_p50_ms"].ratio == pytest.approx(1 / 1.1)
    assert not found["ttft_p50_ms"].proven


def test_load_halves_are_scaled_by_the_root_of_two():
    turn = Turn(samples=Samples(), load_blocks=(loaded(121), loaded(100)))
    found = halves(finished(), turn, seed=0, known={})
    assert math.log(found["throughput_tps"].ratio) == pytest.approx(math.log(1.21) / math.sqrt(2))


def test_one_load_block_of_the_default_leaves_it_to_the_winners_two():
    turn = Turn(samples=Samples(), load_blocks=(loaded(100),))
    winner = finished(load_blocks=(loaded(100), loaded(121)))
    found = halves(winner, turn, seed=0, known={})
    assert math.log(found["throughput_tps"].ratio) == pytest.approx(-math.log(1.21) / math.sqrt(2))


def test_what_is_known_already_is_kept():
    known = {"throughput_tps": Ratio(ratio=1.02, lo=1, hi=1.04, proven=False)}
    turn = Turn(samples=Samples(), load_blocks=(loaded(121), loaded(100)))
    assert "throughput_tps" not in halves(finished(), turn, seed=0, known=known)


def test_the_band_reaches_as_far_down_as_up():
    assert band(Ratio(ratio=0.8, lo=0.7, hi=0.9, proven=True)) == pytest.approx((0.8, 1.25))
    assert band(Ratio(ratio=1.25, lo=1, hi=2, proven=False)) == pytest.approx((0.8, 1.25))


def test_a_study_with_room_compares_the_default_with_itself(tmp_path: Path):
    bed = make_bed(tmp_path, budget_s=1500.0)
    outcome = bed.run()
    assert outcome.default is not None
    assert {"ttft_p50_ms", "tps_single", "throughput_tps"} <= outcome.noise.keys()
    trial = bed.lab.store.trial("engine-default")
    assert trial is not None and "engine-default-itself" in trial.in_turn
