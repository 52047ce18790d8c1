"""A smaller element type for the KV cache."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation


class KvType:
    """Attacks KV memory; on CPUs it usually costs speed."""

    about = About(
        name="kv_type",
        effort="tuning",
        attacks=("memory_bytes",),
        cost="conversion work at every attention step",
        risk="quality over long contexts: measured before it is kept",
        shows_in="single",
        changes_answers=True,
        priority=2,
        needs=frozenset({"kv_type"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:  # noqa: ARG002
        if config.kv_type == "q8_0":
            return ()
        title = "KV cache q8_0"
        if config.flash_attention is False:
            # llama.cpp refuses a quantised V cache without flash attention.
            change: dict[str, object] = {"kv_type": "q8_0", "flash_attention": True}
            return (Option(lever="kv_type", title=f"{title}, flash attention on", change=change),)
        return (Option(lever="kv_type", title=title, change={"kv_type": "q8_0"}),)
