"""The event-stream rules, one behaviour a test."""

import pytest

from vivace.client.sse import Event, EventStreamDecoder, JsonLinesDecoder


def decode(*reads: bytes) -> list[tuple[str, str]]:
    decoder = EventStreamDecoder()
    events = [event for read in reads for event in decoder.feed(read)]
    return [(e.type, e.data) for e in events]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_every_line_end_closes_an_event(end: bytes) -> None:
    assert decode(b"data: a" + end + end + b"data: b" + end + end) == [
        ("message", "a"),
        ("message", "b"),
    ]


def test_crlf_cut_between_two_reads_is_one_line_end() -> None:
    assert decode(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [("message", "a\nb")]


def test_a_cr_closes_its_event_without_waiting_for_the_next_byte() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(b"data: a\r\r") == [Event("message", "a")]


def test_only_one_blank_after_the_colon_is_dropped() -> None:
    assert decode(b"data:a\n\ndata:  b\n\n") == [("message", "a"), ("message", " b")]


def test_data_lines_of_one_event_are_joined_by_line_feeds() -> None:
    assert decode(b"data: a\ndata\ndata: b\n\n") == [("message", "a\n\nb")]


def test_an_event_without_data_is_not_dispatched() -> None:
    assert decode(b"id: 7\n\nevent: ping\n\n: note\n\nretry: 10\n\ndata: x\n\n") == [
        ("message", "x")
    ]


def test_an_event_type_holds_for_one_event() -> None:
    assert decode(b"event: error\ndata: x\n\ndata: y\n\n") == [("error", "x"), ("message", "y")]


def test_an_error_field_is_an_error_event() -> None:
    assert decode(b'error: {"code":400}\n\n') == [("error", '{"code":400}')]


def test_comments_between_data_lines_are_dropped_and_counted() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(b": a\ndata: x\n:\ndata: y\n\n") == [Event("message", "x\ny")]
    assert decoder.comments == 2


def test_a_byte_order_mark_is_dropped_at_the_start_only() -> None:
    bom = b"\xef\xbb\xbf"
    assert decode(bom[:1], bom[1:] + b"data: a\n\n" + bom + b"data: b\n\n") == [("message", "a")]


def test_a_character_cut_between_reads_is_whole() -> None:
    assert decode(b"data: \xe4\xbd", b"\xa0\n\n") == [("message", "你")]


def test_a_broken_character_becomes_a_replacement_character() -> None:
    assert decode(b"data: \xe4\xbd\n\n") == [("message", "�")]


def test_flush_gives_the_event_that_lacks_its_blank_line() -> None:
    decoder = EventStreamDecoder()
    assert decoder.feed(b"data: a\ndata: b") == []
    assert decoder.flush() == [Event("message", "a\nb")]
    assert decoder.flush() == []


def test_json_lines_are_events_and_blank_lines_are_not() -> None:
    decoder = JsonLinesDecoder()
    assert decoder.feed(b'{"a":1}\r\n\r\n{"b"') == [Event("message", '{"a":1}')]
    assert decoder.feed(b":2}") == []
    assert decoder.flush() == [Event("message", '{"b":2}')]
    assert decoder.flush() == []
