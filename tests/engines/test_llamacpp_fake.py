"""The life of a start, with a stand-in for the `llama-server` program."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from vivace.core import EngineState, Message, ServingConfig
from vivace.engines import llamacpp_running
from vivace.engines.base import ModelFiles
from vivace.engines.llamacpp import LlamaCpp
from vivace.engines.llamacpp_running import RunningLlamaCpp
from vivace.engines.llamacpp_warm import common_prefix, file_name
from vivace.errors import EngineRequestError, EngineStartError

PREFIXES = ((Message(role="system", content="policy "),), (Message(role="system", content="law "),))
WARM = ServingConfig(slots=3, context_tokens=1024, prefix_cache=True, warm_prefix=True)


@pytest.fixture
def engine(binary: Path) -> LlamaCpp:
    return LlamaCpp(binary)


@pytest.fixture
def running(engine: LlamaCpp, files: ModelFiles, tmp_path: Path) -> Iterator[RunningLlamaCpp]:
    with engine.start(files, WARM, workdir=tmp_path, prefixes=PREFIXES) as running:
        yield running


def saved(folder: Path) -> list[Path]:
    return sorted((folder / "slots").iterdir())


def test_the_binary_gets_the_flags_and_says_where_it_listens(running: RunningLlamaCpp) -> None:
    log = running.log_path.read_text(encoding="utf-8")
    assert '"--parallel", "3", "--no-kv-unified", "--ctx-size", "3072"' in log
    assert running.url.startswith("http://127.0.0.1:")
    assert running.engine_args["--parallel"] == 3


def test_slots_are_warmed_with_the_prefixes_in_turn(
    running: RunningLlamaCpp, tmp_path: Path
) -> None:
    # Slots 0 and 2 hold 7 tokens, slot 1 holds 4; only two of them were computed.
    assert running.state().kv_tokens == 7 + 4 + 7
    assert running.state().settings["slots"] == 3
    assert running.warm_source == "computed"
    assert running.warm_s > 0
    assert len(saved(tmp_path)) == 2
    assert {p.suffix for p in saved(tmp_path)} == {".bin"}


def test_a_restart_restores_and_computes_nothing(
    running: RunningLlamaCpp, engine: LlamaCpp, files: ModelFiles, tmp_path: Path
) -> None:
    with engine.start(files, WARM, workdir=tmp_path, prefixes=PREFIXES) as again:
        assert again.warm_source == "restored"
        assert again.state().kv_tokens == 18
        assert again.log_path != running.log_path


def test_a_broken_saved_state_is_computed_again(
    running: RunningLlamaCpp, engine: LlamaCpp, files: ModelFiles, tmp_path: Path
) -> None:
    for path in saved(tmp_path):
        path.write_text("junk", encoding="utf-8")
    with engine.start(files, WARM, workdir=tmp_path, prefixes=PREFIXES) as again:
        assert again.warm_source == "computed"
        assert again.state().kv_tokens == 18


def test_a_saved_state_of_another_prefix_length_is_computed_again(
    running: RunningLlamaCpp, engine: LlamaCpp, files: ModelFiles, tmp_path: Path
) -> None:
    for path in saved(tmp_path):
        path.write_text("[1, 2]", encoding="utf-8")
    with engine.start(files, WARM, workdir=tmp_path, prefixes=PREFIXES) as again:
        assert again.warm_source == "computed"


def test_another_model_or_kv_type_does_not_take_the_saved_state(
    running: RunningLlamaCpp, engine: LlamaCpp, files: ModelFiles, tmp_path: Path
) -> None:
    other = replace(files, sha256="def")
    for changed, config in ((other, WARM), (files, replace(WARM, kv_type="q8_0"))):
        with engine.start(changed, config, workdir=tmp_path, prefixes=PREFIXES) as again:
            assert again.warm_source == "computed"


def test_without_warm_prefix_nothing_is_warmed(
    engine: LlamaCpp, files: ModelFiles, tmp_path: Path
) -> None:
    config = replace(WARM, warm_prefix=False)
    with engine.start(files, config, workdir=tmp_path, prefixes=PREFIXES) as running:
        assert running.warm_source == "none"
        assert running.warm_s == 0
        assert running.state().kv_tokens == 0


def test_resetting_slots_puts_the_prefixes_back(running: RunningLlamaCpp) -> None:
    pid = running.pids[0]
    running.reset_cache()
    assert running.warm_source == "restored"
    assert running.state().kv_tokens == 18
    assert running.pids[0] == pid


def test_resetting_a_cache_in_ram_starts_again_at_the_same_port(
    engine: LlamaCpp, files: ModelFiles, tmp_path: Path
) -> None:
    with engine.start(files, engine.stock(), workdir=tmp_path) as running:
        url, pid, peak = running.url, running.pids[0], running.memory().total
        running.reset_cache()
        assert running.url == url
        assert running.pids[0] != pid
        assert not psutil.pid_exists(pid)
        assert running.memory().total >= peak


def test_memory_is_split_by_the_shape_of_the_model(running: RunningLlamaCpp) -> None:
    use = running.memory()
    assert use.total == use.weights + use.kv + use.other
    assert use.weights == 1_000_000
    assert use.kv == 18 * 23_040
    assert use.reserved == (3 * 1024 - 18) * 23_040


def test_an_engine_is_settled_when_nothing_computes_and_nothing_is_queued(
    engine: LlamaCpp, files: ModelFiles, tmp_path: Path
) -> None:
    files = replace(files, path=tmp_path / "busy.gguf")
    looks: list[tuple[int | None, int | None]] = []
    with engine.start(files, WARM, workdir=tmp_path) as running:
        look = running.state

        def state() -> EngineState:
            found = look()
            looks.append((found.running, found.waiting))
            return found

        running.state = state  # type: ignore[method-assign]
        assert running.settle()
    assert looks == [(1, 0), (1, 0), (1, 0), (0, 1), (0, 0)]


def test_waiting_for_an_engine_that_goes_on_ends(
    engine: LlamaCpp, files: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llamacpp_running, "SETTLE_S", 0.2)
    files = replace(files, path=tmp_path / "endless.gguf")
    with engine.start(files, WARM, workdir=tmp_path) as running:
        assert not running.settle()


@pytest.mark.parametrize(
    ("name", "outcome", "words"),
    [("crash", "crashed", "tensor data is cut off"), ("memory", "oom", "failed to allocate")],
)
def test_a_failed_load_is_named(
    engine: LlamaCpp, files: ModelFiles, tmp_path: Path, name: str, outcome: str, words: str
) -> None:
    files = replace(files, path=tmp_path / f"{name}.gguf")
    with pytest.raises(EngineStartError, match=words) as told:
        engine.start(files, WARM, workdir=tmp_path)
    assert told.value.outcome == outcome
    assert psutil.Process().children() == []


def test_an_engine_that_never_listens_times_out(
    engine: LlamaCpp, files: ModelFiles, tmp_path: Path
) -> None:
    files = replace(files, path=tmp_path / "silent.gguf")
    with pytest.raises(EngineStartError) as told:
        engine.start(files, WARM, workdir=tmp_path, timeout_s=0.5)
    assert told.value.outcome == "timeout"
    assert psutil.Process().children() == []


def test_an_interrupt_while_starting_leaves_no_process(
    engine: LlamaCpp, files: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("vivace.engines.llamacpp_running.warm", interrupt)
    with pytest.raises(KeyboardInterrupt):
        engine.start(files, WARM, workdir=tmp_path, prefixes=PREFIXES)
    assert psutil.Process().children() == []


def test_a_refused_warming_is_a_failed_start(
    engine: LlamaCpp, files: ModelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise EngineRequestError("slot 1 is broken")

    monkeypatch.setattr("vivace.engines.llamacpp_running.warm", refuse)
    with pytest.raises(EngineStartError, match="slot 1 is broken") as told:
        engine.start(files, WARM, workdir=tmp_path, prefixes=PREFIXES)
    assert told.value.outcome == "crashed"
    assert psutil.Process().children() == []


def test_an_unwritable_workdir_is_a_failed_start(engine: LlamaCpp, files: ModelFiles) -> None:
    with pytest.raises(EngineStartError, match="cannot be used"):
        engine.start(files, WARM, workdir=Path("/dev/null/work"))


def test_the_common_beginning_ends_at_the_first_difference() -> None:
    assert common_prefix([1, 2, 3, 4], [1, 2, 9, 4]) == (1, 2)
    assert common_prefix([1, 2], [1, 2, 3]) == (1, 2)
    assert common_prefix([5], [6]) == ()


def test_a_saved_states_name_follows_tokens_and_identity() -> None:
    names = {file_name([1, 2], "a"), file_name([12], "a"), file_name([1, 2], "b")}
    assert len(names) == 3
    assert file_name([1, 2], "a") == file_name((1, 2), "a")
