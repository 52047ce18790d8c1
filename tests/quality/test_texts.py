import os
import re
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from vivace.core import Message, Request
from vivace.errors import ConfigError
from vivace.quality.compare import MIN_SLICE_DOCUMENTS
from vivace.quality.texts import (
    CONTEXT_CHARS,
    FIRST_STAGE,
    MORE_WORKLOAD_DOCUMENTS,
    Document,
    parse_documents,
    shipped_documents,
    stages,
    workload_documents,
)


def request(number: int, answer: str | None = "An answer.") -> Request:
    system = Message(role="system", content="a long policy")
    earlier = Message(role="user", content="an earlier question")
    told = Message(role="assistant", content="told")
    asked = Message(role="user", content=f"Question {number}?")
    return Request(
        id=f"r{number}", messages=(system, earlier, told, asked), max_tokens=8, answer=answer
    )


def test_the_corpus_has_each_slice_often_enough_to_judge_it():
    shipped = shipped_documents()
    counts = {s: sum(d.slice == s for d in shipped) for s in ("en", "zh", "code")}
    assert counts == {"en": 19, "zh": 6, "code": 7}
    assert len({d.id for d in shipped}) == len({d.text for d in shipped}) == len(shipped)
    assert {d.context for d in shipped} == {""}


def test_the_slices_take_turns():
    first = [d.slice for d in shipped_documents()[:8]]
    assert {"en", "zh", "code"} <= set(first)


def test_indentation_of_code_is_kept_and_blank_ends_are_not():
    code = next(d for d in shipped_documents() if d.id == "code-mean")
    assert code.text.startswith("def mean(values):\n    total = 0\n")
    assert code.text.endswith("len(values)")


def test_the_corpus_is_read_alike_where_the_locale_is_not_utf_8():
    program = (
        "from vivace.quality.texts import shipped_documents\n"
        "print(sum(ord(c) for d in shipped_documents() for c in d.text))"
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | plain,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout) == sum(ord(c) for d in shipped_documents() for c in d.text)


def test_a_document_without_text_is_refused():
    with pytest.raises(ConfigError, match="`a` has no text"):
        parse_documents('[[document]]\nid="a"\nslice="en"\ntext=" "')


def test_an_unknown_slice_is_refused():
    with pytest.raises(ConfigError, match="`a` has the unknown slice `fr`"):
        parse_documents('[[document]]\nid="a"\nslice="fr"\ntext="oui"')


def test_answers_follow_the_last_question_alone():
    [made] = workload_documents([request(1)])
    assert made == Document(
        id=made.id, slice="workload", text="An answer.", context="Question 1?\n\n"
    )


def test_the_question_is_found_wherever_it_stands():
    system, earlier, told, asked = request(1).messages
    [made] = workload_documents([replace(request(1), messages=(system, earlier, asked, told))])
    assert made.context == "Question 1?\n\n"


def test_the_same_question_and_answer_stand_only_once():
    # the two long questions differ only behind the part that is read
    long = [
        replace(request(1), messages=(Message(role="user", content="x" * CONTEXT_CHARS + end),))
        for end in "ab"
    ]
    made = workload_documents([request(1), request(1), *long, request(2), request(3), request(4)])
    assert [d.context[:10] for d in made] == ["Question 1", "x" * 10, "Question 2", "Question 3"]
    assert len({d.id for d in made}) == 4


def test_a_long_question_is_cut_behind_its_beginning():
    asked = Message(role="user", content="b" + "x" * 5_000)
    [made] = workload_documents([replace(request(1), messages=(asked,))])
    assert made.context == "b" + "x" * (CONTEXT_CHARS - 1) + "\n\n"


def test_an_answer_without_a_question_has_no_context():
    system = Message(role="system", content="policy")
    [made] = workload_documents([replace(request(1), messages=(system,))])
    assert made.context == ""


def test_requests_without_an_answer_are_passed_over_and_four_are_enough():
    requests = [request(0, None), request(1, "  "), *(request(n) for n in range(2, 9))]
    made = workload_documents(requests)
    assert [d.context[:10] for d in made] == [f"Question {n}" for n in (2, 3, 4, 5)]


def test_the_id_follows_the_text_and_not_the_place():
    [first] = workload_documents([request(1)])
    [again] = workload_documents([replace(request(1), id="elsewhere")])
    [other] = workload_documents([request(1, "Another answer.")])
    assert first.id == again.id != other.id
    assert re.fullmatch("workload-[0-9a-f]{12}", first.id)


def test_the_first_stage_has_each_slice_often_enough_to_judge_it():
    workload = SimpleNamespace(requests_validate=tuple(request(n) for n in range(1, 40)))
    first, second, third = stages(workload)
    assert len(first) == FIRST_STAGE
    for name in ("zh", "workload", "en"):
        assert sum(d.slice == name for d in first) >= MIN_SLICE_DOCUMENTS
    assert [d.slice == "workload" for d in first[:5]] == [True, False, True, False, True]
    assert tuple(d for d in first + second if d.slice != "workload") == shipped_documents()
    assert {d.slice for d in third} == {"workload"}
    assert len(third) == MORE_WORKLOAD_DOCUMENTS
    assert len({d.id for d in first + second + third}) == len(first + second + third)


def test_a_workload_with_few_answers_has_two_stages():
    few = SimpleNamespace(requests_validate=(request(1), request(2)))
    first, second = stages(few)
    assert len(first) == FIRST_STAGE
    assert tuple(d for d in first + second if d.slice != "workload") == shipped_documents()
    assert sum(stages(), ()) == shipped_documents()
