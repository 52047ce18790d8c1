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
from vivace.measure.compare import compare
from vivace.measure.row import make_row
from vivace.measure.samples import Samples, merge
from vivace.study.trial import Measured


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
    by_level: Mapping[int, Samples] = field(default_factory=dict[int, Samples])
    memory: MemoryUse | None = None
    warmup_s: float | None = None
    skipped: Mapping[str, str] = field(default_factory=dict[str, str])
    engine_args: Mapping[str, object] = field(default_factory=dict[str, object])
    settings: Mapping[str, object] = field(default_factory=dict[str, object])

    def row(self, *, seed: int, quality_loss: float | None) -> Row:
        """The contract's Row, one more per load level."""
        rows = {
            level: self._row(self._at(level), level, seed=seed, quality_loss=quality_loss)
            for level in self.by_level
        }
        whole = self._row(self.samples, self.concurrency, seed=seed, quality_loss=quality_loss)
        return replace(whole, by_concurrency=rows if len(rows) > 1 else {})

    def with_more(self, other: "Finished") -> "Finished":
        """The samples of a second block of the same configuration added to these."""
        levels = self.by_level.keys() | other.by_level.keys()
        empty = Samples()
        by_level = {
            level: merge(self.by_level.get(level, empty), other.by_level.get(level, empty))
            for level in sorted(levels)
        }
        return replace(self, samples=merge(self.samples, other.samples), by_level=by_level)

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
    )


def ratios(candidate: Finished, reference: Finished, *, seed: int) -> dict[Metric, Ratio]:
    """Candidate divided by reference for every metric that both have."""
    found: dict[Metric, Ratio] = {}
    for metric in METRICS:
        ratio = compare(
            candidate.samples,
            reference.samples,
            metric,
            seed=seed,
            candidate_memory=candidate.memory,
            reference_memory=reference.memory,
        )
        if ratio is not None:
            found[metric] = ratio
    return found
