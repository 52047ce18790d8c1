"""95 % intervals by resampling, and what stands in for it when there is too little to resample."""

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from vivace.measure.percentile import Array
from vivace.measure.statistic import Statistic

RESAMPLES = 2000
#: Most numbers of one batch of resamples, to bound memory.
_BATCH = 1_000_000

#: Student's t, 97.5 %, 1 to 10 degrees of freedom.
_T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_NORMAL = NormalDist()


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """95 % interval; both ends `None` with a reason where there is none."""

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
    """Interval of `statistic` of `rows` (n, 2); `None` without rows.

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
    factor = math.exp(t_975(spread.freedom) * spread.error)
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


def central_range(values: Array, *, independent: float) -> tuple[float, float]:
    """The middle 95 % of bootstrap values, tails expanded for few `independent` rows.

    A bootstrap of n rows spreads too little by sqrt((n - 1) / n) and has the normal's tails, not
    Student's; quantiles further out repair both (Hesterberg 2015, expanded percentile interval).
    """
    far = t_975(independent - 1) * math.sqrt(independent / (independent - 1))
    tail = 100 * _NORMAL.cdf(-far)
    lo, hi = np.percentile(values, [tail, 100 - tail])
    return float(lo), float(hi)


def log_error(statistic: Statistic, rows: Array) -> LogError | None:
    """From the influence of each row; `None` where fewer than two rows have one."""
    influence = statistic.influence(rows)
    count = len(influence)
    if count < 2:
        return None
    return LogError(error=float(influence.std(ddof=1)) / math.sqrt(count), freedom=count - 1)


def t_975(freedom: float) -> float:
    """Student's t quantile at 97.5 %; between whole degrees of freedom the larger value.

    From 10 on: linear in 1 / freedom towards the normal's, at most 0.01 too large.
    """
    last = len(_T_975)
    if freedom < last:
        return _T_975[max(1, int(freedom)) - 1]
    normal = _NORMAL.inv_cdf(0.975)
    return normal + (_T_975[-1] - normal) * last / freedom


def _block(statistic: Statistic, count: int) -> int:
    return round(count ** (1 / 3)) if statistic.in_order else 1
