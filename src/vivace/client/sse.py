"""Event streams: server-sent events (WHATWG HTML, section 9.2.6) and newline-delimited JSON."""

from dataclasses import dataclass
from typing import Protocol

from vivace.client.lines import LineSplitter

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `type` is `message` unless the stream named another."""

    type: str
    data: str


class Decoder(Protocol):
    """Bytes in, events out."""

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        ...

    def flush(self) -> list[Event]:
        """At the end of the stream: the event that lacks only its end."""
        ...


class EventStreamDecoder:
    """Server-sent events by the WHATWG rules, with two departures.

    A field `error:` is read as `event: error` with that data (some llama.cpp builds send it), and
    an event that lacks only its closing blank line at the end of the stream is given, not dropped.
    `id` and `retry` are ignored: a measured request is never resumed.
    """

    __slots__ = ("_at_start", "_data", "_lines", "_type", "comments")

    def __init__(self) -> None:
        self.comments = 0
        self._lines = LineSplitter()
        self._at_start = True
        self._data: list[bytes] = []
        self._type = "message"

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        events: list[Event] = []
        for line in self._lines.feed(data):
            self._line(line, events)
        return events

    def flush(self) -> list[Event]:
        """At the end of the stream: the event that lacks only its end."""
        events: list[Event] = []
        self._line(self._lines.flush(), events)
        self._line(b"", events)
        return events

    def _line(self, line: bytes, events: list[Event]) -> None:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            if self._data:
                data = b"\n".join(self._data).decode("utf-8", "replace")
                events.append(Event(self._type, data))
                self._data.clear()
            self._type = "message"
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode("utf-8", "replace") or "message"
        elif name == b"error":
            self._type = "error"
            self._data.append(value)
        elif not name:
            self.comments += 1


class JsonLinesDecoder:
    """One event a line, as Ollama's own interface streams."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines = LineSplitter()

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes."""
        return [_message(line) for line in self._lines.feed(data) if line.strip()]

    def flush(self) -> list[Event]:
        """The last line, if it had no end."""
        rest = self._lines.flush()
        return [_message(rest)] if rest.strip() else []


def _message(line: bytes) -> Event:
    return Event("message", line.decode("utf-8", "replace"))
