"""`bootstrap.py` with stand-ins for Python and pip: nothing is downloaded, nothing installed."""

import ast
import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "bootstrap.py"
LOCKS = ("requirements.lock", "requirements-dev.lock")

#: A Python of an environment: notes what it is asked to do and installs nothing.
FAKE_PYTHON = """#!/bin/sh
case "$*" in
  *"print(sys.version)"*) echo 3.11.99 ;;
  *" install "*) echo "$*" >> "{log}"; [ ! -e "{broken}" ] || {{ echo "no network"; exit 1; }} ;;
  *"-m pytest"*) echo "pytest: $*" ;;
esac
"""


@pytest.fixture
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


class Tree:
    """A copy of the repository's frame with an environment in which nothing is real."""

    def __init__(self, root: Path) -> None:
        self.root = root / "tree"
        self.env = root / "env"
        self.log = root / "installed"
        self.broken = root / "broken"
        self.root.mkdir()
        for name in ("bootstrap.py", "pyproject.toml", *LOCKS):
            shutil.copy(ROOT / name, self.root / name)
        (self.env / "bin").mkdir(parents=True)
        executable(
            self.env / "bin" / "python", FAKE_PYTHON.format(log=self.log, broken=self.broken)
        )
        executable(self.env / "bin" / "vivace", '#!/bin/sh\necho "vivace: $*"\n')

    def command(self, *args: str) -> list[str]:
        return [sys.executable, str(self.root / "bootstrap.py"), *args]

    @property
    def environ(self) -> dict[str, str]:
        return {**os.environ, "VIVACE_VENV": str(self.env)}

    def run(self, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*args),
            check=False,
            env=self.environ,
            cwd=cwd,
            text=True,
            capture_output=True,
        )

    def installs(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_it_parses_on_an_old_python_and_imports_only_the_standard_library() -> None:
    parsed = ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 8))
    names = {a.name for n in ast.walk(parsed) if isinstance(n, ast.Import) for a in n.names}
    names |= {str(n.module) for n in ast.walk(parsed) if isinstance(n, ast.ImportFrom)}
    assert "subprocess" in names
    assert {n.split(".")[0] for n in names} <= set(sys.stdlib_module_names)


def test_a_verb_installs_by_hash_and_runs_vivace_where_the_user_stands(
    tree: Tree, tmp_path: Path
) -> None:
    executable(tree.env / "bin" / "vivace", '#!/bin/sh\necho "$PWD: $*"\nexit 3\n')
    done = tree.run("tune", "--budget", "3m", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, f"{tmp_path}: tune --budget 3m\n")
    packages, vivace = tree.installs()
    assert "--require-hashes" in packages and packages.endswith("/requirements.lock")
    assert "--no-deps --no-build-isolation" in vivace and vivace.endswith(f"-e {tree.root}")


def test_a_second_run_installs_nothing(tree: Tree) -> None:
    tree.run("tune")
    first = tree.installs()
    second = tree.run("tune")
    assert second.stderr == ""
    assert tree.installs() == first


@pytest.mark.parametrize("changed", ["pyproject.toml", "requirements.lock"])
def test_a_changed_file_installs_again(tree: Tree, changed: str) -> None:
    tree.run("tune")
    path = tree.root / changed
    path.write_text(path.read_text() + "\n# changed\n")
    tree.run("tune")
    assert len(tree.installs()) == 4


def test_another_python_in_the_environment_installs_again(tree: Tree) -> None:
    tree.run("tune")
    python = tree.env / "bin" / "python"
    python.write_text(python.read_text().replace("3.11.99", "3.12.99"))
    tree.run("tune")
    assert len(tree.installs()) == 4


def test_a_failed_install_is_told_with_a_hint_and_is_not_taken_for_finished(tree: Tree) -> None:
    tree.broken.touch()
    failed = tree.run("tune")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "no network" in failed.stderr and "hint: check the network" in failed.stderr
    assert "Traceback" not in failed.stderr
    tree.broken.unlink()
    assert tree.run("tune").returncode == 0
    assert len(tree.installs()) == 1 + 2


def test_the_test_verb_installs_the_tools_and_passes_its_arguments_to_pytest(tree: Tree) -> None:
    done = tree.run("test", "-k", "layers")
    assert done.stdout == "pytest: -m pytest -k layers\n"
    assert [i.rsplit("/", 1)[1] for i in tree.installs()] == [LOCKS[0], "tree", LOCKS[1]]


def test_the_env_verb_prints_the_python_alone_on_stdout(tree: Tree) -> None:
    assert tree.run("env").stdout == f"{tree.env}/bin/python\n"


def test_a_second_process_waits_for_the_first(tree: Tree) -> None:
    folder = os.open(tree.env.parent, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    with subprocess.Popen(
        tree.command("tune"), env=tree.environ, text=True, stdout=-1, stderr=-1
    ) as waiting:
        assert waiting.stderr is not None
        assert "waiting for another run" in waiting.stderr.readline()
        assert tree.installs() == []
        os.close(folder)
        assert waiting.communicate()[0] == "vivace: tune\n"
    assert len(tree.installs()) == 2


def test_a_folder_that_is_no_environment_is_left_alone(tree: Tree) -> None:
    (tree.env / "bin" / "python").unlink()
    done = tree.run("tune")
    assert done.returncode == 2
    assert "no usable Python environment" in done.stderr and "hint: delete it" in done.stderr
    assert (tree.env / "bin" / "vivace").exists()


def test_an_unfinished_environment_of_its_own_is_made_again(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = tmp_path / "env"
    env.mkdir()
    (env / module.MADE_HERE).touch()
    (env / "half").touch()
    monkeypatch.setattr(module, "make_env", lambda made: (made / "whole").touch())
    module.ensure_env(env)
    assert sorted(p.name for p in env.iterdir()) == [module.MADE_HERE, "whole"]


def test_without_ensurepip_the_locked_pip_is_put_in_by_the_pip_of_this_python(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    locks: list[str] = []

    def run(command: list[str], what: str, hint: str) -> None:
        commands.append(command)
        locks.extend(Path(c).read_text() for c in command if c.endswith(".lock"))

    monkeypatch.setattr(module, "has_venv", lambda: False)
    monkeypatch.setattr(module, "succeeds", lambda *command: True)
    monkeypatch.setattr(module, "run", run)
    module.make_env(tmp_path)
    assert "--without-pip" in commands[0]
    assert {"--python", "--require-hashes"} <= set(commands[1])
    assert re.fullmatch(r"pip==[\d.]+ \\\n(    --hash=sha256:\w{64}( \\)?\n)+", locks[0])


def test_a_machine_that_can_make_no_environment_is_told_the_one_command(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "has_venv", lambda: False)
    monkeypatch.setattr(module, "succeeds", lambda *command: False)
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    with pytest.raises(module.SetupError) as caught:
        module.make_env(tmp_path)
    assert f"apt-get install -y python3.{sys.version_info[1]}-venv" in caught.value.hint


def test_nobody_is_asked_for_a_password_without_a_terminal(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(module.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(module.shutil, "which", lambda name: "/bin/" + name)
    monkeypatch.setattr(module.sys, "stdin", None)
    with pytest.raises(module.SetupError, match=r"llama\.cpp needs it"):
        module.apt_install("libgomp1", "the library is missing, llama.cpp needs it")


def test_root_installs_a_missing_system_library_without_being_asked(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    executable(tmp_path / "apt-get", f'#!/bin/sh\necho "$DEBIAN_FRONTEND $*" >> {log}\n')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(module.os, "geteuid", lambda: 0)
    monkeypatch.setattr(module.sys, "platform", "linux")
    monkeypatch.setattr(module, "say", lambda text: None)
    monkeypatch.setattr(module, "succeeds", lambda *command: False)
    module.ensure_openmp()
    lines = log.read_text().splitlines()
    assert lines[-1] == "noninteractive -qq install -y --no-install-recommends libgomp1"


def test_an_old_python_goes_on_in_the_newest_one_that_really_runs(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable(tmp_path / "python3.13", "#!/bin/sh\nexit 127\n")  # a shim without a Python
    executable(tmp_path / "python3.12", "#!/bin/sh\n")
    executable(tmp_path / "python3.11", "#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    went_on: list[list[str]] = []

    def execv(path: str, argv: list[str]) -> None:
        went_on.append(argv)
        raise SystemExit

    monkeypatch.setattr(module.os, "execv", execv)
    with pytest.raises(SystemExit):
        module.use_supported_python(["tune"], (3, 9))
    assert went_on == [[str(tmp_path / "python3.12"), str(SCRIPT), "tune"]]


def test_an_old_python_alone_is_told_what_to_install(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(module.SetupError, match=r"this is 3\.9") as caught:
        module.use_supported_python([], (3, 9))
    assert "install" in caught.value.hint


def test_windows_is_told_once_to_use_wsl2(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(module.os, "name", "nt")
        patch.setattr(module.sys, "argv", ["bootstrap.py", "tune"])
        code = module.main()
    assert code == 2
    assert capsys.readouterr().err.count("WSL2") == 1


def test_without_a_verb_the_usage_goes_to_stderr(tree: Tree) -> None:
    done = tree.run()
    assert (done.returncode, done.stdout) == (2, "")
    assert "bootstrap.py VERB" in done.stderr


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_every_package_by_hash_and_names_no_index(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
    assert len(blocks) > 10
    for block in blocks:
        assert re.match(r"[\w.-]+==\S+", block), block
        assert "--hash=sha256:" in block, block
    assert "://" not in text and "index-url" not in text


def test_the_locks_hold_what_the_project_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [
        project["project"]["dependencies"] + project["build-system"]["requires"],
        [d for d in project["dependency-groups"]["dev"] if not d.startswith("mutmut")],
    ]
    for name, requirements in zip(LOCKS, asked, strict=True):
        locked = set(re.findall(r"^([\w.-]+)==", (ROOT / name).read_text(), re.MULTILINE))
        assert {re.split(r"[<>=!~ ;\[]", r)[0].lower() for r in requirements} <= locked
