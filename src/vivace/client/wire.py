"""Reading JSON of unknown shape: whatever has the wrong type counts as absent."""

from typing import Any, TypeGuard, cast

import msgspec


def is_mapping(value: object) -> TypeGuard[dict[str, Any]]:
    """It is a JSON object."""
    return isinstance(value, dict)


def mapping(value: object) -> dict[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if is_mapping(value) else {}


def items(value: object) -> list[Any]:
    """`value` if it is a JSON array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def count(value: object) -> int | None:
    """A number of tokens; `None` for anything that is not one."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None


def parse(data: str | bytes) -> Any | None:
    """JSON to objects; `None` where it is not JSON (or is `null`)."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
