"""The command line: one file per verb; errors become one message, a hint and an exit code."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from vivace import __version__
from vivace.cli import cache, tune
from vivace.errors import StudyError, VivaceError
from vivace.hardware import require_platform

INTERRUPTED = 130
VERBS = {"tune": tune, "cache": cache}


def build_parser() -> argparse.ArgumentParser:
    """The parser of every verb; the reference in `docs/` is generated from it."""
    parser = argparse.ArgumentParser(
        prog="vivace",
        description="Makes a self-hosted language model answer fast, and proves it.",
        epilog="exit codes: 0 done, 1 the answer is no, 2 wrong usage, 3 the engine failed, 130 interrupted",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"vivace {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, verb in VERBS.items():
        verb.add_options(verbs.add_parser(name, help=verb.HELP, allow_abbrev=False))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code is the one of `docs/reference`."""
    arguments = build_parser().parse_args(argv)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        require_platform()
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except VivaceError as error:
        return _tell(error)
    except BrokenPipeError:
        # Whoever read our output has left; a second error while Python flushes would be noise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f" `{error.filename}`" if error.filename else ""
        hint = "free space and permissions there, then the same command goes on"
        return _tell(StudyError(f"the system refused{where}: {error.strerror or error}", hint=hint))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)  # noqa: T201
        return INTERRUPTED


def _tell(error: VivaceError) -> int:
    print(f"error: {error}", file=sys.stderr)  # noqa: T201
    if error.hint:
        print(f"hint: {error.hint}", file=sys.stderr)  # noqa: T201
    return error.exit_code


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
