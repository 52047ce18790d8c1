"""Tiny models, written by the tests themselves."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter

from vivace.models.files import sha256_of
from vivace.models.gguf import parts_of, read_shape
from vivace.models.model import Model

Writer = Callable[..., Path]

HIDDEN, FFN, VOCABULARY, LAYERS = 64, 128, 96, 4


def tensors(
    hidden: int, ffn: int, layers: int, *, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    """Random weights of a small llama; norms are 32-bit vectors."""
    rng = np.random.default_rng(1)

    def matrix(rows: int, columns: int) -> np.ndarray:
        return (rng.standard_normal((rows, columns)) * 0.1).astype(dtype)

    found = {"token_embd.weight": matrix(VOCABULARY, hidden)}
    for layer in range(layers):
        found[f"blk.{layer}.attn_norm.weight"] = np.ones(hidden, np.float32)
        found[f"blk.{layer}.attn_k.weight"] = matrix(hidden // 2, hidden)
        found[f"blk.{layer}.attn_v.weight"] = matrix(hidden // 2, hidden)
        found[f"blk.{layer}.ffn_up.weight"] = matrix(ffn, hidden)
        found[f"blk.{layer}.ffn_down.weight"] = matrix(hidden, ffn)
    return found


def write_gguf(
    path: Path,
    *,
    hidden: int = HIDDEN,
    ffn: int = FFN,
    layers: int = LAYERS,
    dtype: type = np.float32,
    leave_out: str = "",
    numbers: dict[str, int] | None = None,
    name: str = "Tiny",
    weights: dict[str, np.ndarray] | None = None,
) -> Path:
    """A whole GGUF file; `numbers` replaces or adds keys, `leave_out` drops one."""
    writer = GGUFWriter(path, "llama")
    writer.add_string("general.name", name)
    writer.add_string("general.license", "mit")
    keys = {
        "llama.block_count": layers,
        "llama.context_length": 512,
        "llama.embedding_length": hidden,
        "llama.feed_forward_length": ffn,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "general.file_type": 0,
    } | (numbers or {})
    for key, value in keys.items():
        if key != leave_out:
            writer.add_uint32(key, value)
    writer.add_array("tokenizer.ggml.tokens", [f"token-{i}" for i in range(VOCABULARY)])
    writer.add_array("tokenizer.ggml.scores", [0.5, 1.5])
    writer.add_string("tokenizer.chat_template", "{{ messages }}")
    for tensor, data in (weights or tensors(hidden, ffn, layers, dtype=dtype)).items():
        if tensor != leave_out:
            kind = GGMLQuantizationType.F16 if data.dtype == np.float16 else None
            writer.add_tensor(tensor, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "tiny.gguf")


@pytest.fixture
def write() -> Writer:
    return write_gguf


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def as_model() -> Callable[[Path], Model]:
    def model(path: Path) -> Model:
        return Model(
            name=path.stem,
            path=path,
            shape=read_shape(path),
            sha256=sha256_of(parts_of(path)),
            source=str(path),
            licence="",
        )

    return model


@pytest.fixture
def said() -> list[str]:
    """What was told to the person; pass its `append` as `say`."""
    return []
