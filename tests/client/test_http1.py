"""Responses as bytes, whole and cut anywhere; requests as bytes."""

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.client.http1 import ResponseParser, render_request

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"


def parse(*reads: bytes, end: bool = False) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser()
    body = b"".join(parser.feed(read) for read in reads)
    if end:
        parser.end()
    return parser, body


def test_a_counted_body_completes_at_its_length() -> None:
    parser, body = parse(OK + b"Content-Length: 5\r\nX-A: 1\r\nx-a: 2\r\n\r\nhel", b"lo")
    assert (parser.complete, body, parser.status) == (True, b"hello", 200)
    assert parser.headers["x-a"] == "1, 2"
    assert parser.keep_alive


def test_a_chunked_body_drops_sizes_extensions_and_trailers() -> None:
    parser, body = parse(CHUNKED + b"5;q=1\r\nhello\r\n6 ;x\r\n world\r\n0\r\nx-t: 1\r\n\r\n")
    assert (parser.complete, body, parser.keep_alive) == (True, b"hello world", True)


def test_a_body_without_length_ends_with_the_connection() -> None:
    parser, body = parse(OK + b"\r\nhel", b"lo")
    assert not parser.complete
    parser.end()
    assert (parser.complete, body, parser.keep_alive) == (True, b"hello", False)


def test_interim_responses_are_skipped() -> None:
    head = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    parser, body = parse(head + b"HTTP/1.1 201 Created\r\ncontent-length: 1\r\n\r\nx")
    assert (parser.status, body, "link" in parser.headers) == (201, b"x", False)


def test_many_interim_responses_do_not_exhaust_the_stack() -> None:
    parser, _ = parse(b"HTTP/1.1 100 \r\n\r\n" * 5000 + OK + b"content-length: 0\r\n\r\n")
    assert parser.complete


def test_204_has_no_body() -> None:
    assert parse(b"HTTP/1.1 204 No Content\r\n\r\n")[0].complete


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nConnection: Close\r\ncontent-length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1", False),
    ],
)
def test_a_connection_is_kept_only_when_both_sides_can_know_the_end(
    head: bytes, expected: bool
) -> None:
    parser, _ = parse(head)
    assert (parser.complete, parser.keep_alive) == (True, expected)


@pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
def test_a_compressed_body_is_decoded_and_told(compress: object) -> None:
    data = compress(b"hello")  # type: ignore[operator]
    head = OK + b"content-encoding: %s\r\n" % (b"gzip" if data[0] == 31 else b"deflate")
    head += b"content-length: %d\r\n\r\n" % len(data)
    parser, body = parse(head + data[:7], data[7:])
    assert (parser.compressed, parser.complete, body) == (True, True, b"hello")


@pytest.mark.parametrize(
    ("response", "word"),
    [
        (b"SSH-2.0-OpenSSH\r\n\r\n", "status line"),
        (OK + b"no colon here\r\n\r\n", "header"),
        (OK + b"content-length: 1\r\ncontent-length: 2\r\n\r\n", "two different"),
        (OK + b"content-length: -1\r\n\r\n", "not a number"),
        (OK + b"content-encoding: br\r\n\r\n", "`br`"),
        (OK + b"content-encoding: gzip\r\n\r\nplain", "compressed"),
        (CHUNKED + b"1_0\r\n", "chunk size"),
        (CHUNKED + b"-1\r\n", "chunk size"),
        (CHUNKED + b"1\r\nab\r\n", "chunk's end"),
        (CHUNKED + b"1" * 20_000, "chunk head"),
        (CHUNKED + b"0\r\n" + b"a" * 20_000, "trailer"),
        (OK + b"a: b\r\n" * 60_000, "longer than"),
    ],
)
def test_what_breaks_the_protocol_is_named(response: bytes, word: str) -> None:
    parser, _ = parse(response)
    assert word in (parser.error or "")
    assert not parser.complete
    assert parser.feed(b"more") == b""


def test_body_bytes_before_a_broken_chunk_are_kept() -> None:
    assert parse(CHUNKED + b"1\r\na\r\nzz\r\n")[1] == b"a"


def test_a_close_inside_the_head_is_an_error_and_inside_the_body_is_not() -> None:
    assert "head" in (parse(b"HTTP/1.1 200", end=True)[0].error or "")
    cut, _ = parse(CHUNKED + b"5\r\nhe", end=True)
    assert (cut.error, cut.complete, cut.keep_alive) == (None, False, False)


RESPONSES = [
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"content-length: 5\r\n\r\nhello",
    CHUNKED + b"5;q=1\r\nhello\r\n1\r\n\n\r\n0\r\nx-t: 1\r\n\r\n",
    CHUNKED + b"3\r\nabc\r\nzz\r\n",
    OK + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"hello hello", mtime=0),
]


@given(st.sampled_from(RESPONSES), st.sets(st.integers(0, 120), max_size=30))
def test_cuts_between_reads_change_nothing(response: bytes, cuts: set[int]) -> None:
    bounds = [0, *sorted(c for c in cuts if c < len(response)), len(response)]
    whole, body = parse(response, end=True)
    reads = [response[a:b] for a, b in pairwise(bounds)]
    parser, cut_body = parse(*reads, end=True)
    assert cut_body == body
    assert (parser.status, parser.headers, parser.complete, parser.error) == (
        whole.status,
        whole.headers,
        whole.complete,
        whole.error,
    )


@given(st.binary(max_size=300), st.sampled_from([b"", OK, CHUNKED, CHUNKED + b"5\r\n"]))
def test_no_bytes_raise(noise: bytes, prefix: bytes) -> None:
    parser, _ = parse(prefix + noise, end=True)
    assert not (parser.complete and parser.error)


def test_a_request_asks_for_an_uncompressed_answer() -> None:
    data = render_request("POST", "h:1", "/p", {"X-A": "b"}, b"{}")
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /p HTTP/1.1"
    assert {b"host: h:1", b"accept-encoding: identity", b"content-length: 2", b"x-a: b"} == set(
        lines[1:]
    )
    assert body == b"{}"
