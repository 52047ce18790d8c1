"""One non-blocking TCP connection whose reads carry their arrival time."""

import errno
import os
import selectors
import socket
import time
from collections.abc import Sequence
from typing import Literal

from vivace.client.endpoint import Address
from vivace.client.kernel_clock import ANCILLARY_BYTES, KernelClock, stamp
from vivace.errors import ConfigError

#: Larger reads cost more (a fresh buffer each) and merge more segments into one time.
RECEIVE_BYTES = 16 * 1024


class Connection:
    """Connects at once, without waiting: `finish_connect()` when the socket is writable.

    `clock` says where arrival times come from: the kernel, or this process after it woke up.
    """

    __slots__ = ("_kernel", "clock", "connected", "exchanges", "failure", "socket")

    def __init__(self, address: Address, kernel: KernelClock | None) -> None:
        family, where = address
        self.connected = False
        self.exchanges = 0
        self.failure = ""
        try:
            self.socket = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise ConfigError(
                f"cannot open a socket: {error.strerror}",
                hint="lower the concurrency or raise the limit of open files (`ulimit -n`)",
            ) from error
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._kernel = kernel
        if kernel is not None:
            stamp(self.socket)
        self.clock: Literal["kernel", "user"] = "user" if kernel is None else "kernel"
        code = self.socket.connect_ex(where)
        if code not in (0, errno.EINPROGRESS):
            self.failure = os.strerror(code)

    def finish_connect(self) -> bool:
        """True when connected; else `failure` says why not. Call it when writable."""
        code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self.failure = os.strerror(code)
        self.connected = not self.failure
        return self.connected

    def receive(self, since_ns: int) -> tuple[int, bytes] | None:
        """Arrival in ns and bytes (none: closed by the server); `None` when nothing is there.

        `since_ns` is a time the data cannot be older than. Raises `OSError` on a reset.
        """
        try:
            data, ancillary, _, _ = self.socket.recvmsg(RECEIVE_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return None
        now_ns = time.perf_counter_ns()
        if self._kernel is None or not ancillary:
            return now_ns, data
        return self._kernel.arrival_ns(ancillary, since_ns, now_ns), data

    def close(self) -> None:
        """Closes the socket; safe to call twice."""
        self.socket.close()


def connect_all(connections: Sequence[Connection], timeout_s: float) -> None:
    """Waits until every connection is connected or has its `failure`."""
    deadline = time.monotonic() + timeout_s
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            if not connection.failure:
                selector.register(connection.socket, selectors.EVENT_WRITE, connection)
        while selector.get_map():
            ready = selector.select(deadline - time.monotonic())
            for key, _ in ready:
                selector.unregister(key.fileobj)
                key.data.finish_connect()
            if not ready and time.monotonic() >= deadline:
                break
        for key in selector.get_map().values():
            key.data.failure = f"no connection within {timeout_s:g} s"
