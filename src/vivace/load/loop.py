"""The poll loop behind `HttpDriver`: slots, each with a connection and the request it carries."""

import gc
import selectors
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from vivace.client.complete import refused
from vivace.client.connection import Connection, connect_all
from vivace.client.endpoint import Address, Endpoint
from vivace.client.exchange import Exchange
from vivace.client.kernel_clock import KernelClock
from vivace.core import Record
from vivace.load.base import Progress, Until

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
#: How often `until` is asked and deadlines are looked at when nothing happens.
_TICK_S = 0.05
_MIN_FAILURES = 8


@dataclass(frozen=True, slots=True)
class Job:
    """A request ready for the socket."""

    request_id: str
    payload: bytes


@dataclass(slots=True, eq=False)
class _Slot:
    """One place in flight: connecting while `exchange` is None, else waiting for the answer."""

    connection: Connection
    job: Job
    deadline_ns: int = 0
    exchange: Exchange | None = None
    retried: bool = False
    first_seen: bool = False


@dataclass(kw_only=True, eq=False)
class ClosedLoop:
    """One load. `run()` once; sockets are closed whatever ends it, `KeyboardInterrupt` included."""

    endpoint: Endpoint
    address: Address
    jobs: Iterator[Job]
    concurrency: int
    until: Until | None
    stall_s: float
    connect_s: float
    kernel: KernelClock | None

    def __post_init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._slots: set[_Slot] = set()
        self._records: list[Record] = []
        self._unparsed: list[Exchange] = []
        self._reuse = True
        self._stopped = False
        self._start_ns = 0
        self._tick_ns = 0
        self._first_tokens = 0
        self._finished = 0
        self._failed = 0
        self._failed_in_a_row = 0
        self._last_finish_ns: int | None = None

    def run(self) -> list[Record]:
        """Records in the order of their sends."""
        try:
            self._begin()
            while self._slots and not self._stopped:
                self._turn()
            now_ns = time.perf_counter_ns()
            for slot in self._slots:
                if slot.exchange is not None:
                    slot.exchange.end("cancelled", now_ns)
                    self._unparsed.append(slot.exchange)
        finally:
            for slot in self._slots:
                slot.connection.close()
            self._selector.close()
        self._parse()
        return sorted(self._records, key=lambda r: r.sent_ns)

    def _begin(self) -> None:
        """Connects everything first, so that no handshake is in a measured time."""
        for job in islice(self.jobs, self.concurrency):
            self._slots.add(_Slot(Connection(self.address, self.kernel), job))
        wave = list(self._slots)
        connect_all([slot.connection for slot in wave], self.connect_s)
        self._start_ns = self._heard_ns = time.perf_counter_ns()
        for slot in wave:
            self._selector.register(slot.connection.socket, _READ, slot)
            if slot.connection.connected:
                self._send(slot)
            else:
                self._refuse(slot)

    def _turn(self) -> None:
        for key, mask in self._selector.select(_TICK_S):
            slot: _Slot = key.data
            if slot.exchange is None:
                self._connected(slot)
                continue
            if mask & _WRITE:
                slot.exchange.on_writable()
                if not slot.exchange.sending:
                    self._selector.modify(slot.connection.socket, _READ, slot)
            if mask & _READ:
                slot.exchange.on_readable()
                self._heard_ns = time.perf_counter_ns()
            self._look(slot, slot.exchange)
            if self._stopped:
                return
        now_ns = time.perf_counter_ns()
        if now_ns >= self._tick_ns:
            self._tick_ns = now_ns + int(_TICK_S * 1e9)
            self._check_deadlines(now_ns)
            self._ask(now_ns)
        self._parse()

    def _look(self, slot: _Slot, exchange: Exchange) -> None:
        """Acts on what a read changed."""
        if exchange.first_piece_ns is not None and not slot.first_seen:
            slot.first_seen = True
            self._first_tokens += 1
            self._ask(exchange.first_piece_ns)
        if exchange.ending is None or self._stopped:
            return
        if exchange.lost:
            # The server closes after each answer whatever it says: never reuse one of its
            # connections again, so that only the first requests are sent twice.
            self._reuse = False
            self._reconnect(slot, retried=True)
            return
        self._finish(slot, exchange)

    def _finish(self, slot: _Slot, exchange: Exchange) -> None:
        """Counts an end and keeps the slot in flight; parsing waits until the sends are out."""
        if exchange.sound:
            self._unparsed.append(exchange)
        else:
            self._keep(exchange.record())
        self._ended(exchange.end_ns)
        self._next(slot, reusable=exchange.reusable)

    def _ended(self, t_ns: int) -> None:
        self._finished += 1
        self._last_finish_ns = t_ns
        self._ask(t_ns)

    def _next(self, slot: _Slot, *, reusable: bool) -> None:
        """Gives the slot its next request, or retires it."""
        job = None if self._stopped else next(self.jobs, None)
        if job is None:
            slot.exchange = None
            self._selector.unregister(slot.connection.socket)
            slot.connection.close()
            self._slots.discard(slot)
            return
        slot.job = job
        if reusable and self._reuse:
            self._send(slot)
        else:
            self._reconnect(slot, retried=False)

    def _send(self, slot: _Slot) -> None:
        slot.first_seen = False
        slot.exchange = Exchange(
            slot.connection,
            slot.job.payload,
            request_id=slot.job.request_id,
            stall_s=self.stall_s,
            retried=slot.retried,
        )
        if slot.exchange.sending:
            self._selector.modify(slot.connection.socket, _READ | _WRITE, slot)

    def _reconnect(self, slot: _Slot, *, retried: bool) -> None:
        self._selector.unregister(slot.connection.socket)
        slot.connection.close()
        slot.exchange, slot.retried = None, retried
        slot.connection = Connection(self.address, self.kernel)
        slot.deadline_ns = time.perf_counter_ns() + int(self.connect_s * 1e9)
        self._selector.register(slot.connection.socket, _WRITE, slot)

    def _connected(self, slot: _Slot) -> None:
        if slot.connection.finish_connect():
            self._selector.modify(slot.connection.socket, _READ, slot)
            self._send(slot)
        else:
            self._refuse(slot)

    def _refuse(self, slot: _Slot) -> None:
        why = slot.connection.failure
        record = refused(self.endpoint, slot.job.request_id, why, retried=slot.retried)
        self._keep(record)
        self._ended(record.end_ns)
        self._next(slot, reusable=False)

    def _check_deadlines(self, now_ns: int) -> None:
        # While others get their answers, a request without a first byte waits in a queue.
        queue_ns = self._heard_ns + int(self.stall_s * 1e9)
        for slot in list(self._slots):
            waits = slot.exchange is not None and slot.exchange.first_piece_ns is None
            if waits and now_ns < queue_ns:
                continue
            if slot.exchange is not None and now_ns >= slot.exchange.deadline_ns:
                slot.exchange.on_deadline(now_ns)
                self._finish(slot, slot.exchange)
            elif slot.exchange is None and now_ns >= slot.deadline_ns:
                slot.connection.failure = f"no connection within {self.connect_s:g} s"
                self._refuse(slot)

    def _parse(self) -> None:
        for exchange in self._unparsed:
            self._keep(exchange.record())
        self._unparsed.clear()

    def _keep(self, record: Record) -> None:
        self._records.append(record)
        if record.status == "ok":
            self._failed_in_a_row = 0
        elif record.status != "cancelled":
            self._failed += 1
            self._failed_in_a_row += 1
            if self._failed_in_a_row >= max(_MIN_FAILURES, self.concurrency):
                self._stopped = True

    def _ask(self, now_ns: int) -> None:
        if self._stopped or self.until is None:
            return
        if self.until(
            Progress(
                now_ns=now_ns,
                start_ns=self._start_ns,
                first_tokens=self._first_tokens,
                finished=self._finished,
                last_finish_ns=self._last_finish_ns,
                failed=self._failed,
            )
        ):
            self._stopped = True


@contextmanager
def paused_gc() -> Generator[None, None, None]:
    """No collection pause inside a measurement; the loop makes no cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
