"""Reading a GGUF: the shape, and one named error for each kind of damage."""

import struct
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vivace.errors import ModelError
from vivace.models.gguf import parts_of, read_shape
from vivace.models.gguf_header import Counted, read_header

Writer = Callable[..., Path]


def test_the_shape_is_what_the_file_says(tiny: Path) -> None:
    shape = read_shape(tiny)
    assert (shape.architecture, shape.name, shape.licence) == ("llama", "Tiny", "mit")
    assert (shape.layers, shape.hidden, shape.ffn, shape.context) == (4, 64, 128, 512)
    assert (shape.heads, shape.kv_heads, shape.key_size, shape.value_size) == (4, 2, 16, 16)
    assert shape.vocabulary == 96
    assert shape.weight_type == "F32"
    assert shape.chat_template == "{{ messages }}"
    assert shape.file_bytes == tiny.stat().st_size
    # Each layer: attn_k and attn_v 32x64, ffn_up 128x64 and ffn_down 64x128, a norm of 64.
    assert shape.widths == {64: 96 * 64 + 4 * (2 * 32 * 64 + 128 * 64), 128: 4 * 64 * 128}
    assert shape.parameters == sum(shape.widths.values()) + 4 * 64
    assert shape.tensor_bytes == shape.parameters * 4
    assert shape.kv_bytes_per_token() == 4 * 2 * (16 + 16) * 2


def test_an_explicit_head_size_wins_over_the_computed_one(tmp_path: Path, write: Writer) -> None:
    numbers = {"llama.attention.key_length": 24, "llama.attention.value_length": 40}
    shape = read_shape(write(tmp_path / "m.gguf", numbers=numbers))
    assert (shape.key_size, shape.value_size) == (24, 40)


def test_the_type_with_most_bytes_is_the_weight_type(tmp_path: Path, write: Writer) -> None:
    assert read_shape(write(tmp_path / "m.gguf", dtype=np.float16)).weight_type == "F16"


def test_texts_are_counted_and_numbers_kept(tiny: Path) -> None:
    metadata = read_header(tiny).metadata
    assert metadata["tokenizer.ggml.tokens"] == Counted(length=96)
    assert metadata["tokenizer.ggml.scores"] == (0.5, 1.5)


@pytest.mark.parametrize(
    "key", ["llama.block_count", "llama.embedding_length", "llama.attention.head_count"]
)
def test_a_missing_key_is_named(tmp_path: Path, write: Writer, key: str) -> None:
    with pytest.raises(ModelError, match=f"has no `{key}`") as error:
        read_shape(write(tmp_path / "m.gguf", leave_out=key))
    assert error.value.hint


def test_a_missing_embedding_is_named(tmp_path: Path, write: Writer) -> None:
    with pytest.raises(ModelError, match=r"no tensor `token_embd\.weight`"):
        read_shape(write(tmp_path / "m.gguf", leave_out="token_embd.weight"))


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("llama.attention.head_count", 0, "`llama.attention.head_count` is 0"),
        ("llama.block_count", 5, "tensors of 4 layers, its block count is 5"),
        ("llama.embedding_length", 65, "64 wide, the embedding length is 65"),
        ("general.alignment", 48, "`general.alignment` is 48"),
        ("split.count", 3, "one of 3 parts"),
    ],
)
def test_metadata_that_contradicts_the_tensors_is_told(
    tmp_path: Path, write: Writer, key: str, value: int, words: str
) -> None:
    with pytest.raises(ModelError, match=words):
        read_shape(write(tmp_path / "m.gguf", numbers={key: value}))


def test_a_file_cut_in_half_says_where_it_ends(tiny: Path) -> None:
    data = tiny.read_bytes()
    tiny.write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelError, match=r"cut off: tensor .* the file has") as error:
        read_shape(tiny)
    assert f"{len(data) // 2:,}" in str(error.value)
    assert "again" in error.value.hint


@pytest.mark.parametrize("keep", [0, 10, 23])
def test_a_file_without_a_header_is_no_gguf(tiny: Path, keep: int) -> None:
    tiny.write_bytes(tiny.read_bytes()[:keep])
    with pytest.raises(ModelError, match=f"it has {keep} bytes"):
        read_shape(tiny)


def test_another_format_is_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"<html>not found</html>" * 10)
    with pytest.raises(ModelError, match=r"is not a GGUF file: it begins with b'<htm'"):
        read_shape(path)


@pytest.mark.parametrize(
    ("version", "words"),
    [(1, "has GGUF version 1"), (4, "has GGUF version 4"), (3 << 24, "is big-endian")],
)
def test_another_version_is_refused(tiny: Path, version: int, words: str) -> None:
    _overwrite(tiny, 4, struct.pack("<I", version))
    with pytest.raises(ModelError, match=words):
        read_shape(tiny)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot read"):
        read_shape(tmp_path / "absent.gguf")


@pytest.mark.parametrize("offset", [8, 16])
def test_an_absurd_count_fails_before_anything_is_allocated(tiny: Path, offset: int) -> None:
    _overwrite(tiny, offset, struct.pack("<Q", 1 << 60))
    start = time.perf_counter()
    with pytest.raises(ModelError, match="can hold"):
        read_shape(tiny)
    assert time.perf_counter() - start < 1.0


def test_an_absurd_text_length_is_told(tiny: Path) -> None:
    _overwrite(tiny, 24, struct.pack("<Q", 1 << 50))
    with pytest.raises(ModelError, match="key 0 at byte"):
        read_shape(tiny)


def test_a_text_longer_than_the_file_is_told(tiny: Path) -> None:
    _overwrite(tiny, 24, struct.pack("<Q", tiny.stat().st_size))
    with pytest.raises(ModelError, match="cut off or damaged: key 0"):
        read_shape(tiny)


def test_a_shifted_tensor_is_told(tmp_path: Path, tiny: Path) -> None:
    header = read_header(tiny)
    second = header.tensors[1]
    data = tiny.read_bytes()
    offset = struct.pack("<Q", second.start - header.tensors[0].start)
    at = data.index(second.name.encode()) + len(second.name) + 4 + 8 + 4
    assert data[at : at + 8] == offset
    _overwrite(tiny, at, struct.pack("<Q", 0))
    with pytest.raises(ModelError, match="is at offset 0, expected"):
        read_shape(tiny)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(where=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255))
def test_a_flipped_header_byte_is_read_or_told(tiny: Path, where: float, value: int) -> None:
    """Never another exception: what cannot be read is a `ModelError`."""
    whole = tiny.read_bytes()
    position = int(where * read_header(tiny).tensors[0].start)
    damaged = tiny.with_name("damaged.gguf")
    damaged.write_bytes(whole[:position] + bytes([value]) + whole[position + 1 :])
    try:
        assert read_shape(damaged).layers >= 1
    except ModelError as error:
        assert "damaged.gguf" in str(error)


def test_a_split_model_is_read_as_one(tmp_path: Path, tiny: Path) -> None:
    first, _second = _split(tiny, tmp_path)
    assert parts_of(first) == (first, _second)
    whole, shape = read_shape(tiny), read_shape(first)
    assert shape.parameters == whole.parameters
    assert shape.widths == whole.widths
    assert shape.layers == 4


def test_a_missing_part_is_named(tmp_path: Path, tiny: Path) -> None:
    first, second = _split(tiny, tmp_path)
    second.unlink()
    with pytest.raises(ModelError, match=f"missing: {second.name}"):
        read_shape(first)


def test_a_later_part_points_to_the_first(tmp_path: Path, tiny: Path) -> None:
    first, second = _split(tiny, tmp_path)
    with pytest.raises(ModelError, match="a later part") as error:
        read_shape(second)
    assert first.name in error.value.hint


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def _split(whole: Path, folder: Path) -> tuple[Path, Path]:
    from gguf import GGUFReader, GGUFWriter

    writer = GGUFWriter(folder / "part.gguf", "llama", split_max_tensors=11)
    reader = GGUFReader(whole)
    for key, field in reader.fields.items():
        if not key.startswith(("GGUF.", "general.architecture")):
            kind, item = field.types[0], field.types[-1] if len(field.types) > 1 else None
            writer.add_key_value(key, field.contents(), kind, sub_type=item)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    first, second = sorted(folder.glob("part-*.gguf"))
    return first, second
