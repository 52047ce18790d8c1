"""The study: baselines, one lever after another, the winner on held-out prompts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from vivace.core import Metric, QualityResult, Ratio, ServingConfig
from vivace.errors import EngineError
from vivace.levers.base import Lever, Option, Situation
from vivace.measure.slo import Slo
from vivace.study.decide import Decision, Limits, decide, early_end
from vivace.study.finished import Finished, finish, ratios
from vivace.study.goal import below_floor, score
from vivace.study.inputs import Inputs
from vivace.study.pace import Pace
from vivace.study.plan import BUNDLE, Plan, Step, fit, lever_steps
from vivace.study.ports import Tools
from vivace.study.probe import probe
from vivace.study.store import Store
from vivace.study.trial import Ask, Bench, Gate, Measured, Phase

UNOPTIMISED = ServingConfig(weights="F16", slots=1, prefix_cache=False)
#: Spare seconds kept at the end for writing the report.
MARGIN_S = 4.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """One line of the ablation table."""

    about: Lever | None
    option: Option
    config: ServingConfig
    decision: Decision
    trial: Finished | None = None
    quality: QualityResult | None = None
    vs_previous: dict[Metric, Ratio] = field(default_factory=dict[Metric, Ratio])
    diff: dict[str, tuple[object, object]] = field(default_factory=dict[str, tuple[object, object]])


@dataclass(slots=True)
class Outcome:
    """Everything a study found; what is missing was not reached."""

    plan: Plan | None = None
    unoptimised: Finished | None = None
    default: Finished | None = None
    ablation: list[Tried] = field(default_factory=list[Tried])
    winner: Finished | None = None
    winner_quality: QualityResult | None = None
    improved: bool = False
    meets: bool = False
    qualities: dict[str, QualityResult] = field(default_factory=dict[str, QualityResult])
    warnings: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    trials: list[Finished] = field(default_factory=list[Finished])
    elapsed_s: float = 0.0


class Study:
    """Runs one study; `outcome` holds what is known at any moment, also after an interrupt."""

    def __init__(
        self,
        inputs: Inputs,
        tools: Tools,
        store: Store,
        levers: Sequence[Lever],
        *,
        slo: Slo,
        window_s: float,
        today: Callable[[], str],
    ) -> None:
        self.inputs, self.tools, self.store, self.levers = inputs, tools, store, levers
        self.bench = Bench(tools=tools, slo=slo, window_s=window_s)
        self.limits = Limits(
            goal=inputs.goal, quality_loss=inputs.max_quality_loss, memory=inputs.max_memory
        )
        self.outcome = Outcome()
        self.today = today
        self.window_s = window_s
        self.begin_ns = tools.driver.now_ns()
        self.pace = Pace(
            prefill_tps=200.0,
            decode_tps=40.0,
            prompt_tokens=1000,
            output_tokens=64,
            window_s=window_s,
        )

    # ------------------------------------------------------------------ the course of a study

    def run(self) -> Outcome:
        """Everything, in order. Interrupts travel on; `outcome` keeps what was found."""
        try:
            self.pace = probe(self.tools, self.pace)
            self._plan()
            self._baselines()
            if self.outcome.unoptimised is not None and self.outcome.default is not None:
                self._levers()
                self._validate()
        finally:
            self.bench.close()
            self.outcome.elapsed_s = self.elapsed_s
        return self.outcome

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start of this run."""
        return (self.tools.driver.now_ns() - self.begin_ns) / 1e9

    def _left_s(self, *, reserve: bool = True) -> float:
        plan = self.outcome.plan
        held = plan.reserve_s if plan is not None and reserve else 0.0
        return self.inputs.budget_s - self.elapsed_s - held - MARGIN_S

    def _plan(self) -> None:
        stock = self.tools.engine.stock()
        trial_s = self.pace.trial_s
        per_level = (len(self.inputs.concurrency) - 1) * (self.window_s + 10)
        before = [
            Step(
                name="unoptimised",
                title="Baseline: unoptimised",
                seconds=trial_s(UNOPTIMISED, quality=True) + per_level,
            ),
            Step(
                name="engine_default",
                title="Baseline: engine default",
                seconds=trial_s(stock, quality=True) + per_level,
            ),
        ]
        after = [
            Step(
                name="winner",
                title="Winner on held-out prompts",
                seconds=trial_s(stock) + per_level,
            )
        ]
        levers = lever_steps(self.levers, UNOPTIMISED, self._situation(None), self.pace)
        plan = fit(before, levers, after, budget_s=self.inputs.budget_s - self.elapsed_s - MARGIN_S)
        again = self._again_step()
        if not plan.bundled:
            roomy = fit(
                before, levers, [*after, again], budget_s=self.inputs.budget_s - self.elapsed_s
            )
            plan = roomy if not roomy.bundled else plan
        self.outcome.plan = plan
        self.tools.say(_plan_words(plan, self.inputs.budget_s))

    def _again_step(self) -> Step:
        seconds = self.pace.trial_s(UNOPTIMISED, loaded=False)
        seconds += self.pace.trial_s(self.tools.engine.stock(), loaded=False)
        return Step(name="again", title="Both baselines again", seconds=seconds)

    def _baselines(self) -> None:
        # Nothing is selected on a baseline, so it is measured on the held-out prompts at once.
        stock = self.tools.engine.stock()
        self.outcome.unoptimised = self._baseline("unoptimised", UNOPTIMISED, "reference")
        self.outcome.default = self._baseline("engine-default", stock, "last")
        if self.outcome.default.quality is not None:
            self.outcome.qualities[_numerics(stock)] = self.outcome.default.quality

    def _baseline(self, name: str, config: ServingConfig, quality: str) -> Finished:
        trial = self._trial(name, config, split="validate", quality=quality, hold=False)
        if trial.status == "interrupted":
            raise EngineError(
                f"the budget of {self.inputs.budget_s:.0f} s ended before both baselines were measured",
                hint="this machine needs more: try twice the `--budget`",
            )
        if trial.status != "ok":
            raise EngineError(
                f"the baseline `{name}` could not be measured: {trial.reason}",
                hint="the study's folder `logs/` has the engine's own words",
            )
        return trial

    def _levers(self) -> None:
        plan = self.outcome.plan
        assert plan is not None
        best = self.outcome.unoptimised
        assert best is not None
        if plan.bundled:
            best = self._bundle(best)
        later: list[tuple[Lever, Option]] = []
        for lever in self.levers:
            for option in self._options(lever, best):
                if plan.chooses(option.lever) or option.impossible:
                    best = self._try(lever, option, best)
                else:
                    later.append((lever, option))
        for lever, stale in sorted(later, key=lambda pair: pair[0].about.priority):
            options = [o for o in self._options(lever, best) if o.lever == stale.lever]
            best = self._try(lever, options[0], best) if options else best
        self._best = best

    def _bundle(self, best: Finished) -> Finished:
        change: dict[str, object] = {}
        config = best.config
        for lever in self.levers:
            for option in self._options(lever, replace(best, config=config)):
                if option.lever in BUNDLE and not option.impossible:
                    change |= option.change
                    config = option.apply(config)
        title = "Prefix cache, weights as shipped, slots with the shared prefix: at once"
        option = Option(lever="bundle", title=title, change=change)
        return self._try(None, option, best)

    def _options(self, lever: Lever, best: Finished) -> Sequence[Option]:
        if not lever.about.needs <= self.tools.engine.supports:
            missing = ", ".join(sorted(lever.about.needs - self.tools.engine.supports))
            words = f"{self.tools.engine.name} cannot set {missing}"
            title = lever.about.name.replace("_", " ")
            return (Option(lever=lever.about.name, title=title, change={}, impossible=words),)
        return lever.options(best.config, self._situation(best))

    def _try(self, lever: Lever | None, option: Option, best: Finished) -> Finished:
        """Try one option on top of `best`; the better of the two."""
        tried = self._tried(lever, option, best)
        self.outcome.ablation.append(tried)
        self.tools.say(f"{option.title}: {tried.decision.status} ({tried.decision.reason})")
        if tried.decision.status == "kept" and tried.trial is not None:
            return tried.trial
        return best

    def _tried(self, lever: Lever | None, option: Option, best: Finished) -> Tried:
        def untried(status: str, reason: str) -> Tried:
            decision = Decision(status=status, reason=reason)  # pyright: ignore[reportArgumentType]
            return Tried(about=lever, option=option, config=best.config, decision=decision)

        if option.impossible:
            return untried("infeasible", option.impossible)
        config = option.apply(best.config)
        known = self.outcome.qualities.get(_numerics(config))
        wanted = (
            "no" if known is not None or _numerics(config) == _numerics(UNOPTIMISED) else "last"
        )
        if wanted == "last" and config.weights != best.config.weights:
            wanted = "first"
        seconds = self.pace.trial_s(config, loaded=False, quality=wanted == "first")
        if self._left_s() < seconds:
            return untried("not_tried", f"the budget has no room for it ({seconds:.0f} s)")
        default = self.outcome.default
        assert default is not None
        gate = self._gate(lever, best)
        trial = self._trial(option.lever, config, quality=wanted, gate=gate)
        quality = known or trial.quality
        if trial.quality is not None:
            self.outcome.qualities[_numerics(config)] = trial.quality
        vs_previous = ratios(trial, best, seed=self.inputs.seed)
        decision = decide(
            trial,
            best,
            self.limits,
            quality=quality,
            vs_previous=vs_previous,
            vs_default=ratios(trial, default, seed=self.inputs.seed),
        )
        return Tried(
            about=lever,
            option=option,
            config=config,
            decision=decision,
            trial=trial,
            quality=quality,
            vs_previous=vs_previous,
            diff=best.config.diff(config),
        )

    def _gate(self, lever: Lever | None, best: Finished) -> Gate:
        level, seed = self.inputs.level, self.inputs.seed

        def gate(measured: Measured, phase: Phase) -> str:
            if phase == "quality":
                quality = measured.quality
                failed = quality is not None and quality.verdict == "fail"
                return "the quality already failed" if failed else ""
            if lever is None:
                return ""
            so_far = finish(measured, level=level, measured_at="")
            about = lever.about if phase == "single" else replace(lever.about, shows_in="single")
            if phase == "loaded":
                total = score(self.limits.goal, ratios(so_far, best, seed=seed))
                hopeless = total is not None and total.hi < 1 and self.limits.memory_fits(best)
                return "a loss under load" if hopeless and self.limits.goal != "memory" else ""
            return early_end(
                about,
                self.limits,
                vs_previous=ratios(so_far, best, seed=seed),
                previous_fits=self.limits.memory_fits(best),
            )

        return gate

    def _validate(self) -> None:
        outcome = self.outcome
        unoptimised, default = outcome.unoptimised, outcome.default
        assert unoptimised is not None and default is not None
        best = self._best
        if best.config != unoptimised.config:
            winner = self._trial("winner", best.config, split="validate", hold=False)
            if winner.status == "ok":
                outcome.winner = winner
        again = self._again_step()
        if self._left_s(reserve=False) >= again.seconds:
            self._measure_again()
        self._judge_winner()

    def _measure_again(self) -> None:
        """Baselines at both ends of the study, so that drift shows in their intervals."""
        outcome = self.outcome
        assert outcome.unoptimised is not None and outcome.default is not None
        first, config = outcome.unoptimised, UNOPTIMISED
        again = self._trial("unoptimised-again", config, split="validate", levels=(), hold=False)
        if again.status == "ok":
            outcome.unoptimised = first.with_more(again)
        first, config = outcome.default, self.tools.engine.stock()
        again = self._trial("engine-default-again", config, split="validate", levels=(), hold=False)
        if again.status == "ok":
            outcome.default = first.with_more(again)

    def _judge_winner(self) -> None:
        outcome, limits = self.outcome, self.limits
        assert outcome.default is not None
        winner = outcome.winner
        if winner is not None:
            against = ratios(winner, outcome.default, seed=self.inputs.seed)
            total = score(limits.goal, against)
            outcome.winner_quality = self.quality_of(winner.config)
            good = outcome.winner_quality is None or outcome.winner_quality.verdict == "pass"
            outcome.meets = limits.memory_fits(winner) and good
            better = total is not None and total.lo > 1 and not below_floor(against)
            # With a memory limit that the default breaks, meeting it is the improvement.
            needed = not limits.memory_fits(outcome.default)
            outcome.improved = outcome.meets and (better or needed)
        if not outcome.improved:
            default_quality = self.quality_of(outcome.default.config)
            passes = default_quality is None or default_quality.verdict == "pass"
            if limits.memory_fits(outcome.default) and passes:
                outcome.winner, outcome.meets = outcome.default, True
                outcome.winner_quality = default_quality

    def quality_of(self, config: ServingConfig) -> QualityResult | None:
        """The measured quality of a configuration; `None` for the reference itself."""
        return self.outcome.qualities.get(_numerics(config))

    # ------------------------------------------------------------------ single trials

    def _trial(
        self,
        trial_id: str,
        config: ServingConfig,
        *,
        split: str = "tune",
        quality: str = "no",
        gate: Gate | None = None,
        levels: tuple[int, ...] | None = None,
        hold: bool = True,
    ) -> Finished:
        """Measure, or take from the store what an earlier run of this study measured."""
        trial_id = trial_id.replace(":", "-")
        stored = self.store.trial(trial_id)
        if stored is not None and stored.config == config and stored.status != "interrupted":
            if quality == "reference":
                self.tools.judge.recall(self.store.fact("reference") or "")
            self.outcome.trials.append(stored)
            return stored
        final = split == "validate"
        if levels is None:
            levels = self.inputs.concurrency if final else (self.inputs.level,)
        left_s = self._left_s(reserve=hold)
        ask = Ask(
            id=trial_id,
            config=config,
            split="validate" if final else "tune",
            singles=self.pace.singles(cached=config.prefix_cache is not False),
            levels=levels,
            quality=quality,  # pyright: ignore[reportArgumentType]
            deadline_ns=self.tools.driver.now_ns() + int(max(left_s, 1.0) * 1e9),
        )
        self.tools.say(f"measuring `{trial_id}`")
        measured = self.bench.run(replace(ask, gate=gate) if gate is not None else ask)
        trial = finish(measured, level=self.inputs.level, measured_at=self.today())
        self.store.save_records(trial_id, measured.records)
        if measured.reference is not None:
            self.store.note("reference", measured.reference)
        self.store.save(trial)
        self.outcome.trials.append(trial)
        return trial

    def _situation(self, best: Finished | None) -> Situation:
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


def _numerics(config: ServingConfig) -> str:
    """Configurations with the same numerics give the same answers up to rounding."""
    return f"{config.weights}/{config.kv_type or 'f16'}/{config.flash_attention is not False}"


def _plan_words(plan: Plan, budget_s: float) -> str:
    lines = [f"plan: about {plan.seconds:.0f} s of a budget of {budget_s:.0f} s"]
    for step in (*plan.before, *plan.levers, *plan.after):
        mark = f"{step.seconds:5.0f} s" if step.chosen else "  spare"
        lines.append(f"  {mark}  {step.title}")
    if plan.bundled:
        lines.append("  the budget is short: the first levers are tried as one step")
    return "\n".join(lines)
