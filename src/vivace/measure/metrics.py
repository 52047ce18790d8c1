"""One definition for each metric: tag, unit, direction, formula, and the rows it is computed from."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from vivace.errors import ConfigError
from vivace.measure.percentile import Array
from vivace.measure.samples import Samples
from vivace.measure.statistic import RATIO_OF_SUMS, Statistic, percentile_of

NOT_SINGLE = "no single request was answered"
NOT_LOADED = "nothing was measured under load"


class Definition(Protocol):
    """A metric. `rows` are the samples it is computed from; none means not measured: `absent`."""

    tag: str
    unit: str
    lower_is_better: bool
    statistic: Statistic
    absent: str

    def rows(self, samples: Samples) -> Array:
        """(n, 2), meaning as the statistic says."""
        ...


class TtftP50:
    """Median over single requests of (first non-empty piece - sent)."""

    tag, unit, lower_is_better = "ttft_p50_ms", "ms", True
    statistic, absent = percentile_of(50), NOT_SINGLE

    def rows(self, samples: Samples) -> Array:
        return _seen(samples.single_ttft_ms)


class TpsSingle:
    """Median over single requests of (output tokens - 1) / (last piece - first piece)."""

    tag, unit, lower_is_better = "tps_single", "tokens/s", False
    statistic, absent = percentile_of(50), "no single request had two tokens to time"

    def rows(self, samples: Samples) -> Array:
        return _seen(samples.single_tps)


class TtftCold:
    """TTFT of the first request after a start or an emptied cache."""

    tag, unit, lower_is_better = "ttft_cold_ms", "ms", True
    statistic, absent = percentile_of(50), "no request was sent to a cold engine"

    def rows(self, samples: Samples) -> Array:
        return _seen(() if samples.cold_ttft_ms is None else (samples.cold_ttft_ms,))


class TtftLoadedP50:
    """Median TTFT of the requests whose first token came in the window; waiting ones censored."""

    tag, unit, lower_is_better = "ttft_loaded_p50_ms", "ms", True
    statistic, absent = percentile_of(50), NOT_LOADED

    def rows(self, samples: Samples) -> Array:
        return _seen(samples.loaded_ttft_ms, samples.loaded_waiting_ms)


class TtftLoadedP95:
    """95th percentile of the same requests as `ttft_loaded_p50_ms`."""

    tag, unit, lower_is_better = "ttft_loaded_p95_ms", "ms", True
    statistic, absent = percentile_of(95), NOT_LOADED

    def rows(self, samples: Samples) -> Array:
        return _seen(samples.loaded_ttft_ms, samples.loaded_waiting_ms)


class TpotP95:
    """95th percentile over requests that ended in the window of (E2E - TTFT) / (tokens - 1)."""

    tag, unit, lower_is_better = "tpot_p95_ms", "ms", True
    statistic, absent = percentile_of(95), "no request with two tokens ended under load"

    def rows(self, samples: Samples) -> Array:
        return _seen(samples.loaded_tpot_ms)


class Throughput:
    """Output tokens that arrived in the window / its seconds."""

    tag, unit, lower_is_better = "throughput_tps", "tokens/s", False
    statistic, absent = RATIO_OF_SUMS, NOT_LOADED

    def rows(self, samples: Samples) -> Array:
        return _pairs(samples.cycles)


class Goodput:
    """Requests that ended in the window and met every objective / its seconds."""

    tag, unit, lower_is_better = "goodput_rps", "requests/s", False
    statistic, absent = RATIO_OF_SUMS, "no request ended under load"

    def rows(self, samples: Samples) -> Array:
        return _pairs(tuple(zip(samples.good, samples.good_gaps_s, strict=True)))


_ALL: tuple[Definition, ...] = (
    TtftP50(),
    TpsSingle(),
    TtftCold(),
    TtftLoadedP50(),
    TtftLoadedP95(),
    TpotP95(),
    Throughput(),
    Goodput(),
)
DEFINITIONS: Mapping[str, Definition] = {d.tag: d for d in _ALL}


def definition(tag: str) -> Definition:
    """The metric of that name; `ConfigError` lists the valid ones."""
    if tag not in DEFINITIONS:
        raise ConfigError(f"no metric `{tag}`", hint=f"one of {', '.join(DEFINITIONS)}")
    return DEFINITIONS[tag]


def _seen(values: tuple[float, ...], waiting: tuple[float, ...] = ()) -> Array:
    return _pairs((*((v, 0.0) for v in values), *((w, 1.0) for w in waiting)))


def _pairs(pairs: tuple[tuple[float, float], ...]) -> Array:
    return np.array(pairs, dtype=np.float64).reshape(-1, 2)
