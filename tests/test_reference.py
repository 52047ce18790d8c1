"""The pages made from the code are those the code makes now, and the links between pages hold."""

import argparse
import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))


@pytest.fixture
def module() -> ModuleType:
    path = ROOT / "tools" / "make_reference.py"
    spec = importlib.util.spec_from_file_location("make_reference", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_reference_is_up_to_date(module: ModuleType) -> None:
    assert module.stale() == [], "run `python tools/make_reference.py`"


def test_a_page_that_differs_is_found(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    module.main()
    assert module.stale() == []
    (tmp_path / "errors.md").write_text("old")
    (tmp_path / "gone.md").write_text("nothing makes this")
    assert module.stale() == ["errors.md", "gone.md"]


def test_fields_levers_errors_and_keys_are_all_there(module: ModuleType) -> None:
    pages = module.pages()
    assert "| `slots` | `int \\| None` | `None` |" in pages["configuration.md"]
    assert "## `warm_prefix`" in pages["levers.md"]
    assert "| `EngineStartError` | 3 |" in pages["errors.md"]
    assert "| `winner.vs_unoptimised.*.ratio` |" in pages["study-json.md"]
    assert "| `Row.ttft_p50_ms` |" in pages["study-json.md"]


def test_options_of_every_verb_are_listed_with_their_defaults(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = argparse.ArgumentParser(description="about")
    verb = parser.add_subparsers().add_parser("tune", description="the main job")
    verb.add_argument("model", nargs="?", help="which model")
    verb.add_argument("--budget", default="8m", metavar="TIME", help="100%% of it [%(default)s]")
    verb.add_argument("--goal", choices=("latency", "memory"), default="memory")
    verb.add_argument("--fresh", action="store_true", help="again")
    verb.add_argument("--seed", type=int, default=0, metavar="N")
    verb.add_argument("--slo", default="", metavar="LIST")
    cli = SimpleNamespace(build_parser=lambda: parser)
    monkeypatch.setattr(module.importlib, "import_module", lambda name: cli)
    text = module.pages()["cli.md"]
    assert "## `vivace tune`\n\nthe main job\n" in text
    assert "| `model` |  | which model |" in text
    assert "| `--budget TIME` | `8m` | 100% of it |" in text
    assert "| `--goal latency\\|memory` | `memory` |  |" in text
    assert "| `--fresh` |  | again |" in text
    assert "| `--seed N` | `0` |  |" in text
    assert "| `--slo LIST` |  |  |" in text


@pytest.mark.parametrize("page", DOCS, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8"))
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []
