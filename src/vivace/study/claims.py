"""What may be claimed of a winner: several metrics at once, and never what noise alone can do."""

from collections.abc import Mapping
from dataclasses import replace

from vivace.core import METRICS, Metric, Ratio
from vivace.measure.bootstrap import CONFIDENCE
from vivace.study.finished import Finished, ratios
from vivace.study.noise import band

#: Memory is read, not sampled: it takes no share of the 5 %.
SAMPLED = tuple(m for m in METRICS if m != "memory_bytes")
#: Each metric is judged with its share of the 5 % (Bonferroni).
STRICT = 1 - (1 - CONFIDENCE) / len(SAMPLED)


def claims(
    winner: Finished, baseline: Finished, *, seed: int, noise: Mapping[Metric, Ratio]
) -> dict[Metric, Ratio]:
    """Ratios with their plain 95 % intervals; `proven` holds for all metrics together.

    A ratio inside the noise band of its metric is never proven.
    """
    plain = ratios(winner, baseline, seed=seed)
    strict = ratios(winner, baseline, seed=seed, confidence=STRICT)
    found: dict[Metric, Ratio] = {}
    for metric, ratio in plain.items():
        lo, hi = band(noise[metric]) if metric in noise else (1.0, 1.0)
        judged = strict[metric] if metric in SAMPLED else ratio
        found[metric] = replace(ratio, proven=judged.proven and not lo <= ratio.ratio <= hi)
    return found
