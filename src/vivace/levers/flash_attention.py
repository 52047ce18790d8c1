"""Flash attention on or off: which is faster depends on the CPU, the context and the load."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation


class FlashAttention:
    """Attacks prefill and decode over long contexts. Tries the opposite of what is in force."""

    about = About(
        name="flash_attention",
        effort="tuning",
        attacks=("tps_single", "throughput_tps", "ttft_p50_ms"),
        cost="none",
        risk="rounding differs slightly; a quantised KV cache needs it on",
        shows_in="single",
        changes_answers=True,
        priority=1,
        needs=frozenset({"flash_attention"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:  # noqa: ARG002
        turn_off = config.flash_attention is not False
        title = f"Flash attention {'off' if turn_off else 'on'}"
        if turn_off and config.kv_type not in (None, "f16", "bf16"):
            reason = f"KV type {config.kv_type} needs flash attention"
            return (Option(lever="flash_attention", title=title, change={}, impossible=reason),)
        change = {"flash_attention": not turn_off}
        return (Option(lever="flash_attention", title=title, change=change),)
