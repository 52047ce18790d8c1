"""Latency objectives: `ttft_p95=500ms,tpot_p95=50ms`. Goodput counts the requests that meet them."""

import re
from dataclasses import dataclass
from typing import Literal, cast

from vivace.core import Record
from vivace.errors import ConfigError

ObjectiveMetric = Literal["ttft", "tpot"]

HINT = "write objectives as `ttft_p95=500ms,tpot_p95=50ms`: ttft or tpot, a percentile, ms or s"
_OBJECTIVE = re.compile(r"(ttft|tpot)(?:_p(\d{1,2}(?:\.\d+)?))?=(\d+(?:\.\d+)?)(ms|s)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Objective:
    """`metric` at most `limit_ms` for a share of all requests (`percentile`; `None`: each one)."""

    metric: ObjectiveMetric
    limit_ms: float
    percentile: float | None = None

    def __post_init__(self) -> None:
        if self.limit_ms <= 0:
            raise ConfigError(
                f"the limit of `{self.metric}` must be above 0, got {self.limit_ms:g} ms", hint=HINT
            )
        if self.percentile is not None and self.percentile <= 0:
            raise ConfigError(
                f"the percentile of `{self.metric}` must be above 0, got {self.percentile:g}",
                hint=HINT,
            )

    def met(self, record: Record) -> bool:
        """A first token must be there; TPOT is undefined below two tokens and then not judged."""
        if record.ttft_ms is None:
            return False
        value = record.ttft_ms if self.metric == "ttft" else record.tpot_ms
        return value is None or value <= self.limit_ms


@dataclass(frozen=True, kw_only=True, slots=True)
class Slo:
    """What a good request is. The default is the one of `contract.md`: TTFT 1 s, TPOT 100 ms."""

    objectives: tuple[Objective, ...] = (
        Objective(metric="ttft", limit_ms=1000.0),
        Objective(metric="tpot", limit_ms=100.0),
    )

    def met(self, record: Record) -> bool:
        """One request against the limit of every objective; a failed request meets none."""
        return record.status == "ok" and all(o.met(record) for o in self.objectives)


def parse_slo(text: str) -> Slo:
    """The objectives in `text`; the default when it is empty. Raises `ConfigError`.

    >>> parse_slo("ttft_p95=0.5s").objectives[0].limit_ms
    500.0
    """
    if not text.strip():
        return Slo()
    objectives = tuple(_parse_objective(part.strip()) for part in text.split(","))
    for metric in ("ttft", "tpot"):
        if sum(o.metric == metric for o in objectives) > 1:
            raise ConfigError(f"`{metric}` has two objectives in `{text}`", hint="keep one of them")
    return Slo(objectives=objectives)


def _parse_objective(part: str) -> Objective:
    match = _OBJECTIVE.fullmatch(part)
    if match is None:
        raise ConfigError(f"cannot read the objective `{part}`", hint=HINT)
    metric, share, number, unit = match.groups()
    return Objective(
        metric=cast(ObjectiveMetric, metric),
        limit_ms=float(number) * (1000.0 if unit == "s" else 1.0),
        percentile=float(share) if share else None,
    )
