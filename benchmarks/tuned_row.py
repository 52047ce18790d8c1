"""Starts a study's winner from its `tuned.yaml` and measures its Row again, beside the study's.

    python benchmarks/tuned_row.py STUDY_FOLDER [--json]

Prints each metric of the Row as the study has it and as it is now, with both 95 % intervals and
whether they overlap.
"""

import argparse
import json
import sys
from pathlib import Path

from vivace.core import Estimate, Row
from vivace.engines.llamacpp import LlamaCpp
from vivace.load.closed import HttpDriver
from vivace.load.steady import DEFAULT_WINDOW_S
from vivace.measure.slo import parse_slo
from vivace.study.arm import Arm
from vivace.study.files import start_tuned
from vivace.study.finished import finish
from vivace.study.ports import Tools
from vivace.study.trial import Ask, Measured
from vivace.study.tuned import read_tuned
from vivace.workload import make_workload

METRICS = ("ttft_p50_ms", "tps_single", "throughput_tps", "ttft_loaded_p50_ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    report = json.loads((arguments.study / "report.json").read_bytes())
    told = report["winner"]["row"]
    row = measure(arguments.study, report)
    found = {name: compared(told, name, getattr(row, name)) for name in METRICS}
    if arguments.json:
        print(json.dumps(found))
    else:
        for name, entry in found.items():
            print(f"{name:20} {entry}")
    return 0


def measure(folder: Path, report: dict) -> Row:
    """The Row of the engine that `tuned.yaml` starts, measured as a study measures its winner."""
    told, workload = report["winner"]["row"], report["workload"]
    tools = Tools(
        engine=LlamaCpp(), driver=HttpDriver(), judge=None, files=None,
        workload=make_workload(workload["name"], seed=workload["seed"]), shape=None,
        weight_types={}, cores=1, free_memory=lambda: None, cpu_mark=lambda _: None, workdir=folder, say=print,
    )  # fmt: skip
    config = read_tuned(folder / "tuned.yaml").config
    level = told["concurrency"]
    ask = Ask(id="served", config=config, split="validate", levels=(level,))
    with start_tuned(folder / "tuned.yaml", tools.engine, workdir=folder) as running:
        slo = parse_slo(report["constraints"]["slo"])
        arm = Arm(tools, slo, Measured(ask=ask), running)
        arm.warm()
        for _ in range(2):
            arm.single(3)
        arm.load(level, DEFAULT_WINDOW_S, decides=True)
        arm.read_memory()
    finished = finish(arm.measured, level=level, measured_at="")
    return finished.row(seed=report["workload"]["seed"], quality_loss=None)


def compared(told: dict, name: str, now: Estimate) -> dict[str, object]:
    """The study's figure and today's."""
    before = told["intervals"].get(name)
    overlap = None
    if before and now.lo is not None and now.hi is not None:
        overlap = before[0] <= now.hi and now.lo <= before[1]
    return {
        "study": told[name],
        "study_ci95": before,
        "now": now.value,
        "now_ci95": [now.lo, now.hi],
        "overlap": overlap,
    }


if __name__ == "__main__":
    sys.exit(main())
