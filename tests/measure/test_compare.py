import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.core import MemoryUse, Metric, Ratio
from vivace.measure.bootstrap import t_quantile
from vivace.measure.compare import better, compare, worse
from vivace.measure.samples import Samples

SPEED: list[Metric] = ["ttft_p50_ms", "ttft_loaded_p50_ms", "tps_single", "throughput_tps"]


def lognormal(*, centre: float, count: int, seed: int, spread: float = 0.1) -> tuple[float, ...]:
    return tuple((centre * np.random.default_rng(seed).lognormal(0, spread, count)).tolist())


def singles(*, centre: float = 100, count: int = 12, seed: int = 0, spread: float = 0.1) -> Samples:
    values = lognormal(centre=centre, count=count, seed=seed, spread=spread)
    return Samples(single_ttft_ms=values)


def everything(scale: float, seed: int) -> Samples:
    values = lognormal(centre=scale, count=20, seed=seed)
    return Samples(
        single_ttft_ms=values,
        loaded_ttft_ms=values,
        single_tps=values,
        cycles=tuple((v, 1.0) for v in values),
    )


def memory(total: int) -> MemoryUse:
    return MemoryUse(total=total, weights=total, kv=0, other=0, reserved=0)


def memory_ratio(candidate: int, reference: int) -> Ratio | None:
    return compare(
        Samples(),
        Samples(),
        "memory_bytes",
        seed=1,
        candidate_memory=memory(candidate),
        reference_memory=memory(reference),
    )


@pytest.mark.parametrize("metric", SPEED)
def test_ratio_is_candidate_over_reference(metric: Metric):
    found = compare(everything(50, 1), everything(100, 2), metric, seed=1)
    assert found is not None
    assert found.lo < found.ratio < found.hi
    assert found.lo > 0.4 and found.hi < 0.6
    assert found.proven


def test_ratio_of_throughput_is_worked_out_by_hand():
    candidate = Samples(cycles=((30, 1), (30, 2), (60, 1)))  # 120 / 4 = 30
    reference = Samples(cycles=((10, 1), (14, 1)))  # 24 / 2 = 12
    found = compare(candidate, reference, "throughput_tps", seed=1)
    assert found is not None
    assert found.ratio == 2.5


def test_few_samples_use_welchs_t_on_the_log_ratio():
    candidate = Samples(single_ttft_ms=(100, 110))
    reference = Samples(single_ttft_ms=(200, 220, 210))
    found = compare(candidate, reference, "ttft_p50_ms", seed=1)
    assert found is not None
    # medians 105 and 210; squared errors of the logs (times pi / 2 for a median)
    one = math.pi / 2 * np.log([100, 110]).var(ddof=1) / 2
    two = math.pi / 2 * np.log([200, 220, 210]).var(ddof=1) / 3
    freedom = (one + two) ** 2 / (one**2 / 1 + two**2 / 2)
    assert 1 < freedom < 2  # so the t of one degree is taken
    factor = math.exp(12.7062 * math.sqrt(one + two))
    assert found.ratio == 0.5
    assert found.lo == pytest.approx(0.5 / factor)
    assert found.hi == pytest.approx(0.5 * factor)
    assert not found.proven


@pytest.mark.parametrize(("above", "below"), [(3, 5), (5, 3)])
def test_welchs_degrees_of_freedom_weigh_both_sides(above: int, below: int):
    one = np.array(lognormal(centre=100, count=above, seed=1, spread=0.3))
    two = np.array(lognormal(centre=100, count=below, seed=2, spread=0.2))
    found = compare(
        Samples(single_ttft_ms=tuple(one)),
        Samples(single_ttft_ms=tuple(two)),
        "ttft_p50_ms",
        seed=1,
    )
    errors = [math.pi / 2 * np.log(side).var(ddof=1) / len(side) for side in (one, two)]
    parts = [e**2 / (len(side) - 1) for e, side in zip(errors, (one, two), strict=True)]
    factor = math.exp(t_quantile(sum(errors) ** 2 / sum(parts)) * math.sqrt(sum(errors)))
    assert found is not None
    assert (found.lo, found.hi) == (
        pytest.approx(found.ratio / factor),
        pytest.approx(found.ratio * factor),
    )


def test_a_small_gain_is_proven_in_both_directions():
    slow, fast = singles(centre=120, count=40, seed=1), singles(centre=100, count=40, seed=2)
    for sides in ((slow, fast), (fast, slow)):
        found = compare(*sides, "ttft_p50_ms", seed=1)
        assert found is not None
        assert 0.7 < found.ratio < 1.4
        assert found.proven is True


@pytest.mark.parametrize(("above", "below"), [(5, 30), (30, 5)])
def test_the_smaller_side_decides_how_the_interval_is_made(above: int, below: int):
    one, two = singles(count=above, seed=1), singles(count=below, seed=2)
    assert compare(one, two, "ttft_p50_ms", seed=1) == compare(one, two, "ttft_p50_ms", seed=2)


def test_six_on_both_sides_are_resampled():
    one, two = singles(count=6, seed=1), singles(count=6, seed=2)
    assert compare(one, two, "ttft_p50_ms", seed=1) != compare(one, two, "ttft_p50_ms", seed=2)
    assert compare(one, two, "ttft_p50_ms", seed=1) == compare(one, two, "ttft_p50_ms", seed=1)


def test_equal_values_on_both_sides_need_no_spread():
    found = compare(
        Samples(single_ttft_ms=(50, 50)), Samples(single_ttft_ms=(100, 100)), "ttft_p50_ms", seed=1
    )
    assert found == Ratio(ratio=0.5, lo=0.5, hi=0.5, proven=True)


def test_a_side_against_itself_is_resampled_independently():
    found = compare(singles(), singles(), "ttft_p50_ms", seed=1)
    assert found is not None
    assert found.ratio == 1
    assert found.lo < 0.99 and found.hi > 1.01
    assert not found.proven


def test_intervals_of_a_ratio_hold_the_truth_in_95_of_100_cases():
    for count, other in ((3, 3), (3, 12), (8, 8)):
        hits = 0
        for seed in range(200):
            one = singles(centre=200, count=count, seed=2 * seed, spread=0.3)
            two = singles(centre=100, count=other, seed=2 * seed + 1, spread=0.3)
            found = compare(one, two, "ttft_p50_ms", seed=seed)
            assert found is not None
            hits += found.lo <= 2 <= found.hi
        assert 0.92 <= hits / 200 <= 0.995


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 100), st.sampled_from(SPEED))
def test_unit_of_both_sides_does_not_matter(scale: float, metric: Metric):
    found = compare(everything(30 * scale, 1), everything(20 * scale, 2), metric, seed=1)
    plain = compare(everything(30, 1), everything(20, 2), metric, seed=1)
    assert found is not None and plain is not None
    assert found.ratio == pytest.approx(plain.ratio)
    assert (found.lo, found.hi) == (pytest.approx(plain.lo), pytest.approx(plain.hi))


def test_sides_exchanged_give_the_inverse_where_nothing_is_drawn():
    one, two = Samples(single_ttft_ms=(100, 130)), Samples(single_ttft_ms=(190, 200, 230))
    there = compare(one, two, "ttft_p50_ms", seed=1)
    back = compare(two, one, "ttft_p50_ms", seed=1)
    assert there is not None and back is not None
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert (there.lo, there.hi) == (pytest.approx(1 / back.hi), pytest.approx(1 / back.lo))


def test_one_sample_gives_a_ratio_that_proves_nothing():
    one, many = Samples(single_ttft_ms=(10,)), singles()
    for sides in ((one, many), (many, one), (one, one)):
        found = compare(*sides, "ttft_p50_ms", seed=1)
        assert found is not None
        assert found == Ratio(ratio=found.ratio, lo=found.ratio, hi=found.ratio, proven=False)


@pytest.mark.parametrize("metric", SPEED)
def test_what_was_not_measured_on_one_side_has_no_ratio(metric: Metric):
    assert compare(everything(1, 1), Samples(), metric, seed=1) is None
    assert compare(Samples(), everything(1, 1), metric, seed=1) is None


def test_nothing_produced_has_no_ratio():
    some, none = Samples(cycles=((10, 1), (20, 1))), Samples(cycles=((0, 1), (0, 1)))
    assert compare(some, none, "throughput_tps", seed=1) is None
    assert compare(none, some, "throughput_tps", seed=1) is None


@pytest.mark.parametrize("rare_side", ["candidate", "reference"])
def test_resamples_without_a_token_fall_back_to_the_logarithm(rare_side: str):
    rare = Samples(cycles=((50, 1), *((0, 1) for _ in range(8))))
    full = Samples(cycles=tuple((10 + i, 1.0) for i in range(9)))
    sides = (rare, full) if rare_side == "candidate" else (full, rare)
    found = compare(*sides, "throughput_tps", seed=1)
    assert found is not None
    assert 0 < found.lo < found.ratio < found.hi < math.inf
    assert found == compare(*sides, "throughput_tps", seed=2)


def queued(*, served: float, waiting: tuple[float, ...]) -> Samples:
    values = lognormal(centre=served, count=12, seed=3)
    return Samples(loaded_ttft_ms=values, loaded_waiting_ms=waiting)


def test_a_lower_bound_proves_in_one_direction_only():
    stuck = queued(served=1000, waiting=tuple(5000.0 + i for i in range(20)))
    fast, slow = queued(served=100, waiting=()), queued(served=90_000, waiting=())
    metric: Metric = "ttft_loaded_p50_ms"
    for other, proven_over_stuck, proven_under_stuck in ((fast, True, True), (slow, False, False)):
        over = compare(other, stuck, metric, seed=1)
        under = compare(stuck, other, metric, seed=1)
        assert over is not None and under is not None
        assert over.hi < 1 or over.lo > 1
        assert under.hi < 1 or under.lo > 1
        assert (over.proven, under.proven) == (proven_over_stuck, proven_under_stuck)


def test_an_interval_that_touches_one_proves_nothing():
    same = Samples(single_ttft_ms=(100, 100))
    assert compare(same, same, "ttft_p50_ms", seed=1) == Ratio(ratio=1, lo=1, hi=1, proven=False)


@pytest.mark.parametrize(
    ("total", "proven"), [(1021, True), (1020, False), (1000, False), (980, False), (979, True)]
)
def test_memory_counts_from_two_percent_on(total: int, proven: bool):
    ratio = total / 1000
    assert memory_ratio(total, 1000) == Ratio(ratio=ratio, lo=ratio, hi=ratio, proven=proven)


def test_memory_without_both_readings_has_no_ratio():
    one = memory(1)
    empty = Samples()
    assert compare(empty, empty, "memory_bytes", seed=1, candidate_memory=one) is None
    assert compare(empty, empty, "memory_bytes", seed=1, reference_memory=one) is None
    assert memory_ratio(1, 0) is None
    assert memory_ratio(0, 1) is None


@pytest.mark.parametrize(
    ("metric", "ratio", "proven", "is_better", "is_worse"),
    [
        ("ttft_p50_ms", 0.5, True, True, False),
        ("ttft_p50_ms", 2.0, True, False, True),
        ("ttft_p50_ms", 0.5, False, False, False),
        ("ttft_p50_ms", 2.0, False, False, False),
        ("tps_single", 2.0, True, True, False),
        ("tps_single", 0.5, True, False, True),
        ("throughput_tps", 2.0, False, False, False),
        ("memory_bytes", 0.9, True, True, False),
        ("memory_bytes", 1.1, True, False, True),
    ],
)
def test_better_and_worse_need_proof_and_follow_the_direction(
    metric: Metric, ratio: float, proven: bool, is_better: bool, is_worse: bool
):
    found = Ratio(ratio=ratio, lo=ratio, hi=ratio, proven=proven)
    assert better(metric, found) is is_better
    assert worse(metric, found) is is_worse


def test_one_cycle_of_a_load_has_no_spread_to_judge_by():
    one, more = Samples(cycles=((64.0, 1.0),)), Samples(cycles=((64.0, 2.0),))
    ratio = compare(one, more, "throughput_tps", seed=0)
    assert ratio is not None
    assert (ratio.ratio, ratio.lo, ratio.hi, ratio.proven) == (2.0, 2.0, 2.0, False)
