"""What a goal asks for: one score out of several ratios, and the losses it allows."""

import math
from collections.abc import Mapping, Sequence

from vivace.core import LOWER_IS_BETTER, Goal, Metric, Ratio

#: A speed metric may fall to this share of the best engine default (`contract.md`).
FLOOR = 0.95

SCORED: Mapping[Goal, tuple[Metric, ...]] = {
    "balanced": ("ttft_p50_ms", "tps_single", "throughput_tps"),
    "latency": ("ttft_p50_ms", "tps_single"),
    "throughput": ("throughput_tps",),
    "memory": ("memory_bytes",),
}
#: Both from the same requests alone.
SINGLE: tuple[Metric, ...] = ("ttft_p50_ms", "tps_single")
SPEED: tuple[Metric, ...] = ("ttft_p50_ms", "tps_single", "throughput_tps")


def endpoints(goal: Goal, attacks: Sequence[Metric]) -> tuple[Metric, ...]:
    """What a lever's gain has to be proven in: what it attacks of what the goal scores.

    The others would only add their noise. All of the goal where it attacks none of it.
    """
    scored = SCORED[goal]
    return tuple(m for m in scored if m in attacks) or scored


def gain(metric: Metric, ratio: Ratio) -> Ratio:
    """The ratio turned so that above 1 is better."""
    if metric not in LOWER_IS_BETTER:
        return ratio
    return Ratio(ratio=1 / ratio.ratio, lo=1 / ratio.hi, hi=1 / ratio.lo, proven=ratio.proven)


def score(goal: Goal, ratios: Mapping[Metric, Ratio], only: Sequence[Metric] = ()) -> Ratio | None:
    """Geometric mean of the gains that the goal scores, over those that were measured.

    The interval adds the half-widths on the log scale: those of one request's metrics as they are, for
    what slows a request down slows both, with the load's in quadrature.
    `only` narrows it to some metrics. `None` when none of them was measured.
    """
    wanted: list[Metric] = [m for m in SCORED[goal] if m in ratios and (not only or m in only)]
    if not wanted:
        return None
    gains = [gain(m, ratios[m]) for m in wanted]
    mean = sum(math.log(g.ratio) for g in gains) / len(gains)
    up = _joined(wanted, [math.log(g.hi) - math.log(g.ratio) for g in gains])
    down = _joined(wanted, [math.log(g.ratio) - math.log(g.lo) for g in gains])
    lo, hi = math.exp(mean - down), math.exp(mean + up)
    if any(g.lo == g.hi != 1 and not g.proven for g in gains):
        # One sample on a side has no interval: nothing is known about the spread of the score.
        lo, hi = min(lo, 1.0), max(hi, 1.0)
    return Ratio(ratio=math.exp(mean), lo=lo, hi=hi, proven=lo > 1 or hi < 1)


def _joined(metrics: Sequence[Metric], widths: Sequence[float]) -> float:
    """Half-width of a mean over metrics."""
    alone = sum(w for m, w in zip(metrics, widths, strict=True) if m in SINGLE)
    others = (w for m, w in zip(metrics, widths, strict=True) if m not in SINGLE)
    return math.hypot(alone, *others) / len(widths)


def losses(vs_previous: Mapping[Metric, Ratio], vs_default: Mapping[Metric, Ratio]) -> list[Metric]:
    """Speed metrics that are proven to lose too much.

    A loss against the step before is allowed while the metric stays at the floor of the best
    engine default: a configuration may give back some of what it had won.
    """
    return [
        metric
        for metric in SPEED
        if metric in vs_previous
        and gain(metric, vs_previous[metric]).hi < FLOOR
        and (metric not in vs_default or gain(metric, vs_default[metric]).ratio < FLOOR)
    ]


def below_floor(vs_default: Mapping[Metric, Ratio], *, proven: bool) -> list[Metric]:
    """Speed metrics of a winner below the floor of the engine default.

    `proven`: those that are sure to be slower; else those of which it is not known.
    """
    found: list[Metric] = []
    for metric in SPEED:
        if metric in vs_default:
            turned = gain(metric, vs_default[metric])
            if turned.ratio < FLOOR and (turned.hi < 1) == proven:
                found.append(metric)
    return found
