"""Compute the shared prefix once and copy it into every slot."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation
from vivace.levers.sizing import context_for, slots_that_fit


class WarmPrefix:
    """Attacks the cold prefill of each slot. Brings the slots along where there are none yet."""

    about = About(
        name="warm_prefix",
        effort="free",
        attacks=("throughput_tps", "ttft_loaded_p50_ms"),
        cost="one prefill at the first start and a file on disk; KV memory for each slot",
        risk="none for answers; the prefix must be known beforehand",
        shows_in="loaded",
        priority=1,
        needs=frozenset({"warm_prefix", "slots", "context_tokens", "prefix_cache"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:
        if config.warm_prefix:
            return ()
        title = "Shared prefix copied into every slot"
        if not situation.shared_prefixes:
            reason = "the workload has no shared beginning to warm"
            return (Option(lever="warm_prefix", title=title, change={}, impossible=reason),)
        slots = config.slots if (config.slots or 1) > 1 else slots_that_fit(config, situation)
        if slots is None:
            reason = "no second slot fits into the memory limit"
            return (Option(lever="warm_prefix", title=title, change={}, impossible=reason),)
        change: dict[str, object] = {"warm_prefix": True, "prefix_cache": True}
        if config.slots is None or config.slots < slots:
            change |= {"slots": slots, "context_tokens": context_for(situation)}
            title = f"{slots} parallel slots, the shared prefix copied into each"
        return (Option(lever="warm_prefix", title=title, change=change),)
