"""The two native llama.cpp requests that scoring needs, over one kept connection."""

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeVar
from urllib.parse import urlsplit

import msgspec

from vivace.errors import EngineRequestError

#: Added to a token's logit so that the sampler takes it whatever the model thinks.
FORCE_BIAS = 1e4
#: A probability that underflows is written as the lowest float (-3.4e38), which would outweigh
#: every other token; e^-100 is below what single precision holds.
LOWEST_LOGPROB = -100.0


class _Listed(msgspec.Struct):
    id: int
    logprob: float | None = None


class _Position(_Listed):
    top_logprobs: list[_Listed] = []


class _Completion(msgspec.Struct):
    completion_probabilities: list[_Position] = []


class _Tokens(msgspec.Struct):
    tokens: list[int]


_Answer = TypeVar("_Answer", _Completion, _Tokens)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prediction:
    """What the engine said of one position. `top`: (token, log-probability), likeliest first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


class NativeClient:
    """Speaks to one llama.cpp server at `http://HOST:PORT`. Not for use by several threads."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        parts = urlsplit(url)
        # http.client reads no proxy variables, which is what loopback traffic needs.
        self._connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=timeout_s
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def tokenize(self, text: str, *, add_special: bool) -> list[int]:
        """Token ids of a text; with `add_special` after the model's beginning-of-text token."""
        if not text:
            return []
        body = {"content": text, "add_special": add_special}
        return self._post("/tokenize", body, _Tokens).tokens

    def predict(self, prompt: list[int], *, force: int, slot: int, top_k: int) -> Prediction | None:
        """The distribution after `prompt`, and the log-probability of `force` in it.

        `None` when the engine gives none, as it does for a token that ends inside a UTF-8 character.
        """
        body = {
            "prompt": prompt,
            "n_predict": 1,
            "n_probs": top_k,
            "temperature": 0.0,
            "cache_prompt": True,
            "post_sampling_probs": False,
            "id_slot": slot,
            "logit_bias": [[force, FORCE_BIAS]],
        }
        positions = self._post("/completion", body, _Completion).completion_probabilities
        if not positions or not positions[0].top_logprobs:
            return None
        at = positions[0]
        listed = ((t.id, _number(t.logprob)) for t in at.top_logprobs)
        top = tuple(sorted(listed, key=lambda pair: -pair[1]))
        return Prediction(token=at.id, logprob=_number(at.logprob), top=top)

    def _post(self, path: str, body: Mapping[str, object], kind: type[_Answer]) -> _Answer:
        try:
            self._connection.request(
                "POST", path, msgspec.json.encode(body), {"Content-Type": "application/json"}
            )
            response = self._connection.getresponse()
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise EngineRequestError(
                f"scoring at {path} failed: {str(error) or type(error).__name__}",
                hint="the engine's log says why it left",
            ) from error
        if response.status != 200:
            said = data[:300].decode("utf-8", "replace")
            raise EngineRequestError(
                f"scoring at {path} got HTTP {response.status}: {said}", status=response.status
            )
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.MsgspecError as error:
            raise EngineRequestError(
                f"scoring at {path} got an answer of another form: {error}", status=200
            ) from error


def _number(logprob: float | None) -> float:
    # llama.cpp writes `null` for NaN: a broken kernel, or weights that overflowed. Such a
    # candidate must not look merely a little worse.
    if logprob is None:
        raise EngineRequestError(
            "the engine's log-probabilities are not numbers (NaN)",
            hint="the weights or the kernel overflow: try another weight type",
        )
    return max(logprob, LOWEST_LOGPROB)
