"""Samples of one configuration -> its Row, as `contract.md` defines each field."""

from collections.abc import Mapping
from dataclasses import replace

from vivace.core import Estimate, MemoryUse, Row
from vivace.measure.estimate import estimate
from vivace.measure.samples import Samples


def make_row(
    samples: Samples,
    *,
    concurrency: int,
    memory: MemoryUse | None = None,
    warmup_s: float | None = None,
    quality_loss: float | None = None,
    seed: int,
    skipped: Mapping[str, str],
) -> Row:
    """The Row. `skipped` says why a field was left out on purpose; a measured one is kept."""

    def field(tag: str) -> Estimate:
        found = estimate(samples, tag, seed=seed)
        known = found.value is not None or tag not in skipped
        return found if known else replace(found, reason=skipped[tag])

    return Row(
        concurrency=concurrency,
        ttft_p50_ms=field("ttft_p50_ms"),
        tps_single=field("tps_single"),
        ttft_cold_ms=field("ttft_cold_ms"),
        ttft_loaded_p50_ms=field("ttft_loaded_p50_ms"),
        ttft_loaded_p95_ms=field("ttft_loaded_p95_ms"),
        tpot_p95_ms=field("tpot_p95_ms"),
        throughput_tps=field("throughput_tps"),
        goodput_rps=field("goodput_rps"),
        warmup_s=warmup_s,
        memory=memory,
        quality_loss=quality_loss,
        busy_slots_share=samples.busy_share,
    )
