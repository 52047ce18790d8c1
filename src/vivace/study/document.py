"""The `vivace.study/1` document: everything a study found, as plain data."""

from collections.abc import Mapping
from typing import Any

import msgspec

from vivace.core import METRICS, Estimate, Metric, QualityResult, Ratio, Row, ServingConfig
from vivace.measure.samples import Samples
from vivace.study.claims import claims
from vivace.study.decide import quality_words
from vivace.study.finished import Finished
from vivace.study.lab import Lab, numerics
from vivace.study.noise import band
from vivace.study.outcome import Outcome, Tried

Doc = dict[str, Any]
ESTIMATES = (
    "ttft_p50_ms",
    "tps_single",
    "ttft_cold_ms",
    "ttft_loaded_p50_ms",
    "ttft_loaded_p95_ms",
    "tpot_p95_ms",
    "throughput_tps",
    "goodput_rps",
)


def study_document(lab: Lab, *, about: Mapping[str, object], state: str) -> Doc:
    """The whole document. `about` has model, hardware, workload, versions, command, created, name."""
    outcome, inputs = lab.outcome, lab.inputs
    default = outcome.default
    engine = lab.tools.engine.name
    return {
        "schema": "vivace.study/1",
        **about,
        "state": state,
        "goal": inputs.goal,
        "quality_limit": inputs.max_quality_loss,
        "constraints": {
            "max_quality_loss": inputs.max_quality_loss,
            "max_memory_bytes": inputs.max_memory,
            "slo": inputs.slo,
            "goal": inputs.goal,
        },
        "budget_s": inputs.budget_s,
        "elapsed_s": round(outcome.elapsed_s, 1),
        "plan": _plan(outcome),
        "baselines": {
            "unoptimised": _baseline(lab, outcome.unoptimised),
            "engine_defaults": {engine: _baseline(lab, default)} if default is not None else {},
        },
        "best_default": engine if default is not None else None,
        "noise_band": {
            m: {"ratio_lo": _rounded(band(r)[0], 4), "ratio_hi": _rounded(band(r)[1], 4)}
            for m, r in outcome.noise.items()
        },
        "diagnosis": [],
        "ablation": [_tried(lab, t) for t in outcome.ablation],
        "leave_one_out": [
            {"lever": o.lever, "vs_winner": ratio_data(o.vs_winner), "dropped": o.dropped}
            for o in outcome.left_out
        ],
        "winner": _winner(lab),
        "improved": outcome.improved,
        "meets_constraints": outcome.meets,
        "nearest_miss": nearest_miss(lab),
        "trials": [_trial(t) for t in outcome.trials],
        "runs": [
            {
                "run": run,
                "began": began,
                "measured": [t.id for t in outcome.trials if t.run == run],
            }
            for run, began in enumerate(lab.store.runs, start=1)
        ],
        "warnings": [{"code": c, "message": m} for c, m in outcome.warnings],
        "files": {},
    }


def row_data(row: Row, reasons: Mapping[str, str] | None = None) -> Doc:
    """The contract's Row with intervals and reasons; `reasons` are those of single figures."""
    estimates: dict[str, Estimate] = {name: getattr(row, name) for name in ESTIMATES}
    memory = row.memory
    data: Doc = {"concurrency": row.concurrency}
    data |= {name: _rounded(e.value) for name, e in estimates.items()}
    data |= {
        "warmup_s": _rounded(row.warmup_s),
        "memory_bytes": memory.total if memory is not None else None,
        "memory": {
            "weights": memory.weights,
            "kv": memory.kv,
            "other": memory.other,
            "reserved": memory.reserved,
        }
        if memory is not None
        else None,
        "quality_loss": _rounded(row.quality_loss, 5),
        "busy_slots_share": _rounded(row.busy_slots_share),
        "by_concurrency": {str(n): row_data(r) for n, r in row.by_concurrency.items()},
        "intervals": {
            name: [_rounded(e.lo), _rounded(e.hi)]
            for name, e in estimates.items()
            if e.lo is not None and e.hi is not None
        },
        "reasons": {n: e.reason for n, e in estimates.items() if e.reason} | dict(reasons or {}),
        "n": {name: e.n for name, e in estimates.items()},
    }
    return data


def samples_data(samples: Samples) -> Doc:
    """What the distributions are drawn from."""
    return {
        "ttft_ms": list(samples.single_ttft_ms),
        "tps": list(samples.single_tps),
        "loaded_ttft_ms": list(samples.loaded_ttft_ms),
        "tpot_ms": list(samples.loaded_tpot_ms),
    }


def ratio_data(found: Mapping[Metric, Ratio]) -> Doc:
    """The contract's R by metric."""
    return {
        m: {
            "ratio": _rounded(found[m].ratio, 4),
            "ci95": [_rounded(found[m].lo, 4), _rounded(found[m].hi, 4)],
            "proven": found[m].proven,
        }
        for m in METRICS
        if m in found
    }


def config_data(config: ServingConfig) -> Doc:
    """The settings that are not left to the engine."""
    return {k: v for k, v in msgspec.to_builtins(config).items() if v is not None}


def nearest_miss(lab: Lab) -> Doc | None:
    """Where nothing meets the constraints: what came closest, and by how much it misses."""
    outcome, limit = lab.outcome, lab.inputs.max_memory
    if outcome.meets or limit is None:
        return None
    read = [t for t in outcome.trials if t.status == "ok" and t.memory is not None]
    if not read:
        return None
    closest = min(read, key=lambda t: t.memory.total if t.memory is not None else 0)
    needs = closest.memory.total if closest.memory is not None else 0
    hint = f"--max-memory {-(-needs // 2**20)}MiB"
    return {
        "trial": closest.id,
        "config": config_data(closest.config),
        "memory_bytes": needs,
        "limit_bytes": limit,
        "relax": hint,
    }


def quality_data(quality: QualityResult | None) -> Doc | None:
    """A quality verdict as plain data."""
    if quality is None:
        return None
    return {
        "loss": _rounded(quality.loss, 5),
        "ci95": [_rounded(quality.lo, 5), _rounded(quality.hi, 5)],
        "verdict": quality.verdict,
        "basis": quality.basis,
        "reference": quality.reference,
        "positions": quality.positions,
        "kl_mean": _rounded(quality.kl_mean, 6),
        "same_top1": _rounded(quality.same_top1, 4),
        "by_slice": {k: _rounded(v, 5) for k, v in quality.by_slice.items()},
    }


def _row(lab: Lab, trial: Finished, quality: QualityResult | None) -> Doc:
    is_reference = numerics(trial.config) == numerics(lab.start)
    loss = quality.loss if quality is not None else 0.0 if is_reference else None
    reasons: dict[str, str] = {}
    if trial.memory is None:
        reasons["memory_bytes"] = f"not read: {trial.reason or 'the trial ended before'}"
    if loss is None:
        reasons["quality_loss"] = "not scored: the outcome did not depend on it"
    return row_data(trial.row(seed=lab.inputs.seed, quality_loss=loss), reasons)


def _baseline(lab: Lab, trial: Finished | None) -> Doc | None:
    if trial is None:
        return None
    data = _row(lab, trial, lab.quality_of(trial.config))
    return data | {
        "config": config_data(trial.config),
        "engine_args": dict(trial.engine_args),
        "samples": samples_data(trial.samples),
    }


def _tried(lab: Lab, tried: Tried) -> Doc:
    about = tried.lever.about if tried.lever is not None else None
    trial = tried.trial
    return {
        "lever": tried.option.lever,
        "title": tried.option.title,
        "effort": about.effort if about is not None else "free",
        "attacks": list(about.attacks) if about is not None else [],
        "cost": about.cost if about is not None else "",
        "risk": about.risk if about is not None else "",
        "config_diff": {k: [_plain(a), _plain(b)] for k, (a, b) in tried.diff.items()},
        "status": tried.decision.status,
        "reason": tried.decision.reason,
        "row": _row(lab, trial, tried.quality) if trial is not None else None,
        "samples": samples_data(trial.samples) if trial is not None else {},
        "vs_previous": ratio_data(tried.vs_previous),
        "predicted": None,
        "quality": quality_data(tried.quality),
        "trial": trial.id if trial is not None else None,
    }


def _winner(lab: Lab) -> Doc | None:
    outcome = lab.outcome
    winner, default, unoptimised = outcome.winner, outcome.default, outcome.unoptimised
    if winner is None or default is None or unoptimised is None:
        return None
    quality, seed = outcome.winner_quality, lab.inputs.seed
    limit = lab.inputs.max_quality_loss
    data = quality_data(quality) or {
        "loss": 0.0,
        "ci95": [0.0, 0.0],
        "verdict": "pass",
        "basis": "these are the reference's own weights and arithmetic",
        "reference": lab.tools.judge.reference_name,
    }
    return {
        "config": config_data(winner.config),
        "engine_args": dict(winner.engine_args),
        "row": _row(lab, winner, quality),
        "samples": samples_data(winner.samples),
        "vs_unoptimised": ratio_data(claims(winner, unoptimised, seed=seed, noise=outcome.noise)),
        "vs_engine_default": ratio_data(claims(winner, default, seed=seed, noise=outcome.noise)),
        "quality": data | {"words": quality_words(quality, limit) if quality is not None else ""},
        "held_out": winner.split == "validate",
    }


def _plan(outcome: Outcome) -> list[Doc]:
    plan = outcome.plan
    if plan is None:
        return []
    steps = (*plan.before, *plan.levers, *plan.after)
    return [{"step": s.title, "seconds": round(s.seconds, 1)} for s in steps if s.chosen]


def _trial(trial: Finished) -> Doc:
    return {
        "id": trial.id,
        "config": config_data(trial.config),
        "status": trial.status,
        "wall_s": round(trial.wall_s, 2),
        "reason": trial.reason,
        "measured_at": trial.measured_at,
        "run": trial.run,
        "failed_requests": trial.samples.failed,
        "foreign_cpu_shares": list(trial.foreign_shares),
        "settings": dict(trial.settings),
    }


def _plain(value: object) -> object:
    return msgspec.to_builtins(value)


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
