"""A study as one HTML file: no network, no scripts; the charts are inline SVG."""

from collections.abc import Mapping
from importlib.resources import files
from string import Template

from vivace.report import tables
from vivace.report.charts import distributions, qualities, waterfalls
from vivace.report.document import Doc, mapping, number, sequence, text
from vivace.report.facts import facts, memory_lines
from vivace.report.headline import told
from vivace.report.tags import NOTHING, Html, el, esc, join
from vivace.report.view import Arm, Change, View, better, mark, read_study
from vivace.report.words import (
    DASH,
    LEGEND,
    NO_REASON,
    STATES,
    VERDICTS,
    Footnotes,
    figure,
    long_name,
    percent,
    ratio,
    seconds,
    unit,
)

_TILES = ("ttft_p50_ms", "tps_single", "throughput_tps", "memory_bytes")


def to_html(doc: Doc) -> str:
    """The whole page."""
    view = read_study(doc)
    notes = Footnotes()
    sections = (
        _top(doc, view),
        _section("What each step brought", _ladder(view)),
        _section("All steps", tables.steps_table(view, notes), _notes(notes)),
        _section("What each step changed", _cards(view)),
        _section("Settings", tables.settings_table(view)),
        _section("Quality", _quality_details(view)),
        _section("The samples behind the medians", *_charts(distributions(view))),
        _section("What the winner owes to each lever", tables.leave_one_out_table(doc, view)),
        _section("Concurrency", tables.levels_table(view)),
        _section("Diagnosis", *_diagnosis(doc)),
        _section(
            "Warnings and notes",
            _messages("Warnings", view.warnings),
            _messages("Notes", view.notes),
        ),
        _section("Conditions", _conditions(doc, view)),
        _section(
            "How it ran",
            tables.plan_table(view),
            tables.noise_table(doc, view),
            tables.runs_table(doc),
            tables.trials_table(doc),
        ),
    )
    title = f"{view.name}: {view.model}"
    body = join(*sections)
    return Template(_asset("page.html")).substitute(
        title=esc(title), style=_asset("page.css"), body=body
    )


def _asset(name: str) -> str:
    return (files("vivace.report") / "assets" / name).read_text(encoding="utf-8")


def _section(title: str, *content: Html) -> Html:
    if not any(content):
        return NOTHING
    return el("section", el("h2", esc(title)), *content)


def _top(doc: Doc, view: View) -> Html:
    state = el("span", esc(STATES.get(view.state, view.state)), class_=f"chip {view.state}")
    facts_line = [f"goal: {view.goal}", text(doc, "created")]
    elapsed, budget = number(doc, "elapsed_s"), number(doc, "budget_s")
    if elapsed is not None:
        of = f" of {seconds(budget)}" if budget is not None else ""
        facts_line.append(f"took {seconds(elapsed)}{of}")
    return el(
        "header",
        el("p", esc(f"vivace study · {view.name} "), state, class_="eyebrow"),
        el("h1", esc(view.model)),
        el("p", esc(told(doc)), class_="lead"),
        _tiles(view),
        el("p", esc(f"{LEGEND}."), class_="quiet") if view.winner else NOTHING,
        el("p", esc(" · ".join(f for f in facts_line if f)), class_="quiet"),
    )


def _tiles(view: View) -> Html:
    if not view.winner:
        return NOTHING
    winner = view.winner
    tiles = [
        _tile(
            long_name(name, view.concurrency),
            winner.arm,
            name,
            _against("unoptimised", view.unoptimised, name, winner.vs_unoptimised),
            _against(f"{view.default_name} default", view.best_default, name, winner.vs_default),
        )
        for name in _TILES
    ]
    quality = winner.arm.quality
    verdict = VERDICTS.get(quality.verdict, quality.verdict) if quality else "no verdict"
    limit = DASH if view.quality_limit is None else percent(view.quality_limit)
    lines = (_line("verdict", verdict), _line("limit", limit))
    tiles.append(_tile("Quality loss", winner.arm, "quality_loss", *lines))
    return el("div", *tiles, class_="tiles")


def _tile(title: str, arm: Arm, name: str, *lines: Html) -> Html:
    cell = arm.cells[name]
    if cell.value is None:
        value = el("p", esc(DASH), el("small", esc(f" {cell.reason}")), class_="big")
    else:
        value = el(
            "p", esc(figure(name, cell.value)), el("small", esc(f" {unit(name)}")), class_="big"
        )
    return el("div", el("h3", esc(title)), value, el("dl", *lines), class_="tile")


def _against(name: str, arm: Arm | None, metric: str, changes: Mapping[str, Change]) -> Html:
    before = arm.cells[metric].value if arm else None
    change = changes.get(metric)
    value = DASH if before is None else f"{figure(metric, before)} {unit(metric)}"
    if change is None:
        return _line(name, value)
    good = better(metric, change.ratio, than=1)
    class_ = ("good" if good else "bad") if change.proven else None
    return _line(name, value, el("b", esc(ratio(change.ratio) + mark(change)), class_=class_))


def _line(name: str, value: str, compared: Html = NOTHING) -> Html:
    return el("div", el("dt", esc(name)), el("dd", el("span", esc(value)), compared))


def _ladder(view: View) -> Html:
    charts = [c for c in (*waterfalls(view), qualities(view)) if c]
    if not charts:
        return NOTHING
    keys = (
        ("kept good", "kept, better"),
        ("kept bad", "kept, worse in this metric"),
        ("rejected", "rejected"),
        ("base", "baseline"),
        ("winner", "winner"),
    )
    legend = (el("li", el("i", class_=f"key {c}"), esc(words)) for c, words in keys)
    words = "Each bar starts where the last kept step ended. Whiskers are 95 % intervals."
    unmeasured = ", ".join(str(s.number) for s in view.steps if not s.measured)
    if unmeasured:
        words += f" Steps without a measurement ({unmeasured}) are in the table below."
    return join(
        el("p", esc(words), class_="quiet"), el("ul", *legend, class_="legend"), *_charts(charts)
    )


def _charts(charts: list[Html]) -> list[Html]:
    return [el("div", *charts, class_="charts")] if charts else []


def _notes(notes: Footnotes) -> Html:
    items = (el("li", esc(reason)) for reason in notes.reasons)
    return (
        el("ol", *items, class_="quiet", aria_label="Why numbers are missing")
        if notes.reasons
        else NOTHING
    )


def _cards(view: View) -> Html:
    cards: list[Html] = []
    for step in view.steps:
        lines = (
            el(
                "div",
                el("dt", el("code", esc(name))),
                el(
                    "dd",
                    *([el("del", esc(before)), esc(" → ")] if before else []),
                    el("ins", esc(after)),
                ),
            )
            for name, before, after in step.diff
        )
        head = el("h3", esc(f"{step.number} {step.title} "), tables.chip(step.status))
        attacks = (
            el("p", esc(f"attacks: {step.attacks}"), class_="quiet") if step.attacks else NOTHING
        )
        reason = el("p", esc(step.reason or NO_REASON))
        predicted = ", ".join(
            f"{long_name(n, view.concurrency).lower()} {ratio(lo)} to {ratio(hi)}"
            for n, (lo, hi) in step.predicted.items()
        )
        guess = (
            el("p", esc(f"predicted, not measured: {predicted}"), class_="quiet")
            if predicted
            else NOTHING
        )
        changes = el("dl", *lines, class_="diff") if step.diff else NOTHING
        cards.append(
            el("article", head, changes, reason, attacks, guess, class_=f"card {step.status}")
        )
    return el("div", *cards, class_="cards") if cards else NOTHING


def _quality_details(view: View) -> Html:
    rows: list[Html] = []
    for arm in (*view.steps, *((view.winner.arm,) if view.winner else ())):
        quality = arm.quality
        if quality is None:
            continue
        slices = ", ".join(f"{n} {percent(v)}" for n, v in quality.by_slice.items())
        rows.append(
            tables.row(
                arm.title,
                DASH if quality.positions is None else f"{quality.positions:,.0f}",
                DASH if quality.kl_mean is None else f"{quality.kl_mean:.4f}",
                DASH if quality.same_top1 is None else percent(quality.same_top1),
                slices or DASH,
                " against ".join(filter(None, (quality.basis, quality.reference))) or DASH,
            )
        )
    heads = ["arm", "tokens compared", "mean KL", "same top-1", "loss by slice", "basis"]
    return tables.table(
        f"What the losses rest on ({DASH}: the engine gave none)", heads, rows, class_="wide"
    )


def _diagnosis(doc: Doc) -> list[Html]:
    found: list[Html] = []
    for finding in sequence(doc, "diagnosis"):
        confidence = number(finding, "confidence")
        sure = f", confidence {confidence:.0%}" if confidence is not None else ""
        evidence = (el("li", esc(text(e))) for e in sequence(finding, "evidence"))
        found += [el("h3", esc(f"{text(finding, 'bottleneck')}{sure}")), el("ul", *evidence)]
    return found


def _messages(title: str, lines: tuple[str, ...]) -> Html:
    if not lines:
        return NOTHING
    items = (el("li", esc(line)) for line in lines)
    return join(el("h3", esc(title)), el("ul", *items, class_=title.lower()))


def _conditions(doc: Doc, view: View) -> Html:
    command = text(doc, "command")
    shown = el("pre", el("code", esc(command))) if command else NOTHING
    sections = ("model", "hardware", "workload", "constraints", "versions")
    lists = [
        el("div", el("h3", esc(name.capitalize())), _pairs(facts(mapping(doc, name))))
        for name in sections
        if mapping(doc, name)
    ]
    split = memory_lines(view)
    if split:
        lists.append(el("div", el("h3", esc("Memory, MB")), _pairs([(t, s) for t, s in split])))
    return join(shown, el("div", *lists, class_="facts"))


def _pairs(pairs: list[tuple[str, str]]) -> Html:
    return el("dl", *(el("div", el("dt", esc(n)), el("dd", esc(v))) for n, v in pairs))
