"""Closed-loop load in virtual time: the same border as the real driver, with exact times."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from vivace.core import Piece, Record, RecordStatus, Request, Usage
from vivace.load.base import Progress, Until
from vivace.testing.job import Job
from vivace.testing.model import FOREVER_NS, EngineModel
from vivace.testing.script import Script
from vivace.testing.text import chat_prompt
from vivace.testing.virtual import Clock, VirtualEngine

_NOBODY = Script()
#: `until` is asked at least so often.
ASK_NS = 100_000_000


class VirtualDriver:
    """Sends requests to the scripted engines of one clock, without a network.

    `tokens_per_piece` above 1 joins tokens after the first into fewer pieces: the times of first
    and last stay exact, and long simulations cost less.
    """

    def __init__(
        self, clock: Clock, engines: Sequence[VirtualEngine], *, tokens_per_piece: int = 1
    ) -> None:
        self._clock = clock
        self._engines = tuple(engines)
        self._tokens_per_piece = tokens_per_piece

    def now_ns(self) -> int:
        """The virtual clock."""
        return self._clock.now_ns()

    def closed_loop(
        self,
        url: str,
        requests: Iterator[Request],
        *,
        concurrency: int,
        until: Until | None = None,
        stall_s: float = 60.0,
    ) -> list[Record]:
        """As `Driver.closed_loop`. Ends after `max(8, concurrency)` failures in a row."""
        model = next((e.running[url].model for e in self._engines if url in e.running), None)
        if model is None:  # nobody listens there: every connection is refused
            model = EngineModel(_NOBODY, now_ns=self._clock.now_ns())
            model.dead = True
        loop = _Loop(
            clock=self._clock,
            model=model,
            requests=requests,
            concurrency=concurrency,
            until=until,
            stall_ns=round(stall_s * 1e9),
            tokens_per_piece=self._tokens_per_piece,
            start_ns=self._clock.now_ns(),
        )
        return loop.run()


@dataclass(slots=True)
class _Loop:
    """One load under way."""

    clock: Clock
    model: EngineModel
    requests: Iterator[Request]
    concurrency: int
    until: Until | None
    stall_ns: int
    tokens_per_piece: int
    start_ns: int
    #: In flight -> place among the records.
    flying: dict[Job, tuple[int, Request]] = field(default_factory=dict[Job, tuple[int, Request]])
    records: dict[int, Record] = field(default_factory=dict[int, Record])
    sent: int = 0
    first_tokens: int = 0
    finished: int = 0
    failed: int = 0
    failed_in_row: int = 0
    last_finish_ns: int | None = None
    stopped: bool = False

    def run(self) -> list[Record]:
        """Runs to the end; records in the order of sending."""
        next_ask = self.start_ns + ASK_NS if self.until else FOREVER_NS
        next_stall = self.start_ns + self.stall_ns
        self._fill()
        while self.flying and not self.stopped:
            limit = min(next_ask, next_stall)
            changed = self.model.advance(limit)
            now = self.model.now_ns if changed else limit
            self.clock.reach(now)
            for job in changed:
                if job in self.flying:
                    self._event(job, now)
            if now >= next_stall:
                next_stall = self._drop_stalled(now)
            if now >= next_ask:
                self._ask(now)
                next_ask = now + ASK_NS
            if not self.stopped:
                self._fill()
        for job in tuple(self.flying):
            self.model.cancel(job, now_ns=self.clock.now_ns())
            self._record(job, "cancelled")
        return [self.records[place] for place in range(self.sent)]

    def _fill(self) -> None:
        """Keeps `concurrency` requests in flight."""
        now = self.clock.now_ns()
        while len(self.flying) < self.concurrency and not self.stopped:
            request = next(self.requests, None)
            if request is None:
                return
            job = self.model.submit(chat_prompt(request.messages), request.max_tokens, now_ns=now)
            self.flying[job] = (self.sent, request)
            self.sent += 1
            if job.ended:
                self._event(job, now)

    def _event(self, job: Job, now: int) -> None:
        """A first token, an end, or both."""
        if job.answer_tokens and now == job.first_ns:
            self.first_tokens += 1
        if job.ended:
            ok = job.state == "ok"
            self.finished += 1
            self.last_finish_ns = now
            self.failed += not ok
            self.failed_in_row = 0 if ok else self.failed_in_row + 1
            self._record(job, "ok" if ok else "error")
            if self.failed_in_row >= max(8, self.concurrency):
                self.stopped = True
        self._ask(now)

    def _ask(self, now: int) -> None:
        if self.until is not None and not self.stopped:
            progress = Progress(
                now_ns=now,
                start_ns=self.start_ns,
                first_tokens=self.first_tokens,
                finished=self.finished,
                last_finish_ns=self.last_finish_ns,
                failed=self.failed,
            )
            self.stopped = self.until(progress)

    def _drop_stalled(self, now: int) -> int:
        """Gives up requests that were silent for too long; returns when to look again."""
        oldest = now
        heard = max(map(self.model.last_piece_ns, self.flying), default=now)
        heard = max(heard, self.last_finish_ns or 0)
        for job in tuple(self.flying):
            last = self.model.last_piece_ns(job)
            if not job.written:
                last = max(last, heard)  # it waits in a queue while others get their answers
            if now - last < self.stall_ns:
                oldest = min(oldest, last)
                continue
            self.model.cancel(job, now_ns=now)
            self.finished += 1
            self.failed += 1
            self.failed_in_row += 1
            self.last_finish_ns = now
            self._record(job, "stalled")
            self._ask(now)
        if self.failed_in_row >= max(8, self.concurrency):
            self.stopped = True
        return oldest + self.stall_ns

    def _record(self, job: Job, status: RecordStatus) -> None:
        place, request = self.flying.pop(job)
        speculates = self.model.script.drafted_per_step > 0
        usage = Usage(
            prompt_tokens=job.prompt_tokens,
            completion_tokens=job.written,
            cached_tokens=job.cached_tokens,
            draft_tokens=round(job.steps * self.model.script.drafted_per_step)
            if speculates
            else None,
            accepted_tokens=max(0, job.written - 1 - job.steps) if speculates else None,
        )
        self.records[place] = Record(
            request_id=request.id,
            sent_ns=job.submitted_ns,
            end_ns=job.end_ns,
            status=status,
            pieces=_pieces(job, self.model.script, self.tokens_per_piece),
            usage=usage if status == "ok" else Usage(),
            finish_reason=job.finish_reason if status == "ok" else None,
            http_status=job.http_status or (200 if job.written or status == "ok" else None),
            error=job.error if status != "stalled" else "no output for too long",
        )


def _pieces(job: Job, script: Script, per_piece: int) -> tuple[Piece, ...]:
    """The first token, then one piece for every `per_piece` steps, then the rest."""
    ends, words = job.step_ends, job.words
    if not ends:
        return ()
    last = len(ends) - 1
    pieces: list[Piece] = []
    done = 0
    for step in (0, *range(per_piece, last, per_piece), last) if last else (0,):
        tokens = min(job.written, script.tokens_after(step))
        text = " ".join(words[done:tokens])
        if done:
            text = f" {text}"
        pieces.append(Piece(t_ns=ends[step], kind="content", text=text, tokens=tokens))
        done = tokens
    return tuple(pieces)
