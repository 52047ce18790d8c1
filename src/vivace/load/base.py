"""How requests are sent: the border between the study and whatever carries the requests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from vivace.core import Record, Request


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a load has come. `finished` counts requests that ended, however they ended."""

    now_ns: int
    start_ns: int
    first_tokens: int
    finished: int
    last_finish_ns: int | None
    failed: int


#: Asked after every first token, every end and at least ten times a second; True ends the load.
Until = Callable[[Progress], bool]


class Driver(Protocol):
    """Sends requests in a closed loop: always `concurrency` in flight until the load ends."""

    def closed_loop(
        self,
        url: str,
        requests: Iterator[Request],
        *,
        concurrency: int,
        until: Until | None = None,
        stall_s: float = 60.0,
    ) -> list[Record]:
        """Records in the order in which the requests were sent.

        Ends when `requests` is exhausted and answered, or when `until` says so; then what is in
        flight is cancelled and its records carry the pieces that had come (status `cancelled`).
        A stream that is silent for `stall_s` is given up (`stalled`); so is a request without a
        first byte while none of the others gets one either.
        """
        ...

    def now_ns(self) -> int:
        """The clock all its records use."""
        ...
