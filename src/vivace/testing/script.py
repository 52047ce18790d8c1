"""What a scripted engine does: its speeds, its cache, its failures."""

import math
from dataclasses import dataclass
from typing import Literal

from vivace.errors import ConfigError, Outcome

#: Keeps `10 * 1.1` from rounding to the wrong side of a whole number.
_EPSILON = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class Script:
    """A model of an engine, small enough to work its times out by hand.

    The engine computes in steps. A step takes up to `batch_tokens` prompt tokens of the requests
    that still have some (first come, first served) and one token for each slot that decodes; it
    lasts `prompt_step_s + prompt tokens / prefill_tps` when it has prompt tokens, and in addition
    `(1 + batch_cost * (width - 1) + draft_cost) / decode_tps` when something decodes. `width` is
    the decoding slots, each counted `1 + drafted_per_step` times. The step that ends a prompt also
    gives its first token, so one request alone has TTFT = prompt_step_s + prompt / prefill_tps and
    TPOT = 1 / decode_tps.
    """

    prefill_tps: float = 1000.0
    #: What a step with prompt tokens costs however few they are.
    prompt_step_s: float = 0.0
    decode_tps: float = 50.0
    #: What each further sequence adds to a decode step; 0 batches for free, 1 gains nothing.
    batch_cost: float = 0.1
    slots: int = 1
    #: Longest prompt + answer of one slot.
    context_tokens: int = 8192
    batch_tokens: int = 2048
    #: A slot computes only what differs from what it last held.
    prefix_cache: bool = True
    #: False: a request starts only when the whole batch before it has ended.
    continuous: bool = True
    #: Speculation: tokens guessed and guesses that held, per slot and step, on average.
    drafted_per_step: float = 0.0
    accepted_per_step: float = 0.0
    #: The draft model's own time, in decode steps of the target.
    draft_cost: float = 0.0
    #: Lognormal sigma (median 1) of each request's own slowness; a step takes the mean of its slots.
    noise_sigma: float = 0.0
    seed: int = 0
    #: Answers end here (`stop`) instead of at `max_tokens` (`length`); 0 gives empty answers.
    answer_tokens: int | None = None
    start_s: float = 1.0
    start_failure: Outcome | None = None
    #: The engine dies, or stops answering, instead of beginning the next request after so many.
    dies_after: int | None = None
    death: Literal["crashed", "oom"] = "crashed"
    hangs_after: int | None = None
    last_words: str = "scripted failure"
    #: Every n-th request is refused with `error_status`.
    error_every: int | None = None
    error_status: int = 500
    weights_bytes: int = 100_000_000
    kv_bytes_per_token: float = 23_040.0
    other_bytes: int = 50_000_000
    #: Relative perplexity increase against the reference.
    quality_loss: float = 0.0
    #: Half width of a uniform scatter of each token's log-probability around that.
    quality_spread: float = 0.0

    def __post_init__(self) -> None:
        for name in ("prefill_tps", "decode_tps", "slots", "context_tokens", "batch_tokens"):
            value = getattr(self, name)
            if value <= 0:
                raise ConfigError(f"{name} must be above 0, got {value}")
        if not 0 <= self.accepted_per_step <= self.drafted_per_step:
            raise ConfigError(
                "speculation needs 0 <= accepted_per_step <= drafted_per_step, "
                f"got {self.accepted_per_step} and {self.drafted_per_step}"
            )

    def decode_step_s(self, decoding: int) -> float:
        """Seconds of a step in which `decoding` slots write; 0 when none does."""
        if not decoding:
            return 0.0
        width = decoding * (1 + self.drafted_per_step)
        return (1 + self.batch_cost * (width - 1) + self.draft_cost) / self.decode_tps

    def tokens_after(self, steps: int) -> int:
        """Tokens written after the first and `steps` decode steps."""
        if not self.accepted_per_step:
            return 1 + steps
        return 1 + int(steps * (1 + self.accepted_per_step) + _EPSILON)

    def steps_for(self, tokens: int) -> int:
        """Decode steps that `tokens` take, the first of them not counted."""
        return max(0, math.ceil((tokens - 1) / (1 + self.accepted_per_step) - _EPSILON))


@dataclass(frozen=True, kw_only=True, slots=True)
class Quirks:
    """How the scripted server words its streams; the defaults are llama.cpp's (2026-11)."""

    #: A first chunk that carries only the role.
    role_chunk: bool = True
    crlf: bool = False
    #: A blank after `data:`.
    space: bool = True
    #: `data: [DONE]` at the end.
    done: bool = True
    tokens_per_chunk: int = 1
    #: So many tokens come first as `reasoning_content`.
    reasoning_tokens: int = 0
    #: Chunks without text before each chunk with some.
    empty_chunks: int = 0
    #: After so many chunks an error object ends the stream, or the connection is cut.
    error_after: int | None = None
    cut_after: int | None = None
    #: Every n-th request gets 429 at once.
    reject_every: int | None = None
    #: The connection is closed after each stream although the head says nothing of it.
    close_after_stream: bool = False
    cached_tokens: bool = True
    timings: bool = True
