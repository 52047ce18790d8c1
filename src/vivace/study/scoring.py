"""The quality of a configuration, measured once for all that compute alike, in an engine of its own.

Apart from the trials: scoring wants several short slots, and must not leave its texts in the cache
of an engine whose speed is measured.
"""

from dataclasses import replace

import msgspec

from vivace.core import QualityResult, ServingConfig
from vivace.engines.base import Running
from vivace.study.lab import Lab, numerics

SLOTS = 4
CONTEXT_TOKENS = 1024
#: Itself, the reference and the candidate, which idle meanwhile.
BESIDE = 3


def settle_quality(lab: Lab, config: ServingConfig) -> QualityResult | None:
    """The verdict on what `config` computes; `None` for the reference's own arithmetic.

    Raises `EngineError` when the engine cannot be started or gives no log-probabilities.
    """
    key = numerics(config)
    if key == numerics(lab.start):
        return None
    known = lab.outcome.qualities.get(key) or _stored(lab, key)
    if known is None:
        _know_reference(lab)
        lab.tools.say(f"quality of {key}")
        with_engine = _start(lab, config)
        try:
            known = lab.tools.judge.judge(with_engine)
        finally:
            with_engine.stop()
        lab.store.note(f"quality:{key}", msgspec.json.encode(known).decode())
    lab.outcome.qualities[key] = known
    return known


def _stored(lab: Lab, key: str) -> QualityResult | None:
    stored = lab.store.fact(f"quality:{key}")
    return None if stored is None else msgspec.json.decode(stored, type=QualityResult)


def _know_reference(lab: Lab) -> None:
    if lab.reference_known:
        return
    stored = lab.store.fact("reference")
    if stored is None or not lab.tools.judge.recall(stored):
        lab.tools.say("quality texts through the 16-bit reference")
        begin_s = lab.elapsed_s
        running = _start(lab, lab.start)
        try:
            lab.store.note("reference", lab.tools.judge.learn_reference(running))
        finally:
            running.stop()
        lab.pace = replace(lab.pace, quality_s=lab.elapsed_s - begin_s)
    lab.reference_known = True


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
