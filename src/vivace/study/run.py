"""The course of a study: probe, plan, baselines, levers, validation."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from vivace.core import ServingConfig
from vivace.errors import EngineError
from vivace.levers.base import Lever
from vivace.study.ablation import ablate
from vivace.study.finished import Finished
from vivace.study.lab import MARGIN_S, Lab, Other
from vivace.study.leave_one_out import leave_one_out
from vivace.study.noise import ITSELF, itself
from vivace.study.outcome import Outcome
from vivace.study.pace import Pace
from vivace.study.plan import Plan, Step, fit, lever_steps
from vivace.study.probe import probe
from vivace.study.validation import again_step, validate, winner_step

#: Ramp of one more load level, beside its window.
RAMP_S = 10.0
#: Steady windows where the budget has only room for one candidate.
SHORT_WINDOW_S = 10.0
UNOPTIMISED, DEFAULT = "unoptimised", "engine-default"


def run_study(lab: Lab, levers: Sequence[Lever]) -> Outcome:
    """Everything, in order. Interrupts travel on; `lab.outcome` keeps what was found."""
    try:
        lab.pace = probe(lab.tools, lab.pace, lab.start)
        plan = lab.outcome.plan = make_plan(lab, levers)
        if plan.direct:
            lab.shorten(SHORT_WINDOW_S)
        lab.tools.say(plan_words(plan, lab.inputs.budget_s - lab.elapsed_s))
        # Nothing is selected on a baseline, so it is measured on the held-out prompts at once.
        lab.outcome.unoptimised = _baseline(lab, UNOPTIMISED, lab.start)
        stock = lab.tools.engine.stock()
        # Where time is short, most of the default is measured once: in turn with the winner.
        lab.outcome.default = _baseline(
            lab, DEFAULT, stock, twice=not plan.thrift, short=plan.thrift
        )
        lab.outcome.noise = itself(lab.default, seed=lab.inputs.seed)
        lab.pace = seen(lab.pace, lab.unoptimised, lab.default)
        plan = lab.outcome.plan = make_plan(lab, levers, measured=True)
        lab.reserve_s = plan.reserve_s
        lab.tools.say(plan_words(plan, lab.inputs.budget_s - lab.elapsed_s))
        best = leave_one_out(lab, ablate(lab, levers, plan))
        validate(lab, best)
    finally:
        lab.bench.close()
        lab.outcome.elapsed_s = lab.elapsed_s
    return lab.outcome


def make_plan(lab: Lab, levers: Sequence[Lever], *, measured: bool = False) -> Plan:
    """The steps that fit the budget; with room to spare nothing is left to other figures.

    `measured`: both baselines are, so they take no more time.
    """
    stock, pace = lab.tools.engine.stock(), lab.pace
    more_levels_s = (len(lab.inputs.concurrency) - 1) * (lab.window_s + RAMP_S)

    def before(*, twice: bool) -> tuple[Step, ...]:
        default_s = pace.trial_s(stock, loaded=False, blocks=1)
        if twice:
            default_s = pace.trial_s(stock, loaded=False) + pace.trial_s(stock) + more_levels_s
        first_s = pace.trial_s(lab.start) + more_levels_s
        reference = Step(name="reference", title="Quality of the reference", seconds=pace.judge_s)
        if measured:
            return (reference,)
        return (
            Step(name="unoptimised", title="Baseline: unoptimised", seconds=first_s),
            Step(name="engine-default", title="Baseline: engine default", seconds=default_s),
            reference,
        )

    def after(*, mirrored: bool) -> Step:
        step = winner_step(lab, mirrored=mirrored)
        return replace(step, seconds=step.seconds + more_levels_s)

    room_s = lab.inputs.budget_s - lab.elapsed_s - MARGIN_S
    steps = lever_steps(levers, lab.start, lab.situation(), pace)
    last = (after(mirrored=True), again_step(lab))
    roomy = fit(before(twice=True), steps, last, budget_s=room_s)
    if all(s.chosen for s in roomy.levers):
        return roomy
    last = (after(mirrored=False),)
    steps = lever_steps(levers, lab.start, lab.situation(), pace, thrift=lab.may_skip_loads)
    return fit(before(twice=False), steps, last, budget_s=room_s, thrift=True)


def plan_words(plan: Plan, left_s: float) -> str:
    """The plan for a person; times are estimates."""
    lines = [f"plan: about {plan.seconds:.0f} s, {left_s:.0f} s of the budget are left"]
    for step in (*plan.before, *plan.levers, *plan.after):
        if step.seconds:
            lines.append(
                f"  {step.seconds:5.0f} s  {step.title}{'' if step.chosen else ' (if time is left)'}"
            )
    if plan.bundled:
        lines.append("  the budget is short: the first levers are tried as one step")
    return "\n".join(lines)


def seen(pace: Pace, unoptimised: Finished, default: Finished) -> Pace:
    """The pace with what both baselines have shown."""
    slow, fast = (statistics.median(t.samples.single_tps or (0.0,)) for t in (unoptimised, default))
    if slow <= 0 or fast <= 0:
        return pace
    return replace(pace, decode_tps=slow, smaller_gain=fast / slow)


def _baseline(
    lab: Lab, name: str, config: ServingConfig, *, twice: bool = False, short: bool = False
) -> Finished:
    """`twice`: in turn with itself, which shows how far equal engines differ here.

    `short`: one block of single requests and no load.
    """
    trial = lab.trial(
        name,
        config,
        split="validate",
        levels=() if short else lab.inputs.concurrency,
        rounds=0 if short else 1,
        reserve=False,
        others=(Other(id=f"{name}{ITSELF}", config=config, loaded=False),) if twice else (),
    )
    if trial.status == "interrupted":
        raise EngineError(
            f"the budget of {lab.inputs.budget_s:.0f} s ended before both baselines were measured",
            hint="this machine needs more for this model: give twice the `--budget`",
        )
    if trial.status != "ok":
        # A study cannot go on without it, so the same command tries again.
        lab.store.forget(name)
        raise EngineError(
            f"the baseline `{name}` could not be measured: {trial.reason}",
            hint="`logs/` in the study's folder has the engine's own words",
        )
    return trial
