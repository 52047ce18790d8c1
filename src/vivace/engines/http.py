"""Small HTTP calls for administration over loopback. Proxies are never used: `http.client` knows none."""

import http.client
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from vivace.errors import EngineRequestError

T = TypeVar("T")
#: llama.cpp answers `/slots` between two batches, which takes seconds on a busy machine.
DEFAULT_TIMEOUT_S = 60.0


class _ErrorBody(msgspec.Struct):
    message: str = ""


class _ErrorReply(msgspec.Struct):
    error: _ErrorBody | str = ""


def get_text(url: str, path: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> str:
    """The body of a GET; raises `EngineRequestError`."""
    return _call(url, "GET", path, None, timeout_s).decode("utf-8", "replace")


def get_json(url: str, path: str, reply: type[T], *, timeout_s: float = DEFAULT_TIMEOUT_S) -> T:
    """The JSON answer of a GET, checked against `reply`; raises `EngineRequestError`."""
    return _decode(_call(url, "GET", path, None, timeout_s), reply, path)


def post_json(
    url: str, path: str, body: object, reply: type[T], *, timeout_s: float = DEFAULT_TIMEOUT_S
) -> T:
    """The JSON answer of a POST, checked against `reply`; raises `EngineRequestError`."""
    return _decode(_call(url, "POST", path, msgspec.json.encode(body), timeout_s), reply, path)


def _call(url: str, method: str, path: str, body: bytes | None, timeout_s: float) -> bytes:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(
        parts.hostname or "127.0.0.1", parts.port, timeout=timeout_s
    )
    try:
        connection.request(method, path, body, {"content-type": "application/json"})
        response = connection.getresponse()
        data = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise EngineRequestError(
            f"{method} {url}{path}: {str(error) or type(error).__name__}"
        ) from error
    finally:
        connection.close()
    if response.status >= 400:
        raise EngineRequestError(
            f"{method} {url}{path}: HTTP {response.status}: {_message(data)}",
            status=response.status,
        )
    return data


def _decode(data: bytes, reply: type[T], path: str) -> T:
    try:
        return msgspec.json.decode(data, type=reply)
    except msgspec.MsgspecError as error:
        raise EngineRequestError(
            f"{path} answered something else than expected: {error}"
        ) from error


def _message(data: bytes) -> str:
    """The engine's own message out of an error body, or the body's beginning."""
    try:
        error = msgspec.json.decode(data, type=_ErrorReply).error
    except msgspec.MsgspecError:
        error = ""
    text = error if isinstance(error, str) else error.message
    return text or data[:200].decode("utf-8", "replace")
