"""The closed loop over HTTP: always C requests in flight, one poll loop, no thread."""

import time
from collections.abc import Iterator, Mapping
from typing import Literal

from vivace.client.complete import NO_HEADERS, render
from vivace.client.endpoint import parse_endpoint
from vivace.client.kernel_clock import new_kernel_clock
from vivace.core import Record, Request
from vivace.errors import ConfigError
from vivace.load.base import Until
from vivace.load.loop import ClosedLoop, Job, paused_gc


class HttpDriver:
    """Drives an OpenAI-compatible endpoint; implements `load.base.Driver`."""

    def __init__(
        self,
        *,
        model: str = "default",
        headers: Mapping[str, str] = NO_HEADERS,
        connect_s: float = 5.0,
    ) -> None:
        self._model = model
        self._headers = headers
        self._connect_s = connect_s
        self._kernel = new_kernel_clock()

    def closed_loop(
        self,
        url: str,
        requests: Iterator[Request],
        *,
        concurrency: int,
        until: Until | None = None,
        stall_s: float = 60.0,
    ) -> list[Record]:
        """See `Driver.closed_loop`. No failure of a request raises; a server that fails
        max(8, concurrency) times in a row ends the load. Raises `ConfigError` on a bad URL.
        """
        if concurrency < 1:
            raise ConfigError(f"concurrency must be at least 1, got {concurrency}")
        endpoint = parse_endpoint(url)
        loop = ClosedLoop(
            endpoint=endpoint,
            address=endpoint.resolve(),
            jobs=(Job(r.id, render(endpoint, r, self._model, self._headers)) for r in requests),
            concurrency=concurrency,
            until=until,
            stall_s=stall_s,
            connect_s=self._connect_s,
            kernel=self._kernel,
        )
        with paused_gc():
            return loop.run()

    @property
    def clock(self) -> Literal["kernel", "user"]:
        """Where arrival times come from on this platform."""
        return "user" if self._kernel is None else "kernel"

    def now_ns(self) -> int:
        """The clock of all records: `time.perf_counter_ns()`."""
        return time.perf_counter_ns()
