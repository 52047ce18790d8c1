"""One lever after another on top of the best so far: kept, rejected, or why it was not tried."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from vivace.core import AblationStatus, Metric, QualityResult, ServingConfig
from vivace.errors import EngineError
from vivace.levers.base import Lever, Option
from vivace.measure.bootstrap import CONFIDENCE
from vivace.study.claims import claims
from vivace.study.decide import Decision, at_a_glance, decide, early_end
from vivace.study.finished import Finished, finish, ratios
from vivace.study.goal import SINGLE, endpoints, score
from vivace.study.lab import Lab, Other, numerics, whole_default
from vivace.study.outcome import Tried
from vivace.study.pace import BLOCK, follows, takes_load_turns
from vivace.study.plan import BUNDLE, Plan, goes_to_load
from vivace.study.scoring import settle_quality
from vivace.study.trial import Gate, Measured, Phase, always
from vivace.study.validation import is_mirrored, winner_step

#: Most rounds of turns for a candidate that single requests decide on. Each is a look at the data, so
#: each decides with a share of the 5 % (Bonferroni): looking early does not make false claims more likely.
LOOKS = 2


def ablate(lab: Lab, levers: Sequence[Lever], plan: Plan) -> Finished:
    """Try what the plan has chosen, then what there is time left for; the best configuration."""
    best = lab.unoptimised
    direct = plan.direct
    if plan.bundled:
        bundle = _bundle(lab, levers, best)
        config = bundle.apply(best.config)
        # What was slower than planned has taken the room of a separate validation.
        direct = direct or lab.left_s() < lab.pace.judge_s + lab.pace.trial_s(config)
        best = _keep(lab, best, _try(lab, None, bundle, best, held_out=direct))
    for wanted in (plan.first, plan.chooses, _anything):
        for lever in levers:
            for option in _open(lab, lever, best, wanted):
                # What was kept meanwhile may have changed the option, or made it pointless.
                now = next(
                    (o for o in _open(lab, lever, best, wanted) if o.lever == option.lever), None
                )
                if now is None or (plan.bundled and now.lever in BUNDLE):
                    continue
                if direct and not now.impossible:
                    words = "the budget has room for one candidate"
                    _keep(lab, best, _untried(lever, now, best, "not_tried", words))
                else:
                    best = _keep(lab, best, _try(lab, lever, now, best))
    return best


def _anything(_name: str) -> bool:
    return True


def _open(
    lab: Lab, lever: Lever, best: Finished, wanted: Callable[[str], bool]
) -> Sequence[Option]:
    """The options of a lever on top of the best that have not had their turn."""
    done = {t.option.lever for t in lab.outcome.ablation}
    found = (o for o in _options(lab, lever, best) if o.lever not in done)
    return [o for o in found if o.impossible or wanted(o.lever)]


def _first_s(lab: Lab, *tried: str) -> float:
    """What the levers that every study is about still need, apart from those that were tried."""
    plan, done = lab.outcome.plan, {t.option.lever for t in lab.outcome.ablation}
    return 0.0 if plan is None else plan.first_s(done.union(tried))


def _keep(lab: Lab, best: Finished, tried: Tried) -> Finished:
    lab.outcome.ablation.append(tried)
    lab.tools.say(f"{tried.option.title}: {tried.decision.status}, {tried.decision.reason}")
    kept = tried.decision.status == "kept" and tried.trial is not None
    best = tried.trial if kept and tried.trial is not None else best
    if kept:
        lab.bench.keep()
    else:
        lab.bench.dismiss()
    lab.reserve_s = _validation_s(lab, best.config)
    return best


def _validation_s(lab: Lab, config: ServingConfig) -> float:
    return winner_step(lab, config, mirrored=is_mirrored(lab)).seconds


def _bundle(lab: Lab, levers: Sequence[Lever], best: Finished) -> Option:
    config = best.config
    for lever in levers:
        for option in _options(lab, lever, replace(best, config=config)):
            if option.lever in BUNDLE and not option.impossible:
                config = option.apply(config)
    change = {name: pair[1] for name, pair in best.config.diff(config).items()}
    title = "Prefix cache, weights as shipped, warm slots"
    return Option(lever="bundle", title=title, change=change)


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
    loaded = _in_load(lever)
    # Other weights are scored before their speed: most of what fails, fails there.
    scored = config.weights != best.config.weights and not _known(lab, config)
    others = (whole_default(lab),) if held_out else _reference(lab, best, config)
    reference = others[0].config if others else None
    plan = lab.outcome.plan
    thrift = plan is not None and plan.thrift and lab.may_skip_loads and not held_out
    skips = thrift and follows(config, reference, level=lab.inputs.level)
    trial_s = lab.pace.trial_s(
        config,
        loaded=(lever is None or goes_to_load(lever)) and not skips,
        reference=reference,
        blocks=1 if loaded and not held_out else 2,
    )
    rest_s = 0.0 if lever is None or option.lever in BUNDLE else _first_s(lab)
    if not held_out:
        # What is still to come may win, and then takes as long to validate as was planned.
        planned_s = plan.reserve_s if plan is not None and rest_s else 0.0
        likely = (_validation_s(lab, c) for c in (best.config, config))
        lab.reserve_s = max(planned_s, *likely)
    try:
        if scored:
            _need(lab, lab.pace.judge_s + rest_s, held_out=held_out)
            if not _passes(settle_quality(lab, config, keep_s=trial_s + rest_s)):
                return _judged(lab, lever, option, best, config, trial=None)
        # What is kept must have time for its verdict too.
        judge_s = 0.0 if lever is None or _settled(lab, lever, config) else lab.pace.judge_s
        _need(lab, trial_s + judge_s + rest_s, held_out=held_out)
        trial = lab.trial(
            option.lever,
            config,
            split="validate" if held_out else "tune",
            gate=always if held_out else _gate(lab, lever, best, option.lever),
            levels=lab.inputs.concurrency if held_out else () if skips else None,
            reserve=not held_out,
            others=others,
            rounds=1 if held_out or loaded else LOOKS,
            there_and_back=held_out or not loaded,
            keeps_part=loaded,
        )
        tried = _judged(lab, lever, option, best, config, trial=trial)
        if tried.decision.status != "kept" or _known(lab, config):
            return tried
        settle_quality(lab, config, keep_s=rest_s)
        return _judged(lab, lever, option, best, config, trial=trial)
    except _NoRoom as error:
        return _untried(lever, option, best, "not_tried", str(error))
    except EngineError as error:
        return _untried(lever, option, best, "crashed", f"while its quality was scored: {error}")


class _NoRoom(Exception):
    """The budget has no room for the next step."""


def _need(lab: Lab, seconds: float, *, held_out: bool) -> None:
    if lab.left_s(reserve=not held_out) < seconds:
        raise _NoRoom(f"the budget has no room for it: about {seconds:.0f} s")


def _reference(lab: Lab, best: Finished, config: ServingConfig) -> tuple[Other, ...]:
    """Turns with the best so far; one that takes seconds for a request is only compared with."""
    if lab.pace.slow(best.config):
        return ()
    loaded = takes_load_turns(config, best.config) or not best.samples.cycles
    return (Other(id=best.id, config=best.config, loaded=loaded),)


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
    wanted = endpoints(lab.limits.goal, lever.about.attacks if lever is not None else ())
    strict = ratios(trial, best, seed=seed, confidence=_sure(lever)) if trial is not None else {}
    return Tried(
        lever=lever,
        option=option,
        config=config,
        decision=decide(
            trial,
            best,
            lab.limits,
            quality=quality,
            vs_previous=strict,
            vs_default=ratios(trial, lab.default, seed=seed) if trial is not None else {},
            proven_in=wanted,
            noise_floor=lab.noise_floor(wanted),
        ),
        trial=trial,
        quality=quality,
        vs_previous=claims(trial, best, seed=seed, noise=lab.outcome.noise) if trial else {},
        diff=best.config.diff(config),
    )


def _in_load(lever: Lever | None) -> bool:
    """Whether the load decides on it, in one look."""
    return lever is None or lever.about.shows_in == "loaded"


def _sure(lever: Lever | None) -> float:
    """Each look's confidence, so that all looks together have that of one."""
    return CONFIDENCE if _in_load(lever) else 1 - (1 - CONFIDENCE) / LOOKS


def _known(lab: Lab, config: ServingConfig) -> bool:
    return numerics(config) == numerics(lab.start) or lab.quality_of(config) is not None


def _settled(lab: Lab, lever: Lever, config: ServingConfig) -> bool:
    return not lever.about.changes_answers or _known(lab, config)


def _passes(quality: QualityResult | None) -> bool:
    return quality is None or quality.verdict == "pass"


def _untried(
    lever: Lever | None, option: Option, best: Finished, status: AblationStatus, reason: str
) -> Tried:
    decision = Decision(status=status, reason=reason)
    return Tried(lever=lever, option=option, config=best.config, decision=decision)


def _gate(lab: Lab, lever: Lever | None, best: Finished, name: str) -> Gate:
    """Ends a trial whose outcome is settled, so that the budget goes to the others."""
    limits, seed = lab.limits, lab.inputs.seed
    # Where memory decides, every candidate is measured to the end.
    open_end = not limits.memory_fits(best) or limits.goal == "memory"
    proven_in = endpoints(limits.goal, lever.about.attacks if lever is not None else ())
    wanted: tuple[Metric, ...] = tuple(m for m in SINGLE if m in proven_in) or SINGLE

    def gate(measured: Measured, phase: Phase) -> str | None:
        so_far = finish(measured, level=lab.inputs.level, measured_at="")
        vs_previous = ratios(so_far, best, seed=seed, confidence=_sure(lever))
        single = score(limits.goal, vs_previous, wanted)
        if phase == "glance":
            return at_a_glance(single)
        if open_end:
            return ""
        if phase == "single":
            if _in_load(lever):
                return ""
            round_s = 4 * BLOCK * lab.pace.request_s(best.config)
            last = len(measured.single_blocks) >= 2 * measured.ask.rounds
            last = last or lab.left_s() < round_s + lab.window_s + _first_s(lab, name)
            return early_end(single, last=last)
        total = score(limits.goal, vs_previous)
        return "a loss under load" if total is not None and total.hi < 1 else ""

    return gate
