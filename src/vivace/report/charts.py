"""The charts of the page: a waterfall per metric, samples of two arms, quality against its limit."""

from collections.abc import Iterable, Sequence
from statistics import median

from vivace.core import METRICS, Metric
from vivace.report import svg
from vivace.report.scale import LOG_SPAN, Scale, scale_of
from vivace.report.tags import NOTHING, Html, el, esc, join
from vivace.report.view import SAMPLES, Arm, Cell, View, better
from vivace.report.words import (
    STATUSES,
    VERDICTS,
    amount,
    figure,
    long_name,
    percent,
    tick,
    unit,
)

_STRIP_HEIGHT = 30
_SAMPLE_NAMES = {
    "ttft_ms": ("Time to first token, one request", "ms"),
    "loaded_ttft_ms": ("Time to first token under load", "ms"),
    "tps": ("Speed of one request", "tokens/s"),
    "tpot_ms": ("Time per output token", "ms"),
}


def waterfalls(view: View) -> list[Html]:
    """One figure for each metric that was measured at all."""
    return [chart for metric in METRICS if (chart := _waterfall(view, metric))]


def _waterfall(view: View, metric: Metric) -> Html:
    winner = (view.winner.arm,) if view.winner else ()
    shown = [a.cells[metric] for a in (*view.baselines, *view.steps, *winner)]
    values = [v for c in shown for v in (c.value, c.lo, c.hi) if v is not None]
    if not values:
        return NOTHING
    scale = scale_of(values)
    rows: list[Html] = []
    for arm in view.baselines:
        rows.append(_row(arm.title, _told(metric, arm.cells[metric]), _point(scale, metric, arm)))
    current = view.unoptimised.cells[metric].value if view.unoptimised else None
    for step in (s for s in view.steps if s.measured):
        rows.append(_step_row(scale, metric, step, current))
        value = step.cells[metric].value
        current = value if step.status == "kept" and value is not None else current
    if view.winner:
        arm = view.winner.arm
        name = "Winner, on held-out prompts" if view.winner.held_out else arm.title
        drawn = _point(scale, metric, arm, "winner")
        rows.append(_row(name, _told(metric, arm.cells[metric]), drawn, "strong"))
    return _figure(
        long_name(metric, view.concurrency),
        f"{unit(metric)}, {_kind(scale)}",
        rows,
        svg.axis(scale, [tick(metric, t) for t in scale.ticks()]),
    )


def _kind(scale: Scale) -> str:
    return f"logarithmic: the values span more than {LOG_SPAN:.0f}x" if scale.log else "linear"


def _figure(title: str, caption: str, rows: Iterable[Html], axis: Html) -> Html:
    return el(
        "figure",
        el("figcaption", el("strong", esc(title)), el("span", esc(caption))),
        el("ul", *rows, class_="rows"),
        axis,
    )


def _row(name: str, told: Html, drawn: Html, class_: str | None = None) -> Html:
    head = el("div", el("span", esc(name), class_="name"), told, class_="head")
    return el("li", head, drawn, class_=class_)


def _told(metric: str, cell: Cell) -> Html:
    if cell.value is None:
        return el("span", esc(f"– {cell.reason}"), class_="value none", title=cell.reason)
    return el("span", esc(f"{figure(metric, cell.value)} {unit(metric)}"), class_="value")


def _point(scale: Scale, metric: str, arm: Arm, class_: str = "base") -> Html:
    cell = arm.cells[metric]
    if cell.value is None:
        return NOTHING
    label = f"{arm.title}: {figure(metric, cell.value)} {unit(metric)}"
    return svg.track(
        scale,
        svg.whisker(scale, cell.lo, cell.hi),
        svg.dot(scale, cell.value, class_=class_),
        label=label,
    )


def _step_row(scale: Scale, metric: Metric, step: Arm, current: float | None) -> Html:
    cell = step.cells[metric]
    name = f"{step.number} {step.title}"
    status = STATUSES.get(step.status, step.status)
    if cell.value is None:
        return _row(name, _told(metric, cell), NOTHING, "off")
    kept = step.status == "kept"
    good = current is None or better(metric, cell.value, than=current)
    look = f"{'kept' if kept else 'rejected'} {'good' if good else 'bad'}"
    told = el("span", esc("" if kept else f"{status}, "), _told(metric, cell), class_="value")
    marks = [svg.whisker(scale, cell.lo, cell.hi), svg.dot(scale, cell.value, class_=look)]
    if current is not None:
        before = svg.level(scale, current, class_="before")
        marks = [before, svg.bar(scale, current, cell.value, class_=look), *marks]
    label = f"{name}, {status}: {figure(metric, cell.value)} {unit(metric)}"
    return _row(name, told, svg.track(scale, *marks, label=label), None if kept else "off")


def distributions(view: View) -> list[Html]:
    """The samples behind the medians: both baselines and the winner."""
    arms = [a for a in (view.unoptimised, view.best_default) if a]
    if view.winner:
        arms.append(view.winner.arm)
    return [chart for name in SAMPLES if (chart := _distribution(arms, name))]


def _distribution(arms: Sequence[Arm], name: str) -> Html:
    shown = [(a, a.samples[name]) for a in arms if a.samples.get(name)]
    if not shown:
        return NOTHING
    scale = scale_of(v for _, samples in shown for v in samples)
    title, of = _SAMPLE_NAMES[name]
    rows: list[Html] = []
    for arm, samples in shown:
        middle = median(samples)
        count = f"n = {len(samples):,}"
        if len(samples) > svg.MOST_DOTS:
            count += f", {svg.MOST_DOTS} drawn"
        look = "winner" if arm.title == "Winner" else "base"
        told = el("span", esc(f"median {amount(middle)} {of}, {count}"), class_="value")
        drawn = svg.track(
            scale,
            svg.strip(scale, samples, class_=look, height=_STRIP_HEIGHT),
            svg.level(scale, middle, class_="median"),
            label=f"{arm.title}: median {amount(middle)} {of}, {count}",
            height=_STRIP_HEIGHT,
        )
        rows.append(_row(arm.title, told, drawn))
    ticks = svg.axis(scale, [tick(name, t) for t in scale.ticks()])
    return _figure(title, f"{of}, {_kind(scale)}; the line is the median", rows, ticks)


def qualities(view: View) -> Html:
    """Quality loss with its interval of every arm that has one, against the limit."""
    arms = [*view.steps, *([view.winner.arm] if view.winner else [])]
    shown = [(a, q) for a in arms if (q := a.quality) and q.loss is not None]
    if not shown:
        return NOTHING
    ends = [v for _, q in shown for v in (q.loss, q.lo, q.hi) if v is not None]
    limit = view.quality_limit
    # A type that fails by far would press everything near the limit into one point.
    most = max(ends) if not limit else min(max(ends), 2.5 * limit)
    scale = scale_of([0.0, *(min(v, most) for v in ends), *([limit] if limit else [])])
    rows: list[Html] = []
    for arm, quality in shown:
        loss = quality.loss or 0.0
        verdict = VERDICTS.get(quality.verdict, quality.verdict)
        look = {"pass": "kept good", "fail": "kept fail"}.get(quality.verdict, "kept bad")
        marks = [
            svg.level(scale, 0.0, class_="before"),
            svg.bar(scale, 0.0, loss, class_=look),
            svg.whisker(scale, quality.lo, quality.hi) if loss <= most else NOTHING,
        ]
        if limit:
            marks.append(svg.level(scale, limit, class_="limit"))
        beyond = " →" if loss > most else ""
        told = f"{percent(loss)}{beyond}, {verdict}"
        name = f"{arm.number} {arm.title}" if arm.number else arm.title
        drawn = svg.track(scale, *marks, label=f"{name}: {told}")
        rows.append(_row(name, el("span", esc(told), class_="value"), drawn))
    caption = (
        f"relative perplexity increase; the limit is {percent(limit)}" if limit else "no limit"
    )
    ticks = svg.axis(scale, [tick("quality_loss", t) for t in scale.ticks()])
    return join(_figure("Quality loss against the 16-bit reference", caption, rows, ticks))
