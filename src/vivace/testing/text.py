"""Tokens of the scripted engine: a word is a token, and so is each Chinese character.

A prompt is a tuple of segments (one per message), a segment a tuple of tokens. Equal messages give
the same cached tuple, so comparing long shared beginnings costs next to nothing.
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Protocol


class Said(Protocol):
    """A chat message: `vivace.core.Message`, or what came over the wire."""

    @property
    def role(self) -> str: ...

    @property
    def content(self) -> str: ...


Segment = tuple[str, ...]
Prompt = tuple[Segment, ...]

_CJK = "⺀-鿿豈-﫿＀-￯"
_TOKEN = re.compile(rf"[{_CJK}]|[^\s{_CJK}]+")
_ANSWER_TAG: Segment = ("<|assistant|>",)
_SENTENCE = (
    "the plan holds if each team files its note before noon and keeps a copy for later "
    "review so that costs stay clear while travel remains simple safe and fair to all"
)


@lru_cache(maxsize=8192)
def tokenize(text: str) -> Segment:
    """`hello 世界` -> `("hello", "世", "界")`."""
    return tuple(_TOKEN.findall(text))


def detokenize(tokens: Iterable[str]) -> str:
    """Tokens with blanks between; `tokenize` gives the same tokens back."""
    return " ".join(tokens)


@lru_cache(maxsize=8192)
def _message(role: str, content: str) -> Segment:
    return (f"<|{role}|>", *tokenize(content))


def chat_prompt(messages: Sequence[Said]) -> Prompt:
    """One tag and the words of each message, then the tag that opens the answer."""
    return (*(_message(m.role, m.content) for m in messages), _ANSWER_TAG)


def text_prompt(text: str) -> Prompt:
    """A prompt without messages: one segment."""
    return (tokenize(text),)


def render(messages: Sequence[Said]) -> str:
    """The chat as text; its tokens are those of `chat_prompt`."""
    return "\n".join(detokenize(segment) for segment in chat_prompt(messages))


def count(prompt: Prompt) -> int:
    """Tokens of a prompt."""
    return sum(map(len, prompt))


def extended(prompt: Prompt, answer: Segment) -> Prompt:
    """The prompt with its answer: what a slot holds after it, and how the next turn begins."""
    return (*prompt[:-1], (*prompt[-1], *answer))


def common_prefix(a: Prompt, b: Prompt) -> int:
    """How many tokens both begin with, wherever their segments are cut."""
    shared, index = 0, 0
    for mine, other in zip(a, b, strict=False):
        if mine is not other and mine != other:
            break
        shared += len(mine)
        index += 1
    rest = zip(chain.from_iterable(a[index:]), chain.from_iterable(b[index:]), strict=False)
    for mine, other in rest:
        if mine != other:
            break
        shared += 1
    return shared


def answer_words(seed: int, prompt: Prompt, tokens: int) -> Segment:
    """Exactly `tokens` words that follow from the seed, the prompt's end and its length."""
    last = " ".join(chain.from_iterable(prompt[-2:]))
    start = zlib.crc32(f"{seed}:{count(prompt)}:{last}".encode()) % len(_CYCLE)
    end = start + tokens
    rounds = _CYCLE * (end // len(_CYCLE) + 1)
    return rounds[start:end]


def _cycle(length: int) -> Segment:
    words = tokenize(_SENTENCE)
    return tuple(words[zlib.crc32(str(i).encode()) % len(words)] for i in range(length))


_CYCLE = _cycle(1021)
