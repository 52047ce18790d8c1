"""Named warnings for what is not fair, and blocks that others disturb."""

from dataclasses import replace
from pathlib import Path

import pytest

from vivace.core import EngineState, Piece, Record, ServingConfig, Usage
from vivace.hardware import CpuMark
from vivace.measure.samples import Samples
from vivace.study.drift import check_drift
from vivace.study.fairness import check_answers, check_block, check_failed, check_lengths

from .test_bench import FAST, Case, ask, make

OFF = ServingConfig(prefix_cache=False)


def records(*tokens: int, failed: int = 0) -> list[Record]:
    good = [
        Record(
            request_id=f"q{n}", sent_ns=0, end_ns=1, status="ok", usage=Usage(completion_tokens=t)
        )
        for n, t in enumerate(tokens)
    ]
    bad = [Record(request_id="x", sent_ns=0, end_ns=1, status="error")] * failed
    return good + bad


def state(output: float | None = 0.0, cached: float | None = 0.0) -> EngineState:
    return EngineState(t_ns=0, output_tokens_total=output, cached_tokens_total=cached)


def codes(found: list[tuple[str, str]]) -> list[str]:
    return [code for code, _ in found]


def test_what_is_as_it_should_be_has_no_warning():
    assert check_block("t", OFF, records(64, 64), state(), state(128)) == []
    # An end-of-sequence token for each request is counted by one side only.
    assert check_block("t", OFF, records(64, 64), state(), state(130)) == []
    assert check_block("t", OFF, records(64, 64), state(None, None), state(None, None)) == []


def test_tokens_that_only_one_side_counted_are_named():
    ((code, words),) = check_block("t", OFF, records(64, 64), state(), state(131))
    assert code == "token_count"
    assert "131" in words
    assert "128" in words


def test_failed_requests_are_counted_and_their_tokens_are_not_compared():
    ((code, words),) = check_block("t", OFF, records(64, failed=2), state(), state(999))
    assert code == "failed_requests"
    assert "2 of 3" in words


def test_a_cache_that_should_be_off_is_named():
    on = replace(OFF, prefix_cache=True)
    found = check_block("t", OFF, records(64), state(), state(64, 1000))
    assert codes(found) == ["cache_not_off"]
    assert check_block("t", on, records(64), state(), state(64, 1000)) == []


@pytest.mark.parametrize(
    ("mine", "fair"), [((64, 64), True), ((61, 61), True), ((60, 60), False), ((68, 68), False)]
)
def test_answers_of_another_length_are_named(mine: tuple[int, ...], fair: bool):
    assert codes(check_lengths("t", mine, (64, 64))) == ([] if fair else ["output_lengths"])


def test_lengths_that_are_not_known_are_not_compared():
    assert check_lengths("t", (), (64,)) == check_lengths("t", (64,), ()) == []


def disturb(case: Case, shares: list[float]) -> None:
    """Others take these shares of both cores in the next blocks, then none."""
    clock, busy_s, begin_s = case.engine.clock, 0.0, 0.0
    marks = 0

    def mark(_pids: object) -> CpuMark:
        nonlocal busy_s, begin_s, marks
        if marks % 2:
            share = shares.pop(0) if shares else 0.0
            busy_s += share * 2 * (clock.now_s() - begin_s)
        begin_s = clock.now_s()
        marks += 1
        return CpuMark(t_ns=clock.now_ns(), busy_s=busy_s, steal_s=0.0, own_s=0.0)

    case.bench.tools = replace(case.bench.tools, cpu_mark=mark)


def test_a_disturbed_block_is_measured_again_and_the_quiet_one_counts(tmp_path: Path):
    case = make(tmp_path)
    disturb(case, [0.5])
    measured = case.bench.run(ask(FAST, levels=()))
    assert measured.foreign_shares == [0.0, 0.0]
    assert measured.notes == []
    assert len(measured.single_blocks) == 2
    assert len([phase for phase, _ in measured.records if phase == "single"]) == 9


def test_the_second_attempt_asks_the_same_under_the_same_names(tmp_path: Path):
    case = make(tmp_path)
    disturb(case, [0.5])
    measured = case.bench.run(ask(FAST, levels=()))
    names = [r.request_id for phase, r in measured.records if phase == "single"]
    assert names[:3] == names[3:6]
    assert measured.samples.single_ids == tuple(names[3:])


def test_what_stays_disturbed_is_used_with_a_warning(tmp_path: Path):
    case = make(tmp_path)
    disturb(case, [0.5, 0.3])
    measured = case.bench.run(ask(FAST, levels=()))
    assert measured.foreign_shares == [0.3, 0.0]
    ((code, words),) = measured.notes
    assert code == "disturbed"
    assert "30%" in words


def test_there_is_no_second_attempt_when_time_is_short(tmp_path: Path):
    case = make(tmp_path)
    disturb(case, [0.5])
    measured = case.bench.run(ask(FAST, levels=(), deadline_ns=round(12e9)))
    assert measured.foreign_shares[0] == 0.5


def test_a_cache_that_gives_nothing_is_named_where_requests_begin_alike():
    on = replace(OFF, prefix_cache=True)
    found = check_block("t", on, records(64), state(), state(64, 0), shared=True)
    assert codes(found) == ["cache_not_used"]
    assert check_block("t", on, records(64), state(), state(64, 0), shared=False) == []
    # An engine that does not count cached tokens says nothing.
    assert (
        check_block("t", on, records(64), state(None, None), state(None, None), shared=True) == []
    )


def test_failures_under_load_are_counted():
    ((code, words),) = check_failed("t, load-16", records(64, failed=1))
    assert (code, words) == ("failed_requests", "`t, load-16`: 1 of 2 requests failed")
    assert check_failed("t", records(64)) == []


def test_a_trial_that_becomes_slower_or_faster_is_named():
    even = (50.0, 51.0, 49.0, 50.5, 49.5, 50.0, 50.2, 49.8)
    slower = (*even, *(v * 0.7 for v in even))
    ((code, words),) = check_drift("t", Samples(single_tps=slower))
    assert code == "drift"
    assert words == "`t`, single requests: the second half was 0.70x as fast as the first"
    assert check_drift("t", Samples(single_tps=(*even, *even))) == []
    assert check_drift("t", Samples(single_tps=(*even, *(v * 1.05 for v in even)))) == []
    cycles = tuple((64.0, 1.0 + 0.01 * (n % 3)) for n in range(40))
    faster = (*cycles, *((64.0, seconds / 1.5) for _, seconds in cycles))
    ((code, words),) = check_drift("t", Samples(cycles=faster))
    assert "load: the second half was 1.50x" in words
    assert check_drift("t", Samples()) == []
    assert check_drift("t", Samples(single_tps=(50.0,))) == []


def test_some_empty_answers_among_others_are_named():
    good = Record(
        request_id="a",
        sent_ns=0,
        end_ns=1,
        status="ok",
        pieces=(Piece(t_ns=1, kind="content", text="yes"),),
    )
    empty = Record(request_id="b", sent_ns=0, end_ns=1, status="ok")
    ((code, words),) = check_answers("t", [good, empty, good])
    assert (code, words) == ("wrong_output", "`t`: empty answer in 1 of 3 answers")
    assert check_answers("t", [good]) == []
    assert check_answers("t", []) == []
