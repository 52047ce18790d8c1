"""The peak of a process tree and its split."""

import os

from vivace.core import MemoryUse
from vivace.engines.memory import (
    PeakMemory,
    parse_pss,
    parse_smaps,
    process_bytes,
    split,
    tree_pids,
)


def test_pss_is_read_in_bytes() -> None:
    assert parse_pss("0-1 ---p [rollup]\nRss:  9 kB\nPss:  7 kB\nPss_Dirty: 5 kB\n") == 7168
    assert parse_pss("") == 0


SMAPS = """\
7f00-7f10 r--s 00000000 fe:00 123                        /models/my model.gguf
Size:                 64 kB
Rss:                  40 kB
Pss:                  20 kB
Pss_Dirty:             0 kB
7f20-7f30 rw-p 00000000 00:00 0
Rss:                  10 kB
Pss:                   9 kB
VmFlags: rd wr
7f30-7f40 r-xp 00000000 fe:00 124                        /lib/libc.so
Rss:                   8 kB
Pss:                   1 kB
"""


def test_weights_that_another_engine_shares_count_whole() -> None:
    assert parse_smaps(SMAPS, {"/models/my model.gguf"}) == (40 + 9 + 1) * 1024
    assert parse_smaps(SMAPS, {"/models/other"}) == (20 + 9 + 1) * 1024


def test_the_parts_sum_up_to_the_total() -> None:
    use = split(1000, weights=300, kv=100, kv_allocated=500)
    assert use == MemoryUse(total=1000, weights=300, kv=100, other=600, reserved=400)


def test_the_parts_sum_up_when_not_all_weights_are_resident() -> None:
    use = split(250, weights=300, kv=100, kv_allocated=100)
    assert use == MemoryUse(total=250, weights=150, kv=100, other=0, reserved=0)


def test_a_process_of_this_machine_has_memory_and_a_missing_one_none() -> None:
    assert process_bytes(os.getpid()) > 2**20
    assert process_bytes(2**22 + 1) == 0


def test_the_tree_begins_with_the_process_itself() -> None:
    assert tree_pids(os.getpid())[0] == os.getpid()


def test_the_peak_never_falls_and_an_earlier_one_counts() -> None:
    memory = PeakMemory(os.getpid(), peak=2**60)
    try:
        assert memory.read() == 2**60
    finally:
        memory.stop()
    memory.stop()
