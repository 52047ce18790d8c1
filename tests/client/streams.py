"""The recorded streams of `tests/cases/`, as the reads a client would see."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from vivace.client.chat import Ending, Response, to_record
from vivace.core import Record

CASES = Path(__file__).parent.parent / "cases"
STREAM_TYPES = ("sse_stream", "sse_stream_hex", "sse_variants", "sse_recipe", "ndjson_stream")


@dataclass(frozen=True, kw_only=True)
class Stream:
    """One stream and what it must come out as."""

    name: str
    reads: tuple[tuple[int, bytes], ...]
    end_ns: int
    ending: Ending
    content_type: str
    expected: dict[str, Any]

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.reads)

    def record(self, reads: list[tuple[int, bytes]] | None = None) -> Record:
        return to_record(
            Response(
                request_id=self.name,
                sent_ns=0,
                end_ns=self.end_ns,
                ending=self.ending,
                reads=self.reads if reads is None else reads,
                http_status=200,
                content_type=self.content_type,
            )
        )


def load_streams() -> list[Stream]:
    return [
        stream
        for name in ("sse_parsing.yaml", "latency_measurement.yaml")
        for case in yaml.safe_load((CASES / name).read_text("utf-8"))
        if case["input"]["type"] in STREAM_TYPES
        for stream in _streams(case)
    ]


def _streams(case: dict[str, Any]) -> list[Stream]:
    given, expected = case["input"], case["expected"]
    if given["type"] == "sse_variants":
        return [
            _stream(f"{case['id']}:{name}", given, chunks, expected.get(name) or expected["both"])
            for name, chunks in given["variants"].items()
        ]
    if given["type"] == "sse_recipe":
        return [_stream(case["id"], given, _long_line(), expected)]
    return [_stream(case["id"], given, given["chunks"], expected)]


def _stream(
    name: str, given: dict[str, Any], chunks: list[dict[str, Any]], expected: dict[str, Any]
) -> Stream:
    reads = [
        (round(c["t"] * 1e9), bytes.fromhex(c["hex"]) if "hex" in c else c["data"].encode())
        for c in chunks
        if "event" not in c
    ]
    end_ns = round(chunks[-1]["t"] * 1e9)
    ending: Ending = "complete"
    if "idle_timeout_s" in given:
        ending, end_ns = "stalled", end_ns + round(given["idle_timeout_s"] * 1e9)
    elif any("event" in c for c in chunks):
        ending = "closed"
    return Stream(
        name=name,
        reads=tuple(reads),
        end_ns=end_ns,
        ending=ending,
        content_type="application/x-ndjson" if given["type"] == "ndjson_stream" else "",
        expected=expected,
    )


def _long_line() -> list[dict[str, Any]]:
    """The recipe of the 200,000-byte line: 4,096-byte reads, 1 ms apart."""
    chunk = {"choices": [{"delta": {"content": "x" * 200_000}, "finish_reason": "stop"}]}
    body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n"
    return [
        {"t": 0.001 * i, "data": body[pos : pos + 4096]}
        for i, pos in enumerate(range(0, len(body), 4096))
    ]
