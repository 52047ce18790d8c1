import json
import math
from pathlib import Path

import pytest

from vivace.errors import StudyError
from vivace.report.html import to_html
from vivace.report.markdown import to_markdown
from vivace.report.writer import to_json, write_reports

from .sample import study


def test_three_files_are_written_and_nothing_else_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "study"
    doc = study()
    names = write_reports(doc, folder)
    assert names == {"json": "report.json", "md": "report.md", "html": "report.html"}
    assert sorted(p.name for p in folder.iterdir()) == sorted(names.values())
    assert json.loads((folder / "report.json").read_text("utf-8")) == doc
    assert (folder / "report.md").read_text("utf-8") == to_markdown(doc)
    assert (folder / "report.html").read_text("utf-8") == to_html(doc)


def test_numbers_that_are_not_finite_become_null() -> None:
    found = json.loads(to_json({"a": math.nan, "b": [math.inf, 1.5], "c": {4: "中"}}))
    assert found == {"a": None, "b": [None, 1.5], "c": {"4": "中"}}


def test_a_command_with_bytes_that_are_no_text_can_be_written() -> None:
    assert json.loads(to_json({"command": "tune \udcff.gguf"})) == {"command": "tune ?.gguf"}


def test_a_report_is_replaced_whole(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    write_reports(study(), tmp_path)
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StudyError, match="reports cannot be written to") as caught:
        write_reports(study(), tmp_path / "file")
    assert caught.value.hint


def test_a_failed_replacement_leaves_the_old_report_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.json").write_text("old")

    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(StudyError, match="No space left on device"):
        write_reports(study(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]
    assert (tmp_path / "report.json").read_text() == "old"


def test_a_departure_from_the_schema_is_told_but_costs_no_report(tmp_path: Path) -> None:
    doc = study()
    del doc["trials"]
    with pytest.raises(StudyError, match=r"document\.trials: is missing"):
        write_reports(doc, tmp_path)
    assert (tmp_path / "report.html").exists()
