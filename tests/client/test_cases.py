"""Every stream of `tests/cases/` gives the values that stand beside it."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.client.chat import BodyReader
from vivace.client.pieces import tool_calls
from vivace.client.sse import Event, EventStreamDecoder
from vivace.core import Record

from .streams import Stream, load_streams

STREAMS = load_streams()
SMALL = [s for s in STREAMS if len(s.body) < 10_000]


def _events(stream: Stream) -> EventStreamDecoder:
    decoder = EventStreamDecoder()
    decoder.feed(stream.body)
    return decoder


def _seconds(ns: int) -> object:
    return pytest.approx(ns / 1e9)


def _reasoning(record: Record) -> str:
    return "".join(p.text for p in record.pieces if p.kind == "reasoning")


def _calls(record: Record) -> list[dict[str, Any]]:
    calls = tool_calls([p.text for p in record.pieces if p.kind == "tool_call"])
    return [{**c, "arguments": json.loads(c["arguments"])} for c in calls]


def _token_gap_ms(record: Record) -> float:
    first, last = record.pieces[0], record.pieces[-1]
    assert first.tokens is not None and last.tokens is not None
    return (last.t_ns - first.t_ns) / 1e6 / (last.tokens - first.tokens)


def _of(name: str) -> Callable[[Stream, Record, Any], bool]:
    return lambda _, record, value: getattr(record, name) == value


def _ms(name: str, scale: float) -> Callable[[Stream, Record, Any], bool]:
    def check(_: Stream, record: Record, value: float | None) -> bool:
        got = getattr(record, name)
        return got is None if value is None else got == pytest.approx(value * scale)

    return check


CHECKS: dict[str, Callable[[Stream, Record, Any], bool]] = {
    "status": _of("status"),
    "text": _of("text"),
    "finish_reason": _of("finish_reason"),
    "ttft_s": _ms("ttft_ms", 1000),
    "time_to_first_answer_token_s": _ms("ttfa_ms", 1000),
    "e2e_s": _ms("e2e_ms", 1000),
    "tpot_s": _ms("tpot_ms", 1000),
    "tpot_ms": _ms("tpot_ms", 1),
    "mean_itl_ms": lambda s, r, v: _token_gap_ms(r) == pytest.approx(v),
    "prompt_tokens": lambda s, r, v: r.usage.prompt_tokens == v,
    # Nothing was generated and no count was sent: not measured, never an invented zero.
    "completion_tokens": lambda s, r, v: (
        r.output_tokens == v if v else r.output_tokens is None and not r.pieces
    ),
    "parse_errors": lambda s, r, v: r.error is None,
    "counted_as_success": lambda s, r, v: (r.status == "ok") == v,
    "counted_in_throughput": lambda s, r, v: (r.status == "ok") == v,
    "reasoning": lambda s, r, v: _reasoning(r) == v,
    "error_message": lambda s, r, v: (r.error or "").startswith(v),
    "error_code": lambda s, r, v: f", {v})" in (r.error or ""),
    "error_type": lambda s, r, v: f"({v})" in (r.error or ""),
    "comment_lines": lambda s, r, v: _events(s).comments == v,
    "events": lambda s, r, v: len(EventStreamDecoder().feed(s.body)) - 1 == v,  # and [DONE]
    "contains_U_FFFD": lambda s, r, v: ("�" in r.text) == v,
    "text_length": lambda s, r, v: len(r.text) == v,
    "tool_calls": lambda s, r, v: _calls(r) == v,
    "chunks_with_text": lambda s, r, v: len(r.pieces) == v,
    "detected_at_s": lambda s, r, v: _seconds(r.end_ns) == v,
    "itl_samples": lambda s, r, v: len(r.pieces) - 1 == v,
    "itl_s": lambda s, r, v: (
        [(b.t_ns - a.t_ns) / 1e9 for a, b in pairwise(r.pieces)] == pytest.approx(v)
    ),
}
#: Keys that are remarks, or belong to parts other than the client.
REMARKS = {
    "excluded_from",
    "line_bytes_at_least",
    "note",
    "retryable",
    "rule",
    "same_result_for",
    "time_to_first_byte_s",
    "without_usage",
}


@pytest.mark.parametrize("stream", STREAMS, ids=lambda s: s.name)
def test_a_recorded_stream_gives_its_expected_values(stream: Stream) -> None:
    record = stream.record()
    checked = [k for k in stream.expected if k not in REMARKS and not k.startswith("wrong")]
    assert checked
    failed = [k for k in checked if not CHECKS[k](stream, record, stream.expected[k])]
    assert not failed, record


def test_all_recorded_streams_are_there() -> None:
    assert len(STREAMS) == 19


def _facts(record: Record) -> tuple[object, ...]:
    pieces = [(p.kind, p.text, p.tokens) for p in record.pieces]
    return pieces, record.status, record.usage, record.finish_reason, record.error


@pytest.mark.parametrize("stream", SMALL, ids=lambda s: s.name)
def test_a_cut_at_any_byte_changes_nothing(stream: Stream) -> None:
    def events(*reads: bytes) -> list[Event]:
        decoder = BodyReader(stream.content_type).decoder
        found = [event for read in reads for event in decoder.feed(read)]
        return found + decoder.flush()

    body, t_ns = stream.body, stream.reads[-1][0]
    whole = events(body)
    assert whole or stream.record().status == "error"
    assert all(events(body[:cut], body[cut:]) == whole for cut in range(1, len(body)))
    single_bytes = [(t_ns, body[i : i + 1]) for i in range(len(body))]
    assert _facts(stream.record(single_bytes)) == _facts(stream.record())


@given(data=st.data())
def test_any_number_of_cuts_changes_nothing(data: st.DataObject) -> None:
    stream = data.draw(st.sampled_from(SMALL))
    body = stream.body
    cuts = sorted(data.draw(st.sets(st.integers(0, len(body)), max_size=40)))
    bounds = [0, *cuts, len(body)]
    reads = [(b, body[a:b]) for a, b in pairwise(bounds)]
    record = stream.record(reads)
    assert _facts(record) == _facts(stream.record())
    times = [p.t_ns for p in record.pieces]
    assert times == sorted(times)
