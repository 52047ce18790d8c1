import math
from collections.abc import Callable

import numpy as np
import pytest

from measure.build import seen
from vivace.measure.bootstrap import (
    Interval,
    LogError,
    bootstrap_interval,
    central_range,
    independent_rows,
    log_error,
    resample,
    t_quantile,
)
from vivace.measure.percentile import Array
from vivace.measure.statistic import RATIO_OF_SUMS, Statistic, percentile_of

MEDIAN = percentile_of(50)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def interval(statistic: Statistic, rows: Array, *, seed: int = 0) -> Interval:
    found = bootstrap_interval(statistic, rows, rng=rng(seed))
    assert found is not None
    return found


def covered(
    statistic: Statistic, draw: Callable[[np.random.Generator], Array], truth: float
) -> float:
    """Share of 300 simulated intervals that hold the truth."""
    source = rng(7)
    hits = 0
    for _ in range(300):
        found = bootstrap_interval(statistic, draw(source), rng=source, resamples=400)
        assert found is not None and found.lo is not None and found.hi is not None
        hits += found.lo <= truth <= found.hi
    return hits / 300


@pytest.mark.parametrize("confidence", [0.95, 0.975, 0.9875, 0.99])
@pytest.mark.parametrize("freedom", [*range(1, 41), 100])
def test_t_is_the_quantile_of_students_distribution(freedom: int, confidence: float):
    x = np.linspace(0, t_quantile(freedom, confidence), 40001)
    log_scale = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    scale = math.exp(log_scale) / math.sqrt(freedom * math.pi)
    density = scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    middle = 2 * float(((density[1:] + density[:-1]) / 2 * np.diff(x)).sum())
    assert middle == pytest.approx(confidence, abs=1e-4)


def test_t_falls_with_the_degrees_of_freedom_and_ends_at_the_normal():
    values = [t_quantile(f) for f in (0.9, 1, 1.9, 2, 2.4, 3, 7.5, 30, 1e6, math.inf)]
    assert values == sorted(values, reverse=True)
    assert t_quantile(0.9) == t_quantile(1)
    assert t_quantile(math.inf) == pytest.approx(1.959964, abs=1e-6)


def test_no_rows_have_no_interval():
    assert bootstrap_interval(MEDIAN, np.empty((0, 2)), rng=rng()) is None


def test_one_row_has_no_interval_and_says_so():
    assert interval(MEDIAN, seen(5)) == Interval(reason="one sample: no interval")


def test_two_values_use_students_t_on_the_logarithm():
    # 100 and 400: the log's standard deviation is ln 4 / sqrt 2, its standard error ln 4 / 2,
    # times 1.2533 for a median and 12.706 for one degree of freedom; the median is 250.
    found = interval(MEDIAN, seen(100, 400))
    factor = math.exp(12.706205 * math.sqrt(math.pi / 2) * math.log(4) / 2)
    assert found.lo == pytest.approx(250 / factor)
    assert found.hi == pytest.approx(250 * factor)
    assert found.reason == ""


def test_few_pairs_use_the_jackknife():
    # 10/1, 20/1, 30/2: ratio 15; without each: 50/3, 40/3, 15. Influence 2 * (1 - without / 15).
    rows = np.array([(10.0, 1), (20, 1), (30, 2)])
    influence = np.array([2 * (1 - 50 / 45), 2 * (1 - 40 / 45), 0])
    assert RATIO_OF_SUMS.influence(rows) == pytest.approx(influence)
    error = influence.std(ddof=1) / math.sqrt(3)
    found = log_error(RATIO_OF_SUMS, rows)
    assert found == LogError(error=pytest.approx(error), freedom=2)
    assert interval(RATIO_OF_SUMS, rows).hi == pytest.approx(15 * math.exp(4.30265 * error))


def test_values_without_a_logarithm_have_no_small_interval():
    nothing = Interval(reason="3 samples without a logarithm: no interval")
    assert interval(MEDIAN, seen(0, 1, 2)) == nothing
    assert interval(RATIO_OF_SUMS, np.array([(0.0, 1), (0, 2), (0, 3)])) == nothing


def test_a_percentile_knows_how_many_samples_reach_its_interval():
    # 0.5^6 = 1.6 % and 0.95^72 = 2.49 % are at most 2.5 %, 0.5^5 and 0.95^71 are not
    assert percentile_of(50).few == 6
    assert percentile_of(95).few == percentile_of(5).few == 72


def test_a_percentile_takes_rows_with_a_mark_as_lower_bounds():
    rows = np.array([(10.0, 0), (20, 0), (30, 0), (15, 1)])
    assert float(percentile_of(50).of(rows)) == pytest.approx(20 + 10 / 3)
    rows[:, 1] = 0
    assert float(percentile_of(50).of(rows)) == 17.5


def test_standard_error_of_a_percentile_is_that_of_a_log_normal_sample():
    # sqrt(q (1 - q)) / normal density at the quantile: 1.2533 for a median, 2.1132 at 95 %
    rows = seen(1, math.e)
    assert np.ptp(percentile_of(50).influence(rows)) == pytest.approx(1.2533, abs=1e-4)
    assert np.ptp(percentile_of(95).influence(rows)) == pytest.approx(2.1132, abs=1e-4)
    assert len(percentile_of(50).influence(seen(0, 1, 2))) == 0


def test_number_of_resamples_is_what_was_asked_for():
    rows = np.column_stack([np.arange(10.0, 50), np.ones(40)])
    few = bootstrap_interval(RATIO_OF_SUMS, rows, rng=rng(), resamples=10)
    drawn = resample(RATIO_OF_SUMS, rows, rng=rng(), resamples=10)
    lo, hi = central_range(drawn, independent=independent_rows(RATIO_OF_SUMS, 40))
    assert few == Interval(lo=lo, hi=hi)


def test_waiting_requests_say_nothing_of_the_spread():
    served = log_error(MEDIAN, seen(10, 20, 40))
    with_waiting = log_error(MEDIAN, np.array([(10.0, 0), (20, 0), (40, 0), (0.001, 1)]))
    assert served is not None
    assert served == with_waiting
    assert served.freedom == 2
    assert log_error(MEDIAN, np.array([(10.0, 0), (20, 1)])) is None


@pytest.mark.parametrize(
    ("statistic", "few"), [(MEDIAN, 6), (percentile_of(95), 72), (RATIO_OF_SUMS, 8)]
)
def test_resampling_starts_where_the_samples_reach_far_enough(statistic: Statistic, few: int):
    values = rng().lognormal(size=(few, 1))
    rows = np.hstack([values, np.full((few, 1), 1.0 if statistic is RATIO_OF_SUMS else 0.0)])
    drawn = resample(statistic, rows, rng=rng())
    lo, hi = central_range(drawn, independent=independent_rows(statistic, few))
    assert interval(statistic, rows) == Interval(lo=lo, hi=hi)
    fewer = interval(statistic, rows[1:])
    spread = log_error(statistic, rows[1:])
    assert fewer.hi is not None and spread is not None
    value = float(statistic.of(rows[1:]))
    assert math.log(fewer.hi / value) == pytest.approx(t_quantile(few - 2) * spread.error)


def test_equal_seeds_draw_the_same():
    rows = seen(*rng().lognormal(size=30))
    drawn = resample(MEDIAN, rows, rng=rng(4)).tolist()
    assert drawn == resample(MEDIAN, rows, rng=rng(4)).tolist()
    assert drawn != resample(MEDIAN, rows, rng=rng(5)).tolist()
    assert len(drawn) == 2000


def test_resampling_in_batches_draws_the_same(monkeypatch: pytest.MonkeyPatch):
    rows = np.column_stack([rng().lognormal(size=30), np.ones(30)])
    whole = resample(RATIO_OF_SUMS, rows, rng=rng(1), resamples=50)
    monkeypatch.setattr("vivace.measure.bootstrap._BATCH", 30 * 7)
    assert resample(RATIO_OF_SUMS, rows, rng=rng(1), resamples=50).tolist() == whole.tolist()
    monkeypatch.setattr("vivace.measure.bootstrap._BATCH", 1)
    assert resample(RATIO_OF_SUMS, rows, rng=rng(1), resamples=50).tolist() == whole.tolist()


def test_rows_in_order_are_drawn_in_circular_blocks():
    # 27 rows: blocks of 3. Each resample of the identity shows which rows were drawn.
    drawn: list[Array] = []

    def keep(rows: Array) -> Array:
        drawn.append(rows)
        return rows[..., 0].sum(axis=-1)

    statistic = Statistic(of=keep, influence=lambda rows: rows[:, 0], few=8, in_order=True)
    rows = np.column_stack([np.arange(27.0), np.ones(27)])
    found = resample(statistic, rows, rng=rng(), resamples=300)
    assert found.shape == (300,)
    blocks = np.concatenate(drawn)[..., 0].reshape(300, 9, 3)
    assert (np.diff(blocks, axis=-1) % 27 == 1).all()
    assert set(blocks[..., 0].ravel()) == set(range(27))
    assert independent_rows(statistic, 27) == 9


def test_a_last_block_is_cut_to_the_number_of_rows():
    sizes: list[int] = []

    def keep(rows: Array) -> Array:
        sizes.append(rows.shape[1])
        return rows[..., 0].sum(axis=-1)

    statistic = Statistic(of=keep, influence=lambda rows: rows[:, 0], few=8, in_order=True)
    resample(statistic, np.ones((10, 2)), rng=rng(), resamples=5)
    assert sizes == [10]


def test_rows_without_an_order_are_drawn_one_by_one():
    assert independent_rows(MEDIAN, 27) == 27


def test_tails_are_expanded_for_few_rows():
    # 5 rows: t = 2.776, times sqrt(5 / 4) = 3.1037, beyond which lie 0.0956 % of a normal.
    values = np.arange(100_001.0)
    lo, hi = central_range(values, independent=5)
    assert lo == pytest.approx(95.6, abs=0.3)
    assert hi == pytest.approx(100_000 - 95.6, abs=0.3)
    lo, hi = central_range(values, independent=1e9)
    assert (lo, hi) == (pytest.approx(2500, abs=0.1), pytest.approx(97_500, abs=0.1))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 12])
def test_intervals_of_a_median_hold_the_truth_in_95_of_100_cases(count: int):
    # A percentile bootstrap of 2, 3 and 4 values holds it in 50, 75 and 87.5 of 100.
    share = covered(MEDIAN, lambda g: seen(*g.lognormal(0, 0.4, size=count)), 1.0)
    assert 0.925 <= share <= 1


@pytest.mark.parametrize("count", [4, 20])
def test_intervals_of_a_95th_percentile_hold_the_truth(count: int):
    # A bootstrap of 20 values holds it in 60 of 100 cases: it never leaves their range.
    truth = math.exp(0.4 * 1.6449)
    share = covered(percentile_of(95), lambda g: seen(*g.lognormal(0, 0.4, size=count)), truth)
    assert 0.87 <= share <= 0.98


@pytest.mark.parametrize("count", [3, 7, 8, 40])
def test_intervals_of_a_throughput_hold_the_truth(count: int):
    def draw(source: np.random.Generator) -> Array:
        seconds = 4 * source.lognormal(0, 0.1, size=count)
        tokens = 40 * source.lognormal(0, 0.05, size=count) / math.exp(0.05**2 / 2)
        return np.column_stack([tokens, seconds])

    truth = 10 / math.exp(0.1**2 / 2)
    assert 0.92 <= covered(RATIO_OF_SUMS, draw, truth) <= 0.985


def test_related_neighbours_widen_the_interval():
    # Blocks of 4 see slow waves that single rows would not.
    wave = 10 + 3 * np.sign(np.sin(2 * np.pi * (np.arange(80) + 0.5) / 16))
    rows = np.column_stack([wave, np.ones(80)])
    shuffled = rng(2).permutation(rows)
    ordered = interval(RATIO_OF_SUMS, rows)
    mixed = interval(RATIO_OF_SUMS, shuffled)
    assert ordered.lo and ordered.hi and mixed.lo and mixed.hi
    assert ordered.hi - ordered.lo > 1.4 * (mixed.hi - mixed.lo)
