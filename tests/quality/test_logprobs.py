import math

import pytest

from vivace.errors import ConfigError, EngineRequestError
from vivace.quality.logprobs import MAX_SCORED, TOP_K, UNSCORED_START, WIDE_K, logprob_of, score
from vivace.quality.texts import Document
from vivace.quality.wire import LOWEST_LOGPROB, Prediction

HALF = math.log(0.5)


def doc(text: str, name: str = "d", context: str = "") -> Document:
    return Document(id=name, slice="en", text=text, context=context)


def test_every_token_after_the_start_gets_its_exact_logprob(stub):
    scores = score(stub.url, [doc("xxxxabz")])["d"]
    assert scores.tokens == (ord("a"), ord("b"), ord("z"))
    # `z` is in no list: its value is still exact, since the engine was made to take it
    assert scores.logprobs == pytest.approx((HALF, 2 * HALF, -9.25))
    assert scores.floored == 0


def test_a_position_is_asked_with_the_tokens_before_it_and_its_own_forced(stub):
    score(stub.url, [doc("xxxxab")])
    first, second = stub.completions
    assert first["prompt"] == [ord("x")] * 4
    assert second["prompt"] == [*[ord("x")] * 4, ord("a")]
    assert [b["logit_bias"][0][0] for b in stub.completions] == [ord("a"), ord("b")]
    assert first["logit_bias"][0][1] >= 1_000
    assert (first["n_predict"], first["n_probs"], first["id_slot"]) == (1, TOP_K, 0)
    assert first["cache_prompt"] is True
    assert first["post_sampling_probs"] is False
    assert first["temperature"] == 0


def test_the_distribution_comes_likeliest_first(stub):
    [top] = score(stub.url, [doc("xxxxa")])["d"].top
    assert [token for token, _ in top] == [ord(c) for c in "abcdefgh"]
    assert top[1][1] == pytest.approx(2 * HALF)


def test_a_context_is_read_but_not_scored_and_the_text_has_no_second_beginning(stub):
    stub.begin = [1]
    scores = score(stub.url, [doc("ab", context="Q: ")])["d"]
    assert scores.tokens == (ord("a"), ord("b"))
    assert stub.completions[0]["prompt"] == [1, ord("Q"), ord(":"), ord(" ")]


def test_without_a_context_the_text_starts_with_the_beginning_token(stub):
    stub.begin = [1]
    assert score(stub.url, [doc("xxxab")])["d"].tokens == (ord("a"), ord("b"))
    assert stub.completions[0]["prompt"] == [1, *[ord("x")] * 3]


def test_a_long_document_is_cut(stub):
    scores = score(stub.url, [doc("a" * (UNSCORED_START + MAX_SCORED + 1))])["d"]
    assert len(scores.tokens) == MAX_SCORED == 32


def test_a_token_inside_a_character_is_looked_up_in_the_wide_list(stub):
    stub.partial = "é"
    scores = score(stub.url, [doc("xxxxéa")])["d"]
    assert scores.logprobs == pytest.approx((-7.5, HALF))
    assert scores.floored == 0
    assert [b["n_probs"] for b in stub.completions] == [TOP_K, WIDE_K, TOP_K]
    assert stub.completions[1]["prompt"] == stub.completions[0]["prompt"]


def test_an_engine_that_ignores_the_forced_token_gives_a_counted_bound(stub):
    stub.obeys_bias = False
    scores = score(stub.url, [doc("xxxxbz")])["d"]
    assert scores.logprobs == pytest.approx((2 * HALF, 8 * HALF))
    assert scores.floored == 1


def test_only_so_much_of_the_wide_list_is_kept(stub):
    stub.partial = "".join(chr(c) for c in range(300, 300 + TOP_K))
    [top] = score(stub.url, [doc("xxxx" + chr(300))])["d"].top
    assert len(top) == TOP_K


def test_a_token_that_was_not_taken_is_looked_up_then_bounded():
    prediction = Prediction(token=5, logprob=-1.5, top=((5, -1.5), (6, -2.0)))
    assert logprob_of(5, prediction) == (-1.5, False)
    assert logprob_of(6, prediction) == (-2.0, False)
    assert logprob_of(7, prediction) == (-2.0, True)


def test_the_lowest_float_does_not_outweigh_everything(stub):
    stub.text = (
        b'{"tokens":[9,9,9,9,9],"completion_probabilities":'
        b'[{"id":9,"logprob":-3.4e38,"top_logprobs":[{"id":9,"logprob":-0.5}]}]}'
    )
    assert score(stub.url, [doc("x")])["d"].logprobs == (LOWEST_LOGPROB,)
    assert LOWEST_LOGPROB == -100


def test_slots_share_the_documents_and_results_keep_the_order(stub):
    docs = [doc("xxxxa" + "b" * i, name=f"d{i}") for i in range(5)]
    scores = score(stub.url, docs, slots=2)
    assert list(scores) == ["d0", "d1", "d2", "d3", "d4"]
    assert [len(s.tokens) for s in scores.values()] == [1, 2, 3, 4, 5]
    slots = {(len(b["prompt"]), b["id_slot"]) for b in stub.completions}
    assert (8, 0) in slots  # the last document, number 4, belongs to slot 0
    assert {slot for _, slot in slots} == {0, 1}


def test_progress_is_told_and_a_stop_keeps_what_is_done(stub):
    told = []
    docs = [doc("xxxxab", name=n) for n in "pqr"]
    scores = score(
        stub.url,
        docs,
        on_progress=lambda done, of: told.append((done, of)),
        should_stop=lambda so_far: len(so_far) == 2,
    )
    assert list(scores) == ["p", "q"]
    assert told == [(1, 3), (2, 3)]


def test_a_document_that_is_too_short_is_named(stub):
    with pytest.raises(ConfigError, match="`d` is too short: 4 tokens"):
        score(stub.url, [doc("abcd")])


def test_no_slot_is_refused(stub):
    with pytest.raises(ConfigError, match="slots must be at least 1, got 0"):
        score(stub.url, [doc("abcdef")], slots=0)


def test_nan_is_an_error_and_not_a_small_loss(stub):
    stub.broken = True
    with pytest.raises(EngineRequestError, match="NaN") as caught:
        score(stub.url, [doc("xxxxab")])
    assert "overflow" in caught.value.hint


def test_an_engine_without_probabilities_is_told(stub):
    stub.partial = "abx"
    with pytest.raises(EngineRequestError, match="no token probabilities") as caught:
        score(stub.url, [doc("xxxxab")], slots=2)
    assert "n_probs" in caught.value.hint


def test_an_error_status_carries_the_engines_words(stub):
    stub.status, stub.text = 503, b"Loading model"
    with pytest.raises(EngineRequestError, match="HTTP 503: Loading model") as caught:
        score(stub.url, [doc("xxxxab")])
    assert caught.value.status == 503


@pytest.mark.parametrize("text", [b"<html>", b'{"tokens":"no"}'])
def test_another_form_of_answer_is_told(stub, text):
    stub.text = text
    with pytest.raises(EngineRequestError, match="/tokenize got an answer of another form"):
        score(stub.url, [doc("xxxxab")])


def test_an_engine_that_is_gone_is_an_engine_error():
    with pytest.raises(EngineRequestError, match="/tokenize failed") as caught:
        score("http://127.0.0.1:9", [doc("xxxxab")])
    assert caught.value.exit_code == 3


def test_an_error_in_one_slot_ends_the_others(stub):
    docs = [doc("ab", name="short"), *(doc("xxxxab", name=f"d{i}") for i in range(400))]
    with pytest.raises(ConfigError, match="`short` is too short"):
        score(stub.url, docs, slots=2)
    # 200 documents with 2 positions each would wait in the other slot
    assert len(stub.completions) < 400
