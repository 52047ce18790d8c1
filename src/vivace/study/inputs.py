"""What a study is asked: everything that, changed, makes it another study."""

import hashlib
import json
from dataclasses import asdict, dataclass

from vivace.core import Goal
from vivace.errors import ConfigError

MIN_BUDGET_S = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """The inputs of one study. `concurrency` are the load levels; the last one decides."""

    model: str
    model_sha256: str
    workload: str
    #: Of its requests: an edited file is another workload.
    workload_digest: str = ""
    #: With its version, and what it was given for all configurations alike.
    engine: str = "llamacpp"
    concurrency: tuple[int, ...] = (16,)
    budget_s: float = 480.0
    goal: Goal = "balanced"
    max_quality_loss: float = 0.02
    max_memory: int | None = None
    slo: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.concurrency or min(self.concurrency) < 1:
            raise ConfigError(
                f"concurrency must be at least 1, got {self.concurrency}",
                hint="for example `--concurrency 16` or `--concurrency 1,16,100`",
            )
        if self.budget_s < MIN_BUDGET_S:
            raise ConfigError(
                f"budget must be at least {MIN_BUDGET_S:.0f}s, got {self.budget_s:.0f}s",
                hint="two baselines and one candidate take a few minutes: try `--budget 3m`",
            )
        if not 0 <= self.max_quality_loss <= 1:
            raise ConfigError(
                f"max quality loss must lie between 0 % and 100 %, got {self.max_quality_loss:.0%}"
            )
        if self.max_memory is not None and self.max_memory < 1:
            raise ConfigError(f"max memory must be positive, got {self.max_memory}")

    @property
    def level(self) -> int:
        """The number of concurrent requests that decides."""
        return self.concurrency[-1]

    def fingerprint(self) -> str:
        """Equal for equal inputs; the budget may change when an interrupted study goes on."""
        data = asdict(self)
        del data["budget_s"]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
