import json

import pytest

from vivace.errors import ConfigError
from vivace.workload import WORKLOADS, make_workload

EVERY = sorted(WORKLOADS)
#: Output tokens of one request; tune and validate requests of each workload.
EXPECTED = {
    "assistant": (64, 30, 30),
    "chat": (64, 16, 16),
    "copy": (128, 24, 24),
    "creative": (128, 17, 17),
}


def is_chinese(text: str) -> bool:
    return any("\u4e00" <= c <= "\u9fff" for c in text)


def last(request) -> str:
    return request.messages[-1].content


@pytest.mark.parametrize("name", EVERY)
def test_sizes_are_as_documented(name):
    workload = make_workload(name, seed=1)
    max_tokens, tune, validate = EXPECTED[name]
    assert (len(workload.requests_tune), len(workload.requests_validate)) == (tune, validate)
    requests = workload.requests_tune + workload.requests_validate
    assert {r.max_tokens for r in requests} == {max_tokens}
    assert {r.temperature for r in requests} == {0.0}


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_requests_and_another_does_not(name):
    assert make_workload(name, seed=1) == make_workload(name, seed=1)
    one, two = (make_workload(name, seed=s).requests_tune for s in (1, 2))
    assert [r.messages for r in one] != [r.messages for r in two]
    assert {r.seed for r in two} == {2}


@pytest.mark.parametrize("name", EVERY)
def test_no_request_of_validation_was_seen_in_tuning(name):
    workload = make_workload(name, seed=1)
    tune = {r.messages for r in workload.requests_tune}
    validate = {r.messages for r in workload.requests_validate}
    assert len(tune) + len(validate) == sum(EXPECTED[name][1:])
    assert not tune & validate


@pytest.mark.parametrize("name", EVERY)
def test_every_request_begins_with_a_shared_prefix(name):
    workload = make_workload(name, seed=1)
    for request in workload.requests_tune + workload.requests_validate:
        assert any(request.messages[: len(p)] == p for p in workload.prefixes)
        assert request.messages[-1].role == "user"


@pytest.mark.parametrize("name", ["assistant", "chat", "copy"])
def test_validation_has_reference_answers(name):
    requests = make_workload(name, seed=1).requests_validate
    assert sum(r.answer is not None for r in requests) >= 4


@pytest.mark.parametrize("name", ["assistant", "chat", "creative"])
def test_a_part_of_the_questions_is_chinese(name):
    workload = make_workload(name, seed=1)
    for split in ("tune", "validate"):
        requests = workload.requests(split)
        share = sum(is_chinese(last(r)) for r in requests) / len(requests)
        assert 0.15 <= share <= 0.3


def test_the_assistants_policy_has_about_a_thousand_tokens():
    [[system]] = make_workload("assistant", seed=1).prefixes
    assert system.role == "system"
    # 1,039 tokens with the default model's tokenizer
    assert 4_000 <= len(system.content) <= 5_000
    assert system.content.startswith("You are the support assistant of Northlight Tools")


def test_conversations_only_grow_and_every_turn_follows_the_one_before():
    requests = make_workload("chat", seed=1).requests_validate
    for earlier, later in zip(requests, requests[4:], strict=False):
        assert later.messages[: len(earlier.messages)] == earlier.messages
        assert len(later.messages) == len(earlier.messages) + 2
        assert later.messages[-2].content == earlier.answer
    assert [len(r.messages) for r in requests] == [2] * 4 + [4] * 4 + [6] * 4 + [8] * 4


def test_roles_of_a_conversation_alternate():
    roles = [m.role for m in make_workload("chat", seed=1).requests_tune[-1].messages]
    assert roles == ["system", *["user", "assistant"] * 3, "user"]


def test_the_answer_of_copy_is_the_input_with_one_name_changed():
    for request in make_workload("copy", seed=1).requests_tune:
        text = last(request).partition("\n\n")[2]
        renamed = {"customer": "client", "owner": "team", "limit": "maximum"}
        old = next(word for word in renamed if f"`{word}`" in last(request))
        assert request.answer == text.replace(old, renamed[old])
        assert request.answer != text
        if old == "limit":
            compile(request.answer, "answer", "exec")
        else:
            assert renamed[old] in json.loads(request.answer)


def test_copy_shows_an_example_of_the_same_change():
    for request in make_workload("copy", seed=1).requests_validate:
        _, example, shown, asked = request.messages
        assert example.content.splitlines()[0] == asked.content.splitlines()[0]
        assert shown.role == "assistant"
        assert example.content != asked.content


def test_an_unknown_name_lists_the_valid_ones():
    with pytest.raises(ConfigError, match="no such workload: `assitant`") as caught:
        make_workload("assitant", seed=1)
    assert "assistant, chat, copy, creative" in caught.value.hint


def test_a_folder_is_no_workload(tmp_path):
    with pytest.raises(ConfigError, match="no such workload"):
        make_workload(str(tmp_path), seed=1)


def test_a_path_is_read_as_requests(tmp_path):
    lines = [json.dumps({"messages": [{"role": "user", "content": str(n)}]}) for n in range(4)]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(lines))
    assert make_workload(str(path), seed=1).name == "mine.jsonl"
