"""The quality of a configuration, measured once for all that compute alike, in an engine of its own.

Apart from the trials: scoring wants several short slots, and must not leave its texts in the cache
of an engine whose speed is measured.
"""

from collections.abc import Callable
from dataclasses import replace

import msgspec

from vivace.core import QualityResult, ServingConfig
from vivace.engines.base import Running
from vivace.errors import EngineError
from vivace.study.lab import Lab, numerics

SLOTS = 4
CONTEXT_TOKENS = 1024
#: The reference, and the best and the candidate, which idle meanwhile.
BESIDE = 4


def settle_quality(lab: Lab, config: ServingConfig, *, keep_s: float = 0) -> QualityResult | None:
    """The verdict on what `config` computes; `None` for the reference's own arithmetic.

    A verdict in doubt gets more texts while the budget has room for them and `keep_s`. Raises
    `EngineError` when the engine cannot be started or gives no log-probabilities.
    """
    key = numerics(config)
    if key == numerics(lab.start):
        return None
    known = lab.outcome.qualities.get(key) or _stored(lab, key)
    if known is None:
        known = _twice(lab, key, lambda: _judge(lab, config, keep_s))
        lab.store.note(f"quality:{key}", msgspec.json.encode(known).decode())
    lab.outcome.qualities[key] = known
    return known


def _twice(lab: Lab, key: str, action: Callable[[], QualityResult]) -> QualityResult:
    """An engine that is lost once may have been unlucky."""
    try:
        return action()
    except EngineError as error:
        words = f"quality of {key}: the engine was lost ({error}), once more"
        lab.tools.say(words)
        lab.outcome.warnings.append(("measured_again", words))
        return action()


def _judge(lab: Lab, config: ServingConfig, keep_s: float) -> QualityResult:
    judge, say = lab.tools.judge, lab.tools.say
    _know_reference(lab, 0)
    say(f"quality of {numerics(config)}")
    running = _start(lab, config)
    try:
        found = judge.judge(running, 0)
        for stage in range(1, judge.stages):
            needs_s = lab.pace.judge_s * (1 if judge.knows(stage) else 2)
            if found.verdict != "inconclusive" or lab.left_s() < needs_s + keep_s:
                break
            say("not enough evidence: more texts")
            _know_reference(lab, stage)
            found = judge.judge(running, stage)
    finally:
        running.stop()
    return found


def _stored(lab: Lab, key: str) -> QualityResult | None:
    stored = lab.store.fact(f"quality:{key}")
    return None if stored is None else msgspec.json.decode(stored, type=QualityResult)


def _know_reference(lab: Lab, stage: int) -> None:
    judge, stored = lab.tools.judge, lab.store.fact("reference")
    if stored is not None and not judge.knows(0):
        judge.recall(stored)
    if judge.knows(stage):
        return
    lab.tools.say("quality texts through the 16-bit reference")
    begin_s = lab.elapsed_s
    running = _start(lab, lab.start)
    try:
        lab.store.note("reference", judge.learn_reference(running, stage))
    finally:
        running.stop()
    if stage == 0:
        lab.pace = replace(lab.pace, quality_s=lab.elapsed_s - begin_s)


def _start(lab: Lab, config: ServingConfig) -> Running:
    wanted = ServingConfig(
        engine=config.engine,
        weights=config.weights,
        kv_type=config.kv_type,
        flash_attention=config.flash_attention,
        slots=SLOTS,
        context_tokens=min(CONTEXT_TOKENS, lab.tools.shape.context),
        prefix_cache=True,
    )
    if not lab.fit_together(BESIDE):
        lab.bench.close()
    return lab.tools.engine.start(lab.tools.files(wanted), wanted, workdir=lab.tools.workdir)
