"""Choosing a GGUF among the files of a remote repository."""

from collections.abc import Sequence
from dataclasses import dataclass

from vivace.errors import ModelError
from vivace.models.files import Say, human
from vivace.models.gguf import part_names
from vivace.models.local import first_parts

#: What is taken from a repository with many types: close to the original first, then small.
PREFERRED = ("Q8_0", "Q4_K_M", "F16", "BF16")


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteFile:
    """One file of a repository; `bytes` and `sha256` are `None` where it does not say."""

    name: str
    bytes: int | None = None
    sha256: str | None = None


def choose(
    files: Sequence[RemoteFile], wanted: str, *, where: str, say: Say
) -> tuple[RemoteFile, ...]:
    """The parts of the file `wanted`, or of the only or the preferred GGUF when it is empty.

    Raises `ModelError` that lists what there is.
    """
    by_name = {file.name: file for file in files}
    ggufs = first_parts(sorted(by_name))
    if wanted:
        chosen = wanted
    elif len(ggufs) == 1:
        chosen = ggufs[0]
    else:
        chosen = _preferred(ggufs, by_name, where=where)
        say(f"`{where}` holds {len(ggufs)} GGUF files; taking `{chosen}`")
    missing = [name for name in part_names(chosen) if name not in by_name]
    if missing or not chosen.endswith(".gguf"):
        raise ModelError(
            f"`{where}` has no GGUF file `{(missing or [chosen])[0]}`",
            hint=f"it has: {', '.join(ggufs) or 'no GGUF file'}",
        )
    return tuple(by_name[name] for name in part_names(chosen))


def total_bytes(files: Sequence[RemoteFile]) -> int | None:
    """Their size together, `None` when one is not known."""
    sizes = [file.bytes for file in files if file.bytes is not None]
    return sum(sizes) if len(sizes) == len(files) else None


def announcement(name: str, size: int | None, *, source: str, licence: str) -> str:
    """The one line before a large download."""
    size_text = human(size) if size is not None else "not known before the download"
    return (
        f"download: {name}, size: {size_text}, source: {source}, licence: {licence or 'not stated'}"
    )


def _preferred(ggufs: Sequence[str], by_name: dict[str, RemoteFile], *, where: str) -> str:
    if not ggufs:
        kind = "safetensors" if any(n.endswith(".safetensors") for n in by_name) else "other files"
        raise ModelError(
            f"`{where}` holds no GGUF file, only {kind}, and llama.cpp serves GGUF files only",
            hint="name a repository that has one; their names often end in `-GGUF`",
        )
    for kind in PREFERRED:
        for name in ggufs:
            if kind.lower() in name.lower():
                return name
    raise ModelError(
        f"`{where}` holds {len(ggufs)} GGUF files: {', '.join(ggufs)}",
        hint=f"name one: `{where}:{ggufs[0]}`",
    )
