"""Kept or rejected: one rule for every lever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from vivace.core import METRICS, AblationStatus, Goal, Metric, QualityResult, Ratio, TrialStatus
from vivace.study.finished import Finished
from vivace.study.goal import SCORED, losses, score

#: Beyond this factor a score is clear without turns.
CLEAR = 1.5
#: A score below this is not worth another round.
PROMISING = 1.02
#: What becomes of a lever whose trial ended so, or was ended by its gate.
STATUS: Mapping[TrialStatus, AblationStatus] = {
    "ok": "rejected",
    "interrupted": "not_tried",
    "crashed": "crashed",
    "oom": "oom",
    "infeasible": "infeasible",
    "timeout": "timeout",
}
#: A memory reading below this share of the other counts as smaller.
SMALLER = 0.98


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a winner must hold."""

    goal: Goal
    quality_loss: float
    memory: int | None = None

    def memory_fits(self, trial: Finished) -> bool:
        """Within the memory limit; a trial without a reading does not fit a limit."""
        if self.memory is None:
            return True
        return trial.memory is not None and trial.memory.total <= self.memory


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What became of a lever, in words."""

    status: AblationStatus
    reason: str


def quality_words(quality: QualityResult, limit: float) -> str:
    """`quality loss 33.1 % [30.2, 36.0] against a limit of 2 %`."""
    interval = f"[{quality.lo:.1%}, {quality.hi:.1%}]".replace("%", " %")
    return f"quality loss {quality.loss:.1%} {interval} against a limit of {limit:.1%}"


def ratio_words(ratio: Ratio) -> str:
    """`1.23 [1.18, 1.29]`."""
    return f"{ratio.ratio:.2f}x [{ratio.lo:.2f}, {ratio.hi:.2f}]"


def at_a_glance(single: Ratio | None) -> str | None:
    """After one block: a difference far beyond noise needs no turns with the reference."""
    clear = single is not None and (single.lo > CLEAR or single.hi < 1 / CLEAR)
    return "" if clear else None


def early_end(single: Ratio | None, *, last: bool) -> str | None:
    """After a round of turns: a reason to end, "" to go on with the load, `None` for another round."""
    if single is None or single.lo > 1:
        return ""
    if single.hi < 1:
        return f"a loss for one request: {ratio_words(single)}"
    hopeless = single.ratio < PROMISING
    return f"no proven gain for one request: {ratio_words(single)}" if last or hopeless else None


def decide(
    trial: Finished | None,
    previous: Finished,
    limits: Limits,
    *,
    quality: QualityResult | None,
    vs_previous: Mapping[Metric, Ratio],
    vs_default: Mapping[Metric, Ratio],
    proven_in: Sequence[Metric] = (),
    noise_floor: float = 1.0,
) -> Decision:
    """Kept needs a proven gain beyond noise, no proven loss, and quality.

    `proven_in`: the metrics to prove it in (`goal.endpoints`); the goal must not fall meanwhile, by
    what is proven of the others.
    """
    if quality is not None and quality.verdict != "pass":
        words = quality_words(quality, limits.quality_loss)
        doubt = "" if quality.verdict == "fail" else " is inconclusive and cannot win"
        return Decision(status="rejected", reason=words + doubt)
    if trial is None or trial.status != "ok" or trial.reason:
        return _ended(trial)
    fits, fitted = limits.memory_fits(trial), limits.memory_fits(previous)
    if fitted != fits:
        words = "brings the memory within the limit" if fits else _memory_words(trial, limits)
        return Decision(status="kept" if fits else "rejected", reason=words)
    lost = losses(vs_previous, vs_default)
    if lost:
        words = ", ".join(f"{m} {ratio_words(vs_previous[m])}" for m in lost)
        return Decision(status="rejected", reason=f"loses too much: {words}")
    memory = vs_previous.get("memory_bytes")
    if not fits and memory is not None and memory.ratio < SMALLER:
        return Decision(status="kept", reason="needs less memory, which is still above the limit")
    wanted: list[Metric] = [m for m in SCORED[limits.goal] if m in proven_in and m in vs_previous]
    return _by_goal(limits.goal, vs_previous, wanted=wanted, noise_floor=noise_floor)


def _ended(trial: Finished | None) -> Decision:
    if trial is None:
        return Decision(status="not_tried", reason="it was not measured")
    return Decision(status=STATUS[trial.status], reason=trial.reason)


def _by_goal(
    goal: Goal,
    vs_previous: Mapping[Metric, Ratio],
    *,
    wanted: Sequence[Metric],
    noise_floor: float,
) -> Decision:
    total = score(goal, {m: _as_known(r, m in (wanted or METRICS)) for m, r in vs_previous.items()})
    if total is None:
        return Decision(status="rejected", reason="nothing that the goal scores was measured")
    words = f"{goal}: {ratio_words(total)}"
    if goal == "memory":
        return _kept(total.ratio > 1 / SMALLER, words)
    proof = score(goal, vs_previous, wanted) or total
    if proof != total:
        words = f"{', '.join(wanted)}: {ratio_words(proof)}, {goal}: {total.ratio:.2f}x"
    if proof.lo > 1 and proof.ratio <= noise_floor:
        words += f", within the noise of {noise_floor:.2f}x"
    return _kept(proof.lo > 1 and proof.ratio > noise_floor and total.ratio > 1, words)


def _as_known(ratio: Ratio, wanted: bool) -> Ratio:
    """A metric that the lever does not attack and that is not proven to change counts as unchanged."""
    return ratio if wanted or ratio.proven else replace(ratio, ratio=1.0)


def _kept(proven: bool, words: str) -> Decision:
    if proven:
        return Decision(status="kept", reason=words)
    return Decision(status="rejected", reason=f"no proven gain, {words}")


def _memory_words(trial: Finished, limits: Limits) -> str:
    if trial.memory is None or limits.memory is None:
        return "memory was not measured, so the limit is not known to hold"
    needs, limit = trial.memory.total / 2**20, limits.memory / 2**20
    return f"needs {needs:,.0f} MiB of memory, the limit is {limit:,.0f} MiB"
