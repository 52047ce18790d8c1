"""`python -m vivace` is the command `vivace`."""

import sys

from vivace.cli.main import main

sys.exit(main())
