"""Weights on disk for a configuration, and the documented way to start a tuned one."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from vivace.core import ServingConfig
from vivace.engines.base import Engine, ModelFiles, Running
from vivace.errors import ModelError
from vivace.models.gguf import read_shape
from vivace.models.home import vivace_home
from vivace.models.make import make_type
from vivace.models.model import Model
from vivace.models.resolve import resolve
from vivace.study.ports import Say
from vivace.study.tuned import read_tuned


class FilesOnDisk:
    """Weights of a configuration, made when they are first asked for."""

    def __init__(self, model: Model, *, home: Path, say: Say) -> None:
        self._model, self._home, self._say = model, home, say
        self._paths: dict[str, Path] = {"source": model.path}

    def __call__(self, config: ServingConfig) -> ModelFiles:
        path = self._path(config.weights)
        draft = config.speculation.draft_weights if config.speculation is not None else None
        return ModelFiles(
            path=path,
            shape=read_shape(path),
            sha256=self._model.sha256,
            draft_path=self._path(draft) if draft is not None else None,
        )

    def _path(self, weights: str) -> Path:
        if weights not in self._paths:
            self._paths[weights] = make_type(self._model, weights, home=self._home, say=self._say)
        return self._paths[weights]


@contextmanager
def start_tuned(
    path: Path, engine: Engine, *, workdir: Path, offline: bool = False, say: Say = lambda _: None
) -> Generator[Running]:
    """The configuration of a `tuned.yaml`, answering at `.url` until the block ends.

    `workdir` takes the log and the saved prompt states: the study's own folder starts warm.
    Raises `ModelError` when the model found is not the one that was measured.
    """
    tuned = read_tuned(path)
    home = vivace_home()
    model = resolve(tuned.model.source, home=home, offline=offline, say=say, confirm=lambda _: True)
    if model.sha256 != tuned.model.sha256:
        raise ModelError(
            f"`{tuned.model.source}` is not the model that was tuned: its hash differs",
            hint="run `vivace tune` on this file",
        )
    files = FilesOnDisk(model, home=home, say=say)(tuned.config)
    running = engine.start(files, tuned.config, workdir=workdir, prefixes=tuned.warm_prefixes)
    try:
        yield running
    finally:
        running.stop()
