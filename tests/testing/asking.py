"""Short ways to start a scripted engine and to ask it something."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from vivace.core import Message, Record, Request, ServingConfig
from vivace.testing import NO_FILES, Clock, Script, VirtualDriver, VirtualEngine, VirtualRunning

CONFIG = ServingConfig(engine="scripted")
FILES = NO_FILES


def words(count: int, stem: str) -> str:
    """`count` words that no other stem has."""
    return " ".join(f"{stem}{i}" for i in range(count))


def request(
    prompt_tokens: int, name: str, *, shared: int = 0, max_tokens: int = 11, stem: str = "shared"
) -> Request:
    """A prompt of exactly so many tokens, of which the first `shared` are the same everywhere.

    A tag opens each message and one the answer: without a system message 2 tokens are tags.
    """
    if not shared:
        messages = (Message(role="user", content=words(prompt_tokens - 2, name)),)
    else:
        # system tag + words, then the user's tag, which is the last that all have
        system = Message(role="system", content=words(shared - 2, stem))
        user = Message(role="user", content=words(prompt_tokens - shared - 1, name))
        messages = (system, user)
    return Request(id=name, messages=messages, max_tokens=max_tokens)


class Bench:
    """One clock, one engine that follows one script, one driver."""

    def __init__(self, script: Script, *, tokens_per_piece: int = 1) -> None:
        self.clock = Clock()
        self.engine = VirtualEngine(lambda _: script, clock=self.clock)
        self.driver = VirtualDriver(self.clock, [self.engine], tokens_per_piece=tokens_per_piece)
        self.running: VirtualRunning = self.start()

    def start(
        self, config: ServingConfig = CONFIG, prefixes: Sequence[Sequence[Message]] = ()
    ) -> VirtualRunning:
        self.running = self.engine.start(FILES, config, workdir=Path(), prefixes=prefixes)
        return self.running

    def ask(self, *requests: Request, concurrency: int = 1, stall_s: float = 60.0) -> list[Record]:
        return self.driver.closed_loop(
            self.running.url, iter(requests), concurrency=concurrency, stall_s=stall_s
        )


def stream(prompt_tokens: int, *, shared: int = 0, max_tokens: int = 11) -> Iterator[Request]:
    """Different requests without end."""
    number = 0
    while True:
        yield request(prompt_tokens, f"q{number}x", shared=shared, max_tokens=max_tokens)
        number += 1
