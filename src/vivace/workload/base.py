"""A workload: what the users send. Deterministic by seed, tuning and validation kept apart."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from vivace.core import Message, Request
from vivace.errors import ConfigError

Split = Literal["tune", "validate"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Requests for tuning and others for the final validation.

    `prefixes` are shared beginnings worth computing once; `max_request_tokens_hint` is the longest
    prompt + answer in tokens, rounded up.
    """

    name: str
    seed: int
    description: str
    requests_tune: tuple[Request, ...]
    requests_validate: tuple[Request, ...]
    prefixes: tuple[tuple[Message, ...], ...] = ()
    max_request_tokens_hint: int

    def __post_init__(self) -> None:
        if not self.requests_tune or not self.requests_validate:
            raise ConfigError(f"workload `{self.name}` needs requests to tune and to validate with")

    def requests(self, split: Split) -> tuple[Request, ...]:
        """The requests of one split, once."""
        return self.requests_tune if split == "tune" else self.requests_validate

    def stream(self, split: Split, salt: str = "") -> Iterator[Request]:
        """Requests without end, with new ids.

        From the second round on, and always with a salt, the first user message after the shared
        prefix starts with a short mark: a question that was answered before would otherwise be
        measured out of the cache. The mark is the same within a round, so what requests share
        stays shared.
        """
        requests = self.requests(split)
        turn = 0
        while True:
            mark = _mark(salt, turn)
            for request in requests:
                yield replace(
                    request,
                    id=f"{request.id}{'-' + salt if salt else ''}-{turn}",
                    messages=self._marked(request.messages, mark),
                )
            turn += 1

    def describe(self) -> dict[str, object]:
        """What a report says of it."""
        return {
            "name": self.name,
            "seed": self.seed,
            "description": self.description,
            "requests_tune": len(self.requests_tune),
            "requests_validate": len(self.requests_validate),
            "prefixes": len(self.prefixes),
            "max_request_tokens_hint": self.max_request_tokens_hint,
        }

    def digest(self) -> str:
        """Equal for equal requests, whatever they are called."""
        requests = (self.requests_tune, self.requests_validate)
        return hashlib.sha256(msgspec.json.encode(requests)).hexdigest()

    def _marked(self, messages: tuple[Message, ...], mark: str) -> tuple[Message, ...]:
        if not mark:
            return messages
        start = shared_length(messages, self.prefixes)
        for index in range(start, len(messages)):
            if messages[index].role == "user":
                marked = replace(messages[index], content=f"{mark} {messages[index].content}")
                return (*messages[:index], marked, *messages[index + 1 :])
        return messages


def shared_length(messages: Sequence[Message], prefixes: Sequence[Sequence[Message]]) -> int:
    """How many messages the longest prefix covers with which these begin."""
    fitting = (len(p) for p in prefixes if tuple(messages[: len(p)]) == tuple(p))
    return max(fitting, default=0)


def _mark(salt: str, turn: int) -> str:
    if not salt and turn == 0:
        return ""
    return f"[{hashlib.sha256(f'{salt}/{turn}'.encode()).hexdigest()[:6]}]"
