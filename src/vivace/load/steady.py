"""The steady window of a loaded block: ramp and tail left out."""

from dataclasses import dataclass

from vivace.load.base import Progress

DEFAULT_WINDOW_S = 20.0


@dataclass(slots=True)
class SteadyWindow:
    """An `Until` that watches for the steady window and remembers where it was.

    The window opens at the first end of a request after every first-wave request has its first
    token, or after `ramp_cap_s` for engines that queue most of the wave; it closes at the first
    end of a request at least `min_s` later. Opening and closing at the same kind of event keeps
    whole service cycles inside, so a one-slot engine is not judged by where its burst fell.
    """

    concurrency: int
    min_s: float = DEFAULT_WINDOW_S
    ramp_cap_s: float = 10.0
    limit_s: float = 120.0
    start_ns: int | None = None
    end_ns: int | None = None
    _finished_at_open: int = 0
    _last_ns: int | None = None

    def __call__(self, progress: Progress) -> bool:
        elapsed_s = (progress.now_ns - progress.start_ns) / 1e9
        self._last_ns = progress.last_finish_ns
        if self.start_ns is None:
            ramped = progress.first_tokens >= self.concurrency or elapsed_s >= self.ramp_cap_s
            if ramped and progress.last_finish_ns == progress.now_ns:
                self.start_ns = progress.now_ns
                self._finished_at_open = progress.finished
        elif (
            progress.finished > self._finished_at_open
            and progress.last_finish_ns is not None
            and progress.last_finish_ns - self.start_ns >= self.min_s * 1e9
        ):
            self.end_ns = progress.last_finish_ns
            return True
        return elapsed_s >= self.limit_s

    def close(self, *, shortest_s: float) -> bool:
        """Whether the window is whole; one that was cut short closes where a request ended last."""
        if self.end_ns is None and self.start_ns is not None and self._last_ns is not None:
            whole = self._last_ns - self.start_ns >= shortest_s * 1e9
            self.end_ns = self._last_ns if whole else None
        return self.end_ns is not None
