"""The winner without each kept lever: what each is worth in the end; one that has come to hurt goes."""

from dataclasses import replace

from vivace.core import ServingConfig
from vivace.errors import ConfigError, EngineError
from vivace.study.claims import claims
from vivace.study.finished import Finished, ratios
from vivace.study.goal import score
from vivace.study.lab import Lab, Other
from vivace.study.outcome import LeftOut, Tried
from vivace.study.scoring import settle_quality


def leave_one_out(lab: Lab, best: Finished) -> Finished:
    """Measure what the budget has room for, the first kept lever first; the best that is left."""
    if best.split == "validate":
        return best
    kept = [t for t in lab.outcome.ablation if t.decision.status == "kept"]
    for tried in kept if len(kept) > 1 else ():
        config = without(best.config, tried)
        if config is None:
            continue
        if lab.left_s() < lab.pace.trial_s(config, reference=best.config):
            lab.tools.say("the winner without its other levers: the budget has no room for it")
            break
        best = _try_without(lab, tried, config, best)
    return best


def without(config: ServingConfig, tried: Tried) -> ServingConfig | None:
    """`config` with the settings of one lever as they were before it.

    `None` where a later lever changed them, or where the rest cannot do without.
    """
    if any(getattr(config, name) != after for name, (_, after) in tried.diff.items()):
        return None
    before = {name: pair[0] for name, pair in tried.diff.items()}
    if before.get("prefix_cache", True) is False and config.warm_prefix:
        return None
    try:
        return replace(config, **before)  # pyright: ignore[reportArgumentType]
    except ConfigError:
        return None


def _try_without(lab: Lab, tried: Tried, config: ServingConfig, best: Finished) -> Finished:
    lever, seed = tried.option.lever, lab.inputs.seed
    reference = Other(id=best.id, config=best.config)
    others = () if lab.pace.slow(config) else (reference,)
    trial = lab.trial(f"without-{lever}", config, others=others)
    if trial.status != "ok":
        lab.bench.dismiss()
        return best
    found = claims(trial, best, seed=seed, noise=lab.outcome.noise)
    hurts = _is_better(lab, trial, best)
    lab.outcome.left_out.append(LeftOut(lever=lever, vs_winner=found, dropped=hurts))
    if not hurts:
        lab.bench.dismiss()
        return best
    lab.tools.say(f"{tried.option.title}: dropped, the winner is better without it")
    lab.bench.keep()
    return trial


def _is_better(lab: Lab, trial: Finished, best: Finished) -> bool:
    limits = lab.limits
    total = score(limits.goal, ratios(trial, best, seed=lab.inputs.seed))
    if total is None or total.lo <= 1 or total.ratio <= lab.noise_floor():
        return False
    if limits.memory_fits(best) and not limits.memory_fits(trial):
        return False
    try:
        quality = settle_quality(lab, trial.config)
    except EngineError:
        return False
    return quality is None or quality.verdict == "pass"
