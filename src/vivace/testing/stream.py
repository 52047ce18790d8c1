"""The words of one streamed answer: server-sent events in HTTP chunks, with the scripted quirks."""

import json
from collections.abc import Callable

from vivace.testing import wire
from vivace.testing.job import Job
from vivace.testing.script import Quirks
from vivace.testing.text import Segment, detokenize


class Broken(Exception):
    """The quirks end the stream here; `cut` says that nothing polite follows."""

    def __init__(self, *, cut: bool) -> None:
        super().__init__("scripted end of the stream")
        self.cut = cut


class StreamWriter:
    """Turns the growth of an answer into bytes. `words` is the whole answer beforehand."""

    def __init__(
        self,
        write: Callable[[bytes], object],
        job: Job,
        words: Segment,
        *,
        model: str,
        chat: bool,
        quirks: Quirks,
    ) -> None:
        self._write = write
        self._job = job
        self._words = words
        self._chat = chat
        self._quirks = quirks
        self._head = wire.envelope(job, model, chat=chat, chunk=True)
        self._sent = self._chunks = 0

    def grow(self, written: int) -> None:
        """Sends the chunks that are full now; raises `Broken` where the quirks say so."""
        quirks = self._quirks
        while self._sent < written:
            if self._chunks in (quirks.cut_after, quirks.error_after):
                raise Broken(cut=self._chunks == quirks.cut_after)
            left = len(self._words) - self._sent
            size = min(quirks.tokens_per_chunk, left)
            thinking = quirks.reasoning_tokens - self._sent
            if thinking > 0:
                size = min(size, thinking)
            if self._sent + size > written:
                return
            if self._chat and not self._sent and quirks.role_chunk:
                self._role()
            self._chunk(size, "reasoning_content" if thinking > 0 else "content")

    def finish(self, totals: wire.Json, *, with_usage: bool) -> None:
        """The finish reason, usage and timings where llama.cpp puts them, and the end."""
        choice = wire.chunk_choice("", chat=self._chat, finish=self._job.finish_reason)
        if not with_usage and self._chat:
            totals = {k: v for k, v in totals.items() if k != "usage"}
        if with_usage and self._chat:
            self._choices(choice)
            self.event(self._head | {"choices": ()} | totals)
        else:
            self.event(self._head | {"choices": (choice,)} | totals)
        self.end()

    def fail(self) -> None:
        """An error object in the stream, and the end."""
        self.event(wire.error(500, "scripted error"))
        self.end()

    def end(self) -> None:
        """`[DONE]` and the chunk that ends the response."""
        if self._quirks.done:
            self._data("[DONE]")
        self._write(b"0\r\n\r\n")

    def event(self, body: wire.Json) -> None:
        """One JSON event."""
        self._data(json.dumps(body, ensure_ascii=False))

    def _role(self) -> None:
        delta: wire.Json = {"role": "assistant", "content": None}
        self._choices({"index": 0, "delta": delta, "finish_reason": None})

    def _chunk(self, size: int, key: str) -> None:
        text = " " * bool(self._sent) + detokenize(self._words[self._sent : self._sent + size])
        for part in (*("",) * self._quirks.empty_chunks, text):
            self._choices(wire.chunk_choice(part, chat=self._chat, key=key))
        self._sent += size
        self._chunks += 1

    def _choices(self, choice: wire.Json) -> None:
        self.event(self._head | {"choices": (choice,)})

    def _data(self, text: str) -> None:
        quirks = self._quirks
        end = "\r\n\r\n" if quirks.crlf else "\n\n"
        data = f"data:{' ' if quirks.space else ''}{text}{end}".encode()
        self._write(b"%x\r\n%b\r\n" % (len(data), data))
