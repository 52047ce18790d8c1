"""A finished trial: what is stored, compared and reported."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vivace.core import (
    METRICS,
    MemoryUse,
    Metric,
    Ratio,
    Row,
    ServingConfig,
    TrialStatus,
)
from vivace.measure.bootstrap import CONFIDENCE
from vivace.measure.compare import compare
from vivace.measure.row import make_row
from vivace.measure.samples import Samples, merge, prefer
from vivace.study.drift import check_drift
from vivace.study.fairness import Warnings, check_lengths
from vivace.study.trial import Measured

#: The same configuration minutes apart was up to so much faster or slower on a shared machine
#: (24 to 38 tokens/s within an hour, 2026-12): what was not measured in turn knows no better.
DRIFT = 1.25
#: Above this share of the CPU taken by others a block is disturbed.
DISTURBED = 0.1
#: Beyond this share nothing more is to be learnt from it.
WORST = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """What another configuration did in turn with a trial."""

    samples: Samples
    single_blocks: tuple[Samples, ...] = ()
    load_blocks: tuple[Samples, ...] = ()
    memory: MemoryUse | None = None
    #: Share of the CPU that others took, of each block.
    foreign_shares: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """One trial as it went. `samples` are those of the deciding load level."""

    id: str
    config: ServingConfig
    split: str
    status: TrialStatus
    reason: str
    samples: Samples
    concurrency: int
    wall_s: float
    measured_at: str
    #: The run of the study's command that measured it, from 1.
    run: int = 1
    by_level: Mapping[int, Samples] = field(default_factory=dict[int, Samples])
    memory: MemoryUse | None = None
    warmup_s: float | None = None
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    engine_args: Mapping[str, object] = field(default_factory=dict[str, object])
    settings: Mapping[str, object] = field(default_factory=dict[str, object])
    single_blocks: tuple[Samples, ...] = ()
    load_blocks: tuple[Samples, ...] = ()
    #: By the id of the other configuration's own trial.
    in_turn: Mapping[str, Turn] = field(default_factory=dict[str, Turn])
    notes: tuple[tuple[str, str], ...] = ()
    foreign_shares: tuple[float, ...] = ()

    def row(self, *, seed: int, quality_loss: float | None) -> Row:
        """The contract's Row, one more per load level."""
        rows = {
            level: self._row(self._at(level), level, seed=seed, quality_loss=quality_loss)
            for level in self.by_level
        }
        whole = self._row(self.samples, self.concurrency, seed=seed, quality_loss=quality_loss)
        return replace(whole, by_concurrency=rows if len(rows) > 1 else {})

    def _at(self, level: int) -> Samples:
        """Samples of one load level beside the single phase, which all levels share."""
        single = replace(
            Samples(),
            cold_ttft_ms=self.samples.cold_ttft_ms,
            single_ttft_ms=self.samples.single_ttft_ms,
            single_tps=self.samples.single_tps,
            single_ids=self.samples.single_ids,
        )
        return merge(single, self.by_level[level])

    def _row(self, samples: Samples, level: int, *, seed: int, quality_loss: float | None) -> Row:
        return make_row(
            samples,
            concurrency=level,
            memory=self.memory,
            warmup_s=self.warmup_s,
            quality_loss=quality_loss,
            seed=seed,
            skipped=self.skipped,
        )


def finish(measured: Measured, *, level: int, measured_at: str) -> Finished:
    """The frozen record of a live trial."""
    ask = measured.ask
    return Finished(
        id=ask.id,
        config=ask.config,
        split=ask.split,
        status=measured.status,
        reason=measured.reason,
        samples=measured.samples,
        by_level=measured.by_level,
        concurrency=level,
        memory=measured.memory,
        warmup_s=measured.warmup_s,
        wall_s=measured.wall_s,
        skipped=measured.skipped,
        engine_args=measured.engine_args,
        settings=measured.settings,
        measured_at=measured_at,
        single_blocks=tuple(measured.single_blocks),
        load_blocks=tuple(measured.load_blocks),
        in_turn={
            other.ask.id: Turn(
                samples=other.samples,
                single_blocks=tuple(other.single_blocks),
                load_blocks=tuple(other.load_blocks),
                memory=other.memory if other.load_blocks else None,
                foreign_shares=tuple(other.foreign_shares),
            )
            for other in measured.others
            if other.single_blocks
        },
        notes=(
            *measured.notes,
            *_lengths(measured),
            *check_drift(ask.id, measured.samples),
        ),
        foreign_shares=tuple(measured.foreign_shares),
    )


def _lengths(measured: Measured) -> Warnings:
    """Whether both sides of single blocks gave answers of the same length."""
    mine = [n for block in measured.single_blocks for n in block.output_tokens]
    found: Warnings = []
    for other in measured.others:
        theirs = [n for block in other.single_blocks for n in block.output_tokens]
        found += check_lengths(measured.ask.id, mine, theirs)
    return found


def seen_with(candidate: Finished, reference: Finished) -> Finished:
    """The reference as it was when it was measured in turn with the candidate, where it was."""
    turn = candidate.in_turn.get(reference.id)
    if turn is None:
        return reference
    samples = prefer(turn.samples, reference.samples)
    by_level = {**reference.by_level, reference.concurrency: samples}
    memory = turn.memory if turn.memory is not None else reference.memory
    skipped: Mapping[str, str] = {} if samples.cycles else reference.skipped
    return replace(reference, samples=samples, by_level=by_level, memory=memory, skipped=skipped)


def ratios(
    candidate: Finished, reference: Finished, *, seed: int, confidence: float = CONFIDENCE
) -> dict[Metric, Ratio]:
    """Candidate divided by reference for every metric that both have.

    Where both were measured in turn, only those blocks are compared; else the intervals reach
    further by `DRIFT`. Where others took the CPU from a block, they reach further by what that can
    have cost.
    """
    found: dict[Metric, Ratio] = {}
    samples = seen_with(candidate, reference).samples
    for metric in METRICS:
        ratio = compare(
            candidate.samples,
            samples,
            metric,
            seed=seed,
            confidence=confidence,
            candidate_memory=candidate.memory,
            reference_memory=reference.memory,
        )
        if ratio is not None:
            drift = 1.0 if _in_turn(candidate, reference, metric) else DRIFT
            if metric != "memory_bytes":
                drift /= 1 - _disturbance(candidate, reference)
            found[metric] = ratio if drift == 1.0 else _widened(ratio, drift)
    return found


def _disturbance(candidate: Finished, reference: Finished) -> float:
    """The largest share of the CPU that others took from a block of either; 0 where it is small."""
    turn = candidate.in_turn.get(reference.id)
    theirs = reference.foreign_shares if turn is None else turn.foreign_shares
    share = max((*candidate.foreign_shares, *theirs), default=0.0)
    return min(WORST, share) if share > DISTURBED else 0.0


def _in_turn(candidate: Finished, reference: Finished, metric: Metric) -> bool:
    """Whether both sides' blocks of this metric alternated; memory does not drift."""
    turn = candidate.in_turn.get(reference.id)
    if metric == "memory_bytes":
        return True
    if turn is None:
        return False
    single = metric in ("ttft_p50_ms", "tps_single")
    return bool(turn.samples.single_ttft_ms if single else turn.samples.cycles)


def _widened(ratio: Ratio, factor: float) -> Ratio:
    """With what the machine may have been slower or faster by on both ends."""
    lo, hi = ratio.lo / factor, ratio.hi * factor
    return Ratio(ratio=ratio.ratio, lo=lo, hi=hi, proven=ratio.proven and (lo > 1 or hi < 1))
