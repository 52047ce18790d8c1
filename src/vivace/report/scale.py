"""Where a value stands on a chart: linear from zero, or logarithmic over more than a decade."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

#: A span above this is drawn logarithmically.
LOG_SPAN = 10.0
_EDGE = 1.5
#: Percent between two ticks, so that their names stay apart on a narrow screen.
_APART = 16.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """From `lo` to `hi`, in percent of the chart's width."""

    lo: float
    hi: float
    log: bool

    def at(self, value: float) -> float:
        """Percent of the width, kept inside the chart."""
        lo, hi, value = self._own(self.lo), self._own(self.hi), self._own(value)
        share = min(max((value - lo) / (hi - lo), 0.0), 1.0)
        return round(_EDGE + share * (100 - 2 * _EDGE), 2)

    def _own(self, value: float) -> float:
        return math.log10(max(value, self.lo)) if self.log else value

    def ticks(self) -> list[float]:
        """About three to seven round values inside the scale."""
        if self.log:
            decades = math.log10(self.hi / self.lo)
            powers = range(math.floor(math.log10(self.lo)), math.ceil(math.log10(self.hi)) + 1)
            steps = (1, 2, 5) if decades < 1.8 else (1, 3) if decades < 3 else (1,)
            found = [m * 10.0**p for p in powers for m in steps]
        else:
            step = _round_step((self.hi - self.lo) / 4)
            first = math.ceil(self.lo / step)
            found = [step * i for i in range(first, math.floor(self.hi / step) + 1)]
        shown: list[float] = []
        for tick in (t for t in found if self.lo <= t <= self.hi * 1.0001):
            if not shown or self.at(tick) - self.at(shown[-1]) >= _APART:
                shown.append(tick)
        return shown


def scale_of(values: Iterable[float]) -> Scale:
    """The scale that shows all `values`; a scale of nothing goes from 0 to 1."""
    found = list(values)
    if not found:
        return Scale(lo=0.0, hi=1.0, log=False)
    lo, hi = min(found), max(found)
    if lo > 0 and hi / lo > LOG_SPAN:
        return Scale(lo=lo / 1.25, hi=hi * 1.25, log=True)
    if lo == hi == 0:
        return Scale(lo=0.0, hi=1.0, log=False)
    room = 0.06 * max(abs(hi), abs(lo))
    return Scale(lo=min(0.0, lo - room if lo < 0 else 0.0), hi=max(0.0, hi + room), log=False)


def _round_step(raw: float) -> float:
    power = 10.0 ** math.floor(math.log10(raw))
    return next((m * power for m in (1, 2, 5) if raw <= m * power), 10 * power)
