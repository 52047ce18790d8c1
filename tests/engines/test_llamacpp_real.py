"""llama.cpp itself with the default model: `pytest -m engine`."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import psutil
import pytest

from vivace.core import Message, ServingConfig, Speculation
from vivace.engines.base import ModelFiles
from vivace.engines.http import get_json, post_json
from vivace.engines.llamacpp import LlamaCpp
from vivace.engines.llamacpp_running import RunningLlamaCpp
from vivace.engines.llamacpp_state import Slot
from vivace.errors import EngineRequestError, EngineStartError

pytestmark = pytest.mark.engine

SYSTEM = "Employees file travel requests ten days ahead and attach their receipts. " * 8
PREFIX = (Message(role="system", content=SYSTEM),)
WARM = ServingConfig(slots=3, context_tokens=500, prefix_cache=True, warm_prefix=True)
PATIENCE_S = 300.0


class Timings(msgspec.Struct):
    """What llama.cpp adds to an answer."""

    cache_n: int
    prompt_n: int
    draft_n: int | None = None


class Answer(msgspec.Struct):
    """What is looked at of a chat completion."""

    timings: Timings


def chat(question: str, system: str = SYSTEM, **more: object) -> dict[str, object]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"messages": messages, "max_tokens": 4, "temperature": 0, **more}


def ask(running: RunningLlamaCpp, question: str, **more: object) -> Timings:
    body = chat(question, **more)
    path = "/v1/chat/completions"
    return post_json(running.url, path, body, Answer, timeout_s=PATIENCE_S).timings


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("llamacpp")


@pytest.fixture(scope="module")
def warm(real_files: ModelFiles, workdir: Path) -> Iterator[RunningLlamaCpp]:
    """Three warmed slots, shared by the tests that only ask."""
    with LlamaCpp().start(
        real_files, WARM, workdir=workdir, prefixes=[PREFIX], timeout_s=PATIENCE_S
    ) as running:
        yield running


def test_every_slot_answers_from_the_copied_prefix(warm: RunningLlamaCpp) -> None:
    assert warm.warm_source == "computed"
    for slot in range(3):
        timings = ask(warm, f"May I claim {slot} nights?", id_slot=slot)
        assert timings.cache_n > 80
        assert timings.prompt_n < 20


def test_an_answer_is_streamed(warm: RunningLlamaCpp) -> None:
    address = urlsplit(warm.url)
    connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=PATIENCE_S)
    body = json.dumps(chat("Which receipts?", stream=True))
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    events = [line for line in connection.getresponse() if line.startswith(b"data: ")]
    connection.close()
    assert len(events) > 4
    assert events[-1].strip() == b"data: [DONE]"


def test_counters_move_with_a_request_and_settings_are_read_back(warm: RunningLlamaCpp) -> None:
    before = warm.state()
    timings = ask(warm, "What about trains?")
    after = warm.state()
    assert before.prompt_tokens_total is not None
    assert after.prompt_tokens_total is not None
    assert before.cached_tokens_total is not None
    assert after.cached_tokens_total is not None
    used = timings.cache_n + timings.prompt_n
    assert after.prompt_tokens_total - before.prompt_tokens_total == used
    assert after.cached_tokens_total - before.cached_tokens_total == timings.cache_n
    assert (after.running, after.waiting) == (0, 0)
    assert after.steps_total is not None
    assert before.steps_total is not None
    assert after.steps_total > before.steps_total
    assert after.settings["slots"] == 3
    # 500 tokens a slot were asked for; llama.cpp pads to 512.
    assert after.settings["context_tokens_per_slot"] == 512
    assert after.settings["context_tokens_total"] == 1536


def test_memory_sums_up_and_knows_weights_and_kv(
    warm: RunningLlamaCpp, real_files: ModelFiles
) -> None:
    use = warm.memory()
    per_token = real_files.shape.kv_bytes_per_token()
    assert use.total == use.weights + use.kv + use.other
    assert use.weights == real_files.shape.tensor_bytes
    assert use.kv > 3 * 80 * per_token
    assert use.kv + use.reserved == 1536 * per_token
    # All of the KV buffer is resident: what is reserved is part of `other` on a CPU.
    assert use.other > use.reserved


def test_a_reset_keeps_the_warm_prefix_and_forgets_the_rest(warm: RunningLlamaCpp) -> None:
    other = "Something quite different. " * 20
    ask(warm, "First?", system=other)
    warm.reset_cache()
    assert warm.warm_source == "restored"
    assert ask(warm, "First?", system=other).cache_n < 10
    warm.reset_cache()
    assert ask(warm, "Nights?").cache_n > 80


def test_a_restart_is_warm_by_restoring_only(
    warm: RunningLlamaCpp, real_files: ModelFiles, workdir: Path
) -> None:
    with LlamaCpp().start(
        real_files, WARM, workdir=workdir, prefixes=[PREFIX], timeout_s=PATIENCE_S
    ) as again:
        assert again.warm_source == "restored"
        assert ask(again, "May I?", id_slot=0).cache_n > 80
        assert again.log_path.stat().st_size > 0


def test_the_stock_engine_has_four_slots_over_one_cache_and_can_forget(
    real_files: ModelFiles, tmp_path: Path
) -> None:
    engine = LlamaCpp()
    with engine.start(
        real_files, engine.stock(), workdir=tmp_path, timeout_s=PATIENCE_S
    ) as running:
        settings = running.state().settings
        assert (settings["slots"], settings["context_tokens_total"]) == (4, 8192)
        other = "Something quite different. " * 20
        ask(running, "First?")
        ask(running, "First?", system=other)
        assert ask(running, "First?").cache_n > 80
        url = running.url
        running.reset_cache()
        assert running.url == url
        assert ask(running, "First?").cache_n < 10


def test_without_prefix_cache_nothing_is_reused(real_files: ModelFiles, tmp_path: Path) -> None:
    config = ServingConfig(slots=1, context_tokens=512, prefix_cache=False)
    with LlamaCpp().start(real_files, config, workdir=tmp_path, timeout_s=PATIENCE_S) as running:
        assert [ask(running, "Same?").cache_n for _ in range(2)] == [0, 0]


def test_quantised_kv_speculation_and_static_batching_answer(
    real_files: ModelFiles, tmp_path: Path
) -> None:
    config = ServingConfig(
        slots=2,
        context_tokens=512,
        kv_type="q8_0",
        flash_attention=True,
        continuous_batching=False,
        batch_tokens=256,
        threads=2,
        prefix_cache=True,
        speculation=Speculation(kind="ngram", n_max=8, n_min=1, n_match=8),
    )
    with LlamaCpp().start(real_files, config, workdir=tmp_path, timeout_s=PATIENCE_S) as running:
        ask(running, "Nights?", max_tokens=24)
        assert running.state().settings["speculation"] is True
        held = sum(s.n_prompt_tokens or 0 for s in get_json(running.url, "/slots", list[Slot]))
        # q8_0: 34 bytes for 32 values.
        assert running.memory().kv == held * round(23_040 * 34 / 64)


def test_a_draft_model_drafts(real_files: ModelFiles, tmp_path: Path) -> None:
    files = replace(real_files, draft_path=real_files.path)
    config = ServingConfig(
        slots=1,
        context_tokens=512,
        speculation=Speculation(kind="draft", n_max=4, draft_weights="source"),
    )
    with LlamaCpp().start(files, config, workdir=tmp_path, timeout_s=PATIENCE_S) as running:
        assert (ask(running, "Nights?", max_tokens=16).draft_n or 0) > 0
        use = running.memory()
        held = sum(s.n_prompt_tokens or 0 for s in get_json(running.url, "/slots", list[Slot]))
        # A second f16 cache for the draft; the one file is mapped twice and resident once.
        assert use.kv == held * 2 * real_files.shape.kv_bytes_per_token()
        assert use.weights > real_files.shape.tensor_bytes


def test_a_killed_engine_is_named_and_stop_leaves_nothing(
    real_files: ModelFiles, tmp_path: Path
) -> None:
    config = ServingConfig(slots=1, context_tokens=512)
    running = LlamaCpp().start(real_files, config, workdir=tmp_path, timeout_s=PATIENCE_S)
    try:
        assert running.failure() is None
        pid = running.pids[0]
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        failed = running.failure()
        assert failed is not None
        assert failed[0] == "crashed"
        assert "killed by SIGKILL" in failed[1]
        with pytest.raises(EngineRequestError):
            running.state()
    finally:
        running.stop()
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("kind", ["cut", "corrupt", "missing"])
def test_a_bad_model_file_is_a_failed_start_with_the_engines_words(
    real_files: ModelFiles, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / f"{kind}.gguf"
    if kind != "missing":
        with real_files.path.open("rb") as source:
            data = source.read(40_000_000)
        path.write_bytes(data if kind == "cut" else b"GARBAGE" + data[7:])
    files = replace(real_files, path=path)
    before = psutil.Process().children()
    with pytest.raises(EngineStartError) as told:
        LlamaCpp().start(files, ServingConfig(), workdir=tmp_path, timeout_s=PATIENCE_S)
    words = {"cut": "not within the file bounds", "corrupt": "magic", "missing": "No such file"}
    assert told.value.outcome == "crashed"
    assert words[kind] in told.value.last_words
    assert words[kind] in str(told.value)
    assert psutil.Process().children() == before


def test_a_cache_that_no_memory_can_hold_is_out_of_memory(
    real_files: ModelFiles, tmp_path: Path
) -> None:
    huge = replace(real_files, shape=replace(real_files.shape, context=20_000_000))
    config = ServingConfig(slots=1, context_tokens=20_000_000)
    with pytest.raises(EngineStartError) as told:
        LlamaCpp().start(huge, config, workdir=tmp_path, timeout_s=PATIENCE_S)
    assert told.value.outcome == "oom"
    assert "bad_alloc" in told.value.last_words or "allocate" in told.value.last_words


PARENT = """
import json, signal, sys
from pathlib import Path
from vivace.core import ServingConfig
from vivace.engines.base import ModelFiles
from vivace.engines.llamacpp import LlamaCpp
from vivace.models.gguf import read_shape
path = Path(sys.argv[1])
files = ModelFiles(path=path, shape=read_shape(path), sha256="x")
running = LlamaCpp().start(files, ServingConfig(), workdir=Path(sys.argv[2]), timeout_s=300)
print(running.pids[0], flush=True)
signal.pause()
"""


def test_a_killed_parent_takes_the_engine_along(real_files: ModelFiles, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(real_files.path), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        engine = int(parent.stdout.readline())
        assert psutil.Process(engine).is_running()
        parent.kill()
        parent.wait()
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(engine).wait(timeout=60)
    assert not psutil.pid_exists(engine)
