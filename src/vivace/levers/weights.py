"""Smaller weights: decode reads them all for every token."""

import re
from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.levers.base import About, Option, Situation


class Weights:
    """Attacks decode bandwidth and memory. The file as it came is tried first: it costs nothing."""

    about = About(
        name="weights",
        effort="cheap",
        attacks=("tps_single", "throughput_tps", "memory_bytes"),
        cost="making the type once, seconds to minutes",
        risk="quality: measured, and a type beyond the limit is rejected",
        shows_in="single",
        changes_answers=True,
        priority=1,
        needs=frozenset({"weights"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:
        source = situation.shape.weight_type
        found: list[Option] = []
        if config.weights != "source":
            found.append(
                Option(
                    lever="weights:source",
                    title=f"Weights as shipped ({source}, source)",
                    change={"weights": "source"},
                )
            )
        for name, reason in situation.weight_types.items():
            if name in (source, "source", config.weights, "F16"):
                continue
            found.append(
                Option(
                    lever=f"weights:{name}",
                    title=f"Weights {name}",
                    change={"weights": name},
                    impossible=reason or "",
                    # Decode reads more then; only a prefill that knows the type better can gain.
                    late=_bits(name) > _bits(source),
                )
            )
        return found


def _bits(weight_type: str) -> int:
    """`Q4_K_M` -> 4: bits of most weights."""
    digits = re.search(r"\d+", weight_type)
    return int(digits[0]) if digits else 0
