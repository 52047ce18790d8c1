"""One lever after another on top of the best so far: kept, rejected, or why it was not tried."""

from collections.abc import Sequence
from dataclasses import replace

from vivace.core import AblationStatus, QualityResult, ServingConfig
from vivace.errors import EngineError
from vivace.levers.base import Lever, Option
from vivace.study.decide import Decision, decide, early_end
from vivace.study.finished import Finished, finish, ratios
from vivace.study.goal import score
from vivace.study.lab import Lab, numerics
from vivace.study.outcome import Tried
from vivace.study.plan import BUNDLE, Plan
from vivace.study.scoring import settle_quality
from vivace.study.trial import Gate, Measured, Phase


def ablate(lab: Lab, levers: Sequence[Lever], plan: Plan) -> Finished:
    """Try what the plan has chosen, then what there is time left for; the best configuration."""
    best = lab.unoptimised
    if plan.bundled:
        best = _keep(lab, best, _bundle(lab, levers, best, direct=plan.direct))
    later: list[tuple[Lever, Option]] = []
    for lever in levers:
        for option in _options(lab, lever, best):
            now = option if option.impossible else _still(lab, lever, best, option.lever)
            if now is None or (plan.bundled and now.lever in BUNDLE):
                continue
            if plan.chooses(now.lever) or now.impossible:
                best = _keep(lab, best, _try(lab, lever, now, best))
            else:
                later.append((lever, now))
    for lever, option in sorted(later, key=lambda pair: pair[0].about.priority):
        now = _still(lab, lever, best, option.lever)
        if plan.direct:
            words = "the budget has room for one candidate"
            _keep(lab, best, _untried(lever, option, best, "not_tried", words))
        elif now is not None:
            best = _keep(lab, best, _try(lab, lever, now, best))
    return best


def _still(lab: Lab, lever: Lever, best: Finished, name: str) -> Option | None:
    """The option of this name on top of what is the best by now; `None` when it is pointless."""
    return next((o for o in _options(lab, lever, best) if o.lever == name), None)


def _keep(lab: Lab, best: Finished, tried: Tried) -> Finished:
    lab.outcome.ablation.append(tried)
    lab.tools.say(f"{tried.option.title}: {tried.decision.status}, {tried.decision.reason}")
    kept = tried.decision.status == "kept" and tried.trial is not None
    return tried.trial if kept and tried.trial is not None else best


def _bundle(lab: Lab, levers: Sequence[Lever], best: Finished, *, direct: bool) -> Tried:
    config = best.config
    for lever in levers:
        for option in _options(lab, lever, replace(best, config=config)):
            if option.lever in BUNDLE and not option.impossible:
                config = option.apply(config)
    change = {name: pair[1] for name, pair in best.config.diff(config).items()}
    option = Option(
        lever="bundle", title="Prefix cache, weights as shipped, warm slots", change=change
    )
    return _try(lab, None, option, best, held_out=direct)


def _options(lab: Lab, lever: Lever, best: Finished) -> Sequence[Option]:
    engine, about = lab.tools.engine, lever.about
    if about.needs <= engine.supports:
        return lever.options(best.config, lab.situation(best))
    missing = ", ".join(sorted(about.needs - engine.supports))
    title = about.name.replace("_", " ").capitalize()
    words = f"{engine.name} cannot set {missing}"
    return (Option(lever=about.name, title=title, change={}, impossible=words),)


def _try(
    lab: Lab, lever: Lever | None, option: Option, best: Finished, *, held_out: bool = False
) -> Tried:
    if option.impossible:
        return _untried(lever, option, best, "infeasible", option.impossible)
    config = option.apply(best.config)
    loaded = lever is not None and lever.about.shows_in == "loaded"
    # Other weights are scored before their speed: most of what fails, fails there.
    scored = config.weights != best.config.weights and not _known(lab, config)
    seconds = lab.pace.trial_s(config, loaded=loaded, quality=scored)
    if lab.left_s(reserve=not held_out) < seconds:
        words = f"the budget has no room for it: about {seconds:.0f} s"
        return _untried(lever, option, best, "not_tried", words)
    try:
        if scored and not _passes(settle_quality(lab, config)):
            return _judged(lab, lever, option, best, config, trial=None)
        trial = lab.trial(
            option.lever,
            config,
            split="validate" if held_out else "tune",
            gate=_gate(lab, lever, best),
            levels=lab.inputs.concurrency if held_out else None,
            reserve=not held_out,
        )
        tried = _judged(lab, lever, option, best, config, trial=trial)
        if tried.decision.status != "kept" or _known(lab, config):
            return tried
        settle_quality(lab, config)
        return _judged(lab, lever, option, best, config, trial=trial)
    except EngineError as error:
        return _untried(lever, option, best, "crashed", f"while its quality was scored: {error}")


def _judged(
    lab: Lab,
    lever: Lever | None,
    option: Option,
    best: Finished,
    config: ServingConfig,
    *,
    trial: Finished | None,
) -> Tried:
    """The decision on what is known; a trial that quality ruled out beforehand is `None`."""
    quality, seed = lab.quality_of(config), lab.inputs.seed
    vs_previous = ratios(trial, best, seed=seed) if trial is not None else {}
    vs_default = ratios(trial, lab.default, seed=seed) if trial is not None else {}
    return Tried(
        lever=lever,
        option=option,
        config=config,
        decision=decide(
            trial,
            best,
            lab.limits,
            quality=quality,
            vs_previous=vs_previous,
            vs_default=vs_default,
        ),
        trial=trial,
        quality=quality,
        vs_previous=vs_previous,
        diff=best.config.diff(config),
    )


def _known(lab: Lab, config: ServingConfig) -> bool:
    return numerics(config) == numerics(lab.start) or lab.quality_of(config) is not None


def _passes(quality: QualityResult | None) -> bool:
    return quality is None or quality.verdict == "pass"


def _untried(
    lever: Lever | None, option: Option, best: Finished, status: AblationStatus, reason: str
) -> Tried:
    decision = Decision(status=status, reason=reason)
    return Tried(lever=lever, option=option, config=best.config, decision=decision)


def _gate(lab: Lab, lever: Lever | None, best: Finished) -> Gate:
    """Ends a trial whose outcome is settled, so that the budget goes to the others."""
    limits, seed = lab.limits, lab.inputs.seed
    fits = limits.memory_fits(best)

    def gate(measured: Measured, phase: Phase) -> str:
        so_far = finish(measured, level=lab.inputs.level, measured_at="")
        vs_previous = ratios(so_far, best, seed=seed)
        if phase == "single":
            about = lever.about if lever is not None else None
            return early_end(about, limits, vs_previous=vs_previous, previous_fits=fits)
        total = score(limits.goal, vs_previous)
        lost = total is not None and total.hi < 1
        return "a loss under load" if lost and fits and limits.goal != "memory" else ""

    return gate
