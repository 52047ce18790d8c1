"""One request and its response on one connection, as a small state machine."""

import time
from typing import Final

from vivace.client.chat import BodyReader, Ending, Read, Response, to_record
from vivace.client.connection import Connection
from vivace.client.http1 import ResponseParser
from vivace.core import Record

#: After `[DONE]` a server has this long to end the response before it is ended from here.
_DONE_GRACE_NS: Final = 200_000_000
_DONE_TAIL_BYTES: Final = 16


class Exchange:
    """Sends when made; then `on_writable()` / `on_readable()` as the socket allows, until `ending`
    is set. The start clock is read directly before the send."""

    __slots__ = (
        "_connection",
        "_detail",
        "_heard_ns",
        "_parser",
        "_reads",
        "_request_id",
        "_retried",
        "_stall_ns",
        "_tail",
        "_unsent",
        "_watch",
        "deadline_ns",
        "end_ns",
        "ending",
        "first_piece_ns",
        "sent_ns",
    )

    def __init__(
        self,
        connection: Connection,
        payload: bytes,
        *,
        request_id: str,
        stall_s: float,
        retried: bool = False,
    ) -> None:
        self._connection = connection
        self._request_id = request_id
        self._retried = retried
        self._stall_ns = int(stall_s * 1e9)
        self._parser = ResponseParser()
        self._reads: list[Read] = []
        self._watch: BodyReader | None = None
        self._tail = b""
        self._detail = ""
        self._unsent = memoryview(payload)
        self.ending: Ending | None = None
        self.first_piece_ns: int | None = None
        self.end_ns = 0
        connection.exchanges += 1
        self.sent_ns = time.perf_counter_ns()
        self.on_writable()
        self._heard_ns = self.sent_ns
        self.deadline_ns = self.sent_ns + self._stall_ns

    @property
    def sending(self) -> bool:
        """Part of the request still waits for room in the socket."""
        return bool(self._unsent) and self.ending is None

    @property
    def lost(self) -> bool:
        """The server had closed a connection used before, and nothing came: safe to send again."""
        return (
            self.ending == "failed"
            and self._heard_ns == self.sent_ns
            and self._connection.exchanges > 1
            and not self._retried
        )

    @property
    def reusable(self) -> bool:
        """The connection can take another request."""
        return self.ending == "complete" and self._parser.keep_alive

    @property
    def sound(self) -> bool:
        """Ended as a good answer does, as far as can be told without parsing it."""
        return self.ending == "complete" and self._parser.status == 200

    def on_writable(self) -> None:
        """Sends what the socket takes."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._connection.socket.send(self._unsent) :]
        except BlockingIOError:
            pass  # the rest goes when the socket is writable again
        except OSError:
            # The server has hung up, perhaps with an answer (413) that is still to be read.
            self._unsent = memoryview(b"")

    def on_readable(self) -> None:
        """Takes one read."""
        try:
            got = self._connection.receive(self._heard_ns)
        except OSError as error:
            self._closed(time.perf_counter_ns(), (error.strerror or str(error)).lower())
            return
        if got is None:
            return
        t_ns, data = got
        if not data:
            self._parser.end()
            self._closed(t_ns, "the server closed the connection")
            return
        self._heard_ns = t_ns
        self.deadline_ns = t_ns + self._stall_ns
        body = self._parser.feed(data)
        if body:
            self._take_body(t_ns, body)
        if self._parser.complete:
            self.end("complete", t_ns)
        elif self._parser.error:
            self.end("failed", t_ns, self._parser.error)

    def on_deadline(self, now_ns: int) -> None:
        """Nothing came until `deadline_ns`."""
        self.end("stalled", now_ns, f"no data for {(now_ns - self._heard_ns) / 1e9:.3g} s")

    def end(self, ending: Ending, t_ns: int, detail: str = "") -> None:
        """Sets how it ended, once."""
        if self.ending is None:
            self.ending, self.end_ns, self._detail = ending, t_ns, detail

    def record(self) -> Record:
        """The parsed record; call it once, when `ending` is set."""
        return to_record(
            Response(
                request_id=self._request_id,
                sent_ns=self.sent_ns,
                end_ns=self.end_ns,
                ending=self.ending or "failed",
                reads=self._reads,
                http_status=self._parser.status,
                content_type=self._parser.headers.get("content-type", ""),
                detail=self._detail,
                retried=self._retried,
            )
        )

    def _take_body(self, t_ns: int, body: bytes) -> None:
        if not self._reads and self._parser.status == 200:
            self._watch = BodyReader(self._parser.headers.get("content-type", ""))
        self._reads.append((t_ns, body))
        if self._watch is not None:
            self._watch.feed(t_ns, body)
            if self._watch.pieces:
                self.first_piece_ns = t_ns
                self._watch = None
        # A raw line end after it: inside JSON text there is none, so this is no quoted `[DONE]`.
        self._tail = (self._tail + body)[-_DONE_TAIL_BYTES:]
        stripped = self._tail.rstrip(b"\r\n")
        if stripped.endswith(b"[DONE]") and stripped != self._tail:
            self.deadline_ns = t_ns + _DONE_GRACE_NS

    def _closed(self, t_ns: int, detail: str) -> None:
        if self._parser.complete:
            self.end("complete", t_ns)
        elif self._parser.error or self._parser.status is None:
            self.end("failed", t_ns, f"{detail} before it answered")
        else:
            self.end("closed", t_ns, detail)
