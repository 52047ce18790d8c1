import http.client
import math
from threading import Barrier, Lock
from types import SimpleNamespace

import pytest

from vivace.errors import ConfigError, EngineRequestError
from vivace.quality import logprobs
from vivace.quality.logprobs import (
    MAX_SCORED,
    TOP_K,
    UNSCORED_START,
    WIDE_K,
    logprob_of,
    score,
    score_document,
)
from vivace.quality.texts import Document
from vivace.quality.wire import LOWEST_LOGPROB, NativeClient, Prediction

HALF = math.log(0.5)


def doc(text: str, name: str = "d", context: str = "") -> Document:
    return Document(id=name, slice="en", text=text, context=context)


def test_every_token_after_the_start_gets_its_exact_logprob(stub):
    scores = score(stub.url, [doc("xxxxabz")])["d"]
    assert (scores.id, scores.slice) == ("d", "en")
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
    as_json = "application/json"
    assert stub.asked == {("/tokenize", as_json), ("/completion", as_json)}


def test_the_distribution_comes_likeliest_first(stub):
    [top] = score(stub.url, [doc("xxxxa")])["d"].top
    assert [token for token, _ in top] == [ord(c) for c in "abcdefgh"]
    assert top[1][1] == pytest.approx(2 * HALF)


def test_the_order_follows_the_logprobs_and_not_the_tokens(stub):
    stub.text = (
        b'{"tokens":[9,9,9,9,9],"completion_probabilities":[{"id":9,"logprob":-0.5,'
        b'"top_logprobs":[{"id":3,"logprob":-2},{"id":9,"logprob":-0.5},{"id":5,"logprob":-1}]}]}'
    )
    assert score(stub.url, [doc("x")])["d"].top == (((9, -0.5), (5, -1.0), (3, -2.0)),)


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
    stub.partial, stub.begin = "é", [1]
    scores = score(stub.url, [doc("xxxéa")])["d"]
    assert scores.logprobs == pytest.approx((-7.5, HALF))
    assert scores.floored == 0
    assert [b["n_probs"] for b in stub.completions] == [TOP_K, WIDE_K, TOP_K]
    first, second, third = stub.completions
    # the same place in the same slot, so that its cache serves; never the beginning token forced
    assert second | {"logit_bias": first["logit_bias"], "n_probs": TOP_K} == first
    assert second["logit_bias"] == third["logit_bias"]
    assert second["logit_bias"][0][0] == ord("a")
    assert {b["content"]: b["add_special"] for b in stub.tokenized} == {"xxxéa": True, "a": False}


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


def test_one_slot_is_the_default(stub):
    score(stub.url, [doc("xxxxa", name=n) for n in "pqr"])
    assert [b["id_slot"] for b in stub.completions] == [0, 0, 0]


class Meeting(NativeClient):
    """Its slots start together or not at all."""

    barrier: Barrier

    def __enter__(self):
        self.barrier.wait(timeout=20)
        return super().__enter__()


def meet(monkeypatch, slots):
    monkeypatch.setattr(Meeting, "barrier", Barrier(slots), raising=False)
    monkeypatch.setattr(logprobs, "NativeClient", Meeting)


def test_every_slot_has_a_thread_of_its_own(monkeypatch):
    meet(monkeypatch, slots=33)  # a pool without a number has 32 threads at most
    assert score("http://127.0.0.1:9", [], slots=33) == {}


def test_every_connection_has_a_time_limit(stub, monkeypatch):
    limits = []

    class Connection(http.client.HTTPConnection):
        def connect(self):
            limits.append(self.timeout)
            super().connect()

    monkeypatch.setattr(http.client, "HTTPConnection", Connection)
    score(stub.url, [doc("xxxxa")])
    score(stub.url, [doc("xxxxa")], timeout_s=7.5)
    assert limits == [60, 7.5]


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


def test_slots_tell_and_ask_one_at_a_time(stub, monkeypatch):
    lock = Lock()
    monkeypatch.setattr(logprobs, "Lock", lambda: lock)
    held = []
    score(
        stub.url,
        [doc("xxxxa", name=n) for n in "pqr"],
        slots=2,
        on_progress=lambda done, of: held.append(lock.locked()),
        should_stop=lambda so_far: held.append(lock.locked()),
    )
    assert held == [True] * 6


def test_a_document_that_is_too_short_is_named(stub):
    with pytest.raises(ConfigError, match="`d` is too short: 4 tokens"):
        score(stub.url, [doc("abcd")])


def test_the_context_does_not_make_a_text_longer():
    client = SimpleNamespace(tokenize=lambda text, add_special: [1, 2, 3] if add_special else [])
    with pytest.raises(ConfigError, match="`d` is too short: 0 tokens"):
        score_document(client, doc("\u200b", context="Q: "), slot=0)


def test_no_slot_is_refused(stub):
    with pytest.raises(ConfigError, match="slots must be at least 1, got 0"):
        score(stub.url, [doc("abcdef")], slots=0)


def test_nan_is_an_error_and_not_a_small_loss(stub):
    stub.broken = True
    with pytest.raises(EngineRequestError, match=r"^the engine's log-prob.+NaN\)$") as caught:
        score(stub.url, [doc("xxxxab")])
    assert caught.value.hint == "the weights or the kernel overflow: try another weight type"


@pytest.mark.parametrize(
    "position",
    [
        b'{"id":9,"top_logprobs":[{"id":9,"logprob":-0.5}]}',
        b'{"id":9,"logprob":-0.5,"top_logprobs":[{"id":9,"prob":0.6}]}',
    ],
)
def test_a_logprob_that_is_left_out_does_not_count_as_certainty(stub, position):
    stub.text = b'{"tokens":[9,9,9,9,9],"completion_probabilities":[' + position + b"]}"
    with pytest.raises(EngineRequestError, match="are not numbers"):
        score(stub.url, [doc("x")])


def test_an_engine_that_knows_nothing_of_probabilities_is_told(stub):
    stub.text = b'{"tokens":[9,9,9,9,9],"content":"x"}'
    with pytest.raises(EngineRequestError, match="gave no token probabilities"):
        score(stub.url, [doc("x")])


def test_an_engine_without_probabilities_is_told(stub):
    stub.partial = "abx"
    with pytest.raises(EngineRequestError, match=r"^the engine gave no token prob") as caught:
        score(stub.url, [doc("xxxxab")], slots=2)
    assert caught.value.hint == "quality needs a llama.cpp server whose /completion knows `n_probs`"


def test_an_error_status_carries_the_engines_words(stub):
    stub.status, stub.text = 503, b"Loading model"
    with pytest.raises(EngineRequestError, match="HTTP 503: Loading model") as caught:
        score(stub.url, [doc("xxxxab")])
    assert caught.value.status == 503


def test_of_a_long_error_the_first_300_bytes_are_told(stub):
    stub.status, stub.text = 500, ("x" + "é" * 200).encode()  # byte 300 is half of a character
    with pytest.raises(EngineRequestError) as caught:
        score(stub.url, [doc("xxxxab")])
    assert str(caught.value) == "scoring at /tokenize got HTTP 500: x" + "é" * 149 + "\ufffd"


@pytest.mark.parametrize("text", [b"<html>", b'{"tokens":"no"}'])
def test_another_form_of_answer_is_told(stub, text):
    stub.text = text
    with pytest.raises(
        EngineRequestError, match="/tokenize got an answer of another form"
    ) as caught:
        score(stub.url, [doc("xxxxab")])
    assert caught.value.status == 200


def test_an_engine_that_is_gone_is_an_engine_error():
    with pytest.raises(EngineRequestError, match="/tokenize failed") as caught:
        score("http://127.0.0.1:9", [doc("xxxxab")])
    assert caught.value.exit_code == 3
    assert caught.value.hint == "the engine's log says why it left"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("gone"), "gone"),
        (TimeoutError(), "TimeoutError"),
        (
            http.client.LineTooLong("header line"),
            "got more than 65536 bytes when reading header line",
        ),
    ],
)
def test_a_failure_is_told_in_its_words_or_by_its_name(monkeypatch, error, told):
    class Connection(http.client.HTTPConnection):
        def connect(self):
            raise error

    monkeypatch.setattr(http.client, "HTTPConnection", Connection)
    with pytest.raises(EngineRequestError) as caught:
        score("http://127.0.0.1:9", [doc("xxxxab")])
    assert str(caught.value) == f"scoring at /tokenize failed: {told}"


def test_a_client_that_failed_once_can_ask_again(stub, monkeypatch):
    failures = [TimeoutError()]

    class Connection(http.client.HTTPConnection):
        def getresponse(self):
            if failures:
                raise failures.pop()
            return super().getresponse()

    monkeypatch.setattr(http.client, "HTTPConnection", Connection)
    with NativeClient(stub.url, timeout_s=60) as client:
        with pytest.raises(EngineRequestError):
            client.tokenize("ab", add_special=False)
        assert client.tokenize("ab", add_special=False) == [ord("a"), ord("b")]


@pytest.mark.parametrize("slot", [0, 1])
def test_an_error_in_one_slot_ends_the_others(stub, monkeypatch, slot):
    meet(monkeypatch, slots=2)
    docs = [doc("xxxxab", name=f"d{i}") for i in range(400)]
    docs[slot] = doc("ab", name="short")
    with pytest.raises(ConfigError, match="`short` is too short"):
        score(stub.url, docs, slots=2)
    # 200 documents with 2 positions each would wait in the other slot
    assert len(stub.completions) < 400


def test_an_interruption_ends_the_other_slots(stub, monkeypatch):
    def interrupt(done, of):
        if done == 1:
            raise KeyboardInterrupt

    meet(monkeypatch, slots=2)
    docs = [doc("xxxxab", name=f"d{i}") for i in range(400)]
    with pytest.raises(KeyboardInterrupt):
        score(stub.url, docs, slots=2, on_progress=interrupt)
    assert len(stub.completions) < 400
