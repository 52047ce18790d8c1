"""Where trials are measured: time, store and tools of one run of a study in one place."""

from collections.abc import Callable
from dataclasses import dataclass, field

from vivace.core import QualityResult, ServingConfig
from vivace.errors import EngineError
from vivace.levers.base import Situation
from vivace.measure.slo import Slo
from vivace.study.decide import Limits
from vivace.study.finished import Finished, finish
from vivace.study.inputs import Inputs
from vivace.study.outcome import Outcome
from vivace.study.pace import Pace
from vivace.study.ports import Tools
from vivace.study.store import Store
from vivace.study.trial import Ask, Bench, Gate, Split, always

#: Spare seconds kept at the end for writing the report.
MARGIN_S = 4.0


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
    reference_known: bool = False
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
        plan = self.outcome.plan
        held = plan.reserve_s if plan is not None and reserve else 0.0
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
    ) -> Finished:
        """Measure, or take from the store what an earlier run of this study measured."""
        trial_id = self._unique(trial_id.replace(":", "-"))
        trial = self._stored(trial_id, config)
        if trial is None:
            ask = Ask(
                id=trial_id,
                config=config,
                split=split,
                singles=self.pace.singles(cached=config.prefix_cache is not False),
                levels=(self.inputs.level,) if levels is None else levels,
                gate=gate,
                deadline_ns=self._deadline_ns(reserve=reserve),
            )
            trial = self._measure(ask)
        self.outcome.trials.append(trial)
        return trial

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

    def _measure(self, ask: Ask) -> Finished:
        left = max(self.inputs.budget_s - self.elapsed_s, 0.0)
        self.tools.say(f"measuring `{ask.id}` ({left:.0f} s of the budget left)")
        measured = self.bench.run(ask)
        trial = finish(measured, level=self.inputs.level, measured_at=self.today())
        self.store.save_records(ask.id, measured.records)
        self.store.save(trial)
        return trial

    def _deadline_ns(self, *, reserve: bool) -> int:
        left_s = max(self.left_s(reserve=reserve), 1.0)
        return self.tools.driver.now_ns() + int(left_s * 1e9)


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
