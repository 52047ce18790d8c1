import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.core import Message
from vivace.errors import ConfigError
from vivace.workload.jsonl import load_jsonl


def body(question: str, system: str | None = None, **more: object) -> dict[str, object]:
    messages = [{"role": "system", "content": system}] if system else []
    return {"messages": [*messages, {"role": "user", "content": question}], **more}


@pytest.fixture
def write(tmp_path):
    def write(*lines: object, text: str | None = None) -> Path:
        path = tmp_path / "log.jsonl"
        made = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
        path.write_bytes((made if text is None else text).encode())
        return path

    return write


def everything(workload):
    return workload.requests_tune + workload.requests_validate


def by_line(workload):
    return {r.id: r for r in everything(workload)}


def test_bodies_become_requests_with_temperature_and_seed_set(write):
    path = write(
        body("one", max_tokens=5, temperature=0.9, seed=99, stream=True, model="m", top_p=0.5),
        body("two", max_completion_tokens=7),
        body("three"),
    )
    requests = by_line(load_jsonl(path, seed=3))
    one = requests["line-1"]
    assert one.messages == (Message(role="user", content="one"),)
    assert (one.max_tokens, one.temperature, one.seed) == (5, 0.0, 3)
    assert one.extra == {"top_p": 0.5}
    assert requests["line-2"].max_tokens == 7
    assert requests["line-3"].max_tokens == 128


def test_the_description_says_what_was_forced(write):
    workload = load_jsonl(write(body("one"), body("two")), seed=3)
    assert workload.name == "log.jsonl"
    assert "temperature set to 0 and seed to 3" in workload.description


def test_a_gateways_log_gives_the_answer(write):
    answered = {"choices": [{"message": {"role": "assistant", "content": "Paris"}}]}
    path = write(
        {"request": body("one", max_tokens=9), "response": answered, "time": 5},
        {"request": body("two"), "response": {"error": "busy"}},
        {"request": body("three"), "response": None},
        {"request": body("four"), "response": {"choices": "odd"}},
    )
    requests = by_line(load_jsonl(path, seed=1))
    assert requests["line-1"].answer == "Paris"
    assert requests["line-1"].max_tokens == 9
    assert [requests[f"line-{n}"].answer for n in (2, 3, 4)] == [None, None, None]


def test_parts_of_text_are_joined_and_developer_is_system(write):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    odd = {"messages": [{"role": "developer", "content": parts}, {"role": "user", "content": "q"}]}
    requests = by_line(load_jsonl(write(odd, body("two")), seed=1))
    assert requests["line-1"].messages[0] == Message(role="system", content="ab")


def test_a_byte_order_mark_and_blank_lines_and_crlf_are_read_over(write):
    text = "\ufeff" + json.dumps(body("one")) + "\r\n\r\n" + json.dumps(body("two")) + "\r\n"
    assert set(by_line(load_jsonl(write(text=text), seed=1))) == {"line-1", "line-3"}


def test_a_line_separator_inside_a_string_ends_no_line(write):
    line = json.dumps(body("a\u2028b\x85c"), ensure_ascii=False)
    requests = by_line(load_jsonl(write(line, body("two")), seed=1))
    assert requests["line-1"].messages[0].content == "a\u2028b\x85c"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{oops", "Expecting property name"),
        ("[1]", "is not a JSON object"),
        ('{"request": 5}', "`request` is not a JSON object"),
        ('{"prompt": "x"}', "required field `messages`"),
        ('{"messages": []}', "has no messages"),
        ('{"messages": [{"role": "robot", "content": "x"}]}', "robot"),
        ('{"messages": [{"role": "user"}]}', "content"),
        (json.dumps(body("x", max_tokens=0)), "max_tokens must be at least 1, got 0"),
        (json.dumps(body("x", max_tokens="many")), "max_tokens"),
        (
            '{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
            "type `image_url` is not supported",
        ),
    ],
)
def test_a_bad_line_is_named_by_its_number(write, line, what):
    with pytest.raises(ConfigError) as caught:
        load_jsonl(write(body("one"), "", line, body("four")), seed=1)
    assert str(caught.value).startswith("line 3 of workload `")
    assert what in str(caught.value)
    assert "messages" in caught.value.hint


@pytest.mark.parametrize("lines", [(), ("", "  "), (body("a"),), (body("a"), body("a"))])
def test_fewer_than_two_different_requests_are_not_enough(write, lines):
    distinct = 1 if any(isinstance(x, dict) for x in lines) else 0
    with pytest.raises(ConfigError, match=f"has {distinct} distinct requests, at least 2"):
        load_jsonl(write(*lines), seed=1)


def test_a_file_that_cannot_be_read_is_told(write, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_jsonl(tmp_path / "missing.jsonl", seed=1)
    binary = tmp_path / "binary.jsonl"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_jsonl(binary, seed=1)


def test_seventy_percent_tune_and_the_rest_validates(write):
    workload = load_jsonl(write(*(body(str(n)) for n in range(10))), seed=1)
    assert (len(workload.requests_tune), len(workload.requests_validate)) == (7, 3)
    assert set(by_line(workload)) == {f"line-{n}" for n in range(1, 11)}


def test_two_requests_are_split_one_to_one(write):
    workload = load_jsonl(write(body("a"), body("b")), seed=1)
    assert (len(workload.requests_tune), len(workload.requests_validate)) == (1, 1)


@given(count=st.integers(2, 40), repeats=st.integers(1, 3), seed=st.integers(0, 99))
def test_the_split_never_overlaps_and_follows_the_seed(tmp_path_factory, count, repeats, seed):
    path = tmp_path_factory.mktemp("split") / "a.jsonl"
    path.write_text("\n".join([json.dumps(body(str(n))) for n in range(count)] * repeats))
    workload = load_jsonl(path, seed=seed)
    tune = {r.messages for r in workload.requests_tune}
    validate = {r.messages for r in workload.requests_validate}
    assert not tune & validate
    assert len(tune) + len(validate) == count
    assert load_jsonl(path, seed=seed) == workload


def test_system_prompts_of_a_fifth_of_the_requests_are_prefixes_commonest_first(write):
    path = write(
        *(body(f"a{n}", "often") for n in range(5)),
        *(body(f"b{n}", "enough") for n in range(2)),
        body("c", "once"),
        *(body(f"d{n}") for n in range(2)),
    )
    prefixes = load_jsonl(path, seed=1).prefixes
    assert [p[0].content for p in prefixes] == ["often", "enough"]


def test_a_prompt_that_one_request_has_is_not_shared(write):
    assert load_jsonl(write(body("a", "x"), body("b", "y")), seed=1).prefixes == ()


def test_the_longest_request_sets_the_token_hint(write):
    path = write(body("x" * 100, max_tokens=10), body("y" * 50, max_tokens=20))
    # 100 bytes / 2.5 + 16 for the message + 10
    assert load_jsonl(path, seed=1).max_request_tokens_hint == 66
