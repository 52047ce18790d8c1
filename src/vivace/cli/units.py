"""Durations, sizes and shares as people type them: `90s`, `8m`, `2GiB`, `2%`."""

import re

from vivace.errors import ConfigError

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_BYTES = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip


def duration_s(text: str) -> float:
    """`90s`, `8m`, `1h30m`, `2.5m` -> seconds. Raises `ConfigError`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)([smh])", text.strip().lower())
    if not parts or "".join(n + u for n, u in parts) != text.strip().lower():
        raise ConfigError(f"no duration: `{text}`", hint="for example `90s`, `8m` or `1h30m`")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def size_bytes(text: str) -> int:
    """`2GiB`, `400MiB`, `1.5GB` -> bytes. Raises `ConfigError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", text.strip().lower())
    if match is None or match[2] not in _BYTES:
        raise ConfigError(f"no size: `{text}`", hint="for example `400MiB` or `2GiB`")
    return round(float(match[1]) * _BYTES[match[2]])


def share(text: str) -> float:
    """`2%` or `0.02` -> 0.02. Raises `ConfigError`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", text.strip())
    if match is None:
        raise ConfigError(f"no share: `{text}`", hint="for example `2%` or `0.02`")
    return float(match[1]) / (100 if match[2] else 1)


def levels(text: str) -> tuple[int, ...]:
    """`16` or `1,16,100` -> the load levels. Raises `ConfigError`."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(
            f"no concurrency: `{text}`", hint="for example `16` or `1,16,100`"
        ) from None
    if min(found) < 1:
        raise ConfigError(f"concurrency must be at least 1, got {min(found)}")
    return found
