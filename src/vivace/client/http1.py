"""HTTP/1.1 without a socket: requests to bytes, bytes to responses."""

import re
import zlib
from collections.abc import Mapping
from typing import Final

_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_STATUS_LINE: Final = re.compile(rb"HTTP/(1\.[01]) ([1-9][0-9]{2})(?: .*)?")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_MAX_HEAD_BYTES: Final = 256 * 1024
_MAX_LINE_BYTES: Final = 16 * 1024
_BODILESS: Final = (204, 304)


def render_request(
    method: str, host: str, path: str, headers: Mapping[str, str], body: bytes = b""
) -> bytes:
    """One request as the bytes that go to the socket. `host` is the Host header's value."""
    lines = {
        "host": host,
        "accept-encoding": "identity",
        "content-length": str(len(body)),
        **{name.lower(): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


class ResponseParser:
    """One response, read by read.

    `complete` turns true at its framed end, `error` names the first thing that broke the protocol;
    after either nothing more is read. A body that is cut short leaves both unset.
    """

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.complete = False
        self.error: str | None = None
        #: The body came compressed although the request asked for `identity`.
        self.compressed = False
        self.keep_alive = False
        self._rest = b""
        self._step = self._head
        self._left = 0
        self._in_chunk = False
        self._inflate: zlib._Decompress | None = None  # pyright: ignore[reportPrivateUsage]

    def feed(self, data: bytes) -> bytes:
        """The body bytes that `data` brought, without framing and decompressed."""
        if self.complete or self.error:
            # Bytes nobody asked for: whatever they are, the connection cannot be used again.
            self.keep_alive = False
            return b""
        if self._rest:
            data, self._rest = self._rest + data, b""
        return self._step(data)

    def end(self) -> None:
        """The server closed the connection."""
        self.keep_alive = False
        if self._step == self._until_close:
            self.complete = True
        elif self.status is None and not self.error:
            self.error = "the connection closed inside the response head"

    def _fail(self, what: str) -> bytes:
        self.error = what
        self.keep_alive = False
        return b""

    def _done(self, rest: bytes) -> None:
        self.complete = True
        if rest:
            self.keep_alive = False

    def _head(self, data: bytes) -> bytes:
        while end := _HEAD_END.search(data):
            self._read_head(data[: end.start()])
            data = data[end.end() :]
            if self.error:
                return b""
            if self.status is not None:
                return self._begin_body(data)
        if len(data) > _MAX_HEAD_BYTES:
            return self._fail(f"the response head is longer than {_MAX_HEAD_BYTES} bytes")
        self._rest = data
        return b""

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.replace(b"\r\n", b"\n").split(b"\n")
        match = _STATUS_LINE.fullmatch(first)
        if match is None:
            self._fail(f"not an HTTP/1.1 status line: {first[:80]!r}")
            return
        if match[2].startswith(b"1"):  # 100 Continue, 103 Early Hints: the real head follows
            return
        for line in lines:
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or not name or name != name.strip():
                self._fail(f"not an HTTP header: {line[:80]!r}")
                return
            name, value = name.lower(), value.strip()
            if self.headers.setdefault(name, value) != value:
                if name == "content-length":
                    self._fail("two different content-length headers")
                    return
                self.headers[name] += f", {value}"
        connection = self.headers.get("connection", "").lower()
        self.keep_alive = "close" not in connection and (
            match[1] == b"1.1" or "keep-alive" in connection
        )
        self.status = int(match[2])

    def _begin_body(self, data: bytes) -> bytes:
        encoding = self.headers.get("content-encoding", "identity").lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            self.compressed = True
            self._inflate = zlib.decompressobj(wbits=47)  # gzip or zlib, found by itself
        elif encoding not in ("identity", ""):
            return self._fail(f"content-encoding `{encoding}` although `identity` was asked for")
        length = self.headers.get("content-length")
        if self.status in _BODILESS:
            self._done(data)
            return b""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._step = self._chunked
        elif length is None:
            self.keep_alive = False
            self._step = self._until_close
        elif not (length.isascii() and length.isdigit()):
            return self._fail(f"content-length is not a number: {length[:80]!r}")
        else:
            self._left = int(length)
            self._step = self._counted
        return self._step(data)

    def _counted(self, data: bytes) -> bytes:
        body = data[: self._left]
        self._left -= len(body)
        if not self._left:
            self._done(data[len(body) :])
        return self._decode(body)

    def _until_close(self, data: bytes) -> bytes:
        return self._decode(data)

    def _chunked(self, data: bytes) -> bytes:
        pos = 0
        body: list[bytes] = []
        while pos < len(data):
            if self._left:
                part = data[pos : pos + self._left]
                body.append(part)
                pos += len(part)
                self._left -= len(part)
                continue
            end = data.find(b"\r\n", pos)
            if end < 0:
                if len(data) - pos > _MAX_LINE_BYTES:
                    self._fail("a chunk head without an end")
                self._rest = data[pos:]
                break
            line, pos = data[pos:end], end + 2
            if self._in_chunk:  # the CRLF that closes a chunk's data
                if line:
                    self._fail(f"bytes after a chunk's end: {line[:80]!r}")
                    break
                self._in_chunk = False
                continue
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                self._fail(f"not a chunk size: {line[:80]!r}")
                break
            self._left = int(size[1], 16)
            self._in_chunk = self._left > 0
            if not self._left:
                self._step = self._trailers
                self._trailers(data[pos:])
                break
        return self._decode(b"".join(body) if len(body) != 1 else body[0])

    def _trailers(self, data: bytes) -> bytes:
        while (end := data.find(b"\r\n")) >= 0:
            line, data = data[:end], data[end + 2 :]
            if not line:
                self._done(data)
                return b""
        if len(data) > _MAX_LINE_BYTES:
            return self._fail("a trailer without an end")
        self._rest = data
        return b""

    def _decode(self, body: bytes) -> bytes:
        if self._inflate is None or not body:
            return body
        try:
            return self._inflate.decompress(body)
        except zlib.error as error:
            return self._fail(f"the compressed body cannot be read: {error}")
