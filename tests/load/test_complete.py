"""One request on its own."""

import threading

from vivace.client.complete import chat_once
from vivace.core import Message, Request

from .server import ANSWER, HEAD, WAIT_S, Peer, Server, chunk, piece

REQUEST = Request(id="r", messages=(Message(role="user", content="hi"),), max_tokens=2)


def test_one_request_gives_its_record() -> None:
    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(ANSWER)

    with Server(script) as server:
        record = chat_once(server.url, REQUEST)
    assert (record.status, record.text, record.usage.prompt_tokens) == ("ok", "ab", 3)


def test_a_refused_request_says_where() -> None:
    with Server(lambda peer: None) as server:
        url = server.url
    record = chat_once(url, REQUEST)
    assert record.status == "error"
    assert record.error == f"cannot connect to {url.removeprefix('http://')}: connection refused"


def test_a_silent_server_is_stalled_with_its_pieces() -> None:
    over = threading.Event()

    def script(peer: Peer) -> None:
        peer.read_request()
        peer.send(HEAD + chunk(piece("a")))
        assert over.wait(WAIT_S)

    with Server(script) as server:
        record = chat_once(server.url, REQUEST, stall_s=0.2)
        over.set()
    assert (record.status, record.text) == ("stalled", "a")


def test_a_long_body_is_sent_whole() -> None:
    long = Request(id="r", messages=(Message(role="user", content="x" * 8_000_000),), max_tokens=2)
    lengths: list[int] = []

    def script(peer: Peer) -> None:
        lengths.append(len(peer.read_request() or b""))
        peer.send(ANSWER)

    with Server(script) as server:
        assert chat_once(server.url, long).status == "ok"
    assert lengths[0] > 8_000_000
