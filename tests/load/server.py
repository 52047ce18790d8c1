"""A loopback server that does to each connection exactly what a test's script says."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

WAIT_S = 20.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def piece(text: str, finish: str = "null") -> bytes:
    return (
        b'data: {"choices":[{"delta":{"content":"%s"},"finish_reason":%s}]}\n\n'
        % (text.encode(), finish.encode())
    )  # fmt: skip


ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"
LAST_CHUNK = b"0\r\n\r\n"
ANSWER = (
    HEAD + chunk(ROLE + piece("a")) + chunk(piece("b", '"stop"')) + chunk(USAGE + DONE) + LAST_CHUNK
)


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.socket = sock
        self.number = number
        self._buffer = b""

    def read_request(self) -> bytes | None:
        """The next request's head and body; `None` once the client has gone."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                return None
        head, _, rest = self._buffer.partition(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length:")
        )
        while len(rest) < length:
            if not self._more():
                return None
            rest = self._buffer.partition(b"\r\n\r\n")[2]
        self._buffer = rest[length:]
        return head + b"\r\n\r\n" + rest[:length]

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    def _more(self) -> bool:
        with suppress(OSError):
            data = self.socket.recv(65536)
            self._buffer += data
            return bool(data)
        return False


class Server:
    """Runs `script` in a thread per connection; closes the connection when the script returns.

    An assertion that fails in a script fails the test, as every warning of an unhandled thread does.
    """

    def __init__(self, script: Callable[[Peer], None]) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept)
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> "Server":
        self._accepting.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(WAIT_S)
        self._listener.close()
        for thread in self._threads:
            thread.join(WAIT_S)
        assert not any(t.is_alive() for t in self._threads)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(Peer(sock, self.connections),))
            self._threads.append(thread)
            thread.start()

    def _serve(self, peer: Peer) -> None:
        try:
            self._script(peer)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client left, as cancelling clients do
        finally:
            peer.socket.close()


def answer_all(peer: Peer) -> None:
    """A healthy server that keeps its connections."""
    while peer.read_request() is not None:
        peer.send(ANSWER)


def answer_once(peer: Peer) -> None:
    """Answers once and closes although it advertises keep-alive, as llama.cpp does."""
    if peer.read_request() is not None:
        peer.send(ANSWER)
