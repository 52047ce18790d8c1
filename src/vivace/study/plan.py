"""What will be tried, in which order, and how long each step should take."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from vivace.core import ServingConfig
from vivace.levers.base import Lever, Option, Situation
from vivace.study.pace import MAKE_S, Pace, follows


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One line of the plan. `chosen` is False for what the budget has no room for."""

    name: str
    title: str
    seconds: float
    priority: int = 0
    chosen: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Fixed steps before and after, levers between them. `bundled`: the first levers as one step."""

    before: tuple[Step, ...]
    levers: tuple[Step, ...]
    after: tuple[Step, ...]
    bundled: bool
    #: What follows from other figures is not measured: see `pace.follows`.
    thrift: bool = False
    #: No room for a separate validation: the one candidate is measured on held-out prompts at once.
    direct: bool = False

    @property
    def seconds(self) -> float:
        """All chosen steps together."""
        return sum(s.seconds for s in (*self.before, *self.levers, *self.after) if s.chosen)

    @property
    def reserve_s(self) -> float:
        """What validation needs; never given to more levers."""
        return sum(s.seconds for s in self.after)

    def first_s(self, done: Collection[str]) -> float:
        """What the levers that every study is about still need, with some slack."""
        rest = (s for s in self.levers if s.chosen and s.name in BUNDLE and s.name not in done)
        return SLACK * sum(s.seconds for s in rest)

    def first(self, name: str) -> bool:
        """Whether this lever is among the most important ones that have room in the budget."""
        return any(s.name == name and s.chosen and s.priority == 1 for s in self.levers)

    def chooses(self, name: str) -> bool:
        """Whether the lever of this name has room in the budget."""
        return any(s.name == name and s.chosen for s in self.levers)


def lever_steps(
    levers: Sequence[Lever],
    start: ServingConfig,
    situation: Situation,
    pace: Pace,
    *,
    thrift: bool = False,
) -> list[Step]:
    """The steps of every lever, on the assumption that those of priority 1 are kept."""
    config, steps = start, list[Step]()
    for lever in levers:
        options = lever.options(config, situation)
        for option in options:
            if option.impossible:
                steps.append(Step(name=option.lever, title=option.title, seconds=0.0))
                continue
            step = _step(lever, option, config, pace, thrift=thrift, level=situation.concurrency)
            steps.append(step)
        first = next((o for o in options if not o.impossible), None)
        if lever.about.priority == 1 and first is not None and lever.about.effort != "case":
            config = first.apply(config)
    return steps


def _step(
    lever: Lever, option: Option, config: ServingConfig, pace: Pace, *, thrift: bool, level: int
) -> Step:
    about = lever.about
    changed = option.apply(config)
    made = changed.weights not in (config.weights, "source")
    loaded = goes_to_load(lever)
    reference = None if pace.slow(config) else config
    if thrift and follows(changed, reference, level=level):
        loaded = False
    if made:
        # Mostly its quality settles it.
        seconds = pace.judge_s
    else:
        quality = about.changes_answers
        blocks = 1 if about.shows_in == "loaded" else 2
        seconds = pace.trial_s(
            changed, loaded=loaded, quality=quality, reference=reference, blocks=blocks
        )
    seconds += MAKE_S if made else 0.0
    priority = about.priority + option.late
    return Step(name=option.lever, title=option.title, seconds=seconds, priority=priority)


def goes_to_load(lever: Lever) -> bool:
    """Whether time for the load is set aside; what depends on the case is mostly settled before."""
    about = lever.about
    return about.shows_in == "loaded" or (about.priority == 1 and about.effort != "case")


def _weight(step: Step) -> int:
    """0 is left out last: what every study is about."""
    return 0 if step.name in BUNDLE else step.priority


def fit(
    before: Sequence[Step],
    levers: Sequence[Step],
    after: Sequence[Step],
    *,
    budget_s: float,
    thrift: bool = False,
) -> Plan:
    """Leave out steps until the plan fits the budget: the least important, of these the longest first."""
    room = budget_s - sum(s.seconds for s in (*before, *after))
    chosen = list(levers)
    order = sorted(range(len(chosen)), key=lambda i: (_weight(chosen[i]), chosen[i].seconds, i))
    for index in reversed(order):
        if sum(s.seconds for s in chosen if s.chosen) <= room:
            break
        chosen[index] = replace(chosen[index], chosen=False)
    firsts = [s for s in chosen if s.priority == 1 and s.name in BUNDLE]
    # A first lever without room at the end would leave the study without its point.
    bundled = any(not s.chosen for s in firsts) or sum(s.seconds for s in firsts) * SLACK > room
    one_s = max((s.seconds for s in after), default=0.0)
    direct = bundled and room < one_s
    return Plan(
        before=tuple(before),
        levers=tuple(chosen),
        after=tuple(after),
        bundled=bundled,
        thrift=thrift,
        direct=direct,
    )


SLACK = 1.5
#: Tried as one step when the budget has no room for one after another.
BUNDLE = ("prefix_cache", "weights:source", "warm_prefix")
