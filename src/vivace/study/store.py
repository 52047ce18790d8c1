"""The study on disk: inputs, plan and trials in SQLite, raw records beside it. Survives a kill."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec
import zstandard

from vivace.core import Record
from vivace.errors import StudyError
from vivace.study.finished import Finished
from vivace.study.inputs import Inputs

_TABLES = """
create table if not exists facts (key text primary key, value text not null);
create table if not exists trials (id text primary key, position integer, payload text not null);
"""


class Store:
    """`trials.sqlite` and `records/` of one study folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        #: When each run of the study's command began, this one last.
        self.runs: list[str] = []
        try:
            (folder / "records").mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(folder / "trials.sqlite")
            self._db.execute("pragma journal_mode=wal")
            self._db.executescript(_TABLES)
        except (OSError, sqlite3.Error) as error:
            raise StudyError(
                f"cannot write the study folder `{folder}`: {error}",
                hint="choose another with `--out DIR`, or free space and permissions there",
            ) from error

    def close(self) -> None:
        """Close the database; what was saved is on disk already."""
        self._db.close()

    def claim(self, inputs: Inputs, *, fresh: bool, now: str = "") -> bool:
        """Take the folder for `inputs`; True when an earlier run of the same study is in it.

        `now` is noted as the begin of this run.
        """
        if fresh:
            with self._db:
                self._db.execute("delete from facts")
                self._db.execute("delete from trials")
        before = self.fact("fingerprint")
        if before not in (None, inputs.fingerprint()):
            raise StudyError(
                f"`{self.folder}` holds a study with other inputs",
                hint="choose another folder with `--out DIR`, or start over with `--fresh`",
            )
        self.note("fingerprint", inputs.fingerprint())
        self.note("inputs", msgspec.json.encode(inputs).decode())
        self.runs = [*msgspec.json.decode(self.fact("runs") or "[]", type=list[str]), now]
        self.note("runs", msgspec.json.encode(self.runs).decode())
        return before is not None

    def fact(self, key: str) -> str | None:
        """A noted value."""
        row = self._db.execute("select value from facts where key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def note(self, key: str, value: str) -> None:
        """Note a value for good."""
        self._write("insert or replace into facts values (?, ?)", (key, value))

    def save(self, trial: Finished) -> None:
        """Keep a finished trial."""
        payload = msgspec.json.encode(trial).decode()
        sql = (
            "insert or replace into trials select ?, coalesce(max(position), 0) + 1, ? from trials"
        )
        self._write(sql, (trial.id, payload))

    def forget(self, trial_id: str) -> None:
        """Let the next run of this study measure a trial again."""
        self._write("delete from trials where id = ?", (trial_id,))

    def trial(self, trial_id: str) -> Finished | None:
        """A trial that was finished before."""
        sql = "select payload from trials where id = ?"
        row = self._db.execute(sql, (trial_id,)).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=Finished)

    def trials(self) -> list[Finished]:
        """All finished trials, in the order in which they were measured."""
        rows = self._db.execute("select payload from trials order by position").fetchall()
        return [msgspec.json.decode(row[0], type=Finished) for row in rows]

    def save_records(self, trial_id: str, records: Sequence[tuple[str, Record]]) -> Path:
        """One line per request with raw timestamps, compressed; written whole or not at all."""
        path = self.folder / "records" / f"{trial_id}.jsonl.zst"
        lines = b"\n".join(
            msgspec.json.encode({"phase": phase, **msgspec.to_builtins(record)})
            for phase, record in records
        )
        temporary = path.with_suffix(".part")
        try:
            temporary.write_bytes(zstandard.compress(lines + b"\n"))
            temporary.replace(path)
        except OSError as error:
            raise self._full(error) from error
        return path

    def _write(self, sql: str, values: tuple[str, ...]) -> None:
        try:
            with self._db:
                self._db.execute(sql, values)
        except sqlite3.Error as error:
            raise self._full(error) from error

    def _full(self, error: Exception) -> StudyError:
        return StudyError(
            f"cannot write into the study folder `{self.folder}`: {error}",
            hint="free space there and run the same command again: finished trials are kept",
        )
