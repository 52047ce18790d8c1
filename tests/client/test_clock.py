"""Kernel stamps on this process's clock, and URLs taken apart."""

import struct
import time

import pytest

from vivace.client.endpoint import parse_endpoint
from vivace.client.kernel_clock import KernelClock


def stamp(real_ns: int) -> list[tuple[int, int, bytes]]:
    return [(1, 35, struct.pack("=qq", *divmod(real_ns, 1_000_000_000)))]


def test_a_stamp_lands_between_readings_taken_around_it() -> None:
    clock = KernelClock()
    lo, real, hi = time.perf_counter_ns(), time.time_ns(), time.perf_counter_ns()
    slack_ns = 5_000  # the pairing's own error
    t_ns = clock.arrival_ns(stamp(real), lo - slack_ns, hi + slack_ns)
    assert lo - slack_ns <= t_ns < hi + slack_ns


@pytest.mark.parametrize("step_ns", [-3_600_000_000_000, 3_600_000_000_000])
def test_a_stamp_that_cannot_be_true_gives_the_readers_time(step_ns: int) -> None:
    clock = KernelClock()
    now = time.perf_counter_ns()
    assert clock.arrival_ns(stamp(time.time_ns() + step_ns), now - 10, now) == now


@pytest.mark.parametrize(
    ("url", "authority", "path"),
    [
        ("http://h:1", "h:1", "/v1/chat/completions"),
        ("http://h/", "h:80", "/v1/chat/completions"),
        ("http://h:1/v1/", "h:1", "/v1/chat/completions"),
        ("http://h:1/api/v1", "h:1", "/api/v1/chat/completions"),
        ("http://[::1]:2/x/chat/completions", "[::1]:2", "/x/chat/completions"),
    ],
)
def test_a_url_names_host_and_path(url: str, authority: str, path: str) -> None:
    endpoint = parse_endpoint(url)
    assert (endpoint.authority, endpoint.path) == (authority, path)
