"""A whole study on the scripted engine in virtual time."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from vivace.core import ServingConfig
from vivace.levers import all_levers
from vivace.measure.slo import parse_slo
from vivace.study.inputs import Inputs
from vivace.study.lab import Lab
from vivace.study.pace import Pace
from vivace.study.ports import Tools
from vivace.study.run import run_study
from vivace.study.store import Store
from vivace.testing import (
    NO_FILES,
    SMOL_SHAPE,
    Clock,
    Rules,
    Script,
    VirtualDriver,
    VirtualEngine,
    VirtualJudge,
)
from vivace.workload import make_workload

TYPES: Mapping[str, str | None] = {
    "F16": None,
    "Q8_0": None,
    "Q4_K_M": "Q4_K needs widths divisible by 256",
    "Q4_0": None,
}


@dataclass
class Bed:
    """One study with its parts in reach."""

    lab: Lab
    clock: Clock
    engine: VirtualEngine
    said: list[str]

    def run(self):
        return run_study(self.lab, all_levers())

    def tried(self) -> dict[str, str]:
        """Lever -> status."""
        return {t.option.lever: t.decision.status for t in self.lab.outcome.ablation}

    def reason(self, lever: str) -> str:
        return next(t.decision.reason for t in self.lab.outcome.ablation if t.option.lever == lever)


def make_bed(
    folder: Path,
    script_for: Callable[[ServingConfig], Script] | None = None,
    *,
    workload: str = "assistant",
    cores: int = 2,
    tools: Callable[[Tools], Tools] = lambda t: t,
    fresh: bool = False,
    **inputs: object,
) -> Bed:
    """A study of the default rules: prefix cache, weights as shipped and warm slots help."""
    clock = Clock()
    engine = VirtualEngine(script_for or Rules(stock_context_tokens=8192), clock=clock)
    said: list[str] = []
    wanted = Inputs(
        model="pypi:test", model_sha256="0" * 64, workload=workload,
        **{"budget_s": 900.0, "engine": "scripted", **inputs},  # type: ignore[arg-type]
    )  # fmt: skip
    store = Store(folder)
    store.claim(wanted, fresh=fresh, now="2026-12-01T00:00:00+00:00")
    parts = Tools(
        engine=engine,
        driver=VirtualDriver(clock, [engine], tokens_per_piece=4),
        judge=VirtualJudge(clock, limit=wanted.max_quality_loss),
        files=lambda config: NO_FILES,
        workload=make_workload(workload, seed=0),
        shape=SMOL_SHAPE,
        weight_types=TYPES,
        cores=cores,
        free_memory=lambda: 2**34,
        cpu_mark=lambda _pids: None,
        workdir=folder,
        say=said.append,
    )
    lab = Lab(
        inputs=wanted, tools=tools(parts), store=store, slo=parse_slo(""), window_s=20.0,
        today=lambda: "2026-12-01T00:00:00+00:00", pace=Pace(window_s=20.0),
    )  # fmt: skip
    return Bed(lab=lab, clock=clock, engine=engine, said=said)
