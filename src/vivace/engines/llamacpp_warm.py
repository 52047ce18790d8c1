"""Warming: the shared beginning of a conversation is computed once and copied into every slot.

The saved state stays on disk under a name that changes with everything it depends on, so a
restart only restores.
"""

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Literal

import msgspec

from vivace.core import Message
from vivace.engines.http import post_json
from vivace.errors import EngineRequestError

Source = Literal["computed", "restored", "none"]
#: Two questions that share no beginning: what their prompts have in common is the prefix.
_PROBES = ("a", "7")


class _Prompt(msgspec.Struct):
    prompt: str


class _Tokens(msgspec.Struct):
    tokens: list[int]


class _Restored(msgspec.Struct):
    n_restored: int


class _Ignored(msgspec.Struct):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Warmth:
    """What warming did. `tokens`: slot id -> tokens that were put into it."""

    source: Source
    tokens: dict[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefix:
    """The tokens of one shared beginning and the name of its saved state."""

    tokens: tuple[int, ...]
    file: str


def read_prefix(url: str, messages: Sequence[Message], *, identity: str) -> Prefix:
    """The tokens every prompt that begins with `messages` has in common.

    `identity` names everything else the saved state depends on: model, KV type, engine version.
    """
    first, second = (_tokenise(url, messages, probe) for probe in _PROBES)
    tokens = common_prefix(first, second)
    return Prefix(tokens=tokens, file=file_name(tokens, identity))


def common_prefix(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """The longest common beginning."""
    pairs = zip(first, second, strict=False)
    return tuple(a for a, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def file_name(tokens: Sequence[int], identity: str) -> str:
    """Name of the saved state: changes when the tokens or the identity change."""
    digest = hashlib.sha256(f"{identity}|{','.join(map(str, tokens))}".encode())
    return f"prefix-{digest.hexdigest()[:32]}.bin"


def warm(
    url: str, prefixes: Sequence[Prefix], *, slots: int, slots_dir: Path, timeout_s: float
) -> Warmth:
    """Put the prefixes into the slots, one after another in turn.

    A saved state that is missing, stale or broken is computed again. Raises `EngineRequestError`.
    """
    usable = [p for p in prefixes[:slots] if p.tokens]
    if not usable:
        return Warmth(source="none", tokens={})
    source: Source = "restored"
    for slot, prefix in enumerate(usable):
        if not _restore(url, slot, prefix):
            _compute(url, slot, prefix, slots_dir=slots_dir, timeout_s=timeout_s)
            source = "computed"
    for slot in range(len(usable), slots):
        prefix = usable[slot % len(usable)]
        if not _restore(url, slot, prefix):
            raise EngineRequestError(f"the warm prefix could not be copied into slot {slot}")
    held = {slot: len(usable[slot % len(usable)].tokens) for slot in range(slots)}
    return Warmth(source=source, tokens=held)


def erase(url: str, slots: int) -> None:
    """Empty every slot."""
    for slot in range(slots):
        post_json(url, f"/slots/{slot}?action=erase", {}, _Ignored)


def _tokenise(url: str, messages: Sequence[Message], question: str) -> list[int]:
    chat = [{"role": m.role, "content": m.content} for m in messages]
    body = {"messages": [*chat, {"role": "user", "content": question}]}
    prompt = post_json(url, "/apply-template", body, _Prompt).prompt
    # As the chat endpoint does it: with the model's own first token, control tokens parsed.
    text = {"content": prompt, "add_special": True, "parse_special": True}
    return post_json(url, "/tokenize", text, _Tokens).tokens


def _restore(url: str, slot: int, prefix: Prefix) -> bool:
    """Whether the slot now holds the prefix; llama.cpp refuses files that do not fit with HTTP 400."""
    with contextlib.suppress(EngineRequestError):
        path = f"/slots/{slot}?action=restore"
        reply = post_json(url, path, {"filename": prefix.file}, _Restored)
        return reply.n_restored == len(prefix.tokens)
    return False


def _compute(url: str, slot: int, prefix: Prefix, *, slots_dir: Path, timeout_s: float) -> None:
    body = {"prompt": prefix.tokens, "n_predict": 0, "id_slot": slot, "cache_prompt": True}
    post_json(url, "/completion", body, _Ignored, timeout_s=timeout_s)
    # Under another name first: a file with the final name is always whole.
    part = f"{prefix.file}.part"
    post_json(url, f"/slots/{slot}?action=save", {"filename": part}, _Ignored)
    (slots_dir / part).replace(slots_dir / prefix.file)
