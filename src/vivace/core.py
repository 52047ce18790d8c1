"""The nouns of vivace. Frozen, keyword-only; a change is `dataclasses.replace()`.

Times are integers of `time.perf_counter_ns()` of this process where the name ends in `_ns`,
milliseconds where it ends in `_ms`. `None` means "not measured".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from vivace.errors import ConfigError

Role = Literal["system", "user", "assistant"]
PieceKind = Literal["content", "reasoning", "tool_call"]
RecordStatus = Literal["ok", "error", "stalled", "cancelled", "incomplete"]
TrialStatus = Literal["ok", "crashed", "oom", "infeasible", "timeout", "interrupted"]
AblationStatus = Literal["kept", "rejected", "infeasible", "crashed", "oom", "timeout", "not_tried"]
Verdict = Literal["pass", "fail", "inconclusive"]
Effort = Literal["free", "cheap", "tuning", "case"]
Goal = Literal["latency", "throughput", "balanced", "memory"]
Metric = Literal[
    "ttft_p50_ms", "ttft_loaded_p50_ms", "tps_single", "throughput_tps", "memory_bytes"
]

METRICS: tuple[Metric, ...] = (
    "ttft_p50_ms",
    "ttft_loaded_p50_ms",
    "tps_single",
    "throughput_tps",
    "memory_bytes",
)
LOWER_IS_BETTER: frozenset[Metric] = frozenset(
    ("ttft_p50_ms", "ttft_loaded_p50_ms", "memory_bytes")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """One chat message."""

    role: Role
    content: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is sent: one chat completion. `answer` is a reference answer, used only for quality."""

    id: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    extra: Mapping[str, object] = field(default_factory=dict[str, object])
    answer: str | None = None

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if not self.messages:
            raise ConfigError(f"request `{self.id}` has no messages")


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """Token counts of one request in one dialect-free form. Cached tokens are part of the prompt."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """One non-empty piece of output. `tokens` is the cumulative output count, where it was sent."""

    t_ns: int
    kind: PieceKind
    text: str
    tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """One request as it went. `sent_ns` is read directly before the send."""

    request_id: str
    sent_ns: int
    end_ns: int
    status: RecordStatus
    pieces: tuple[Piece, ...] = ()
    usage: Usage = Usage()
    finish_reason: str | None = None
    http_status: int | None = None
    error: str | None = None
    merged_reads: int = 0
    retried: bool = False

    @property
    def text(self) -> str:
        """The answer: all content pieces joined."""
        return "".join(p.text for p in self.pieces if p.kind == "content")

    @property
    def output_tokens(self) -> int | None:
        """Output tokens by the engine's own count; `None` where it sent none."""
        return self.usage.completion_tokens

    @property
    def ttft_ms(self) -> float | None:
        """Request sent until the first non-empty piece of any kind."""
        return (self.pieces[0].t_ns - self.sent_ns) / 1e6 if self.pieces else None

    @property
    def ttfa_ms(self) -> float | None:
        """Request sent until the first non-empty piece of the answer."""
        first = next((p for p in self.pieces if p.kind == "content"), None)
        return (first.t_ns - self.sent_ns) / 1e6 if first else None

    @property
    def e2e_ms(self) -> float | None:
        """Request sent until the last piece of output."""
        return (self.pieces[-1].t_ns - self.sent_ns) / 1e6 if self.pieces else None

    @property
    def tpot_ms(self) -> float | None:
        """(E2E - TTFT) / (output tokens - 1); undefined below two tokens."""
        tokens = self.output_tokens
        if tokens is None or tokens < 2 or not self.pieces:
            return None
        return (self.pieces[-1].t_ns - self.pieces[0].t_ns) / 1e6 / (tokens - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A measured value with its 95 % interval; `reason` says why there is none."""

    value: float | None
    lo: float | None = None
    hi: float | None = None
    n: int = 0
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """Candidate divided by reference with its 95 % interval; `proven` when the interval excludes 1."""

    ratio: float
    lo: float
    hi: float
    proven: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineState:
    """What an engine says of itself at one moment. Totals count since its start."""

    t_ns: int
    running: int | None = None
    waiting: int | None = None
    kv_usage: float | None = None
    kv_tokens: int | None = None
    prompt_tokens_total: float | None = None
    cached_tokens_total: float | None = None
    output_tokens_total: float | None = None
    #: Mean over all steps since the start, and how many steps that were.
    busy_slots_per_step: float | None = None
    steps_total: float | None = None
    settings: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryUse:
    """Bytes of the engine's process tree: `total` = weights + kv (in use) + other.

    `reserved` is KV memory set aside and not in use; it stands beside the total.
    """

    total: int
    weights: int
    kv: int
    other: int
    reserved: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Speculation:
    """Speculative decoding in neutral words. `draft_weights` names the weight type of a draft copy."""

    kind: Literal["ngram", "draft"]
    n_max: int
    n_min: int = 0
    n_match: int | None = None
    draft_weights: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.n_min <= self.n_max or self.n_max < 1:
            raise ConfigError(
                f"speculation needs 0 <= n_min <= n_max and n_max >= 1, got {self.n_min}, {self.n_max}"
            )
        if (self.kind == "draft") != (self.draft_weights is not None):
            raise ConfigError("speculation of kind `draft` needs `draft_weights`, others have none")


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingConfig:
    """How a model is served, in words no engine owns. `None` leaves the engine's stock setting.

    Only engines translate it (`engines/`); levers change it (`levers/`).
    """

    engine: str = "llamacpp"
    #: Weight type: `source` is the model file as it came, else a type such as `F16` or `Q8_0`.
    weights: str = "source"
    #: Requests computed at the same time.
    slots: int | None = None
    #: Longest prompt + answer of one request, in tokens.
    context_tokens: int | None = None
    prefix_cache: bool | None = None
    #: The shared prefix is computed once and put into every slot before the engine counts as ready.
    warm_prefix: bool = False
    continuous_batching: bool | None = None
    flash_attention: bool | None = None
    threads: int | None = None
    #: Element type of the KV cache.
    kv_type: str | None = None
    speculation: Speculation | None = None
    #: Most tokens in one prefill step.
    batch_tokens: int | None = None
    gpu_layers: int | None = None

    def __post_init__(self) -> None:
        for name in ("slots", "context_tokens", "threads", "batch_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")

    def diff(self, other: "ServingConfig") -> dict[str, tuple[object, object]]:
        """Settings that differ: name -> (mine, the other's)."""
        names = (f for f in self.__dataclass_fields__)
        pairs = {n: (getattr(self, n), getattr(other, n)) for n in names}
        return {n: p for n, p in pairs.items() if p[0] != p[1]}


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One configuration measured on one workload, as `contract.md` defines each field.

    `n` and interval data travel as `Estimate`; `memory_bytes` is a single reading.
    """

    concurrency: int
    ttft_p50_ms: Estimate
    tps_single: Estimate
    ttft_cold_ms: Estimate
    ttft_loaded_p50_ms: Estimate
    ttft_loaded_p95_ms: Estimate
    tpot_p95_ms: Estimate
    throughput_tps: Estimate
    goodput_rps: Estimate
    warmup_s: float | None = None
    memory: MemoryUse | None = None
    quality_loss: float | None = None
    busy_slots_share: float | None = None
    by_concurrency: Mapping[int, "Row"] = field(default_factory=dict[int, "Row"])

    def metric(self, name: Metric) -> Estimate:
        """The estimate of one comparable metric."""
        if name == "memory_bytes":
            if self.memory is None:
                return Estimate(value=None, reason="memory was not measured")
            total = float(self.memory.total)
            return Estimate(value=total, lo=total, hi=total, n=1)
        return getattr(self, name)


@dataclass(frozen=True, kw_only=True, slots=True)
class QualityResult:
    """How far a candidate's outputs moved from the reference's.

    `loss` is the relative perplexity increase on paired tokens (0.02 = 2 %).
    """

    loss: float
    lo: float
    hi: float
    positions: int
    verdict: Verdict
    basis: str
    reference: str
    kl_mean: float | None = None
    same_top1: float | None = None
    by_slice: Mapping[str, float] = field(default_factory=dict[str, float])
