"""Is the comparison fair? What a block shows against what it should, as named warnings."""

from collections.abc import Sequence
from statistics import fmean

from vivace.core import EngineState, Record, ServingConfig
from vivace.measure.samples import FAILED
from vivace.quality.degenerate import wrong_output

Warnings = list[tuple[str, str]]

#: Engine and client may count a token apart for each request (the end-of-sequence token).
TOKENS_APART = 1
#: Mean answers that differ by more are not the same work.
LENGTHS_APART = 0.05


def check_block(
    name: str,
    config: ServingConfig,
    records: Sequence[Record],
    before: EngineState,
    after: EngineState,
    *,
    shared: bool = False,
) -> Warnings:
    """A block of single requests of the trial `name`, by the engine's own counters.

    `shared`: the requests begin alike, so that a cache has something to give.
    """
    found = check_failed(name, records)
    failed = bool(found)
    client = sum(r.output_tokens or 0 for r in records)
    engine = _gone(before.output_tokens_total, after.output_tokens_total)
    if engine is not None and not failed and abs(engine - client) > TOKENS_APART * len(records):
        words = f"`{name}`: the engine counts {engine:.0f} output tokens, its answers {client}"
        found.append(("token_count", words))
    cached = _gone(before.cached_tokens_total, after.cached_tokens_total)
    if config.prefix_cache is False and cached:
        words = f"`{name}`: {cached:.0f} prompt tokens came from a cache that should be off"
        found.append(("cache_not_off", words))
    if config.prefix_cache and shared and cached == 0:
        words = f"`{name}`: no prompt token came from the prefix cache, which should be on"
        found.append(("cache_not_used", words))
    return found


def check_answers(name: str, records: Sequence[Record]) -> Warnings:
    """Answers without text or of one repeated piece are no work, and make an engine look fast."""
    done = [r for r in records if r.status == "ok"]
    wrong = [fault for r in done if (fault := wrong_output(r.text))]
    words = f"`{name}`: {wrong[0]} in {len(wrong)} of {len(done)} answers" if wrong else ""
    return [("wrong_output", words)] if wrong else []


def check_failed(name: str, records: Sequence[Record]) -> Warnings:
    """Failed requests are in no latency and no throughput, so they are counted."""
    failed = sum(r.status in FAILED for r in records)
    words = f"`{name}`: {failed} of {len(records)} requests failed"
    return [("failed_requests", words)] if failed else []


def check_lengths(name: str, mine: Sequence[int], others: Sequence[int]) -> Warnings:
    """Output tokens of the same questions on both sides."""
    if not mine or not others or fmean(others) <= 0:
        return []
    apart = fmean(mine) / fmean(others) - 1
    if abs(apart) <= LENGTHS_APART:
        return []
    words = f"`{name}`: its answers are {apart:+.0%} as long as those it is compared with"
    return [("output_lengths", words)]


def _gone(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
