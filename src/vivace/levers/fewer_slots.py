"""Half as many slots: on a CPU wide batches can cost more attention than they save."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation


class FewerSlots:
    """Attacks throughput and memory where slots compete for bandwidth; the rest waits in a queue."""

    about = About(
        name="fewer_slots",
        effort="tuning",
        attacks=("throughput_tps", "memory_bytes"),
        cost="requests beyond the slots wait: TTFT under load",
        risk="none for answers",
        shows_in="loaded",
        priority=1,
        needs=frozenset({"slots"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:  # noqa: ARG002
        title = "Half as many slots"
        if config.slots is None or config.slots < 4:
            reason = "there are not even 4 slots to halve"
            return (Option(lever="fewer_slots", title=title, change={}, impossible=reason),)
        half = config.slots // 2
        title = f"{half} slots instead of {config.slots}"
        return (Option(lever="fewer_slots", title=title, change={"slots": half}),)
