"""What may be claimed: corrected for several metrics, and never inside the noise."""

from dataclasses import replace

from vivace.core import MemoryUse, Ratio, ServingConfig
from vivace.measure.samples import Samples
from vivace.study.claims import claims
from vivace.study.finished import DRIFT, Finished, Turn, ratios

IDS = tuple(f"q{n}" for n in range(6))


def finished(*ttft_ms: float, memory: int = 100) -> Finished:
    use = MemoryUse(total=memory, weights=0, kv=0, other=memory, reserved=0)
    samples = Samples(single_ttft_ms=ttft_ms, single_ids=IDS, single_tps=(50.0,) * 6)
    return Finished(
        id="t", config=ServingConfig(), split="validate", status="ok", reason="", samples=samples,
        concurrency=16, wall_s=1.0, measured_at="", memory=use,
    )  # fmt: skip


DEFAULT = finished(100, 100, 100, 100, 100, 100)


def in_turn(*ttft_ms: float, memory: int = 100) -> Finished:
    turn = Turn(samples=DEFAULT.samples)
    return replace(finished(*ttft_ms, memory=memory), in_turn={DEFAULT.id: turn})


def test_a_clear_gain_is_claimed_with_its_plain_interval():
    winner = in_turn(80, 81, 79, 80, 81, 79)
    found = claims(winner, DEFAULT, seed=0, noise={})
    assert found["ttft_p50_ms"].proven
    assert found["ttft_p50_ms"] == ratios(winner, DEFAULT, seed=0)["ttft_p50_ms"]


def test_what_one_metric_alone_would_prove_is_not_enough_among_four():
    # Pairs with mean log -0.05 and standard error 0.0167: t = 3.0, between 2.57 (5 %) and 3.85.
    logs = (0.955, 0.99, 0.925, 0.915, 1.0, 0.925)
    winner = in_turn(*(100 * x for x in logs))
    plain = ratios(winner, DEFAULT, seed=0)["ttft_p50_ms"]
    found = claims(winner, DEFAULT, seed=0, noise={})["ttft_p50_ms"]
    assert plain.proven
    assert not found.proven
    assert (found.lo, found.hi) == (plain.lo, plain.hi)


def test_a_gain_inside_the_noise_band_is_not_claimed():
    winner = in_turn(80, 81, 79, 80, 81, 79)
    band = Ratio(ratio=1.3, lo=1.0, hi=1.6, proven=False)
    assert not claims(winner, DEFAULT, seed=0, noise={"ttft_p50_ms": band})["ttft_p50_ms"].proven
    narrow = replace(band, ratio=1.2)
    assert claims(winner, DEFAULT, seed=0, noise={"ttft_p50_ms": narrow})["ttft_p50_ms"].proven


def test_memory_is_a_reading_and_needs_no_interval():
    less = finished(100, 100, 100, 100, 100, 100, memory=90)
    assert claims(less, DEFAULT, seed=0, noise={})["memory_bytes"].proven


def test_what_was_not_measured_in_turn_knows_no_better_than_the_machine_drifts():
    values = (80.0, 81.0, 79.0, 80.0, 81.0, 79.0)
    together = ratios(in_turn(*values), DEFAULT, seed=0)["ttft_p50_ms"]
    apart = ratios(finished(*values), DEFAULT, seed=0)["ttft_p50_ms"]
    assert together.proven
    assert apart.ratio == together.ratio
    assert (apart.lo, apart.hi) == (together.lo / DRIFT, together.hi * DRIFT)
    assert not apart.proven
    assert ratios(finished(*(v / 2 for v in values)), DEFAULT, seed=0)["ttft_p50_ms"].proven
    assert ratios(finished(*values, memory=90), DEFAULT, seed=0)["memory_bytes"].proven


def test_what_others_took_of_the_cpu_widens_the_interval_on_either_side():
    values = (80.0, 81.0, 79.0, 80.0, 81.0, 79.0)
    calm = ratios(in_turn(*values), DEFAULT, seed=0)["ttft_p50_ms"]
    for disturbed in (
        replace(in_turn(*values), foreign_shares=(0.0, 0.5)),
        replace(in_turn(*values), in_turn={DEFAULT.id: Turn(samples=DEFAULT.samples, foreign_shares=(0.5,))}),
    ):  # fmt: skip
        wide = ratios(disturbed, DEFAULT, seed=0)["ttft_p50_ms"]
        assert (wide.ratio, wide.lo, wide.hi) == (calm.ratio, calm.lo / 2, calm.hi * 2)
        assert calm.proven and not wide.proven
    quiet = replace(in_turn(*values), foreign_shares=(0.1,))
    assert ratios(quiet, DEFAULT, seed=0)["ttft_p50_ms"] == calm
    assert ratios(disturbed, DEFAULT, seed=0)["memory_bytes"].lo == 1.0
