#!/usr/bin/env python3
"""Set vivace up in an environment of its own, then run it. Needs Python and nothing else.

python3 bootstrap.py VERB [ARGS]   install what is missing, then `vivace VERB ARGS`
python3 bootstrap.py test [ARGS]   install the developers' tools too, then pytest
python3 bootstrap.py env           the same installation; print the environment's Python

The environment is `.venv` beside this file, or VIVACE_VENV. Packages come from the lock files,
by hash, through pip with your own settings for index and proxy. A second run installs nothing.
"""
# This file must parse on Python 3.8, so that an old Python can say what is wrong.

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OLDEST, NEWEST = (3, 11), (3, 13)
RUN_LOCK, DEV_LOCK = "requirements.lock", "requirements-dev.lock"
#: Marks an environment made here, so that only such a one is ever deleted.
MADE_HERE = ".vivace-env"
#: The user's pip settings hold, except those that cannot work inside an environment.
PIP_ENV = {"PIP_USER": "0", "PIP_REQUIRE_HASHES": "0", "PIP_NO_INPUT": "1"}


class SetupError(Exception):
    """Something a person has to put right; told without a traceback."""

    def __init__(self, message, hint):
        super().__init__(message)
        self.hint = hint


def say(text):
    """Progress goes to stderr: stdout belongs to the verb."""
    sys.stderr.write("vivace: " + text + "\n")
    sys.stderr.flush()


def succeeds(*command):
    """Whether a command exists and exits with 0; its output is dropped."""
    try:
        done = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return False
    return done.returncode == 0


def run(command, what, hint):
    """Run a command quietly; `SetupError` with the end of its output when it fails."""
    done = subprocess.run(
        command,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=dict(os.environ, **PIP_ENV),
    )
    if done.returncode:
        last = "\n".join("  " + line for line in done.stdout.splitlines()[-8:])
        raise SetupError(f"{what} failed:\n{last}", hint)


# --- a Python that is new enough ---------------------------------------------------------------


def is_version(python, minor):
    """Whether `python` really runs as 3.`minor`: a name on PATH may be an empty shim."""
    return succeeds(python, "-c", f"import sys; sys.exit(sys.version_info[:2] != (3, {minor}))")


def newer_python():
    """Path of a supported Python on PATH, the newest first; None when there is none."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        if found and is_version(found, minor):
            return found
    return None


def use_supported_python(argv, version):
    """Go on in a supported Python; returns when this one is, or is newer and the only one."""
    if OLDEST <= version <= NEWEST:
        return
    found = newer_python()
    if found:
        os.execv(found, [found, str(Path(__file__).resolve()), *argv])
    if version < OLDEST:
        raise SetupError(
            "Python 3.11, 3.12 or 3.13 is needed, this is {}.{}".format(*version),
            "install one (Debian, Ubuntu: `apt-get install python3.11`; macOS: `brew install python@3.13`) and run the same command again",
        )
    say("note: Python {}.{} is newer than any vivace was tried with".format(*version))


# --- the environment ---------------------------------------------------------------------------


def env_python(env):
    return env / "bin" / "python"


def usable(env):
    """Whether the environment runs a supported Python and has pip."""
    check = f"import sys; sys.exit(sys.version_info[:2] < {OLDEST})"
    python = str(env_python(env))
    return succeeds(python, "-c", check) and succeeds(python, "-I", "-m", "pip", "--version")


def ensure_env(env):
    """Make the environment unless a usable one is there."""
    if usable(env):
        return
    if env.exists() and not (env / MADE_HERE).exists() and any(env.iterdir()):
        raise SetupError(
            f"`{env}` exists and is no usable Python environment",
            "delete it, or name another folder in VIVACE_VENV",
        )
    say(f"making the environment `{env}`")
    shutil.rmtree(str(env), ignore_errors=True)
    env.mkdir(parents=True)
    (env / MADE_HERE).touch()
    make_env(env)


def make_env(env):
    """Fill the folder by the first way that this machine offers; Debian has Python without `venv`."""
    me, virtualenv = sys.executable, shutil.which("virtualenv")
    hint = f"run `{me} -m venv {env}` by hand to see more"
    if not has_venv() and not succeeds(me, "-m", "pip", "--version") and not virtualenv:
        install_venv_package()
    if has_venv():
        run([me, "-m", "venv", str(env)], "making the environment", hint)
    elif succeeds(me, "-m", "pip", "--version"):
        run([me, "-m", "venv", "--without-pip", str(env)], "making the environment", hint)
        install_pip(env)
    else:
        run([virtualenv, "-p", me, str(env)], "virtualenv", "install the package `python3-venv`")


def has_venv():
    """Asked in a process of its own: a package that was just installed counts."""
    return succeeds(sys.executable, "-c", "import venv, ensurepip")


def install_pip(env):
    """Put the locked pip into an environment that has none, with the pip of this Python."""
    text = (ROOT / RUN_LOCK).read_text(encoding="utf-8")
    block = "\n".join(re.findall(r"^pip==.*(?:\\\n.*)+", text, re.MULTILINE))
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder) / "pip.lock"
        lock.write_text(block + "\n", encoding="utf-8")
        pip = [sys.executable, "-m", "pip", "--python", str(env_python(env)), "install"]
        run(
            [*pip, "--require-hashes", "-r", str(lock)],
            "installing pip",
            "install the package `python3-venv`",
        )


def install_venv_package():
    """Debian and Ubuntu keep `ensurepip` in a package of its own."""
    apt_install(
        f"python3.{sys.version_info[1]}-venv",
        "this Python can make no environment: `ensurepip`, pip and virtualenv are all missing",
    )


def ensure_openmp():
    """The llama.cpp wheel needs the OpenMP library of the system; bare Linux machines have none."""
    load = "import ctypes; ctypes.CDLL('libgomp.so.1')"
    if sys.platform == "linux" and not succeeds(sys.executable, "-c", load):
        apt_install("libgomp1", "the library `libgomp.so.1` is missing, llama.cpp needs it")


def apt_install(package, problem):
    """Install a system package as root, or with sudo where somebody can answer it; else say how."""
    by_hand = SetupError(
        problem,
        f"run `apt-get update && apt-get install -y {package}` as root, then this command again",
    )
    root = os.geteuid() == 0
    asked = sys.stdin is not None and sys.stdin.isatty()
    sudo = shutil.which("sudo") and (asked or os.environ.get("CI"))
    if not shutil.which("apt-get") or not (root or sudo):
        raise by_hand
    prefix = [] if root else ["sudo"] if asked else ["sudo", "-n"]
    say(f"installing `{package}` with apt-get")
    apt = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    try:
        # Output goes to stderr, and stdin stays as it is: sudo may ask for a password.
        for step in (["update"], ["install", "-y", "--no-install-recommends", package]):
            subprocess.run([*apt, *step], check=True, stdout=sys.stderr.fileno())
    except subprocess.CalledProcessError as error:
        raise by_hand from error


# --- what is in it -----------------------------------------------------------------------------


def digest(python, *names):
    """Changes with a lock, with pyproject.toml, with the Python and with the place of the source."""
    sha = hashlib.sha256(f"{ROOT}\n{python}\n".encode())
    for name in ("pyproject.toml", *names):
        sha.update((ROOT / name).read_bytes())
    return sha.hexdigest()


def install(env, *, dev):
    """Install from the locks what the stamps say is missing. A stamp is written last."""
    python = str(env_python(env))
    version = subprocess.check_output(
        [python, "-c", "import sys; print(sys.version)"], universal_newlines=True
    )
    for lock in (RUN_LOCK, DEV_LOCK) if dev else (RUN_LOCK,):
        stamp, now = env / (".vivace-" + lock), digest(version, RUN_LOCK, lock)
        if stamp.exists() and stamp.read_text(encoding="utf-8") == now:
            continue
        if stamp.exists():
            stamp.unlink()
        count = len(re.findall(r"^\S+==", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE))
        say(f"installing {count} packages from `{lock}`, this takes a minute or two")
        pip = [
            python,
            "-I",
            "-m",
            "pip",
            "--disable-pip-version-check",
            "install",
            "--progress-bar",
            "off",
        ]
        hint = "check the network and pip's settings (`pip config list`), then run the same command again"
        # Wheels only: a source package would fetch its build tools past the lock.
        run(
            [*pip, "--only-binary", ":all:", "--require-hashes", "-r", str(ROOT / lock)],
            "pip",
            hint,
        )
        if lock == RUN_LOCK:
            source = ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]
            run(
                [*pip, *source],
                "installing vivace",
                f"delete `{env}` and run the same command again",
            )
        stamp.write_text(now, encoding="utf-8")


def set_up(env, *, dev):
    """Environment and packages, one process at a time."""
    import fcntl  # not on Windows

    env.parent.mkdir(parents=True, exist_ok=True)
    # The lock is on the folder itself, so no file is left; it ends with this process.
    folder = os.open(str(env.parent), os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run that is setting up")
            fcntl.flock(folder, fcntl.LOCK_EX)
        ensure_openmp()
        ensure_env(env)
        install(env, dev=dev)
    finally:
        os.close(folder)


def start(argv):
    """Set up, then become the program that was asked for."""
    if os.name == "nt":
        raise SetupError(
            "vivace needs Linux or macOS", "on Windows, run it inside WSL2: `wsl --install`"
        )
    use_supported_python(argv, sys.version_info[:2])
    if not argv or argv[0] in ("-h", "--help"):
        (sys.stdout if argv else sys.stderr).write(__doc__ or "")
        return 0 if argv else 2
    env = Path(os.environ.get("VIVACE_VENV") or ROOT / ".venv").expanduser().absolute()
    try:
        set_up(env, dev=argv[0] in ("test", "env"))
    except OSError as error:
        raise SetupError(
            f"cannot set up `{env}`: {error}", "check space and permissions"
        ) from error
    python = str(env_python(env))
    if argv[0] == "env":
        sys.stdout.write(python + "\n")
        return 0
    if argv[0] == "test":
        os.chdir(str(ROOT))
        os.execv(python, [python, "-m", "pytest", *argv[1:]])
    vivace = str(env / "bin" / "vivace")
    os.execv(vivace, [vivace, *argv])


def main():
    try:
        return start(sys.argv[1:])
    except SetupError as error:
        sys.stderr.write(f"error: {error}\nhint: {error.hint}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("\nerror: interrupted\nhint: run the same command again to go on\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
