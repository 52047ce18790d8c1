"""Where vivace keeps what it fetched and made."""

import os
import sys
import tempfile
from pathlib import Path

from vivace.errors import ConfigError


def vivace_home() -> Path:
    """The folder of models and caches, made when absent.

    `VIVACE_HOME`, else the platform's place for data. Raises `ConfigError` when it cannot be written.
    """
    chosen = os.environ.get("VIVACE_HOME")
    home = Path(chosen).expanduser().absolute() if chosen else _platform_folder() / "vivace"
    hint = "set `VIVACE_HOME` to a folder you can write to"
    try:
        home.mkdir(parents=True, exist_ok=True)
        # Asking for permission bits is not enough: read-only mounts and quotas answer differently.
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"cannot write to `{home}`: {reason}", hint=hint) from error
    return home


def _platform_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    chosen = os.environ.get("XDG_DATA_HOME")
    return Path(chosen) if chosen else Path.home() / ".local" / "share"
