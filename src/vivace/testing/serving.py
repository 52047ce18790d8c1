"""The scripted engine as an OpenAI-compatible server on loopback, in real time."""

import socket
import sys
import threading
from http.server import ThreadingHTTPServer
from types import TracebackType
from typing import Self

from vivace.testing.api import Handler
from vivace.testing.job import Job
from vivace.testing.realtime import LiveModel
from vivace.testing.script import Quirks, Script
from vivace.testing.text import Prompt


class ScriptedServer:
    """`with ScriptedServer(Script()) as server:` serves at `server.url` until the block ends.

    `time_scale` 0.1 makes everything ten times as fast. When the script lets the engine die, the
    port closes and all connections are reset.
    """

    def __init__(
        self,
        script: Script,
        *,
        quirks: Quirks | None = None,
        time_scale: float = 1.0,
        port: int = 0,
    ) -> None:
        self.quirks = quirks or Quirks()
        self.known: dict[int, str] = {}
        self.saved: dict[str, Prompt] = {}
        self.live = LiveModel(script, time_scale=time_scale, on_death=self._die)
        handler = type("BoundHandler", (Handler,), {"face": self})
        self._http = _Http(("127.0.0.1", port), handler)
        self._serving = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._requests = 0
        self._lock = threading.Lock()
        #: Set once the engine has died and everything is closed.
        self.died = threading.Event()

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self._http.server_port}"

    @property
    def jobs(self) -> list[Job]:
        """Every request that reached the engine, with the model's exact times."""
        return self.live.jobs

    def count_request(self) -> int:
        """The number of this generation request, from 1."""
        with self._lock:
            self._requests += 1
            return self._requests

    def __enter__(self) -> Self:
        self.live.start()
        self._serving.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.live.stop()
        self._close()

    def _die(self) -> None:
        self._close()
        self.died.set()

    def _close(self) -> None:
        self._http.shutdown()
        self._serving.join()
        self._http.drop_connections()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    """Remembers its connections, so that it can cut them."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, address: tuple[str, int], handler: type[Handler]) -> None:
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: object, client_address: object) -> None:
        """Notes the connection and gives it its thread."""
        if isinstance(request, socket.socket):
            with self._guard:
                self._open.add(request)
        super().process_request(request, client_address)  # pyright: ignore[reportArgumentType]

    def shutdown_request(self, request: object) -> None:
        """Forgets the connection and closes it."""
        with self._guard:
            self._open.discard(request)  # pyright: ignore[reportArgumentType]
        super().shutdown_request(request)  # pyright: ignore[reportArgumentType]

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves is no error."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # pyright: ignore[reportArgumentType]

    def drop_connections(self) -> None:
        """Cuts every connection; its thread closes it."""
        with self._guard:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # the client was faster
