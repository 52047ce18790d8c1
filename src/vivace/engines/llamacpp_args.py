"""`ServingConfig` in llama.cpp's words: one translation, and its spelling as command-line flags.

The keys of `Settings` are the parameter names of llama.cpp's `common_params`, which the wheel takes
(`llamacpp_child`); `FLAGS` and `SWITCHES` spell the same for the `llama-server` command. What is
not set stays as `llama-server -m FILE` has it: 4 slots over one unified KV cache (llama.cpp pull
request 17997, 2025-12), the model's context, prefix cache on with 8 GiB in RAM, flash attention
auto, f16 KV.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from vivace.core import ServingConfig, Speculation
from vivace.engines.base import ModelFiles
from vivace.errors import ConfigError

Settings = Mapping[str, str | int | bool]

NAME = "llamacpp"
SUPPORTED = frozenset(
    {
        "weights",
        "slots",
        "context_tokens",
        "prefix_cache",
        "warm_prefix",
        "continuous_batching",
        "flash_attention",
        "threads",
        "kv_type",
        "speculation",
        "batch_tokens",
    }
)
STOCK_SLOTS = 4
#: llama.cpp pads the context of each slot to this many tokens.
CONTEXT_STEP = 256
_STOCK_UBATCH = 512
#: Bytes per element of the KV types (ggml block formats: values plus block scales).
KV_BYTES: Mapping[str, float] = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 8.5 / 8,
    "q5_1": 6.0 / 8,
    "q5_0": 5.5 / 8,
    "q4_1": 5.0 / 8,
    "q4_0": 4.5 / 8,
    "iq4_nl": 4.5 / 8,
}
#: With its own few, requests beyond them wait unread: `/metrics` is not answered under load, and what
#: a client has given up is computed all the same, seconds into the next block (2026-12).
HTTP_THREADS = 256
_PLAIN_KV = frozenset({"f32", "f16", "bf16"})

FLAGS: Mapping[str, str] = {
    "model.path": "--model",
    "n_parallel": "--parallel",
    "n_ctx": "--ctx-size",
    "n_batch": "--batch-size",
    "n_ubatch": "--ubatch-size",
    "cache_ram_mib": "--cache-ram",
    "cpuparams.n_threads": "--threads",
    "cpuparams_batch.n_threads": "--threads-batch",
    "flash_attn_type": "--flash-attn",
    "cache_type_k": "--cache-type-k",
    "cache_type_v": "--cache-type-v",
    "n_gpu_layers": "--gpu-layers",
    "slot_save_path": "--slot-save-path",
    "n_threads_http": "--threads-http",
    "speculative.types": "--spec-type",
    "speculative.ngram_mod.n_match": "--spec-ngram-mod-n-match",
    "speculative.ngram_mod.n_min": "--spec-ngram-mod-n-min",
    "speculative.ngram_mod.n_max": "--spec-ngram-mod-n-max",
    "speculative.draft.mparams.path": "--spec-draft-model",
    "speculative.draft.n_min": "--spec-draft-n-min",
    "speculative.draft.n_max": "--spec-draft-n-max",
    "speculative.draft.cpuparams.n_threads": "--spec-draft-threads",
    "speculative.draft.cpuparams_batch.n_threads": "--spec-draft-threads-batch",
}
#: Parameter -> flag when true, flag when false.
SWITCHES: Mapping[str, tuple[str, str]] = {
    "kv_unified": ("--kv-unified", "--no-kv-unified"),
    "cache_prompt": ("--cache-prompt", "--no-cache-prompt"),
    "cont_batching": ("--cont-batching", "--no-cont-batching"),
    "endpoint_slots": ("--slots", "--no-slots"),
    "endpoint_metrics": ("--metrics", ""),
}


def translate(files: ModelFiles, config: ServingConfig, *, slots_dir: Path) -> Settings:
    """What to set for `config`; raises `ConfigError` for what llama.cpp cannot do."""
    _check(files, config)
    settings: dict[str, str | int | bool] = {
        "model.path": str(files.path),
        "endpoint_metrics": True,
        "endpoint_slots": True,
        "n_threads_http": HTTP_THREADS,
        # llama.cpp joins this with the file name as it stands: the slash is needed.
        "slot_save_path": f"{slots_dir}/",
    }
    if config.slots is not None:
        settings |= {"n_parallel": config.slots, "kv_unified": False}
    if config.context_tokens is not None:
        settings["n_ctx"] = (config.slots or STOCK_SLOTS) * _padded(config.context_tokens)
    settings |= _caching(config)
    if config.continuous_batching is not None:
        settings["cont_batching"] = config.continuous_batching
    if config.flash_attention is not None:
        settings["flash_attn_type"] = "on" if config.flash_attention else "off"
    if config.threads is not None:
        settings["cpuparams.n_threads"] = config.threads
        settings["cpuparams_batch.n_threads"] = config.threads
    if config.kv_type is not None:
        settings |= {"cache_type_k": config.kv_type, "cache_type_v": config.kv_type}
    if config.batch_tokens is not None:
        settings["n_batch"] = config.batch_tokens
        settings["n_ubatch"] = min(config.batch_tokens, _STOCK_UBATCH)
    if config.gpu_layers is not None:
        settings["n_gpu_layers"] = config.gpu_layers
    if config.speculation is not None:
        settings |= _speculation(config.speculation, files, config.threads)
    return settings


def as_flags(settings: Settings) -> dict[str, str | int | bool]:
    """The settings as flags of `llama-server`, each with its value; `True` where it takes none."""
    flags: dict[str, str | int | bool] = {}
    for name, value in settings.items():
        if name in SWITCHES:
            flag = SWITCHES[name][0 if value else 1]
            if flag:
                flags[flag] = True
        else:
            flags[FLAGS[name]] = value
    return flags


def as_argv(settings: Settings) -> list[str]:
    """The settings as arguments of `llama-server`."""
    argv: list[str] = []
    for flag, value in as_flags(settings).items():
        argv += [flag] if value is True else [flag, str(value)]
    return argv


def wheel_command(settings: Settings, *, port: int) -> list[str]:
    """How to start the wheel's server; port 0 lets it choose."""
    child = [sys.executable, "-P", "-m", "vivace.engines.llamacpp_child"]
    return [*child, json.dumps({**settings, "port": port})]


def binary_command(binary: Path, settings: Settings, *, port: int) -> list[str]:
    """How to start `llama-server`, tied to the life of this process."""
    lifeline = [sys.executable, "-P", "-m", "vivace.engines.lifeline"]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    return [*lifeline, str(binary), *as_argv(settings), *address]


def uses_ram_cache(settings: Settings) -> bool:
    """Whether prompts are also kept in RAM outside the slots, where erasing slots leaves them."""
    return settings.get("cache_ram_mib") != 0


def _check(files: ModelFiles, config: ServingConfig) -> None:
    if config.engine != NAME:
        raise ConfigError(f"engine `{config.engine}` is not `{NAME}`")
    if config.warm_prefix and config.prefix_cache is False:
        raise ConfigError("warm_prefix needs the prefix cache, and prefix_cache is False")
    kv_type = config.kv_type or "f16"
    if kv_type not in KV_BYTES:
        raise ConfigError(
            f"llama.cpp has no KV type `{kv_type}`", hint=f"one of: {', '.join(KV_BYTES)}"
        )
    if kv_type not in _PLAIN_KV and config.flash_attention is False:
        raise ConfigError(
            f"a KV cache of type `{kv_type}` needs flash attention, and flash_attention is False",
            hint="switch flash attention on, or keep the KV cache at `f16`",
        )
    if config.context_tokens is not None and config.context_tokens > files.shape.context:
        raise ConfigError(
            f"context_tokens is {config.context_tokens}, "
            f"the model was made for {files.shape.context}",
            hint="shorten the requests, or choose a model with a longer context",
        )


def _padded(tokens: int) -> int:
    return -(-tokens // CONTEXT_STEP) * CONTEXT_STEP


def _caching(config: ServingConfig) -> Settings:
    """The cache in RAM moves prompts between slots and empties idle ones: it would undo warmed slots."""
    if config.prefix_cache is False:
        return {"cache_prompt": False, "cache_ram_mib": 0}
    own_slots = config.prefix_cache is True and config.slots is not None
    caching: dict[str, str | int | bool] = {"cache_prompt": True} if config.prefix_cache else {}
    return caching | ({"cache_ram_mib": 0} if own_slots or config.warm_prefix else {})


def _speculation(
    speculation: Speculation, files: ModelFiles, threads: int | None
) -> dict[str, str | int | bool]:
    limits = {"n_min": speculation.n_min, "n_max": speculation.n_max}
    if speculation.kind == "ngram":
        if speculation.n_match is not None:
            limits["n_match"] = speculation.n_match
        named = {f"speculative.ngram_mod.{k}": v for k, v in limits.items()}
        return {"speculative.types": "ngram-mod", **named}
    if files.draft_path is None:
        raise ConfigError(
            f"speculation with a draft of type `{speculation.draft_weights}` has no draft file"
        )
    if threads is not None:
        limits |= {"cpuparams.n_threads": threads, "cpuparams_batch.n_threads": threads}
    named = {f"speculative.draft.{k}": v for k, v in limits.items()}
    path = {"speculative.draft.mparams.path": str(files.draft_path)}
    return {"speculative.types": "draft-simple", **path, **named}
