"""Files that are whole or absent: hashing, atomic writing, locks, room on the disk."""

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from vivace.errors import ModelError

Say = Callable[[str], None]
Confirm = Callable[[str], bool]

#: A download above this many bytes is announced and asked for first.
ASK_ABOVE_BYTES = 50_000_000
PART = ".part"


def sha256_of(paths: Sequence[Path]) -> str:
    """The hash of the files' bytes, one after another."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
    return digest.hexdigest()


def human(size_bytes: int) -> str:
    """`98.4 MB`, as file managers and package indexes count."""
    if size_bytes >= 1e9:
        return f"{size_bytes / 1e9:.1f} GB"
    return f"{size_bytes / 1e6:.1f} MB"


def require_room(folder: Path, needed_bytes: int, *, what: str) -> None:
    """Raises `ModelError` when the disk of `folder` has less than `needed_bytes` free."""
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise ModelError(
            f"not enough disk space in `{folder}` for {what}: "
            f"{human(needed_bytes)} needed, {human(free)} free",
            hint="free some space, run `vivace cache clean`, or set `VIVACE_HOME` to a larger disk",
        )


def ask(line: str, size_bytes: int | None, *, say: Say, confirm: Confirm) -> None:
    """Announces a large download and asks for it; raises `ModelError` when it is declined.

    A size that is not known counts as large.
    """
    if size_bytes is not None and size_bytes <= ASK_ABOVE_BYTES:
        return
    say(line)
    if not confirm(line):
        raise ModelError(
            f"the download was declined: {line}", hint="name a model file you already have"
        )


@contextmanager
def locked(home: Path, name: str, *, say: Say) -> Generator[None]:
    """One process at a time for `name`. The lock ends with its process, however that ends."""
    path = home / "locks" / f"{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another vivace that works on `{name}`")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def written_whole(path: Path) -> Generator[BinaryIO]:
    """A file to write that appears at `path` only when the block ends without an error.

    The caller holds the lock of the folder. A full or failing disk is a `ModelError`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".{path.name}{PART}")
    try:
        with temp.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temp.replace(path)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise ModelError(f"cannot make `{path}`: {error.strerror or error}") from error
        raise ModelError(
            f"the disk is full: `{path}` could not be written",
            hint="free some space, run `vivace cache clean`, or set `VIVACE_HOME` to a larger disk",
        ) from error
    finally:
        temp.unlink(missing_ok=True)


def remove_stale(folder: Path) -> int:
    """Removes what an interrupted run left; the caller holds the lock. Returns bytes freed."""
    freed = 0
    for path in folder.glob(f".*{PART}"):
        freed += size_of(path)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return freed


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(p.stat().st_size for p in path.rglob("*") if p.is_file())
