"""Making other types: right numbers, right recipe, never half a file."""

import errno
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, dequantize

from vivace.errors import ConfigError, ModelError
from vivace.models import files, make
from vivace.models.gguf import read_shape
from vivace.models.gguf_header import Tensor, read_header
from vivace.models.make import make_type
from vivace.models.model import Model
from vivace.models.recipe import recipe

Writer = Callable[..., Path]
AsModel = Callable[[Path], Model]


def _weights(path: Path) -> dict[str, np.ndarray]:
    return {t.name: dequantize(t.data, t.tensor_type) for t in GGUFReader(path).tensors}


@pytest.mark.parametrize(
    ("name", "main", "largest_error"),
    # Half a step of the type for weights of at most about 0.45.
    [("F16", "F16", 2e-4), ("Q8_0", "Q8_0", 3e-3), ("Q5_0", "Q5_0", 0.03), ("Q4_0", "Q4_0", 0.06)],
)
def test_made_weights_are_the_source_s_within_the_type_s_step(
    tiny: Path,
    home: Path,
    as_model: AsModel,
    said: list[str],
    name: str,
    main: str,
    largest_error: float,
) -> None:
    made = make_type(as_model(tiny), name, home=home, say=said.append)
    assert read_shape(made).weight_type == main
    source, result = _weights(tiny), _weights(made)
    assert list(source) == list(result)
    for tensor, values in source.items():
        assert result[tensor].shape == values.shape
        assert np.abs(result[tensor] - values).max() < largest_error
    assert any(not np.array_equal(source[t], result[t]) for t in source)


def test_norms_stay_untouched(tiny: Path, home: Path, as_model: AsModel) -> None:
    made = read_header(make_type(as_model(tiny), "Q4_0", home=home, say=print))
    norms = [t for t in made.tensors if t.name.endswith("_norm.weight")]
    assert len(norms) == 4
    assert {t.type.name for t in norms} == {"F32"}


def test_all_metadata_survives_and_the_file_type_is_right(
    tiny: Path, home: Path, as_model: AsModel
) -> None:
    made = GGUFReader(make_type(as_model(tiny), "Q8_0", home=home, say=print))
    source = GGUFReader(tiny)
    for key, field in source.fields.items():
        if key not in ("general.file_type", "GGUF.kv_count"):
            assert made.fields[key].contents() == field.contents(), key
    assert made.fields["general.file_type"].contents() == 7
    assert made.fields["general.quantization_version"].contents() == 2


def test_a_made_file_can_be_the_source_of_another(
    tiny: Path, home: Path, as_model: AsModel
) -> None:
    q8 = make_type(as_model(tiny), "Q8_0", home=home, say=print)
    f16 = make_type(as_model(q8), "F16", home=home, say=print)
    expected = {n: w.astype(np.float16) for n, w in _weights(q8).items()}
    for name, values in _weights(f16).items():
        assert np.array_equal(values.astype(np.float16), expected[name]), name


def test_bf16_weights_are_read(tmp_path: Path, home: Path, as_model: AsModel, tiny: Path) -> None:
    from gguf import GGUFWriter, quantize

    writer = GGUFWriter(tmp_path / "b.gguf", "llama")
    for key, value in read_header(tiny).metadata.items():
        if key.startswith("llama.") and isinstance(value, int):
            writer.add_uint32(key, value)
    for tensor in GGUFReader(tiny).tensors:
        kind = GGMLQuantizationType.BF16 if len(tensor.shape) > 1 else GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, quantize(np.array(tensor.data), kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    source = tmp_path / "b.gguf"
    made = make_type(as_model(source), "F16", home=home, say=print)
    for name, values in _weights(source).items():
        assert np.allclose(_weights(made)[name], values, atol=1e-6), name


@pytest.mark.parametrize("name", ["source", "F32"])
def test_the_source_s_own_type_is_the_source_file(
    tiny: Path, home: Path, as_model: AsModel, name: str
) -> None:
    assert make_type(as_model(tiny), name, home=home, say=print) == tiny
    assert list(home.iterdir()) == []


def test_an_unknown_type_lists_the_known_ones(tiny: Path, home: Path, as_model: AsModel) -> None:
    with pytest.raises(ConfigError, match="`Q9_9`") as error:
        make_type(as_model(tiny), "Q9_9", home=home, say=print)
    assert "Q4_K_M" in error.value.hint


def test_a_second_call_makes_nothing(
    tiny: Path, home: Path, as_model: AsModel, said: list[str]
) -> None:
    first = make_type(as_model(tiny), "Q8_0", home=home, say=said.append)
    before = first.stat().st_ino
    assert make_type(as_model(tiny), "Q8_0", home=home, say=said.append) == first
    assert first.stat().st_ino == before
    assert len(said) == 1
    assert "Q8_0" in said[0]


def test_another_source_gets_another_file(
    tmp_path: Path, tiny: Path, home: Path, as_model: AsModel, write: Writer
) -> None:
    other = write(tmp_path / "other.gguf", name="Other")
    made = {make_type(as_model(p), "Q8_0", home=home, say=print) for p in (tiny, other)}
    assert len(made) == 2


def test_an_interrupted_making_leaves_nothing(
    tiny: Path, home: Path, as_model: AsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "converted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_type(as_model(tiny), "Q8_0", home=home, say=print)
    assert [p for p in (home / "made").rglob("*") if p.is_file()] == []


def test_what_a_killed_run_left_is_removed(tiny: Path, home: Path, as_model: AsModel) -> None:
    model = as_model(tiny)
    folder = home / "made" / model.sha256[:16]
    folder.mkdir(parents=True)
    (folder / ".F16-1.gguf.part").write_bytes(b"half")
    made = make_type(model, "Q8_0", home=home, say=print)
    assert list(folder.iterdir()) == [made]


def test_a_full_disk_is_told_and_breaks_nothing(
    tiny: Path, home: Path, as_model: AsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(make, "converted", full)
    with pytest.raises(ModelError, match="the disk is full") as error:
        make_type(as_model(tiny), "Q8_0", home=home, say=print)
    assert "VIVACE_HOME" in error.value.hint
    assert [p for p in (home / "made").rglob("*") if p.is_file()] == []


def test_a_failing_disk_is_told(
    tiny: Path, home: Path, as_model: AsModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(make, "converted", failing)
    with pytest.raises(ModelError, match=r"cannot make .*: Input/output error"):
        make_type(as_model(tiny), "Q8_0", home=home, say=print)


def test_too_little_room_is_told_before_anything_is_written(
    tiny: Path, home: Path, as_model: AsModel, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    usage = files.shutil.disk_usage(home)._replace(free=1000)
    monkeypatch.setattr(files.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ModelError, match="not enough disk space"):
        make_type(as_model(tiny), "Q8_0", home=home, say=said.append)
    assert said == []


def test_weights_that_are_not_numbers_are_told(tiny: Path, home: Path, as_model: AsModel) -> None:
    tensor = read_header(tiny).tensors[0]
    with tiny.open("r+b") as file:
        file.seek(tensor.start)
        file.write(np.array([np.nan], "<f4").tobytes())
    with pytest.raises(
        ModelError, match=r"`token_embd\.weight` holds weights that are not numbers"
    ):
        make_type(as_model(tiny), "Q8_0", home=home, say=print)


def test_weights_beyond_sixteen_bits_are_told(tiny: Path, home: Path, as_model: AsModel) -> None:
    tensor = read_header(tiny).tensors[0]
    with tiny.open("r+b") as file:
        file.seek(tensor.start)
        file.write(np.array([1e6], "<f4").tobytes())
    with pytest.raises(ModelError, match="beyond the range of 16-bit"):
        make_type(as_model(tiny), "F16", home=home, say=print)


def test_large_tensors_are_converted_in_pieces(
    tiny: Path, home: Path, as_model: AsModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = make_type(as_model(tiny), "Q8_0", home=home, say=print).read_bytes()
    monkeypatch.setattr("vivace.models.convert._CHUNK_WEIGHTS", 200)
    pieces = make_type(as_model(tiny), "Q8_0", home=tmp_path / "second", say=print).read_bytes()
    assert pieces == whole


def _recipe(type_name: str, names: list[str], *, width: int, layers: int) -> dict[str, str]:
    f16 = GGMLQuantizationType.F16
    found = [Tensor(name=n, dims=(width, 8), type=f16, start=0, nbytes=width * 16) for n in names]
    kinds = recipe(found, type_name, layers=layers)
    return {n: k.name for n, k in zip(names, kinds, strict=True)}


def test_q4_k_m_gives_more_bits_to_half_of_the_sensitive_layers() -> None:
    names = [
        f"blk.{i}.{part}.weight" for i in range(32) for part in ("ffn_down", "attn_v", "attn_q")
    ]
    kinds = _recipe("Q4_K_M", [*names, "output.weight"], width=256, layers=32)
    # llama.cpp: layers 0-3, 28-31 and every third between, counted from the first eighth.
    more = {0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31}
    for i in range(32):
        expected = "Q6_K" if i in more else "Q4_K"
        assert kinds[f"blk.{i}.ffn_down.weight"] == expected
        assert kinds[f"blk.{i}.attn_v.weight"] == expected
        assert kinds[f"blk.{i}.attn_q.weight"] == "Q4_K"


def test_rows_that_do_not_fit_get_llama_cpp_s_stand_ins() -> None:
    names = ["token_embd.weight", "blk.0.ffn_down.weight", "blk.1.attn_q.weight"]
    assert _recipe("Q4_K_M", names, width=576, layers=30) == {
        "token_embd.weight": "Q8_0",
        "blk.0.ffn_down.weight": "Q8_0",
        "blk.1.attn_q.weight": "Q5_0",
    }
    assert set(_recipe("Q4_0", ["blk.0.attn_q.weight"], width=40, layers=1).values()) == {"F16"}


def test_the_output_matrix_keeps_more_bits() -> None:
    names = ["token_embd.weight", "output.weight", "blk.0.attn_q.weight"]
    untied = _recipe("Q4_0", names, width=256, layers=1)
    assert list(untied.values()) == ["Q4_0", "Q6_K", "Q4_0"]
    tied = _recipe("Q4_0", ["token_embd.weight"], width=256, layers=1)
    assert tied == {"token_embd.weight": "Q6_K"}
    assert _recipe("Q8_0", names, width=256, layers=1)["output.weight"] == "Q8_0"


def test_routers_and_small_weights_keep_their_type() -> None:
    names = ["blk.0.ffn_gate_inp.weight", "blk.0.ssm_conv1d.weight", "blk.0.attn_q.bias"]
    assert Counter(_recipe("Q4_0", names, width=256, layers=1).values()) == {"F16": 3}
