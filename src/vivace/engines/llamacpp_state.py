"""What llama.cpp's server says of itself: `/metrics`, `/slots` and `/props` into an `EngineState`.

A series that is absent gives `None`, never 0.
"""

from collections.abc import Mapping, Sequence

import msgspec

from vivace.core import EngineState


class Slot(msgspec.Struct):
    """One entry of `/slots`. A slot that never had a task has no `n_prompt_tokens`."""

    id: int
    n_ctx: int
    is_processing: bool = False
    speculative: bool = False
    #: Tokens its KV cache holds now: prompt and answer so far.
    n_prompt_tokens: int | None = None


class _Generation(msgspec.Struct):
    n_ctx: int | None = None


class Props(msgspec.Struct):
    """What is used of `/props`."""

    total_slots: int | None = None
    build_info: str = ""
    default_generation_settings: _Generation = msgspec.field(default_factory=_Generation)


def parse_metrics(text: str) -> dict[str, float]:
    """Prometheus text to name -> value; labels are dropped, unreadable values are left out."""
    values: dict[str, float] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, value = line.rpartition(" ")
        try:
            values[name.partition("{")[0]] = float(value)
        except ValueError:
            continue
    return values


def kv_tokens(slots: Sequence[Slot], restored: Mapping[int, int]) -> int:
    """Tokens held in all slots.

    `restored`: slot id -> tokens that were put into it; counts where the slot never had a task.
    """
    return sum(
        restored.get(s.id, 0) if s.n_prompt_tokens is None else s.n_prompt_tokens for s in slots
    )


def engine_state(
    t_ns: int,
    metrics: Mapping[str, float],
    slots: Sequence[Slot],
    props: Props,
    *,
    context_total: int,
    restored: Mapping[int, int],
) -> EngineState:
    """One reading. `context_total`: tokens all slots together have room for."""
    held = kv_tokens(slots, restored)
    return EngineState(
        t_ns=t_ns,
        running=_count(metrics, "requests_processing"),
        waiting=_count(metrics, "requests_deferred"),
        kv_usage=held / context_total if context_total else None,
        kv_tokens=held,
        # llama.cpp counts computed prompt tokens here; vivace's total includes the cached ones.
        prompt_tokens_total=_sum(metrics, "prompt_tokens_total", "prompt_tokens_cached_total"),
        cached_tokens_total=metrics.get("llamacpp:prompt_tokens_cached_total"),
        output_tokens_total=metrics.get("llamacpp:tokens_predicted_total"),
        busy_slots_per_step=metrics.get("llamacpp:n_busy_slots_per_decode"),
        steps_total=metrics.get("llamacpp:n_decode_total"),
        settings=settings(slots, props, context_total=context_total),
    )


def settings(slots: Sequence[Slot], props: Props, *, context_total: int) -> dict[str, object]:
    """The settings in effect, read back."""
    return {
        "slots": props.total_slots or len(slots),
        "context_tokens_per_slot": slots[0].n_ctx if slots else None,
        "context_tokens_total": context_total,
        "speculation": any(s.speculative for s in slots),
        "build": props.build_info,
    }


def _sum(metrics: Mapping[str, float], *names: str) -> float | None:
    values = [metrics.get(f"llamacpp:{name}") for name in names]
    known = [v for v in values if v is not None]
    return sum(known) if len(known) == len(names) else None


def _count(metrics: Mapping[str, float], name: str) -> int | None:
    value = metrics.get(f"llamacpp:{name}")
    return None if value is None else int(value)
