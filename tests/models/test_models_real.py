"""The default model itself: its published bytes, its shape and the types made from it."""

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader, dequantize

from vivace.errors import ModelError
from vivace.models import known
from vivace.models.home import vivace_home
from vivace.models.local import local
from vivace.models.make import make_type
from vivace.models.model import Model
from vivace.models.resolve import DEFAULT_MODEL, resolve
from vivace.models.types import sensible_types

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def model() -> Model:
    spec = os.environ.get("VIVACE_TEST_GGUF", DEFAULT_MODEL)
    return resolve(spec, home=vivace_home(), say=print, confirm=lambda _: True)


def test_the_default_model_is_the_published_file(model: Model) -> None:
    published = known.by_spec(DEFAULT_MODEL)
    assert published is not None
    assert model.sha256 == published.sha256
    assert model.path.stat().st_size == published.file_bytes
    assert model.shape.name == published.title


def test_its_shape_is_right(model: Model) -> None:
    shape = model.shape
    assert (shape.layers, shape.hidden, shape.ffn, shape.context) == (30, 576, 1536, 8192)
    assert (shape.heads, shape.kv_heads, shape.key_size, shape.vocabulary) == (9, 3, 64, 49152)
    assert shape.weight_type == "Q4_1"
    assert shape.kv_bytes_per_token() == 23_040
    tried = {name for name, reason in sensible_types(shape).items() if reason is None}
    assert tried == {"F16", "Q8_0", "Q4_0"}


def test_a_copy_cut_in_half_and_one_with_flipped_bytes_are_told(
    model: Model, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.gguf"
    data = bytearray(model.path.read_bytes())
    copy.write_bytes(data[: len(data) // 2])
    with pytest.raises(ModelError, match="is cut off"):
        local(copy)
    data[50_000_000] ^= 0xFF
    copy.write_bytes(data)
    with pytest.raises(ModelError, match="a damaged copy of SmolLM2-135M-Instruct"):
        local(copy)


def test_the_16_bit_form_is_the_dequantised_source(model: Model, tmp_path: Path) -> None:
    made = GGUFReader(make_type(model, "F16", home=tmp_path, say=print))
    pairs = list(zip(made.tensors, GGUFReader(model.path).tensors, strict=True))
    # The embedding and the first, a middle and the last layer: the whole takes a minute in numpy.
    for mine, source in [*pairs[:10], *pairs[140:150], *pairs[-10:]]:
        expected = dequantize(source.data, source.tensor_type).astype(np.float16)
        assert mine.name == source.name
        assert np.array_equal(mine.data.astype(np.float16), expected), mine.name


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("Q8_0", {"Q8_0": 211, "F32": 61}),
        ("Q4_0", {"Q4_0": 210, "Q8_0": 1, "F32": 61}),
        ("Q4_K_M", {"Q5_0": 166, "Q4_K": 16, "Q6_K": 14, "Q8_0": 15, "F32": 61}),
    ],
)
def test_made_types_have_llama_cpp_s_mixture(
    model: Model, tmp_path: Path, name: str, kinds: dict[str, int]
) -> None:
    made = GGUFReader(make_type(model, name, home=tmp_path, say=print))
    assert Counter(t.tensor_type.name for t in made.tensors) == kinds
