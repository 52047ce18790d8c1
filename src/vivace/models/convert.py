"""Weights from one GGML type into another, some rows at a time."""

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from vivace.errors import ModelError

Floats = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
_F16_MAX = float(np.finfo(np.float16).max)
#: Weights converted at once: 64 MB as 32-bit numbers, however large the tensor is.
_CHUNK_WEIGHTS = 1 << 24


def converted(
    raw: Bytes, *, name: str, width: int, old: GGMLQuantizationType, new: GGMLQuantizationType
) -> Iterator[bytes | memoryview]:
    """The tensor's bytes in the type `new`, in pieces; `raw` holds it in the type `old`.

    Raises `ModelError` for a type that cannot be read and for weights that are not numbers.
    """
    if old == new:
        yield raw.data
        return
    block, block_bytes = GGML_QUANT_SIZES[old]
    rows = raw.reshape(-1, width // block * block_bytes)
    step = max(1, _CHUNK_WEIGHTS // width)
    for first in range(0, len(rows), step):
        values = _to_floats(rows[first : first + step], width=width, kind=old, name=name)
        if not np.isfinite(values).all():
            raise ModelError(
                f"tensor `{name}` holds weights that are not numbers", hint="the file is damaged"
            )
        yield _from_floats(values, kind=new, name=name)


def _to_floats(rows: Bytes, *, width: int, kind: GGMLQuantizationType, name: str) -> Floats:
    if kind == GGMLQuantizationType.F32:
        return np.ascontiguousarray(rows).view("<f4")
    if kind == GGMLQuantizationType.F16:
        return np.ascontiguousarray(rows).view("<f2").astype(np.float32)
    if kind == GGMLQuantizationType.BF16:
        upper = np.ascontiguousarray(rows).view("<u2").astype(np.uint32)
        return (upper << 16).view(np.float32)
    try:
        return _codec().dequantize_rows(rows, int(kind), width)
    except ValueError as error:
        raise ModelError(
            f"tensor `{name}` has the type {kind.name}, which cannot be converted: {error}",
            hint="use the file as it is, with the weight type `source`",
        ) from error


def _from_floats(values: Floats, *, kind: GGMLQuantizationType, name: str) -> bytes:
    if kind == GGMLQuantizationType.F16:
        if float(np.abs(values).max()) > _F16_MAX:
            raise ModelError(f"tensor `{name}` holds weights beyond the range of 16-bit numbers")
        return values.astype("<f2").tobytes()
    return _codec().quantize_rows(values, int(kind)).tobytes()


def _codec() -> ModuleType:
    """The library of llama.cpp's own block formats, which has no wheel for every platform."""
    try:
        import libgguf  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as error:
        raise ModelError(
            "weight types cannot be made here: the package `libgguf` is not installed",
            hint="it has wheels for x86-64 Linux and macOS up to Python 3.13; elsewhere `pip install "
            "libgguf` compiles it",
        ) from error
    return libgguf
