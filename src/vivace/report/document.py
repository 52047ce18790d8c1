"""Reads a `vivace.study/1` document safely and says where one departs from its schema."""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast, get_args

from vivace.core import METRICS, AblationStatus, Effort, TrialStatus, Verdict

SCHEMA = "vivace.study/1"

Doc = Mapping[str, object]


def at(value: object, *keys: str) -> object:
    """The value under a path of keys; `None` where any of them is missing."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = cast(Doc, value).get(key)
    return value


def mapping(value: object, *keys: str) -> Doc:
    """The mapping under a path, empty where there is none; its keys as text."""
    found = at(value, *keys)
    if not isinstance(found, Mapping):
        return {}
    return {str(k): v for k, v in cast(Mapping[object, object], found).items()}


def sequence(value: object, *keys: str) -> Sequence[object]:
    """The list under a path, empty where there is none."""
    found = at(value, *keys)
    return cast(Sequence[object], found) if isinstance(found, list | tuple) else ()


def number(value: object, *keys: str) -> float | None:
    """The finite number under a path; `None` for anything else."""
    found = at(value, *keys)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)


def numbers(value: object, *keys: str) -> tuple[float, ...]:
    """The finite numbers of the list under a path."""
    found = (number(v) for v in sequence(value, *keys))
    return tuple(v for v in found if v is not None)


def interval(value: object, *keys: str) -> tuple[float, float] | None:
    """The `[lo, hi]` under a path; `None` unless both ends are numbers."""
    ends = sequence(value, *keys)
    if len(ends) != 2:
        return None
    lo, hi = number(ends[0]), number(ends[1])
    return None if lo is None or hi is None else (lo, hi)


def text(value: object, *keys: str) -> str:
    """The text under a path on one line; empty where there is none."""
    found = at(value, *keys)
    return clean(found) if isinstance(found, str) else ""


def clean(raw: str) -> str:
    """One printable line: untrusted text may carry terminal escapes or turn the writing direction."""
    valid = raw.encode("utf-8", "replace").decode("utf-8")
    spaced = " ".join(valid.split())
    return "".join(c for c in spaced if unicodedata.category(c) != "Cc" and c not in _BIDI)


_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Spec:
    """What a value must be. `keys` are required, `optional` ones are checked where present."""

    kind: tuple[type, ...]
    word: str
    nullable: bool = False
    keys: Mapping[str, "_Spec"] | None = None
    optional: Mapping[str, "_Spec"] | None = None
    each: "_Spec | None" = None
    one_of: tuple[str, ...] = ()
    length: int | None = None


def _text(*, one_of: tuple[str, ...] = ()) -> _Spec:
    return _Spec(kind=(str,), word="text", one_of=one_of)


def _map(each: _Spec | None = None) -> _Spec:
    return _Spec(kind=(dict,), word="an object", each=each)


def _list(each: _Spec | None = None, *, length: int | None = None) -> _Spec:
    return _Spec(kind=(list, tuple), word="a list", each=each, length=length)


def _object(
    keys: Mapping[str, _Spec],
    optional: Mapping[str, _Spec] | None = None,
    *,
    nullable: bool = False,
) -> _Spec:
    return _Spec(kind=(dict,), word="an object", keys=keys, optional=optional, nullable=nullable)


_NUMBER = _Spec(kind=(int, float), word="a number or null", nullable=True)
_TEXT = _text()
_BOOL = _Spec(kind=(bool,), word="true or false")
_PAIR = _list(_NUMBER, length=2)
_RATIOS = _map(_object({"ratio": _NUMBER, "ci95": _PAIR, "proven": _BOOL}))
_BANDS = _map(_object({"ratio_lo": _NUMBER, "ratio_hi": _NUMBER}))
_SAMPLES = _map(_list(_NUMBER))
_ROW_NUMBERS = (
    *METRICS,
    *("concurrency", "ttft_cold_ms", "ttft_loaded_p95_ms", "tpot_p95_ms", "goodput_rps"),
    *("warmup_s", "quality_loss"),
)
_MEMORY = _Spec(kind=(dict,), word="an object or null", each=_NUMBER, nullable=True)
_ROW_KEYS = {
    **dict.fromkeys(_ROW_NUMBERS, _NUMBER),
    "memory": _MEMORY,
    "by_concurrency": _map(),
}
_ROW_OPTIONAL = {
    "intervals": _map(_PAIR),
    "reasons": _map(_TEXT),
    "config": _map(),
    "samples": _SAMPLES,
}
_ROW = _object(_ROW_KEYS, _ROW_OPTIONAL)
_ROW_OR_NULL = _object(_ROW_KEYS, _ROW_OPTIONAL, nullable=True)
_VERDICT = {"loss": _NUMBER, "ci95": _PAIR, "verdict": _text(one_of=get_args(Verdict))}
_STEP = _object(
    {
        "lever": _TEXT,
        "config_diff": _map(),
        "status": _text(one_of=get_args(AblationStatus)),
        "reason": _TEXT,
        "row": _ROW_OR_NULL,
        "vs_previous": _RATIOS,
        "predicted": _Spec(kind=(dict,), word="an object or null", each=_BANDS.each, nullable=True),
    },
    {
        "title": _TEXT,
        "effort": _text(one_of=get_args(Effort)),
        "quality": _object(_VERDICT, nullable=True),
        "samples": _SAMPLES,
    },
)
_WINNER = _object(
    {
        "config": _map(),
        "row": _ROW,
        "vs_unoptimised": _RATIOS,
        "vs_engine_default": _RATIOS,
        "quality": _object({**_VERDICT, "basis": _TEXT, "reference": _TEXT}),
        "held_out": _BOOL,
    },
    {"samples": _SAMPLES},
    nullable=True,
)
_TRIAL = _object(
    {
        "id": _TEXT,
        "config": _map(),
        "status": _text(one_of=get_args(TrialStatus)),
        "wall_s": _NUMBER,
        "reason": _TEXT,
    }
)
_STUDY = _object(
    {
        "schema": _text(one_of=(SCHEMA,)),
        **dict.fromkeys(("model", "hardware", "workload", "constraints", "files"), _map()),
        "budget_s": _NUMBER,
        "elapsed_s": _NUMBER,
        "baselines": _object({"unoptimised": _ROW_OR_NULL, "engine_defaults": _map(_ROW_OR_NULL)}),
        "best_default": _Spec(kind=(str,), word="text or null", nullable=True),
        "noise_band": _BANDS,
        "diagnosis": _list(
            _object(
                {"bottleneck": _TEXT, "confidence": _NUMBER, "evidence": _list(), "levers": _list()}
            )
        ),
        "ablation": _list(_STEP),
        "leave_one_out": _list(_object({"lever": _TEXT, "vs_winner": _RATIOS})),
        "winner": _WINNER,
        "trials": _list(_TRIAL),
        "warnings": _list(),
    },
    {
        **dict.fromkeys(("name", "created", "command", "headline", "goal"), _TEXT),
        "state": _text(one_of=("finished", "interrupted", "budget")),
        "versions": _map(),
        "plan": _list(_object({"step": _TEXT, "seconds": _NUMBER})),
        "notes": _list(_TEXT),
        "runs": _list(_object({"run": _NUMBER, "began": _TEXT, "measured": _list(_TEXT)})),
        "quality_limit": _NUMBER,
    },
)


def check_document(doc: Doc) -> list[str]:
    """Where `doc` departs from `vivace.study/1`, one sentence each; empty when it conforms."""
    return _check(doc, _STUDY, "document")


def _check(value: object, spec: _Spec, path: str) -> list[str]:
    if value is None and spec.nullable:
        return []
    # A bool is an int in Python, not in JSON.
    if not isinstance(value, spec.kind) or (isinstance(value, bool) and bool not in spec.kind):
        return [f"{path}: expected {spec.word}, got {type(value).__name__}"]
    found: list[str] = []
    if spec.one_of and value not in spec.one_of:
        found.append(f"{path}: `{value}` is not one of {', '.join(spec.one_of)}")
    if isinstance(value, dict):
        return found + _check_object(mapping(cast(object, value)), spec, path)
    if isinstance(value, list | tuple):
        return found + _check_list(sequence(cast(object, value)), spec, path)
    return found


def _check_object(entries: Doc, spec: _Spec, path: str) -> list[str]:
    required, optional = spec.keys or {}, spec.optional or {}
    found = [f"{path}.{key}: is missing" for key in required if key not in entries]
    for key, item in entries.items():
        inner = required.get(key) or optional.get(key) or spec.each
        found += _check(item, inner, f"{path}.{key}") if inner else []
    return found


def _check_list(entries: Sequence[object], spec: _Spec, path: str) -> list[str]:
    found: list[str] = []
    if spec.length is not None and len(entries) != spec.length:
        found.append(f"{path}: expected {spec.length} values, got {len(entries)}")
    for index, item in enumerate(entries):
        found += _check(item, spec.each, f"{path}[{index}]") if spec.each else []
    return found
