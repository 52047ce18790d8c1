"""What clients send to the scripted server; unknown fields are ignored, as llama.cpp does."""

from typing import NamedTuple

import msgspec

DEFAULT_MAX_TOKENS = 64


class Turn(NamedTuple):
    """A chat message in its simplest form."""

    role: str
    content: str


class Part(msgspec.Struct):
    type: str = "text"
    text: str = ""


class ChatMessage(msgspec.Struct):
    role: str
    content: str | list[Part] | None = None

    def turn(self) -> Turn:
        """Content parts joined."""
        content = self.content
        if isinstance(content, list):
            return Turn(self.role, "".join(part.text for part in content))
        return Turn(self.role, content or "")


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class Generate(msgspec.Struct, kw_only=True):
    """What chat and text completions have in common."""

    model: str = "scripted"
    stream: bool = False
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    n_predict: int | None = None
    stream_options: StreamOptions | None = None
    id_slot: int = -1

    @property
    def limit(self) -> int:
        """Most tokens of the answer."""
        given = (self.max_completion_tokens, self.max_tokens, self.n_predict)
        limit = next((n for n in given if n is not None), DEFAULT_MAX_TOKENS)
        return limit if limit >= 0 else DEFAULT_MAX_TOKENS

    @property
    def slot(self) -> int | None:
        """The slot it must run in."""
        return self.id_slot if self.id_slot >= 0 else None

    @property
    def wants_usage(self) -> bool:
        """A stream gives usage only when asked."""
        return self.stream_options is not None and self.stream_options.include_usage


class ChatBody(Generate, kw_only=True):
    messages: list[ChatMessage]


class TextBody(Generate, kw_only=True):
    prompt: str | list[int]
    n_probs: int = 0
    logit_bias: list[tuple[int, float]] = []


class TemplateBody(msgspec.Struct):
    messages: list[ChatMessage]


class TokenizeBody(msgspec.Struct):
    content: str


class DetokenizeBody(msgspec.Struct):
    tokens: list[int]


class SlotBody(msgspec.Struct):
    filename: str = ""
