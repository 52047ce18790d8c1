"""The conditions of a study as flat lines: model, hardware, workload, limits, versions."""

from collections.abc import Iterator, Mapping

from vivace.report.document import Doc, mapping, number, text
from vivace.report.view import Arm, View
from vivace.report.words import amount, figure, seconds, setting

_SECTIONS = ("model", "hardware", "workload", "constraints", "versions")


def conditions(doc: Doc) -> list[tuple[str, str]]:
    """(name, value) of everything a reader needs to judge or repeat the measurement."""
    found = [("created", text(doc, "created"))] if text(doc, "created") else []
    for key, name in (("budget_s", "budget"), ("elapsed_s", "elapsed")):
        value = number(doc, key)
        if value is not None:
            found.append((name, seconds(value)))
    for section in _SECTIONS:
        found += [(f"{section}: {n}", v) for n, v in facts(mapping(doc, section))]
    return found


def facts(values: Doc) -> list[tuple[str, str]]:
    """The entries of one section, nested ones joined by a dot, sizes in words."""
    return list(_flat(values, ""))


def _flat(values: Doc, prefix: str) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _flat(mapping(values, name), f"{path}.")
        else:
            yield path.removesuffix("_bytes").replace("_", " "), _told(name, value)


def _told(name: str, value: object) -> str:
    size = number(value)
    if value is None:
        return "not given"
    if value in ([], ""):
        return "none"
    if size is not None and name.endswith("_bytes"):
        return f"{amount(size / 1e9)} GB" if size >= 1e9 else f"{amount(size / 1e6)} MB"
    return f"{value:,}" if isinstance(value, int) and value >= 100_000 else setting(value)


def memory_split(arm: Arm) -> str:
    """How an arm's memory adds up; empty where the engine gave no split."""
    parts = [(n, number(arm.row, "memory", n)) for n in ("weights", "kv", "other")]
    told = [
        f"{'KV' if n == 'kv' else n} {figure('memory_bytes', v)}" for n, v in parts if v is not None
    ]
    reserved = number(arm.row, "memory", "reserved")
    beside = f"; reserved beside it {figure('memory_bytes', reserved)} MB" if reserved else ""
    return f"{' + '.join(told)} MB{beside}" if told else ""


def memory_lines(view: View) -> list[tuple[str, str]]:
    """(arm, split) of the baselines and the winner."""
    arms = (*view.baselines, *((view.winner.arm,) if view.winner else ()))
    return [(a.title, split) for a in arms if (split := memory_split(a))]
