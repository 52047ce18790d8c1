"""Two configurations side by side: the ratio of a metric with its interval."""

import math

import numpy as np

from vivace.core import LOWER_IS_BETTER, MemoryUse, Metric, Ratio
from vivace.measure.bootstrap import (
    CONFIDENCE,
    LogError,
    central_range,
    independent_rows,
    log_error,
    resample,
    t_quantile,
)
from vivace.measure.estimate import lower_bound_reason
from vivace.measure.metrics import definition
from vivace.measure.paired import paired_interval, paired_logs
from vivace.measure.percentile import Array
from vivace.measure.samples import Samples
from vivace.measure.statistic import Statistic


def compare(
    candidate: Samples,
    reference: Samples,
    metric: Metric,
    *,
    seed: int,
    confidence: float = CONFIDENCE,
    candidate_memory: MemoryUse | None = None,
    reference_memory: MemoryUse | None = None,
) -> Ratio | None:
    """Candidate / reference of one metric; `None` when either was not measured or is zero.

    Requests that both answered alone are compared pair by pair; else both sides are resampled
    independently of each other.
    """
    if metric == "memory_bytes":
        return _compare_memory(candidate_memory, reference_memory)
    pairs = paired_logs(candidate, reference, metric)
    if pairs is not None:
        ratio, lo, hi = paired_interval(pairs, confidence=confidence)
        return Ratio(ratio=ratio, lo=lo, hi=hi, proven=lo > 1 or hi < 1)
    statistic = definition(metric).statistic
    above = definition(metric).rows(candidate)
    below = definition(metric).rows(reference)
    if not len(above) or not len(below):
        return None
    top, bottom = float(statistic.of(above)), float(statistic.of(below))
    if top <= 0 or bottom <= 0:
        return None
    ratio = top / bottom
    rng = np.random.default_rng(seed)
    ends = _interval(statistic, above, below, ratio=ratio, rng=rng, confidence=confidence)
    if ends is None:
        return Ratio(ratio=ratio, lo=ratio, hi=ratio, proven=False)
    lo, hi = ends
    # A side known only as a lower bound proves a difference in one direction.
    larger = lo > 1 and not lower_bound_reason(reference, metric)
    smaller = hi < 1 and not lower_bound_reason(candidate, metric)
    return Ratio(ratio=ratio, lo=lo, hi=hi, proven=larger or smaller)


def better(metric: Metric, ratio: Ratio) -> bool:
    """The candidate is proven to be better in this metric."""
    return ratio.proven and (ratio.ratio < 1 if metric in LOWER_IS_BETTER else ratio.ratio > 1)


def worse(metric: Metric, ratio: Ratio) -> bool:
    """The candidate is proven to be worse in this metric."""
    return ratio.proven and not better(metric, ratio)


def _compare_memory(candidate: MemoryUse | None, reference: MemoryUse | None) -> Ratio | None:
    """Single readings: no interval; a difference of more than 2 % counts as proven."""
    if candidate is None or reference is None or not candidate.total or not reference.total:
        return None
    ratio = candidate.total / reference.total
    proven = 50 * abs(candidate.total - reference.total) > reference.total
    return Ratio(ratio=ratio, lo=ratio, hi=ratio, proven=proven)


def _interval(
    statistic: Statistic,
    above: Array,
    below: Array,
    *,
    ratio: float,
    rng: np.random.Generator,
    confidence: float,
) -> tuple[float, float] | None:
    """`None` where one side has no spread to judge by."""
    fewest = min(len(above), len(below))
    if fewest >= statistic.few:
        tops = resample(statistic, above, rng=rng)
        bottoms = resample(statistic, below, rng=rng)
        if tops.min() > 0 and bottoms.min() > 0:
            independent = independent_rows(statistic, fewest)
            return central_range(tops / bottoms, independent=independent, confidence=confidence)
    errors = log_error(statistic, above), log_error(statistic, below)
    return _welch(*errors, ratio=ratio, confidence=confidence)


def _welch(
    above: LogError | None, below: LogError | None, *, ratio: float, confidence: float
) -> tuple[float, float] | None:
    """Student's t on the log ratio with Welch's degrees of freedom."""
    if above is None or below is None:
        return None
    variance = above.error**2 + below.error**2
    spread = above.error**4 / above.freedom + below.error**4 / below.freedom
    freedom = variance**2 / spread if spread else math.inf
    factor = math.exp(t_quantile(freedom, confidence) * math.sqrt(variance))
    return ratio / factor, ratio * factor
