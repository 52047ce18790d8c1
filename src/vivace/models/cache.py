"""What vivace keeps under its home: fetched wheels' models and made types."""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vivace.models.files import locked, remove_stale, size_of


@dataclass(frozen=True, kw_only=True, slots=True)
class CacheEntry:
    """`used` is the time of the last use, in seconds since the epoch."""

    kind: Literal["model", "made"]
    name: str
    path: Path
    bytes: int
    used: float


def list_cache(home: Path) -> list[CacheEntry]:
    """Everything vivace fetched or made; the hub's own cache is not vivace's and not listed."""
    models = [
        _entry("model", folder.name, folder)
        for folder in sorted((home / "models" / "pypi").glob("*"))
        if folder.is_dir()
    ]
    made = [
        _entry("made", f"{file.parent.name}/{file.stem}", file)
        for file in sorted((home / "made").glob("*/*.gguf"))
    ]
    return models + made


def clean_cache(home: Path, *, older_than_days: float | None = None) -> int:
    """Removes entries not used for that long, or all; returns the bytes freed.

    Also removes what interrupted runs left. Never touches anything it did not list.
    """
    limit = None if older_than_days is None else time.time() - older_than_days * 86_400
    freed = 0
    for entry in list_cache(home):
        folder = entry.path if entry.kind == "model" else entry.path.parent
        lock = f"pypi-{folder.name}" if entry.kind == "model" else f"made-{folder.name}"
        with locked(home, lock, say=_quiet):
            freed += remove_stale(folder)
            if limit is None or entry.used < limit:
                freed += size_of(entry.path)
                _remove(entry.path)
    return freed


def _entry(kind: Literal["model", "made"], name: str, path: Path) -> CacheEntry:
    files = [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
    used = max((p.stat().st_mtime for p in files), default=path.stat().st_mtime)
    return CacheEntry(kind=kind, name=name, path=path, bytes=size_of(path), used=used)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
        return
    path.unlink(missing_ok=True)
    if not any(path.parent.iterdir()):
        path.parent.rmdir()


def _quiet(_: str) -> None:
    pass
