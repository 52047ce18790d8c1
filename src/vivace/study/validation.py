"""The winner afresh on held-out prompts, in turn with the baselines."""

from collections.abc import Mapping
from dataclasses import replace

from vivace.core import Metric, Ratio, ServingConfig
from vivace.study.claims import claims
from vivace.study.decide import ratio_words
from vivace.study.finished import Finished, ratios, seen_with
from vivace.study.goal import SCORED, below_floor, gain, score
from vivace.study.lab import SMALLEST, Lab, Other, whole_default
from vivace.study.noise import halves
from vivace.study.pace import BLOCK, STOCK_SLOTS
from vivace.study.plan import Step
from vivace.study.scoring import settle_quality
from vivace.study.trial import every_round

NEARLY = 0.8
#: Most rounds of turns, and the share of the time left that may go to more than one.
ROUNDS = 4
SHARE = 0.7


def winner_step(lab: Lab, config: ServingConfig | None = None, *, mirrored: bool) -> Step:
    """The winner in turn with the engine's default; of a winner that is not known yet a guess."""
    stock, pace = lab.tools.engine.stock(), lab.pace
    winner = replace(
        lab.start, weights="source", prefix_cache=True, warm_prefix=True, slots=STOCK_SLOTS
    )
    seconds = (
        pace.trial_s(config or winner, reference=stock)
        + pace.warm_s(stock)
        + pace.warm_slots_s(stock)
    )
    # B A B with a whole window of the default, or B A A B.
    seconds += pace.load_s(stock, lab.window_s / 2) if mirrored else lab.window_s / 2
    return Step(
        name="winner", title="Winner in turn with the default, held-out prompts", seconds=seconds
    )


def is_mirrored(lab: Lab) -> bool:
    """Whether the default gets as many load windows as the winner, or one of their length."""
    return lab.outcome.plan is None or not lab.outcome.plan.thrift


def again_step(lab: Lab) -> Step:
    """The unoptimised baseline in turn with them, one request at a time."""
    seconds = lab.pace.warm_s(lab.start) + 6 * lab.pace.request_s(lab.start)
    return Step(name="again", title="Unoptimised baseline in turn with them", seconds=seconds)


def validate(lab: Lab, best: Finished) -> None:
    """Measure the finalist and say in the outcome whether it holds."""
    lab.bench.close()
    if best.split == "validate" and best.config != lab.unoptimised.config:
        lab.outcome.winner = best
        _report_turns(lab, best)
    elif best.config != lab.unoptimised.config:
        winner = _in_turn(lab, best)
        if winner.status == "ok":
            lab.outcome.winner = winner
        else:
            words = f"the winner could not be measured on held-out prompts: {winner.reason}"
            lab.outcome.warnings.append(("validation_failed", words))
    if not lab.default.samples.cycles:
        _load_default(lab)
    _judge(lab)


def _load_default(lab: Lab) -> None:
    """What a validation would have measured of the default."""
    levels = lab.inputs.concurrency
    trial = lab.trial(
        lab.default.id, lab.default.config, split="validate", levels=levels, reserve=False
    )
    if trial.status == "ok":
        lab.outcome.default = trial


def _in_turn(lab: Lab, best: Finished) -> Finished:
    """Winner and baselines in blocks that alternate; what is reported comes from these alone."""
    stock = lab.tools.engine.stock()
    others: list[Other] = []
    spare_s, mirrored = lab.left_s(reserve=False), is_mirrored(lab)
    needs_s = winner_step(lab, best.config, mirrored=mirrored).seconds
    # The last window may be cut short: a turn that is a little short is better than none.
    if spare_s >= NEARLY * needs_s and best.config != stock:
        default = whole_default(lab)
        others.append(replace(default, window_s=None) if mirrored else default)
        if spare_s >= needs_s + again_step(lab).seconds:
            others.append(Other(id=lab.unoptimised.id, config=lab.start, loaded=False))
            needs_s += again_step(lab).seconds
    pair_s = lab.pace.request_s(best.config) + sum(lab.pace.request_s(o.config) for o in others)
    more = SHARE * (spare_s - needs_s) // (2 * BLOCK * pair_s)
    levels = lab.inputs.concurrency
    winner = lab.trial(
        "winner",
        best.config,
        split="validate",
        levels=levels,
        gate=every_round,
        rounds=1 + min(ROUNDS - 1, max(0, int(more))),
        reserve=False,
        others=others,
        mirrored=mirrored,
        keeps_part=True,
    )
    if winner.status == "ok":
        _report_turns(lab, winner)
    return winner


def _report_turns(lab: Lab, winner: Finished) -> None:
    """Baselines that were measured in turn with the winner are reported as they were there."""
    outcome = lab.outcome
    turn = winner.in_turn.get(lab.default.id)
    if turn is not None:
        outcome.noise |= halves(winner, turn, seed=lab.inputs.seed, known=outcome.noise)
        outcome.default = seen_with(winner, lab.default)
    outcome.unoptimised = seen_with(winner, lab.unoptimised)


def _judge(lab: Lab) -> None:
    """The winner, or the engine's default where nothing beats it within the constraints."""
    outcome, limits = lab.outcome, lab.limits
    winner = outcome.winner
    if winner is not None:
        against = ratios(winner, lab.default, seed=lab.inputs.seed)
        better = _is_better(lab, winner, against) and not below_floor(against, proven=True)
        for metric in below_floor(against, proven=False):
            words = f"{metric} {ratio_words(against[metric])} against the default: within the noise"
            outcome.warnings.append(("below_floor", words))
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


def _is_better(lab: Lab, winner: Finished, against: Mapping[Metric, Ratio]) -> bool:
    """Proven in the goal as a whole, or in one of its metrics while none of them is proven to lose.

    Not when only part of what the goal scores was compared.
    """
    goal, outcome = lab.limits.goal, lab.outcome
    missing = [m for m in SCORED[goal] if m not in against]
    if missing:
        words = f"{', '.join(missing)} not compared with the default: no gain over it is claimed"
        outcome.warnings.append(("not_compared", words))
        return False
    total = score(goal, against)
    if total is not None and total.lo > 1 and total.ratio > lab.noise_floor():
        return True
    claimed = claims(winner, lab.default, seed=lab.inputs.seed, noise=outcome.noise)
    proven = [gain(m, claimed[m]) for m in SCORED[goal] if claimed[m].proven]
    return bool(proven) and all(g.ratio > SMALLEST for g in proven)


def _good(lab: Lab, trial: Finished) -> bool:
    quality = settle_quality(lab, trial.config)
    return quality is None or quality.verdict == "pass"
