"""What is computed from rows of samples, and how much each row moves it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from vivace.measure.percentile import Array, waiting_percentile


@dataclass(frozen=True, kw_only=True, slots=True)
class Statistic:
    """`of`: rows (..., n, 2) -> (...), so that thousands of resamples are one call.

    `influence`: how far each row of (n, 2) pulls the statistic, as a share of it; the standard
    deviation of these / sqrt(their number) is the standard error of the statistic's logarithm.
    Empty where it has none. `few`: below this many rows resampling gives too short intervals.
    `in_order`: neighbouring rows depend on each other, so they are resampled in blocks.
    """

    of: Callable[[Array], Array]
    influence: Callable[[Array], Array]
    few: int
    in_order: bool = False


def percentile_of(q: float) -> Statistic:
    """Percentile `q` of rows (value, 1 if it is only a lower bound else 0)."""
    share = q / 100
    normal = NormalDist()
    # Standard error of a sample quantile in units of sigma / sqrt(n), for log-normal values.
    widening = math.sqrt(share * (1 - share)) / normal.pdf(normal.inv_cdf(share))

    def of(rows: Array) -> Array:
        return waiting_percentile(rows[..., 0], rows[..., 1] > 0, q)

    def influence(rows: Array) -> Array:
        served = rows[rows[:, 1] == 0, 0]
        return np.log(served) * widening if (served > 0).all() else np.empty(0)

    # All n lie on one side of the percentile in share^n of all cases: 2.5 % of them at most,
    # else not even the whole range of the samples is a 95 % interval.
    few = math.ceil(math.log(0.025) / math.log(max(share, 1 - share)))
    return Statistic(of=of, influence=influence, few=few)


def _ratio(rows: Array) -> Array:
    sums = rows.sum(axis=-2)
    return sums[..., 0] / sums[..., 1]


def _ratio_influence(rows: Array) -> Array:
    """Jackknife: what is left without each row (linearisation is too narrow for few rows)."""
    ratio = _ratio(rows)
    sums = rows.sum(axis=0)
    without = (sums[0] - rows[:, 0]) / (sums[1] - rows[:, 1])
    return (len(rows) - 1) * (1 - without / ratio) if ratio > 0 else np.empty(0)


#: Sum of the first column / sum of the second, rows in the order of time. `few` by simulation:
#: from 8 rows the bootstrap covers as well as Student's t, and better where rows are related.
RATIO_OF_SUMS = Statistic(of=_ratio, influence=_ratio_influence, few=8, in_order=True)
