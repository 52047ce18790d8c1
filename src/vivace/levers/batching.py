"""Static batching, tried against the continuous one that engines ship."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation


class StaticBatching:
    """Shows what continuous batching is worth: a new prompt waits for the running answers' batch."""

    about = About(
        name="static_batching",
        effort="tuning",
        attacks=("throughput_tps",),
        cost="none",
        risk="slots stand idle while a batch runs out: see the share of busy slots",
        shows_in="loaded",
        priority=3,
        needs=frozenset({"continuous_batching"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:
        title = "Static instead of continuous batching"
        if config.continuous_batching is False:
            return ()
        if (config.slots or 1) < 2 or situation.concurrency < 2:
            reason = "batching needs at least two slots and two requests at once"
            return (Option(lever="static_batching", title=title, change={}, impossible=reason),)
        change = {"continuous_batching": False}
        return (Option(lever="static_batching", title=title, change=change),)
