"""A stub of llama.cpp's native endpoints: one token per character, a model worked out by hand."""

import json
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


@dataclass
class Stub:
    """What it answers can be changed by a test; `completions` are the bodies that it received."""

    url: str = ""
    completions: list[dict] = field(default_factory=list)
    tokenized: list[dict] = field(default_factory=list)
    #: Each path that was asked, with the content type of the body.
    asked: set[tuple[str, str | None]] = field(default_factory=set)
    status: int = 200
    obeys_bias: bool = True
    #: Characters whose token ends inside a UTF-8 character: no probabilities, as llama.cpp does.
    partial: str = ""
    broken: bool = False
    text: bytes | None = None
    begin: list[int] = field(default_factory=list)

    def answer(self, path: str, body: dict) -> dict:
        if path == "/tokenize":
            self.tokenized.append(body)
            begin = self.begin if body["add_special"] else []
            return {"tokens": begin + [ord(c) for c in body["content"]]}
        self.completions.append(body)
        taken = body["logit_bias"][0][0] if self.obeys_bias else ord("a")
        if chr(taken) in self.partial:
            return {"completion_probabilities": []}
        listed = [{"id": ord("a") + i, "logprob": math.log(0.5) * (i + 1)} for i in range(8)]
        wide = listed + [{"id": ord(c), "logprob": -7.5} for c in self.partial]
        known = {t["id"]: t["logprob"] for t in wide}
        position = {
            "id": taken,
            "logprob": None if self.broken else known.get(taken, -9.25),
            "top_logprobs": (wide if body["n_probs"] > 64 else listed)[::-1],
        }
        return {"completion_probabilities": [position]}


def _handler(stub: Stub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body go out apart; the body must not wait

        def do_POST(self) -> None:
            stub.asked.add((self.path, self.headers["Content-Type"]))
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            data = (
                stub.text
                if stub.text is not None
                else json.dumps(stub.answer(self.path, body)).encode()
            )
            self.send_response(stub.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.fixture
def stub() -> Iterator[Stub]:
    made = Stub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(made))
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()
