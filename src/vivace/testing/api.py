"""The HTTP face of the scripted engine: one thread per connection, stdlib only."""

import json
import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Protocol, TypeVar
from urllib.parse import parse_qs, urlsplit

import msgspec

from vivace.testing import bodies, wire
from vivace.testing.job import Job
from vivace.testing.realtime import LiveModel, Ticket
from vivace.testing.script import Quirks
from vivace.testing.stream import Broken, StreamWriter
from vivace.testing.text import (
    Prompt,
    answer_words,
    chat_prompt,
    count,
    detokenize,
    render,
    tokenize,
)

#: How often a waiting request looks whether its client is still there.
PEEK_S = 0.05
_Body = TypeVar("_Body", bound=msgspec.Struct)


class Face(Protocol):
    """What the handler needs of its server."""

    live: LiveModel
    quirks: Quirks
    #: Token number -> token, for every token that was ever named to a client.
    known: dict[int, str]
    #: Saved slots by file name.
    saved: dict[str, Prompt]

    def count_request(self) -> int:
        """The number of this generation request, from 1."""
        ...


class Refused(Exception):
    """The request gets an error object instead."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Routes, and the words of the answers. `face` is set by the server on a subclass."""

    face: Face
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Status pages."""
        live = self.face.live
        path = urlsplit(self.path).path
        with live.lock:
            model = live.model
            pages: dict[str, Callable[[], object]] = {
                "/health": lambda: {"status": "ok"},
                "/v1/models": lambda: {"object": "list", "data": [{"id": "scripted"}]},
                "/metrics": lambda: wire.metrics(model),
                "/slots": lambda: wire.slots(model),
                "/props": lambda: wire.props(model.script),
            }
            page = pages[path]() if path in pages else None
        if page is None:
            self._send(404, wire.error(404, "File Not Found"))
        else:
            self._send(200, page)

    def do_POST(self) -> None:
        """Everything that carries a body."""
        path = urlsplit(self.path).path
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        routes: dict[str, Callable[[bytes], None]] = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._text,
            "/completion": self._native,
            "/tokenize": self._tokenize,
            "/detokenize": self._detokenize,
            "/apply-template": self._template,
        }
        try:
            if path.startswith("/slots/"):
                self._slot(path.removeprefix("/slots/"), raw)
            elif path in routes:
                routes[path](raw)
            else:
                raise Refused(404, "File Not Found")
        except Refused as refused:
            self._send(refused.status, wire.error(refused.status, str(refused)))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keeps stderr for real trouble."""

    # -- answers

    def _chat(self, raw: bytes) -> None:
        body = _decode(raw, bodies.ChatBody)
        self._generate(body, chat_prompt([m.turn() for m in body.messages]), chat=True)

    def _text(self, raw: bytes) -> None:
        body = _decode(raw, bodies.TextBody)
        self._generate(body, self._prompt(body.prompt), chat=False)

    def _native(self, raw: bytes) -> None:
        """llama.cpp's own `/completion`, in one piece; `logit_bias` names the token to take."""
        body = _decode(raw, bodies.TextBody)
        prompt = self._prompt(body.prompt)
        ticket = self._submit(body, prompt)
        for _ in self._progress(ticket):
            pass
        job, script = self._ended(ticket), self.face.live.model.script
        answer: wire.Json = {
            "content": detokenize(job.words),
            "id_slot": job.slot,
            "stop": True,
            "tokens_predicted": job.written,
            "tokens_evaluated": job.prompt_tokens,
            "timings": wire.timings(job, script),
        }
        if body.n_probs and job.words:
            forced = self._words([i for i, bias in body.logit_bias if bias > 0])
            context = [token for segment in prompt for token in segment]
            token = forced[0] if forced else job.words[0]
            listed = wire.probabilities(context, token, body.n_probs, script)
            answer["completion_probabilities"] = [listed]
        self._send(200, answer)

    def _tokenize(self, raw: bytes) -> None:
        tokens = tokenize(_decode(raw, bodies.TokenizeBody).content)
        ids = [wire.token_id(t) for t in tokens]
        self.face.known.update(zip(ids, tokens, strict=True))
        self._send(200, {"tokens": ids})

    def _detokenize(self, raw: bytes) -> None:
        words = self._words(_decode(raw, bodies.DetokenizeBody).tokens)
        self._send(200, {"content": detokenize(words)})

    def _template(self, raw: bytes) -> None:
        messages = _decode(raw, bodies.TemplateBody).messages
        self._send(200, {"prompt": render([m.turn() for m in messages])})

    def _slot(self, name: str, raw: bytes) -> None:
        live, saved = self.face.live, self.face.saved
        action = parse_qs(urlsplit(self.path).query).get("action", [""])[0]
        filename = _decode(raw or b"{}", bodies.SlotBody).filename
        if not name.isdecimal() or int(name) >= live.model.script.slots:
            raise Refused(400, "Invalid slot ID")
        slot = int(name)
        answer: wire.Json = {"id_slot": slot}
        with live.lock:
            held = live.model.held(slot)
            if action == "save" and filename:
                saved[filename] = held
                answer |= {"filename": filename, "n_saved": count(held)}
            elif action == "restore" and filename in saved:
                live.model.hold(slot, saved[filename])
                answer |= {"filename": filename, "n_restored": count(saved[filename])}
            elif action == "erase":
                live.model.hold(slot, ())
                answer["n_erased"] = count(held)
            else:
                raise Refused(400, "Invalid action or slot save file")
        self._send(200, answer)

    # -- generation

    def _submit(self, body: bodies.Generate, prompt: Prompt) -> Ticket:
        quirks = self.face.quirks
        number = self.face.count_request()
        if quirks.reject_every and number % quirks.reject_every == 0:
            raise Refused(429, "too many requests")
        slots = self.face.live.model.script.slots
        if body.slot is not None and body.slot >= slots:
            raise Refused(400, f"id_slot must be below {slots}, got {body.slot}")
        ticket = self.face.live.submit(prompt, body.limit, body.slot)
        job = ticket.job
        if job.http_status is not None:
            raise Refused(job.http_status, job.error or "")
        return ticket

    def _generate(self, body: bodies.Generate, prompt: Prompt, *, chat: bool) -> None:
        ticket = self._submit(body, prompt)
        if body.stream:
            self._stream(body, ticket, chat=chat)
            self.close_connection |= self.face.quirks.close_after_stream
            return
        for _ in self._progress(ticket):
            pass
        job = self._ended(ticket)
        text, finish = detokenize(job.words), job.finish_reason
        answer = wire.envelope(job, body.model, chat=chat, chunk=False)
        answer["choices"] = [wire.whole_choice(text, chat=chat, finish=finish)]
        self._send(200, answer | self._totals(ticket))

    def _stream(self, body: bodies.Generate, ticket: Ticket, *, chat: bool) -> None:
        job, quirks, script = ticket.job, self.face.quirks, self.face.live.model.script
        words = answer_words(script.seed, job.prompt, job.answer_tokens)
        writer = StreamWriter(
            self.wfile.write, job, words, model=body.model, chat=chat, quirks=quirks
        )
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for written in self._progress(ticket):
                writer.grow(written)
        except Broken as broken:
            self.face.live.cancel(ticket)
            if broken.cut:
                raise ConnectionResetError("scripted cut") from broken
            writer.fail()
            return
        except OSError:
            self.face.live.cancel(ticket)
            raise
        self._ended(ticket)
        writer.finish(self._totals(ticket), with_usage=body.wants_usage)

    def _progress(self, ticket: Ticket) -> Iterator[int]:
        """Tokens written, whenever that grows; ends with the job. A client that left cancels it."""
        while True:
            news = ticket.wait(PEEK_S)
            if news is not None:
                yield news.written
                if news.last:
                    return
            elif self._client_left():
                self.face.live.cancel(ticket)
                raise ConnectionResetError("the client left")

    def _ended(self, ticket: Ticket) -> Job:
        """The job when it ended well; without an engine there is no answer, only a cut."""
        if ticket.job.state != "ok":
            raise ConnectionResetError("the engine died")
        return ticket.job

    def _totals(self, ticket: Ticket) -> wire.Json:
        quirks, script = self.face.quirks, self.face.live.model.script
        totals: wire.Json = {"usage": wire.usage(ticket.job, quirks)}
        if quirks.timings:
            totals["timings"] = wire.timings(ticket.job, script)
        return totals

    def _prompt(self, prompt: str | list[int]) -> Prompt:
        return (tokenize(prompt) if isinstance(prompt, str) else tuple(self._words(prompt)),)

    def _words(self, ids: list[int]) -> list[str]:
        return [self.face.known.get(i, f"<{i}>") for i in ids]

    # -- bytes

    def _send(self, status: int, body: object) -> None:
        text = isinstance(body, str)
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header(
            "content-type", "text/plain; version=0.0.4" if text else "application/json"
        )
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _client_left(self) -> bool:
        try:
            return self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def _decode(raw: bytes, kind: type[_Body]) -> _Body:
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.MsgspecError as error:
        raise Refused(400, str(error)) from error
