"""What a lever is: one optimisation that can be switched on, as a change to a `ServingConfig`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from vivace.core import Effort, Goal, Metric, ServingConfig
from vivace.models.shape import ModelShape

Phase = Literal["single", "loaded"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Situation:
    """What a lever may look at: the model, the machine, the traffic and the limits."""

    shape: ModelShape
    cores: int
    concurrency: int
    #: Longest prompt + answer of the workload, in tokens.
    request_tokens: int
    shared_prefixes: int
    #: Weight types worth trying -> why one is not (`None`: it fits).
    weight_types: Mapping[str, str | None]
    goal: Goal = "balanced"
    memory_limit: int | None = None
    #: Memory of the configuration that is the best so far, and of its KV allocation.
    memory_now: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Option:
    """One thing to try. `impossible` says why it cannot be tried here."""

    lever: str
    title: str
    change: Mapping[str, object]
    impossible: str = ""
    #: Unlikely to gain: after the other options of its lever's priority.
    late: bool = False

    def apply(self, config: ServingConfig) -> ServingConfig:
        """The configuration with this option switched on; raises `ConfigError` where it is wrong."""
        return replace(config, **self.change)  # pyright: ignore[reportArgumentType]


@dataclass(frozen=True, kw_only=True, slots=True)
class About:
    """What a lever says of itself: shown in plans and reports."""

    name: str
    effort: Effort
    attacks: tuple[Metric, ...]
    cost: str
    risk: str
    #: Where its gain must show first: a trial without one there ends early.
    shows_in: Phase
    #: It can change what the model answers, so its quality is measured before it is kept.
    changes_answers: bool = False
    #: 1 is tried in any budget, 3 only when there is time to spare.
    priority: int = 2
    needs: frozenset[str] = field(default_factory=frozenset[str])


class Lever(Protocol):
    """One optimisation. `needs` of `about` are the `ServingConfig` fields an engine must support."""

    about: About

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:
        """What to try on top of `config`, best first; empty when it does not apply."""
        ...
