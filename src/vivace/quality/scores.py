"""Scores of one document: what a model thought of each of its tokens. Can be stored as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from vivace.errors import ConfigError
from vivace.quality.texts import Slice


@dataclass(frozen=True, kw_only=True, slots=True)
class Scores:
    """Per scored token, in order: the token, its log-probability, the likeliest tokens.

    `top` has (token, log-probability) pairs, the likeliest first. `floored` counts tokens whose
    log-probability the engine did not give: they carry that of the least likely token listed,
    which is an upper bound.
    """

    id: str
    slice: Slice
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: tuple[tuple[tuple[int, float], ...], ...]
    floored: int = 0

    def __post_init__(self) -> None:
        if not len(self.tokens) == len(self.logprobs) == len(self.top):
            raise ConfigError(
                f"scores of `{self.id}` do not fit together: {len(self.tokens)} tokens, "
                f"{len(self.logprobs)} log-probabilities, {len(self.top)} distributions"
            )


def dump_scores(scores: Mapping[str, Scores]) -> bytes:
    """JSON of the scores, to be stored beside the model they belong to."""
    return msgspec.json.encode(scores)


def parse_scores(data: bytes) -> dict[str, Scores]:
    """The inverse of `dump_scores`. Raises `ConfigError` for anything else."""
    try:
        return msgspec.json.decode(data, type=dict[str, Scores])
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"stored quality scores cannot be read: {error}",
            hint="delete the file; it is made again",
        ) from error
