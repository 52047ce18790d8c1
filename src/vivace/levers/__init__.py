"""The levers, in the order in which a study tries them."""

from collections.abc import Sequence

from vivace.levers.base import Lever
from vivace.levers.batching import StaticBatching
from vivace.levers.draft import DraftCopy
from vivace.levers.flash_attention import FlashAttention
from vivace.levers.kv_type import KvType
from vivace.levers.ngram import NgramSpeculation
from vivace.levers.prefix_cache import PrefixCache
from vivace.levers.slot_count import SlotCount
from vivace.levers.slots import Slots
from vivace.levers.threads import Threads
from vivace.levers.warm_prefix import WarmPrefix
from vivace.levers.weights import Weights


def all_levers() -> Sequence[Lever]:
    """Free ones first, then cheap ones, then tuning, then what depends on the case."""
    return (
        PrefixCache(),
        Weights(),
        FlashAttention(),
        Slots(),
        WarmPrefix(),
        SlotCount(),
        NgramSpeculation(),
        DraftCopy(),
        KvType(),
        Threads(),
        StaticBatching(),
    )
