"""The user's own requests: one chat-completions body a line, or a gateway's log of them."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Literal, cast

import msgspec

from vivace.core import Message, Request
from vivace.errors import ConfigError
from vivace.workload.base import Workload

TUNE_SHARE = 0.7
#: A beginning counts as shared when at least this share of the requests has it.
SHARED_SHARE = 0.2
DEFAULT_MAX_TOKENS = 128
FORM_HINT = (
    'each line is one request: {"messages":[{"role":"user","content":"..."}],"max_tokens":64}, '
    'or {"request":{...},"response":{...}}'
)
#: Fields of a body that vivace sets itself; the others travel on as `extra`.
_OWN = frozenset(
    ("messages", "max_tokens", "max_completion_tokens", "temperature", "seed", "stream",
     "stream_options", "model")
)  # fmt: skip


class _Part(msgspec.Struct):
    type: str
    text: str = ""


class _Message(msgspec.Struct):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_Part]


class _Body(msgspec.Struct):
    messages: list[_Message]
    max_tokens: int | None = None
    max_completion_tokens: int | None = None


class _Answer(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Answer


class _Response(msgspec.Struct):
    choices: list[_Choice] = []


def load_jsonl(path: Path, *, seed: int) -> Workload:
    """A workload from a file; 70 % of the distinct requests tune, the others validate.

    Raises `ConfigError` with the number of the line that is wrong, for an unreadable file, and
    when fewer than two requests differ.
    """
    requests = _distinct(_parse(path, seed=seed))
    if len(requests) < 2:
        raise ConfigError(
            f"workload `{path}` has {len(requests)} distinct requests, at least 2 are needed",
            hint="one part tunes, another that tuning has not seen validates; " + FORM_HINT,
        )
    order = list(requests)
    random.Random(seed).shuffle(order)
    cut = min(max(1, round(TUNE_SHARE * len(order))), len(order) - 1)
    return Workload(
        name=path.name,
        seed=seed,
        description=f"{len(order)} distinct requests of `{path.name}`; temperature set to 0 and "
        f"seed to {seed}, so that every configuration answers the same",
        requests_tune=tuple(order[:cut]),
        requests_validate=tuple(order[cut:]),
        prefixes=_shared_prefixes(requests),
        max_request_tokens_hint=max(_tokens_estimate(r) for r in requests),
    )


def _parse(path: Path, *, seed: int) -> list[Request]:
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"workload `{path}` cannot be read: {error}", hint=FORM_HINT) from error
    requests: list[Request] = []
    # Only \n ends a line: JSON strings may hold the other separators that splitlines() knows.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            requests.append(_request(line, number=number, seed=seed))
        except (ValueError, ConfigError) as error:
            raise ConfigError(
                f"line {number} of workload `{path}`: {error}", hint=FORM_HINT
            ) from error
    return requests


def _request(line: str, *, number: int, seed: int) -> Request:
    """One line. Raises `ValueError` (msgspec's errors are such) or `ConfigError`."""
    raw: object = json.loads(line)
    if not isinstance(raw, dict):
        raise ValueError("is not a JSON object")
    fields = cast(dict[str, object], raw)
    answer = None
    if "request" in fields:
        answer = _answer(fields.get("response"))
        inner = fields["request"]
        if not isinstance(inner, dict):
            raise ValueError("`request` is not a JSON object")
        fields = cast(dict[str, object], inner)
    body = msgspec.convert(fields, _Body)
    limit = body.max_tokens if body.max_tokens is not None else body.max_completion_tokens
    return Request(
        id=f"line-{number}",
        messages=tuple(_message(m) for m in body.messages),
        max_tokens=DEFAULT_MAX_TOKENS if limit is None else limit,
        seed=seed,
        extra={name: value for name, value in fields.items() if name not in _OWN},
        answer=answer,
    )


def _message(message: _Message) -> Message:
    if isinstance(message.content, str):
        content = message.content
    else:
        strange = next((p.type for p in message.content if p.type != "text"), None)
        if strange is not None:
            raise ValueError(f"content of type `{strange}` is not supported, only `text`")
        content = "".join(p.text for p in message.content)
    return Message(role="system" if message.role == "developer" else message.role, content=content)


def _answer(response: object) -> str | None:
    """The answer's text; a response of another form (an error, a stream) has none."""
    try:
        choices = msgspec.convert(response, _Response).choices
    except msgspec.ValidationError:
        return None
    return choices[0].message.content if choices else None


def _distinct(requests: list[Request]) -> tuple[Request, ...]:
    """The first request of each conversation text, so that the two parts share none."""
    seen: dict[tuple[Message, ...], Request] = {}
    for request in requests:
        seen.setdefault(request.messages, request)
    return tuple(seen.values())


def _shared_prefixes(requests: tuple[Request, ...]) -> tuple[tuple[Message, ...], ...]:
    """Leading system messages that at least a fifth (and two) of the requests begin with."""
    counts = Counter(start for r in requests if (start := _system_start(r.messages)))
    enough = max(2, SHARED_SHARE * len(requests))
    return tuple(start for start, count in counts.most_common() if count >= enough)


def _system_start(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    length = next((i for i, m in enumerate(messages) if m.role != "system"), len(messages))
    return messages[:length]


def _tokens_estimate(request: Request) -> int:
    """An upper estimate without a tokenizer: 2.5 bytes a token, 16 tokens a message."""
    size = sum(len(m.content.encode()) for m in request.messages)
    return round(size / 2.5) + 16 * len(request.messages) + request.max_tokens
