"""What goes where: results to stdout, progress to stderr."""

import sys
import time
from collections.abc import Callable, Mapping

import msgspec
from rich.console import Console


def teller(quiet: bool = False) -> Callable[[str], None]:
    """Progress lines on stderr, each with the time since the start."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    begin = time.perf_counter()

    def say(text: str) -> None:
        if not quiet:
            minutes, seconds = divmod(int(time.perf_counter() - begin), 60)
            console.print(f"[dim]{minutes:2d}:{seconds:02d}[/dim]  ", end="")
            console.print(text, markup=False)

    return say


def asker(assume_yes: bool) -> Callable[[str], bool]:
    """Ask on the terminal; without one, or with `--yes`, the answer is yes."""

    def confirm(question: str) -> bool:
        if assume_yes or not sys.stdin.isatty():
            return True
        print(f"{question} [Y/n] ", end="", file=sys.stderr, flush=True)  # noqa: T201
        return sys.stdin.readline().strip().lower() in ("", "y", "yes")

    return confirm


def print_json(document: Mapping[str, object]) -> None:
    """Exactly one JSON object on stdout."""
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
