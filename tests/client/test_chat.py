"""How the reads of one response become a record."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.client.body import render_chat
from vivace.client.chat import Ending, Response, to_record
from vivace.client.pieces import pieces_of, tool_calls
from vivace.core import Message, Record, Request

from .streams import load_streams

FAILED = [s for s in load_streams() if s.record().status != "ok" and len(s.body) < 10_000]


def sse(*objects: object, done: bool = True) -> bytes:
    events = [json.dumps(o) for o in objects] + ["[DONE]"] * done
    return "".join(f"data: {e}\n\n" for e in events).encode()


def delta(finish: str | None = None, **fields: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def record(
    *reads: bytes, status: int = 200, ending: Ending = "complete", content_type: str = ""
) -> Record:
    return to_record(
        Response(
            request_id="r",
            sent_ns=0,
            end_ns=1000,
            ending=ending,
            reads=[(i + 1, data) for i, data in enumerate(reads)],
            http_status=status,
            content_type=content_type,
        )
    )


def test_output_events_that_share_a_read_with_a_later_one_are_counted() -> None:
    a, b, c = delta(content="a"), delta(content="b"), delta("stop", content="c")
    one = record(sse(a, b, done=False), sse(c, {"usage": {"completion_tokens": 3}}))
    assert (one.merged_reads, one.text) == (1, "abc")
    role = delta(role="assistant", content="")
    assert record(sse(role, a, done=False), sse(b, delta("stop"))).merged_reads == 0


def test_role_null_and_empty_chunks_are_no_output() -> None:
    empty = (delta(role="assistant"), delta(content=None), delta(content=""), delta(tool_calls=[]))
    got = record(sse(*empty, done=False), sse(delta("stop", content="x")))
    assert [(p.t_ns, p.text) for p in got.pieces] == [(2, "x")]


def test_reasoning_sent_under_two_names_counts_once() -> None:
    assert pieces_of(delta(reasoning="r", reasoning_content="r")) == [("reasoning", "r")]


def test_text_completions_and_content_parts_are_output() -> None:
    assert pieces_of({"choices": [{"text": "t"}]}) == [("content", "t")]
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert pieces_of(delta(content=parts)) == [("content", "ab")]


def test_fragments_of_tool_calls_are_joined_by_index() -> None:
    chunks = [
        {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}},
        {"index": 1, "id": "b", "function": {"name": "g", "arguments": "{}"}},
        {"index": 0, "function": {"arguments": '{"x":'}},
        {"index": 0, "function": {"arguments": "1}"}},
    ]
    texts = [text for c in chunks for _, text in pieces_of(delta(tool_calls=[c]))]
    assert tool_calls(texts) == [
        {"id": "a", "name": "f", "arguments": '{"x":1}'},
        {"id": "b", "name": "g", "arguments": "{}"},
    ]


def test_output_before_an_error_in_the_stream_is_kept() -> None:
    got = record(sse(delta(content="a"), {"error": {"message": "died", "code": 500}}))
    assert (got.status, got.text, got.error) == ("error", "a", "died (500)")


def test_an_error_after_the_finish_reason_is_still_an_error() -> None:
    assert record(sse(delta("stop", content="a"), {"error": "late"})).status == "error"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'event: error\ndata: {"message":"m","type":"t"}\n\n', "m (t)"),
        (b"event: error\ndata: plain words\n\n", "plain words"),
        (b'data: {"object":"error","message":"m","code":400}\n\n', "m (400)"),
        (b'data: {"error":{"reason":1}}\n\n', '{"reason":1}'),
        (b"data: {oops\n\ndata: [DONE]\n\n", "an event is not a JSON object: {oops"),
        (b"data: 5\n\n", "an event is not a JSON object: 5"),
    ],
)
def test_every_shape_of_error_in_a_stream_is_found(body: bytes, message: str) -> None:
    got = record(body)
    assert (got.status, got.error) == ("error", message)


def test_a_null_error_is_none() -> None:
    assert record(sse({**delta("stop", content="a"), "error": None})).status == "ok"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":{"message":"slow down","type":"rate_limit"}}', "slow down (rate_limit)"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"object":"error","message":"m"}', "m"),
        (b"<html>bad gateway</html>", "<html>bad gateway</html>"),
        (b"", "HTTP 503 without a body"),
    ],
)
def test_a_status_other_than_2xx_is_an_error_with_its_text(body: bytes, message: str) -> None:
    got = record(*([body] if body else []), status=503)
    assert (got.status, got.http_status, got.error) == ("error", 503, message)


def test_a_whole_answer_instead_of_a_stream_is_one_piece_at_its_end() -> None:
    message = {"message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
    body = json.dumps({"choices": [message], "usage": {"completion_tokens": 1}}, indent=1).encode()
    got = record(body[:9], body[9:])
    assert (got.status, got.text, got.pieces[0].t_ns, got.output_tokens) == ("ok", "hi", 2, 1)


def test_ollama_chat_lines_with_thinking_end_by_done() -> None:
    lines = (
        b'{"message":{"role":"assistant","thinking":"t"},"done":false}\n',
        b'{"message":{"content":"a"},"done":false}\n',
        b'{"message":{"content":""},"done":true,"done_reason":"length","eval_count":2}',
    )
    got = record(*lines, content_type="application/x-ndjson")
    assert (got.status, got.finish_reason, got.output_tokens) == ("ok", "length", 2)
    assert [p.kind for p in got.pieces] == ["reasoning", "content"]


def test_an_empty_200_is_not_a_success() -> None:
    assert record().status == "incomplete"
    assert record(b": ping\n\n").status == "incomplete"


@pytest.mark.parametrize("ending", ["closed", "stalled", "complete"])
def test_an_answer_that_finished_is_ok_however_its_connection_ended(ending: Ending) -> None:
    assert record(sse(delta("stop", content="a"), done=False), ending=ending).status == "ok"


@pytest.mark.parametrize(
    ("ending", "status"),
    [("closed", "incomplete"), ("stalled", "stalled"), ("cancelled", "cancelled")],
)
def test_an_answer_cut_short_is_named_by_how_it_ended(ending: Ending, status: str) -> None:
    got = record(sse(delta(content="a"), done=False), ending=ending)
    assert (got.status, got.text) == (status, "a")


def test_a_cut_inside_an_event_is_incomplete_not_malformed() -> None:
    body = sse(delta(content="a"), delta(content="b"), done=False)
    assert record(body[:-9], ending="closed").status == "incomplete"


def test_a_cancelled_answer_counts_as_finished_only_after_done() -> None:
    finished = delta("stop", content="a")
    assert record(sse(finished, done=False), ending="cancelled").status == "cancelled"
    assert record(sse(finished), ending="cancelled").status == "ok"


@given(st.sampled_from(FAILED), st.data())
def test_noise_between_events_never_makes_a_failure_a_success(stream, data) -> None:
    at = data.draw(st.integers(0, len(stream.reads)))
    noise = data.draw(st.sampled_from([b":x\n\n", b"\n", b"id: 1\n\n", b"retry: 5\n", b"x\n\n"]))
    reads = [*stream.reads[:at], (0, noise), *stream.reads[at:]]
    assert stream.record(reads).status != "ok"


@given(st.sampled_from(load_streams()[:12]), st.data())
def test_no_change_of_a_byte_raises(stream, data) -> None:
    body = bytearray(stream.body)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert stream.record([(1, bytes(body))]).request_id == stream.name


def test_a_request_body_streams_with_usage_and_takes_extras() -> None:
    request = Request(
        id="r",
        messages=(Message(role="user", content="你"),),
        max_tokens=7,
        seed=3,
        extra={"temperature": 0.5, "id_slot": 2},
    )
    assert json.loads(render_chat(request, "m")) == {
        "model": "m",
        "messages": [{"role": "user", "content": "你"}],
        "max_tokens": 7,
        "temperature": 0.5,
        "seed": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
        "id_slot": 2,
    }
