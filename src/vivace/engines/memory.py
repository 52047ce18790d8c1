"""Memory of an engine's process tree: its peak, and the split of `contract.md`."""

import contextlib
import sys
import threading
from collections.abc import Collection
from pathlib import Path

import psutil

from vivace.core import MemoryUse

_PERIOD_S = 1.0


def process_bytes(pid: int, whole: Collection[str] = ()) -> int:
    """PSS on Linux: shared pages count by their share. Elsewhere USS, what only this process has.

    Mappings of the files in `whole` count whole, for another engine may have mapped them too. 0 for
    a process that is gone.
    """
    try:
        if sys.platform == "linux" and whole:
            return parse_smaps(Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8"), whole)
        if sys.platform == "linux":
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
            return parse_pss(text)
        return psutil.Process(pid).memory_full_info().uss
    except (OSError, psutil.Error):
        return 0


def parse_pss(smaps_rollup: str) -> int:
    """Bytes out of the `Pss:` line; 0 where there is none, as for a process that is ending."""
    for line in smaps_rollup.splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def parse_smaps(smaps: str, whole: Collection[str]) -> int:
    """Bytes of all mappings: `Rss:` of the files in `whole`, `Pss:` of the others."""
    total, label = 0, "Pss:"
    for line in smaps.splitlines():
        name, _, rest = line.partition(" ")
        if name == label:
            total += int(rest.split()[0]) * 1024
        elif "-" in name and not name.endswith(":"):
            # A mapping's head: addresses, rights, offset, device, inode and its file.
            fields = line.split(maxsplit=5)
            label = "Rss:" if len(fields) == 6 and fields[5] in whole else "Pss:"
    return total


def tree_pids(pid: int) -> list[int]:
    """The process and all its descendants, itself first."""
    children: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        children = psutil.Process(pid).children(recursive=True)
    return [pid, *(child.pid for child in children)]


class PeakMemory:
    """The largest memory of a process tree, looked at once a second until `stop()`."""

    def __init__(self, pid: int, *, peak: int = 0, whole: Collection[str] = ()) -> None:
        """`peak`: what was seen before, when the same engine was started again.

        `whole`: files whose mappings count whole.
        """
        self._whole = frozenset(whole)
        self._pid = pid
        self._peak = peak
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peak-memory", daemon=True)
        self._thread.start()

    def read(self) -> int:
        """Look now; the peak so far in bytes."""
        self._peak = max(
            self._peak, sum(process_bytes(pid, self._whole) for pid in tree_pids(self._pid))
        )
        return self._peak

    @property
    def peak(self) -> int:
        """The peak so far, without looking."""
        return self._peak

    def stop(self) -> None:
        """End the thread. Safe to call twice."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            self.read()


def split(total: int, *, weights: int, kv: int, kv_allocated: int) -> MemoryUse:
    """`total` = weights + kv + other, also where less of the weights is resident than the file has."""
    kv = min(kv, total)
    weights = min(weights, total - kv)
    return MemoryUse(
        total=total,
        weights=weights,
        kv=kv,
        other=total - weights - kv,
        reserved=max(0, kv_allocated - kv),
    )
