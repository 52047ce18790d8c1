"""Where the steady window opens and closes, with times worked out by hand."""

from vivace.load.base import Progress
from vivace.load.steady import SteadyWindow

S = 1_000_000_000


def at(now_s: float, *, first: int = 0, finished: int = 0, last_s: float | None = None) -> Progress:
    return Progress(
        now_ns=int(now_s * S),
        start_ns=0,
        first_tokens=first,
        finished=finished,
        last_finish_ns=None if last_s is None else int(last_s * S),
        failed=0,
    )


def window() -> SteadyWindow:
    return SteadyWindow(concurrency=2, min_s=5, ramp_cap_s=3, limit_s=30)


def test_it_opens_at_the_first_end_after_the_whole_first_wave_has_begun() -> None:
    w = window()
    assert not w(at(1, first=1, finished=1, last_s=1))
    assert w.start_ns is None
    assert not w(at(1.5, first=2, finished=1, last_s=1))
    assert w.start_ns is None
    assert not w(at(2, first=2, finished=2, last_s=2))
    assert w.start_ns == 2 * S


def test_it_opens_without_the_whole_wave_after_the_ramp_cap() -> None:
    w = window()
    w(at(3.5, first=1, finished=1, last_s=3.5))
    assert w.start_ns == int(3.5 * S)


def test_it_closes_at_the_first_end_after_the_shortest_length() -> None:
    w = window()
    w(at(2, first=2, finished=1, last_s=2))
    assert not w(at(6.9, first=3, finished=2, last_s=6.9))
    assert not w(at(8, first=3, finished=2, last_s=6.9))
    assert w(at(9, first=4, finished=3, last_s=9))
    assert w.end_ns == 9 * S


def test_it_gives_up_at_the_limit_without_a_window() -> None:
    w = window()
    assert not w(at(29.9))
    assert w(at(30))
    assert (w.start_ns, w.end_ns) == (None, None)


def test_a_window_cut_short_closes_at_the_last_end_when_it_is_long_enough() -> None:
    w = window()
    w(at(2, first=2, finished=1, last_s=2))
    w(at(5, first=3, finished=2, last_s=4))
    assert not w.close(shortest_s=2.5)
    assert w.end_ns is None
    assert w.close(shortest_s=2)
    assert w.end_ns == 4 * S


def test_a_whole_window_stays_as_it_is() -> None:
    w = window()
    w(at(2, first=2, finished=1, last_s=2))
    w(at(9, first=4, finished=3, last_s=9))
    assert w.close(shortest_s=99)
    assert w.end_ns == 9 * S


def test_without_a_window_there_is_nothing_to_close() -> None:
    w = window()
    assert not w.close(shortest_s=0)
    w(at(1, first=1))
    assert not w.close(shortest_s=0)
