"""Twice or half as many slots: how wide a batch pays depends on the CPU and on the context."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation


class SlotCount:
    """Attacks throughput and memory: wider batches read the weights less often, narrower ones queue."""

    about = About(
        name="slot_count",
        effort="tuning",
        attacks=("throughput_tps", "memory_bytes"),
        cost="more: KV memory for each slot; fewer: requests beyond the slots wait",
        risk="none for answers",
        shows_in="loaded",
        priority=2,
        needs=frozenset({"slots"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:
        slots = config.slots
        if slots is None or slots < 2:
            title, reason = "More or fewer slots", "the slots are not set, or there is only one"
            return (Option(lever="slot_count", title=title, change={}, impossible=reason),)
        more = min(2 * slots, situation.concurrency)
        counts = {"more": more, "fewer": slots // 2}
        return [
            Option(
                lever=f"slot_count:{name}",
                title=f"{count} slots instead of {slots}",
                change={"slots": count},
            )
            for name, count in counts.items()
            if 1 < count != slots
        ]
