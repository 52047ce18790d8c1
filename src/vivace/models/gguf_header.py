"""The header of one GGUF file, read with every length checked against the file's size first.

Format: ggml `docs/gguf.md`, versions 2 and 3, little endian. Tensor data is not read.
"""

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from vivace.errors import ModelError

Scalar = int | float | bool | str

MAGIC = b"GGUF"
VERSIONS = (2, 3)
_SCALARS = dict(
    zip(
        (0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12),
        ("B", "b", "H", "h", "I", "i", "f", "?", "Q", "q", "d"),
        strict=True,
    )
)
_STRING, _ARRAY = 8, 9
_TYPES = {t.value: t for t in GGMLQuantizationType}
_KEPT_ARRAY = 4096
_MAX_DIMS = 4
# Far above real headers (vocabularies of 300 thousand, chat templates of 100 kB); below them a
# damaged length field of a very large file would still cost minutes or gigabytes.
_MAX_TEXTS = 10_000_000
_MAX_TEXT_BYTES = 1 << 24
_BAD_FILE = "fetch the file again: it is damaged or its download did not finish"


@dataclass(frozen=True, kw_only=True, slots=True)
class Counted:
    """An array of which only the length was read."""

    length: int


#: An array of numbers is a tuple; `Counted` stands for one of texts, or one that is very long.
Value = Scalar | tuple[Scalar, ...] | Counted


@dataclass(frozen=True, kw_only=True, slots=True)
class Tensor:
    """One tensor: `dims` innermost first, `start` in bytes from the beginning of the file."""

    name: str
    dims: tuple[int, ...]
    type: GGMLQuantizationType
    start: int
    nbytes: int

    @property
    def elements(self) -> int:
        """Number of weights."""
        return prod(self.dims)


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """`spans` gives for each key the bytes of its whole entry (key, type, value) in the file."""

    path: Path
    metadata: Mapping[str, Value]
    spans: Mapping[str, tuple[int, int]]
    tensors: tuple[Tensor, ...]
    alignment: int
    file_bytes: int


def read_header(path: Path) -> Header:
    """Reads and checks one file; raises `ModelError` saying what is wrong, where and how."""
    try:
        size = path.stat().st_size
        if size < 24:
            raise ModelError(f"`{path}` is not a GGUF file: it has {size} bytes", hint=_BAD_FILE)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, path=path).header()
    except OSError as error:
        raise ModelError(f"cannot read `{path}`: {error.strerror or error}") from error


class _Reader:
    """A position in the file; every read is checked against the end first."""

    def __init__(self, data: mmap.mmap, *, path: Path) -> None:
        self._data = data
        self._path = path
        self._size = len(data)
        self._at = 0

    def header(self) -> Header:
        if self._data[:4] != MAGIC:
            raise ModelError(
                f"`{self._path}` is not a GGUF file: it begins with {self._data[:4]!r}",
                hint="name a file that ends in `.gguf`, or a folder that has one",
            )
        self._at = 4
        version = self._number("I", "the version")
        if version not in VERSIONS:
            swapped = int.from_bytes(int(version).to_bytes(4, "little"), "big") in VERSIONS
            what = "is big-endian" if swapped else f"has GGUF version {version}"
            raise ModelError(
                f"`{self._path}` {what}; versions 2 and 3, little-endian, can be read",
                hint="convert it again with a current llama.cpp",
            )
        tensor_count = self._count("Q", "the number of tensors", smallest=24)
        key_count = self._count("Q", "the number of keys", smallest=13)
        metadata, spans = self._entries(key_count)
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self._damaged(f"`general.alignment` is {alignment}, not a power of two")
        tensors = self._tensors(tensor_count, alignment)
        return Header(
            path=self._path,
            metadata=metadata,
            spans=spans,
            tensors=tensors,
            alignment=alignment,
            file_bytes=self._size,
        )

    def _entries(self, count: int) -> tuple[dict[str, Value], dict[str, tuple[int, int]]]:
        metadata: dict[str, Value] = {}
        spans: dict[str, tuple[int, int]] = {}
        for index in range(count):
            start = self._at
            key = self._string(f"key {index}")
            if not key or key in metadata:
                raise self._damaged(f"key {index} at byte {start} is empty or repeated: `{key}`")
            kind = self._number("I", f"the type of `{key}`")
            metadata[key] = self._value(kind, key)
            spans[key] = (start, self._at)
        return metadata, spans

    def _value(self, kind: int, key: str) -> Value:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind], f"`{key}`")
        if kind == _STRING:
            return self._string(f"`{key}`")
        if kind != _ARRAY:
            raise self._damaged(f"`{key}` at byte {self._at} has the unknown value type {kind}")
        item = self._number("I", f"the item type of `{key}`")
        if item == _STRING:
            length = self._count("Q", f"the length of `{key}`", smallest=8)
            if length > _MAX_TEXTS:
                raise self._damaged(f"`{key}` has {length:,} texts")
            for _ in range(length):
                self._skip(self._number("Q", f"`{key}`"), f"`{key}`")
            return Counted(length=length)
        if item not in _SCALARS:
            raise self._damaged(f"`{key}` at byte {self._at} has the unknown item type {item}")
        form = _SCALARS[item]
        width = struct.calcsize(form)
        length = self._count("Q", f"the length of `{key}`", smallest=width)
        start = self._at
        self._skip(length * width, f"`{key}`")
        if length > _KEPT_ARRAY:
            return Counted(length=length)
        return struct.unpack_from(f"<{length}{form}", self._data, start)

    def _tensors(self, count: int, alignment: int) -> tuple[Tensor, ...]:
        found: list[tuple[str, tuple[int, ...], GGMLQuantizationType, int]] = []
        for index in range(count):
            name = self._string(f"the name of tensor {index}")
            dim_count = self._number("I", f"the dimensions of `{name}`")
            if not 1 <= dim_count <= _MAX_DIMS:
                raise self._damaged(f"tensor `{name}` has {dim_count} dimensions")
            dims = tuple(self._number("Q", f"the shape of `{name}`") for _ in range(dim_count))
            kind = self._number("I", f"the type of `{name}`")
            if kind not in _TYPES:
                raise self._damaged(f"tensor `{name}` has the unknown type {kind}")
            found.append((name, dims, _TYPES[kind], self._number("Q", name)))
        if len({name for name, *_ in found}) < len(found):
            raise self._damaged("a tensor name is repeated")
        base = -(-self._at // alignment) * alignment
        return tuple(self._placed(found, base, alignment))

    def _placed(
        self,
        found: list[tuple[str, tuple[int, ...], GGMLQuantizationType, int]],
        base: int,
        alignment: int,
    ) -> list[Tensor]:
        """Tensors with their place; llama.cpp demands that they follow each other without a gap."""
        placed: list[Tensor] = []
        expected = 0
        for name, dims, kind, offset in found:
            block, block_bytes = GGML_QUANT_SIZES[kind]
            if dims[0] % block or min(dims) < 1:
                raise self._damaged(f"tensor `{name}` has shape {dims}, impossible for {kind.name}")
            nbytes = prod(dims) // block * block_bytes
            if offset != expected:
                raise self._damaged(f"tensor `{name}` is at offset {offset}, expected {expected}")
            if base + offset + nbytes > self._size:
                raise ModelError(
                    f"`{self._path}` is cut off: tensor `{name}` ends at byte "
                    f"{base + offset + nbytes:,}, the file has {self._size:,}",
                    hint=_BAD_FILE,
                )
            placed.append(
                Tensor(name=name, dims=dims, type=kind, start=base + offset, nbytes=nbytes)
            )
            expected += -(-nbytes // alignment) * alignment
        return placed

    def _count(self, form: str, what: str, *, smallest: int) -> int:
        """A count of things that take at least `smallest` bytes each, so it has a natural bound."""
        count = self._number(form, what)
        if count * smallest > self._size - self._at:
            raise self._damaged(f"{what} is {count:,}, more than its {self._size:,} bytes can hold")
        return count

    def _number(self, form: str, what: str) -> int:
        start = self._at
        self._skip(struct.calcsize(form), what)
        return struct.unpack_from("<" + form, self._data, start)[0]

    def _string(self, what: str) -> str:
        length = self._number("Q", what)
        if length > _MAX_TEXT_BYTES:
            raise self._damaged(f"{what} at byte {self._at:,} is {length:,} bytes long")
        start = self._at
        self._skip(length, what)
        try:
            return str(self._data[start : self._at], "utf-8")
        except UnicodeDecodeError as error:
            raise self._damaged(f"{what} at byte {start} is not UTF-8 text") from error

    def _skip(self, count: int, what: str) -> None:
        if count > self._size - self._at:
            raise ModelError(
                f"`{self._path}` is cut off or damaged: {what} at byte {self._at:,} takes "
                f"{count:,} bytes, the file has {self._size:,}",
                hint=_BAD_FILE,
            )
        self._at += count

    def _damaged(self, what: str) -> ModelError:
        return ModelError(f"`{self._path}` is damaged: {what}", hint=_BAD_FILE)
