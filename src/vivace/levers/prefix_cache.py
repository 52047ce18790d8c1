"""Keep the KV cache of a prompt's beginning, so that only the new part is computed."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation


class PrefixCache:
    """Attacks prefill: the shared system prompt and the history of a chat are computed once."""

    about = About(
        name="prefix_cache",
        effort="free",
        attacks=("ttft_p50_ms", "ttft_loaded_p50_ms", "throughput_tps"),
        cost="KV memory that would otherwise be free",
        risk="none: the same tokens give the same cache",
        shows_in="single",
        priority=1,
        needs=frozenset({"prefix_cache"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:  # noqa: ARG002
        if config.prefix_cache:
            return ()
        return (
            Option(lever="prefix_cache", title="Prefix cache on", change={"prefix_cache": True}),
        )
