"""The winner afresh on held-out prompts, in turn with the baselines."""

from vivace.study.finished import Finished, ratios, seen_with
from vivace.study.goal import below_floor, score
from vivace.study.lab import Lab, Other
from vivace.study.noise import halves
from vivace.study.plan import Step
from vivace.study.scoring import settle_quality


def winner_step(lab: Lab, *, mirrored: bool) -> Step:
    """The winner in turn with the engine's default."""
    stock, pace = lab.tools.engine.stock(), lab.pace
    seconds = pace.trial_s(stock, reference=stock) + pace.warm_s(stock)
    if mirrored:
        seconds += pace.load_s(stock, lab.window_s / 2)
    return Step(
        name="winner", title="Winner in turn with the default, held-out prompts", seconds=seconds
    )


def again_step(lab: Lab) -> Step:
    """The unoptimised baseline in turn with them, one request at a time."""
    seconds = lab.pace.warm_s(lab.start) + 6 * lab.pace.request_s(lab.start)
    return Step(name="again", title="Unoptimised baseline in turn with them", seconds=seconds)


def validate(lab: Lab, best: Finished) -> None:
    """Measure the finalist and say in the outcome whether it holds."""
    lab.bench.close()
    if best.split == "validate" and best.config != lab.unoptimised.config:
        lab.outcome.winner = best
    elif best.config != lab.unoptimised.config:
        winner = _in_turn(lab, best)
        if winner.status == "ok":
            lab.outcome.winner = winner
        else:
            words = f"the winner could not be measured on held-out prompts: {winner.reason}"
            lab.outcome.warnings.append(("validation_failed", words))
    _judge(lab)


def _in_turn(lab: Lab, best: Finished) -> Finished:
    """Winner and baselines in blocks that alternate; what is reported comes from these alone."""
    outcome, stock = lab.outcome, lab.tools.engine.stock()
    others: list[Other] = []
    spare_s = lab.left_s(reserve=False)
    mirrored = lab.outcome.plan is None or not lab.outcome.plan.thrifty
    needs_s = winner_step(lab, mirrored=mirrored).seconds
    if spare_s >= needs_s and best.config != stock:
        others.append(Other(id=lab.default.id, config=stock))
        if spare_s >= needs_s + again_step(lab).seconds:
            others.append(Other(id=lab.unoptimised.id, config=lab.start, loaded=False))
    levels = lab.inputs.concurrency
    winner = lab.trial(
        "winner",
        best.config,
        split="validate",
        levels=levels,
        reserve=False,
        others=others,
        mirrored=mirrored or len(others) > 1,
    )
    turn = winner.in_turn.get(lab.default.id)
    if turn is not None:
        outcome.noise |= halves(winner, turn, seed=lab.inputs.seed, known=outcome.noise)
        outcome.default = seen_with(winner, lab.default)
    outcome.unoptimised = seen_with(winner, lab.unoptimised)
    return winner


def _judge(lab: Lab) -> None:
    """The winner, or the engine's default where nothing beats it within the constraints."""
    outcome, limits = lab.outcome, lab.limits
    winner = outcome.winner
    if winner is not None:
        against = ratios(winner, lab.default, seed=lab.inputs.seed)
        total = score(limits.goal, against)
        proven = total is not None and total.lo > 1 and total.ratio > lab.noise_floor
        better = proven and not below_floor(against)
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
