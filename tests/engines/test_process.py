"""A child process: how it starts, how it dies, and that it never outlives its parent."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from vivace.engines.lifeline import supervise
from vivace.engines.process import EngineProcess, exit_text, new_log
from vivace.errors import EngineStartError

FOREVER = "import signal; print('up', flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"
LIFELINE = (sys.executable, "-m", "vivace.engines.lifeline")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return new_log(tmp_path, "engine")


@pytest.fixture
def forever(log: Path) -> Iterator[EngineProcess]:
    process = EngineProcess(python(FOREVER), name="engine", log_path=log)
    yield process
    process.stop()


def up(process: EngineProcess) -> str | None:
    return "ready" if "up" in process.log_head() else None


def wait_gone(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait(timeout=30)


def test_the_first_result_is_what_waiting_gives(forever: EngineProcess) -> None:
    assert forever.wait_until(lambda: up(forever), timeout_s=30) == "ready"
    assert forever.failure() is None


def test_it_leads_a_session_of_its_own(forever: EngineProcess) -> None:
    assert os.getsid(forever.pid) == forever.pid


def test_stopping_twice_leaves_no_process(forever: EngineProcess) -> None:
    forever.wait_until(lambda: up(forever), timeout_s=30)
    forever.stop()
    forever.stop()
    assert not psutil.pid_exists(forever.pid)
    assert forever.failure() is None


def test_a_process_that_ignores_sigterm_is_killed(log: Path) -> None:
    process = EngineProcess(python(STUBBORN), name="engine", log_path=log, grace_s=0.01)
    process.wait_until(lambda: up(process), timeout_s=30)
    process.stop()
    assert not psutil.pid_exists(process.pid)


def test_a_death_before_readiness_has_the_engines_words(log: Path) -> None:
    process = EngineProcess(
        python("import sys; sys.exit('error: the tensor is cut off')"), name="engine", log_path=log
    )
    with pytest.raises(EngineStartError, match="the tensor is cut off") as told:
        process.wait_until(lambda: None, timeout_s=30)
    assert told.value.outcome == "crashed"
    assert told.value.last_words == "error: the tensor is cut off\nexit code 1"
    assert str(log) in told.value.hint


def test_a_death_for_memory_is_out_of_memory(log: Path) -> None:
    code = "import sys; sys.exit('0.1 E ggml: failed to allocate buffer of size 4608')"
    process = EngineProcess(python(code), name="engine", log_path=log)
    with pytest.raises(EngineStartError) as told:
        process.wait_until(lambda: None, timeout_s=30)
    assert told.value.outcome == "oom"


def test_a_kill_by_the_kernel_for_memory_is_out_of_memory(
    forever: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    forever.wait_until(lambda: up(forever), timeout_s=30)
    monkeypatch.setattr("vivace.engines.process._oom_kills", lambda: 10**9)
    os.kill(forever.pid, signal.SIGKILL)
    os.waitid(os.P_PID, forever.pid, os.WEXITED | os.WNOWAIT)
    assert forever.failure() == ("oom", "up\nkilled by SIGKILL")


def test_a_kill_by_somebody_is_a_crash(
    forever: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    forever.wait_until(lambda: up(forever), timeout_s=30)
    monkeypatch.setattr("vivace.engines.process._oom_kills", lambda: 0)
    os.kill(forever.pid, signal.SIGKILL)
    os.waitid(os.P_PID, forever.pid, os.WEXITED | os.WNOWAIT)
    assert forever.failure() == ("crashed", "up\nkilled by SIGKILL")


def test_a_process_that_is_never_ready_times_out_and_is_ended(forever: EngineProcess) -> None:
    with pytest.raises(EngineStartError, match=r"not ready after 0\.05 s") as told:
        forever.wait_until(lambda: None, timeout_s=0.05)
    assert told.value.outcome == "timeout"
    assert not psutil.pid_exists(forever.pid)


def test_a_command_that_is_not_there_is_a_start_error(log: Path) -> None:
    with pytest.raises(EngineStartError, match="cannot be started") as told:
        EngineProcess(["/no/such/program"], name="engine", log_path=log)
    assert told.value.outcome == "crashed"


def test_every_start_has_a_log_of_its_own(tmp_path: Path) -> None:
    assert [new_log(tmp_path / "logs", "x").name for _ in range(2)] == ["x-001.log", "x-002.log"]


def test_exit_codes_are_told_in_words() -> None:
    assert exit_text(3) == "exit code 3"
    assert exit_text(-9) == "killed by SIGKILL"
    assert exit_text(-99) == "killed by signal 99"


PARENT = """
import signal, sys, threading
from pathlib import Path
from vivace.engines.process import EngineProcess
def start():
    global process
    process = EngineProcess(sys.argv[2:], name="engine", log_path=Path(sys.argv[1]))
    process.wait_until(lambda: "up" in process.log_head() or None, timeout_s=30)
if {threaded}:
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
else:
    start()
print(process.pid, flush=True)
{end}
"""


@pytest.mark.parametrize("threaded", [False, True])
def test_a_child_dies_with_a_parent_that_is_killed(log: Path, threaded: bool) -> None:
    code = PARENT.format(threaded=threaded, end="signal.pause()")
    command = [*python(code), str(log), *LIFELINE, *python(FOREVER)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        # It has outlived the thread that started it, where that has ended.
        assert psutil.Process(child).is_running()
        parent.kill()
        parent.wait()
    wait_gone(child)
    assert not psutil.pid_exists(child)


def test_a_child_dies_with_a_parent_that_forgets_it(log: Path) -> None:
    command = [
        *python(PARENT.format(threaded=False, end="")),
        *(str(log), *LIFELINE, *python(FOREVER)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    child = int(done.stdout)
    wait_gone(child)
    assert not psutil.pid_exists(child)


SUPERVISOR = """
import sys
from vivace.engines.lifeline import supervise
sys.exit(supervise(sys.argv[1:]))
"""


def test_a_supervised_program_dies_when_stdin_closes() -> None:
    report = f"import os; print(os.getpid(), flush=True); {FOREVER}"
    command = [*python(SUPERVISOR), *python(report)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as guard:
        assert guard.stdout is not None
        assert guard.stdin is not None
        child = int(guard.stdout.readline())
        guard.stdin.close()
        assert guard.wait(timeout=30) == 128 + signal.SIGKILL
    wait_gone(child)
    assert not psutil.pid_exists(child)


def test_a_supervised_program_passes_its_exit_code_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr("vivace.engines.lifeline._STDIN", reading)
    assert supervise(python("import sys; sys.exit(5)")) == 5
    os.close(writing)
