"""What one chunk of a response says: its pieces of output, its end, its error.

Understands chat chunks and whole chat completions (OpenAI and everything shaped like it), text
completions, and the lines of Ollama's own interface.
"""

from typing import Any, Final

import msgspec

from vivace.client.wire import is_mapping, items, mapping
from vivace.core import PieceKind

_CONTENT: Final = frozenset(("content", "text", "response"))
_REASONING: Final = frozenset(("reasoning_content", "reasoning", "thinking"))


def pieces_of(obj: dict[str, Any]) -> list[tuple[PieceKind, str]]:
    """The non-empty output in one chunk. A role alone or empty text is no output.

    The text of a `tool_call` piece is the JSON of its fragment; `tool_calls()` joins fragments.
    """
    found: list[tuple[PieceKind, str]] = []
    for choice in items(obj.get("choices")):
        if is_mapping(choice):
            delta = choice.get("delta") or choice.get("message")
            _from_delta(delta if is_mapping(delta) else choice, found)
    if "done" in obj:
        _from_delta(mapping(obj.get("message")) or obj, found)
    return found


def finish_reason_of(obj: dict[str, Any]) -> str | None:
    """Why the answer ended, once a chunk says so."""
    for choice in items(obj.get("choices")):
        if is_mapping(choice) and isinstance(reason := choice.get("finish_reason"), str) and reason:
            return reason
    if obj.get("done") is True:
        reason = obj.get("done_reason")
        return reason if isinstance(reason, str) else "stop"
    return None


def error_of(obj: object, *, is_error: bool = False) -> str | None:
    """The error in a chunk or body as `message (type, code)`; `None` where there is none.

    `is_error` says that the whole object is known to be one, whatever its keys.
    """
    if not is_mapping(obj):
        return (str(obj) or "unknown error") if is_error else None
    inner = obj.get("error")
    if not inner:
        if not is_error and obj.get("object") != "error":
            return None
        inner = obj
    details = mapping(inner)
    message = details.get("message") or details.get("detail") or details.get("error") or inner
    if not isinstance(message, str):
        message = msgspec.json.encode(message).decode()
    kinds = (details.get("type") or obj.get("error_type"), details.get("code"))
    words = ", ".join(str(k) for k in kinds if isinstance(k, str | int) and k != "")
    return f"{message} ({words})" if words else message


def tool_calls(fragments: list[str]) -> list[dict[str, Any]]:
    """Tool calls joined from the texts of `tool_call` pieces: `id`, `name`, `arguments` (text).

    A fragment belongs to the call with its `index`; without one, a new `id` begins a new call.
    """
    calls: list[dict[str, Any]] = []
    by_key: dict[object, dict[str, Any]] = {}
    for fragment in map(mapping, map(msgspec.json.decode, fragments)):
        key = fragment.get("index", fragment.get("id"))
        call = by_key.get(key) if key is not None else calls[-1] if calls else None
        if call is None:
            call = by_key[key] = {"id": None, "name": "", "arguments": ""}
            calls.append(call)
        function = mapping(fragment.get("function"))
        arguments = function.get("arguments") or ""
        if not isinstance(arguments, str):  # Ollama sends an object
            arguments = msgspec.json.encode(arguments).decode()
        call["id"] = call["id"] or fragment.get("id")
        call["name"] += function.get("name") or ""
        call["arguments"] += arguments
    return calls


def _from_delta(delta: dict[str, Any], found: list[tuple[PieceKind, str]]) -> None:
    reasoned = False
    for name, value in delta.items():
        if not value:
            continue
        if name in _CONTENT:
            if text := _text(value):
                found.append(("content", text))
        elif name in _REASONING:
            # Some servers send the same reasoning under two names: the first counts.
            if not reasoned and (text := _text(value)):
                found.append(("reasoning", text))
                reasoned = True
        elif name == "tool_calls":
            for call in map(mapping, items(value)):
                if call.get("id") or any(mapping(call.get("function")).values()):
                    found.append(("tool_call", msgspec.json.encode(call).decode()))


def _text(value: object) -> str:
    """Text, or the text parts of a list of content parts."""
    if isinstance(value, str):
        return value
    texts = (mapping(part).get("text") for part in items(value))
    return "".join(t for t in texts if isinstance(t, str))
