from dataclasses import replace
from itertools import islice

import pytest

from vivace.core import Message, Request
from vivace.errors import ConfigError
from vivace.workload.base import Workload, shared_length

SYSTEM = Message(role="system", content="policy")
EXAMPLE = Message(role="user", content="example")
SHOWN = Message(role="assistant", content="shown")


def user(text: str) -> Message:
    return Message(role="user", content=text)


def request(name: str, *messages: Message) -> Request:
    return Request(id=name, messages=messages, max_tokens=8)


WORKLOAD = Workload(
    name="w",
    seed=1,
    description="d",
    requests_tune=(request("a", SYSTEM, user("one")), request("b", SYSTEM, user("two"))),
    requests_validate=(request("c", SYSTEM, user("three")),),
    prefixes=((SYSTEM,),),
    max_request_tokens_hint=100,
)


def take(workload: Workload, count: int, split="tune", salt="") -> list[Request]:
    return list(islice(workload.stream(split, salt), count))


def test_the_first_round_sends_the_requests_as_they_are():
    assert [r.messages for r in take(WORKLOAD, 2)] == [r.messages for r in WORKLOAD.requests_tune]


def test_the_stream_has_no_end_and_never_repeats_an_id():
    ids = [r.id for r in take(WORKLOAD, 7)]
    assert ids == ["a-0", "b-0", "a-1", "b-1", "a-2", "b-2", "a-3"]


def test_later_rounds_ask_anew_and_keep_the_shared_prefix():
    first, second, third = take(WORKLOAD, 5)[0::2]
    assert first.messages[0] == second.messages[0] == third.messages[0] == SYSTEM
    texts = [r.messages[1].content for r in (first, second, third)]
    assert len(set(texts)) == 3
    assert all(t.endswith("one") for t in texts)
    assert texts[1] == f"[{texts[1][1:7]}] one"


def test_the_mark_is_the_same_within_a_round():
    _, _, a, b = take(WORKLOAD, 4)
    assert a.messages[1].content[:9] == b.messages[1].content[:9]


def test_a_salt_marks_the_first_round_too():
    [plain], [salted], [other] = (take(WORKLOAD, 1, salt=s) for s in ("", "x", "y"))
    assert plain.messages[1].content == "one"
    assert salted.messages[1].content.endswith("] one")
    assert salted.messages[1] != other.messages[1]
    assert salted.id == "a-x-0"


def test_the_same_salt_gives_the_same_stream():
    assert take(WORKLOAD, 5, salt="x") == take(WORKLOAD, 5, salt="x")


def test_the_mark_goes_behind_worked_examples_that_are_shared():
    start = (SYSTEM, EXAMPLE, SHOWN)
    workload = replace(
        WORKLOAD,
        requests_tune=(request("a", *start, user("one"), SHOWN, user("next")),),
        prefixes=((SYSTEM,), start),
    )
    [made] = take(workload, 1, salt="x")
    assert made.messages[:3] == start
    assert made.messages[3].content.endswith("] one")
    assert made.messages[4:] == (SHOWN, user("next"))


def test_a_request_without_a_user_message_is_sent_unmarked():
    workload = replace(WORKLOAD, requests_tune=(request("a", SYSTEM),))
    assert take(workload, 1, salt="x")[0].messages == (SYSTEM,)


def test_the_splits_are_streamed_apart():
    assert take(WORKLOAD, 1, split="validate")[0].messages[1] == user("three")


def test_shared_length_takes_the_longest_prefix_that_fits():
    messages = (SYSTEM, EXAMPLE, SHOWN)
    assert shared_length(messages, [(SYSTEM,), (SYSTEM, EXAMPLE), (EXAMPLE,)]) == 2
    assert shared_length(messages, [(SHOWN,)]) == 0
    assert shared_length(messages, []) == 0


def test_a_workload_needs_both_splits():
    with pytest.raises(ConfigError, match="`w` needs requests to tune and to validate"):
        replace(WORKLOAD, requests_validate=())
    with pytest.raises(ConfigError, match="`w` needs requests"):
        replace(WORKLOAD, requests_tune=())


def test_describe_counts_what_a_report_shows():
    assert WORKLOAD.describe() == {
        "name": "w",
        "seed": 1,
        "description": "d",
        "requests_tune": 2,
        "requests_validate": 1,
        "prefixes": 1,
        "max_request_tokens_hint": 100,
    }
