"""Numbers and names as people read them, the same in the terminal, Markdown and HTML."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from vivace.core import Effort, Metric
from vivace.report.document import clean

DASH = "–"
NO_REASON = "no reason was recorded"
LEGEND = (
    "✓ proven better, ✗ proven worse: the interval of the ratio excludes 1, with the metrics of a line "
    "taken together, beyond the noise of the default against itself"
)

EFFORTS: dict[Effort, str] = {
    "free": "Free: prompt layout and caches",
    "cheap": "Cheap: a ready-made quantised model",
    "tuning": "Tuning: slots and batching",
    "case": "As the case demands",
}
STATUSES: dict[str, str] = {
    "kept": "kept",
    "rejected": "rejected",
    "infeasible": "infeasible",
    "crashed": "crashed",
    "oom": "out of memory",
    "timeout": "timed out",
    "not_tried": "not tried",
}
STATES: dict[str, str] = {
    "finished": "finished",
    "interrupted": "interrupted",
    "budget": "budget used up",
}
VERDICTS: dict[str, str] = {"pass": "pass", "fail": "fail", "inconclusive": "not enough evidence"}
ENGINES: dict[str, str] = {
    "llamacpp": "llama.cpp",
    "openvino": "OpenVINO GenAI",
    "vllm": "vLLM",
}
#: Metrics a goal is judged by (`contract.md`, `--goal`).
GOALS: dict[str, tuple[Metric, ...]] = {
    "balanced": ("ttft_p50_ms", "tps_single", "throughput_tps"),
    "latency": ("ttft_p50_ms", "tps_single"),
    "throughput": ("throughput_tps", "ttft_loaded_p50_ms"),
    "memory": ("memory_bytes",),
}


def engine_name(engine: str) -> str:
    """The engine's own spelling."""
    return ENGINES.get(engine, clean(engine))


def short_name(metric: str, concurrency: int | None, *, full: bool) -> str:
    """A metric's name for a column heading, at most 8 characters unless `full`."""
    level = concurrency or "all"
    return {
        "ttft_p50_ms": "TTFT",
        "tps_single": "one request" if full else "1 req.",
        "ttft_loaded_p50_ms": "loaded TTFT" if full else "loaded",
        "throughput_tps": f"{level} concurrent" if full else f"{level} req.",
        "memory_bytes": "memory",
        "quality_loss": "quality loss" if full else "loss",
    }.get(metric, metric.replace("_", " "))


def long_name(metric: str, concurrency: int | None) -> str:
    """A metric in words, without its unit."""
    level = f"{concurrency} concurrent requests" if concurrency else "concurrent requests"
    return {
        "ttft_p50_ms": "Time to first token, one request",
        "tps_single": "Speed of one request",
        "ttft_loaded_p50_ms": f"Time to first token, {level}",
        "throughput_tps": f"Throughput, {level}",
        "memory_bytes": "Memory",
        "quality_loss": "Quality loss",
    }.get(metric, metric.replace("_", " "))


def unit(metric: str) -> str:
    """The unit `figure` writes a metric in."""
    if metric == "memory_bytes":
        return "MB"
    if metric == "quality_loss":
        return "%"
    if metric.endswith("_rps"):
        return "requests/s"
    return "ms" if metric.endswith("_ms") else "tokens/s"


def figure(metric: str, value: float) -> str:
    """A metric's value in its display unit, without the unit."""
    if metric == "quality_loss":
        return f"{100 * value:.2f}" if abs(value) < 0.1 else f"{100 * value:.1f}"
    return amount(value / 1e6 if metric == "memory_bytes" else value)


def tick(metric: str, value: float) -> str:
    """A round value on an axis, in the metric's display unit."""
    shown = value / 1e6 if metric == "memory_bytes" else value
    return f"{100 * value:.3g} %" if metric == "quality_loss" else f"{shown:,.6g}"


def amount(value: float) -> str:
    """Three significant digits, whole numbers from 100 on, thousands separated."""
    size = abs(value)
    return f"{value:,.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f}"


def ratio(value: float) -> str:
    """`0.02x`, `1.76x`, `7.1x`, `12x`."""
    if value < 0.0145:
        return f"{value:.1g}x"
    return f"{value:.{2 if value < 2.995 else 1 if value < 9.95 else 0}f}x"


def ratio_range(lo: float, hi: float) -> str:
    """An interval of ratios, `[0.02, 0.03]`."""
    return f"[{ratio(lo)[:-1]}, {ratio(hi)[:-1]}]"


def percent(value: float) -> str:
    """A share with its sign of unit: `0.41 %`."""
    return f"{figure('quality_loss', value)} %"


def seconds(value: float) -> str:
    """`45 s`, `7 min 30 s`, `1 h 5 min`."""
    whole = round(value)
    if whole < 90:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def setting(value: object) -> str:
    """A setting's value on one line; `None` is the engine's own choice."""
    if value is None:
        return "engine's own"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Mapping):
        inner = cast(Mapping[object, object], value)
        return ", ".join(f"{clean(str(k))} {setting(v)}" for k, v in inner.items() if v is not None)
    if isinstance(value, list | tuple):
        return ", ".join(setting(v) for v in cast("list[object]", value))
    return clean(str(value))


@dataclass(slots=True)
class Footnotes:
    """Collects why numbers are missing; the same reason gets the same mark."""

    reasons: list[str] = field(default_factory=list[str])

    def mark(self, reason: str) -> int:
        """The number of the note that carries `reason`, from 1."""
        words = reason or NO_REASON
        if words not in self.reasons:
            self.reasons.append(words)
        return self.reasons.index(words) + 1

    def dash(self, reason: str) -> str:
        """An en dash with the note's number as superscript."""
        return DASH + str(self.mark(reason)).translate(_SUPERSCRIPT)


_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
