"""Estimates of how long trials take, worked out by hand."""

from dataclasses import replace

import pytest

from vivace.core import ServingConfig
from vivace.study.pace import Pace, follows, takes_load_turns

PACE = Pace(
    window_s=20.0, prefill_tps=200.0, decode_tps=32.0, smaller_gain=2.0, prompt_tokens=1000,
    output_tokens=64, new_tokens=20,
)  # fmt: skip
COLD = ServingConfig(weights="F16", slots=1, prefix_cache=False)
CACHED = replace(COLD, prefix_cache=True)
SMALL = replace(CACHED, weights="source")


def test_one_request_is_its_prompt_and_its_answer():
    assert PACE.request_s(COLD) == pytest.approx(5 + 2)
    assert PACE.request_s(CACHED) == pytest.approx(0.1 + 2)
    assert PACE.request_s(SMALL) == pytest.approx(0.1 + 1)


def test_warming_reads_the_prompt_once_each_time_or_not_at_all():
    # A start, three prompts and three answers of 8 tokens at 32 (64) a second.
    assert PACE.warm_s(COLD) == pytest.approx(2 + 3 * 5 + 0.75)
    assert PACE.warm_s(CACHED) == pytest.approx(2 + 5 + 2 * 0.1 + 0.75)
    assert PACE.warm_s(replace(CACHED, warm_prefix=True)) == pytest.approx(2 + 3 * 0.1 + 0.75)


def test_seconds_for_a_request_are_slow():
    assert PACE.slow(COLD)
    assert not PACE.slow(CACHED)


def test_a_slow_trial_has_one_single_block_and_the_others_two():
    without_load = PACE.warm_s(COLD) + 3 * 7
    assert PACE.trial_s(COLD, loaded=False) == pytest.approx(without_load)
    assert PACE.trial_s(CACHED, loaded=False) == pytest.approx(PACE.warm_s(CACHED) + 6 * 2.1)


def test_a_reference_adds_its_blocks_and_load_turns_only_between_several_slots():
    alone = PACE.trial_s(SMALL)
    assert PACE.trial_s(SMALL, reference=CACHED) == pytest.approx(alone + 6 * 2.1)
    wide = replace(SMALL, slots=8)
    assert takes_load_turns(wide, wide)
    assert not takes_load_turns(wide, SMALL)
    in_turn = PACE.warm_s(wide) + 12 * 1.1 + PACE.warm_slots_s(wide) + 3 * PACE.load_s(wide, 10.0)
    assert PACE.trial_s(wide, reference=wide) == pytest.approx(in_turn)


def test_each_cold_slot_reads_the_prompt_before_the_load():
    wide = replace(SMALL, slots=8)
    assert PACE.warm_slots_s(SMALL) == 0
    assert PACE.warm_slots_s(wide) == pytest.approx(7 * 5 + 1.1 + 4)
    assert PACE.warm_slots_s(replace(wide, warm_prefix=True)) == pytest.approx(1.1 + 4)
    assert PACE.warm_slots_s(ServingConfig()) == pytest.approx(3 * 5 + 1.1 + 4)


def test_between_single_slots_the_load_follows_from_one_request():
    wide = replace(SMALL, slots=8)
    assert follows(SMALL, CACHED, level=16)
    assert follows(SMALL, None, level=16)
    assert not follows(SMALL, wide, level=16)
    assert not follows(wide, SMALL, level=16)
    assert follows(wide, SMALL, level=1)


def test_scoring_takes_as_long_as_the_machine_is_slow():
    assert PACE.learn(prefill_tps=None, decode_tps=35.0).quality_s == pytest.approx(10)
    assert PACE.learn(prefill_tps=None, decode_tps=None).quality_s == pytest.approx(
        350 / PACE.decode_tps
    )
    assert PACE.learn(prefill_tps=99.0, decode_tps=None).prefill_tps == 99


def test_a_surprise_lengthens_estimates_up_to_twice_and_fades():
    late = PACE.surprised(expected_s=10, took_s=15)
    assert late.slowness == pytest.approx(1.5)
    assert late.trial_s(SMALL) == pytest.approx(1.5 * PACE.trial_s(SMALL))
    assert PACE.surprised(expected_s=10, took_s=50).slowness == 2.0
    assert late.surprised(expected_s=10, took_s=10).slowness == pytest.approx(1.25)
    assert PACE.surprised(expected_s=10, took_s=5).slowness == 1.0


def test_quality_is_not_stretched_by_slowness():
    slow = replace(PACE, slowness=2.0, quality_s=7.0)
    assert slow.trial_s(SMALL, quality=True) == pytest.approx(slow.trial_s(SMALL) + 7)
