"""The tables of the page: every step, the settings, what leaving a lever out costs."""

from collections.abc import Mapping, Sequence

from vivace.report.document import Doc, at, mapping, number, sequence, text
from vivace.report.tags import NOTHING, Html, el, esc
from vivace.report.view import COLUMNS, Arm, Change, View, changes, groups, mark
from vivace.report.words import (
    DASH,
    LEGEND,
    NO_REASON,
    STATUSES,
    Footnotes,
    figure,
    ratio,
    ratio_range,
    seconds,
    setting,
    short_name,
    unit,
)


def table(caption: str, heads: Sequence[str], rows: Sequence[Html], *, class_: str = "") -> Html:
    """A table with a caption that scrolls sideways by itself on a narrow screen."""
    if not rows:
        return NOTHING
    cells = (el("th", *_head(h), scope="col") for h in heads)
    inner = el(
        "table",
        el("caption", esc(caption)),
        el("thead", el("tr", *cells)),
        el("tbody", *rows),
        class_=class_ or None,
    )
    return el("div", inner, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _head(words: str) -> list[Html]:
    """A heading with its unit, the part after the last comma, on a line of its own."""
    name, comma, of = words.rpartition(", ")
    return [esc(name), el("small", esc(of))] if comma and " " not in of else [esc(words)]


def row(head: str, *cells: str) -> Html:
    """A table row of text."""
    return el("tr", el("th", esc(head), scope="row"), *(el("td", esc(c)) for c in cells))


def chip(status: str) -> Html:
    """A step's status as a small label."""
    return el("span", esc(STATUSES.get(status, status)), class_=f"chip {status}")


def steps_table(view: View, notes: Footnotes) -> Html:
    """Baselines, steps by effort, winner with both ratios."""
    rows = [_arm(view, arm, "baseline", notes) for arm in view.baselines]
    wide = len(COLUMNS) + 3
    for title, steps in groups(view):
        rows.append(el("tr", el("th", esc(title), colspan=wide, scope="rowgroup"), class_="group"))
        rows += [_arm(view, s, s.status, notes) for s in steps]
    if view.winner:
        rows.append(_arm(view, view.winner.arm, "winner", notes))
        rows.append(_ratios("vs unoptimised", view.winner.vs_unoptimised))
        rows.append(_ratios(f"vs {view.default_name} default", view.winner.vs_default))
    names = [f"{short_name(c, view.concurrency, full=True)}, {unit(c)}" for c in COLUMNS]
    return table(
        f"All steps by effort, numbered in the order tried. {LEGEND}.",
        ["step", "status", *names, "vs previous, and why"],
        rows,
        class_="steps",
    )


def _arm(view: View, arm: Arm, status: str, notes: Footnotes) -> Html:
    name = f"{arm.number} {arm.title}" if arm.number else arm.title
    return el(
        "tr",
        el("th", esc(name), scope="row"),
        el("td", chip(status)),
        *(el("td", _figure(arm, c, notes), class_="num") for c in COLUMNS),
        el("td", *_compared(view, arm), class_="why"),
        class_=status,
    )


def _figure(arm: Arm, name: str, notes: Footnotes) -> Html:
    cell = arm.cells[name]
    if cell.value is not None:
        spread = None
        if cell.lo is not None and cell.hi is not None:
            spread = f"95 % interval: {figure(name, cell.lo)} to {figure(name, cell.hi)}"
        return el("span", esc(figure(name, cell.value)), title=spread)
    plain = arm.number is not None and not arm.measured
    return el("span", esc(DASH if plain else notes.dash(cell.reason)), title=cell.reason)


def _compared(view: View, arm: Arm) -> list[Html]:
    found: list[Html] = []
    for name in view.goal_metrics:
        change = arm.changes.get(name)
        if change:
            label = short_name(name, view.concurrency, full=True)
            found.append(el("div", esc(f"{label} {told(change)}"), class_="change"))
    if arm.status and arm.status != "kept":
        found.append(el("div", esc(arm.reason or NO_REASON), class_="reason"))
    return found


def told(change: Change) -> str:
    """A ratio with its interval and its mark."""
    known = change.lo is not None and change.hi is not None
    spread = f" {ratio_range(change.lo or 0, change.hi or 0)}" if known else ""
    return f"{ratio(change.ratio)}{spread}{mark(change)}"


def _ratios(title: str, found: Mapping[str, Change]) -> Html:
    cells = (
        el(
            "td",
            esc(f"{ratio(found[c].ratio)}{mark(found[c])}" if c in found else ""),
            class_="num",
        )
        for c in COLUMNS
    )
    head = el("th", esc(title), scope="row")
    return el("tr", head, el("td"), *cells, el("td"), class_="ratios")


def settings_table(view: View) -> Html:
    """The settings in which the arms differ from one another, and the winner's others."""
    arms = [a for a in (view.unoptimised, view.best_default) if a and a.config]
    if view.winner:
        arms.append(view.winner.arm)
    names = list(dict.fromkeys(n for a in arms for n in a.config))
    rows: list[Html] = []
    for name in names:
        values = [setting(a.config.get(name)) for a in arms]
        if len(set(values)) > 1 or values[0] != setting(None):
            differs = "changed" if len(set(values)) > 1 else None
            cells = (el("td", el("code", esc(v))) for v in values)
            rows.append(
                el("tr", el("th", el("code", esc(name)), scope="row"), *cells, class_=differs)
            )
    heads = ["setting", *(a.title for a in arms)]
    return table("Settings of the baselines and the winner", heads, rows, class_="settings")


def leave_one_out_table(doc: Doc, view: View) -> Html:
    """What the winner loses without each of its levers."""
    rows: list[Html] = []
    titles = {text(s, "lever"): text(s, "title") for s in sequence(doc, "ablation")}
    for entry in sequence(doc, "leave_one_out"):
        found = changes(at(entry, "vs_winner"))
        lever = text(entry, "lever")
        cells = (told(found[c]) if c in found else DASH for c in COLUMNS[:-1])
        rows.append(row(titles.get(lever) or lever, *cells))
    heads = [short_name(c, view.concurrency, full=True) for c in COLUMNS[:-1]]
    return table("The winner without one lever, relative to the winner", ["without", *heads], rows)


def levels_table(view: View) -> Html:
    """The winner at every measured concurrency."""
    levels = mapping(view.winner.arm.row if view.winner else None, "by_concurrency")
    names = ("ttft_loaded_p50_ms", "ttft_loaded_p95_ms", "tpot_p95_ms", "throughput_tps")
    rows = [row(f"{c} at once", *_values(levels[c], names)) for c in levels]
    heads = ["concurrency", "TTFT p50, ms", "TTFT p95, ms", "TPOT p95, ms", "throughput, tokens/s"]
    return table("The winner at each concurrency", heads, rows)


def _values(level: object, names: Sequence[str]) -> list[str]:
    found = ((n, number(level, n)) for n in names)
    return [
        f"{DASH} {text(level, 'reasons', n) or NO_REASON}" if v is None else figure(n, v)
        for n, v in found
    ]


def noise_table(doc: Doc, view: View) -> Html:
    """The ratios that the baseline shows against itself."""
    rows: list[Html] = []
    for name, band in mapping(doc, "noise_band").items():
        lo, hi = number(band, "ratio_lo"), number(band, "ratio_hi")
        told_band = DASH if lo is None or hi is None else f"{ratio(lo)} to {ratio(hi)}"
        rows.append(row(short_name(name, view.concurrency, full=True), told_band))
    caption = "The baseline against itself: no gain inside this band is claimed"
    return table(caption, ["metric", "ratio"], rows)


def trials_table(doc: Doc) -> Html:
    """Every trial: when, how it ended, and what other processes took of the CPU meanwhile."""
    rows: list[Html] = []
    for trial in sequence(doc, "trials"):
        wall, run = number(trial, "wall_s"), number(trial, "run")
        shares = [s for s in sequence(trial, "foreign_cpu_shares") if isinstance(s, float | int)]
        rows.append(
            row(
                text(trial, "id"),
                text(trial, "status"),
                DASH if wall is None else seconds(wall),
                DASH if run is None else f"{run:.0f}",
                text(trial, "measured_at"),
                f"{max(shares):.0%}" if shares else DASH,
                text(trial, "reason"),
            )
        )
    heads = ["trial", "outcome", "took", "run", "ended", "CPU of others, at most", "reason"]
    return table("Every trial", heads, rows)


def runs_table(doc: Doc) -> Html:
    """Which run of the command measured what, where it took more than one."""
    runs = sequence(doc, "runs")
    rows = [
        row(f"{number(run, 'run') or 0:.0f}", text(run, "began"), ", ".join(_names(run)) or DASH)
        for run in runs
    ]
    caption = "The study was gone on with: what each run measured"
    return table(caption, ["run", "began", "measured"], rows if len(runs) > 1 else [])


def _names(run: object) -> list[str]:
    return [name for name in sequence(run, "measured") if isinstance(name, str)]


def plan_table(view: View) -> Html:
    """The plan as it was printed before anything was measured."""
    rows = [row(s, f"{DASH} not estimated" if t is None else seconds(t)) for s, t in view.plan]
    return table("The plan, with estimated times", ["step", "about"], rows)
