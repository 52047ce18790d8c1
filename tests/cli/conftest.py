"""A tiny model and a program that answers as `llama-server` does, in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from models.conftest import write_gguf

QUICK = Path(__file__).with_name("quick.py")


@dataclass(frozen=True)
class Place:
    """Where one test works: model, server program, home and study folder."""

    folder: Path

    @property
    def model(self) -> Path:
        return self.folder / "tiny.gguf"

    @property
    def server(self) -> Path:
        return self.folder / "llama-server"

    @property
    def out(self) -> Path:
        return self.folder / "study"

    def tune(self, *more: str) -> list[str]:
        """`vivace tune` of the tiny model on the stand-in, with a short budget."""
        return [
            sys.executable, str(QUICK), "tune", str(self.model), "--llama-server",
            str(self.server), "--out", str(self.out), "--yes", "--offline", *more,
        ]  # fmt: skip

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "VIVACE_HOME": str(self.folder / "home"), "NO_COLOR": "1", **more}

    def run(self, arguments: Sequence[str], **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            arguments, env=self.environment(**more), cwd=self.folder, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip

    def engines(self) -> list[psutil.Process]:
        """Every living process of this test's server program."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter(["cmdline", "status"]):
            words = process.info["cmdline"] or ()
            alive = process.info["status"] != psutil.STATUS_ZOMBIE
            if str(self.server) in words and "tune" not in words and alive:
                found.append(process)
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    here = Place(tmp_path)
    write_gguf(here.model, numbers={"llama.context_length": 8192})
    source = Path(__file__).with_name("llama_server.py").read_text()
    here.server.write_text(f"#!{sys.executable}\n{source}")
    here.server.chmod(0o755)
    yield here
    left = here.engines()
    for process in left:
        process.kill()
    assert not left, "an engine was left behind"


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Wait for something that another process does."""
    import time

    def wait(condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < end, "it did not come"
            time.sleep(0.02)

    return wait
