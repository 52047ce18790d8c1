"""The shape of a GGUF model, from one file or from all parts of a split one."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from vivace.errors import ModelError
from vivace.models.gguf_header import Header, Tensor, Value, read_header
from vivace.models.shape import ModelShape

_PART = re.compile(r"^(?P<stem>.+)-(?P<index>\d{5})-of-(?P<count>\d{5})\.gguf$")
_EMBEDDING = "token_embd.weight"
_OTHER = "name the GGUF of a language model; adapters, projectors and vocabularies are no models"


def part_names(name: str) -> tuple[str, ...]:
    """The names of all parts of a split model that `name` belongs to; of a whole one, its own."""
    match = _PART.match(name)
    if match is None:
        return (name,)
    count = int(match["count"])
    return tuple(f"{match['stem']}-{i:05d}-of-{count:05d}.gguf" for i in range(1, count + 1))


def parts_of(path: Path) -> tuple[Path, ...]:
    """All files of the model that `path` begins, in order.

    Raises `ModelError` when `path` is a later part or a part is missing.
    """
    names = part_names(path.name)
    if path.name != names[0]:
        raise ModelError(
            f"`{path}` is a later part of a model in {len(names)} parts",
            hint=f"name the first part, `{names[0]}`",
        )
    missing = [name for name in names[1:] if not path.with_name(name).is_file()]
    if missing:
        raise ModelError(
            f"`{path}` is one of {len(names)} parts and {len(missing)} of them are missing: "
            f"{', '.join(missing[:3])}",
            hint=f"put all parts into `{path.parent}`",
        )
    return tuple(path.with_name(name) for name in names)


def read_headers(path: Path) -> tuple[Header, ...]:
    """The headers of all parts; the first one has the metadata."""
    headers = tuple(read_header(part) for part in parts_of(path))
    told = headers[0].metadata.get("split.count", 1)
    if told not in (0, 1, len(headers)):
        raise ModelError(
            f"`{path}` is one of {told} parts, and its name does not say which",
            hint="keep the names `...-00001-of-000NN.gguf` that split files come with",
        )
    return headers


def read_shape(path: Path) -> ModelShape:
    """The shape of the model at `path`; tensor data is not read.

    Raises `ModelError` for a file that is missing, damaged, cut off or not a language model.
    """
    headers = read_headers(path)
    tensors = [tensor for header in headers for tensor in header.tensors]
    keys = _Keys(headers[0].metadata, path=path)
    architecture = keys.text("general.architecture")
    if not architecture:
        raise ModelError(f"`{path}` does not say its `general.architecture`", hint=_OTHER)

    def number(name: str, default: int | None = None) -> int:
        return keys.number(f"{architecture}.{name}", default)

    hidden, heads = number("embedding_length"), number("attention.head_count")
    layers, context = number("block_count"), number("context_length")
    _check_tensors(tensors, path=path, hidden=hidden, layers=layers)
    head_size = hidden // heads
    matrices = [t for t in tensors if is_matrix(t)]
    widths: Counter[int] = Counter()
    type_bytes: Counter[str] = Counter()
    for tensor in matrices:
        widths[tensor.dims[0]] += tensor.elements
        type_bytes[tensor.type.name] += tensor.nbytes
    return ModelShape(
        architecture=architecture,
        layers=layers,
        hidden=hidden,
        ffn=number("feed_forward_length", 0),
        heads=heads,
        kv_heads=number("attention.head_count_kv", heads),
        key_size=number("attention.key_length", head_size),
        value_size=number("attention.value_length", head_size),
        vocabulary=next(t.dims[1] for t in tensors if t.name == _EMBEDDING),
        context=context,
        weight_type=type_bytes.most_common(1)[0][0],
        parameters=sum(t.elements for t in tensors),
        tensor_bytes=sum(t.nbytes for t in tensors),
        file_bytes=sum(h.file_bytes for h in headers),
        widths=dict(widths),
        name=keys.text("general.name"),
        licence=keys.text("general.license"),
        chat_template=keys.text("tokenizer.chat_template") or None,
    )


def is_matrix(tensor: Tensor) -> bool:
    """Whether it is a weight that is read for every token; norms and biases are vectors."""
    return len(tensor.dims) > 1


class _Keys:
    """Metadata, with errors that name the key and its value."""

    def __init__(self, metadata: Mapping[str, Value], *, path: Path) -> None:
        self._metadata = metadata
        self._path = path

    def text(self, key: str) -> str:
        """A text, empty when absent."""
        value = self._metadata.get(key, "")
        return value if isinstance(value, str) else ""

    def number(self, key: str, default: int | None) -> int:
        """A number of at least 1; the largest one where each layer has its own."""
        value = self._metadata.get(key, default)
        if value is None:
            raise ModelError(f"`{self._path}` has no `{key}`", hint=_OTHER)
        if isinstance(value, tuple):
            value = max((v for v in value if isinstance(v, int)), default=0)
        if not isinstance(value, int) or (value < 1 and value != default):
            raise ModelError(f"`{self._path}` is damaged: `{key}` is {value}", hint=_OTHER)
        return value


def _check_tensors(tensors: Sequence[Tensor], *, path: Path, hidden: int, layers: int) -> None:
    """The tensors must be those that the metadata speaks of."""
    embedding = next((t for t in tensors if t.name == _EMBEDDING), None)
    if embedding is None or len(embedding.dims) != 2:
        raise ModelError(f"`{path}` has no tensor `{_EMBEDDING}`", hint=_OTHER)
    if embedding.dims[0] != hidden:
        raise ModelError(
            f"`{path}` is damaged: `{_EMBEDDING}` is {embedding.dims[0]} wide, "
            f"the embedding length is {hidden}",
            hint="fetch the file again",
        )
    blocks = {t.name.split(".")[1] for t in tensors if t.name.startswith("blk.")}
    if len(blocks) != layers:
        raise ModelError(
            f"`{path}` is damaged: it has tensors of {len(blocks)} layers, its block count is {layers}",
            hint="fetch the file again",
        )
