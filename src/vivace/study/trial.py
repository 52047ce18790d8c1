"""One trial: start an engine, measure it as `contract.md` defines a Row, end it.

Order in every arm: start (the first request is the cold one), three requests discarded, requests
one at a time, then the load; memory is read after the load while nothing else runs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Literal

from vivace.core import (
    EngineState,
    MemoryUse,
    Record,
    Request,
    ServingConfig,
    TrialStatus,
)
from vivace.engines.base import Running
from vivace.errors import ConfigError, EngineError, EngineStartError
from vivace.load.base import Progress, Until
from vivace.load.steady import SteadyWindow
from vivace.measure.samples import Samples, loaded_samples, merge, single_samples
from vivace.measure.slo import Slo
from vivace.quality.degenerate import wrong_output
from vivace.study.pace import WARM_REQUESTS, WARM_TOKENS
from vivace.study.ports import Tools

LOADED = (
    "ttft_loaded_p50_ms",
    "ttft_loaded_p95_ms",
    "tpot_p95_ms",
    "throughput_tps",
    "goodput_rps",
)

Split = Literal["tune", "validate"]
Phase = Literal["single", "loaded"]
#: Called after each phase; a reason ends the trial there.
Gate = Callable[["Measured", Phase], str]


def always(_measured: "Measured", _phase: Phase) -> str:
    """The gate that never closes."""
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """What one trial is to measure."""

    id: str
    config: ServingConfig
    split: Split = "tune"
    singles: int = 6
    levels: tuple[int, ...] = (16,)
    gate: Gate = always
    #: On the driver's clock; the trial gives up what it has not measured by then.
    deadline_ns: int | None = None


@dataclass(slots=True)
class Measured:
    """What a trial has measured so far: the live object behind a finished `Trial`."""

    ask: Ask
    status: TrialStatus = "ok"
    reason: str = ""
    samples: Samples = field(default_factory=Samples)
    by_level: dict[int, Samples] = field(default_factory=dict[int, Samples])
    memory: MemoryUse | None = None
    warmup_s: float | None = None
    wall_s: float = 0.0
    skipped: dict[str, str] = field(default_factory=dict[str, str])
    engine_args: dict[str, object] = field(default_factory=dict[str, object])
    settings: dict[str, object] = field(default_factory=dict[str, object])
    records: list[tuple[str, Record]] = field(default_factory=list[tuple[str, Record]])


class _Ended(Exception):
    """The trial ends here; its status and reason are noted already."""


@dataclass(slots=True)
class Bench:
    """Runs trials with one set of tools."""

    tools: Tools
    slo: Slo
    window_s: float
    current: Running | None = None

    def run(self, ask: Ask) -> Measured:
        """Measure `ask`; every failure of the engine is an outcome, never an exception."""
        driver = self.tools.driver
        measured = Measured(ask=ask)
        begin = driver.now_ns()
        try:
            self._measure(measured)
        except EngineStartError as error:
            measured.status, measured.reason = error.outcome, str(error)
        except _Ended:
            pass
        except (EngineError, ConfigError) as error:
            measured.status = "infeasible" if isinstance(error, ConfigError) else "crashed"
            measured.reason = str(error)
            self._note_death(measured)
        finally:
            self.close()
            measured.wall_s = (driver.now_ns() - begin) / 1e9
        return measured

    def close(self) -> None:
        """End the engine of the trial, if one runs."""
        running, self.current = self.current, None
        if running is not None:
            running.stop()

    def _measure(self, measured: Measured) -> None:
        ask, tools = measured.ask, self.tools
        files = tools.files(ask.config)
        begin = tools.driver.now_ns()
        running = self.current = tools.engine.start(
            files,
            ask.config,
            workdir=tools.workdir,
            prefixes=tools.workload.prefixes,
        )
        measured.engine_args = dict(running.engine_args)
        measured.settings = dict(running.state().settings)
        requests = tools.workload.stream(ask.split)
        self._warm(measured, running, requests)
        measured.warmup_s = (tools.driver.now_ns() - begin) / 1e9
        self._single(measured, running, requests)
        self._loads(measured, running, requests)
        measured.memory = running.memory()

    def _warm(self, measured: Measured, running: Running, requests: Iterator[Request]) -> None:
        short = (_shortened(r) for r in islice(requests, WARM_REQUESTS))
        records = self._drive(measured, running, "warm", short, concurrency=1)
        measured.samples = merge(measured.samples, Samples(cold_ttft_ms=records[0].ttft_ms))

    def _single(self, measured: Measured, running: Running, requests: Iterator[Request]) -> None:
        batch = islice(requests, measured.ask.singles)
        records = self._drive(measured, running, "single", batch, concurrency=1)
        faults = [wrong_output(r.text) for r in records if r.status == "ok"]
        if faults and all(faults):
            words = f"wrong output: {faults[0]} in each of {len(faults)} answers"
            raise self._ended(measured, "infeasible", words)
        measured.samples = merge(measured.samples, single_samples(records))
        self._gate(measured, "single", LOADED)

    def _loads(self, measured: Measured, running: Running, requests: Iterator[Request]) -> None:
        for level in measured.ask.levels:
            window = SteadyWindow(concurrency=level, min_s=self.window_s)
            before = running.state()
            staggered = chain(_staggered(islice(requests, level), level), requests)
            records = self._drive(
                measured, running, f"load-{level}", staggered, concurrency=level, until=window
            )
            if window.start_ns is None or window.end_ns is None:
                raise self._ended(
                    measured, "timeout", f"no steady window at {level} concurrent requests"
                )
            measured.by_level[level] = loaded_samples(
                records,
                window_ns=(window.start_ns, window.end_ns),
                concurrency=level,
                slo=self.slo,
                busy_share=_busy_share(before, running.state()),
            )
        if measured.ask.levels:
            measured.samples = merge(measured.samples, measured.by_level[measured.ask.levels[-1]])
            self._gate(measured, "loaded", ())

    def _gate(self, measured: Measured, phase: Phase, unmeasured: Sequence[str]) -> None:
        reason = measured.ask.gate(measured, phase)
        if not reason:
            return
        for name in unmeasured:
            measured.skipped.setdefault(name, f"not measured: {reason}")
        if self.current is not None and measured.memory is None:
            measured.memory = self.current.memory()
        raise self._ended(measured, "ok", reason)

    def _drive(
        self,
        measured: Measured,
        running: Running,
        phase: str,
        requests: Iterator[Request],
        *,
        concurrency: int,
        until: Until | None = None,
    ) -> list[Record]:
        deadline_ns = measured.ask.deadline_ns

        def stop(progress: Progress) -> bool:
            late = deadline_ns is not None and progress.now_ns >= deadline_ns
            return late or (until is not None and until(progress))

        records = self.tools.driver.closed_loop(
            running.url, requests, concurrency=concurrency, until=stop
        )
        measured.records.extend((phase, r) for r in records)
        if running.failure() is not None:
            self._note_death(measured)
            raise _Ended
        if deadline_ns is not None and self.tools.driver.now_ns() >= deadline_ns:
            raise self._ended(measured, "interrupted", "the budget ended during this trial")
        self._check(measured, phase, records)
        return records

    def _check(self, measured: Measured, phase: str, records: Sequence[Record]) -> None:
        if any(r.status == "stalled" for r in records):
            raise self._ended(measured, "timeout", f"no token for too long during {phase}")
        bad = [r for r in records if r.status in ("error", "incomplete")]
        done = [r for r in records if r.status == "ok"]
        if bad and (not done or len(bad) > len(done)):
            words = f"{len(bad)} of {len(records)} requests failed during {phase}: {bad[0].error}"
            raise self._ended(measured, "infeasible", words)
        if not records:
            raise self._ended(measured, "timeout", f"no request was answered during {phase}")

    def _note_death(self, measured: Measured) -> None:
        death = self.current.failure() if self.current is not None else None
        if death is not None:
            measured.status, words = death
            measured.reason = words or "the engine ended without a word"

    @staticmethod
    def _ended(measured: Measured, status: TrialStatus, reason: str) -> _Ended:
        measured.status, measured.reason = status, reason
        return _Ended()


def _staggered(first: Iterator[Request], level: int) -> Iterator[Request]:
    """The first wave with answers of growing length, so that the load does not move in lockstep.

    Real users do not start and end together; without this a steady window would hold one wave.
    """
    for place, request in enumerate(first, start=1):
        yield replace(request, max_tokens=max(1, request.max_tokens * place // level))


def _shortened(request: Request) -> Request:
    return replace(request, max_tokens=min(request.max_tokens, WARM_TOKENS))


def _busy_share(before: EngineState, after: EngineState) -> float | None:
    """Busy slots per step during the load / slots; `None` where the engine does not count steps."""
    slots = after.settings.get("slots")
    if not isinstance(slots, int) or before.steps_total is None or after.steps_total is None:
        return None
    steps = after.steps_total - before.steps_total
    if steps <= 0 or before.busy_slots_per_step is None or after.busy_slots_per_step is None:
        return None
    busy = after.busy_slots_per_step * after.steps_total
    busy -= before.busy_slots_per_step * before.steps_total
    return busy / steps / slots
