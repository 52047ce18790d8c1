"""Arrival times from the kernel, on this process's clock."""

import struct
import sys
import time
from collections.abc import Sequence
from typing import Final

#: `SO_TIMESTAMPNS` of asm-generic/socket.h; Python's socket module does not name it.
SO_TIMESTAMPNS: Final = 35
AVAILABLE: Final = sys.platform == "linux" and struct.calcsize("l") == 8

_RESAMPLE_NS: Final = 1_000_000_000
_TIMESPEC: Final = struct.Struct("=qq")


class KernelClock:
    """Turns `SO_TIMESTAMPNS` stamps (CLOCK_REALTIME) into `perf_counter_ns` times.

    The distance of the two clocks is taken from paired readings once a second, since the real-time
    clock may be set at any time; a stamp that cannot be true falls back to the caller's own time.
    """

    __slots__ = ("_offset_ns", "_sampled_ns")

    def __init__(self) -> None:
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
