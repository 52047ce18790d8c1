"""Tokens, prompts and answers of the scripted engine."""

from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.core import Message
from vivace.testing.text import (
    answer_words,
    chat_prompt,
    common_prefix,
    count,
    detokenize,
    extended,
    render,
    tokenize,
)

messages = st.lists(
    st.builds(Message, role=st.sampled_from(["system", "user", "assistant"]), content=st.text()),
    min_size=1,
    max_size=4,
)
prompts = st.lists(
    st.lists(st.sampled_from("ab"), max_size=4).map(tuple), min_size=1, max_size=4
).map(tuple)


def flat(prompt):
    return tuple(chain.from_iterable(prompt))


def test_words_and_chinese_characters_are_tokens():
    assert tokenize("two words, 世界 ok世") == ("two", "words,", "世", "界", "ok", "世")


def test_a_chat_has_a_tag_for_each_message_and_one_for_the_answer():
    prompt = chat_prompt([Message(role="user", content="hi there")])
    assert prompt == (("<|user|>", "hi", "there"), ("<|assistant|>",))
    assert count(prompt) == 4


@settings(deadline=None)
@given(messages)
def test_a_rendered_chat_has_the_tokens_of_the_chat(chat):
    assert tokenize(render(chat)) == flat(chat_prompt(chat))


@settings(deadline=None)
@given(st.text())
def test_joined_tokens_are_the_same_tokens_again(text):
    assert tokenize(detokenize(tokenize(text))) == tokenize(text)


@settings(deadline=None)
@given(prompts, prompts)
def test_a_common_prefix_does_not_depend_on_where_segments_are_cut(a, b):
    expected = 0
    for mine, other in zip(flat(a), flat(b), strict=False):
        if mine != other:
            break
        expected += 1
    assert common_prefix(a, b) == common_prefix(b, a) == expected


def test_an_answer_becomes_the_assistants_message():
    chat = [Message(role="user", content="hi")]
    answered = extended(chat_prompt(chat), ("well", "yes"))
    next_turn = chat_prompt([*chat, Message(role="assistant", content="well yes")])
    assert answered == next_turn[:-1]


@settings(deadline=None)
@given(st.integers(0, 5000), st.integers(0, 3))
def test_an_answer_has_exactly_so_many_tokens_and_follows_from_seed_and_prompt(tokens, seed):
    prompt = chat_prompt([Message(role="user", content="hi")])
    words = answer_words(seed, prompt, tokens)
    assert len(words) == tokens
    assert words == answer_words(seed, prompt, tokens)
    assert tokenize(detokenize(words)) == words


def test_another_seed_or_question_gives_another_answer():
    hi, ho = (chat_prompt([Message(role="user", content=c)]) for c in ("hi", "ho"))
    answers = {answer_words(0, hi, 20), answer_words(1, hi, 20), answer_words(0, ho, 20)}
    assert len(answers) == 3
