"""Did an engine change while it was measured? The first half of a trial against the second."""

from collections.abc import Sequence
from typing import TypeVar

from vivace.core import Metric
from vivace.measure.compare import compare
from vivace.measure.samples import Samples
from vivace.study.fairness import Warnings

_T = TypeVar("_T")

#: A look at every trial of a study: sure enough that a warning is rare where nothing drifts.
SURE = 0.99
#: Smaller drifts are not worth a word.
SMALLEST = 1.1


def check_drift(name: str, samples: Samples) -> Warnings:
    """Speeds of the trial `name` that are proven to differ between its halves."""
    tps, cycles = _halves(samples.single_tps), _halves(samples.cycles)
    found = _drift(name, "single requests", "tps_single", [Samples(single_tps=h) for h in tps])
    return found + _drift(name, "load", "throughput_tps", [Samples(cycles=h) for h in cycles])


def _drift(name: str, phase: str, metric: Metric, halves: Sequence[Samples]) -> Warnings:
    first, second = halves
    ratio = compare(second, first, metric, seed=0, confidence=SURE)
    if ratio is None or not ratio.proven or 1 / SMALLEST < ratio.ratio < SMALLEST:
        return []
    words = f"`{name}`, {phase}: the second half was {ratio.ratio:.2f}x as fast as the first"
    return [("drift", words)]


def _halves(values: tuple[_T, ...]) -> tuple[tuple[_T, ...], tuple[_T, ...]]:
    middle = len(values) // 2
    return values[:middle], values[middle:]
