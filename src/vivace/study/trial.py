"""What one trial is asked to measure, and what it has measured so far."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from vivace.core import MemoryUse, Record, ServingConfig, TrialStatus
from vivace.measure.samples import Samples

Split = Literal["tune", "validate"]
#: `glance`: after the first single block; `single` and `loaded`: after all blocks of a kind.
Phase = Literal["glance", "single", "loaded"]
#: Called after each phase. A reason ends the trial there, "" goes on, `None` asks for more blocks.
Gate = Callable[["Measured", Phase], str | None]


def always(_measured: "Measured", phase: Phase) -> str | None:
    """Measures everything: one round of turns."""
    return None if phase == "glance" else ""


def every_round(_measured: "Measured", phase: Phase) -> str | None:
    """Measures everything, in as many rounds of turns as were asked for."""
    return "" if phase == "loaded" else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """What one trial is to measure."""

    id: str
    config: ServingConfig
    split: Split = "tune"
    #: Marks the questions, so that an engine that has run before has not seen them.
    salt: str = ""
    #: Requests of one single block; a round of turns has two blocks of each side.
    block: int = 3
    #: The second half of a round of turns: without it each side has one block of a round.
    there_and_back: bool = True
    #: Most rounds of turns while the gate asks for more.
    rounds: int = 1
    levels: tuple[int, ...] = (16,)
    #: Without levels: why there are none.
    no_load: str = ""
    gate: Gate = always
    #: Length of its load windows; by default a candidate's parts make a whole one together, and a
    #: reference between them gets as much as each part.
    window_s: float | None = None
    #: On the driver's clock; the trial gives up what it has not measured by then.
    deadline_ns: int | None = None
    #: What was measured by then stands, where it is enough to compare.
    keeps_part: bool = False


@dataclass(slots=True)
class Measured:
    """What a trial has measured so far: the live object behind a `Finished`."""

    ask: Ask
    status: TrialStatus = "ok"
    reason: str = ""
    #: Its engine died or fell silent, which may have been chance: a second attempt tells.
    lost: bool = False
    samples: Samples = field(default_factory=Samples)
    by_level: dict[int, Samples] = field(default_factory=dict[int, Samples])
    #: Single blocks and load blocks in the order in which they were measured.
    single_blocks: list[Samples] = field(default_factory=list[Samples])
    load_blocks: list[Samples] = field(default_factory=list[Samples])
    #: The other sides' trials, measured in turn with this one.
    others: "list[Measured]" = field(default_factory=list["Measured"])
    memory: MemoryUse | None = None
    warmup_s: float | None = None
    wall_s: float = 0.0
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    engine_args: dict[str, object] = field(default_factory=dict[str, object])
    settings: dict[str, object] = field(default_factory=dict[str, object])
    records: list[tuple[str, Record]] = field(default_factory=list[tuple[str, Record]])
    #: Share of the CPU that other processes took, of each block.
    foreign_shares: list[float] = field(default_factory=list[float])
    notes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
