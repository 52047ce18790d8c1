"""Percentiles, also of requests that were still waiting when nobody looked any longer."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def percentile(values: Sequence[float], q: float) -> float | None:
    """Percentile `q` (0 to 100), linear between the two nearest ranks; `None` without values.

    Rank (n - 1) * q / 100 counted from 0, as numpy's `linear` (Hyndman & Fan 1996, type 7).

    >>> percentile([10, 20, 30, 40], 50)
    25.0
    """
    return float(np.percentile(values, q)) if len(values) else None


def waiting_percentile(values: Array, waiting: NDArray[np.bool_], q: float) -> Array:
    """Percentile `q` along the last axis where some values are only lower bounds (`waiting`).

    Kaplan-Meier: the mass of a request that had waited t is shared by those that took longer
    than t (Efron 1967), so one that had just been sent says nothing, and without any waiting
    it is `percentile`. Who has waited longer than everybody who was served counts with its age,
    so a result above the largest served value is a lower bound.
    """
    if not waiting.any():
        return np.asarray(np.percentile(values, q, axis=-1))
    order = np.lexsort((waiting, values), axis=-1)
    values = np.take_along_axis(values, order, -1)
    waiting = np.take_along_axis(waiting, order, -1)
    longest = np.where(waiting, -np.inf, values).max(axis=-1, keepdims=True)
    counted = ~waiting | (values >= longest)
    count = values.shape[-1]
    at_risk = np.arange(count, 0, -1, dtype=np.float64)
    left = np.cumprod(np.where(counted, 1 - 1 / at_risk, 1.0), axis=-1)
    before = np.concatenate([np.ones_like(left[..., :1]), left[..., :-1]], axis=-1)
    known = np.where(counted, values, np.inf)
    known = np.minimum.accumulate(known[..., ::-1], axis=-1)[..., ::-1]
    return _interpolate(count * (1 - before), known, rank=(count - 1) * q / 100)


def _interpolate(positions: Array, values: Array, *, rank: float) -> Array:
    """The value at `rank`, linear between ascending positions, row by row; flat after the last."""
    below = np.count_nonzero(positions <= rank, axis=-1, keepdims=True) - 1
    above = np.minimum(below + 1, positions.shape[-1] - 1)
    from_position, to_position = (np.take_along_axis(positions, i, -1) for i in (below, above))
    from_value, to_value = (np.take_along_axis(values, i, -1) for i in (below, above))
    span = np.where(above > below, to_position - from_position, 1.0)
    result = from_value + (to_value - from_value) * (rank - from_position) / span
    return result[..., 0]
