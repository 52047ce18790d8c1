"""What the records of a trial boil down to: the samples that every number is computed from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from vivace.core import Record, RecordStatus
from vivace.errors import ConfigError
from vivace.measure.percentile import percentile
from vivace.measure.slo import Slo
from vivace.measure.tokens import token_arrivals

#: Never in latency or throughput, always counted. `cancelled` is the load's own doing.
FAILED: frozenset[RecordStatus] = frozenset(("error", "stalled", "incomplete"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """Plain numbers, JSON-able. Empty or `None` means that the part was not measured.

    `single_*` at concurrency 1, the others inside the steady window. `cycles` cuts that window
    at every end of an answer: (output tokens, seconds) of each gap.
    """

    cold_ttft_ms: float | None = None
    single_ttft_ms: tuple[float, ...] = ()
    single_tps: tuple[float, ...] = ()
    #: Request ids behind `single_ttft_ms`, and behind `single_tps` where both are equally long.
    single_ids: tuple[str, ...] = ()
    loaded_ttft_ms: tuple[float, ...] = ()
    #: Ages at the window's end of requests without a first token: lower bounds of their TTFT.
    loaded_waiting_ms: tuple[float, ...] = ()
    loaded_tpot_ms: tuple[float, ...] = ()
    cycles: tuple[tuple[float, float], ...] = ()
    #: One per request that ended in the window: 1 when it met every objective, else 0 ...
    good: tuple[int, ...] = ()
    #: ... and the seconds since the end before it; together they are the window.
    good_gaps_s: tuple[float, ...] = ()
    window_s: float | None = None
    failed: int = 0
    sent: int = 0
    output_tokens: tuple[int, ...] = ()
    #: Mean requests in flight during the window / concurrency.
    in_flight_share: float | None = None
    #: Mean slots busy per step / slots, by the engine's own account.
    busy_share: float | None = None


def single_samples(records: Sequence[Record], *, cold: Record | None = None) -> Samples:
    """Requests sent one after another. `cold` is the first after a start or an emptied cache.

    TPS = 1000 / TPOT; left out below two tokens or when all of them came at one instant.
    """
    answered = [r for r in records if r.status == "ok"]
    firsts = (r.ttft_ms for r in answered)
    tpots = (r.tpot_ms for r in answered)
    everything = [*records, cold] if cold else records
    return Samples(
        cold_ttft_ms=cold.ttft_ms if cold and cold.status == "ok" else None,
        single_ttft_ms=tuple(t for t in firsts if t is not None),
        single_tps=tuple(1000.0 / t for t in tpots if t),
        single_ids=tuple(r.request_id for r in answered if r.ttft_ms is not None),
        failed=sum(r.status in FAILED for r in everything),
        sent=len(everything),
        output_tokens=_output_tokens(answered),
    )


def loaded_samples(
    records: Sequence[Record],
    *,
    window_ns: tuple[int, int],
    concurrency: int,
    slo: Slo,
    busy_share: float | None = None,
) -> Samples:
    """A closed loop at `concurrency`, looked at inside `window_ns` = (start, end] only.

    The start is left out because the window opens with an end of a request, whose last token
    belongs to the time before. Failures are counted over the whole load.
    """
    start_ns, end_ns = window_ns
    if end_ns <= start_ns:
        raise ConfigError(f"the window must end after its start, got {start_ns} to {end_ns} ns")
    usable = [r for r in records if r.status not in FAILED]
    begun = [r for r in usable if r.pieces and start_ns < r.pieces[0].t_ns <= end_ns]
    ended = sorted(
        (r for r in records if r.status != "cancelled" and start_ns < r.end_ns <= end_ns),
        key=lambda r: r.end_ns,
    )
    answered = [r for r in ended if r.status == "ok"]
    return Samples(
        loaded_ttft_ms=tuple((r.pieces[0].t_ns - r.sent_ns) / 1e6 for r in begun),
        loaded_waiting_ms=tuple((end_ns - r.sent_ns) / 1e6 for r in usable if _waits(r, end_ns)),
        loaded_tpot_ms=tuple(r.tpot_ms for r in answered if r.tpot_ms is not None),
        cycles=_cycles(usable, [start_ns, *(r.end_ns for r in answered), end_ns]),
        good=tuple(int(slo.met(r)) for r in ended),
        good_gaps_s=_gaps_s([start_ns, *(r.end_ns for r in ended[:-1]), end_ns] if ended else []),
        window_s=(end_ns - start_ns) / 1e9,
        failed=sum(r.status in FAILED for r in records),
        sent=len(records),
        output_tokens=_output_tokens(answered),
        in_flight_share=_in_flight_ns(records, window_ns) / (end_ns - start_ns) / concurrency,
        busy_share=busy_share,
    )


def merge(*parts: Samples) -> Samples:
    """All parts as one: samples joined, counts and windows summed, of single readings the median."""
    windows = [p.window_s for p in parts if p.window_s is not None]
    return Samples(
        cold_ttft_ms=_median(p.cold_ttft_ms for p in parts),
        single_ttft_ms=tuple(v for p in parts for v in p.single_ttft_ms),
        single_tps=tuple(v for p in parts for v in p.single_tps),
        single_ids=tuple(v for p in parts for v in p.single_ids),
        loaded_ttft_ms=tuple(v for p in parts for v in p.loaded_ttft_ms),
        loaded_waiting_ms=tuple(v for p in parts for v in p.loaded_waiting_ms),
        loaded_tpot_ms=tuple(v for p in parts for v in p.loaded_tpot_ms),
        cycles=tuple(c for p in parts for c in p.cycles),
        good=tuple(g for p in parts for g in p.good),
        good_gaps_s=tuple(v for p in parts for v in p.good_gaps_s),
        window_s=sum(windows) if windows else None,
        failed=sum(p.failed for p in parts),
        sent=sum(p.sent for p in parts),
        output_tokens=tuple(n for p in parts for n in p.output_tokens),
        in_flight_share=_median(p.in_flight_share for p in parts),
        busy_share=_median(p.busy_share for p in parts),
    )


def prefer(fresh: Samples, stored: Samples) -> Samples:
    """`fresh` where it has a single phase or a load, `stored` where it has not."""
    single = fresh if fresh.single_ttft_ms else stored
    loaded = fresh if fresh.cycles else stored
    return replace(
        loaded,
        cold_ttft_ms=single.cold_ttft_ms,
        single_ttft_ms=single.single_ttft_ms,
        single_tps=single.single_tps,
        single_ids=single.single_ids,
    )


def _median(values: Iterable[float | None]) -> float | None:
    return percentile([v for v in values if v is not None], 50)


def _output_tokens(records: Sequence[Record]) -> tuple[int, ...]:
    return tuple(r.output_tokens for r in records if r.output_tokens is not None)


def _waits(record: Record, end_ns: int) -> bool:
    """In flight at `end_ns` and without a first token by then."""
    in_flight = record.sent_ns < end_ns and (record.status == "cancelled" or record.end_ns > end_ns)
    return in_flight and not (record.pieces and record.pieces[0].t_ns <= end_ns)


def _cycles(records: Sequence[Record], cuts_ns: list[int]) -> tuple[tuple[float, float], ...]:
    """(tokens, seconds) between ascending cuts; a token at a cut belongs to the gap it closes."""
    edges = np.unique(np.array(cuts_ns, dtype=np.int64))
    times, tokens = token_arrivals(records)
    gap = np.searchsorted(edges, times, side="left") - 1
    inside = (gap >= 0) & (gap < len(edges) - 1)
    sums = np.bincount(gap[inside], weights=tokens[inside], minlength=len(edges) - 1)
    return tuple(zip(sums.tolist(), (np.diff(edges) / 1e9).tolist(), strict=True))


def _gaps_s(edges_ns: list[int]) -> tuple[float, ...]:
    return tuple((b - a) / 1e9 for a, b in pairwise(edges_ns))


def _in_flight_ns(records: Sequence[Record], window_ns: tuple[int, int]) -> int:
    start_ns, end_ns = window_ns
    return sum(max(0, min(r.end_ns, end_ns) - max(r.sent_ns, start_ns)) for r in records)
