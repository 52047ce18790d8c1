"""Samples -> one number with its 95 % interval, or the reason why there is none."""

import math

import numpy as np

from vivace.core import Estimate
from vivace.measure.bootstrap import bootstrap_interval
from vivace.measure.metrics import Definition, definition
from vivace.measure.samples import Samples
from vivace.measure.statistic import RATIO_OF_SUMS

#: Below this mean share of requests in flight the window was not steady.
STEADY_SHARE = 0.9


def estimate(samples: Samples, tag: str, *, seed: int) -> Estimate:
    """The metric `tag` of these samples. Equal samples and seed give equal ends."""
    metric = definition(tag)
    rows = metric.rows(samples)
    interval = bootstrap_interval(metric.statistic, rows, rng=np.random.default_rng(seed))
    if interval is None:
        return Estimate(value=None, reason=_absent(samples, metric.absent))
    value = float(metric.statistic.of(rows))
    bound = lower_bound_reason(samples, tag)
    return Estimate(
        value=value,
        lo=interval.lo,
        hi=None if bound else interval.hi,
        n=len(rows),
        reason=bound or interval.reason or _unsteady(samples, metric),
    )


def lower_bound_reason(samples: Samples, tag: str) -> str:
    """Why the metric is only a lower bound: its percentile lies among requests still waiting."""
    metric = definition(tag)
    rows = metric.rows(samples)
    waits = rows[:, 1] > 0
    if metric.statistic is RATIO_OF_SUMS or not waits.any():
        return ""
    longest_served = rows[~waits, 0].max(initial=-math.inf)
    if float(metric.statistic.of(rows)) <= longest_served:
        return ""
    return (
        f"lower bound: {int(waits.sum())} of {len(rows)} requests"
        " had no first token when the window ended"
    )


def _unsteady(samples: Samples, metric: Definition) -> str:
    share = samples.in_flight_share
    if metric.statistic is not RATIO_OF_SUMS or share is None or share >= STEADY_SHARE:
        return ""
    return f"only {share:.0%} of the concurrent requests were in flight"


def _absent(samples: Samples, reason: str) -> str:
    if not samples.failed:
        return reason
    return f"{reason}: {samples.failed} of {samples.sent} requests failed"
