"""Intervals by resampling, and what stands in for it when there is too little to resample."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from vivace.measure.percentile import Array
from vivace.measure.statistic import Statistic

RESAMPLES = 2000
#: Most numbers of one batch of resamples, to bound memory.
_BATCH = 1_000_000

CONFIDENCE = 0.95
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An interval; both ends `None` with a reason where there is none."""

    lo: float | None = None
    hi: float | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class LogError:
    """Standard error of a statistic's logarithm, with its degrees of freedom."""

    error: float
    freedom: int


def bootstrap_interval(
    statistic: Statistic, rows: Array, *, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Interval | None:
    """95 % interval of `statistic` of `rows` (n, 2); `None` without rows.

    Percentile bootstrap. Below `statistic.few` rows, where no resample leaves the short range
    of what is there: Student's t on the logarithm, as for log-normal values.
    """
    count = len(rows)
    if count == 0:
        return None
    if count == 1:
        return Interval(reason="one sample: no interval")
    if count >= statistic.few:
        lo, hi = central_range(
            resample(statistic, rows, rng=rng, resamples=resamples),
            independent=independent_rows(statistic, count),
        )
        return Interval(lo=lo, hi=hi)
    spread = log_error(statistic, rows)
    if spread is None:
        return Interval(reason=f"{count} samples without a logarithm: no interval")
    factor = math.exp(t_quantile(spread.freedom) * spread.error)
    value = float(statistic.of(rows))
    return Interval(lo=value / factor, hi=value * factor)


def resample(
    statistic: Statistic, rows: Array, *, rng: np.random.Generator, resamples: int = RESAMPLES
) -> Array:
    """The statistic of `resamples` data sets drawn from `rows` with replacement.

    Rows in order are drawn in circular blocks (Politis & Romano 1992) of n^(1/3) rows.
    """
    count, block = len(rows), _block(statistic, len(rows))
    starts = rng.integers(count, size=(resamples, math.ceil(count / block)))
    step = max(1, _BATCH // count)
    parts: list[Array] = []
    for begin in range(0, resamples, step):
        picked = starts[begin : begin + step, :, None] + np.arange(block)
        picked = picked.reshape(len(picked), -1)[:, :count] % count
        parts.append(statistic.of(rows[picked]))
    return np.concatenate(parts)


def independent_rows(statistic: Statistic, count: int) -> float:
    """How many of the rows are resampled independently of each other."""
    return count / _block(statistic, count)


def central_range(
    values: Array, *, independent: float, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """The middle of bootstrap values, tails expanded for few `independent` rows.

    A bootstrap of n rows spreads too little by sqrt((n - 1) / n) and has the normal's tails, not
    Student's; quantiles further out repair both (Hesterberg 2015, expanded percentile interval).
    """
    far = t_quantile(independent - 1, confidence) * math.sqrt(independent / (independent - 1))
    tail = 100 * _NORMAL.cdf(-far)
    lo, hi = np.percentile(values, [tail, 100 - tail])
    return float(lo), float(hi)


def log_error(statistic: Statistic, rows: Array) -> LogError | None:
    """From the influence of each row; `None` where fewer than two rows have one."""
    if len(rows) < 2:
        return None
    influence = statistic.influence(rows)
    count = len(influence)
    if count < 2:
        return None
    return LogError(error=float(influence.std(ddof=1)) / math.sqrt(count), freedom=count - 1)


def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """How many standard errors the middle `confidence` of Student's t reaches to each side.

    Hill 1970, "Algorithm 396: Student's t-quantiles": within 0.1 % from 1 degree of freedom on;
    fewer count as 1.
    """
    n, p = max(1.0, freedom), 1 - confidence
    if n < 2:
        # Between 1 and 2 the approximation is poor; the smaller has the wider interval.
        return 1 / math.tan(p * math.pi / 2)
    if n == 2:
        return math.sqrt(2 / (p * (2 - p)) - 2)
    if math.isinf(n):
        return _NORMAL.inv_cdf(1 - p / 2)
    a = 1 / (n - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * math.sqrt(a * math.pi / 2) * n
    y = (d * p) ** (2 / n)
    if y > 0.05 + a:
        x = _NORMAL.inv_cdf(p / 2)
        y = x * x
        if n < 5:
            c += 0.3 * (n - 4.5) * (x + 0.6)
        c += (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b
        y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
        y = math.expm1(a * y * y)
    else:
        y = (1 / (((n + 6) / (n * y) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * y - 1
        y = y * (n + 1) / (n + 2) + 1 / ((d * p) ** (2 / n))
    return math.sqrt(n * y)


def _block(statistic: Statistic, count: int) -> int:
    return round(count ** (1 / 3)) if statistic.in_order else 1
