"""A study in the terminal: readable at 80 columns, with more of it from 116 on."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from vivace.report.document import Doc, mapping, number, text
from vivace.report.facts import memory_lines
from vivace.report.headline import told
from vivace.report.view import COLUMNS, Arm, Change, View, groups, mark, read_study
from vivace.report.words import (
    DASH,
    LEGEND,
    NO_REASON,
    STATES,
    STATUSES,
    Footnotes,
    figure,
    ratio,
    ratio_range,
    seconds,
    short_name,
    unit,
)

FULL_WIDTH = 116
_LEAD_WIDTH = 3
_LEAST_TITLE = 12
_STYLES = {"kept": "green", "rejected": "yellow", "not_tried": "dim", "baseline": "dim"}


def print_report(doc: Doc, console: Console) -> None:
    """Print plan, baselines, ablation, winner, reasons, warnings and notes of a study document."""
    view = read_study(doc)
    console.print(Text(f"{view.model}: {STATES.get(view.state, view.state)}", style="bold"))
    console.print(Text(told(doc)))
    console.print(Text(_plan(doc, view), style="dim"))
    console.print()
    notes = Footnotes()
    _Ladder(view=view, console=console, notes=notes).show()
    _list(console, "Memory", [f"{title}: {split}" for title, split in memory_lines(view)])
    _list(console, "Not measured", [f"{i}  {r}" for i, r in enumerate(notes.reasons, 1)])
    _list(console, "Warnings", view.warnings)
    _list(console, "Notes", view.notes)
    _list(console, "Files", [text(v) for v in mapping(doc, "files").values()])


def _plan(doc: Doc, view: View) -> str:
    known = [s for _, s in view.plan if s is not None]
    elapsed, budget = number(doc, "elapsed_s"), number(doc, "budget_s")
    parts = [f"goal: {view.goal}"]
    if view.plan:
        about = f", {seconds(sum(known))} estimated" if known else ""
        parts.append(f"plan: {len(view.plan)} steps{about}")
    if elapsed is not None:
        of = f" of {seconds(budget)}" if budget is not None else ""
        parts.append(f"took: {seconds(elapsed)}{of}")
    return "; ".join(parts)


@dataclass(kw_only=True, slots=True)
class _Ladder:
    """The table from the baselines over every step to the winner.

    Each line is a grid of its own with fixed widths, so that reasons can use the whole width.
    """

    view: View
    console: Console
    notes: Footnotes
    full: bool = field(init=False)
    columns: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.full = self.console.width >= FULL_WIDTH
        self.columns = tuple(c for c in COLUMNS if self.full or c != "ttft_loaded_p50_ms")

    def show(self) -> None:
        """Print it all."""
        view = self.view
        names = [short_name(c, view.concurrency, full=self.full) for c in self.columns]
        self._line("", "", names, "dim")
        self._line(
            "lever", "status", [unit(c).replace("tokens", "tok") for c in self.columns], "dim"
        )
        self.console.print(Rule(style="dim"))
        for arm in view.baselines:
            self._line(arm.title, "baseline", self._cells(arm))
        for title, steps in groups(view):
            self.console.print()
            self.console.print(Text(title, style="bold"))
            for step in steps:
                self._step(step)
        self.console.print(Rule(style="dim"))
        if view.winner:
            held_out = "held out" if view.winner.held_out else ""
            self._line("Winner", held_out, self._cells(view.winner.arm), "bold")
            self._line("  vs unoptimised", "", self._ratios(view.winner.vs_unoptimised))
            name = f"  vs {view.default_name} default"
            self._line(name, "", self._ratios(view.winner.vs_default))
        else:
            self.console.print(Text("No winner.", style="bold"))
        self.console.print(Text(LEGEND, style="dim"))

    def _line(
        self, title: str, status: str, cells: Sequence[str], style: str = "", *, lead: str = ""
    ) -> None:
        status_width, cell_width = 14, 14 if self.full else 9
        spent = status_width + cell_width * len(self.columns) + _LEAD_WIDTH * bool(lead)
        grid = Table.grid()
        if lead:
            grid.add_column(width=_LEAD_WIDTH)
        grid.add_column(width=max(_LEAST_TITLE, self.console.width - spent), overflow="fold")
        grid.add_column(width=status_width)
        for _ in self.columns:
            grid.add_column(width=cell_width, justify="right")
        word = Text(
            STATUSES.get(status, status), style=_STYLES.get(status, "red" if not style else "")
        )
        row = [Padding(Text(title), (0, 1, 0, 0)), word, *cells]
        grid.add_row(*([Text(lead), *row] if lead else row), style=style)
        self.console.print(grid)

    def _step(self, step: Arm) -> None:
        self._line(step.title, step.status, self._cells(step), lead=f"{step.number:>2}")
        told = [self._told(c) for n in self.view.goal_metrics if (c := step.changes.get(n))]
        below = [f"vs previous: {', '.join(told)}"] if told else []
        if step.status != "kept":
            below.append(f"{STATUSES.get(step.status, step.status)}: {step.reason or NO_REASON}")
        for line in below:
            self.console.print(Padding(Text(line, style="dim"), (0, 0, 0, _LEAD_WIDTH)))

    def _told(self, change: Change) -> str:
        name = short_name(change.metric, self.view.concurrency, full=True)
        spread = ""
        if self.full and change.lo is not None and change.hi is not None:
            spread = f" {ratio_range(change.lo, change.hi)}"
        return f"{name} {ratio(change.ratio)}{spread}{mark(change)}"

    def _cells(self, arm: Arm) -> list[str]:
        found: list[str] = []
        for name in self.columns:
            cell = arm.cells[name]
            if cell.value is not None:
                found.append(figure(name, cell.value))
            else:
                # The reason of a step without any number stands on the line below it.
                plain = arm.number is not None and not arm.measured
                found.append(DASH if plain else self.notes.dash(cell.reason))
        return found

    def _ratios(self, changes: Mapping[str, Change]) -> list[str]:
        told = {n: f"{ratio(c.ratio)}{mark(c)}" for n, c in changes.items()}
        return [told.get(n, "") for n in self.columns]


def _list(console: Console, title: str, lines: Iterable[str]) -> None:
    lines = tuple(lines)
    if not lines:
        return
    console.print()
    console.print(Text(title, style="bold"))
    for line in lines:
        console.print(Padding(Text(line), (0, 0, 0, 2)))
