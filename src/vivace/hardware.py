"""What this machine has, and how busy it is. Only reads; nothing is measured here."""

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from vivace.errors import ConfigError

#: Instruction sets that matter for inference on CPUs, as Linux spells them.
FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "asimd", "sve")
_CPUINFO = Path("/proc/cpuinfo")
_PRESSURE = Path("/proc/pressure/cpu")
_STAT = Path("/proc/stat")
_CGROUP = Path("/sys/fs/cgroup")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Hardware:
    """The machine. `usable_cores` respects affinity and the cgroup's quota."""

    cpu_model: str
    physical_cores: int
    logical_cores: int
    usable_cores: int
    memory_bytes: int
    features: tuple[str, ...]
    #: Names as `nvidia-smi` gives them; empty where it is not installed.
    gpus: tuple[str, ...]
    os: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Pressure:
    """Counters that only grow: their difference over a block says how disturbed it was.

    `some_us`: time in which a task waited for a CPU. `steal_ticks`: ticks the hypervisor took.
    """

    some_us: int
    steal_ticks: int


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuMark:
    """CPU seconds spent until one moment: by everybody, by the hypervisor's others, by us."""

    t_ns: int
    busy_s: float
    steal_s: float
    own_s: float


def require_platform(system: str | None = None) -> None:
    """Raise `ConfigError` on Windows; Linux and macOS pass."""
    if (system or platform.system()) == "Windows":
        raise ConfigError(
            "vivace does not run on Windows itself",
            hint="install WSL2 (`wsl --install`) and run vivace inside it",
        )


def read_hardware() -> Hardware:
    """This machine, as its operating system describes it."""
    cpuinfo = _read(_CPUINFO) or ""
    logical = psutil.cpu_count() or 1
    return Hardware(
        cpu_model=_cpu_field(cpuinfo, "model name") or platform.processor() or platform.machine(),
        physical_cores=psutil.cpu_count(logical=False) or logical,
        logical_cores=logical,
        usable_cores=usable_cores(logical),
        memory_bytes=min(psutil.virtual_memory().total, _memory_limit() or 2**63),
        features=features(cpuinfo),
        gpus=_gpus(),
        os=f"{platform.system()} {platform.release()}",
    )


def free_memory_bytes() -> int:
    """Memory that new processes may take without swapping, within the cgroup's limit."""
    free = psutil.virtual_memory().available
    limit, used = _memory_limit(), _read(_CGROUP / "memory.current")
    return free if limit is None or used is None else min(free, max(0, limit - int(used)))


def usable_cores(logical: int, quota: str | None = None) -> int:
    """Cores this process may use. `quota` is the text of cgroup v2's `cpu.max`; read if not given."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else logical
    limit, _, period = (quota or _read(_CGROUP / "cpu.max") or "max").strip().partition(" ")
    if limit != "max" and period:
        cores = min(cores, max(1, int(limit) // int(period)))
    return max(1, min(cores, logical))


def features(cpuinfo: str) -> tuple[str, ...]:
    """Those of `FEATURES` that the text of `/proc/cpuinfo` names."""
    flags = _cpu_field(cpuinfo, "flags") or _cpu_field(cpuinfo, "Features") or ""
    present = set(flags.split())
    return tuple(f for f in FEATURES if f in present)


def cpu_pressure() -> Pressure | None:
    """The counters now; `None` where the kernel has none (macOS, or Linux without PSI)."""
    text, stat = _read(_PRESSURE), _read(_STAT)
    return None if text is None else parse_pressure(text, stat or "")


def parse_pressure(pressure: str, stat: str) -> Pressure | None:
    """From the texts of `/proc/pressure/cpu` and `/proc/stat`."""
    some = next((line for line in pressure.splitlines() if line.startswith("some ")), None)
    if some is None:
        return None
    cpu = stat.partition("\n")[0].split()
    # user nice system idle iowait irq softirq steal: the eighth number after `cpu`.
    steal = int(cpu[8]) if len(cpu) > 8 else 0
    return Pressure(some_us=int(some.rpartition("total=")[2]), steal_ticks=steal)


def cpu_mark(pids: Sequence[int]) -> CpuMark | None:
    """Now; `pids` and this process are our own. `None` where the system has no `/proc/stat`."""
    stat = _read(_STAT)
    if stat is None:
        return None
    own_s = 0.0
    for pid in (os.getpid(), *pids):
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.Error:
            continue
        own_s += times.user + times.system
    return parse_mark(stat, own_s=own_s, t_ns=time.perf_counter_ns())


def parse_mark(stat: str, *, own_s: float, t_ns: int) -> CpuMark:
    """From the text of `/proc/stat`: user nice system idle iowait irq softirq steal."""
    ticks = [int(n) for n in stat.partition("\n")[0].split()[1:9]]
    ticks += [0] * (8 - len(ticks))
    user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
    return CpuMark(
        t_ns=t_ns,
        busy_s=(user + nice + system + irq + softirq) / _TICKS,
        steal_s=steal / _TICKS,
        own_s=own_s,
    )


def foreign_share(before: CpuMark, after: CpuMark, *, cores: int) -> float:
    """Share of the machine's CPU time between two marks that others took, 0 to 1."""
    wall_s = (after.t_ns - before.t_ns) / 1e9
    if wall_s <= 0:
        return 0.0
    own_s = after.own_s - before.own_s
    taken_s = after.busy_s - before.busy_s - own_s + after.steal_s - before.steal_s
    return min(1.0, max(0.0, taken_s / (wall_s * cores)))


def child_environment(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for engines.

    Without proxies, for loopback traffic must not go through one; without `LLAMA_ARG_*`, which
    would silently change what is measured.
    """
    source = os.environ if environ is None else environ
    return {
        k: v
        for k, v in source.items()
        if not k.lower().endswith("_proxy") and not k.startswith("LLAMA_ARG_")
    }


def _cpu_field(cpuinfo: str, name: str) -> str | None:
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _memory_limit() -> int | None:
    text = (_read(_CGROUP / "memory.max") or "max").strip()
    return None if text == "max" else int(text)


def _gpus() -> tuple[str, ...]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    command = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(done.stdout.strip().splitlines()) if done.returncode == 0 else ()


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
