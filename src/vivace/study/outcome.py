"""What a study has found so far; what is missing was not reached."""

from dataclasses import dataclass, field

from vivace.core import Metric, QualityResult, Ratio, ServingConfig
from vivace.levers.base import Lever, Option
from vivace.study.decide import Decision
from vivace.study.finished import Finished
from vivace.study.plan import Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """One line of the ablation table. `lever` is `None` for several levers at once."""

    lever: Lever | None
    option: Option
    config: ServingConfig
    decision: Decision
    trial: Finished | None = None
    quality: QualityResult | None = None
    vs_previous: dict[Metric, Ratio] = field(default_factory=dict[Metric, Ratio])
    diff: dict[str, tuple[object, object]] = field(default_factory=dict[str, tuple[object, object]])


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """The winner without one of its levers, against the winner; `dropped` where it was better."""

    lever: str
    vs_winner: dict[Metric, Ratio]
    dropped: bool


@dataclass(slots=True)
class Outcome:
    """Everything a study found; what is missing was not reached."""

    plan: Plan | None = None
    unoptimised: Finished | None = None
    default: Finished | None = None
    ablation: list[Tried] = field(default_factory=list[Tried])
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    winner: Finished | None = None
    winner_quality: QualityResult | None = None
    improved: bool = False
    meets: bool = False
    qualities: dict[str, QualityResult] = field(default_factory=dict[str, QualityResult])
    warnings: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    trials: list[Finished] = field(default_factory=list[Finished])
    #: By how much the default differed from itself: metric -> ratio of one half to the other.
    noise: dict[Metric, Ratio] = field(default_factory=dict[Metric, Ratio])
    elapsed_s: float = 0.0
