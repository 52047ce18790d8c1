"""The closed loop against a server that misbehaves on purpose."""

import gc
import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from vivace.core import Message, Record, Request
from vivace.errors import ConfigError
from vivace.load.base import Progress, Until
from vivace.load.closed import HttpDriver

from .server import (
    ANSWER,
    DONE,
    HEAD,
    LAST_CHUNK,
    ROLE,
    WAIT_S,
    Peer,
    Server,
    answer_all,
    answer_once,
    chunk,
    piece,
)


def requests(n: int | None = None, text: str = "hi") -> Iterator[Request]:
    messages = (Message(role="user", content=text),)
    numbers = itertools.count() if n is None else range(n)
    return (Request(id=f"r{i}", messages=messages, max_tokens=2) for i in numbers)


def drive(
    url: str,
    n: int | None = 1,
    *,
    concurrency: int = 1,
    until: Until | None = None,
    stall_s: float = WAIT_S,
    text: str = "hi",
) -> list[Record]:
    return HttpDriver().closed_loop(
        url, requests(n, text), concurrency=concurrency, until=until, stall_s=stall_s
    )


def test_requests_share_one_kept_connection_and_come_back_in_order() -> None:
    with Server(answer_all) as server:
        records = drive(server.url, 5)
    assert server.connections == 1
    assert [r.request_id for r in records] == ["r0", "r1", "r2", "r3", "r4"]
    assert {(r.status, r.text, r.output_tokens, r.retried) for r in records} == {
        ("ok", "ab", 2, False)
    }
    for r in records:
        times = [r.sent_ns, *(p.t_ns for p in r.pieces), r.end_ns]
        assert times == sorted(times)


def test_the_request_reaches_the_server_as_it_was_rendered() -> None:
    seen: list[bytes] = []

    def script(peer: Peer) -> None:
        seen.append(peer.read_request() or b"")
        peer.send(ANSWER)

    with Server(script) as server:
        HttpDriver(model="m", headers={"authorization": "Bearer k"}).closed_loop(
            server.url + "/v1", requests(1), concurrency=1
        )
    head, _, body = seen[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:")
    assert b"authorization: Bearer k" in head
    assert b'"model":"m"' in body


@pytest.mark.parametrize("concurrency", [2, 5, 101])
def test_exactly_as_many_requests_as_asked_for_are_in_flight(concurrency: int) -> None:
    # Every answer waits until `concurrency` requests are there; one more would be seen as a
    # second party at the next barrier, one fewer would break it.
    barrier = threading.Barrier(concurrency, timeout=WAIT_S)
    lock = threading.Lock()
    in_flight = peak = 0

    def script(peer: Peer) -> None:
        nonlocal in_flight, peak
        while peer.read_request() is not None:
            with lock:
                in_flight += 1
                peak = max(peak, in_flight)
            barrier.wait()
            with lock:
                in_flight -= 1
            barrier.wait()
            peer.send(ANSWER)

    with Server(script) as server:
        records = drive(server.url, 3 * concurrency, concurrency=concurrency)
    assert (peak, server.connections) == (concurrency, concurrency)
    assert [r.status for r in records] == ["ok"] * 3 * concurrency


def test_fewer_requests_than_slots_open_no_more_connections_than_needed() -> None:
    with Server(answer_all) as server:
        assert len(drive(server.url, 3, concurrency=8)) == 3
    assert server.connections == 3


def test_a_server_that_closes_after_each_answer_costs_one_retry_then_fresh_connections() -> None:
    with Server(answer_once) as server:
        records = drive(server.url, 4)
    assert [(r.status, r.retried) for r in records] == [
        ("ok", False),
        ("ok", True),
        ("ok", False),
        ("ok", False),
    ]
    assert server.connections == 4


def test_a_fresh_connection_that_closes_without_an_answer_is_not_retried() -> None:
    def script(peer: Peer) -> None:
        peer.read_request()

    with Server(script) as server:
        (record,) = drive(server.url)
    assert (record.status, record.retried) == ("error", False)
    assert record.error == "the server closed the connection before it answered"


def test_refused_connections_become_records_and_end_the_load() -> None:
    with Server(answer_all) as server:
        url = server.url
    records = drive(url, None)
    assert len(records) == 8
    assert {r.status for r in records} == {"error"}
    assert all((r.error or "").endswith("connection refused") for r in records)


def test_a_server_that_only_fails_ends_the_load() -> None:
    def script(peer: Peer) -> None:
        while peer.read_request() is not None:
            peer.send(b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops")

    progress: list[Progress] = []
    with Server(script) as server:
        records = drive(server.url, None, until=lambda p: progress.append(p) is not None)
    assert [(r.status, r.error, r.http_status) for r in records] == [("error", "oops", 500)] * 8
    assert progress[-1].failed in (7, 8)


def test_failures_with_successes_between_them_do_not_end_the_load() -> None:
    def script(peer: Peer) -> None:
        for i in itertools.count():
            if peer.read_request() is None:
                return
            peer.send(b"HTTP/1.1 429 Slow\r\ncontent-length: 0\r\n\r\n" if i % 2 else ANSWER)

    with Server(script) as server:
        records = drive(server.url, 40)
    assert [r.status for r in records] == ["ok", "error"] * 20


def test_a_connection_cut_in_the_middle_keeps_its_pieces() -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD + chunk(piece("a")) + chunk(piece("b"))[:20])

    with Server(script) as server:
        (record,) = drive(server.url)
    assert (record.status, record.text) == ("incomplete", "a")
    assert record.error == "the server closed the connection after 1 pieces"


def test_a_reset_in_the_middle_keeps_its_pieces() -> None:
    first = threading.Event()

    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD + chunk(piece("a")))
        assert first.wait(WAIT_S)
        peer.reset()

    with Server(script) as server:
        (record,) = drive(server.url, until=lambda p: bool(p.first_tokens and first.set()))
    assert (record.status, record.text) == ("incomplete", "a")
    assert record.error == "connection reset by peer after 1 pieces"


def test_a_silent_stream_is_stalled_and_the_others_go_on() -> None:
    over = threading.Event()

    def script(peer: Peer) -> None:
        if b'"content":"hi"' in (peer.read_request() or b"") and peer.number == 1:
            peer.send(HEAD + chunk(piece("a")))
            assert over.wait(WAIT_S)
        else:
            peer.send(ANSWER)

    with Server(script) as server:
        records = drive(server.url, 3, stall_s=0.3)
        over.set()
    assert [r.status for r in records] == ["stalled", "ok", "ok"]
    assert records[0].text == "a"
    waited_s = (records[0].end_ns - records[0].pieces[0].t_ns) / 1e9
    assert 0.3 <= waited_s < WAIT_S
    assert (records[0].error or "").startswith("no data for 0.")


def test_a_request_waits_in_a_queue_as_long_as_others_are_answered() -> None:
    asked = itertools.count(1)
    over = threading.Event()

    def script(peer: Peer) -> None:
        peer.read_request()
        if peer.number == 1:
            assert over.wait(WAIT_S)
        else:
            # Four others are answered meanwhile, one after the other.
            time.sleep(0.2)
            if next(asked) == 4:
                over.set()
        peer.send(ANSWER)

    with Server(script) as server:
        records = drive(server.url, 5, concurrency=2, stall_s=0.5)
    assert [r.status for r in records] == ["ok"] * 5
    assert max((r.end_ns - r.sent_ns) / 1e9 for r in records) > 0.5


def test_keep_alive_comments_hold_a_stall_off() -> None:
    # Eight comments, each sent only after the loop has looked at its deadlines once more:
    # together longer than the stall limit, each gap shorter.
    asked = threading.Semaphore(0)

    def until(progress: Progress) -> bool:
        asked.release()
        return False

    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD)
        for _ in range(8):
            assert asked.acquire(timeout=WAIT_S)
            assert asked.acquire(timeout=WAIT_S)
            peer.send(chunk(b": keep-alive\n\n"))
        peer.send(ANSWER.removeprefix(HEAD))

    with Server(script) as server:
        (record,) = drive(server.url, until=until, stall_s=0.5)
    assert record.status == "ok"
    assert (record.ttft_ms or 0) > 500


def test_a_role_only_chunk_is_not_a_first_token() -> None:
    seen: list[int] = []
    role_seen = threading.Event()

    def until(progress: Progress) -> bool:
        seen.append(progress.first_tokens)
        if len(seen) == 3:
            role_seen.set()
        return False

    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD + chunk(ROLE))
        assert role_seen.wait(WAIT_S)
        peer.send(ANSWER.removeprefix(HEAD))

    with Server(script) as server:
        drive(server.url, until=until)
    assert seen[:3] == [0, 0, 0]
    assert seen[-1] == 1


def test_until_ends_the_load_and_what_is_in_flight_keeps_its_pieces() -> None:
    gone = threading.Semaphore(0)

    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD + chunk(piece("a")))
        assert peer.read_request() is None  # the client has closed the socket
        gone.release()

    with Server(script) as server:
        records = drive(server.url, None, concurrency=3, until=lambda p: p.first_tokens == 3)
        assert all(gone.acquire(timeout=WAIT_S) for _ in range(3))
    assert [(r.status, r.text, r.error) for r in records] == [("cancelled", "a", None)] * 3


def test_until_is_told_of_an_end_at_the_moment_of_that_end() -> None:
    ends: list[Progress] = []

    def until(progress: Progress) -> bool:
        if progress.now_ns == progress.last_finish_ns:
            ends.append(progress)
        return progress.finished == 2

    with Server(answer_all) as server:
        records = drive(server.url, None, until=until)
    assert [p.finished for p in ends] == [1, 2]
    assert [r.end_ns for r in records] == [p.last_finish_ns for p in ends]
    assert all(p.start_ns <= records[0].sent_ns for p in ends)


def test_an_interrupt_travels_on_and_closes_the_sockets() -> None:
    gone = threading.Event()

    def until(progress: Progress) -> bool:
        raise KeyboardInterrupt

    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD + chunk(piece("a")))
        assert peer.read_request() is None
        gone.set()

    with Server(script) as server:
        with pytest.raises(KeyboardInterrupt):
            drive(server.url, until=until)
        assert gone.wait(WAIT_S)
    assert gc.isenabled()


def test_a_connection_held_open_after_done_costs_no_stall_and_no_latency() -> None:
    over = threading.Event()

    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD + chunk(piece("a", '"stop"') + DONE))
        assert over.wait(WAIT_S)

    with Server(script) as server:
        (record,) = drive(server.url)
        over.set()
    assert record.status == "ok"
    assert (record.end_ns - record.pieces[-1].t_ns) / 1e9 < WAIT_S / 2


def test_done_inside_an_answer_is_only_text() -> None:
    # The read ends directly behind a quoted `[DONE]`; a grace period begun there would end the
    # request after 0.2 s, before the second half is let go.
    asked = threading.Semaphore(0)

    def until(progress: Progress) -> bool:
        asked.release()
        return False

    def script(peer: Peer) -> None:
        peer.read_request()
        body = piece("data: [DONE]", '"stop"') + DONE
        cut = body.index(b"[DONE]") + len(b"[DONE]")
        peer.send(HEAD + chunk(body[:cut]))
        for _ in range(8):
            assert asked.acquire(timeout=WAIT_S)
        peer.send(chunk(body[cut:]) + LAST_CHUNK)

    with Server(script) as server:
        (record,) = drive(server.url, until=until)
    assert (record.status, record.text) == ("ok", "data: [DONE]")


def test_events_that_arrive_in_one_read_are_counted_as_merged() -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD + chunk(piece("a") + piece("b") + piece("c", '"stop"')) + LAST_CHUNK)

    with Server(script) as server:
        (record,) = drive(server.url)
    assert (record.merged_reads, len(record.pieces)) == (2, 3)


def test_a_body_larger_than_the_socket_buffer_arrives_whole() -> None:
    text = "x" * 8_000_000
    lengths: list[int] = []

    def script(peer: Peer) -> None:
        lengths.append((peer.read_request() or b"").count(b"x"))
        peer.send(ANSWER)

    with Server(script) as server:
        (record,) = drive(server.url, text=text)
    assert record.status == "ok"
    assert lengths[0] >= len(text)


def test_a_malformed_response_is_an_error_with_its_reason() -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(b"SSH-2.0-OpenSSH\r\n\r\n")

    with Server(script) as server:
        (record,) = drive(server.url)
    assert record.status == "error"
    assert "status line" in (record.error or "")


def test_proxy_variables_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with Server(answer_all) as server:
        assert drive(server.url)[0].status == "ok"


@pytest.mark.parametrize("url", ["127.0.0.1:80", "https://h", "http://", "http://h:x"])
def test_a_url_that_cannot_be_driven_is_refused(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        drive(url)
    assert caught.value.hint


def test_concurrency_below_one_is_refused() -> None:
    with pytest.raises(ConfigError, match="got 0"):
        drive("http://127.0.0.1:1", concurrency=0)
