"""`kill -9` of a running study at random moments; the same command goes on each time.

    python benchmarks/kills.py [--kills N] [--budget TIME] [--json]

Real processes: `vivace tune` of the tests' tiny model on their stand-in for `llama-server`, in its own
folder for each kill. The moments lie evenly at random within the time of a study that nobody kills.

    same_winner    studies whose winner is that of the undisturbed one
    identical      trials that were finished at the kill and are the same, byte for byte, at the end
    orphans        engines that still ran 5 s after the kill
"""

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from cli.conftest import Place  # noqa: E402
from models.conftest import write_gguf  # noqa: E402

ORPHAN_S = 5.0


def make(folder: Path) -> Place:
    """Model and server program in a folder of their own."""
    place = Place(folder)
    write_gguf(place.model, numbers={"llama.context_length": 8192})
    source = (ROOT / "tests" / "cli" / "llama_server.py").read_text()
    # A default of one slot, so that more of them clearly win.
    source = source.replace('option("--parallel", "4")', 'option("--parallel", "1")')
    place.server.write_text(f"#!{sys.executable}\n{source}")
    place.server.chmod(0o755)
    return place


def saved(place: Place) -> dict[str, str]:
    """The finished trials on disk."""
    path = place.out / "trials.sqlite"
    if not path.exists():
        return {}
    database = sqlite3.connect(path)
    try:
        return dict(database.execute("select id, payload from trials").fetchall())
    except sqlite3.OperationalError:
        return {}
    finally:
        database.close()


def winner(place: Place) -> object:
    """The configuration that the finished study serves."""
    report = json.loads((place.out / "report.json").read_bytes())
    return report["winner"] and report["winner"]["config"]


def finish(place: Place, command: list[str]) -> float:
    """Run the command to its end; the seconds it took."""
    begin = time.monotonic()
    subprocess.run(
        command, env=place.environment(), cwd=place.folder, capture_output=True, check=True
    )
    return time.monotonic() - begin


def killed(place: Place, command: list[str], after_s: float) -> tuple[dict[str, str], int]:
    """Start the study and kill it; its finished trials, and how many engines were left."""
    process = subprocess.Popen(
        command, env=place.environment(), cwd=place.folder, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(after_s)
    process.kill()
    process.wait()
    end = time.monotonic() + ORPHAN_S
    while place.engines() and time.monotonic() < end:
        time.sleep(0.05)
    return saved(place), len(place.engines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--budget", default="10m")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    found = {"kills": 0, "same_winner": 0, "finished_trials": 0, "identical": 0, "orphans": 0}
    more = ("--budget", arguments.budget, "--concurrency", "16")
    with tempfile.TemporaryDirectory() as folder:
        calm = make(Path(folder))
        whole_s = finish(calm, calm.tune(*more))
        right = winner(calm)
    print(f"undisturbed: {whole_s:.0f} s, winner: {right}", file=sys.stderr)
    for _ in range(arguments.kills):
        with tempfile.TemporaryDirectory() as folder:
            place = make(Path(folder))
            before, orphans = killed(place, place.tune(*more), chance.uniform(0.5, whole_s))
            finish(place, place.tune(*more))
            after = saved(place)
            found["kills"] += 1
            found["orphans"] += orphans
            found["finished_trials"] += len(before)
            found["identical"] += sum(after.get(t) == payload for t, payload in before.items())
            found["same_winner"] += winner(place) == right
            if winner(place) != right:
                print(f"another winner: {winner(place)}", file=sys.stderr)
        print(json.dumps(found), file=sys.stderr)
    print(
        json.dumps(found) if arguments.json else "\n".join(f"{k:16} {v}" for k, v in found.items())
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
