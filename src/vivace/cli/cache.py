"""`vivace cache list|clean`: models kept on disk."""

import argparse

from rich.console import Console
from rich.table import Table

from vivace.cli.output import print_json, teller
from vivace.cli.units import duration_s
from vivace.models.cache import clean_cache, list_cache
from vivace.models.home import vivace_home

DAY_S = 86_400.0


HELP = "list or clean the models kept on disk"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The action and its options."""
    parser.add_argument("action", choices=("list", "clean"))
    parser.add_argument(
        "--older-than", metavar="DURATION", help="clean only what was not used for, e.g. `720h`"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """List or clean."""
    home = vivace_home()
    if arguments.action == "clean":
        age = duration_s(arguments.older_than) / DAY_S if arguments.older_than else None
        freed = clean_cache(home, older_than_days=age)
        if arguments.json:
            print_json({"schema": "vivace.cache/1", "home": str(home), "freed_bytes": freed})
        else:
            teller()(f"freed {freed / 1e6:,.1f} MB in {home}")
        return 0
    entries = list_cache(home)
    if arguments.json:
        rows = [
            {"kind": e.kind, "name": e.name, "path": str(e.path), "bytes": e.bytes} for e in entries
        ]
        print_json({"schema": "vivace.cache/1", "home": str(home), "entries": rows})
        return 0
    table = Table("kind", "name", "MB", title=f"kept in {home}", title_justify="left")
    for entry in entries:
        table.add_row(entry.kind, entry.name, f"{entry.bytes / 1e6:,.1f}")
    Console().print(table if entries else f"nothing is kept in {home}")
    return 0
