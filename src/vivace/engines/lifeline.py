"""What runs inside an engine's process so that it never outlives the process that started it.

The parent holds the other end of stdin. When the parent ends, by whatever means, that pipe closes.
On Linux the kernel then sends SIGIO, whose default action ends the process: this needs no thread,
works while native code holds the interpreter, and survives `exec`. Elsewhere a process watches.

`python -m vivace.engines.lifeline COMMAND...` runs any program that way.
"""

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence

_STDIN = 0
_PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
#: Set by a parent whose starting thread lives as long as itself; see `tie_to_parent`.
MAIN_THREAD = "VIVACE_STARTED_BY_MAIN_THREAD"


def tie_to_parent() -> None:
    """End this process when its parent is gone.

    The parent-death signal counts the *thread* that started us as the parent, so it is used only
    when that was the parent's main thread.
    """
    if sys.platform != "linux":
        threading.Thread(target=_end_at_eof, name="lifeline", daemon=True).start()
        return
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(_STDIN, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(_STDIN, fcntl.F_SETFL, fcntl.fcntl(_STDIN, fcntl.F_GETFL) | os.O_ASYNC)
    if os.environ.get(MAIN_THREAD):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the signals were asked for.
    poll = select.poll()
    poll.register(_STDIN, select.POLLHUP)
    if poll.poll(0):
        os._exit(1)


def wait_for_end() -> None:
    """Block until the parent closes stdin."""
    while os.read(_STDIN, 4096):
        pass


def supervise(command: Sequence[str]) -> int:
    """Run `command` until it ends or stdin closes; its exit code. For systems without SIGIO at EOF."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as child:

        def end_child() -> None:
            wait_for_end()
            with contextlib.suppress(ProcessLookupError):
                child.kill()

        threading.Thread(target=end_child, name="lifeline", daemon=True).start()
        code = child.wait()
    return code if code >= 0 else 128 - code


def main(command: Sequence[str]) -> int:
    """Become `command` on Linux, watch over it elsewhere."""
    if sys.platform != "linux":
        return supervise(command)
    tie_to_parent()
    os.execv(command[0], list(command))


def _end_at_eof() -> None:
    wait_for_end()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
