"""The drawn parts of a chart: horizontal tracks whose x is a percentage, so text never scales."""

from collections.abc import Sequence

from vivace.report.scale import Scale
from vivace.report.tags import NOTHING, Html, el, esc, join

HEIGHT = 20
_MIDDLE = HEIGHT / 2
MOST_DOTS = 240


def track(scale: Scale, *marks: Html, label: str, height: int = HEIGHT) -> Html:
    """One row of a chart with the gridlines of its scale."""
    grid = (_upright(scale.at(t), "grid") for t in scale.ticks())
    return el(
        "svg",
        *grid,
        *marks,
        class_="track",
        width="100%",
        height=height,
        role="img",
        aria_label=label,
    )


def axis(scale: Scale, names: Sequence[str]) -> Html:
    """The names of the scale's ticks, below the last track."""
    labels: list[Html] = []
    for tick, name in zip(scale.ticks(), names, strict=True):
        x = scale.at(tick)
        anchor = "start" if x < 4 else "end" if x > 97 else "middle"
        labels.append(el("text", esc(name), x=f"{x}%", y=13, text_anchor=anchor))
    return el("svg", *labels, class_="axis", width="100%", height=18, aria_hidden="true")


def bar(scale: Scale, start: float, end: float, *, class_: str) -> Html:
    """A bar between two values."""
    left, right = sorted((scale.at(start), scale.at(end)))
    return el(
        "rect",
        x=f"{left}%",
        y=_MIDDLE - 4,
        width=f"{round(right - left, 2)}%",
        height=8,
        rx=2,
        class_=f"bar {class_}",
    )


def dot(scale: Scale, value: float, *, class_: str) -> Html:
    """A value."""
    return el("circle", cx=f"{scale.at(value)}%", cy=_MIDDLE, r=4.5, class_=f"dot {class_}")


def whisker(scale: Scale, lo: float | None, hi: float | None) -> Html:
    """A 95 % interval; nothing where there is none."""
    if lo is None or hi is None:
        return NOTHING
    a, b = f"{scale.at(lo)}%", f"{scale.at(hi)}%"
    caps = (
        el("line", x1=x, x2=x, y1=_MIDDLE - 4, y2=_MIDDLE + 4, class_="whisker") for x in (a, b)
    )
    return join(el("line", x1=a, x2=b, y1=_MIDDLE, y2=_MIDDLE, class_="whisker"), *caps)


def level(scale: Scale, value: float, *, class_: str) -> Html:
    """An upright line over the whole height: a limit, or where the step before ended."""
    return _upright(scale.at(value), class_)


def _upright(percent: float, class_: str) -> Html:
    return el("line", x1=f"{percent}%", x2=f"{percent}%", y1=0, y2="100%", class_=class_)


def strip(scale: Scale, samples: Sequence[float], *, class_: str, height: int) -> Html:
    """Samples as a cloud of dots: x is the value, y only keeps them apart."""
    drawn = thinned(samples)
    # The golden ratio's multiples spread evenly whatever the number of dots.
    spread = height - 10
    dots = (
        el("circle", cx=f"{scale.at(v)}%", cy=round(5 + spread * (i * 0.618034 % 1), 1), r=2.4)
        for i, v in enumerate(drawn)
    )
    return el("g", *dots, class_=f"strip {class_}")


def thinned(samples: Sequence[float]) -> list[float]:
    """At most `MOST_DOTS` of the samples, evenly from the smallest to the largest."""
    ordered = sorted(samples)
    if len(ordered) <= MOST_DOTS:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(i * last / (MOST_DOTS - 1))] for i in range(MOST_DOTS)]
