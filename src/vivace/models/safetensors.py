"""The shape of a safetensors folder (`config.json` + `*.safetensors`), from headers only.

Format: eight bytes of length, then JSON: name -> {dtype, shape, data_offsets}.
"""

import struct
from collections import Counter
from math import prod
from pathlib import Path

import msgspec

from vivace.errors import ModelError
from vivace.models.shape import ModelShape

# The same bound as the safetensors library has (2024: 100 MB).
_MAX_HEADER_BYTES = 100_000_000


class _Tensor(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


class _Config(msgspec.Struct):
    """The keys of `config.json` that shapes follow from, in the names most families use."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    vocab_size: int
    model_type: str = "unknown"
    intermediate_size: int = 0
    num_key_value_heads: int | None = None
    head_dim: int | None = None
    max_position_embeddings: int = 0


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The safetensors files of a folder, in order."""
    return tuple(sorted(folder.glob("*.safetensors")))


def read_folder_shape(folder: Path) -> ModelShape:
    """The shape of the model in `folder`; raises `ModelError` for what is missing or damaged."""
    config = _read_config(folder / "config.json")
    files = weight_files(folder)
    tensors = [tensor for file in files for tensor in _read_header(file)]
    head_size = config.head_dim or config.hidden_size // max(1, config.num_attention_heads)
    widths: Counter[int] = Counter()
    type_bytes: Counter[str] = Counter()
    for tensor in tensors:
        nbytes = tensor.data_offsets[1] - tensor.data_offsets[0]
        type_bytes[tensor.dtype] += nbytes
        if len(tensor.shape) > 1:
            widths[tensor.shape[-1]] += prod(tensor.shape)
    return ModelShape(
        architecture=config.model_type,
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        ffn=config.intermediate_size,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads or config.num_attention_heads,
        key_size=head_size,
        value_size=head_size,
        vocabulary=config.vocab_size,
        context=config.max_position_embeddings,
        weight_type=type_bytes.most_common(1)[0][0],
        parameters=sum(prod(t.shape) for t in tensors),
        tensor_bytes=type_bytes.total(),
        file_bytes=sum(f.stat().st_size for f in files),
        widths=dict(widths),
        name=folder.name,
    )


def _read_config(path: Path) -> _Config:
    try:
        raw = path.read_bytes()
        # Models that also see or hear keep the language part apart.
        text_part = msgspec.json.decode(raw, type=dict[str, msgspec.Raw]).get("text_config", raw)
        return msgspec.json.decode(text_part, type=_Config)
    except msgspec.MsgspecError as error:
        raise ModelError(
            f"cannot read `{path}`: {error}",
            hint="name the folder of a language model in the Hugging Face layout, or a GGUF file",
        ) from error


def _read_header(path: Path) -> list[_Tensor]:
    size = path.stat().st_size
    with path.open("rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= length <= min(size - 8, _MAX_HEADER_BYTES):
            raise _damaged(path, f"its header length is {length:,}, the file has {size:,} bytes")
        raw = file.read(length)
    try:
        entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        entries.pop("__metadata__", None)
        tensors = [msgspec.json.decode(entry, type=_Tensor) for entry in entries.values()]
    except msgspec.MsgspecError as error:
        raise _damaged(path, f"its header is no table of tensors: {error}") from error
    if not tensors:
        raise _damaged(path, "it has no tensors")
    end = 8 + length + max(t.data_offsets[1] for t in tensors)
    if end > size:
        raise _damaged(path, f"its tensors end at byte {end:,}, the file has {size:,}")
    return tensors


def _damaged(path: Path, what: str) -> ModelError:
    return ModelError(f"`{path}` is cut off or damaged: {what}", hint="fetch the file again")
