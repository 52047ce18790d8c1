"""Both configurations on the same requests: what the questions differ in falls out of the ratio."""

import math
import statistics
from collections.abc import Sequence

from vivace.core import Metric
from vivace.measure.bootstrap import CONFIDENCE, t_quantile
from vivace.measure.samples import Samples

#: Fewer common requests than this give no interval worth having.
FEWEST = 3


def paired_logs(candidate: Samples, reference: Samples, metric: Metric) -> list[float] | None:
    """log(candidate / reference) of each request that both answered alone.

    `None` where the metric is not of the single phase or fewer than three requests are common.
    A request measured several times counts once, with its geometric mean.
    """
    above, below = _by_request(candidate, metric), _by_request(reference, metric)
    common = [name for name in above if name in below]
    if len(common) < FEWEST:
        return None
    return [above[name] - below[name] for name in common]


def paired_interval(
    logs: Sequence[float], *, confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Geometric mean of the ratios with its interval: Student's t on the logarithms."""
    mean = statistics.fmean(logs)
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    reach = t_quantile(len(logs) - 1, confidence) * error
    return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def _by_request(samples: Samples, metric: Metric) -> dict[str, float]:
    """Mean logarithm by request id; empty where the values have no ids of their own."""
    values: Sequence[float] = ()
    if metric == "ttft_p50_ms":
        values = samples.single_ttft_ms
    elif metric == "tps_single":
        values = samples.single_tps
    if len(values) != len(samples.single_ids) or min(values, default=0) <= 0:
        return {}
    groups: dict[str, list[float]] = {}
    for name, value in zip(samples.single_ids, values, strict=True):
        groups.setdefault(name, []).append(math.log(value))
    return {name: statistics.fmean(logs) for name, logs in groups.items()}
