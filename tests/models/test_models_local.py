"""Finding a model on the disk, the home folder and the cache."""

import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from vivace.errors import ConfigError, ModelError
from vivace.models import known, local
from vivace.models.cache import clean_cache, list_cache
from vivace.models.files import human, locked, require_room, sha256_of
from vivace.models.home import vivace_home
from vivace.models.make import make_type
from vivace.models.model import Model, require_gguf
from vivace.models.resolve import resolve

Writer = Callable[..., Path]
AsModel = Callable[[Path], Model]


def _never(line: str) -> bool:
    raise AssertionError(f"asked: {line}")


def _resolve(spec: str, home: Path) -> Model:
    return resolve(spec, home=home, offline=True, say=print, confirm=_never)


def _safetensors(folder: Path, *, cut: int = 0, config: dict[str, object] | None = None) -> Path:
    folder.mkdir()
    body = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 128,
        "vocab_size": 96,
        "max_position_embeddings": 512,
    }
    (folder / "config.json").write_text(json.dumps(body if config is None else config))
    table = {
        "__metadata__": {"format": "pt"},
        "embed": {"dtype": "BF16", "shape": [96, 64], "data_offsets": [0, 12288]},
        "norm": {"dtype": "F32", "shape": [64], "data_offsets": [12288, 12544]},
    }
    header = json.dumps(table).encode()
    data = struct.pack("<Q", len(header)) + header + bytes(12544)
    (folder / "model.safetensors").write_bytes(data[: len(data) - cut])
    return folder


def test_a_path_to_a_file_is_the_model(tiny: Path, home: Path) -> None:
    model = _resolve(str(tiny), home)
    assert (model.name, model.path, model.licence) == ("Tiny", tiny, "mit")
    assert model.sha256 == sha256_of([tiny])
    assert model.shape.layers == 4
    require_gguf(model)


def test_a_folder_with_one_gguf_is_that_model(tiny: Path, home: Path) -> None:
    (tiny.parent / "mmproj-tiny.gguf").write_bytes(b"not looked at")
    assert _resolve(str(tiny.parent), home).path == tiny


def test_a_folder_with_several_lists_them(tiny: Path, home: Path, write: Writer) -> None:
    write(tiny.with_name("other.gguf"))
    with pytest.raises(ModelError, match=r"2 models: other\.gguf, tiny\.gguf"):
        _resolve(str(tiny.parent), home)


def test_a_folder_without_a_model_says_what_was_looked_for(tmp_path: Path, home: Path) -> None:
    with pytest.raises(ModelError, match=r"no model in .*looked for one `\*\.gguf`"):
        _resolve(str(home), home)


def test_an_existing_path_wins_over_a_hub_id(
    tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny.parent / "org" / "name"
    folder.mkdir(parents=True)
    tiny.rename(folder / "tiny.gguf")
    monkeypatch.chdir(tiny.parent)
    assert _resolve("org/name", home).path == folder / "tiny.gguf"


@pytest.mark.parametrize("spec", ["no-such-model", "./org/name", "a/b/c", "http://x/y"])
def test_an_unknown_model_lists_the_accepted_forms(home: Path, spec: str) -> None:
    with pytest.raises(ModelError, match="no path that exists") as error:
        _resolve(spec, home)
    for form in (".gguf", "org/name", "pypi:", "modelscope:"):
        assert form in error.value.hint


def test_a_missing_file_is_not_taken_for_a_hub_id(home: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no file `models/x\.gguf`"):
        _resolve("models/x.gguf", home)


def test_a_name_too_long_for_a_path_is_told(home: Path) -> None:
    with pytest.raises(ModelError, match="cannot read"):
        _resolve("x" * 5000, home)


def test_a_safetensors_folder_is_read_and_refused_for_llama_cpp(tmp_path: Path, home: Path) -> None:
    model = _resolve(str(_safetensors(tmp_path / "Llama-Mini")), home)
    shape = model.shape
    assert (model.name, shape.weight_type, shape.key_size, shape.kv_heads) == (
        "Llama-Mini",
        "BF16",
        16,
        2,
    )
    assert (shape.parameters, shape.tensor_bytes, shape.widths) == (96 * 64 + 64, 12544, {64: 6144})
    for refused in (
        lambda: require_gguf(model),
        lambda: make_type(model, "F16", home=home, say=print),
    ):
        with pytest.raises(ModelError, match="safetensors folder") as error:
            refused()
        assert "convert" in error.value.hint


def test_the_language_part_of_a_larger_model_is_read(tmp_path: Path, home: Path) -> None:
    text = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "vocab_size": 9}
    folder = _safetensors(tmp_path / "m", config={"model_type": "vl", "text_config": text})
    assert _resolve(str(folder), home).shape.layers == 3


@pytest.mark.parametrize("cut", [1, 12544 + 50, 12544 + 400])
def test_a_cut_safetensors_file_is_told(tmp_path: Path, home: Path, cut: int) -> None:
    with pytest.raises(ModelError, match="cut off or damaged"):
        _resolve(str(_safetensors(tmp_path / "m", cut=cut)), home)


def test_an_absurd_safetensors_header_is_told(tmp_path: Path, home: Path) -> None:
    file = _safetensors(tmp_path / "m") / "model.safetensors"
    file.write_bytes(struct.pack("<Q", 1 << 60) + file.read_bytes()[8:])
    with pytest.raises(ModelError, match="its header length is"):
        _resolve(str(file.parent), home)


def test_a_config_without_a_key_is_told(tmp_path: Path, home: Path) -> None:
    folder = _safetensors(tmp_path / "m", config={"hidden_size": 64})
    with pytest.raises(ModelError, match="num_hidden_layers"):
        _resolve(str(folder), home)


def test_a_damaged_copy_of_a_published_file_is_told(
    tiny: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = known.KnownFile(
        spec="pypi:tiny==1",
        name="Tiny-Instruct",
        title="Tiny",
        file_bytes=tiny.stat().st_size,
        download_bytes=1,
        sha256=sha256_of([tiny]),
        licence="MIT",
    )
    monkeypatch.setattr(known, "KNOWN", (published,))
    assert local.local(tiny).sha256 == published.sha256
    with tiny.open("r+b") as file:
        file.seek(-100, os.SEEK_END)
        file.write(b"\xff" * 8)
    with pytest.raises(ModelError, match="a damaged copy of Tiny-Instruct") as error:
        local.local(tiny)
    assert "pypi:tiny==1" in error.value.hint


def test_home_is_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path / "a" / "b"))
    assert vivace_home() == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()


def test_home_without_the_variable_is_the_platform_s_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VIVACE_HOME", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert vivace_home() == tmp_path / "data" / "vivace"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert vivace_home() == tmp_path / ".local" / "share" / "vivace"
    monkeypatch.setattr("sys.platform", "darwin")
    assert vivace_home() == tmp_path / "Library" / "Application Support" / "vivace"


def test_an_unusable_home_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VIVACE_HOME", str(tmp_path / "file" / "home"))
    with pytest.raises(ConfigError, match="cannot write to") as error:
        vivace_home()
    assert "VIVACE_HOME" in error.value.hint


def test_a_home_that_refuses_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    # `/proc` refuses new files to everybody, root included.
    monkeypatch.setenv("VIVACE_HOME", "/proc/self")
    with pytest.raises(ConfigError, match="cannot write to `/proc/self`"):
        vivace_home()


def test_the_cache_lists_and_cleans_what_was_made(
    tiny: Path, home: Path, as_model: AsModel
) -> None:
    made = make_type(as_model(tiny), "Q8_0", home=home, say=print)
    (home / "mine.txt").write_text("keep")
    (entry,) = list_cache(home)
    assert (entry.kind, entry.path, entry.bytes) == ("made", made, made.stat().st_size)
    assert abs(entry.used - time.time()) < 60
    assert clean_cache(home) == entry.bytes
    assert list_cache(home) == []
    assert not made.parent.exists()
    assert (home / "mine.txt").exists()
    assert tiny.exists()


def test_cleaning_by_age_keeps_what_was_used_lately(
    tiny: Path, home: Path, as_model: AsModel
) -> None:
    old = make_type(as_model(tiny), "Q8_0", home=home, say=print)
    new = make_type(as_model(tiny), "F16", home=home, say=print)
    three_days_ago = time.time() - 3 * 86_400
    os.utime(old, (three_days_ago, three_days_ago))
    assert clean_cache(home, older_than_days=4) == 0
    size = old.stat().st_size
    assert clean_cache(home, older_than_days=2) == size
    assert [e.path for e in list_cache(home)] == [new]


def test_using_a_made_type_again_keeps_it_young(tiny: Path, home: Path, as_model: AsModel) -> None:
    made = make_type(as_model(tiny), "Q8_0", home=home, say=print)
    os.utime(made, (0, 0))
    make_type(as_model(tiny), "Q8_0", home=home, say=print)
    assert clean_cache(home, older_than_days=1) == 0


def test_cleaning_removes_what_a_killed_run_left(tiny: Path, home: Path, as_model: AsModel) -> None:
    made = make_type(as_model(tiny), "Q8_0", home=home, say=print)
    part = made.with_name(".F16-1.gguf.part")
    part.write_bytes(bytes(1000))
    assert clean_cache(home, older_than_days=1) == 1000
    assert made.exists() and not part.exists()


def test_an_empty_home_has_an_empty_cache(home: Path) -> None:
    assert list_cache(home) == []
    assert clean_cache(home) == 0


def test_a_lock_is_free_again_after_an_error(home: Path) -> None:
    said: list[str] = []
    with pytest.raises(RuntimeError), locked(home, "x", say=said.append):
        raise RuntimeError
    with locked(home, "x", say=said.append):
        pass
    assert said == []


def test_a_disk_with_just_enough_room_is_enough(home: Path) -> None:
    require_room(home, 1, what="x")
    with pytest.raises(ModelError, match=r"for x: .* needed, .* free"):
        require_room(home, 1 << 62, what="x")


@pytest.mark.parametrize(
    ("size", "text"), [(98_362_432, "98.4 MB"), (0, "0.0 MB"), (1_500_000_000, "1.5 GB")]
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert human(size) == text
