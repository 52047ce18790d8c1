"""Requests computed at the same time instead of one after another."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation
from vivace.levers.sizing import context_for, slots_that_fit


class Slots:
    """Attacks queueing and throughput: weights are read once for all busy slots."""

    about = About(
        name="slots",
        effort="tuning",
        attacks=("throughput_tps", "ttft_loaded_p50_ms"),
        cost="KV memory for each slot",
        risk="each slot computes a shared prefix again until it is warm",
        shows_in="loaded",
        priority=3,
        needs=frozenset({"slots", "context_tokens"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:
        slots = slots_that_fit(config, situation)
        if slots is None:
            limit = (situation.memory_limit or 0) / 2**20
            reason = f"not even 2 slots fit into {limit:,.0f} MiB"
            return (Option(lever="slots", title="Parallel slots", change={}, impossible=reason),)
        if config.slots is not None and config.slots >= slots:
            return ()
        context = context_for(situation)
        # The sizing is arithmetic: under a limit, half as many stand by in case it was too much.
        counts = {"slots": slots}
        if situation.memory_limit and slots >= 4:
            counts["slots:fewer"] = slots // 2
        return [
            Option(
                lever=name,
                title=f"{count} parallel slots",
                change={"slots": count, "context_tokens": context},
            )
            for name, count in counts.items()
        ]
