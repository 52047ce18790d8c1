"""Threads: more than the physical cores, or fewer, can be faster when cores are shared."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation


class Threads:
    """Attacks prefill and decode on CPUs: one thread less leaves a core to everything else."""

    about = About(
        name="threads",
        effort="tuning",
        attacks=("tps_single", "ttft_p50_ms", "throughput_tps"),
        cost="none",
        risk="none",
        shows_in="single",
        priority=2,
        needs=frozenset({"threads"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:
        title = "One thread less"
        if situation.cores < 2:
            reason = "the machine has one core"
            return (Option(lever="threads", title=title, change={}, impossible=reason),)
        count = situation.cores - 1
        if config.threads == count:
            return ()
        title = f"{count} thread{'s' if count > 1 else ''} (cores minus one)"
        return (Option(lever="threads", title=title, change={"threads": count}),)
