"""A study document as the three renderers show it: one noun, the arm, for all that was measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vivace.core import LOWER_IS_BETTER, METRICS, Metric
from vivace.report.document import (
    Doc,
    at,
    interval,
    mapping,
    number,
    numbers,
    sequence,
    text,
)
from vivace.report.words import EFFORTS, GOALS, NO_REASON, STATUSES, engine_name, setting

#: What every table shows, in this order.
COLUMNS = (
    "ttft_p50_ms",
    "tps_single",
    "ttft_loaded_p50_ms",
    "throughput_tps",
    "memory_bytes",
    "quality_loss",
)
SAMPLES = ("ttft_ms", "loaded_ttft_ms", "tps", "tpot_ms")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One number with its 95 % interval; `reason` says why there is none."""

    value: float | None
    lo: float | None = None
    hi: float | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """An arm's metric divided by that of what it is compared with."""

    metric: str
    ratio: float
    lo: float | None
    hi: float | None
    proven: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Quality:
    """How far the outputs moved from the reference's; `loss` as a share."""

    loss: float | None
    lo: float | None
    hi: float | None
    verdict: str
    positions: float | None
    kl_mean: float | None
    same_top1: float | None
    basis: str
    reference: str
    by_slice: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """A baseline, a step of the ablation or the winner. `number` counts steps in trial order."""

    title: str
    number: int | None = None
    effort: str = ""
    attacks: str = ""
    status: str = ""
    reason: str = ""
    measured: bool = True
    cells: Mapping[str, Cell] = field(default_factory=dict[str, Cell])
    changes: Mapping[str, Change] = field(default_factory=dict[str, Change])
    predicted: Mapping[str, tuple[float, float]] = field(
        default_factory=dict[str, tuple[float, float]]
    )
    quality: Quality | None = None
    diff: tuple[tuple[str, str, str], ...] = ()
    config: Doc = field(default_factory=dict[str, object])
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict[str, tuple[float, ...]])
    row: Doc = field(default_factory=dict[str, object])


@dataclass(frozen=True, kw_only=True, slots=True)
class Winner:
    """The winning arm with its ratios to both baselines."""

    arm: Arm
    vs_unoptimised: Mapping[str, Change]
    vs_default: Mapping[str, Change]
    held_out: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class View:
    """Everything a report shows. `default_name` names the best engine default."""

    name: str
    model: str
    state: str
    goal: str
    goal_metrics: tuple[Metric, ...]
    concurrency: int | None
    quality_limit: float | None
    default_name: str
    unoptimised: Arm | None
    defaults: tuple[Arm, ...]
    best_default: Arm | None
    steps: tuple[Arm, ...]
    winner: Winner | None
    plan: tuple[tuple[str, float | None], ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def baselines(self) -> tuple[Arm, ...]:
        """The unoptimised arm, then every engine's default."""
        return (*((self.unoptimised,) if self.unoptimised else ()), *self.defaults)


def read_study(doc: Doc) -> View:
    """The view of a document, whatever is missing from it."""
    unoptimised_row = mapping(doc, "baselines", "unoptimised")
    unoptimised = _baseline("Unoptimised", unoptimised_row) if unoptimised_row else None
    rows = mapping(doc, "baselines", "engine_defaults")
    defaults = {n: _baseline(f"{engine_name(n)} default", mapping(rows, n)) for n in rows}
    best = text(doc, "best_default")
    steps = tuple(_step(s, i) for i, s in enumerate(sequence(doc, "ablation"), 1))
    goal = text(doc, "goal") or "balanced"
    limit = number(doc, "quality_limit")
    return View(
        name=text(doc, "name") or "study",
        model=model_name(doc),
        state=text(doc, "state") or "finished",
        goal=goal,
        goal_metrics=GOALS.get(goal, GOALS["balanced"]),
        concurrency=_concurrency(doc),
        quality_limit=number(doc, "constraints", "max_quality_loss") if limit is None else limit,
        default_name=engine_name(best) if best else "the engine",
        unoptimised=unoptimised,
        defaults=tuple(defaults.values()),
        best_default=defaults.get(best),
        steps=steps,
        winner=_winner(doc, steps),
        plan=tuple((text(p, "step"), number(p, "seconds")) for p in sequence(doc, "plan")),
        warnings=tuple(_message(w) for w in sequence(doc, "warnings")),
        notes=tuple(_message(n) for n in sequence(doc, "notes")),
    )


def model_name(doc: Doc) -> str:
    """What the model is called, by the first of the keys that names it."""
    names = (text(doc, "model", key) for key in ("name", "id", "source", "path", "file"))
    return next((n for n in names if n), "unnamed model")


def _concurrency(doc: Doc) -> int | None:
    rows = (at(doc, "winner", "row"), at(doc, "baselines", "unoptimised"))
    found = (number(row, "concurrency") for row in rows)
    return next((int(c) for c in found if c is not None), None)


def _message(value: object) -> str:
    words, code = text(value, "message"), text(value, "code")
    return f"{words} ({code})" if code else words or text(value) or setting(value)


def _baseline(title: str, row: Doc) -> Arm:
    found = cells(row, why_none="" if row else "it was not measured")
    return Arm(
        title=title,
        measured=any(c.value is not None for c in found.values()),
        cells=found,
        config=mapping(row, "config"),
        samples=_samples(row),
        row=row,
    )


def _step(step: object, index: int) -> Arm:
    row = mapping(step, "row")
    quality = _quality(at(step, "quality"))
    status = text(step, "status")
    why_none = text(step, "reason") or STATUSES.get(status, "") or NO_REASON
    return Arm(
        title=text(step, "title") or text(step, "lever") or "unnamed lever",
        number=index,
        effort=text(step, "effort"),
        attacks=_joined(at(step, "attacks")),
        status=status,
        reason=text(step, "reason"),
        measured=bool(row),
        cells=cells(row, quality, why_none="" if row else why_none),
        changes=changes(at(step, "vs_previous")),
        predicted=_predicted(step),
        quality=quality,
        diff=_diff(mapping(step, "config_diff")),
        samples=_samples(step),
        row=row,
    )


def _winner(doc: Doc, steps: tuple[Arm, ...]) -> Winner | None:
    winner = mapping(doc, "winner")
    if not winner:
        return None
    row = mapping(winner, "row")
    quality = _quality(at(winner, "quality"))
    # The ablation's samples stand in where the validation left none: same settings, other prompts.
    kept = [s for s in steps if s.status == "kept"]
    samples = _samples(winner) or _samples(row) or (kept[-1].samples if kept else {})
    arm = Arm(
        title="Winner",
        cells=cells(row, quality),
        quality=quality,
        config=mapping(winner, "config"),
        samples=samples,
        row=row,
    )
    return Winner(
        arm=arm,
        vs_unoptimised=changes(at(winner, "vs_unoptimised")),
        vs_default=changes(at(winner, "vs_engine_default")),
        held_out=at(winner, "held_out") is True,
    )


def cells(row: Doc, quality: Quality | None = None, *, why_none: str = "") -> dict[str, Cell]:
    """Every column of a Row; a number that is missing carries its reason."""
    found: dict[str, Cell] = {}
    for name in COLUMNS:
        lo, hi = interval(row, "intervals", name) or (None, None)
        value = number(row, name)
        if name == "quality_loss" and quality and quality.loss is not None:
            value, lo, hi = quality.loss, quality.lo, quality.hi
        reason = why_none or text(row, "reasons", name) or NO_REASON
        found[name] = Cell(value=value, lo=lo, hi=hi, reason=reason if value is None else "")
    return found


def changes(ratios: object) -> dict[str, Change]:
    """The ratios of a document's `{metric: R}` that are numbers."""
    found: dict[str, Change] = {}
    for name in METRICS:
        value = number(ratios, name, "ratio")
        if value is not None:
            lo, hi = interval(ratios, name, "ci95") or (None, None)
            proven = at(ratios, name, "proven") is True
            found[name] = Change(metric=name, ratio=value, lo=lo, hi=hi, proven=proven)
    return found


def _quality(value: object) -> Quality | None:
    if not mapping(value):
        return None
    lo, hi = interval(value, "ci95") or (None, None)
    slices = {n: number(v) for n, v in mapping(value, "by_slice").items()}
    return Quality(
        loss=number(value, "loss"),
        lo=lo,
        hi=hi,
        verdict=text(value, "verdict"),
        positions=number(value, "positions"),
        kl_mean=number(value, "kl_mean"),
        same_top1=number(value, "same_top1"),
        basis=text(value, "basis"),
        reference=text(value, "reference"),
        by_slice={n: v for n, v in slices.items() if v is not None},
    )


def _samples(value: object) -> dict[str, tuple[float, ...]]:
    found = {name: numbers(value, "samples", name) for name in SAMPLES}
    return {name: values for name, values in found.items() if values}


def _predicted(step: object) -> dict[str, tuple[float, float]]:
    found: dict[str, tuple[float, float]] = {}
    for name in METRICS:
        lo = number(step, "predicted", name, "ratio_lo")
        hi = number(step, "predicted", name, "ratio_hi")
        if lo is not None and hi is not None:
            found[name] = (lo, hi)
    return found


def _diff(diff: Doc) -> tuple[tuple[str, str, str], ...]:
    """(setting, before, after); a value that is no `[before, after]` pair is the new one alone."""
    found: list[tuple[str, str, str]] = []
    for name, value in diff.items():
        pair = sequence(value)
        before, after = (
            (setting(pair[0]), setting(pair[1])) if len(pair) == 2 else ("", setting(value))
        )
        found.append((text(name), before, after))
    return tuple(found)


def _joined(value: object) -> str:
    return text(value) or ", ".join(filter(None, (text(v) for v in sequence(value))))


def groups(view: View) -> list[tuple[str, tuple[Arm, ...]]]:
    """The steps by effort, the least first; each keeps the number of its turn."""
    known: dict[str, str] = {**EFFORTS}
    found = [(title, tuple(s for s in view.steps if s.effort == e)) for e, title in known.items()]
    found.append(("Other", tuple(s for s in view.steps if s.effort not in known)))
    return [(title, steps) for title, steps in found if steps]


def better(metric: str, value: float, *, than: float) -> bool:
    """Whether a metric moved the wanted way."""
    return value < than if metric in LOWER_IS_BETTER else value > than


def mark(change: Change) -> str:
    """` ✓` proven better, ` ✗` proven worse, nothing when not proven."""
    if not change.proven:
        return ""
    return " ✓" if better(change.metric, change.ratio, than=1) else " ✗"
