"""llama.cpp as an engine: its server in a child process, from the wheel or as a `llama-server` binary.

The life of a start: translate, start the child, read where it listens, wait until it answers,
read the effective settings back, warm. The wheel has no GPU code, so layers on a GPU need a binary.
"""

import importlib.metadata
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vivace.core import Message, ServingConfig
from vivace.engines.base import ModelFiles
from vivace.engines.llamacpp_args import NAME, SUPPORTED, as_argv, translate
from vivace.engines.llamacpp_running import Launch, RunningLlamaCpp
from vivace.errors import ConfigError
from vivace.hardware import require_platform
from vivace.models.gguf import read_shape


@dataclass(frozen=True, kw_only=True, slots=True)
class _Command:
    """How the child is started."""

    start: tuple[str, ...]
    version: str


class LlamaCpp:
    """The `Engine`; see `engines/base.py`."""

    name = NAME

    def __init__(self, binary: Path | None = None, *, gpu_layers: int | None = None) -> None:
        """`binary`: a `llama-server` to use instead of the wheel.

        `gpu_layers` goes for every configuration that does not say; raises `ConfigError` without
        `binary`.
        """
        if binary is not None and not binary.is_file():
            raise ConfigError(f"`{binary}` is not a file", hint="name a `llama-server` program")
        if gpu_layers is not None and binary is None:
            raise _no_gpu(gpu_layers)
        self.binary = binary.resolve() if binary else None
        self.gpu_layers = gpu_layers
        self.supports: frozenset[str] = SUPPORTED | ({"gpu_layers"} if binary else frozenset[str]())

    def stock(self) -> ServingConfig:
        """`llama-server -m FILE`: everything as it ships.

        4 slots over one unified KV cache, the model's context, prefix cache on with 8 GiB in RAM,
        flash attention auto, f16 KV. `state().settings` has what came of it.
        """
        return ServingConfig(engine=NAME)

    def start(
        self,
        files: ModelFiles,
        config: ServingConfig,
        *,
        workdir: Path,
        prefixes: Sequence[Sequence[Message]] = (),
        timeout_s: float = 120.0,
    ) -> RunningLlamaCpp:
        """Start it and wait until it answers; warming counts towards `timeout_s`.

        Raises `ConfigError` for what llama.cpp cannot do, `EngineStartError` when it fails.
        """
        require_platform()
        if config.gpu_layers is None:
            config = replace(config, gpu_layers=self.gpu_layers)
        elif self.binary is None:
            raise _no_gpu(config.gpu_layers)
        files = replace(files, path=files.path.resolve())
        slots_dir = workdir.resolve() / "slots"
        slots_dir.mkdir(parents=True, exist_ok=True)
        settings = translate(files, config, slots_dir=slots_dir)
        command = self._command()
        launch = Launch(
            files=files,
            config=config,
            settings=settings,
            wheel=self.binary is None,
            command=command.start,
            version=command.version,
            draft_shape=read_shape(files.draft_path) if files.draft_path else None,
            prefixes=tuple(tuple(p) for p in prefixes) if config.warm_prefix else (),
            workdir=workdir.resolve(),
            slots_dir=slots_dir,
            deadline_s=time.monotonic() + timeout_s,
        )
        return RunningLlamaCpp(launch)
