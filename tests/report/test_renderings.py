"""What all three forms of a report have in common."""

import copy
import io
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from vivace.report.html import to_html
from vivace.report.markdown import escape, to_markdown
from vivace.report.terminal import print_report

from .sample import HOSTILE, interrupted_study, study, study_without_winner

VOID = {"meta"}
STATUSES = {
    "rejected": "TTFT 1.31x: worse than before",
    "out of memory": "killed by the kernel at 23.1 GiB: 内存不足",
    "crashed": "exit code 134, last words:",
    "infeasible": "the workload needs 1,412 tokens",
    "timed out": "no answer within 120 s",
    "not tried": "the diagnosis gives no reason for it and the budget ended",
}


def terminal(doc: dict[str, Any], width: int = 400) -> str:
    out = io.StringIO()
    print_report(doc, Console(file=out, width=width, color_system=None))
    return out.getvalue()


class Page(HTMLParser):
    """Text and attributes of a page; fails on tags that do not match."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def html_text(doc: dict[str, Any]) -> str:
    return Page(to_html(doc)).text


def markdown_text(doc: dict[str, Any]) -> str:
    return unescape(to_markdown(doc)).replace("\\", "")


FORMS: list[Callable[[dict[str, Any]], str]] = [terminal, markdown_text, html_text]
form = pytest.mark.parametrize("render", FORMS, ids=["terminal", "markdown", "html"])


@form
@pytest.mark.parametrize("status", STATUSES)
def test_each_status_stands_with_its_reason(render: Any, status: str) -> None:
    found = render(study())
    assert status in found
    assert STATUSES[status] in found


@form
def test_the_headline_and_the_numbers_of_the_document_are_shown(render: Any) -> None:
    found = render(study())
    for words in (
        "against unoptimised; against llama.cpp's defaults",
        "5,210", "64,800", "8.62", "420",  # unoptimised
        "886", "62.0", "41,900", "19.1", "352",  # default
        "98.2", "67.1", "604", "146", "334",  # winner
        "0.02x ✓", "1.77x ✓", "7.7x ✓", "0.85x [0.81, 0.89] ✗",
        "33.7", "中文注释：仅供参考", "assistant" if render is not terminal else "balanced",
    ):  # fmt: skip
        assert words in found, words


@form
def test_missing_numbers_are_a_dash_with_their_reason(render: Any) -> None:
    found = render(study())
    for words in ("–¹", "the engine is not installed", "–²", "the engine sent no token counts"):
        assert words in found
    assert "None" not in found
    assert "nan" not in found


@form
def test_efforts_are_groups_and_steps_keep_the_number_of_their_turn(render: Any) -> None:
    found = render(study())
    heads = ["Free: prompt layout", "Cheap: a ready-made", "Tuning: slots", "As the case demands"]
    places = [found.index(h) for h in heads]
    assert places == sorted(places)
    assert places[0] < found.rindex("Shared prefix copied into every slot", 0, places[1])


@form
def test_memory_is_split(render: Any) -> None:
    assert "weights 145 + KV 24.0 + other 165 MB; reserved beside it 70.0 MB" in render(study())


@form
def test_no_winner_is_said(render: Any) -> None:
    assert "No configuration beat llama.cpp's defaults" in render(study_without_winner())


@form
def test_an_interrupted_study_is_shown(render: Any) -> None:
    assert "Interrupted before any configuration" in render(interrupted_study())


def at(doc: Any, path: tuple[Any, ...]) -> Any:
    return at(doc[path[0]], path[1:]) if path else doc


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    entries = value.items() if isinstance(value, dict) else ()
    entries = enumerate(value[:2]) if isinstance(value, list) else entries
    return found + [p for k, v in entries for p in paths(v, (*path, k))]


def small_study() -> dict[str, Any]:
    """One of everything, so that every part can be broken in turn."""
    doc = study()
    doc["ablation"] = [doc["ablation"][2]]
    del doc["baselines"]["engine_defaults"]["openvino"]
    doc["winner"]["row"]["by_concurrency"].pop("16")
    arms = (*doc["baselines"]["engine_defaults"].values(), doc["baselines"]["unoptimised"])
    for arm in (*arms, doc["winner"], doc["ablation"][0]):
        arm["samples"] = {"ttft_ms": [1.0]}
    for key in ("trials", "plan", "leave_one_out", "warnings", "notes"):
        doc[key] = doc[key][:1]
    return doc


def replaced(doc: Any, path: tuple[Any, ...], value: object) -> Any:
    """A copy of `doc` with another value at `path`; the rest is shared."""
    if not path:
        return value
    found = copy.copy(doc)
    found[path[0]] = replaced(doc[path[0]], path[1:], value)
    return found


def test_nothing_missing_or_wrong_in_a_document_can_break_a_report() -> None:
    doc = small_study()
    junk = [None, float("nan"), "?", [], {}]
    for turn, path in enumerate(p for p in paths(doc) if len(p) <= 3):
        # Containers are broken in every way, single values in one way each.
        leaf = not isinstance(at(doc, path), dict | list)
        for value in [junk[turn % len(junk)]] if leaf else junk:
            broken = replaced(doc, path, value)
            assert "vivace study" in to_html(broken), path
            assert to_markdown(broken), path


@pytest.mark.parametrize("junk", [None, float("nan"), "?", [], {}], ids=repr)
@form
def test_a_document_of_junk_is_shown_as_nothing(render: Any, junk: object) -> None:
    assert "before any configuration" in render(dict.fromkeys(study(), junk) | {"headline": ""})
    assert "before any configuration" in render({})


def test_the_page_is_well_formed_and_reaches_for_nothing_outside() -> None:
    page = to_html(study())
    parsed = Page(page)
    names = {name for name, _ in parsed.attributes}
    assert not names & {"src", "href", "srcset", "data", "action"}
    assert not set(parsed.tags) & {"script", "link", "img", "iframe", "object", "base"}
    assert not any(name.startswith("on") for name in names)
    assert "://" not in page
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_hostile_text_stays_text_in_the_page() -> None:
    page = to_html(study())
    assert HOSTILE not in page
    assert HOSTILE in Page(page).text


def test_an_attribute_cannot_be_left() -> None:
    doc = copy.deepcopy(study())
    doc["ablation"][5]["row"]["reasons"]["tps_single"] = '" onload="x'
    doc["ablation"][0]["status"] = '"><b onload="x">'
    doc["ablation"][0]["title"] = "'\" onload=x"
    names = {name for name, _ in Page(to_html(doc)).attributes}
    assert "onload" not in names


def test_the_page_has_headings_captions_and_named_charts() -> None:
    parsed = Page(to_html(study()))
    assert parsed.tags.count("h1") == 1
    assert parsed.tags.count("caption") == parsed.tags.count("table") >= 6
    assert parsed.tags.count("figcaption") == parsed.tags.count("figure") == 10
    labels = [v for n, v in parsed.attributes if n == "aria-label"]
    assert "1 Prefix cache on, kept: 177 ms" in labels
    assert "4 Weights Q4_0, rejected: 109 ms" in labels


def test_the_page_shows_the_settings_of_each_step_and_the_conditions() -> None:
    found = html_text(study())
    for words in (
        "weights F16 → Q8_0",
        "speculation engine's own → kind ngram, n_max 16, n_match 8",
        "predicted, not measured: time to first token, one request 0.02x to 0.08x",
        "vivace tune --workload assistant --concurrency 16 --budget 8m",
        "2026.10.11549",
        "25.8 GB",
        "top-64 distributions on 3,210 positions against F16",
        "logarithmic: the values span more than 10x",
        "n = 12",
    ):
        assert words in found, words


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_terminal_report_fits_its_width(width: int) -> None:
    lines = terminal(study(), width).splitlines()
    assert max(cell_len(line) for line in lines) <= width


def test_eighty_columns_keep_every_number_whole() -> None:
    lines = terminal(study(), 80).splitlines()
    found = next(line for line in lines if line.startswith("Unoptimised"))
    assert found.split() == ["Unoptimised", "baseline", "5,210", "38.0", "8.62", "420", "0.00"]


def test_the_terminal_gets_no_escape_codes_from_the_document() -> None:
    assert "\x1b" not in terminal(study())


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    out = io.StringIO()
    print_report(study(), Console(file=out, width=80, force_terminal=True))
    assert "\x1b[3" not in out.getvalue()


def test_each_row_of_the_markdown_table_has_all_cells() -> None:
    rows = [r for r in to_markdown(study()).splitlines() if r.startswith("|")]
    counts = {row.replace("\\|", "").count("|") for row in rows}
    assert counts == {11}


def test_markdown_of_untrusted_text_is_escaped() -> None:
    assert escape("a|b `c` ![i](x) <b> @you &") == (r"a\|b \`c\` !\[i\](x) &lt;b&gt; \@you &amp;")
    assert HOSTILE not in to_markdown(study())


def test_a_study_gone_on_with_says_which_run_measured_what():
    doc = study()
    assert "gone on with" not in to_html(doc)
    first, second = doc["trials"][0], doc["trials"][1]
    first |= {"run": 1, "measured_at": "2026-12-01T10:00:00", "foreign_cpu_shares": [0.02, 0.14]}
    second |= {"run": 2}
    doc["runs"] = [
        {"run": 1, "began": "2026-12-01T09:59:00", "measured": [first["id"]]},
        {"run": 2, "began": "2026-12-01T11:00:00", "measured": [second["id"]]},
    ]
    words = " ".join(Page(to_html(doc)).words)
    assert "gone on with" in words
    assert "2026-12-01T11:00:00" in words
    assert "14%" in words
