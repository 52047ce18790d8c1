"""The command `vivace` with steady windows of a moment instead of 20 s."""

import signal
import sys
from functools import partial

from vivace.cli import tune
from vivace.cli.main import main

# A test run in the background of a shell ignores interrupts, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
tune.Request = partial(tune.Request, window_s=0.3)  # type: ignore[assignment,misc]
sys.exit(main(sys.argv[1:]))
