"""Administration calls: the engine's own message reaches the user."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec
import pytest

from vivace.engines.http import get_json, get_text, post_json
from vivace.errors import EngineRequestError


class Reply(msgspec.Struct):
    """What the echo answers."""

    got: str


class Echo(BaseHTTPRequestHandler):
    """GET answers by path, POST echoes."""

    def log_message(self, *args: object) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        bodies = {
            "/text": (200, b"plain"),
            "/told": (400, b'{"error":{"code":400,"message":"no such slot"}}'),
            "/string": (500, b'{"error":"broken"}'),
            "/bare": (503, b"try later"),
        }
        status, body = bodies[self.path]
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"got":' + body + b"}")


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_body_goes_there_and_back(url: str) -> None:
    assert post_json(url, "/echo", "hello", Reply).got == "hello"
    assert get_text(url, "/text") == "plain"


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [("/told", 400, "no such slot"), ("/string", 500, "broken"), ("/bare", 503, "try later")],
)
def test_the_message_of_the_engine_is_in_the_error(
    url: str, path: str, status: int, message: str
) -> None:
    with pytest.raises(EngineRequestError, match=message) as told:
        get_text(url, path)
    assert told.value.status == status


def test_an_answer_of_another_shape_is_an_error(url: str) -> None:
    with pytest.raises(EngineRequestError, match="/text"):
        get_json(url, "/text", Reply)


def test_nobody_listening_is_an_error_without_status() -> None:
    with pytest.raises(EngineRequestError) as told:
        get_text("http://127.0.0.1:1", "/text")
    assert told.value.status is None


def test_a_proxy_in_the_environment_is_ignored(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    assert get_text(url, "/text") == "plain"


def test_a_failure_without_words_is_told_by_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr("http.client.HTTPConnection.request", fails)
    with pytest.raises(EngineRequestError, match="TimeoutError"):
        get_text("http://127.0.0.1:9", "/text")
