"""The hub client against a scripted hub on loopback, and ModelScope against a scripted package."""

import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from vivace.errors import ModelError
from vivace.models import hub, modelscope
from vivace.models.model import Model
from vivace.models.remote import RemoteFile, choose

Writer = Callable[..., Path]
REPO = "org/name"


class Hub(ThreadingHTTPServer):
    """A hub with one repository. `status` and `cuts` (bytes after which a body ends) make it fail."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.status = 200
        self.headers: dict[str, str] = {}
        self.cuts: list[int] = []
        self.wrong_hash = False
        self.requests: list[tuple[str, str, str | None]] = []
        self.tokens: set[str | None] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self) -> None:
        hub_ = self.server
        wanted = self.headers.get("Range")
        hub_.requests.append((self.command, self.path, wanted))
        hub_.tokens.add(self.headers.get("Authorization"))
        if hub_.status != 200:
            self._send(b"{}", status=hub_.status, headers=hub_.headers)
        elif self.path.startswith("/api/models/"):
            self._send(json.dumps(self._info()).encode(), status=200)
        else:
            self._send_file(hub_.files[self.path.rsplit("/", 1)[-1]], wanted)

    def _info(self) -> dict[str, object]:
        siblings = [
            {
                "rfilename": name,
                "size": len(data),
                "lfs": {"sha256": self._hash(data), "size": len(data), "pointerSize": 1},
            }
            for name, data in self.server.files.items()
        ]
        return {
            "id": REPO,
            "sha": "0" * 40,
            "tags": ["gguf", "license:mit"],
            "siblings": siblings,
        }

    def _hash(self, data: bytes) -> str:
        return "1" * 64 if self.server.wrong_hash else hashlib.sha256(data).hexdigest()

    def _send_file(self, data: bytes, wanted: str | None) -> None:
        headers = {
            "X-Repo-Commit": "0" * 40,
            "ETag": f'"{hashlib.sha256(data).hexdigest()}"',
            "Accept-Ranges": "bytes",
        }
        start = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        body = data[start:]
        cuts = self.server.cuts
        cut = cuts.pop(0) if self.command == "GET" and cuts else None
        self._send(body, status=206 if start else 200, headers=headers, cut=cut)

    def _send(
        self,
        body: bytes,
        *,
        status: int,
        headers: dict[str, str] | None = None,
        cut: int | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:cut])
        if cut is not None:
            self.close_connection = True


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetch(server: Hub, tmp_path: Path) -> Callable[..., Model]:
    def call(spec: str = REPO, *, offline: bool = False, said: list[str] | None = None) -> Model:
        say = print if said is None else said.append
        return hub.fetch(
            spec,
            offline=offline,
            say=say,
            confirm=lambda _: True,
            endpoint=server.endpoint,
            cache_dir=tmp_path / "cache",
        )

    return call


Fetch = Callable[..., Model]


def test_the_only_gguf_is_fetched_with_its_facts(server: Hub, fetch: Fetch, tiny: Path) -> None:
    server.files = {"m.gguf": tiny.read_bytes(), "README.md": b"x"}
    model = fetch()
    assert (model.source, model.licence, model.name) == ("hub:org/name:m.gguf", "mit", "Tiny")
    assert model.path.read_bytes() == tiny.read_bytes()
    assert model.shape.layers == 4


def test_what_is_in_the_cache_is_not_fetched_again(server: Hub, fetch: Fetch, tiny: Path) -> None:
    server.files = {"m.gguf": tiny.read_bytes()}
    fetch()
    server.requests.clear()
    fetch()
    assert not any(c == "GET" and "resolve" in path for c, path, _ in server.requests)


def test_offline_uses_the_cache_and_asks_nobody(server: Hub, fetch: Fetch, tiny: Path) -> None:
    server.files = {"m.gguf": tiny.read_bytes()}
    with pytest.raises(ModelError, match="not in the hub's cache"):
        fetch(offline=True)
    first = fetch()
    server.requests.clear()
    for spec in (REPO, f"{REPO}:m.gguf"):
        assert fetch(spec, offline=True).path == first.path
    assert server.requests == []


def test_a_silent_hub_falls_back_to_the_cache_and_says_so(
    server: Hub, fetch: Fetch, tiny: Path
) -> None:
    server.files = {"m.gguf": tiny.read_bytes()}
    server.status = 503
    with pytest.raises(ModelError, match="did not answer for `org/name`") as error:
        fetch()
    assert "HF_ENDPOINT" in error.value.hint
    server.status = 200
    path = fetch().path
    server.status = 503
    said: list[str] = []
    assert fetch(said=said).path == path
    assert "using the copy" in said[-1]


def test_no_hub_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(ModelError, match="did not answer"):
        hub.fetch(
            REPO,
            offline=False,
            say=print,
            confirm=lambda _: True,
            endpoint="http://127.0.0.1:9",
            cache_dir=tmp_path,
        )


@pytest.mark.parametrize(
    ("status", "headers", "words", "hint"),
    [
        (401, {}, "HTTP 401", "HF_TOKEN"),
        (401, {"X-Error-Code": "RepoNotFound"}, "HTTP 401", "check the name"),
        (403, {}, "restricts the access", "terms"),
        (403, {"X-Error-Code": "GatedRepo"}, "restricts the access", "terms"),
        (404, {"X-Error-Code": "RepoNotFound"}, "has no `org/name`", "name"),
    ],
)
def test_a_refusal_comes_with_the_hint_that_fits(
    server: Hub, fetch: Fetch, status: int, headers: dict[str, str], words: str, hint: str
) -> None:
    server.status, server.headers = status, headers
    with pytest.raises(ModelError, match=words) as error:
        fetch()
    assert hint in error.value.hint


def test_a_name_that_is_no_id_is_told(fetch: Fetch) -> None:
    with pytest.raises(ModelError, match="is no hub id"):
        fetch("org/--name..x")


def test_the_token_of_the_environment_is_sent(
    server: Hub, fetch: Fetch, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "not-a-real-token")
    server.files = {"m.gguf": tiny.read_bytes()}
    fetch()
    assert "Bearer not-a-real-token" in server.tokens


def test_a_cut_download_goes_on_where_it_ended(
    server: Hub, fetch: Fetch, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 500)
    data = tiny.read_bytes()
    server.files, server.cuts = {"m.gguf": data}, [1000]
    assert fetch().path.read_bytes() == data
    assert "bytes=1000-" in [wanted for _, _, wanted in server.requests]


def test_half_a_download_never_counts_as_present(
    server: Hub, fetch: Fetch, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    data = tiny.read_bytes()
    server.files, server.cuts = {"m.gguf": data}, [1000] * 100
    with pytest.raises(ModelError, match=r"m\.gguf"):
        fetch()
    with pytest.raises(ModelError, match="not in the hub's cache"):
        fetch(offline=True)
    server.cuts = []
    assert fetch().path.read_bytes() == data


def test_a_file_that_is_not_what_the_hub_lists_is_refused(
    server: Hub, fetch: Fetch, tiny: Path
) -> None:
    server.files, server.wrong_hash = {"m.gguf": tiny.read_bytes()}, True
    with pytest.raises(ModelError, match="the hub says 1111111111111111"):
        fetch()


def test_a_split_model_is_fetched_whole(server: Hub, fetch: Fetch, tiny: Path) -> None:
    names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf"]
    server.files = {name: tiny.read_bytes() for name in names}
    model = fetch()
    assert [model.path.with_name(name).exists() for name in names] == [True, True]
    assert model.shape.file_bytes == 2 * tiny.stat().st_size


def _choose(names: list[str], wanted: str = "") -> tuple[list[str], list[str]]:
    said: list[str] = []
    files = [RemoteFile(name=n, bytes=1) for n in names]
    return [f.name for f in choose(files, wanted, where="o/n", say=said.append)], said


def test_of_many_types_the_preferred_one_is_taken_and_told() -> None:
    names = ["m-Q4_K_M.gguf", "m-q8_0.gguf", "m-F16.gguf", "mmproj-m-Q8_0.gguf"]
    assert _choose(names) == (["m-q8_0.gguf"], ["`o/n` holds 3 GGUF files; taking `m-q8_0.gguf`"])
    assert _choose(names[:1] + names[2:3])[0] == ["m-Q4_K_M.gguf"]
    assert _choose(names, "m-F16.gguf") == (["m-F16.gguf"], [])


@pytest.mark.parametrize(
    ("names", "wanted", "words"),
    [
        (["a.gguf", "b.gguf"], "", r"holds 2 GGUF files: a\.gguf, b\.gguf"),
        (["a.safetensors", "config.json"], "", "only safetensors"),
        (["README.md"], "", "only other files"),
        (["a.gguf"], "b.gguf", r"has no GGUF file `b\.gguf`"),
        (["README.md"], "README.md", r"has no GGUF file `README\.md`"),
        (["m-00001-of-00002.gguf"], "", r"has no GGUF file `m-00002-of-00002\.gguf`"),
    ],
)
def test_what_cannot_be_chosen_is_told(names: list[str], wanted: str, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        _choose(names, wanted)


def _modelscope(wanted: str, *, offline: bool = False, said: list[str] | None = None) -> Model:
    say = print if said is None else said.append
    return modelscope.fetch(wanted, offline=offline, say=say, confirm=lambda _: True)


def test_without_its_package_modelscope_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "modelscope", None)
    with pytest.raises(ModelError, match="needs the package") as error:
        _modelscope("org/name")
    assert "vivace[modelscope]" in error.value.hint


@pytest.fixture
def scope(monkeypatch: pytest.MonkeyPatch, tiny: Path) -> SimpleNamespace:
    """The parts of the `modelscope` package that are used."""
    calls = SimpleNamespace(downloads=[], error=None)

    class HubApi:
        def get_model_files(self, repo: str, *, recursive: bool) -> list[dict[str, object]]:
            if calls.error:
                raise calls.error
            return [{"Path": "m.gguf", "Size": 60_000_000}, {"Path": "README.md", "Size": 1}]

    def model_file_download(repo: str, name: str, *, local_files_only: bool) -> str:
        calls.downloads.append((repo, name, local_files_only))
        return str(tiny)

    package, hub_ = ModuleType("modelscope"), ModuleType("modelscope.hub")
    hub_.api = SimpleNamespace(HubApi=HubApi)  # type: ignore[attr-defined]
    hub_.file_download = SimpleNamespace(  # type: ignore[attr-defined]
        model_file_download=model_file_download
    )
    monkeypatch.setitem(sys.modules, "modelscope", package)
    monkeypatch.setitem(sys.modules, "modelscope.hub", hub_)
    return calls


def test_modelscope_s_package_fetches(scope: SimpleNamespace) -> None:
    said: list[str] = []
    model = _modelscope("org/name", said=said)
    assert model.source == "modelscope:org/name:m.gguf"
    assert scope.downloads == [("org/name", "m.gguf", False)]
    assert said == [
        "download: m.gguf, size: 60.0 MB, source: modelscope:org/name, licence: not stated"
    ]


def test_modelscope_offline_needs_the_file_s_name(scope: SimpleNamespace) -> None:
    with pytest.raises(ModelError, match="cannot be listed"):
        _modelscope("org/name", offline=True)
    _modelscope("org/name:m.gguf", offline=True)
    assert scope.downloads == [("org/name", "m.gguf", True)]


def test_modelscope_s_own_errors_are_wrapped(scope: SimpleNamespace) -> None:
    scope.error = LookupError("no such model")
    with pytest.raises(ModelError, match="could not give `org/name`: no such model"):
        _modelscope("org/name")
