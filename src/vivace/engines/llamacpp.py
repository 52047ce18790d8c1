"""llama.cpp as an engine: its server in a child process, from the wheel or as a `llama-server` binary.

The wheel has no GPU code, so layers on a GPU need a binary.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vivace.core import Message, ServingConfig
from vivace.engines.base import ModelFiles
from vivace.engines.llamacpp_args import NAME, SUPPORTED, translate
from vivace.engines.llamacpp_running import Launch, RunningLlamaCpp
from vivace.errors import ConfigError, EngineStartError
from vivace.hardware import require_platform
from vivace.models.gguf import read_shape


class LlamaCpp:
    """The `Engine`; see `engines/base.py`."""

    def __init__(self, binary: Path | None = None, *, gpu_layers: int | None = None) -> None:
        """`binary`: a `llama-server` to use instead of the wheel.

        `gpu_layers` goes for every configuration that does not say. Raises `ConfigError` where
        there is no such file, or layers are asked for without a binary.
        """
        if binary is not None and not binary.is_file():
            raise ConfigError(f"`{binary}` is not a file", hint="name a `llama-server` program")
        self.name = NAME
        self.binary = binary.resolve() if binary else None
        self.gpu_layers = gpu_layers
        self.supports: frozenset[str] = SUPPORTED | ({"gpu_layers"} if binary else frozenset[str]())
        self._check_gpu(gpu_layers)

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
        """Start it, wait until it answers, warm it: all within `timeout_s`.

        Raises `ConfigError` for what llama.cpp cannot do, `EngineStartError` when it fails.
        """
        require_platform()
        self._check_gpu(config.gpu_layers)
        if config.gpu_layers is None:
            config = replace(config, gpu_layers=self.gpu_layers)
        workdir = workdir.resolve()
        slots_dir = workdir / "slots"
        draft_path = files.draft_path.resolve() if files.draft_path else None
        files = replace(files, path=files.path.resolve(), draft_path=draft_path)
        draft = read_shape(files.draft_path) if files.draft_path and config.speculation else None
        launch = Launch(
            files=files,
            config=config,
            settings=translate(files, config, slots_dir=slots_dir),
            binary=self.binary,
            draft=draft,
            prefixes=tuple(tuple(p) for p in prefixes) if config.warm_prefix else (),
            workdir=workdir,
            slots_dir=slots_dir,
            timeout_s=timeout_s,
        )
        try:
            slots_dir.mkdir(parents=True, exist_ok=True)
            return RunningLlamaCpp(launch)
        except OSError as error:
            raise EngineStartError(
                f"the folder `{workdir}` for logs and saved prompts cannot be used: {error}",
                outcome="infeasible",
            ) from error

    def _check_gpu(self, gpu_layers: int | None) -> None:
        if gpu_layers is not None and self.binary is None:
            raise ConfigError(
                f"gpu_layers is {gpu_layers}, and the wheel `xllamacpp` has no GPU code",
                hint="name a `llama-server` that was built for the GPU",
            )
