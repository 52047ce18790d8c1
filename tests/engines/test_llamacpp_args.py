"""Every setting of a configuration reaches llama.cpp, as a parameter of the wheel and as a flag."""

from dataclasses import replace
from pathlib import Path

import pytest

from vivace.core import ServingConfig, Speculation
from vivace.engines.base import ModelFiles
from vivace.engines.llamacpp import LlamaCpp
from vivace.engines.llamacpp_args import (
    as_argv,
    as_flags,
    binary_command,
    translate,
    uses_ram_cache,
)
from vivace.engines.llamacpp_child import parameters
from vivace.errors import ConfigError

SLOTS_DIR = Path("/saved")
ALWAYS = {
    "endpoint_metrics": True,
    "endpoint_slots": True,
    "n_threads_http": 256,
    "slot_save_path": "/saved/",
}
NGRAM = Speculation(kind="ngram", n_max=16, n_min=2, n_match=8)
DRAFT = Speculation(kind="draft", n_max=4, n_min=1, draft_weights="Q4_0")


def settings_of(files: ModelFiles, config: ServingConfig) -> dict[str, object]:
    settings = dict(translate(files, config, slots_dir=SLOTS_DIR))
    assert settings.pop("model.path") == str(files.path)
    assert {k: settings.pop(k) for k in ALWAYS} == ALWAYS
    return settings


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (ServingConfig(), {}),
        (ServingConfig(slots=16), {"n_parallel": 16, "kv_unified": False}),
        (
            ServingConfig(slots=3, context_tokens=1000),
            {"n_parallel": 3, "kv_unified": False, "n_ctx": 3072},
        ),
        (ServingConfig(slots=1, context_tokens=8192), {"n_parallel": 1, "kv_unified": False, "n_ctx": 8192}),
        (ServingConfig(context_tokens=257), {"n_ctx": 2048}),
        (ServingConfig(prefix_cache=False), {"cache_prompt": False, "cache_ram_mib": 0}),
        (ServingConfig(prefix_cache=True), {"cache_prompt": True}),
        (
            ServingConfig(prefix_cache=True, slots=2),
            {"n_parallel": 2, "kv_unified": False, "cache_prompt": True, "cache_ram_mib": 0},
        ),
        (ServingConfig(warm_prefix=True), {"cache_ram_mib": 0}),
        (ServingConfig(continuous_batching=False), {"cont_batching": False}),
        (ServingConfig(continuous_batching=True), {"cont_batching": True}),
        (ServingConfig(flash_attention=True), {"flash_attn_type": "on"}),
        (ServingConfig(flash_attention=False), {"flash_attn_type": "off"}),
        (ServingConfig(threads=3), {"cpuparams.n_threads": 3, "cpuparams_batch.n_threads": 3}),
        (ServingConfig(kv_type="q8_0"), {"cache_type_k": "q8_0", "cache_type_v": "q8_0"}),
        (ServingConfig(batch_tokens=256), {"n_batch": 256, "n_ubatch": 256}),
        (ServingConfig(batch_tokens=4096), {"n_batch": 4096, "n_ubatch": 512}),
        (ServingConfig(gpu_layers=12), {"n_gpu_layers": 12}),
        (
            ServingConfig(speculation=NGRAM),
            {
                "speculative.types": "ngram-mod",
                "speculative.ngram_mod.n_match": 8,
                "speculative.ngram_mod.n_min": 2,
                "speculative.ngram_mod.n_max": 16,
            },
        ),
        (
            ServingConfig(speculation=Speculation(kind="ngram", n_max=4)),
            {
                "speculative.types": "ngram-mod",
                "speculative.ngram_mod.n_min": 0,
                "speculative.ngram_mod.n_max": 4,
            },
        ),
    ],
)  # fmt: skip
def test_a_configuration_sets_exactly_its_parameters(
    files: ModelFiles, config: ServingConfig, expected: dict[str, object]
) -> None:
    assert settings_of(files, config) == expected


def test_a_draft_brings_its_file_its_limits_and_the_threads(files: ModelFiles) -> None:
    files = replace(files, draft_path=Path("/draft.gguf"))
    assert settings_of(files, ServingConfig(speculation=DRAFT)) == {
        "speculative.types": "draft-simple",
        "speculative.draft.mparams.path": "/draft.gguf",
        "speculative.draft.n_min": 1,
        "speculative.draft.n_max": 4,
    }
    threaded = settings_of(files, ServingConfig(speculation=DRAFT, threads=2))
    assert threaded["speculative.draft.cpuparams.n_threads"] == 2
    assert threaded["speculative.draft.cpuparams_batch.n_threads"] == 2


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (ServingConfig(engine="vllm"), "vllm"),
        (ServingConfig(kv_type="q8_0", flash_attention=False), "flash_attention"),
        (ServingConfig(kv_type="int3"), "int3"),
        (ServingConfig(context_tokens=8193), "8193"),
        (ServingConfig(warm_prefix=True, prefix_cache=False), "warm_prefix"),
        (ServingConfig(speculation=DRAFT), "Q4_0"),
    ],
)
def test_what_llama_cpp_cannot_do_is_refused_by_name(
    files: ModelFiles, config: ServingConfig, named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        translate(files, config, slots_dir=SLOTS_DIR)


def test_an_f16_kv_cache_works_without_flash_attention(files: ModelFiles) -> None:
    config = ServingConfig(kv_type="f16", flash_attention=False)
    assert settings_of(files, config)["cache_type_v"] == "f16"


EVERYTHING = ServingConfig(
    slots=2,
    context_tokens=512,
    prefix_cache=True,
    continuous_batching=False,
    flash_attention=True,
    threads=2,
    kv_type="q8_0",
    batch_tokens=128,
    gpu_layers=7,
    speculation=NGRAM,
)


def test_the_command_line_has_every_setting_as_a_flag(files: ModelFiles) -> None:
    argv = as_argv(translate(files, EVERYTHING, slots_dir=SLOTS_DIR))
    assert argv == [
        *("--model", str(files.path), "--metrics", "--slots"),
        *("--threads-http", "256", "--slot-save-path", "/saved/"),
        *("--parallel", "2", "--no-kv-unified", "--ctx-size", "1024"),
        *("--cache-prompt", "--cache-ram", "0", "--no-cont-batching", "--flash-attn", "on"),
        *("--threads", "2", "--threads-batch", "2"),
        *("--cache-type-k", "q8_0", "--cache-type-v", "q8_0"),
        *("--batch-size", "128", "--ubatch-size", "128", "--gpu-layers", "7"),
        *("--spec-type", "ngram-mod", "--spec-ngram-mod-n-min", "2"),
        *("--spec-ngram-mod-n-max", "16", "--spec-ngram-mod-n-match", "8"),
    ]


def test_a_binary_is_told_to_listen_on_loopback_only(files: ModelFiles) -> None:
    settings = translate(files, ServingConfig(prefix_cache=False), slots_dir=SLOTS_DIR)
    command = binary_command(Path("/opt/llama-server"), settings, port=0)
    assert command[-4:] == ["--host", "127.0.0.1", "--port", "0"]
    start = command.index("/opt/llama-server")
    assert command[start + 1 : -4] == as_argv(settings)
    assert "--no-cache-prompt" in command


def test_flags_without_a_value_are_true(files: ModelFiles) -> None:
    flags = as_flags(translate(files, ServingConfig(slots=4), slots_dir=SLOTS_DIR))
    assert flags["--no-kv-unified"] is True
    assert flags["--parallel"] == 4


def test_the_wheel_takes_every_parameter(files: ModelFiles) -> None:
    xllamacpp = pytest.importorskip("xllamacpp")
    settings = dict(translate(files, EVERYTHING, slots_dir=SLOTS_DIR))
    params = parameters(xllamacpp, settings)
    assert (params.n_parallel, params.kv_unified, params.n_ctx) == (2, False, 1024)
    assert (params.cache_prompt, params.cache_ram_mib, params.cont_batching) == (True, 0, False)
    assert params.flash_attn_type == xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_ENABLED
    assert params.cache_type_k == params.cache_type_v == xllamacpp.ggml_type.GGML_TYPE_Q8_0
    assert (params.cpuparams.n_threads, params.cpuparams_batch.n_threads) == (2, 2)
    assert (params.n_batch, params.n_ubatch, params.n_gpu_layers) == (128, 128, 7)
    kinds = xllamacpp.common_speculative_type
    assert params.speculative.types == [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_MOD]
    ngram = params.speculative.ngram_mod
    assert (ngram.n_match, ngram.n_min, ngram.n_max) == (8, 2, 16)
    assert (params.model.path, params.slot_save_path) == (str(files.path), "/saved/")


def test_the_wheel_takes_a_draft(files: ModelFiles) -> None:
    xllamacpp = pytest.importorskip("xllamacpp")
    files = replace(files, draft_path=Path("/draft.gguf"))
    settings = dict(
        translate(files, ServingConfig(speculation=DRAFT, threads=2), slots_dir=SLOTS_DIR)
    )
    draft = parameters(xllamacpp, settings).speculative.draft
    assert (draft.mparams.path, draft.n_min, draft.n_max) == ("/draft.gguf", 1, 4)
    assert (draft.cpuparams.n_threads, draft.cpuparams_batch.n_threads) == (2, 2)


def test_the_wheel_starts_as_the_server_command_does(files: ModelFiles) -> None:
    xllamacpp = pytest.importorskip("xllamacpp")
    params = parameters(xllamacpp, dict(translate(files, ServingConfig(), slots_dir=SLOTS_DIR)))
    assert (params.n_parallel, params.kv_unified, params.n_ctx) == (4, True, 0)
    assert (params.cache_prompt, params.cache_ram_mib, params.cont_batching) == (True, 8192, True)


def test_only_a_cache_in_ram_outlives_an_erased_slot(files: ModelFiles) -> None:
    def ram(config: ServingConfig) -> bool:
        return uses_ram_cache(translate(files, config, slots_dir=SLOTS_DIR))

    assert ram(ServingConfig())
    assert ram(ServingConfig(slots=2))
    assert not ram(ServingConfig(prefix_cache=False))
    assert not ram(ServingConfig(slots=2, prefix_cache=True))


def test_gpu_layers_are_a_setting_only_with_a_binary(binary: Path) -> None:
    assert "gpu_layers" not in LlamaCpp().supports
    assert "gpu_layers" in LlamaCpp(binary).supports
    assert LlamaCpp().supports < LlamaCpp(binary).supports
    with pytest.raises(ConfigError, match="gpu_layers is 3"):
        LlamaCpp(gpu_layers=3)


def test_the_wheel_refuses_gpu_layers_of_a_configuration(files: ModelFiles, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="gpu_layers is 9"):
        LlamaCpp().start(files, ServingConfig(gpu_layers=9), workdir=tmp_path)


def test_a_binary_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not a file"):
        LlamaCpp(tmp_path / "llama-server")


def test_supported_settings_are_fields_of_the_configuration(binary: Path) -> None:
    fields = set(ServingConfig.__dataclass_fields__)
    assert LlamaCpp(binary).supports == fields - {"engine"}
