"""The course of a study: probe, plan, baselines, levers, validation."""

from collections.abc import Sequence

from vivace.core import ServingConfig
from vivace.errors import EngineError
from vivace.levers.base import Lever
from vivace.study.ablation import ablate
from vivace.study.finished import Finished
from vivace.study.lab import MARGIN_S, Lab
from vivace.study.outcome import Outcome
from vivace.study.plan import Plan, Step, fit, lever_steps
from vivace.study.probe import probe
from vivace.study.validation import again_step, validate

#: Ramp of one more load level, beside its window.
RAMP_S = 10.0


def run_study(lab: Lab, levers: Sequence[Lever]) -> Outcome:
    """Everything, in order. Interrupts travel on; `lab.outcome` keeps what was found."""
    try:
        lab.pace = probe(lab.tools, lab.pace, lab.start)
        plan = lab.outcome.plan = make_plan(lab, levers)
        lab.tools.say(plan_words(plan, lab.inputs.budget_s))
        # Nothing is selected on a baseline, so it is measured on the held-out prompts at once.
        lab.outcome.unoptimised = _baseline(lab, "unoptimised", lab.start)
        stock = lab.tools.engine.stock()
        lab.outcome.default = _baseline(lab, "engine-default", stock)
        best = ablate(lab, levers, plan)
        validate(lab, best)
    finally:
        lab.bench.close()
        lab.outcome.elapsed_s = lab.elapsed_s
    return lab.outcome


def make_plan(lab: Lab, levers: Sequence[Lever]) -> Plan:
    """The steps that fit the budget; the baselines a second time when there is room."""
    stock, trial_s = lab.tools.engine.stock(), lab.pace.trial_s
    more_levels_s = (len(lab.inputs.concurrency) - 1) * (lab.window_s + RAMP_S)

    def step(name: str, title: str, config: ServingConfig, *, quality: bool) -> Step:
        seconds = trial_s(config, quality=quality) + more_levels_s
        return Step(name=name, title=title, seconds=seconds)

    before = (
        step("unoptimised", "Baseline: unoptimised", lab.start, quality=False),
        step("engine-default", "Baseline: engine default", stock, quality=False),
        Step(name="reference", title="Quality of the 16-bit reference", seconds=lab.pace.quality_s),
    )
    after = (step("winner", "Winner on held-out prompts", stock, quality=False),)
    steps = lever_steps(levers, lab.start, lab.situation(), lab.pace)
    room_s = lab.inputs.budget_s - lab.elapsed_s - MARGIN_S
    plan = fit(before, steps, after, budget_s=room_s)
    roomy = fit(before, steps, (*after, again_step(lab)), budget_s=room_s)
    return roomy if all(s.chosen for s in roomy.levers) else plan


def plan_words(plan: Plan, budget_s: float) -> str:
    """The plan for a person, before anything is measured."""
    lines = [f"plan: about {plan.seconds:.0f} s of a budget of {budget_s:.0f} s"]
    for step in (*plan.before, *plan.levers, *plan.after):
        if step.seconds:
            lines.append(
                f"  {step.seconds:5.0f} s  {step.title}{'' if step.chosen else ' (if time is left)'}"
            )
    if plan.bundled:
        lines.append("  the budget is short: the first levers are tried as one step")
    return "\n".join(lines)


def _baseline(lab: Lab, name: str, config: ServingConfig) -> Finished:
    levels = lab.inputs.concurrency
    trial = lab.trial(name, config, split="validate", levels=levels, reserve=False)
    if trial.status == "interrupted":
        raise EngineError(
            f"the budget of {lab.inputs.budget_s:.0f} s ended before both baselines were measured",
            hint="this machine needs more for this model: give twice the `--budget`",
        )
    if trial.status != "ok":
        raise EngineError(
            f"the baseline `{name}` could not be measured: {trial.reason}",
            hint="`logs/` in the study's folder has the engine's own words",
        )
    return trial
