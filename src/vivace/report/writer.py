"""Writes a study's reports into its folder, each file whole or not at all."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec

from vivace.errors import StudyError
from vivace.report.document import Doc, check_document
from vivace.report.html import to_html
from vivace.report.markdown import to_markdown


def write_reports(doc: Doc, folder: Path) -> dict[str, str]:
    """Write `report.json`, `report.md` and `report.html`; their names by kind.

    Raises `StudyError` when the folder cannot be written, and, with the files in place, when
    `doc` departs from `vivace.study/1`.
    """
    texts = {"json": to_json(doc), "md": to_markdown(doc), "html": to_html(doc)}
    names = {kind: f"report.{kind}" for kind in texts}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, content in texts.items():
            _replace(folder / names[kind], content)
    except OSError as error:
        raise StudyError(
            f"reports cannot be written to `{folder}`: {error.strerror or error}",
            hint="choose another folder with `--out`",
        ) from error
    departures = check_document(doc)
    if departures:
        raise StudyError(
            f"the study document departs from its schema: {'; '.join(departures[:5])}",
            hint=f"the reports in `{folder}` are written; this is a defect of vivace",
        )
    return names


def to_json(doc: Doc) -> str:
    """The document as indented JSON; numbers that are not finite become null."""
    return msgspec.json.format(msgspec.json.encode(_plain(doc)), indent=2).decode() + "\n"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        entries = cast(Mapping[object, object], value)
        return {str(_plain(k)): _plain(v) for k, v in entries.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in cast("list[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        # A command line may carry bytes that are no UTF-8, as lone surrogates.
        return value.encode("utf-8", "replace").decode("utf-8")
    return value


def _replace(path: Path, content: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
