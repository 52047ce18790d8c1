"""What is sent. `make_workload` finds a workload by name, or takes a file of requests."""

from importlib import import_module
from pathlib import Path

from vivace.errors import ConfigError
from vivace.workload.base import Workload

#: Name -> module and factory; a module is imported when its workload is asked for.
WORKLOADS = {
    "assistant": ("vivace.workload.assistant", "make_assistant"),
    "chat": ("vivace.workload.chat", "make_chat"),
    "copy": ("vivace.workload.copy", "make_copy"),
    "creative": ("vivace.workload.creative", "make_creative"),
}


def make_workload(name_or_path: str, *, seed: int) -> Workload:
    """The workload of that name, or the requests of that JSONL file.

    Raises `ConfigError` for a name that is neither, and for a file that is wrong.
    """
    if name_or_path in WORKLOADS:
        module, factory = WORKLOADS[name_or_path]
        return getattr(import_module(module), factory)(seed=seed)
    path = Path(name_or_path)
    if path.is_file():
        from vivace.workload.jsonl import load_jsonl

        return load_jsonl(path, seed=seed)
    raise ConfigError(
        f"no such workload: `{name_or_path}`",
        hint=f"give one of {', '.join(WORKLOADS)}, or the path of a JSONL file of requests",
    )
