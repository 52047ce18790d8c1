"""Arrival times from the kernel, on this process's clock."""

import socket
import struct
import sys
import time
import weakref
from collections.abc import Sequence
from contextlib import closing
from typing import Final

#: `SO_TIMESTAMPNS` of asm-generic/socket.h; Python's socket module does not name it.
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC: Final = struct.Struct("=qq")
ANCILLARY_BYTES: Final = socket.CMSG_SPACE(_TIMESPEC.size)
_RESAMPLE_NS: Final = 1_000_000_000


class KernelClock:
    """Turns `SO_TIMESTAMPNS` stamps (CLOCK_REALTIME) into `perf_counter_ns` times.

    The distance of the two clocks is taken from paired readings once a second, since the real-time
    clock may be set at any time; a stamp that cannot be true falls back to the caller's own time.
    """

    __slots__ = ("__weakref__", "_offset_ns", "_sampled_ns")

    def __init__(self, keep_open: socket.socket | None = None) -> None:
        # Linux stops stamping when the last socket that wants it closes, and takes a while to
        # begin again: one is kept open as long as this clock lives.
        if keep_open is not None:
            weakref.finalize(self, keep_open.close)
        self._offset_ns = 0
        self._sampled_ns = 0
        self._sample()

    def arrival_ns(
        self, ancillary: Sequence[tuple[int, int, bytes]], lo_ns: int, hi_ns: int
    ) -> int:
        """When the data came; between `lo_ns` (the read before) and `hi_ns` (now), else `hi_ns`."""
        if hi_ns - self._sampled_ns > _RESAMPLE_NS:
            self._sample()
        seconds, nanoseconds = _TIMESPEC.unpack_from(ancillary[0][2])
        t_ns = seconds * 1_000_000_000 + nanoseconds + self._offset_ns
        if lo_ns <= t_ns <= hi_ns:
            return t_ns
        self._sample()
        return hi_ns

    def _sample(self) -> None:
        pairs = [(time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()) for _ in range(5)]
        before, real, after = min(pairs, key=lambda p: p[2] - p[0])  # the least disturbed
        self._offset_ns = (before + after) // 2 - real
        self._sampled_ns = after


def stamp(sock: socket.socket) -> None:
    """Asks the kernel to stamp what arrives on `sock`."""
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def new_kernel_clock(tries: int = 100) -> KernelClock | None:
    """The kernel's clock; `None` where bytes on a loopback connection come without a stamp."""
    if sys.platform != "linux" or struct.calcsize("l") != _TIMESPEC.size // 2:
        return None
    with socket.create_server(("127.0.0.1", 0)) as server:
        probe = socket.create_connection(server.getsockname())
        peer, _ = server.accept()
    with closing(peer):
        try:
            stamp(probe)
            for _ in range(tries):
                peer.send(b"x")
                if probe.recvmsg(1, ANCILLARY_BYTES)[1]:
                    return KernelClock(keep_open=probe)
                time.sleep(0.0005)
        except OSError:
            pass  # a sandbox that knows no stamps
    probe.close()
    return None
