"""Stands in for the `llama-server` program: the scripted engine, as fast as it is told.

The flags that matter set its script; `CRASH_AFTER` in its folder lets it die after so many requests.
"""

import signal
import sys
import threading
from pathlib import Path

from vivace.testing import Script, ScriptedServer

ARGS = sys.argv[1:]


def option(name: str, default: str) -> str:
    return ARGS[ARGS.index(name) + 1] if name in ARGS else default


crash = Path(sys.argv[0]).with_name("CRASH_AFTER")
slots = int(option("--parallel", "4"))
file = Path(option("--model", "")).name
script = Script(
    slots=slots,
    prefix_cache="--no-cache-prompt" not in ARGS,
    decode_tps=45.0 if file.startswith("F16") else 60.0,
    prefill_tps=900.0,
    context_tokens=int(option("--ctx-size", "32768")) // slots,
    dies_after=int(crash.read_text()) if crash.exists() else None,
)
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with ScriptedServer(script, time_scale=0.01, port=int(option("--port", "0"))) as server:
    sys.stdout.write(f"main: server is listening on {server.url}\n")
    sys.stdout.flush()
    while not stop.wait(0.05) and not server.died.is_set():
        pass
    if server.died.is_set():
        sys.stderr.write("scripted failure\n")
        sys.exit(1)
