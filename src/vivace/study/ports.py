"""What a study needs from outside, so that it runs on a real engine and in virtual time alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vivace.core import QualityResult, ServingConfig
from vivace.engines.base import Engine, ModelFiles, Running
from vivace.hardware import CpuMark
from vivace.load.base import Driver
from vivace.models.shape import ModelShape
from vivace.workload.base import Workload

#: Progress lines for a person.
Say = Callable[[str], None]


class Judge(Protocol):
    """Measures quality against the 16-bit reference, in stages while the verdict is in doubt."""

    #: What the reference is, for every place where a loss is printed.
    reference_name: str

    @property
    def stages(self) -> int:
        """How often texts can be added."""
        ...

    def knows(self, stage: int) -> bool:
        """Whether the reference has been through the texts of this stage."""
        ...

    def learn_reference(self, running: Running, stage: int) -> str:
        """Score texts on an engine that runs the 16-bit reference; all so far, for `recall`."""
        ...

    def recall(self, stored: str) -> None:
        """Take the reference that an earlier run stored."""
        ...

    def judge(self, running: Running, stage: int) -> QualityResult:
        """Score texts on a candidate and compare all up to this stage; early only towards `fail`.

        Stage 0 begins a candidate.
        """
        ...


class Files(Protocol):
    """Weights on disk for a configuration; makes a type that is not there yet."""

    def __call__(self, config: ServingConfig) -> ModelFiles: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Tools:
    """Everything a study drives."""

    engine: Engine
    driver: Driver
    judge: Judge
    files: Files
    workload: Workload
    shape: ModelShape
    #: Weight types to try -> why not (`None`: fits), most careful first.
    weight_types: Mapping[str, str | None]
    cores: int
    #: Memory that engines may still take, in bytes; `None` where only one may run at a time.
    free_memory: Callable[[], int | None]
    #: CPU time so far, with the processes that are our own; `None` where it cannot be told.
    cpu_mark: Callable[[Sequence[int]], CpuMark | None]
    workdir: Path
    say: Say
