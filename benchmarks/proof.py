"""How often a study claims what is not there, finds what is, and how well its intervals cover.

    python benchmarks/proof.py [--studies N] [--noise SIGMA] [--json]

Whole studies in virtual time on the scripted engine. Each request is slowed by log-normal noise.
Without an effect every lever does nothing; with one, a lever makes the engine 10 % faster. A claim
is a metric of the winner that is called proven against the engine's default.

    false_claim_rate   share of studies without an effect that claim any metric, with its upper
                       95 % bound (Wilson)
    power              share of studies with the effect that keep the lever and prove the gain of
                       the winner on held-out prompts
    coverage           share of the 95 % intervals in the reports that contain the truth: winner and
                       each trial against what it was compared with
"""

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vivace.core import Metric, ServingConfig
from vivace.levers import all_levers
from vivace.measure.slo import parse_slo
from vivace.study.claims import claims
from vivace.study.finished import ratios
from vivace.study.inputs import Inputs
from vivace.study.lab import Lab
from vivace.study.outcome import Outcome
from vivace.study.pace import Pace
from vivace.study.ports import Tools
from vivace.study.run import run_study
from vivace.study.store import Store
from vivace.testing import (
    NO_FILES,
    SMOL_SHAPE,
    Clock,
    Script,
    VirtualDriver,
    VirtualEngine,
    VirtualJudge,
)
from vivace.workload import make_workload

BUDGET_S = 480.0
GAIN = 1.1
#: Decided by one request alone, as flash attention is on a real machine.
LEVER = "flash_attention"
METRICS: tuple[Metric, ...] = ("ttft_p50_ms", "tps_single", "throughput_tps")
#: What the ratio of each is where the engine becomes so much faster.
POWERS: dict[Metric, int] = {"ttft_p50_ms": -1, "tps_single": 1, "throughput_tps": 1}


@dataclass(frozen=True)
class Found:
    """Of one study: what it claims, whether the lever was kept, which intervals hold the truth."""

    claimed: tuple[str, ...]
    kept: tuple[str, ...]
    improved: bool
    covered: tuple[bool, ...]


def script_for(config: ServingConfig, *, noise: float, seed: int, gain: float) -> Script:
    """Every configuration the same, but for the one lever."""
    faster = speed(config, gain)
    return Script(
        slots=4,
        decode_tps=60.0 * faster,
        prefill_tps=900.0 * faster,
        batch_cost=0.2,
        noise_sigma=noise,
        seed=seed,
    )


def speed(config: ServingConfig, gain: float) -> float:
    """What the lever does."""
    return gain if config.flash_attention is False else 1.0


def study(seed: int, *, noise: float, gain: float) -> Found:
    """One study of the default budget."""
    clock = Clock()
    engine = VirtualEngine(partial(script_for, noise=noise, seed=seed, gain=gain), clock=clock)
    inputs = Inputs(
        model="pypi:test", model_sha256="0" * 64, workload="assistant", engine="scripted",
        budget_s=BUDGET_S, seed=seed,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder))
        store.claim(inputs, fresh=False)
        tools = Tools(
            engine=engine,
            driver=VirtualDriver(clock, [engine], tokens_per_piece=8),
            judge=VirtualJudge(clock, limit=0.02),
            files=lambda _config: NO_FILES,
            workload=make_workload("assistant", seed=seed),
            shape=SMOL_SHAPE,
            weight_types={"F16": None},
            cores=2,
            free_memory=lambda: 2**34,
            cpu_mark=lambda _pids: None,
            workdir=Path(folder),
            say=lambda _words: None,
        )
        lab = Lab(
            inputs=inputs, tools=tools, store=store, slo=parse_slo(""), window_s=20.0,
            today=lambda: "", pace=Pace(window_s=20.0),
        )  # fmt: skip
        outcome = run_study(lab, all_levers())
        store.close()
    kept = tuple(t.option.lever for t in outcome.ablation if t.decision.status == "kept")
    return Found(
        claimed=_claimed(outcome, seed),
        kept=kept,
        improved=outcome.improved,
        covered=tuple(_covered(outcome, seed, gain)),
    )


def _claimed(outcome: Outcome, seed: int) -> tuple[Metric, ...]:
    """Metrics in which the winner is called proven better than the engine's default."""
    winner, default = outcome.winner, outcome.default
    if not outcome.improved or winner is None or default is None:
        return ()
    ratios = claims(winner, default, seed=seed, noise=outcome.noise)
    return tuple(m for m in METRICS if m in ratios and ratios[m].proven)


def _covered(outcome: Outcome, seed: int, gain: float) -> Iterator[bool]:
    """Whether the truth lies in each interval that the report shows."""
    known = {t.id: t.config for t in outcome.trials}
    for trial in outcome.trials:
        for name in trial.in_turn:
            reference = next((t for t in outcome.trials if t.id == name), None)
            if reference is None:
                continue
            truth = speed(trial.config, gain) / speed(known[name], gain)
            for metric, ratio in ratios(trial, reference, seed=seed).items():
                if metric in POWERS and ratio.lo < ratio.hi:
                    yield ratio.lo <= truth ** POWERS[metric] <= ratio.hi


def wilson(hits: int, of: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    z, p = 1.96, hits / of
    centre, spread = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    return (centre - spread) / (1 + z * z / of), (centre + spread) / (1 + z * z / of)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--noise", type=float, default=0.05)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: dict[float, list[Found]] = {}
    with ProcessPoolExecutor() as pool:
        for gain in (1.0, GAIN):
            run = partial(study, noise=arguments.noise, gain=gain)
            found[gain] = list(pool.map(run, range(arguments.studies), chunksize=4))
            print(f"gain {gain}: {len(found[gain])} studies", file=sys.stderr)
    false = sum(bool(f.claimed) for f in found[1.0])
    hits = sum(LEVER in f.kept and f.improved for f in found[GAIN])
    covered = [c for studies in found.values() for f in studies for c in f.covered]
    result = {
        "studies": arguments.studies,
        "false_claim_rate": false / arguments.studies,
        "false_claim_upper95": round(wilson(false, arguments.studies)[1], 4),
        "kept_without_effect": sum(bool(f.kept) for f in found[1.0]) / arguments.studies,
        "power": hits / arguments.studies,
        "power_ci95": [round(x, 4) for x in wilson(hits, arguments.studies)],
        "coverage": round(sum(covered) / max(1, len(covered)), 4),
        "intervals": len(covered),
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:22} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
