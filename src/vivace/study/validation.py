"""The winner afresh on held-out prompts, against both baselines."""

from vivace.study.finished import Finished, ratios
from vivace.study.goal import below_floor, score
from vivace.study.lab import Lab
from vivace.study.plan import Step
from vivace.study.scoring import settle_quality


def again_step(lab: Lab) -> Step:
    """Both baselines a second time, one request at a time."""
    seconds = lab.pace.trial_s(lab.start, loaded=False)
    seconds += lab.pace.trial_s(lab.tools.engine.stock(), loaded=False)
    return Step(name="again", title="Both baselines again", seconds=seconds)


def validate(lab: Lab, best: Finished) -> None:
    """Measure the finalist and say in the outcome whether it holds."""
    if best.split == "validate" and best.config != lab.unoptimised.config:
        lab.outcome.winner = best
    elif best.config != lab.unoptimised.config:
        levels = lab.inputs.concurrency
        winner = lab.trial("winner", best.config, split="validate", levels=levels, reserve=False)
        if winner.status == "ok":
            lab.outcome.winner = winner
        else:
            words = f"the winner could not be measured on held-out prompts: {winner.reason}"
            lab.outcome.warnings.append(("validation_failed", words))
    # A lever that is there to be tried comes first; what is left goes to the baselines.
    if lab.left_s(reserve=False) >= again_step(lab).seconds:
        lab.outcome.unoptimised = _again(lab, lab.unoptimised)
        lab.outcome.default = _again(lab, lab.default)
    _judge(lab)


def _again(lab: Lab, first: Finished) -> Finished:
    """At both ends of the study, so that drift shows in the baseline's interval."""
    more = lab.trial(f"{first.id}-again", first.config, split="validate", levels=(), reserve=False)
    return first.with_more(more) if more.status == "ok" else first


def _judge(lab: Lab) -> None:
    """The winner, or the engine's default where nothing beats it within the constraints."""
    outcome, limits = lab.outcome, lab.limits
    winner = outcome.winner
    if winner is not None:
        against = ratios(winner, lab.default, seed=lab.inputs.seed)
        total = score(limits.goal, against)
        better = total is not None and total.lo > 1 and not below_floor(against)
        # With a memory limit that the default breaks, meeting it is the improvement.
        needed = not limits.memory_fits(lab.default)
        outcome.meets = limits.memory_fits(winner) and _good(lab, winner)
        outcome.improved = outcome.meets and (better or needed)
    if not outcome.improved:
        outcome.winner = None
        outcome.meets = limits.memory_fits(lab.default) and _good(lab, lab.default)
        if outcome.meets:
            outcome.winner = lab.default
    if outcome.winner is not None:
        outcome.winner_quality = lab.quality_of(outcome.winner.config)


def _good(lab: Lab, trial: Finished) -> bool:
    quality = settle_quality(lab, trial.config)
    return quality is None or quality.verdict == "pass"
