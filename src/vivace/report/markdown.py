"""A study as Markdown that can be pasted into an issue or a pull request."""

import re
from collections.abc import Iterable, Mapping, Sequence

from vivace.report.document import Doc, text
from vivace.report.facts import conditions, memory_lines
from vivace.report.headline import told
from vivace.report.view import COLUMNS, Arm, Change, View, groups, mark, read_study
from vivace.report.words import (
    DASH,
    LEGEND,
    NO_REASON,
    STATES,
    STATUSES,
    VERDICTS,
    Footnotes,
    figure,
    percent,
    ratio,
    ratio_range,
    short_name,
    unit,
)


def to_markdown(doc: Doc) -> str:
    """The report with GitHub tables; untrusted text is escaped."""
    view = read_study(doc)
    notes = Footnotes()
    parts = [
        f"# {escape(view.name)}: {escape(view.model)}",
        f"**{escape(told(doc))}**",
        f"State: {STATES.get(view.state, escape(view.state))}. Goal: {escape(view.goal)}.",
        "## What each step brought",
        _table(view, notes),
        LEGEND + ".",
        _section("Not kept, and why", _reasons(view)),
        _section("Settings of each step", _diffs(view)),
        _section("Quality", _qualities(view)),
        _section("Memory", [f"{escape(t)}: {split}" for t, split in memory_lines(view)]),
        _section("Not measured", [f"{i}: {escape(r)}" for i, r in enumerate(notes.reasons, 1)]),
        _section("Warnings", map(escape, view.warnings)),
        _section("Notes", map(escape, view.notes)),
        _section("Conditions", [f"{escape(k)}: {escape(v)}" for k, v in conditions(doc)]),
    ]
    command = text(doc, "command")
    if command:
        parts.append(f"Made by {escape(command)}")
    return "\n\n".join(p for p in parts if p) + "\n"


def escape(raw: str) -> str:
    """Untrusted text that Markdown shows as it is: no tag, table cell, link or mention comes of it."""
    plain = raw.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~@])", r"\\\1", plain)


def _table(view: View, notes: Footnotes) -> str:
    heads = [f"{short_name(c, view.concurrency, full=True)}, {unit(c)}" for c in COLUMNS]
    lines = [
        _row(["#", "lever", "status", *heads, "vs previous"]),
        "|---:|:---|:---|" + "---:|" * len(COLUMNS) + ":---|",
    ]
    blank = [""] * len(COLUMNS)
    for arm in view.baselines:
        lines.append(_row(["", escape(arm.title), "baseline", *_cells(arm, notes), ""]))
    for title, steps in groups(view):
        lines.append(_row(["", f"**{title}**", "", *blank, ""]))
        lines += [_step(view, s, notes) for s in steps]
    if view.winner:
        held_out = "held out" if view.winner.held_out else ""
        lines.append(_row(["", "**Winner**", held_out, *_cells(view.winner.arm, notes), ""]))
        pairs = (
            ("vs unoptimised", view.winner.vs_unoptimised),
            (f"vs {escape(view.default_name)} default", view.winner.vs_default),
        )
        lines += [_row(["", title, "", *_ratios(changes), ""]) for title, changes in pairs]
    else:
        lines.append(_row(["", "**No winner**", "", *blank, ""]))
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _step(view: View, step: Arm, notes: Footnotes) -> str:
    found = [c for n in view.goal_metrics if (c := step.changes.get(n))]
    changes = "<br>".join(_change(view, c) for c in found)
    status = STATUSES.get(step.status, escape(step.status))
    return _row([str(step.number), escape(step.title), status, *_cells(step, notes), changes])


def _change(view: View, change: Change) -> str:
    known = change.lo is not None and change.hi is not None
    spread = f" {ratio_range(change.lo or 0, change.hi or 0)}" if known else ""
    name = short_name(change.metric, view.concurrency, full=True)
    return f"{name} {ratio(change.ratio)}{spread}{mark(change)}"


def _cells(arm: Arm, notes: Footnotes) -> list[str]:
    found: list[str] = []
    for name in COLUMNS:
        cell = arm.cells[name]
        if cell.value is not None:
            found.append(figure(name, cell.value))
        else:
            plain = arm.number is not None and not arm.measured
            found.append(DASH if plain else notes.dash(cell.reason))
    return found


def _ratios(changes: Mapping[str, Change]) -> list[str]:
    told = {n: f"{ratio(c.ratio)}{mark(c)}" for n, c in changes.items()}
    return [told.get(n, "") for n in COLUMNS]


def _section(title: str, lines: Iterable[str]) -> str:
    listed = "\n".join(f"- {line}" for line in lines)
    return f"## {title}\n\n{listed}" if listed else ""


def _reasons(view: View) -> list[str]:
    return [
        f"{s.number} {escape(s.title)}, {STATUSES.get(s.status, escape(s.status))}: "
        f"{escape(s.reason or NO_REASON)}"
        for s in view.steps
        if s.status != "kept"
    ]


def _diffs(view: View) -> list[str]:
    found: list[str] = []
    for step in view.steps:
        changes = [f"{escape(n)} {escape(b)} → {escape(a)}" for n, b, a in step.diff]
        if changes:
            found.append(f"{step.number} {escape(step.title)}: {'; '.join(changes)}")
    return found


def _qualities(view: View) -> list[str]:
    arms = (*view.steps, *((view.winner.arm,) if view.winner else ()))
    found: list[str] = []
    for arm in arms:
        quality = arm.quality
        if quality is None or quality.loss is None:
            continue
        spread = ""
        if quality.lo is not None and quality.hi is not None:
            spread = f" [{percent(quality.lo)}, {percent(quality.hi)}]"
        basis = f", {escape(quality.basis)}" if quality.basis else ""
        found.append(
            f"{escape(arm.title)}: {percent(quality.loss)}{spread}, {VERDICTS.get(quality.verdict, escape(quality.verdict))}{basis}"
        )
    return found
