"""The reads of one response, made into a `Record`. No socket, no clock: times come with the reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from vivace.client.pieces import error_of, finish_reason_of, pieces_of
from vivace.client.sse import Decoder, Event, EventStreamDecoder, JsonLinesDecoder
from vivace.client.usage import USAGE_KEYS, merge, usage_from
from vivace.client.wire import is_mapping, mapping, parse
from vivace.core import Piece, Record, RecordStatus, Usage

#: Arrival in ns, and the body bytes that came then (without HTTP framing).
Read = tuple[int, bytes]

#: How the exchange ended: framed end, connection closed early, silent for too long, cancelled by
#: us, or broken (refused, malformed).
Ending = Literal["complete", "closed", "stalled", "cancelled", "failed"]

_ERROR_CHARS = 500


class BodyReader:
    """The body of one response, read by read. A piece's time is that of the read that completed
    its event."""

    def __init__(self, content_type: str = "") -> None:
        is_lines = "ndjson" in content_type or "jsonl" in content_type
        self.decoder: Decoder = JsonLinesDecoder() if is_lines else EventStreamDecoder()
        self.pieces: list[Piece] = []
        self.usage = Usage()
        self.finish_reason: str | None = None
        self.done = False
        self.error: str | None = None
        #: Output events that shared a read with a later one: their own time is not known.
        self.merged = 0
        self.events = 0

    def feed(self, t_ns: int, data: bytes) -> None:
        """Takes one read."""
        self._take(t_ns, self.decoder.feed(data))

    def end(self, t_ns: int) -> None:
        """Takes an event that lacked only its end."""
        self._take(t_ns, self.decoder.flush(), cut=True)

    def take_object(self, t_ns: int, obj: dict[str, Any]) -> bool:
        """Takes one chunk or a whole answer; true when it had output."""
        tokens = None
        if not USAGE_KEYS.isdisjoint(obj):
            usage = usage_from(obj)
            self.usage = merge(self.usage, usage)
            tokens = usage.completion_tokens
        self.finish_reason = finish_reason_of(obj) or self.finish_reason
        found = pieces_of(obj)
        for kind, text in found:
            self.pieces.append(Piece(t_ns=t_ns, kind=kind, text=text, tokens=tokens))
        return bool(found)

    def _take(self, t_ns: int, events: Sequence[Event], *, cut: bool = False) -> None:
        outputs = 0
        for event in events:
            data = event.data.strip()
            if event.type == "error":
                self._fail(error_of(parse(data) or data, is_error=True))
            elif data == "[DONE]":
                self.done = True
            elif data:
                self.events += 1
                obj = parse(data)
                if is_mapping(obj):
                    outputs += self.take_object(t_ns, obj)
                    self._fail(error_of(obj))
                elif not cut:  # half an event at the end is a cut stream, not a malformed one
                    self._fail(f"an event is not a JSON object: {data[:80]}")
        self.merged += max(outputs - 1, 0)

    def _fail(self, error: str | None) -> None:
        self.error = self.error or error


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """Everything that is known of one exchange when it is over."""

    request_id: str
    sent_ns: int
    end_ns: int
    ending: Ending
    reads: Sequence[Read] = ()
    http_status: int | None = None
    content_type: str = ""
    #: What went wrong, where the transport knows it.
    detail: str = ""
    retried: bool = False


def to_record(response: Response) -> Record:
    """The record of a finished exchange. Pieces are kept whatever the status."""
    body = BodyReader(response.content_type)
    if response.http_status is not None and not 200 <= response.http_status < 300:
        status, error = "error", _http_error(response)
    else:
        _read_body(body, response)
        status, error = _judge(body, response)
    return Record(
        request_id=response.request_id,
        sent_ns=response.sent_ns,
        end_ns=response.end_ns,
        status=status,
        pieces=tuple(body.pieces),
        usage=body.usage,
        finish_reason=body.finish_reason,
        http_status=response.http_status,
        error=error,
        merged_reads=body.merged,
        retried=response.retried,
    )


def _read_body(body: BodyReader, response: Response) -> None:
    for t_ns, data in response.reads:
        body.feed(t_ns, data)
    if not response.reads:
        return
    last_ns = response.reads[-1][0]
    body.end(last_ns)
    if not body.events and not body.done:
        # No stream came although one was asked for: a JSON error, or the whole answer at once.
        obj = mapping(parse(b"".join(data for _, data in response.reads)))
        body.take_object(last_ns, obj)
        body.error = body.error or error_of(obj)


def _judge(body: BodyReader, response: Response) -> tuple[RecordStatus, str | None]:
    """Status and error. Only a finished answer without any error is ok."""
    if body.error is not None or response.ending == "failed":
        return "error", body.error or response.detail or "the exchange failed"
    if response.ending == "cancelled" and not body.done:
        return "cancelled", None  # its usage may be missing although its finish reason came
    if body.done or body.finish_reason is not None:
        return "ok", None
    status: RecordStatus = "stalled" if response.ending == "stalled" else "incomplete"
    what = response.detail or "the stream ended without a finish reason"
    return status, f"{what} after {len(body.pieces)} pieces"


def _http_error(response: Response) -> str:
    text = b"".join(data for _, data in response.reads).decode("utf-8", "replace").strip()
    body = mapping(parse(text))
    words = error_of(body, is_error=True) if body else text[:_ERROR_CHARS]
    return words or f"HTTP {response.http_status} without a body"
