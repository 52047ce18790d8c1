"""One sentence that says what a study found, honestly, against both baselines."""

from collections.abc import Mapping

from vivace.report.document import Doc, number, text
from vivace.report.view import Arm, Change, View, Winner, better, read_study
from vivace.report.words import VERDICTS, figure, percent, ratio, short_name, unit

_TOLD = ("ttft_p50_ms", "tps_single", "throughput_tps", "memory_bytes")


def headline(doc: Doc) -> str:
    """What the study found; made from the document's numbers alone."""
    view = read_study(doc)
    if view.winner:
        return _gain(view, view.winner)
    measured = [s for s in view.steps if s.measured]
    early = {"interrupted": "Interrupted", "budget": "The budget ended"}.get(view.state)
    if not measured:
        return f"{early or 'Ended'} before any configuration beyond the baselines was measured."
    limited = number(doc, "constraints", "max_memory_bytes") is not None
    # An arm whose memory is unknown says nothing about a memory limit.
    judged = [
        a
        for a in (*measured, *view.defaults)
        if a.measured and not (limited and a.cells["memory_bytes"].value is None)
    ]
    misses = [_miss(doc, view, arm) for arm in judged]
    found = [m for m in misses if m]
    if found and len(found) == len(misses):
        _, words = min(found)
        return f"No configuration meets the constraints; the nearest miss is {words}."
    against = f"{view.default_name}'s defaults"
    if early:
        return f"{early} before a winner was validated; no gain over {against} is claimed."
    return f"No configuration beat {against}: serve the model as it is."


def told(doc: Doc) -> str:
    """The document's own headline, or one made from its numbers."""
    return text(doc, "headline") or headline(doc)


def _gain(view: View, winner: Winner) -> str:
    parts = [_moved(view, winner, metric) for metric in _TOLD]
    parts.append(_loss(winner.arm))
    first = ", ".join(p for p in parts if p) + " against unoptimised"
    default = f"against {view.default_name}'s defaults"
    ratios = [
        f"{short_name(m, view.concurrency, full=True)} {_ratio(winner.vs_default[m], bare=True)}"
        for m in _TOLD
        if m in winner.vs_default
    ]
    if not ratios:
        return f"{first}; {default} nothing was compared."
    claim = "" if _beats(view, winner.vs_default) else "no proven gain: "
    return f"{first}; {default} {claim}{', '.join(ratios)}."


def _beats(view: View, ratios: Mapping[str, Change]) -> bool:
    """Whether one of the goal's metrics is proven better."""
    found = (ratios[m] for m in view.goal_metrics if m in ratios)
    return any(c.proven and better(c.metric, c.ratio, than=1) for c in found)


def _moved(view: View, winner: Winner, metric: str) -> str:
    name = short_name(metric, view.concurrency, full=True)
    after = winner.arm.cells[metric].value
    before = view.unoptimised.cells[metric].value if view.unoptimised else None
    if after is None:
        return f"{name} not measured"
    values = f"{figure(metric, after)} {unit(metric)}"
    if before is not None:
        values = f"{figure(metric, before)} → {values}"
    change = winner.vs_unoptimised.get(metric)
    return f"{name} {values}{f' {_ratio(change)}' if change else ''}"


def _ratio(change: Change, *, bare: bool = False) -> str:
    doubt = "" if change.proven else "not proven"
    if bare:
        return f"{ratio(change.ratio)}{f' ({doubt})' if doubt else ''}"
    return f"({ratio(change.ratio)}{f', {doubt}' if doubt else ''})"


def _loss(arm: Arm) -> str:
    loss = arm.cells["quality_loss"].value
    if loss is None:
        return "quality loss not measured"
    verdict = VERDICTS.get(arm.quality.verdict, "") if arm.quality else ""
    return f"quality loss {percent(loss)}{f' ({verdict})' if verdict else ''}"


def _miss(doc: Doc, view: View, arm: Arm) -> tuple[float, str] | None:
    """By which factor an arm misses its worst constraint, in words; `None` when it meets all."""
    misses: list[tuple[float, str]] = []
    memory_limit = number(doc, "constraints", "max_memory_bytes")
    memory = arm.cells["memory_bytes"].value
    if memory_limit and memory is not None and memory > memory_limit:
        over = f"{figure('memory_bytes', memory)} MB of memory where {figure('memory_bytes', memory_limit)} are allowed"
        misses.append((memory / memory_limit, over))
    loss = arm.quality
    if view.quality_limit and loss and loss.verdict in ("fail", "inconclusive"):
        upper = loss.hi if loss.hi is not None else loss.loss
        if upper is not None:
            over = f"a quality loss of up to {percent(upper)} where {percent(view.quality_limit)} is allowed"
            misses.append((upper / view.quality_limit, over))
    if not misses:
        return None
    return max(misses)[0], f"`{arm.title}` with {' and '.join(w for _, w in misses)}"
