"""One connection: when data is said to have come, and what a failed connect says."""

import selectors
import socket
import time
from collections.abc import Iterator

import pytest

from vivace.client.connection import Connection, connect_all
from vivace.client.kernel_clock import KernelClock, new_kernel_clock


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def connected(listener: socket.socket, kernel: KernelClock | None) -> Connection:
    connection = Connection((socket.AF_INET, listener.getsockname()), kernel)
    connect_all([connection], 5)
    assert connection.connected
    return connection


def wait_readable(connection: Connection) -> None:
    with selectors.DefaultSelector() as selector:
        selector.register(connection.socket, selectors.EVENT_READ)
        assert selector.select(5)


@pytest.mark.skipif(new_kernel_clock() is None, reason="this platform stamps no reads")
def test_kernel_time_is_when_the_data_came_not_when_it_was_read(listener: socket.socket) -> None:
    connection = connected(listener, new_kernel_clock())
    peer, _ = listener.accept()
    with peer, connection.socket:
        before_ns = time.perf_counter_ns()
        peer.sendall(b"x")
        wait_readable(connection)
        there_ns = time.perf_counter_ns()
        while time.perf_counter_ns() < there_ns + 2_000_000:
            pass  # a busy client, which comes to its reads late
        got = connection.receive(before_ns)
    assert connection.clock == "kernel"
    assert got is not None and got[1] == b"x"
    assert before_ns <= got[0] <= there_ns


def test_without_a_kernel_clock_the_time_is_that_of_the_read(listener: socket.socket) -> None:
    connection = connected(listener, None)
    peer, _ = listener.accept()
    with peer, connection.socket:
        assert connection.receive(0) is None
        peer.sendall(b"x")
        wait_readable(connection)
        there_ns = time.perf_counter_ns()
        got = connection.receive(0)
        assert connection.clock == "user"
        assert got is not None and got[0] >= there_ns
        peer.close()
        wait_readable(connection)
        closed = connection.receive(0)
        assert closed is not None and closed[1] == b""


def test_a_refused_connection_says_why(listener: socket.socket) -> None:
    address = listener.getsockname()
    listener.close()
    connection = Connection((socket.AF_INET, address), None)
    with connection.socket:
        connect_all([connection], 5)
    assert (connection.connected, connection.failure) == (False, "Connection refused")


def test_a_connection_that_nobody_accepts_times_out() -> None:
    with socket.socket() as server, socket.socket() as filler:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        filler.connect(server.getsockname())  # fills the only place in the queue
        connections = [Connection((socket.AF_INET, server.getsockname()), None) for _ in range(3)]
        connect_all(connections, 0.05)
        for connection in connections:
            connection.close()
    assert connections[-1].failure == "no connection within 0.05 s"
