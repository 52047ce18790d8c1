"""One engine process: started in a session of its own, watched, and ended by its own id."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from vivace.engines.last_words import last_words, lost_to_memory
from vivace.engines.lifeline import MAIN_THREAD
from vivace.errors import EngineStartError, Outcome
from vivace.hardware import child_environment

T = TypeVar("T")
_TAIL_BYTES = 64 * 1024
_POLL_S = 0.02
_TERM_S = 5.0


class EngineProcess:
    """A running child with its log; its stdin is the pipe whose closing ends it."""

    def __init__(
        self, command: Sequence[str], *, name: str, log_path: Path, grace_s: float = _TERM_S
    ) -> None:
        """Start `command`; raises `EngineStartError` when it cannot be executed.

        `grace_s`: how long `stop()` waits between SIGTERM and SIGKILL.
        """
        self._grace_s = grace_s
        self.name = name
        self.log_path = log_path
        self._oom_kills = _oom_kills()
        self._stopped = False
        self._stopping = threading.Lock()
        environ = child_environment()
        if threading.current_thread() is threading.main_thread():
            environ[MAIN_THREAD] = "1"
        try:
            with log_path.open("wb") as log:
                self._popen = subprocess.Popen(
                    list(command),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environ,
                    start_new_session=True,
                )
        except OSError as error:
            raise EngineStartError(
                f"{name} cannot be started: {error}", outcome="crashed", last_words=str(error)
            ) from error

    @property
    def pid(self) -> int:
        """The process that leads the group."""
        return self._popen.pid

    def log_head(self) -> str:
        """The first part of the log, where an engine says where it listens."""
        with self.log_path.open("rb") as log:
            return log.read(_TAIL_BYTES).decode("utf-8", "replace")

    def last_words(self) -> str:
        """The engine's own error lines from the end of its log."""
        with self.log_path.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return last_words(log.read().decode("utf-8", "replace"))

    def failure(self) -> tuple[Outcome, str] | None:
        """How it died by itself and its last words; `None` while it lives and after `stop()`."""
        if self._stopped:
            return None
        code = self._popen.poll()
        if code is None:
            return None
        words = self.last_words()
        killed_for_memory = code == -signal.SIGKILL and _oom_kills() > self._oom_kills
        outcome: Outcome = "oom" if killed_for_memory or lost_to_memory(words) else "crashed"
        return outcome, "\n".join(filter(None, (words, exit_text(code))))

    def wait_until(self, ready: Callable[[], T | None], *, timeout_s: float) -> T:
        """The first result of `ready` that is not `None`.

        Ends the process and raises `EngineStartError` when it died, or was not ready in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            if (failed := self.failure()) is not None:
                outcome, words = failed
                self.stop()
                raise EngineStartError(
                    f"{self.name} ended before it was ready: {words.partition(chr(10))[0]}",
                    outcome=outcome,
                    last_words=words,
                    hint=f"its log: `{self.log_path}`",
                )
            if (result := ready()) is not None:
                return result
            if time.monotonic() > deadline:
                words = self.last_words()
                self.stop()
                raise EngineStartError(
                    f"{self.name} was not ready after {timeout_s:g} s",
                    outcome="timeout",
                    last_words=words,
                    hint=f"its log: `{self.log_path}`",
                )
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """End the group it leads: SIGTERM, then SIGKILL. Safe to call twice and from any thread."""
        with self._stopping:
            self._stopped = True
            self._signal(signal.SIGTERM)
            try:
                self._popen.wait(self._grace_s)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._popen.wait()
            if self._popen.stdin is not None:
                self._popen.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        # Only while the leader is not reaped: afterwards its id may belong to somebody else.
        if self._popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._popen.pid, number)


def exit_text(code: int) -> str:
    """An exit code in words: `exit code 1`, `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def new_log(workdir: Path, name: str) -> Path:
    """An empty file in `workdir/logs` that no other start uses: `NAME-001.log`, `NAME-002.log` ..."""
    folder = workdir / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = folder / f"{name}-{number:03d}.log"
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return path


def _oom_kills() -> int:
    """How often the kernel killed for memory, machine and cgroup together; only differences count."""
    files = (Path("/proc/vmstat"), Path("/sys/fs/cgroup/memory.events"))
    total = 0
    for file in files:
        with contextlib.suppress(OSError):
            for line in file.read_text(encoding="utf-8").splitlines():
                key, _, value = line.partition(" ")
                total += int(value) if key == "oom_kill" else 0
    return total
