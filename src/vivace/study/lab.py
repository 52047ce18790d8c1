"""Where trials are measured: time, store and tools of one run of a study in one place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vivace.core import Metric, QualityResult, ServingConfig
from vivace.errors import EngineError
from vivace.levers.base import Situation
from vivace.measure.slo import Slo
from vivace.study.bench import Bench
from vivace.study.decide import Limits
from vivace.study.finished import Finished, finish
from vivace.study.goal import score
from vivace.study.inputs import Inputs
from vivace.study.outcome import Outcome
from vivace.study.pace import Pace, follows
from vivace.study.ports import Tools
from vivace.study.store import Store
from vivace.study.trial import Ask, Gate, Measured, Split, always

#: Spare seconds kept at the end for writing the report.
MARGIN_S = 4.0

#: A smaller gain is not worth a setting, however sure it is.
SMALLEST = 1.01
#: Engines get this much more than was seen, before two are put side by side.
ROOM = 1.3


@dataclass(frozen=True, kw_only=True, slots=True)
class Other:
    """Another configuration, to be measured in turn. `id` is that of its own trial."""

    id: str
    config: ServingConfig
    loaded: bool = True
    window_s: float | None = None


@dataclass(slots=True)
class Lab:
    """Measures trials and keeps them; `outcome` grows as the study goes."""

    inputs: Inputs
    tools: Tools
    store: Store
    slo: Slo
    window_s: float
    today: Callable[[], str]
    pace: Pace
    outcome: Outcome = field(default_factory=Outcome)
    begin_ns: int = 0
    #: What the validation of the best so far, or of what is tried, will take.
    reserve_s: float = 0.0
    bench: Bench = field(init=False)

    def __post_init__(self) -> None:
        self.bench = Bench(tools=self.tools, slo=self.slo, window_s=self.window_s)
        self.begin_ns = self.tools.driver.now_ns()

    @property
    def limits(self) -> Limits:
        """What a winner must hold."""
        inputs = self.inputs
        return Limits(
            goal=inputs.goal, quality_loss=inputs.max_quality_loss, memory=inputs.max_memory
        )

    @property
    def unoptimised(self) -> Finished:
        """The first baseline; only asked for once it is measured."""
        return _measured(self.outcome.unoptimised, "unoptimised")

    @property
    def default(self) -> Finished:
        """The engine's own default; only asked for once it is measured."""
        return _measured(self.outcome.default, "engine-default")

    @property
    def start(self) -> ServingConfig:
        """The configuration of the first baseline."""
        return unoptimised(self.tools.engine.name)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of this run."""
        return (self.tools.driver.now_ns() - self.begin_ns) / 1e9

    def left_s(self, *, reserve: bool = True) -> float:
        """Seconds left; with `reserve` without those that the validation needs."""
        held = self.reserve_s if reserve else 0.0
        return self.inputs.budget_s - self.elapsed_s - held - MARGIN_S

    def quality_of(self, config: ServingConfig) -> QualityResult | None:
        """The measured quality of a configuration; `None` for the reference's own arithmetic."""
        return self.outcome.qualities.get(numerics(config))

    def trial(
        self,
        trial_id: str,
        config: ServingConfig,
        *,
        split: Split = "tune",
        gate: Gate = always,
        levels: tuple[int, ...] | None = None,
        reserve: bool = True,
        others: Sequence[Other] = (),
        mirrored: bool = False,
        rounds: int = 1,
        there_and_back: bool = True,
        keeps_part: bool = False,
    ) -> Finished:
        """Measure, or take from the store what an earlier run of this study measured.

        `others` are measured in turn with it, where there is memory for all of them.
        """
        trial_id = self._unique(trial_id.replace(":", "-"))
        trial = self._stored(trial_id, config)
        if trial is None:
            slow = self.pace.slow(config) and not others
            ask = Ask(
                id=trial_id,
                config=config,
                split=split,
                salt=trial_id if split == "tune" else "",
                rounds=0 if slow else rounds,
                there_and_back=there_and_back,
                levels=(self.inputs.level,) if levels is None else levels,
                gate=gate,
                deadline_ns=self._deadline_ns(reserve=reserve),
                keeps_part=keeps_part,
                no_load=self._no_load(config),
            )
            rivals = [
                replace(
                    ask,
                    id=o.id,
                    config=o.config,
                    levels=ask.levels if o.loaded else (),
                    window_s=o.window_s,
                )
                for o in others
            ]
            trial = self._measure(ask, rivals, mirrored=mirrored)
        self.outcome.trials.append(trial)
        self.outcome.warnings.extend(trial.notes)
        return trial

    def shorten(self, window_s: float) -> None:
        """Shorter steady windows from now on, which the report says."""
        if window_s < self.window_s:
            self.window_s = self.bench.window_s = window_s
            self.pace = replace(self.pace, window_s=window_s)
            words = f"the budget is short: steady windows of {window_s:.0f} s"
            self.outcome.warnings.append(("short_windows", words))

    @property
    def may_skip_loads(self) -> bool:
        """Whether a gain for one request alone can decide."""
        return self.inputs.goal in ("balanced", "latency")

    def noise_floor(self, only: Sequence[Metric] = ()) -> float:
        """The goal's score of the default against itself: a smaller gain is not told from noise."""
        total = score(self.limits.goal, self.outcome.noise, only)
        return SMALLEST if total is None else max(SMALLEST, total.ratio, 1 / total.ratio)

    def situation(self, best: Finished | None = None) -> Situation:
        """What levers may look at."""
        memory = best.memory.total if best is not None and best.memory is not None else None
        return Situation(
            shape=self.tools.shape,
            cores=self.tools.cores,
            concurrency=self.inputs.level,
            request_tokens=self.pace.prompt_tokens + self.pace.output_tokens,
            shared_prefixes=len(self.tools.workload.prefixes),
            weight_types=self.tools.weight_types,
            goal=self.inputs.goal,
            memory_limit=self.inputs.max_memory,
            memory_now=memory,
        )

    def _no_load(self, config: ServingConfig) -> str:
        """Why a trial without a load has none."""
        if follows(config, None, level=self.inputs.level):
            return "not measured: requests are served one at a time, so it follows from one request"
        return "not measured: it is measured in turn with the winner"

    def _unique(self, trial_id: str) -> str:
        """The same lever tried again on top of another configuration is another trial."""
        taken = sum(
            t.id == trial_id or t.id.startswith(f"{trial_id}+") for t in self.outcome.trials
        )
        return f"{trial_id}+{taken}" if taken else trial_id

    def _stored(self, trial_id: str, config: ServingConfig) -> Finished | None:
        stored = self.store.trial(trial_id)
        if stored is None or stored.config != config or stored.status == "interrupted":
            return None
        self.tools.say(f"`{trial_id}` was measured before ({stored.measured_at})")
        return stored

    def _measure(self, ask: Ask, rivals: Sequence[Ask], *, mirrored: bool) -> Finished:
        left = max(self.inputs.budget_s - self.elapsed_s, 0.0)
        self.tools.say(f"measuring `{ask.id}` ({left:.0f} s of the budget left)")
        self.bench.together = self.fit_together(len(rivals) + 1)
        measured = self.bench.run(ask, rivals, mirrored=mirrored)
        lost = next((m for m in (measured, *measured.others) if m.lost), None)
        late_ns = ask.deadline_ns - int(measured.wall_s * 1e9) if ask.deadline_ns else None
        if lost is not None and (late_ns is None or self.tools.driver.now_ns() < late_ns):
            measured = self._again(ask, rivals, measured, lost, mirrored=mirrored)
        trial = finish(measured, level=self.inputs.level, measured_at=self.today())
        if trial.status == "ok" and not trial.reason:
            reference = rivals[0].config if trial.in_turn else None
            expected_s = replace(self.pace, slowness=1.0).trial_s(ask.config, reference=reference)
            self.pace = self.pace.surprised(expected_s=expected_s, took_s=trial.wall_s)
        trial = replace(trial, run=len(self.store.runs))
        self.store.save_records(ask.id, measured.records)
        self.store.save(trial)
        return trial

    def _again(
        self, ask: Ask, rivals: Sequence[Ask], first: Measured, lost: Measured, *, mirrored: bool
    ) -> Measured:
        """A second attempt with fresh engines: what fails twice is no chance."""
        words = f"`{ask.id}`: the engine of `{lost.ask.id}` was lost ({lost.reason}), once more"
        self.tools.say(words)
        self.bench.close()
        second = self.bench.run(ask, rivals, mirrored=mirrored)
        if second.status == "interrupted":
            return first
        second.notes.append(("measured_again", words))
        second.records = [(f"lost-{phase}", r) for phase, r in first.records] + second.records
        return second

    def fit_together(self, engines: int) -> bool:
        """Whether so many engines of the largest size seen so far have room beside each other."""
        largest = max(
            (t.memory.total + t.memory.reserved for t in self.outcome.trials if t.memory), default=0
        )
        free = self.tools.free_memory()
        return free is not None and engines * ROOM * largest <= free

    def _deadline_ns(self, *, reserve: bool) -> int:
        left_s = max(self.left_s(reserve=reserve), 1.0)
        return self.tools.driver.now_ns() + int(left_s * 1e9)


def whole_default(lab: Lab) -> Other:
    """The engine's default, measured in turn with as much load as the candidate."""
    return Other(id=lab.default.id, config=lab.default.config, window_s=lab.window_s)


def unoptimised(engine: str) -> ServingConfig:
    """What every study starts from: 16-bit weights, one slot, caches and speculation off."""
    return ServingConfig(engine=engine, weights="F16", slots=1, prefix_cache=False)


def numerics(config: ServingConfig) -> str:
    """Configurations with the same numerics give the same answers up to rounding."""
    return f"{config.weights}/{config.kv_type or 'f16'}/{config.flash_attention is not False}"


def _measured(trial: Finished | None, name: str) -> Finished:
    if trial is None:
        raise EngineError(f"the baseline `{name}` was not measured")
    return trial
