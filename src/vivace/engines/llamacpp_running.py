"""A llama.cpp server that runs: `Running` of `engines/base.py`."""

import contextlib
import importlib.metadata
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from vivace.core import EngineState, MemoryUse, Message, ServingConfig
from vivace.engines.base import ModelFiles
from vivace.engines.http import get_json, get_text
from vivace.engines.llamacpp_args import (
    KV_BYTES,
    NAME,
    Settings,
    as_flags,
    binary_command,
    uses_ram_cache,
    wheel_command,
)
from vivace.engines.llamacpp_state import Props, Slot, engine_state, kv_tokens, parse_metrics
from vivace.engines.llamacpp_warm import Prefix, Source, Warmth, erase, read_prefix, warm
from vivace.engines.memory import PeakMemory, split, tree_pids
from vivace.engines.process import EngineProcess, new_log
from vivace.errors import EngineError, EngineRequestError, EngineStartError, Outcome
from vivace.models.shape import ModelShape

_LISTENING = re.compile(r"listening on (http://[\d.]+:\d+)")
_HEALTH_TIMEOUT_S = 2.0
#: Longest step of a busy engine that still ends by itself, and how often it is asked.
SETTLE_S = 20.0
SETTLE_TICK_S = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Launch:
    """Everything one start needs; the same again for a restart."""

    files: ModelFiles
    config: ServingConfig
    settings: Settings
    binary: Path | None
    draft: ModelShape | None
    prefixes: tuple[tuple[Message, ...], ...]
    workdir: Path
    slots_dir: Path
    timeout_s: float

    def command(self, port: int) -> list[str]:
        """What to execute; port 0 lets the engine choose."""
        if self.binary is not None:
            return binary_command(self.binary, self.settings, port=port)
        return wheel_command(self.settings, port=port)

    @property
    def weight_files(self) -> tuple[str, ...]:
        """The files that are mapped into memory."""
        paths = (self.files.path, self.files.draft_path)
        return tuple(str(p) for p in paths if p is not None)

    @property
    def weights_bytes(self) -> int:
        """Tensors of the model and of its draft."""
        return self.files.shape.tensor_bytes + (self.draft.tensor_bytes if self.draft else 0)

    @property
    def kv_token_bytes(self) -> int:
        """KV bytes of one token; a draft keeps its own cache, in f16."""
        element = KV_BYTES[self.config.kv_type or "f16"]
        own = self.files.shape.kv_bytes_per_token(element)
        return own + (self.draft.kv_bytes_per_token() if self.draft else 0)

    def identity(self, build: str) -> str:
        """What a saved prompt state depends on besides its tokens."""
        config = self.config
        wheel = "" if self.binary else importlib.metadata.version("xllamacpp")
        draft = config.speculation.draft_weights if config.speculation else None
        parts = (
            self.files.sha256,
            config.kv_type or "f16",
            config.flash_attention,
            draft,
            wheel,
            build,
        )
        return "|".join(map(str, parts))


class RunningLlamaCpp:
    """Answers at `url` until `stop()`. Starting is making one."""

    #: Seconds the last warming took, and whether it computed or only restored.
    warm_s: float = 0.0
    warm_source: Source = "none"

    def __init__(self, launch: Launch) -> None:
        """Start and warm; raises `EngineStartError`, and then nothing is left running."""
        self._launch = launch
        self._warmth = Warmth(source="none", tokens={})
        self._prefixes: tuple[Prefix, ...] | None = None
        self._begin(port=0, peak=0)

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`; the port stays the same over a `reset_cache()`."""
        return self._url

    @property
    def pids(self) -> Sequence[int]:
        """The server's process and what it started."""
        return tree_pids(self._process.pid)

    @property
    def engine_args(self) -> Mapping[str, object]:
        """The flags of `llama-server` that say the same, `True` where a flag has no value."""
        return as_flags(self._launch.settings)

    @property
    def log_path(self) -> Path:
        """The engine's log; a restart begins a new one."""
        return self._process.log_path

    def state(self) -> EngineState:
        """Counters and effective settings now; raises `EngineRequestError`."""
        return engine_state(
            time.perf_counter_ns(),
            parse_metrics(get_text(self._url, "/metrics")),
            get_json(self._url, "/slots", list[Slot]),
            self._props,
            context_total=self._context_total,
            restored=self._warmth.tokens,
        )

    def memory(self) -> MemoryUse:
        """Peak of the process tree since the start; KV by the tokens the slots hold now.

        llama.cpp fills its KV buffer with zeros at the start, so all of it is resident: on a CPU
        the `reserved` part is in `other` too, as is the RAM prompt cache. On macOS the total is USS.
        Memory of a GPU is not in it.
        """
        slots = get_json(self._url, "/slots", list[Slot])
        per_token = self._launch.kv_token_bytes
        return split(
            self._memory.read(),
            weights=self._launch.weights_bytes,
            kv=kv_tokens(slots, self._warmth.tokens) * per_token,
            kv_allocated=self._context_total * per_token,
        )

    def settle(self) -> bool:
        """Wait until no slot computes and nothing is queued, at most `SETTLE_S`.

        The server looks once a second whether the client of a request is still there.
        """
        deadline = time.monotonic() + SETTLE_S
        while True:
            state = self.state()
            if not state.running and not state.waiting:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(SETTLE_TICK_S)

    def reset_cache(self) -> None:
        """Forget every cached prompt; with `warm_prefix` put the shared prefixes back.

        Erasing the slots does not empty the prompt cache in RAM (seen with b11549): where that one
        is on, the engine is started again at the same port.
        """
        if uses_ram_cache(self._launch.settings):
            port, peak = urlsplit(self._url).port or 0, self._memory.read()
            self.stop()
            self._begin(port=port, peak=peak)
        else:
            erase(self._url, self._slots)
            self._warm()

    def failure(self) -> tuple[Outcome, str] | None:
        """How it died by itself and its last words; `None` while it lives and after `stop()`."""
        return self._process.failure()

    def stop(self) -> None:
        """End its processes, by their own ids. Safe to call twice."""
        self._memory.stop()
        self._process.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _begin(self, *, port: int, peak: int) -> None:
        launch = self._launch
        deadline = time.monotonic() + launch.timeout_s
        log = new_log(launch.workdir, NAME)
        self._process = EngineProcess(launch.command(port), name=NAME, log_path=log)
        self._memory = PeakMemory(self._process.pid, peak=peak, whole=launch.weight_files)
        try:
            self._url = self._process.wait_until(self._answering, timeout_s=launch.timeout_s)
            self._read_back()
            self._warm(deadline)
        except EngineRequestError as error:
            raise self._start_error(error) from error
        except BaseException:
            # Also Ctrl-C: nobody else knows this process yet.
            self.stop()
            raise

    def _start_error(self, error: EngineError) -> EngineStartError:
        """The engine came up and then failed a request of ours; ends it."""
        died = self._process.failure()
        outcome, words = died or ("crashed", self._process.last_words())
        self.stop()
        return EngineStartError(
            f"{NAME} failed while it was made ready: {error}", outcome=outcome, last_words=words
        )

    def _answering(self) -> str | None:
        """Where it listens, once it answers there."""
        found = _LISTENING.search(self._process.log_head())
        if found is None:
            return None
        with contextlib.suppress(EngineRequestError):
            get_text(found[1], "/health", timeout_s=_HEALTH_TIMEOUT_S)
            return found[1]
        return None

    def _read_back(self) -> None:
        self._props = get_json(self._url, "/props", Props)
        slots = get_json(self._url, "/slots", list[Slot])
        self._slots = len(slots)
        # Slots with a share of their own add up; a unified cache shows its whole size in each.
        shares = [slot.n_ctx for slot in slots]
        unified = self._launch.config.slots is None
        seen = max(shares, default=0) if unified else sum(shares)
        # What was asked for is set aside, also where a slot may use less of it.
        self._context_total = int(self._launch.settings.get("n_ctx", seen))

    def _warm(self, deadline: float | None = None) -> None:
        launch = self._launch
        begin = time.monotonic()
        if self._prefixes is None:
            identity = launch.identity(self._props.build_info)
            self._prefixes = tuple(
                read_prefix(self._url, p, identity=identity) for p in launch.prefixes
            )
        left_s = launch.timeout_s if deadline is None else max(1.0, deadline - begin)
        self._warmth = warm(
            self._url,
            self._prefixes,
            slots=self._slots,
            slots_dir=launch.slots_dir,
            timeout_s=left_s,
        )
        self.warm_s = time.monotonic() - begin if self._prefixes else 0.0
        self.warm_source = self._warmth.source
