"""Token counts in the dialects of engines and providers, as one `Usage`.

| dialect | prompt | cached |
|---|---|---|
| OpenAI, vLLM, SGLang | `prompt_tokens` | `prompt_tokens_details.cached_tokens`, inside the prompt |
| OpenAI responses | `input_tokens` | `input_tokens_details.cached_tokens`, inside the prompt |
| llama.cpp `timings` | `cache_n` + `prompt_n` | `cache_n` |
| DeepSeek | hit + miss | `prompt_cache_hit_tokens` |
| Anthropic | `input_tokens` + both cache counts | `cache_read_input_tokens`, outside `input_tokens` |
| Gemini | `promptTokenCount` | `cachedContentTokenCount`, inside the prompt |
| Ollama | `prompt_eval_count` | not told |
"""

from typing import Any, Final

from vivace.client.wire import count, mapping
from vivace.core import Usage

#: A chunk with none of these keys has no counts; most chunks of a stream have none.
USAGE_KEYS: Final = frozenset(
    ("usage", "timings", "usageMetadata", "message", "prompt_eval_count", "eval_count")
)


def usage_from(obj: dict[str, Any]) -> Usage:
    """The counts in one event or response body; what is absent or null is `None`, never 0."""
    usage = mapping(obj.get("usage")) or mapping(mapping(obj.get("message")).get("usage"))
    timings = mapping(obj.get("timings"))
    if usage or timings:
        return _from_timings(_from_usage(usage), timings)
    if gemini := mapping(obj.get("usageMetadata")):
        return Usage(
            prompt_tokens=count(gemini.get("promptTokenCount")),
            completion_tokens=_sum(gemini, "candidatesTokenCount", "thoughtsTokenCount"),
            cached_tokens=count(gemini.get("cachedContentTokenCount")),
        )
    return Usage(
        prompt_tokens=count(obj.get("prompt_eval_count")),
        completion_tokens=count(obj.get("eval_count")),
    )


def merge(old: Usage, new: Usage) -> Usage:
    """Counts are cumulative: the later one wins wherever it says anything."""
    return Usage(
        prompt_tokens=_first(new.prompt_tokens, old.prompt_tokens),
        completion_tokens=_first(new.completion_tokens, old.completion_tokens),
        cached_tokens=_first(new.cached_tokens, old.cached_tokens),
        draft_tokens=_first(new.draft_tokens, old.draft_tokens),
        accepted_tokens=_first(new.accepted_tokens, old.accepted_tokens),
    )


def _from_usage(usage: dict[str, Any]) -> Usage:
    prompt = count(usage.get("prompt_tokens"))
    cached = count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    if prompt is None:
        prompt = _sum(usage, "prompt_cache_hit_tokens", "prompt_cache_miss_tokens")
    if cached is None:
        cached = count(usage.get("prompt_cache_hit_tokens"))
    if prompt is None and count(usage.get("input_tokens")) is not None:
        details = mapping(usage.get("input_tokens_details"))
        outside = () if details else ("cache_read_input_tokens", "cache_creation_input_tokens")
        prompt = _sum(usage, "input_tokens", *outside)
        cached = count(details.get("cached_tokens", usage.get("cache_read_input_tokens")))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=_first(
            count(usage.get("completion_tokens")), count(usage.get("output_tokens"))
        ),
        cached_tokens=cached,
    )


def _from_timings(usage: Usage, timings: dict[str, Any]) -> Usage:
    """llama.cpp's own figures fill what `usage` leaves open.

    Without `cache_n` (older builds) `prompt_n` is only the part that was computed: no prompt size.
    """
    cached = count(timings.get("cache_n"))
    computed = count(timings.get("prompt_n"))
    prompt = cached + computed if cached is not None and computed is not None else None
    return Usage(
        prompt_tokens=_first(usage.prompt_tokens, prompt),
        completion_tokens=_first(usage.completion_tokens, count(timings.get("predicted_n"))),
        cached_tokens=_first(usage.cached_tokens, cached),
        draft_tokens=count(timings.get("draft_n")),
        accepted_tokens=count(timings.get("draft_n_accepted")),
    )


def _first(*values: int | None) -> int | None:
    return next((v for v in values if v is not None), None)


def _sum(obj: dict[str, Any], *names: str) -> int | None:
    counts = [c for name in names if (c := count(obj.get(name))) is not None]
    return sum(counts) if counts else None
