"""How many slots of which length: KV memory arithmetic that several levers share."""

from vivace.core import ServingConfig
from vivace.levers.base import Situation

#: Bits per element of the KV types, with their block scales (ggml block formats).
KV_BITS = {
    "f16": 16.0,
    "bf16": 16.0,
    "q8_0": 8.5,
    "q5_1": 6.0,
    "q5_0": 5.5,
    "q4_1": 5.0,
    "q4_0": 4.5,
}
CONTEXT_STEP = 256
SLOTS_PER_CORE = 4


def context_for(situation: Situation) -> int:
    """Longest request plus a tenth for answers that differ, in whole steps of 256 tokens."""
    wanted = round(situation.request_tokens * 1.1)
    return min(-(-wanted // CONTEXT_STEP) * CONTEXT_STEP, situation.shape.context)


def kv_allocated(config: ServingConfig, situation: Situation) -> int:
    """Bytes an engine sets aside for the KV cache of `config`."""
    tokens = (config.context_tokens or situation.shape.context) * (config.slots or 1)
    bits = KV_BITS.get(config.kv_type or "f16", 16.0)
    return tokens * situation.shape.kv_bytes_per_token(bits / 8)


def slots_that_fit(config: ServingConfig, situation: Situation) -> int | None:
    """As many slots as requests at once, halved until the memory limit holds; `None` below two.

    Without a GPU at most four for each core: what a wider batch saves on weights it loses on
    attention (8 slots 72 tokens/s, 16 slots 59, 2 cores, 2026-12).
    """
    widest = situation.concurrency
    if not config.gpu_layers:
        widest = min(widest, SLOTS_PER_CORE * situation.cores)
    slots = max(widest, 2)
    if situation.memory_limit is None or situation.memory_now is None:
        return slots
    room = situation.memory_limit - (situation.memory_now - kv_allocated(config, situation))
    bits = KV_BITS.get(config.kv_type or "f16", 16.0)
    per_slot = context_for(situation) * situation.shape.kv_bytes_per_token(bits / 8)
    while slots >= 2 and slots * per_slot > room:
        slots //= 2
    return slots if slots >= 2 else None
