"""The process that is the engine: llama.cpp's server out of the `xllamacpp` wheel.

`python -m vivace.engines.llamacpp_child '{"model.path": ..., "port": 0}'`
Says `listening on URL` on stdout when it answers and ends when its parent closes stdin.
"""

import importlib
import json
import sys
from typing import Any

from vivace.engines.lifeline import tie_to_parent, wait_for_end
from vivace.engines.llamacpp_args import STOCK_SLOTS


def value_for(xllamacpp: Any, name: str, value: str | int | bool) -> object:
    """The value as `CommonParams` wants it: its enumerations instead of words."""
    if name == "flash_attn_type":
        word = "ENABLED" if value == "on" else "DISABLED"
        return getattr(xllamacpp.llama_flash_attn_type, f"LLAMA_FLASH_ATTN_TYPE_{word}")
    if name in ("cache_type_k", "cache_type_v"):
        return getattr(xllamacpp.ggml_type, f"GGML_TYPE_{str(value).upper()}")
    if name == "speculative.types":
        word = str(value).upper().replace("-", "_")
        kinds = xllamacpp.common_speculative_type
        return [getattr(kinds, f"COMMON_SPECULATIVE_TYPE_{word}")]
    return value


def parameters(xllamacpp: Any, settings: dict[str, str | int | bool]) -> Any:
    """`CommonParams` as the server command has them, with `settings` on top."""
    params = xllamacpp.CommonParams()
    # The command turns "auto" into these; the bare parameters say one slot.
    params.n_parallel = STOCK_SLOTS
    params.kv_unified = True
    params.hostnames = ["127.0.0.1"]
    for name, value in settings.items():
        *owners, last = name.split(".")
        target = params
        for owner in owners:
            target = getattr(target, owner)
        setattr(target, last, value_for(xllamacpp, name, value))
    return params


def main(settings: dict[str, str | int | bool]) -> None:
    """Serve until stdin closes; exits with the engine's error where it does not come up."""
    tie_to_parent()
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")
    except ImportError as error:
        sys.exit(f"error: the wheel `xllamacpp` cannot be imported: {error}")
    try:
        server = xllamacpp.Server(parameters(xllamacpp, settings))
    except (RuntimeError, AttributeError, MemoryError) as error:
        sys.exit(f"error: {type(error).__name__}: {error}")
    sys.stdout.write(f"listening on {server.listening_address}\n")
    sys.stdout.flush()
    wait_for_end()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
