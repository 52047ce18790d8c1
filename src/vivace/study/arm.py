"""One engine under measurement, through any number of blocks.

A Row is measured as `contract.md` says, in every arm alike: the first request after the start is
the cold one, three are discarded, then requests one at a time, then the load; memory is read after
the load while no other engine runs.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TypeVar

from vivace.core import EngineState, Record, Request, TrialStatus
from vivace.engines.base import Running
from vivace.errors import ConfigError, EngineError, EngineRequestError, EngineStartError
from vivace.hardware import CpuMark, foreign_share
from vivace.load.base import Progress, Until
from vivace.load.steady import SteadyWindow
from vivace.measure.samples import Samples, loaded_samples, merge, single_samples
from vivace.measure.slo import Slo
from vivace.quality.degenerate import wrong_output
from vivace.study.fairness import check_answers, check_block, check_failed
from vivace.study.finished import DISTURBED
from vivace.study.pace import WARM_REQUESTS, WARM_TOKENS
from vivace.study.ports import Tools
from vivace.study.trial import Ask, Measured

#: A window that the end of the budget cuts short still counts from this length on.
SHORTEST_WINDOW_S = 8.0
#: What waits for a slot never leaves the first wave within a ramp: an engine of one slot needs none.
RAMP_CAP_S = 10.0
#: A load without a steady window ends after this and twice the time in which requests one after
#: another would all be answered.
LIMIT_S = 120.0
#: A disturbed block is measured again, where the rest of the trial's time is at least so many times
#: what the block took.
ATTEMPTS = 2
SPARE = 4
SERIAL_RAMP_CAP_S = 3.0

_T = TypeVar("_T")


class Ended(Exception):
    """The trial ends here; its status and reason are noted already."""


@dataclass(slots=True)
class Arm:
    """An engine of one configuration. `begin` a trial, then any blocks, then `stop`."""

    tools: Tools
    slo: Slo
    measured: Measured
    running: Running | None = None
    _loads: Iterator[Request] = field(init=False)
    _slots_warm: bool = False
    #: The phase whose last requests were given up, which the engine may not have noticed yet.
    _given_up: str = ""

    def __post_init__(self) -> None:
        self.begin(self.measured.ask)

    @property
    def ask(self) -> Ask:
        """What is measured now."""
        return self.measured.ask

    def begin(self, ask: Ask) -> None:
        """A new trial of the same configuration; an engine that runs goes on running."""
        self.measured = Measured(ask=ask)
        workload = self.tools.workload
        # Apart from the single questions, which are the same on both sides of a comparison.
        self._loads = workload.stream(ask.split, f"{ask.salt}load")
        if self.running is not None:
            self._note_engine(self.running)

    def ready(self) -> Running:
        """The engine, started and warmed where it does not run."""
        if self.running is not None:
            return self.running
        tools, measured, ask = self.tools, self.measured, self.ask
        files = tools.files(ask.config)
        begin = tools.driver.now_ns()
        running = self.running = tools.engine.start(
            files, ask.config, workdir=tools.workdir, prefixes=tools.workload.prefixes
        )
        self._note_engine(running)
        self.warm()
        measured.warmup_s = (tools.driver.now_ns() - begin) / 1e9
        return running

    def warm(self) -> None:
        """The cold request and the others that are discarded."""
        ask, measured = self.ask, self.measured
        warm = islice(self.tools.workload.stream(ask.split, f"{ask.salt}warm"), WARM_REQUESTS)
        records = self._drive("warm", map(_shortened, warm))
        cold = Samples(cold_ttft_ms=records[0].ttft_ms)
        measured.samples = merge(measured.samples, cold)

    def single(self, count: int) -> None:
        """A block of `count` requests, one at a time."""
        self.ready()
        measured = self.measured
        records = self._undisturbed("single", lambda attempt: self._singles(count, attempt))
        faults = [wrong_output(r.text) for r in records if r.status == "ok"]
        if faults and all(faults):
            words = f"wrong output: {faults[0]} in each of {len(faults)} answers"
            raise self.end("infeasible", words)
        measured.notes += check_answers(f"{self.ask.id}, single", records)
        block = single_samples(records)
        measured.single_blocks.append(block)
        measured.samples = merge(measured.samples, block)

    def load(self, level: int, window_s: float, *, decides: bool) -> None:
        """A block with `level` requests at once, looked at in a steady window of `window_s`."""
        self.ready()
        measured = self.measured
        self._warm_slots(level)
        block = self._undisturbed("load", lambda _attempt: self._load(level, window_s))
        measured.by_level[level] = merge(measured.by_level.get(level, Samples()), block)
        if decides:
            measured.load_blocks.append(block)
            measured.samples = merge(measured.samples, block)

    def settle(self) -> None:
        """Before another block: the engine must not compute any more what its clients gave up."""
        phase, self._given_up = self._given_up, ""
        if self.running is None or not phase:
            return
        # Whether it has died meanwhile is found in its next turn.
        with contextlib.suppress(EngineRequestError):
            if not self.running.settle():
                words = f"`{self.ask.id}`: the engine goes on with what was cancelled after {phase}"
                self.measured.notes.append(("not_settled", words))

    def read_memory(self) -> None:
        """Its peak; no other engine may run, for shared pages would count only in part."""
        if self.running is None:
            return
        try:
            self.measured.memory = self.running.memory()
        except EngineRequestError as error:
            # All else was measured.
            self.measured.notes.append(("no_memory", f"`{self.ask.id}`: memory: {error}"))

    def stop(self) -> None:
        """End the engine, if it runs."""
        running, self.running = self.running, None
        self._slots_warm, self._given_up = False, ""
        if running is not None:
            running.stop()

    def fail(self, error: Exception) -> None:
        """Note what an error means for the trial; the engine's own last words come first."""
        measured = self.measured
        if isinstance(error, Ended):
            return
        if isinstance(error, EngineStartError):
            measured.status, measured.reason = error.outcome, str(error)
            measured.lost = error.outcome != "oom"
            return
        measured.status = "infeasible" if isinstance(error, ConfigError) else "crashed"
        measured.reason = str(error)
        measured.lost = measured.status == "crashed"
        self._note_death()

    def end(self, status: TrialStatus, reason: str) -> Ended:
        """To be raised: the trial ends here."""
        self.measured.status, self.measured.reason = status, reason
        return Ended()

    def _singles(self, count: int, attempt: int) -> list[Record]:
        running, ask = self.ready(), self.ask
        place = count * len(self.measured.single_blocks)
        if ask.config.prefix_cache is not False:
            # Both sides begin with the same request in the cache, whatever they did before.
            self._drive("before", map(_shortened, self._questions("before", place, 1, attempt)))
        before = running.state()
        records = self._drive("single", self._questions("", place, count, attempt))
        shared = bool(self.tools.workload.prefixes)
        found = check_block(ask.id, ask.config, records, before, running.state(), shared=shared)
        self.measured.notes += [note for note in found if note not in self.measured.notes]
        return records

    def _questions(self, kind: str, place: int, count: int, attempt: int) -> Iterator[Request]:
        """Requests `place` to `place + count`; a later attempt asks them with another mark."""
        workload, split, salt = self.tools.workload, self.ask.split, f"{self.ask.salt}{kind}"
        asked = workload.stream(split, f"{salt}again{attempt}" if attempt else salt)
        pairs = islice(zip(asked, workload.stream(split, salt), strict=False), place, place + count)
        return (replace(request, id=name.id) for request, name in pairs)

    def _load(self, level: int, window_s: float) -> Samples:
        running, measured = self.ready(), self.measured
        serial = self.ask.config.slots == 1
        window = SteadyWindow(
            concurrency=level,
            min_s=window_s,
            ramp_cap_s=SERIAL_RAMP_CAP_S if serial else RAMP_CAP_S,
            limit_s=LIMIT_S + 2 * level * self._request_s(),
        )
        before = running.state()
        phase = f"load-{level}"
        staggered = chain(_staggered(islice(self._loads, level), level), self._loads)
        records = self._drive(phase, staggered, concurrency=level, until=window)
        for check in (check_failed, check_answers):
            measured.notes += check(f"{self.ask.id}, {phase}", records)
        if window.start_ns is None or window.end_ns is None:
            raise self.end("timeout", f"no steady window at {level} concurrent requests")
        if window.end_ns - window.start_ns < window_s * 1e9:
            seconds = (window.end_ns - window.start_ns) / 1e9
            words = f"`{self.ask.id}`: the budget ended its window after {seconds:.0f} s"
            measured.notes.append(("short_window", words))
        return loaded_samples(
            records,
            window_ns=(window.start_ns, window.end_ns),
            concurrency=level,
            slo=self.slo,
            busy_share=_busy_share(before, running.state()),
        )

    def _warm_slots(self, level: int) -> None:
        """Once after a start: a wave of short requests, so that no slot is cold in the window."""
        if self.ask.config.slots != 1 and not self._slots_warm:
            slots = self.ready().state().settings.get("slots")
            wide = min(level, slots) if isinstance(slots, int) else level
            wave = map(_shortened, islice(self._loads, wide))
            self._drive("warm-slots", wave, concurrency=wide)
        self._slots_warm = True

    def _undisturbed(self, phase: str, block: Callable[[int], _T]) -> _T:
        """The block, measured again when others took the CPU; of two the less disturbed one."""
        found: list[tuple[float, _T]] = []
        for attempt in range(ATTEMPTS):
            before, begin_ns = self._mark(), self.tools.driver.now_ns()
            result = block(attempt)
            after, took_ns = self._mark(), self.tools.driver.now_ns() - begin_ns
            share = 0.0
            if before is not None and after is not None:
                share = foreign_share(before, after, cores=self.tools.cores)
            found.append((share, result))
            deadline_ns = self.ask.deadline_ns
            late = deadline_ns is not None and begin_ns + SPARE * took_ns > deadline_ns
            if share <= DISTURBED or late:
                break
        share, result = min(found, key=lambda pair: pair[0])
        self.measured.foreign_shares.append(round(share, 3))
        if share > DISTURBED:
            words = f"`{self.ask.id}`, {phase}: other processes took {share:.0%} of the CPU"
            self.measured.notes.append(("disturbed", words))
        return result

    def _mark(self) -> CpuMark | None:
        return self.tools.cpu_mark(self.running.pids if self.running is not None else ())

    def _request_s(self) -> float:
        """The longest request alone so far."""
        ends = (r.e2e_ms for phase, r in self.measured.records if phase == "single")
        return max((e for e in ends if e is not None), default=0.0) / 1e3

    def _drive(
        self,
        phase: str,
        requests: Iterator[Request],
        *,
        concurrency: int = 1,
        until: Until | None = None,
    ) -> list[Record]:
        running, measured, driver = self.running, self.measured, self.tools.driver
        if running is None:
            raise EngineError(f"the engine of `{self.ask.id}` does not run")
        self.settle()
        deadline_ns = self.ask.deadline_ns

        def late() -> bool:
            return deadline_ns is not None and driver.now_ns() >= deadline_ns

        def stop(progress: Progress) -> bool:
            return (until is not None and until(progress)) or late()

        records = driver.closed_loop(running.url, requests, concurrency=concurrency, until=stop)
        measured.records.extend((phase, r) for r in records)
        if running.failure() is not None:
            self._note_death()
            raise Ended
        if any(r.status == "cancelled" for r in records):
            self._given_up = phase
        cut = isinstance(until, SteadyWindow) and until.close(shortest_s=SHORTEST_WINDOW_S)
        if late() and not cut:
            raise self.end("interrupted", "the budget ended during this trial")
        self._check(phase, records)
        return records

    def _check(self, phase: str, records: Sequence[Record]) -> None:
        if any(r.status == "stalled" for r in records):
            self.measured.lost = True
            raise self.end("timeout", f"no token for too long during {phase}")
        bad = [r for r in records if r.status in ("error", "incomplete")]
        done = [r for r in records if r.status == "ok"]
        if bad and (not done or len(bad) > len(done)):
            words = f"{len(bad)} of {len(records)} requests failed during {phase}: {bad[0].error}"
            raise self.end("infeasible", words)
        if not records:
            raise self.end("timeout", f"no request was answered during {phase}")

    def _note_engine(self, running: Running) -> None:
        self.measured.engine_args = dict(running.engine_args)
        self.measured.settings = dict(running.state().settings)

    def _note_death(self) -> None:
        death = self.running.failure() if self.running is not None else None
        if death is not None:
            self.measured.status, words = death
            self.measured.lost = self.measured.status == "crashed"
            self.measured.reason = words or "the engine ended without a word"


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
