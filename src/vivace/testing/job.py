"""One request inside the scripted engine, and the engine's totals. Times are integers in ns."""

from dataclasses import dataclass, field
from typing import Literal

from vivace.testing.text import Prompt, Segment

JobState = Literal["queued", "prefill", "decode", "ok", "error", "cancelled"]


@dataclass(slots=True, eq=False)
class Job:
    """One request inside the engine."""

    number: int
    prompt: Prompt
    prompt_tokens: int
    answer_tokens: int
    finish_reason: Literal["stop", "length"]
    submitted_ns: int
    wanted_slot: int | None
    factor: float
    state: JobState = "queued"
    slot: int = -1
    cached_tokens: int = 0
    pending_tokens: int = 0
    #: Tokens written and decode steps after the first token; final once it has ended.
    written: int = 0
    steps: int = 0
    #: Places of its first and last token among the steps since the engine was last idle.
    first_step: int = -1
    last_step: int = -1
    started_ns: int = 0
    first_ns: int = 0
    end_ns: int = 0
    #: Ends of the steps in which it wrote, the first token's first; complete once it has ended.
    step_ends: list[int] = field(default_factory=list[int])
    words: Segment = ()
    http_status: int | None = None
    error: str | None = None

    @property
    def ended(self) -> bool:
        """Nothing more will happen to it."""
        return self.state in ("ok", "error", "cancelled")


@dataclass(slots=True)
class Counters:
    """Totals since the start, answers as far as they have ended.

    `prompt_tokens` leaves the cached ones out, as llama.cpp does.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    prefill_ns: int = 0
    decode_ns: int = 0
    steps: int = 0
    busy_slots: int = 0
    #: Slots that decoded, summed over the steps.
    decoded: int = 0
