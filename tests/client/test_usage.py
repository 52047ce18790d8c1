"""One `Usage` from every dialect; all figures worked out by hand."""

import json
from typing import Any

import pytest
import yaml

from vivace.client.chat import BodyReader
from vivace.client.usage import merge, usage_from
from vivace.core import Usage

from .streams import CASES

DIALECTS: dict[str, tuple[dict[str, Any], Usage]] = {
    "openai": (
        {
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 20,
                "prompt_tokens_details": {"cached_tokens": 64},
                "completion_tokens_details": {"reasoning_tokens": 12},
            }
        },
        Usage(prompt_tokens=100, completion_tokens=20, cached_tokens=64),
    ),
    "openai responses": (
        {
            "usage": {
                "input_tokens": 100,
                "output_tokens": 20,
                "input_tokens_details": {"cached_tokens": 64},
            }
        },
        Usage(prompt_tokens=100, completion_tokens=20, cached_tokens=64),
    ),
    "vllm without details": (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": None}},
        Usage(prompt_tokens=9, completion_tokens=2),
    ),
    "llama.cpp timings alone": (
        {
            "timings": {
                "cache_n": 90,
                "prompt_n": 10,
                "predicted_n": 7,
                "draft_n": 6,
                "draft_n_accepted": 4,
            }
        },
        Usage(
            prompt_tokens=100,
            completion_tokens=7,
            cached_tokens=90,
            draft_tokens=6,
            accepted_tokens=4,
        ),
    ),
    "llama.cpp usage and timings": (
        {
            "usage": {"prompt_tokens": 100, "completion_tokens": 7},
            "timings": {"cache_n": 0, "prompt_n": 100, "predicted_n": 7},
        },
        Usage(prompt_tokens=100, completion_tokens=7, cached_tokens=0),
    ),
    "llama.cpp before cache_n": (
        {"timings": {"prompt_n": 10, "predicted_n": 7}},
        Usage(completion_tokens=7),
    ),
    "deepseek": (
        {
            "usage": {
                "completion_tokens": 5,
                "prompt_cache_hit_tokens": 64,
                "prompt_cache_miss_tokens": 36,
            }
        },
        Usage(prompt_tokens=100, completion_tokens=5, cached_tokens=64),
    ),
    "anthropic": (
        {
            "usage": {
                "input_tokens": 6,
                "output_tokens": 5,
                "cache_read_input_tokens": 64,
                "cache_creation_input_tokens": 30,
            }
        },
        Usage(prompt_tokens=100, completion_tokens=5, cached_tokens=64),
    ),
    "anthropic message_start": (
        {"type": "message_start", "message": {"usage": {"input_tokens": 6, "output_tokens": 1}}},
        Usage(prompt_tokens=6, completion_tokens=1),
    ),
    "gemini": (
        {
            "usageMetadata": {
                "promptTokenCount": 100,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 8,
                "cachedContentTokenCount": 64,
            }
        },
        Usage(prompt_tokens=100, completion_tokens=13, cached_tokens=64),
    ),
    "ollama": (
        {"done": True, "prompt_eval_count": 100, "eval_count": 5},
        Usage(prompt_tokens=100, completion_tokens=5),
    ),
    "null": ({"usage": None, "timings": None}, Usage()),
    "absent": ({"choices": []}, Usage()),
    "wrong types": ({"usage": {"prompt_tokens": "9", "completion_tokens": True}}, Usage()),
    "negative": (
        {"usage": {"prompt_tokens": -1, "completion_tokens": 2.0}},
        Usage(completion_tokens=2),
    ),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_becomes_one_usage(name: str) -> None:
    obj, expected = DIALECTS[name]
    assert usage_from(obj) == expected


def test_a_later_count_wins_and_a_missing_one_does_not() -> None:
    old = Usage(prompt_tokens=9, completion_tokens=1, cached_tokens=4)
    new = Usage(completion_tokens=0, draft_tokens=3, accepted_tokens=2)
    assert merge(old, new) == Usage(
        prompt_tokens=9, completion_tokens=0, cached_tokens=4, draft_tokens=3, accepted_tokens=2
    )


@pytest.mark.parametrize("choices", [',"choices":[]', ',"choices":null', ""])
def test_a_usage_chunk_is_read_whatever_its_choices(choices: str) -> None:
    reader = BodyReader()
    reader.feed(5, b'data: {"usage":{"completion_tokens":3}%s}\n\n' % choices.encode())
    assert (reader.usage.completion_tokens, reader.pieces) == (3, [])


def test_the_final_line_of_ollama_gives_both_counts() -> None:
    cases = yaml.safe_load((CASES / "latency_measurement.yaml").read_text("utf-8"))
    line = next(c["input"]["json"] for c in cases if c["input"]["type"] == "ollama_final_json")
    reader = BodyReader("application/x-ndjson")
    reader.feed(5, json.dumps(line).encode() + b"\n")
    assert reader.usage == Usage(prompt_tokens=150, completion_tokens=60)
    assert reader.finish_reason == "stop"
