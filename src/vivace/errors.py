"""One exception tree. Every message says what, where and which value; `hint` says what to do.

VivaceError
├── ConfigError          bad option, file or value given by the user       exit 2
│   └── ModelError       a model that cannot be found, read or made        exit 2
├── EngineError          the engine or endpoint failed                     exit 3
│   ├── EngineStartError     it did not come up: `outcome` says how
│   └── EngineRequestError   it answered a request with an error
└── StudyError           the study's folder cannot be read or written      exit 2
"""

from typing import Literal

Outcome = Literal["crashed", "oom", "infeasible", "timeout", "interrupted"]


class VivaceError(Exception):
    """Base of all errors that are told to a person without a traceback."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ConfigError(VivaceError):
    """An option, a file or a value that was given is wrong."""


class ModelError(ConfigError):
    """A model cannot be found, read, fetched or made."""


class StudyError(VivaceError):
    """The study's folder cannot be read or written."""


class EngineError(VivaceError):
    """The engine or the endpoint failed."""

    exit_code = 3


class EngineStartError(EngineError):
    """The engine did not become ready; `outcome` names how and `last_words` is the end of its log."""

    def __init__(
        self, message: str, *, outcome: Outcome, last_words: str = "", hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.outcome: Outcome = outcome
        self.last_words = last_words


class EngineRequestError(EngineError):
    """The engine answered a request with an error status."""

    def __init__(self, message: str, *, status: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.status = status
