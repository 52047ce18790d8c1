"""Data flows one way: which package may import which is the table below, and nothing else."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "vivace"
MAX_LINES = 400

#: Where things lie in the stream. A package may import core, errors and what stands here.
#: `a.b` allows one module of a package and not the rest. A new arrow is a decision.
ALLOWED: dict[str, frozenset[str]] = {
    "errors": frozenset(),
    "core": frozenset(),
    "hardware": frozenset(),
    "workload": frozenset(),
    "client": frozenset(),
    "measure": frozenset(),
    "prompts": frozenset(),
    "report": frozenset(),
    "models": frozenset({"hardware"}),
    "levers": frozenset({"models.shape", "hardware"}),
    "engines": frozenset({"client", "models", "hardware"}),
    "load": frozenset({"client", "workload"}),
    "quality": frozenset({"client", "workload"}),
    "diagnose": frozenset({"measure", "hardware", "levers"}),
    "quantize": frozenset({"models", "quality"}),
    "export": frozenset({"engines"}),
    "testing": frozenset({"engines", "load", "models.shape"}),
    "study": frozenset(
        {
            "hardware", "workload", "client", "measure", "prompts", "models", "levers",
            "engines", "load", "quality", "diagnose", "quantize", "export",
        }
    ),
    "web": frozenset({"client", "prompts", "diagnose", "engines", "report"}),
}  # fmt: skip
FOR_ALL = frozenset({"core", "errors"})
#: They stand on everything; `vivace` itself (its `__init__`) imports nothing.
TOP = frozenset({"cli", "__main__"})
NEVER_IMPORTED = frozenset({"cli", "web"})
#: Slow to import or missing on many machines: only inside the function that needs them.
HEAVY = frozenset(
    {"torch", "transformers", "huggingface_hub", "xllamacpp", "modelscope", "openvino_genai", "vllm"}
)  # fmt: skip
#: Packages without code of their own.
NO_CODE = frozenset({"data", "__pycache__"})


def imports(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[tuple[str, int]]:
    """Every imported name with its line: absolute, also where the source writes it relative."""
    parent = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = parent[: len(parent) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((f"{origin}.{alias.name}", node.lineno) for alias in node.names)


def may_import(package: str, target: str) -> bool:
    """Whether `package` may import `target`, a dotted path below vivace (`models.shape.Name`)."""
    head = target.split(".", 1)[0]
    if head == package:
        return True
    if head in NEVER_IMPORTED and package not in TOP:
        return False
    if package in TOP or head in FOR_ALL:
        return package not in FOR_ALL or (package, head) == ("core", "errors")
    return any(target == a or target.startswith(a + ".") for a in ALLOWED[package])


def violations(source: Path) -> list[str]:
    """What every module below `source` imports against the table."""
    found: list[str] = []
    for path in sorted(source.rglob("*.py")):
        inside = path.relative_to(source).with_suffix("").parts
        is_package = inside[-1] == "__init__"
        parts = inside[:-1] if is_package else inside
        package = parts[0] if parts else ""
        where = "/".join(("vivace", *inside))
        if package and package not in TOP and package not in ALLOWED:
            found.append(f"{where}: package `{package}` is not in the table")
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = list(imports(tree, ".".join(("vivace", *parts)), is_package=is_package))
        for name, line in names:
            root, _, target = name.partition(".")
            if root != "vivace":
                continue
            # `import vivace` and `from vivace import *` hide what is used.
            if target in ("", "*") or (not package and target != "__version__"):
                found.append(f"{where}:{line}: `{name}` says nothing about what is used")
            elif package and not target.startswith("__") and not may_import(package, target):
                found.append(f"{where}:{line}: `{package}` may not import `{name}`")
        found += [f"{where}:{line}: `{name}` only inside a function" for name, line in heavy(tree)]
    return found


def heavy(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Heavy packages that are imported when the module is."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo.extend(node.orelse)
            continue
        todo.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        yield from ((n, node.lineno) for n in names if n.split(".")[0] in HEAVY)


def test_every_module_keeps_to_the_table_of_imports() -> None:
    assert violations(SOURCE) == []


def test_every_package_is_in_the_table() -> None:
    packages = {p.stem for p in SOURCE.iterdir() if p.is_dir() or p.suffix == ".py"}
    assert packages - {"__init__", *TOP, *NO_CODE} <= set(ALLOWED)
    assert len(packages) > 5


def test_no_file_of_the_source_is_longer_than_the_limit() -> None:
    lengths = {p: len(p.read_text(encoding="utf-8").splitlines()) for p in SOURCE.rglob("*.py")}
    assert lengths
    assert {str(p): n for p, n in lengths.items() if n > MAX_LINES} == {}


def test_the_table_has_no_circle() -> None:
    def reached(package: str) -> set[str]:
        below = {a.split(".")[0] for a in ALLOWED[package]}
        return below.union(*(reached(b) for b in below))

    assert [p for p in ALLOWED if p in reached(p)] == []


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("measure", "from vivace.load import base"),
        ("measure", "import vivace.load.base"),
        ("measure", "import vivace.load.base as b"),
        ("measure", "from ..load.base import Progress"),
        ("measure", "from .. import load"),
        ("measure", "from vivace import load"),
        ("measure", "import vivace"),
        ("measure", "from vivace import *"),
        ("measure", "def f():\n    from vivace.study import plan"),
        ("measure", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import vivace.client"),
        ("levers", "from vivace.models.files import make"),
        ("levers", "from vivace.models import shape_of"),
        ("study", "from vivace.cli import main"),
        ("study", "from vivace.testing import ScriptedEngine"),
        ("study", "from vivace.report import html"),
        ("web", "from vivace.cli.main import main"),
        ("core", "from vivace.measure import stats"),
        ("errors", "from vivace.core import Row"),
        ("invented", "import os"),
        ("models", "import huggingface_hub"),
        ("models", "try:\n    from transformers.utils import logging\nexcept ImportError:\n    pass"),
        ("models", "class A:\n    import torch.nn"),
    ],
)  # fmt: skip
def test_a_planted_violation_is_found(tmp_path: Path, package: str, code: str) -> None:
    plant(tmp_path, package, code)
    assert len(violations(tmp_path)) == 1


@pytest.mark.parametrize(
    ("package", "code"),
    [
        ("measure", "from vivace.core import Record"),
        ("measure", "from . import stats"),
        ("measure", "from .stats import median"),
        ("levers", "from vivace.models.shape import ModelShape"),
        ("cli", "from vivace.web import app\nfrom vivace.testing import ScriptedEngine"),
        ("study", "from vivace import __version__"),
        ("models", "def fetch():\n    import huggingface_hub"),
        ("core", "from vivace.errors import ConfigError"),
    ],
)
def test_an_allowed_import_passes(tmp_path: Path, package: str, code: str) -> None:
    plant(tmp_path, package, code)
    assert violations(tmp_path) == []


def plant(source: Path, package: str, code: str) -> None:
    (source / package).mkdir()
    (source / package / "planted.py").write_text(code + "\n", encoding="utf-8")
