"""Make the lock files again: `python tools/lock.py` (needs `uv`; see docs/contributing.md).

`requirements.lock` is what `bootstrap.py` installs to run vivace: its dependencies, the build
backend and pip itself, so that nothing outside the file is fetched. `requirements-dev.lock` adds
the tools that check the code. Both hold every supported Python and platform (markers) and hashes.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Build-time packages: `editables` is what hatchling asks for when it installs the source folder
#: in place, `pip` is pinned because models on the package index are fetched with it.
BUILD_EXTRA = ("editables", "pip")
#: In pyproject's dev group, but run by hand only.
NOT_LOCKED = ("mutmut",)
#: Packages without wheels for every platform (read 2026-11-30): left out elsewhere, where pip
#: would compile them with build tools that no lock names.
WHEELS_ONLY_ON = {
    "libgguf": "python_version < '3.14' and (sys_platform == 'darwin' or platform_machine == 'x86_64')"
}
UV = (
    "uv", "pip", "compile", "-", "--universal", "--generate-hashes", "--no-emit-index-url",
    "--no-annotate", "--no-header", "--python-version", "3.11", "--quiet", "--upgrade",
)  # fmt: skip
HEADER = "# Made by `python tools/lock.py` from pyproject.toml. Do not edit.\n"


def compile_lock(name: str, requirements: list[str], *, constraint: str = "") -> None:
    """Write one lock file; `constraint` is a lock whose versions this one must share."""
    command = [*UV, *(["-c", constraint] if constraint else [])]
    done = subprocess.run(
        command,
        input="\n".join(requirements),
        text=True,
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{name}: uv failed:\n{done.stderr}")
    (ROOT / name).write_text(HEADER + done.stdout)
    sys.stderr.write(f"{name}: written\n")


def with_marker(requirement: str) -> str:
    """Limit a requirement to the platforms it has wheels for."""
    name = re.split(r"[<>=!~ ;\[]", requirement)[0]
    marker = WHEELS_ONLY_ON.get(name)
    return f"{requirement} ; {marker}" if marker and ";" not in requirement else requirement


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    run = [*project["project"]["dependencies"], *project["build-system"]["requires"], *BUILD_EXTRA]
    dev = [d for d in project["dependency-groups"]["dev"] if not d.startswith(NOT_LOCKED)]
    compile_lock("requirements.lock", [with_marker(r) for r in run])
    compile_lock("requirements-dev.lock", dev, constraint="requirements.lock")


if __name__ == "__main__":
    main()
