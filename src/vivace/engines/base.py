"""What every engine offers. An engine translates `ServingConfig`; nobody else does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vivace.core import EngineState, MemoryUse, Message, ServingConfig
from vivace.errors import Outcome
from vivace.models.shape import ModelShape


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFiles:
    """The files one configuration needs: the weights of its type, and of its draft."""

    path: Path
    shape: ModelShape
    sha256: str
    draft_path: Path | None = None


class Running(Protocol):
    """An engine that answers at `url` (`http://127.0.0.1:PORT`) until `stop()`."""

    @property
    def url(self) -> str: ...

    @property
    def pids(self) -> Sequence[int]:
        """The processes it consists of, the parent first."""
        ...

    @property
    def engine_args(self) -> Mapping[str, object]:
        """The engine's own words for what it was started with."""
        ...

    def state(self) -> EngineState:
        """Counters and effective settings as the engine reports them now."""
        ...

    def memory(self) -> MemoryUse:
        """Peak memory of the process tree since the start, split as `contract.md` says."""
        ...

    def settle(self) -> bool:
        """Wait until it computes nothing: what clients gave up may run on. False: it goes on."""
        ...

    def reset_cache(self) -> None:
        """Forget every cached prompt; with `warm_prefix` put the shared prefixes back."""
        ...

    def failure(self) -> tuple[Outcome, str] | None:
        """How it died and its last words; `None` while it lives."""
        ...

    def stop(self) -> None:
        """End its processes, by their own ids. Safe to call twice."""
        ...


class Engine(Protocol):
    """A kind of engine, ready to be started any number of times."""

    name: str
    #: Names of the `ServingConfig` fields that it can set.
    supports: frozenset[str]

    def stock(self) -> ServingConfig:
        """What the engine's own server command does when given only a model file."""
        ...

    def start(
        self,
        files: ModelFiles,
        config: ServingConfig,
        *,
        workdir: Path,
        prefixes: Sequence[Sequence[Message]] = (),
        timeout_s: float = 120.0,
    ) -> Running:
        """Start it and wait until it answers; raises `EngineStartError` with a named outcome.

        `workdir` takes its log and its saved prompt states; `prefixes` are the beginnings of
        conversations that `warm_prefix` puts into every slot.
        """
        ...
