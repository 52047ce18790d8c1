"""A/A: how far a configuration differs from itself. No smaller gain may be claimed."""

import math
from collections.abc import Mapping
from dataclasses import replace

from vivace.core import METRICS, Metric, Ratio
from vivace.measure.compare import compare
from vivace.study.finished import Finished, Turn, ratios

#: Ends the id of the second engine of a configuration that is measured in turn with itself.
ITSELF = "-itself"


def itself(trial: Finished, *, seed: int) -> dict[Metric, Ratio]:
    """From two engines of the same configuration, measured in turn; memory is exact and has none."""
    name = f"{trial.id}{ITSELF}"
    if name not in trial.in_turn:
        return {}
    turn = trial.in_turn[name].samples
    other = replace(trial, id=name, samples=turn, memory=None)
    return ratios(trial, other, seed=seed)


def halves(
    winner: Finished, turn: Turn, *, seed: int, known: Mapping[Metric, Ratio]
) -> dict[Metric, Ratio]:
    """First block against last, for the metrics that have not been compared with themselves yet.

    Single blocks had different questions: what each block asks is taken out through the winner,
    which got the same ones. Scaled to what blocks joined to a whole differ by: of n blocks the
    mean spreads 1 / sqrt(n) as far.
    """
    found: dict[Metric, Ratio] = {}
    for metric in METRICS:
        if metric in known:
            continue
        if metric in ("ttft_p50_ms", "tps_single"):
            against = list(zip(turn.single_blocks, winner.single_blocks, strict=False))
            ratios_ = [compare(mine, other, metric, seed=seed) for mine, other in against]
            logs = [math.log(r.ratio) for r in ratios_ if r is not None]
            if len(logs) > 1:
                found[metric] = _scaled((logs[0] - logs[-1]) / 2)
            continue
        blocks = turn.load_blocks if len(turn.load_blocks) > 1 else winner.load_blocks
        ratio = compare(blocks[0], blocks[-1], metric, seed=seed) if len(blocks) > 1 else None
        if ratio is not None:
            found[metric] = _scaled(math.log(ratio.ratio) / math.sqrt(2))
    return found


def _scaled(log: float) -> Ratio:
    value = math.exp(log)
    return Ratio(ratio=value, lo=value, hi=value, proven=False)


def band(ratio: Ratio) -> tuple[float, float]:
    """The range around 1 that noise alone reaches."""
    reach = max(ratio.ratio, 1 / ratio.ratio)
    return 1 / reach, reach
