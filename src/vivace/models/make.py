"""Make a GGUF file of another weight type, once, into the cache."""

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from vivace.errors import ConfigError, ModelError
from vivace.models.convert import Bytes, converted
from vivace.models.files import Say, human, locked, remove_stale, require_room, written_whole
from vivace.models.gguf import read_headers
from vivace.models.gguf_header import MAGIC, Header, Tensor
from vivace.models.model import Model, require_gguf
from vivace.models.recipe import RECIPE_VERSION, file_type, recipe
from vivace.models.types import MAIN_TYPE, TYPES

REFERENCE_NOTE = (
    "The 16-bit reference is the source file dequantised: what its own type lost against the "
    "original weights is not part of any loss printed here."
)

# Keys that are true of the source's files only.
_DROPPED_KEYS = ("general.file_type", "split.no", "split.count", "split.tensors.count")


def make_type(model: Model, type_name: str, *, home: Path, say: Say) -> Path:
    """The model's file with weights of `type_name`, made at the first call.

    `source`, or the type the source has, is the source file itself. Memory stays bounded: rows
    are converted some at a time. Raises `ModelError` for a full disk or weights that cannot be
    read, `ConfigError` for an unknown type.
    """
    require_gguf(model)
    if type_name == "source" or model.shape.weight_type in (type_name, MAIN_TYPE.get(type_name)):
        return model.path
    if type_name not in TYPES:
        hint = f"one of {', '.join(TYPES)}, or `source`"
        raise ConfigError(f"unknown weight type `{type_name}`", hint=hint)
    folder = home / "made" / model.sha256[:16]
    made = folder / f"{type_name}-{RECIPE_VERSION}.gguf"
    with locked(home, f"made-{folder.name}", say=say):
        if made.exists():
            made.touch()
            return made
        folder.mkdir(parents=True, exist_ok=True)
        remove_stale(folder)
        headers = read_headers(model.path)
        tensors = [t for header in headers for t in header.tensors]
        kinds = recipe(tensors, type_name, layers=model.shape.layers)
        size = sum(_bytes_of(t, k) for t, k in zip(tensors, kinds, strict=True))
        require_room(folder, size + headers[0].file_bytes // 8, what=f"{model.name} as {type_name}")
        say(f"making {model.name} as {type_name} ({human(size)})")
        with written_whole(made) as file:
            _write(file, headers, kinds, type_name=type_name)
    return made


def _write(
    file: BinaryIO,
    headers: Sequence[Header],
    kinds: Sequence[GGMLQuantizationType],
    *,
    type_name: str,
) -> None:
    tensors = [t for header in headers for t in header.tensors]
    alignment = headers[0].alignment
    keys = _copied_keys(headers[0])
    keys.append(_key("general.file_type", file_type(type_name)))
    if "general.quantization_version" not in headers[0].metadata:
        keys.append(_key("general.quantization_version", 2))
    file.write(MAGIC + struct.pack("<IQQ", 3, len(tensors), len(keys)))
    file.writelines(keys)
    offset = 0
    for tensor, kind in zip(tensors, kinds, strict=True):
        name = tensor.name.encode()
        file.write(struct.pack("<Q", len(name)) + name)
        file.write(struct.pack(f"<I{len(tensor.dims)}Q", len(tensor.dims), *tensor.dims))
        file.write(struct.pack("<IQ", kind, offset))
        offset += _padded(_bytes_of(tensor, kind), alignment)
    _pad(file, alignment)
    kind_of = iter(kinds)
    for header in headers:
        data: Bytes = np.memmap(header.path, dtype=np.uint8, mode="r")
        for tensor in header.tensors:
            raw = data[tensor.start : tensor.start + tensor.nbytes]
            width, new = tensor.dims[0], next(kind_of)
            file.writelines(converted(raw, name=tensor.name, width=width, old=tensor.type, new=new))
            _pad(file, alignment)


def _copied_keys(header: Header) -> list[bytes]:
    """The source's metadata, byte for byte: every array, template and unknown key survives."""
    try:
        with header.path.open("rb") as file:
            copied: list[bytes] = []
            for key, (start, end) in header.spans.items():
                if key not in _DROPPED_KEYS:
                    file.seek(start)
                    copied.append(file.read(end - start))
            return copied
    except OSError as error:
        raise ModelError(f"cannot read `{header.path}`: {error.strerror}") from error


def _key(name: str, value: int) -> bytes:
    """One metadata entry of type UINT32 (4)."""
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack("<II", 4, value)


def _bytes_of(tensor: Tensor, kind: GGMLQuantizationType) -> int:
    block, block_bytes = GGML_QUANT_SIZES[kind]
    return tensor.elements // block * block_bytes


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


def _pad(file: BinaryIO, alignment: int) -> None:
    at = file.tell()
    file.write(bytes(_padded(at, alignment) - at))
