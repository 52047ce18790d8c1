"""An engine's own error lines out of its log, without the noise around them."""

import re

_MAX_LINES = 8
#: llama.cpp begins a line with the time since its start and a level: `0.00.032.141 E llama_model_load: ...`
_STAMP = re.compile(r"^(?:[\d.]+ )?(?P<level>[EWID]) (?P<text>.*)$")
_ERROR = re.compile(
    r"error|fail|cannot|abort|assert|terminate called|exception|killed|bad_alloc|not found|unknown",
    re.IGNORECASE,
)
_MEMORY = re.compile(
    r"failed to allocate|bad_alloc|insufficient memory|out of memory|cannot allocate memory"
    r"|failed to allocate buffer|MemoryError",
    re.IGNORECASE,
)
#: Lines that only repeat that something went wrong.
_ECHO = re.compile(
    r"common_fit_params|exiting due to|cleaning up before exit|failed to load model"
    r"|Failed to init server|^Traceback"
)


def last_words(log: str) -> str:
    """At most eight distinct error lines, the cause first; the last lines where none is marked."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = list(dict.fromkeys(text for text in map(_error_text, lines) if text))
    causes = [text for text in errors if not _ECHO.search(text)]
    chosen = causes or errors or lines[-3:]
    return "\n".join(chosen[:_MAX_LINES])


def lost_to_memory(words: str) -> bool:
    """Whether the words say that memory could not be had."""
    return _MEMORY.search(words) is not None


def _error_text(line: str) -> str | None:
    stamped = _STAMP.match(line)
    if stamped:
        return stamped["text"] if stamped["level"] == "E" else None
    return line if _ERROR.search(line) else None
