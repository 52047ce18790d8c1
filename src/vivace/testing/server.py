"""The scripted engine in a process of its own.

`python -m vivace.testing.server --script '{"slots": 4}'` prints `READY http://127.0.0.1:PORT` and
serves until its stdin ends.
"""

import argparse
import json
import os
import signal
import sys
import threading

import msgspec

from vivace.testing.script import Quirks, Script
from vivace.testing.serving import ScriptedServer

__all__ = ["ScriptedServer", "main"]


def main(arguments: list[str] | None = None) -> int:
    """Serves until stdin ends, or dies as the script says."""
    parser = argparse.ArgumentParser(prog="python -m vivace.testing.server")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--script", default="{}", help="fields of `Script` as JSON")
    parser.add_argument("--quirks", default="{}", help="fields of `Quirks` as JSON")
    parser.add_argument("--time-scale", type=float, default=1.0)
    options = parser.parse_args(arguments)
    script = msgspec.convert(json.loads(options.script), Script)
    quirks = msgspec.convert(json.loads(options.quirks), Quirks)
    server = ScriptedServer(script, quirks=quirks, time_scale=options.time_scale, port=options.port)
    with server:
        watcher = threading.Thread(target=_follow_into_death, args=(server, script), daemon=True)
        watcher.start()
        sys.stdout.write(f"READY {server.url}\n")
        sys.stdout.flush()
        sys.stdin.read()
    return 0


def _follow_into_death(server: ScriptedServer, script: Script) -> None:
    """The process ends as an engine would: by the kernel's kill, or with its last words."""
    server.died.wait()
    sys.stderr.write(f"{script.last_words}\n")
    sys.stderr.flush()
    if script.death == "oom":
        os.kill(os.getpid(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
