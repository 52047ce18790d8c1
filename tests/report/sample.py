"""Realistic `vivace.study/1` documents: every status, nulls, Chinese text and hostile strings."""

import math
import random
from typing import Any

HOSTILE = '<script>alert("x")</script>'
HOSTILE_MARKDOWN = "a|b `c` ![i](x) \x1b[31mred"

METRICS = ("ttft_p50_ms", "ttft_loaded_p50_ms", "tps_single", "throughput_tps", "memory_bytes")


def row(
    ttft: float | None,
    single: float | None,
    loaded: float | None,
    together: float | None,
    memory: int | None,
    loss: float | None = 0.0,
    **more: Any,
) -> dict[str, Any]:
    """A contract Row with intervals of 4 %."""
    values = {
        "ttft_p50_ms": ttft,
        "tps_single": single,
        "ttft_loaded_p50_ms": loaded,
        "throughput_tps": together,
    }
    spread = {n: [v * 0.96, v * 1.04] for n, v in values.items() if v is not None}
    parts = {"weights": 145_000_000, "kv": 24_000_000, "reserved": 70_000_000}
    return {
        "concurrency": 16,
        **values,
        "ttft_cold_ms": 4_533.0,
        "ttft_loaded_p95_ms": None if loaded is None else loaded * 1.6,
        "tpot_p95_ms": 210.0,
        "goodput_rps": 0.4,
        "warmup_s": 5.2,
        "memory_bytes": memory,
        "memory": None if memory is None else {**parts, "other": memory - 169_000_000},
        "quality_loss": loss,
        "by_concurrency": {},
        "intervals": spread,
        "reasons": {},
        **more,
    }


def samples(
    seed: int, ttft: float, loaded: float, single: float, n: int = 24
) -> dict[str, list[float]]:
    """Samples scattered around the medians, long-tailed where latencies are."""
    rng = random.Random(seed)
    return {
        "ttft_ms": [ttft * math.exp(rng.gauss(0, 0.06)) for _ in range(n)],
        "loaded_ttft_ms": [loaded * math.exp(rng.gauss(0, 0.35)) for _ in range(4 * n)],
        "tps": [single * math.exp(rng.gauss(0, 0.03)) for _ in range(n)],
        "tpot_ms": [1000 / single * math.exp(rng.gauss(0.02, 0.05)) for _ in range(n)],
    }


def ratios(
    ttft: float,
    loaded: float,
    single: float,
    together: float,
    memory: float,
    unproven: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Ratios with intervals of 5 %."""
    values = dict(zip(METRICS, (ttft, loaded, single, together, memory), strict=True))
    return {
        n: {"ratio": v, "ci95": [v * 0.95, v * 1.05], "proven": n not in unproven}
        for n, v in values.items()
    }


def quality(loss: float, lo: float, hi: float, verdict: str) -> dict[str, Any]:
    """A quality result with its slices."""
    return {
        "loss": loss,
        "ci95": [lo, hi],
        "verdict": verdict,
        "positions": 3_210,
        "kl_mean": 0.0041,
        "same_top1": 0.974,
        "by_slice": {"english": loss * 0.8, "中文": loss * 1.3, "code": loss},
    }


def step(lever: str, title: str, effort: str, status: str, **more: Any) -> dict[str, Any]:
    """One entry of the ablation."""
    return {
        "lever": lever,
        "title": title,
        "effort": effort,
        "attacks": "prefill",
        "config_diff": {},
        "status": status,
        "reason": "",
        "row": None,
        "vs_previous": {},
        "predicted": None,
        "quality": None,
        "samples": {},
        "trial": f"t-{lever}",
        **more,
    }


def ablation() -> list[dict[str, Any]]:
    """Every status at least once, in the order in which a study tries them."""
    same = ("ttft_p50_ms", "tps_single", "memory_bytes")
    return [
        step(
            "prefix_cache",
            "Prefix cache on",
            "free",
            "kept",
            attacks="prefill, TTFT",
            config_diff={"prefix_cache": [False, True]},
            reason="TTFT 0.03x, proven",
            row=row(177, 38.1, 31_000, 22.4, 428_000_000),
            vs_previous=ratios(0.034, 0.48, 1.0, 2.6, 1.02, ("tps_single",)),
            predicted={"ttft_p50_ms": {"ratio_lo": 0.02, "ratio_hi": 0.08}},
            samples=samples(1, 177, 31_000, 38.1),
        ),
        step(
            "flash_attention",
            "Flash attention off",
            "free",
            "rejected",
            config_diff={"flash_attention": [None, False]},
            reason="TTFT 1.31x: worse than before",
            row=row(232, 37.4, 40_100, 19.0, 431_000_000),
            vs_previous=ratios(1.31, 1.29, 0.98, 0.85, 1.01, same),
        ),
        step(
            "weights_q8_0",
            "Weights Q8_0",
            "cheap",
            "kept",
            attacks="decode bandwidth, memory",
            config_diff={"weights": ["F16", "Q8_0"]},
            reason="one request 1.48x, quality pass",
            row=row(128, 56.4, 24_800, 28.9, 302_000_000, -0.003),
            vs_previous=ratios(0.72, 0.8, 1.48, 1.29, 0.71),
            quality=quality(-0.003, -0.007, 0.002, "pass"),
            samples=samples(2, 128, 24_800, 56.4),
        ),
        step(
            "weights_q4_0",
            "Weights Q4_0",
            "cheap",
            "rejected",
            config_diff={"weights": ["Q8_0", "Q4_0"]},
            reason="quality loss 33.7 % [31.0, 36.4] is over the limit of 2 %",
            row=row(109, 66.0, 21_700, 33.1, 305_000_000, 0.337),
            vs_previous=ratios(0.85, 0.87, 1.17, 1.14, 1.01, ("memory_bytes",)),
            quality=quality(0.337, 0.31, 0.364, "fail"),
        ),
        step(
            "weights_q4_1",
            "Weights as shipped (Q4_1)",
            "cheap",
            "kept",
            config_diff={"weights": ["Q8_0", "source"]},
            reason="one request 1.19x, quality pass",
            row=row(112, 67.2, 21_200, 34.0, 262_000_000, 0.002),
            vs_previous=ratios(0.87, 0.85, 1.19, 1.18, 0.87),
            quality=quality(0.002, -0.001, 0.006, "pass"),
        ),
        step(
            "kv_q4",
            "KV cache q4_0",
            "cheap",
            "rejected",
            config_diff={"kv_type": [None, "q4_0"]},
            reason="quality: not enough evidence",
            row=row(
                131,
                None,
                24_100,
                31.0,
                None,
                0.019,
                reasons={
                    "tps_single": "the engine sent no token counts",
                    "memory_bytes": "memory was not measured",
                },
            ),
            vs_previous={},
            quality=quality(0.019, 0.008, 0.031, "inconclusive"),
        ),
        step(
            "slots",
            "16 parallel slots",
            "tuning",
            "kept",
            attacks="throughput, queueing",
            config_diff={"slots": [1, 16], "context_tokens": [8192, 2048]},
            reason="16 concurrent 1.31x",
            row=row(114, 66.9, 9_400, 44.6, 331_000_000, 0.002),
            vs_previous=ratios(1.02, 0.44, 1.0, 1.31, 1.26, ("ttft_p50_ms", "tps_single")),
        ),
        step(
            "warm_prefix",
            "Shared prefix copied into every slot",
            "free",
            "kept",
            config_diff={"warm_prefix": [False, True]},
            reason="16 concurrent 3.3x",
            row=row(98.4, 67.0, 610, 147.2, 334_000_000, 0.002),
            vs_previous=ratios(0.86, 0.065, 1.0, 3.3, 1.01, ("tps_single", "memory_bytes")),
            samples=samples(3, 98.4, 610, 67.0),
        ),
        step(
            "huge_batch",
            "Batch 65,536",
            "tuning",
            "oom",
            config_diff={"batch_tokens": [2048, 65_536]},
            reason="killed by the kernel at 23.1 GiB: 内存不足",
        ),
        step(
            "backend",
            f"Other backend {HOSTILE}",
            "tuning",
            "crashed",
            config_diff={"engine": ["llamacpp", HOSTILE]},
            reason=f"exit code 134, last words: {HOSTILE} {HOSTILE_MARKDOWN}",
        ),
        step(
            "context",
            "Context 2,048",
            "tuning",
            "infeasible",
            config_diff={"context_tokens": [2048, 1024]},
            reason="the workload needs 1,412 tokens",
        ),
        step(
            "ngram",
            "N-gram speculation",
            "case",
            "rejected",
            config_diff={"speculation": [None, {"kind": "ngram", "n_max": 16, "n_match": 8}]},
            reason="16 concurrent 0.85x: costs throughput under load",
            row=row(99.1, 68.8, 640, 125.3, 334_000_000, 0.002),
            vs_previous=ratios(1.01, 1.05, 1.03, 0.85, 1.0, same),
        ),
        step(
            "draft",
            "Speculation with a Q4_0 draft of the target",
            "case",
            "timeout",
            config_diff={"speculation": [None, {"kind": "draft", "draft_weights": "Q4_0"}]},
            reason="no answer within 120 s",
        ),
        step(
            "threads",
            "Threads 2 → 1",
            "case",
            "not_tried",
            reason="the diagnosis gives no reason for it and the budget ended",
        ),
    ]


def study() -> dict[str, Any]:
    """A finished study with a winner."""
    steps = ablation()
    same = ("tps_single", "memory_bytes")
    unoptimised = row(5_210, 38.0, 64_800, 8.62, 420_000_000)
    default = row(
        886,
        62.0,
        41_900,
        19.1,
        352_000_000,
        0.002,
        goodput_rps=None,
        reasons={"goodput_rps": "no request met the objectives"},
    )
    openvino = row(
        None,
        None,
        None,
        None,
        None,
        None,
        reasons={m: "the engine is not installed" for m in (*METRICS, "quality_loss")},
    )
    config = {
        "engine": "llamacpp",
        "weights": "source",
        "slots": 16,
        "context_tokens": 2048,
        "prefix_cache": True,
        "warm_prefix": True,
        "continuous_batching": None,
        "flash_attention": None,
        "threads": None,
        "kv_type": None,
        "speculation": None,
    }
    before = {
        **config,
        "weights": "F16",
        "slots": 1,
        "context_tokens": 8192,
        "prefix_cache": False,
        "warm_prefix": False,
    }
    stock = {
        **config,
        "slots": None,
        "context_tokens": None,
        "prefix_cache": None,
        "warm_prefix": False,
    }
    winner = row(98.2, 67.1, 604, 146.1, 334_000_000, 0.002)
    return {
        "schema": "vivace.study/1",
        "name": "assistant-客服",
        "created": "2026-11-30T23:10:04+00:00",
        "command": "vivace tune --workload assistant --concurrency 16 --budget 8m",
        "state": "finished",
        "goal": "balanced",
        "quality_limit": 0.02,
        "versions": {"vivace": "0.1.0", "xllamacpp": "2026.10.11549", "python": "3.11.2"},
        "model": {
            "name": f"SmolLM2-135M-Instruct {HOSTILE}",
            "weights": "Q4_1",
            "parameters": 134_515_008,
            "file_bytes": 98_012_320,
            "licence": "Apache-2.0",
        },
        "hardware": {
            "cpu": "Intel Xeon, 2 cores",
            "memory_bytes": 25_769_803_776,
            "gpus": [],
            "bandwidth_gbps": None,
        },
        "workload": {"name": "assistant", "seed": 0, "prompt_tokens": 1035, "max_tokens": 96},
        "constraints": {"max_quality_loss": 0.02, "max_memory_bytes": None},
        "budget_s": 480,
        "elapsed_s": 451.2,
        "baselines": {
            "unoptimised": {
                **unoptimised,
                "config": before,
                "samples": samples(7, 5_210, 64_800, 38.0, 12),
            },
            "engine_defaults": {
                "llamacpp": {
                    **default,
                    "config": stock,
                    "samples": samples(8, 886, 41_900, 62.0, 12),
                },
                "openvino": {**openvino, "config": {}, "samples": {}},
            },
        },
        "best_default": "llamacpp",
        "noise_band": {
            "ttft_p50_ms": {"ratio_lo": 0.96, "ratio_hi": 1.05},
            "throughput_tps": {"ratio_lo": 0.98, "ratio_hi": 1.02},
        },
        "diagnosis": [
            {
                "bottleneck": "prefill",
                "confidence": 0.9,
                "evidence": [
                    "96 % of the TTFT is prefill",
                    f"1,035 of 1,036 tokens are shared {HOSTILE}",
                ],
                "levers": ["prefix_cache", "warm_prefix"],
            },
        ],
        "ablation": steps,
        "leave_one_out": [
            {"lever": "prefix_cache", "vs_winner": ratios(44.0, 60.1, 1.0, 0.2, 0.98, same)},
            {"lever": "slots", "vs_winner": ratios(0.99, 20.2, 1.0, 0.4, 0.79, same)},
        ],
        "winner": {
            "config": config,
            "row": {
                **winner,
                "by_concurrency": {"1": row(98.2, 67.1, 98.2, 60.4, 330_000_000), "16": winner},
            },
            "vs_unoptimised": ratios(0.0188, 0.0093, 1.766, 16.95, 0.795),
            "vs_engine_default": ratios(0.111, 0.0144, 1.082, 7.65, 0.949, ("memory_bytes",)),
            "quality": {
                **quality(0.002, -0.001, 0.006, "pass"),
                "basis": "top-64 distributions on 3,210 positions",
                "reference": "F16, dequantised from the shipped Q4_1",
            },
            "held_out": True,
            "samples": samples(9, 98.2, 604, 67.1),
        },
        "trials": [
            {
                "id": s["trial"],
                "config": {},
                "wall_s": 21.4,
                "reason": s["reason"],
                "status": s["status"]
                if s["status"] in ("oom", "crashed", "infeasible", "timeout")
                else "ok",
            }
            for s in steps
            if s["status"] != "not_tried"
        ],
        "plan": [
            {"step": "make F16 and Q8_0", "seconds": 21.0},
            {"step": "baseline: unoptimised", "seconds": 62.0},
            {"step": "validate on held-out prompts", "seconds": None},
        ],
        "warnings": [
            {"code": "cpu-pressure", "message": "another process used 7 % of the CPU"},
            f"plain warning {HOSTILE}",
        ],
        "notes": [
            "The 16-bit form is dequantised from the shipped 4-bit file.",
            "中文注释：仅供参考",
        ],
        "files": {"report.html": "report.html", "tuned.yaml": "tuned.yaml"},
    }


def study_without_winner() -> dict[str, Any]:
    """A finished study in which nothing beat the default."""
    doc = study()
    return {
        **doc,
        "winner": None,
        "leave_one_out": [],
        "ablation": [s for s in doc["ablation"] if s["status"] != "kept"],
    }


def interrupted_study() -> dict[str, Any]:
    """Ctrl-C in the first baseline: next to nothing is there."""
    doc = study_without_winner()
    return {
        **doc,
        "state": "interrupted",
        "ablation": [],
        "trials": [],
        "noise_band": {},
        "diagnosis": [],
        "best_default": None,
        "elapsed_s": None,
        "warnings": [],
        "notes": [],
        "baselines": {"unoptimised": None, "engine_defaults": {}},
    }
