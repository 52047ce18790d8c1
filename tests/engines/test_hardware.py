"""The machine, and what is handed to engines."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from vivace.errors import ConfigError
from vivace.hardware import (
    CpuMark,
    Pressure,
    child_environment,
    cpu_mark,
    cpu_pressure,
    features,
    foreign_share,
    parse_mark,
    parse_pressure,
    read_hardware,
    require_platform,
    usable_cores,
)


def test_windows_is_sent_to_wsl2() -> None:
    with pytest.raises(ConfigError) as told:
        require_platform("Windows")
    assert "WSL2" in told.value.hint
    require_platform("Linux")
    require_platform("Darwin")


def test_this_machine_is_described() -> None:
    hardware = read_hardware()
    assert 1 <= hardware.usable_cores <= hardware.logical_cores
    assert 1 <= hardware.physical_cores <= hardware.logical_cores
    assert hardware.memory_bytes > 2**28
    assert hardware.cpu_model
    assert hardware.os


def test_a_quota_limits_the_usable_cores() -> None:
    everything = usable_cores(64, "max 100000")
    assert everything >= 1
    assert usable_cores(64, "100000 100000") == 1
    assert usable_cores(64, "50000 100000") == 1
    assert usable_cores(64, "6400000 100000") == everything
    assert usable_cores(1, "max 100000") == 1


def test_instruction_sets_are_whole_words() -> None:
    assert features("model name\t: X\nflags\t\t: fpu avx2 avx512fx sse\n") == ("avx2",)
    assert features("Features\t: fp asimd\n") == ("asimd",)
    assert features("") == ()


def test_pressure_and_steal_are_read() -> None:
    pressure = "some avg10=1.53 avg60=0.87 avg300=0.73 total=3157622151\nfull avg10=0 total=9\n"
    stat = "cpu  10 20 30 40 50 60 70 80 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"
    assert parse_pressure(pressure, stat) == Pressure(some_us=3157622151, steal_ticks=80)
    assert parse_pressure("", stat) is None


@pytest.mark.skipif(not Path("/proc/pressure/cpu").exists(), reason="a kernel without PSI")
def test_the_pressure_of_this_machine_only_grows() -> None:
    first, second = cpu_pressure(), cpu_pressure()
    assert first is not None
    assert second is not None
    assert second.some_us >= first.some_us > 0


def test_engines_get_no_proxy_and_no_settings_from_outside() -> None:
    environ = {"PATH": "/bin", "http_proxy": "x", "HTTPS_PROXY": "x", "LLAMA_ARG_CTX_SIZE": "1"}
    assert child_environment(environ) == {"PATH": "/bin"}


def test_the_environment_of_this_process_is_the_default() -> None:
    assert child_environment()["PATH"] == os.environ["PATH"]


STAT = "cpu  1000 200 300 4000 50 10 20 70 0 0\ncpu0 1 2 3\n"


def test_cpu_time_is_what_is_neither_idle_nor_stolen() -> None:
    mark = parse_mark(STAT, own_s=3.0, t_ns=7)
    assert mark.busy_s == pytest.approx((1000 + 200 + 300 + 10 + 20) / os.sysconf("SC_CLK_TCK"))
    assert mark.steal_s == pytest.approx(70 / os.sysconf("SC_CLK_TCK"))
    assert (mark.own_s, mark.t_ns) == (3.0, 7)


def test_an_old_kernel_without_steal_has_none() -> None:
    assert parse_mark("cpu 1 2 3 4\n", own_s=0, t_ns=0).steal_s == 0


def test_foreign_time_is_what_is_not_ours_as_a_share_of_all_cores() -> None:
    before = CpuMark(t_ns=0, busy_s=100, steal_s=10, own_s=50)
    after = CpuMark(t_ns=10_000_000_000, busy_s=116, steal_s=12, own_s=62)
    # 16 s busy of which 12 are ours, and 2 stolen: 6 of 20 core seconds.
    assert foreign_share(before, after, cores=2) == pytest.approx(0.3)
    assert foreign_share(before, before, cores=2) == 0.0
    assert foreign_share(before, replace(after, own_s=99), cores=2) == 0.0


def test_a_mark_of_this_machine_counts_this_process() -> None:
    mark = cpu_mark([2**22 + 1])
    assert mark is None or mark.own_s > 0
