"""A model that lies on this disk: a GGUF file, or a folder with one model in it."""

import re
from pathlib import Path

from vivace.errors import ModelError
from vivace.models import known
from vivace.models.files import sha256_of
from vivace.models.gguf import parts_of, read_shape
from vivace.models.model import Model
from vivace.models.safetensors import read_folder_shape, weight_files
from vivace.models.shape import ModelShape

FORMS = (
    "a path to a `.gguf` file or to a model's folder, a hub id `org/name` or "
    "`org/name:file.gguf`, `modelscope:org/name`, or `pypi:NAME==VERSION`"
)
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$")


def local(path: Path) -> Model:
    """The model in a GGUF file, or in a folder with one GGUF or with safetensors."""
    if path.is_dir():
        ggufs = _ggufs(path)
        if len(ggufs) > 1:
            raise ModelError(
                f"`{path}` holds {len(ggufs)} models: {', '.join(p.name for p in ggufs)}",
                hint="name one of the files",
            )
        if not ggufs:
            return _safetensors(path)
        path = ggufs[0]
    shape = read_shape(path)
    sha256 = sha256_of(parts_of(path))
    _refuse_damaged(path, shape, sha256)
    return Model(
        name=shape.name or path.stem,
        path=path.absolute(),
        shape=shape,
        sha256=sha256,
        source=str(path),
        licence=shape.licence,
    )


def first_parts(names: list[str]) -> list[str]:
    """The GGUF names that stand for a model: a split one once, image projectors never."""
    return [
        n for n in names if n.endswith(".gguf") and not _LATER_PART.search(n) and "mmproj" not in n
    ]


def _ggufs(folder: Path) -> list[Path]:
    files = sorted(folder.glob("*.gguf"))
    names = first_parts([f.name for f in files])
    return [f for f in files if f.name in names]


def _safetensors(folder: Path) -> Model:
    files = weight_files(folder)
    if not files or not (folder / "config.json").is_file():
        raise ModelError(
            f"there is no model in `{folder}`: looked for one `*.gguf`, "
            "or `config.json` with `*.safetensors`",
            hint=f"name {FORMS}",
        )
    shape = read_folder_shape(folder)
    return Model(
        name=folder.resolve().name,
        path=folder.absolute(),
        shape=shape,
        sha256=sha256_of(files),
        source=str(folder),
        licence="",
    )


def _refuse_damaged(path: Path, shape: ModelShape, sha256: str) -> None:
    """A file with the name and the exact size of a published one must also have its bytes."""
    published = known.by_look(title=shape.name, file_bytes=shape.file_bytes)
    if published is not None and sha256 != published.sha256:
        raise ModelError(
            f"`{path}` is a damaged copy of {published.name}: its hash is {sha256[:16]}..., "
            f"the published file has {published.sha256[:16]}...",
            hint=f"fetch it again: `{published.spec}`",
        )
