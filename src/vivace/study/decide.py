"""Kept or rejected: one rule for every lever."""

from collections.abc import Mapping
from dataclasses import dataclass

from vivace.core import AblationStatus, Goal, Metric, QualityResult, Ratio
from vivace.levers.base import About
from vivace.study.finished import Finished
from vivace.study.goal import losses, score

SINGLE: tuple[Metric, ...] = ("ttft_p50_ms", "tps_single")
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


def early_end(
    about: About | None,
    limits: Limits,
    *,
    vs_previous: Mapping[Metric, Ratio],
    previous_fits: bool,
) -> str:
    """Why a trial need not go on after its single phase; empty when it must."""
    if about is None or about.shows_in != "single" or not previous_fits or limits.goal == "memory":
        return ""
    single = score(limits.goal, vs_previous, SINGLE)
    if single is None or single.lo > 1:
        return ""
    word = "a loss" if single.hi < 1 else "no proven gain"
    return f"{word} for one request: {ratio_words(single)}"


def decide(
    trial: Finished | None,
    previous: Finished,
    limits: Limits,
    *,
    quality: QualityResult | None,
    vs_previous: Mapping[Metric, Ratio],
    vs_default: Mapping[Metric, Ratio],
) -> Decision:
    """Kept needs a proven gain in the goal, no proven loss beyond the floor, and quality."""
    if quality is not None and quality.verdict != "pass":
        words = quality_words(quality, limits.quality_loss)
        doubt = "" if quality.verdict == "fail" else " is inconclusive and cannot win"
        return Decision(status="rejected", reason=words + doubt)
    if trial is None:
        return Decision(status="not_tried", reason="it was not measured")
    if trial.status == "interrupted":
        return Decision(status="not_tried", reason=trial.reason)
    if trial.status != "ok":
        return Decision(status=trial.status, reason=trial.reason)
    return _on_measured(trial, previous, limits, vs_previous=vs_previous, vs_default=vs_default)


def _on_measured(
    trial: Finished,
    previous: Finished,
    limits: Limits,
    *,
    vs_previous: Mapping[Metric, Ratio],
    vs_default: Mapping[Metric, Ratio],
) -> Decision:
    fits, fitted = limits.memory_fits(trial), limits.memory_fits(previous)
    if fitted and not fits:
        return Decision(status="rejected", reason=_memory_words(trial, limits))
    if fits and not fitted:
        return Decision(status="kept", reason="brings the memory within the limit")
    if trial.reason:
        return Decision(status="rejected", reason=trial.reason)
    return _by_speed(limits, vs_previous=vs_previous, vs_default=vs_default, fits=fits)


def _by_speed(
    limits: Limits,
    *,
    vs_previous: Mapping[Metric, Ratio],
    vs_default: Mapping[Metric, Ratio],
    fits: bool,
) -> Decision:
    lost = losses(vs_previous, vs_default)
    if lost:
        words = ", ".join(f"{m} {ratio_words(vs_previous[m])}" for m in lost)
        return Decision(status="rejected", reason=f"loses too much: {words}")
    memory = vs_previous.get("memory_bytes")
    if not fits and memory is not None and memory.ratio < SMALLER:
        return Decision(status="kept", reason="needs less memory, which is still above the limit")
    total = score(limits.goal, vs_previous)
    if total is None:
        return Decision(status="rejected", reason="nothing that the goal scores was measured")
    words = f"{limits.goal}: {ratio_words(total)}"
    if limits.goal == "memory":
        return _kept(total.ratio > 1 / SMALLER, words)
    return _kept(total.lo > 1, words)


def _kept(proven: bool, words: str) -> Decision:
    if proven:
        return Decision(status="kept", reason=words)
    return Decision(status="rejected", reason=f"no proven gain, {words}")


def _memory_words(trial: Finished, limits: Limits) -> str:
    if trial.memory is None or limits.memory is None:
        return "memory was not measured, so the limit is not known to hold"
    needs, limit = trial.memory.total / 2**20, limits.memory / 2**20
    return f"needs {needs:,.0f} MiB of memory, the limit is {limit:,.0f} MiB"
