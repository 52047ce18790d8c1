"""Bytes in, complete lines out. A line may end in LF, CR or CRLF and may be of any length."""


class LineSplitter:
    """Cuts a byte stream into lines, however it is cut into reads.

    A CR ends its line at once, so that no line waits for a byte that may never come; an LF that
    follows in a later read belongs to it and is dropped.
    """

    __slots__ = ("_parts", "_skip_lf")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._skip_lf = False

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their ends."""
        if not data:
            return []
        if self._skip_lf:
            self._skip_lf = False
            data = data.removeprefix(b"\n")
        if b"\r" in data:
            self._skip_lf = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._parts:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts.clear()
        if rest:
            self._parts.append(rest)
        return lines

    def flush(self) -> bytes:
        """What came after the last line end."""
        rest = b"".join(self._parts)
        self._parts.clear()
        return rest
