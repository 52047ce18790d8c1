"""The scripted engine in virtual time: whole studies in a moment, with exact times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from vivace.core import EngineState, MemoryUse, Message, ServingConfig
from vivace.engines.base import ModelFiles
from vivace.errors import EngineStartError, Outcome
from vivace.testing.model import EngineModel
from vivace.testing.script import Script
from vivace.testing.text import Prompt, chat_prompt, count

ScriptFor = Callable[[ServingConfig], Script]
#: Copying a saved prompt state into a slot (llama.cpp on a CPU, 2026-11).
RESTORE_S = 0.007


class Clock:
    """Time that passes only when somebody says so."""

    def __init__(self) -> None:
        self._now_ns = 0

    def now_ns(self) -> int:
        """Nanoseconds since the clock was made."""
        return self._now_ns

    def now_s(self) -> float:
        """Seconds since the clock was made."""
        return self._now_ns / 1e9

    def advance(self, seconds: float) -> None:
        """Lets time pass, for work that the scripted engine does not model."""
        if seconds < 0:
            raise ValueError(f"time cannot go back, got {seconds} s")
        self._now_ns += round(seconds * 1e9)

    def reach(self, now_ns: int) -> None:
        """Moves forward to a time; a time already past changes nothing."""
        self._now_ns = max(self._now_ns, now_ns)


class VirtualRunning:
    """A started scripted engine. `url` is a name that only `VirtualDriver` understands."""

    pids: Sequence[int] = ()

    def __init__(
        self,
        url: str,
        script: Script,
        config: ServingConfig,
        clock: Clock,
        *,
        prefixes: Sequence[Prompt],
        stream: str,
        on_stop: Callable[[str], None],
    ) -> None:
        self.url = url
        self.script = script
        self.config = config
        self.model = EngineModel(script, now_ns=clock.now_ns(), stream=stream)
        self._clock = clock
        self._prefixes = prefixes
        self._on_stop = on_stop

    @property
    def engine_args(self) -> Mapping[str, object]:
        """The script, which is what it was started with."""
        return asdict(self.script)

    def warm(self, *, computed: bool) -> None:
        """Puts the shared prefixes into the slots in turn; `computed` says that they are known."""
        script, prefixes = self.script, self._prefixes
        if not prefixes:
            return
        if not computed:
            self._clock.advance(sum(map(count, prefixes)) / script.prefill_tps)
        for slot in range(script.slots):
            self.model.hold(slot, prefixes[slot % len(prefixes)])
        self._clock.advance(RESTORE_S * script.slots)

    def state(self) -> EngineState:
        """Counters and settings now; cached tokens are part of the prompt tokens."""
        model, totals, script = self.model, self.model.counters, self.script
        kv_tokens = model.kv_tokens()
        return EngineState(
            t_ns=self._clock.now_ns(),
            running=model.running,
            waiting=model.waiting,
            kv_usage=kv_tokens / (script.slots * script.context_tokens),
            kv_tokens=kv_tokens,
            prompt_tokens_total=float(totals.prompt_tokens + totals.cached_tokens),
            cached_tokens_total=float(totals.cached_tokens),
            output_tokens_total=float(model.output_tokens()),
            busy_slots_per_step=totals.busy_slots / totals.steps if totals.steps else None,
            steps_total=float(totals.steps),
            settings={"slots": script.slots, "context_tokens": script.context_tokens},
        )

    def memory(self) -> MemoryUse:
        """Weights, `slots` x `context_tokens` of KV (all resident, the unused in `other`), the rest."""
        script = self.script
        allocated = round(script.slots * script.context_tokens * script.kv_bytes_per_token)
        kv = min(allocated, round(self.model.kv_tokens() * script.kv_bytes_per_token))
        other = script.other_bytes + allocated - kv
        return MemoryUse(
            total=script.weights_bytes + kv + other,
            weights=script.weights_bytes,
            kv=kv,
            other=other,
            reserved=allocated - kv,
        )

    def settle(self) -> bool:
        """It stops with its clients."""
        return True

    def reset_cache(self) -> None:
        """Empties every slot; warms them again where the configuration says so."""
        for slot in range(self.script.slots):
            self.model.hold(slot, ())
        self.warm(computed=True)

    def failure(self) -> tuple[Outcome, str] | None:
        """How the script let it die."""
        return (self.script.death, self.script.last_words) if self.model.dead else None

    def stop(self) -> None:
        """Its URL means nothing from now on."""
        self._on_stop(self.url)


class VirtualEngine:
    """Starts scripted engines; `script_for` says how one configuration behaves."""

    supports: frozenset[str] = frozenset(
        f.name for f in fields(ServingConfig) if f.name != "engine"
    )

    def __init__(self, script_for: ScriptFor, *, clock: Clock, name: str = "scripted") -> None:
        self.name = name
        self.clock = clock
        self.script_for = script_for
        #: The engines that run now, by URL.
        self.running: dict[str, VirtualRunning] = {}
        self.starts = 0

    def stock(self) -> ServingConfig:
        """Nothing set: what that means is the script's business."""
        return ServingConfig(engine=self.name)

    def start(
        self,
        files: ModelFiles,  # noqa: ARG002
        config: ServingConfig,
        *,
        workdir: Path,  # noqa: ARG002
        prefixes: Sequence[Sequence[Message]] = (),
        timeout_s: float = 120.0,
    ) -> VirtualRunning:
        """A running engine after `start_s`, or the failure that the script names."""
        script = self.script_for(config)
        self.starts += 1
        late = script.start_s > timeout_s
        outcome: Outcome | None = "timeout" if late else script.start_failure
        self.clock.advance(timeout_s if outcome == "timeout" else script.start_s)
        if outcome is not None:
            raise EngineStartError(
                f"`{self.name}` did not start: {script.last_words}",
                outcome=outcome,
                last_words=script.last_words,
            )
        running = VirtualRunning(
            f"http://{self.name}-{self.starts}.invalid",
            script,
            config,
            self.clock,
            prefixes=[_beginning(p) for p in prefixes] if config.warm_prefix else (),
            stream=f"{self.name}-{self.starts}",
            on_stop=self._stopped,
        )
        running.warm(computed=False)
        self.running[running.url] = running
        return running

    def _stopped(self, url: str) -> None:
        self.running.pop(url, None)


def _beginning(messages: Sequence[Message]) -> Prompt:
    """A conversation's beginning, without the tag that would open an answer."""
    return chat_prompt(messages)[:-1]
