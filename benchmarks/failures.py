"""Studies whose engines are lost and whose disk fills up: the same winner, and nothing lost?

    python benchmarks/failures.py [--trials N] [--share S] [--seed N] [--json]

Whole studies in virtual time on the scripted engine, one after another until at least N trials were
measured. In a share S of the trials the engine dies (as by `kill -9`), falls silent (as by SIGSTOP)
or the disk is full when the trial is to be saved; then the same command is given again.

    right_winner   studies that end with the winner of the same study without failures
    lost_trials    trials that were saved and are not there any more, or not byte for byte
"""

import argparse
import json
import random
import sqlite3
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from vivace.core import ServingConfig
from vivace.errors import StudyError
from vivace.levers import all_levers
from vivace.measure.slo import parse_slo
from vivace.study.finished import Finished
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
    Rules,
    Script,
    VirtualDriver,
    VirtualEngine,
    VirtualJudge,
)
from vivace.workload import make_workload

BUDGET_S = 3000.0
KINDS = ("killed", "stopped", "disk full")
#: Those whose scripted effect is far from nothing, so that there is one right winner.
LEVERS = ("prefix_cache", "weights", "warm_prefix", "flash_attention", "kv_type", "threads")
#: Far into a trial: after this many requests, which every trial has.
REQUESTS = 8


@dataclass
class Trouble:
    """What goes wrong in the next trial, drawn anew for each."""

    share: float
    random: random.Random
    kind: str = ""
    seen: Counter[str] = field(default_factory=Counter)
    trials: int = 0

    def next(self) -> None:
        """A new trial begins."""
        self.trials += 1
        self.kind = self.random.choice(KINDS) if self.random.random() < self.share else ""

    def happens(self, kind: str) -> bool:
        """Whether it is this, which then does not happen again in the same trial."""
        if self.kind != kind:
            return False
        self.kind = ""
        self.seen[kind] += 1
        return True

    def script(self, config: ServingConfig) -> Script:
        """A healthy engine, or one that is lost after some requests."""
        script = Rules(stock_context_tokens=8192)(config)
        if self.happens("killed"):
            return replace(script, dies_after=self.random.randrange(REQUESTS))
        if self.happens("stopped"):
            return replace(script, hangs_after=self.random.randrange(REQUESTS))
        return script


class FullDisk(Store):
    """A store that has no room for a trial now and then."""

    trouble: Trouble

    def save(self, trial: Finished) -> None:
        if self.trouble.happens("disk full"):
            raise StudyError("cannot write into the study folder: no space left on device")
        super().save(trial)


def run(folder: Path, trouble: Trouble) -> Outcome:
    """One run of the study's command."""
    clock = Clock()
    engine = VirtualEngine(trouble.script, clock=clock)
    inputs = Inputs(
        model="pypi:test", model_sha256="0" * 64, workload="assistant", engine="scripted",
        budget_s=BUDGET_S,
    )  # fmt: skip

    def say(words: str) -> None:
        if words.startswith("measuring"):
            trouble.next()

    store = FullDisk(folder)
    store.trouble = trouble
    store.claim(inputs, fresh=False)
    tools = Tools(
        engine=engine, driver=VirtualDriver(clock, [engine], tokens_per_piece=8),
        judge=VirtualJudge(clock, limit=0.02), files=lambda _config: NO_FILES,
        workload=make_workload("assistant", seed=0), shape=SMOL_SHAPE, weight_types={"F16": None, "Q8_0": None},
        cores=2, free_memory=lambda: 2**34, cpu_mark=lambda _pids: None, workdir=folder, say=say,
    )  # fmt: skip
    lab = Lab(
        inputs=inputs, tools=tools, store=store, slo=parse_slo(""), window_s=20.0,
        today=lambda: "", pace=Pace(window_s=20.0),
    )  # fmt: skip
    try:
        return run_study(lab, [lever for lever in all_levers() if lever.about.name in LEVERS])
    finally:
        store.close()


def saved(folder: Path) -> dict[str, str]:
    """The trials on disk."""
    database = sqlite3.connect(folder / "trials.sqlite")
    found = dict(database.execute("select id, payload from trials").fetchall())
    database.close()
    return found


def study(trouble: Trouble) -> tuple[Outcome, int, int]:
    """A whole study; how often it stopped, and how many trials it lost."""
    stops, lost, before = 0, 0, dict[str, str]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        while True:
            outcome = None
            try:
                outcome = run(folder, trouble)
            except StudyError:
                stops += 1
            after = saved(folder)
            lost += sum(after.get(trial) != payload for trial, payload in before.items())
            if outcome is not None:
                return outcome, stops, lost
            before = after


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--share", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    calm, _, _ = study(Trouble(0.0, random.Random(0)))
    trouble = Trouble(arguments.share, random.Random(arguments.seed))
    studies = right = stops = lost = 0
    while trouble.trials < arguments.trials:
        outcome, stopped, missing = study(trouble)
        studies, stops, lost = studies + 1, stops + stopped, lost + missing
        right += _winner(outcome) == _winner(calm)
    result = {
        "studies": studies,
        "trials": trouble.trials,
        "failures": dict(trouble.seen),
        "stopped_and_went_on": stops,
        "right_winner": right,
        "lost_trials": lost,
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:22} {value}")
    return 0


def _winner(outcome: Outcome) -> ServingConfig | None:
    return outcome.winner.config if outcome.winner is not None else None


if __name__ == "__main__":
    sys.exit(main())
