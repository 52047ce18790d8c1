import copy
from typing import Any

import pytest

from vivace.report.document import check_document, clean, interval, number, text

from .sample import interrupted_study, study, study_without_winner

REQUIRED = [
    *((k,) for k in (
        "schema", "model", "hardware", "workload", "constraints", "budget_s", "elapsed_s",
        "baselines", "best_default", "noise_band", "diagnosis", "ablation", "leave_one_out",
        "winner", "trials", "warnings", "files",
    )),
    ("baselines", "unoptimised"),
    ("baselines", "engine_defaults"),
    *(("baselines", "unoptimised", k) for k in (
        "concurrency", "ttft_p50_ms", "tps_single", "ttft_cold_ms", "ttft_loaded_p50_ms",
        "ttft_loaded_p95_ms", "tpot_p95_ms", "throughput_tps", "goodput_rps", "warmup_s",
        "memory_bytes", "memory", "quality_loss", "by_concurrency",
    )),
    *(("ablation", 0, k) for k in (
        "lever", "config_diff", "status", "reason", "row", "vs_previous", "predicted",
    )),
    *(("winner", k) for k in (
        "config", "row", "vs_unoptimised", "vs_engine_default", "quality", "held_out",
    )),
    *(("winner", "quality", k) for k in ("loss", "ci95", "verdict", "basis", "reference")),
    *(("winner", "vs_unoptimised", "tps_single", k) for k in ("ratio", "ci95", "proven")),
    *(("trials", 0, k) for k in ("id", "config", "status", "wall_s", "reason")),
    *(("diagnosis", 0, k) for k in ("bottleneck", "confidence", "evidence", "levers")),
    ("leave_one_out", 0, "vs_winner"),
    ("noise_band", "ttft_p50_ms", "ratio_lo"),
]  # fmt: skip


def parent(doc: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        doc = doc[key]
    return doc


@pytest.mark.parametrize("make", [study, study_without_winner, interrupted_study])
def test_a_document_of_the_study_conforms(make: Any) -> None:
    assert check_document(make()) == []


@pytest.mark.parametrize("path", REQUIRED, ids=lambda p: ".".join(map(str, p)))
def test_a_required_key_that_is_missing_is_named(path: tuple[Any, ...]) -> None:
    doc = copy.deepcopy(study())
    del parent(doc, path)[path[-1]]
    found = check_document(doc)
    assert len(found) == 1
    assert found[0].endswith(f"{path[-1]}: is missing")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("schema",), "vivace.study/2", "`vivace.study/2` is not one of vivace.study/1"),
        (("budget_s",), "8m", "document.budget_s: expected a number or null, got str"),
        (("elapsed_s",), True, "document.elapsed_s: expected a number or null, got bool"),
        (("ablation", 3, "status"), "great", "document.ablation[3].status: `great`"),
        (("ablation", 0, "vs_previous", "tps_single", "ci95"), [1.0], "expected 2 values, got 1"),
        (("winner", "held_out"), None, "document.winner.held_out: expected true or false"),
        (("winner", "row", "tps_single"), "67", "document.winner.row.tps_single"),
        (("trials", 0, "status"), "kept", "`kept` is not one of ok, crashed"),
        (("notes",), [3], "document.notes[0]: expected text, got int"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(path: Any, value: object, words: str) -> None:
    doc = copy.deepcopy(study())
    parent(doc, path)[path[-1]] = value
    found = check_document(doc)
    assert len(found) == 1
    assert words in found[0]


def test_numbers_that_are_not_finite_or_not_numbers_are_missing() -> None:
    assert number({"a": float("nan")}, "a") is None
    assert number({"a": float("inf")}, "a") is None
    assert number({"a": True}, "a") is None
    assert number({"a": 0}, "a") == 0.0
    assert number({"a": {"b": 2}}, "a", "b") == 2.0
    assert number({"a": 1}, "a", "b") is None


def test_an_interval_needs_both_ends() -> None:
    assert interval({"i": [1, 2]}, "i") == (1.0, 2.0)
    assert interval({"i": [1, None]}, "i") is None
    assert interval({"i": [1, 2, 3]}, "i") is None


def test_text_loses_terminal_escapes_line_breaks_and_writing_direction() -> None:
    assert clean("a\x1b[31m\nb\u202ec\x07") == "a[31m bc"
    assert clean("\udcff") == "?"
    assert text({"a": 3}, "a") == ""
