"""Write docs/reference from the code: `python tools/make_reference.py`; `--check` only compares.

What the code says of itself is said once, there; a test keeps these pages equal to it.
"""

import argparse
import ast
import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from vivace import core, errors
from vivace.levers import all_levers
from vivace.report import document

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
NOTE = "<!-- Made from the code by `python tools/make_reference.py`. Do not edit. -->\n\n"


def table(heads: list[str], rows: list[list[str]]) -> str:
    """A Markdown table; a bar inside a cell is escaped."""
    lines = [heads, ["---"] * len(heads), *rows]
    return (
        "\n".join("| " + " | ".join(c.replace("|", "\\|") for c in r) + " |" for r in lines) + "\n"
    )


def first_line(thing: object) -> str:
    return (inspect.getdoc(thing) or "").split("\n")[0]


def field_notes(kind: type) -> dict[str, str]:
    """Field -> the `#:` comment above it, which is where fields are explained."""
    lines = inspect.getsource(kind).splitlines()
    notes: dict[str, str] = {}
    note: list[str] = []
    for line in (text.strip() for text in lines):
        if line.startswith("#:"):
            note.append(line[2:].strip())
        elif ":" in line and line.split(":")[0].isidentifier():
            notes[line.split(":")[0]] = " ".join(note)
            note = []
        else:
            note = []
    return notes


def annotations(kind: type) -> Iterator[tuple[str, str, str]]:
    """Name, type and default of each field, as written in the source."""
    tree = ast.parse(inspect.getsource(kind)).body[0]
    for node in tree.body if isinstance(tree, ast.ClassDef) else []:
        if isinstance(node, ast.AnnAssign):
            default = ast.unparse(node.value) if node.value else ""
            yield ast.unparse(node.target), ast.unparse(node.annotation), default


def fields(kind: type) -> str:
    notes = field_notes(kind)
    rows = [[f"`{n}`", f"`{t}`", f"`{d}`" if d else "", notes[n]] for n, t, d in annotations(kind)]
    return table(["field", "type", "default", "meaning"], rows)


def configuration() -> str:
    text = "# Serving configuration\n\nThe settings that levers change and engines translate; "
    text += "`config` in `tuned.yaml`. `None` leaves the engine's stock setting.\n\n"
    text += fields(core.ServingConfig)
    return (
        text
        + f"\n## `speculation`\n\n{first_line(core.Speculation)}\n\n"
        + fields(core.Speculation)
    )


def levers() -> str:
    abouts = [
        (lever.about, first_line(sys.modules[type(lever).__module__])) for lever in all_levers()
    ]
    text = "# Levers\n\nIn the order in which a study tries them.\n\n"
    text += table(
        ["lever", "effort", "what it is"], [[f"`{a.name}`", a.effort, w] for a, w in abouts]
    )
    for about, words in abouts:
        quality = "yes, so its quality is measured" if about.changes_answers else "no"
        needs = ", ".join(f"`{n}`" for n in sorted(about.needs))
        attacks = ", ".join(f"`{m}`" for m in about.attacks)
        text += f"\n## `{about.name}`\n\n{words}\n\n- attacks: {attacks}\n- cost: {about.cost}\n"
        text += f"- risk: {about.risk}\n- changes answers: {quality}\n- sets: {needs}\n"
    return text


def error_pages() -> str:
    kinds = [
        v
        for v in vars(errors).values()
        if isinstance(v, type) and issubclass(v, errors.VivaceError)
    ]
    rows = [[f"`{k.__name__}`", str(k.exit_code), first_line(k)] for k in kinds]
    text = "# Errors and exit codes\n\n"
    codes = [
        ["0", "done"],
        [
            "1",
            "the work ran and the answer is no: a constraint that nothing met, a proven regression",
        ],
        ["2", "wrong usage or bad input; a message and a `hint:`"],
        ["3", "the engine or the endpoint failed"],
        ["130", "interrupted; what was measured is kept"],
    ]
    text += table(["exit code", "meaning"], codes) + "\n## Errors\n\n"
    text += table(["error", "exit code", "when"], rows) + "\n## How a trial can end\n\n"
    return text + ", ".join(f"`{s}`" for s in core.TrialStatus.__args__) + "\n"


def spec_rows(spec: Any, path: str, *, required: bool = True) -> Iterator[list[str]]:
    """Every key below a part of the schema, by its path; `[]` is any element, `*` any key."""
    if path:
        word = " or ".join(f"`{v}`" for v in spec.one_of) or spec.word
        null = spec.nullable and "null" not in word
        row = spec.keys is vars(document)["_ROW_KEYS"] and path != "Row"
        word = "a Row (below)" if row else word
        yield [f"`{path}`", word + (" or null" if null else ""), "yes" if required else "no"]
        if row:
            return
    for keys, needed in ((spec.keys, required), (spec.optional, False)):
        for name, below in (keys or {}).items():
            yield from spec_rows(below, f"{path}.{name}".lstrip("."), required=needed)
    if spec.each is not None:
        yield from spec_rows(
            spec.each, path + ("[]" if list in spec.kind else ".*"), required=required
        )


def json_keys() -> str:
    text = f"# `{document.SCHEMA}`\n\n`report.json` of a study. Milliseconds, bytes, rates per second. "
    text += "`*` stands for any key, `[]` for any element. Keys may be added, none is renamed.\n\n"
    rows = list(spec_rows(vars(document)["_STUDY"], ""))
    row = [r for r in spec_rows(vars(document)["_ROW"], "Row") if r[0] != "`Row`"]
    heads = ["key", "value", "always there"]
    return text + table(heads, rows) + "\n## Row\n\n" + table(heads, row)


def cli() -> str | None:
    """The help of each verb, once `vivace.cli.main.build_parser()` exists."""
    try:
        parser: argparse.ArgumentParser = importlib.import_module("vivace.cli.main").build_parser()
    except (ModuleNotFoundError, AttributeError):
        return None
    text = f"# Command line\n\n{parser.description or ''}\n"
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    for group in groups:
        helps = {a.dest: a.help for a in group._choices_actions}
        for verb, sub in group.choices.items():
            rows = [option(action) for action in sub._actions if action.help != argparse.SUPPRESS]
            text += f"\n## `vivace {verb}`\n\n{sub.description or helps.get(verb) or ''}\n\n"
            text += table(["option", "default", "meaning"], rows)
    return text


def option(action: argparse.Action) -> list[str]:
    """One row: the option and what it takes, its default, its help."""
    takes = "|".join(map(str, action.choices or ())) or str(action.metavar or "")
    if action.option_strings:
        name = " ".join((", ".join(action.option_strings), takes)).strip()
    else:
        name = takes or action.dest
    # By identity: 0 is a default worth showing.
    hidden = any(action.default is none for none in (None, False, "", argparse.SUPPRESS))
    # The default has a column of its own.
    words = (action.help or "").replace(" [%(default)s]", "").replace("%%", "%")
    return [f"`{name}`", "" if hidden else f"`{action.default}`", words]


PAGES: dict[str, Callable[[], str | None]] = {
    "configuration.md": configuration,
    "levers.md": levers,
    "errors.md": error_pages,
    "study-json.md": json_keys,
    "cli.md": cli,
}


def pages() -> dict[str, str]:
    """File name -> its text, for everything that can be generated now."""
    made = {name: make() for name, make in PAGES.items()}
    return {name: NOTE + text for name, text in made.items() if text is not None}


def stale() -> list[str]:
    """The pages that differ from the code, or that nothing makes any more."""
    kept = {p.name: p.read_text(encoding="utf-8") for p in FOLDER.glob("*.md")}
    made = pages()
    return sorted(n for n in kept.keys() | made.keys() if kept.get(n) != made.get(n))


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 1 if stale() else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
