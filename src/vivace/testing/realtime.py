"""The scripted engine in real time: one thread runs the steps at the times the model names.

The schedule is absolute: a step that was noticed late does not move the next one.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from time import perf_counter_ns
from typing import NamedTuple

from vivace.testing.job import Job
from vivace.testing.model import EngineModel
from vivace.testing.script import Script
from vivace.testing.text import Prompt


class News(NamedTuple):
    """Tokens written so far; `last` says that the request has ended."""

    written: int
    last: bool


@dataclass(slots=True, eq=False)
class Ticket:
    """A request on its way: its job, and the news of it."""

    job: Job
    seen: int = 0
    news: SimpleQueue[News] = field(default_factory=SimpleQueue[News])

    def wait(self, timeout_s: float) -> News | None:
        """The next news; `None` after the time-out."""
        try:
            return self.news.get(timeout=timeout_s)
        except Empty:
            return None


class LiveModel:
    """An `EngineModel` that lives. `time_scale` stretches (above 1) or shortens all durations."""

    def __init__(self, script: Script, *, time_scale: float, on_death: Callable[[], None]) -> None:
        self.model = EngineModel(script)
        #: Guards the model; also wakes the thread.
        self.lock = threading.Condition()
        #: All requests that ever came; their times are the truth that a client can be judged by.
        self.jobs: list[Job] = []
        self._tickets: list[Ticket] = []
        self._scale = time_scale
        self._origin_ns = perf_counter_ns()
        self._on_death = on_death
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="scripted-engine", daemon=True)

    def start(self) -> None:
        """Begins to run steps."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; requests on their way get nothing more."""
        with self.lock:
            self._stopped = True
            self.lock.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join()

    def clock_ns(self, model_ns: int) -> int:
        """A time of the model on `time.perf_counter_ns()`."""
        return self._origin_ns + round(model_ns * self._scale)

    def submit(self, prompt: Prompt, max_tokens: int, slot: int | None) -> Ticket:
        """Hands a request to the engine now."""
        with self.lock:
            now_ns = self._now_ns()
            self._catch_up(now_ns)
            job = self.model.submit(prompt, max_tokens, now_ns=now_ns, slot=slot)
            ticket = Ticket(job)
            self.jobs.append(job)
            if job.ended:
                ticket.news.put(News(0, True))
            else:
                self._tickets.append(ticket)
                self.lock.notify_all()
            return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Its client has left."""
        with self.lock:
            self.model.cancel(ticket.job, now_ns=self._now_ns())
            if ticket in self._tickets:
                self._tickets.remove(ticket)
            self.lock.notify_all()

    def _now_ns(self) -> int:
        return round((perf_counter_ns() - self._origin_ns) / self._scale)

    def _run(self) -> None:
        with self.lock:
            while not self._stopped and not self.model.dead:
                end_ns = self.model.next_ns()
                if end_ns is None and not self.model.dead:
                    self.lock.wait()
                elif end_ns is not None and (left := self.clock_ns(end_ns) - perf_counter_ns()) > 0:
                    self.lock.wait(left / 1e9)
                else:
                    self._catch_up(end_ns or self.model.now_ns)
        if self.model.dead and not self._stopped:
            self._on_death()

    def _catch_up(self, now_ns: int) -> None:
        """Runs, one by one, the steps that have ended by now, and tells the tickets."""
        while (end_ns := self.model.next_ns()) is not None and end_ns <= now_ns:
            self.model.advance(end_ns)
            self._tell()
        if self.model.dead:
            self._tell()
            self.lock.notify_all()

    def _tell(self) -> None:
        for ticket in tuple(self._tickets):
            job = ticket.job
            written = self.model.written(job)
            if job.ended:
                self._tickets.remove(ticket)
            if job.ended or written > ticket.seen:
                ticket.seen = written
                ticket.news.put(News(written, job.ended))
