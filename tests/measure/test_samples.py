import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from measure.build import record
from vivace.core import Record
from vivace.errors import ConfigError
from vivace.measure.samples import Samples, loaded_samples, merge, single_samples
from vivace.measure.slo import Slo
from vivace.measure.tokens import piece_tokens, token_arrivals

MS = 1_000_000


def loaded(
    *records: Record,
    window: tuple[float, float] = (1000, 3000),
    concurrency: int = 1,
    **rest: float,
):
    ends = (round(window[0] * MS), round(window[1] * MS))
    return loaded_samples(
        records, window_ns=ends, concurrency=concurrency, slo=Slo(), busy_share=rest.get("busy")
    )


def test_single_requests_give_ttft_and_tokens_per_second():
    # sent 100, first 350, last 750, 9 tokens: TPOT 400 / 8 = 50 ms, 20 tokens a second
    found = single_samples([record(sent=100, pieces=[350, 500, 750], tokens=9)])
    assert found.single_ttft_ms == (250,)
    assert found.single_tps == (20,)
    assert found.output_tokens == (9,)
    assert (found.sent, found.failed) == (1, 0)
    assert found.cold_ttft_ms is None
    assert found.window_s is None


def test_names_of_the_timed_requests_are_kept_for_pairing():
    found = single_samples(
        [
            record(name="a", pieces=[1, 2], tokens=2),
            record(name="b", end=3),
            record(name="c", pieces=[1], status="error"),
            record(name="d", pieces=[4], tokens=1),
        ]
    )
    assert found.single_ids == ("a", "d")
    assert len(found.single_ids) == len(found.single_ttft_ms)
    assert merge(found, found).single_ids == ("a", "d", "a", "d")


def test_one_token_has_a_ttft_and_no_speed():
    found = single_samples([record(pieces=[20], tokens=1)])
    assert found.single_ttft_ms == (20,)
    assert found.single_tps == ()


def test_tokens_that_came_at_one_instant_have_no_speed():
    assert single_samples([record(pieces=[20, 20], tokens=2)]).single_tps == ()


@pytest.mark.parametrize("status", ["error", "stalled", "incomplete"])
def test_failed_single_requests_are_counted_and_not_timed(status):
    found = single_samples([record(pieces=[10, 20], tokens=2, status=status)])
    assert found == Samples(failed=1, sent=1)


def test_a_cancelled_single_request_is_neither_failed_nor_timed():
    assert single_samples([record(pieces=[10], status="cancelled")]) == Samples(sent=1)


def test_an_answer_without_output_is_sent_and_not_timed():
    assert single_samples([record(end=10)]) == Samples(sent=1)


def test_cold_request_stands_apart():
    cold = record(sent=5, pieces=[905, 950], tokens=2)
    warm = record(pieces=[20, 40], tokens=2)
    found = single_samples([warm], cold=cold)
    assert found.cold_ttft_ms == 900
    assert found.single_ttft_ms == (20,)
    assert (found.sent, found.failed) == (2, 0)


def test_failed_cold_request_is_counted_and_not_timed():
    found = single_samples([], cold=record(pieces=[10], status="error"))
    assert found == Samples(failed=1, sent=1)


def test_tokens_of_a_piece_come_from_its_cumulative_count():
    assert piece_tokens(record(pieces=[1, 2, 3], counts=[2, 3, 7], tokens=99)) == [2, 1, 4]


def test_tokens_without_counts_are_shares_of_the_total():
    assert piece_tokens(record(pieces=[1, 2, 3, 4], tokens=6)) == [1.5] * 4
    # a count at the end alone would put every token there
    assert piece_tokens(record(pieces=[1, 2], counts=[None, 6], tokens=6)) == [3, 3]


def test_tokens_without_any_count_are_the_usual_ones():
    assert piece_tokens(record(pieces=[1, 2])) == [1, 1]
    assert piece_tokens(record(pieces=[1, 2]), usual=2.5) == [2.5, 2.5]
    assert piece_tokens(record(end=5, tokens=3)) == []


def test_a_cancelled_request_brings_as_many_tokens_a_piece_as_the_others():
    done = [record(pieces=[1, 2], tokens=6), record(pieces=[3, 4], tokens=2), record(end=9)]
    silent = record(pieces=[5], tokens=0)
    cancelled = record(pieces=[6, 7], status="cancelled")
    times, tokens = token_arrivals([*done, silent, cancelled])
    assert (times / MS).tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert tokens.tolist() == [3, 3, 1, 1, 0, 2, 2]


def test_nobody_tells_counts_then_a_piece_is_a_token():
    _, tokens = token_arrivals([record(pieces=[1, 2], status="cancelled")])
    assert tokens.tolist() == [1, 1]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=20))
def test_no_token_is_lost_or_counted_twice(steps: list[int]):
    counts = np.cumsum(steps).tolist()
    pieces = list(range(1, len(steps) + 1))
    assert sum(piece_tokens(record(pieces=pieces, counts=counts))) == sum(steps)


def test_window_is_cut_at_every_end_of_an_answer():
    # One after the other: ends at 1000 (the opening), 1500, 3000 (the closing).
    found = loaded(
        record(pieces=[800, 1000], tokens=2),
        record(sent=1000, pieces=[1200, 1300, 1500], tokens=3),
        record(sent=1500, pieces=[2000, 2500, 2600, 2800, 3000], tokens=5),
        record(sent=3000, pieces=[3001], status="cancelled", end=3002),
    )
    assert found.cycles == ((3, 0.5), (5, 1.5))
    assert found.window_s == 2
    assert found.in_flight_share == pytest.approx(1)


def test_a_piece_of_several_tokens_counts_them_all():
    found = loaded(
        record(pieces=[900, 1500, 2000], counts=[1, 4, 9], tokens=9),
        record(sent=2000, pieces=[2500, 3000], tokens=7),
    )
    assert found.cycles == ((8, 1), (7, 1))


def test_token_at_the_opening_is_outside_and_at_the_closing_inside():
    found = loaded(record(pieces=[1000, 1000.001, 3000, 3000.001], counts=[1, 2, 3, 4]))
    assert found.cycles == ((2, 2),)


def test_tokens_after_the_last_end_belong_to_the_rest_of_the_window():
    found = loaded(
        record(pieces=[1100, 1500], tokens=2),
        record(sent=1500, pieces=[1700, 3500], status="cancelled"),
    )
    assert found.cycles == ((2, 0.5), (1, 1.5))


def test_two_ends_at_one_instant_make_one_cut():
    both = record(pieces=[1500, 2000], tokens=2)
    assert loaded(both, both).cycles == ((4, 1), (0, 1))


def test_failures_cut_nothing_and_bring_no_tokens():
    broken = record(sent=900, pieces=[1100, 1200], end=1300, status="error")
    late = record(sent=3100, end=3200, status="stalled")
    found = loaded(broken, late, record(pieces=[1500], tokens=1))
    assert found.cycles == ((1, 0.5), (0, 1.5))
    assert found.loaded_ttft_ms == (1500,)
    assert (found.failed, found.sent) == (2, 3)
    assert found.good == (0, 0)  # the first failed, the second took too long


def test_ttft_counts_where_the_first_token_came_inside():
    found = loaded(
        record(sent=100, pieces=[1000, 2000], tokens=2),
        record(sent=200, pieces=[1000.001, 2000], tokens=2),
        record(sent=300, pieces=[3000], status="cancelled"),
        record(sent=400, pieces=[3000.001], status="cancelled"),
    )
    assert found.loaded_ttft_ms == (pytest.approx(800.001), 2700)


def test_age_is_told_of_requests_without_a_first_token_at_the_closing():
    found = loaded(
        record(sent=500, end=3000, status="cancelled"),
        record(sent=2990, pieces=[3000.001], end=3400, tokens=1),
        record(sent=2000, pieces=[3000], end=3400, tokens=1),
        record(sent=3000, end=3100, status="cancelled"),
        record(sent=2999, end=3100, status="error"),
        record(sent=100, end=3000),
        record(sent=100, end=2000),
    )
    assert found.loaded_waiting_ms == (2500, 10)


def test_tpot_counts_where_the_answer_ended_inside():
    def with_end(end: float, status: str = "ok") -> Record:
        return record(pieces=[end - 200, end], tokens=5, status=status)  # type: ignore[arg-type]

    assert loaded(with_end(1000)).loaded_tpot_ms == ()
    assert loaded(with_end(1000.001)).loaded_tpot_ms == (50,)
    assert loaded(with_end(3000)).loaded_tpot_ms == (50,)
    assert loaded(with_end(3000.001)).loaded_tpot_ms == ()
    assert loaded(with_end(2000, "cancelled")).loaded_tpot_ms == ()
    assert loaded(with_end(2000, "stalled")).loaded_tpot_ms == ()
    assert loaded(record(pieces=[2000], tokens=1)).loaded_tpot_ms == ()
    assert loaded(with_end(2000)).output_tokens == (5,)


def test_every_request_that_ended_inside_is_good_or_not():
    found = loaded(
        record(sent=2000, pieces=[2500], tokens=1),  # good
        record(sent=100, pieces=[1500], tokens=1),  # TTFT 1,400 ms
        record(sent=900, pieces=[1100], end=1200, status="incomplete"),
        record(sent=2400, pieces=[2600], end=2900, status="cancelled"),  # the load's own doing
        record(sent=900, pieces=[950], end=1000, tokens=1),  # ended with the opening
    )
    # in the order of their ends: 1200, 1500, 2500; the rest of the window goes to the last
    assert found.good == (0, 0, 1)
    assert found.good_gaps_s == (0.2, 0.3, 1.5)


def test_nothing_ended_then_nothing_is_judged():
    found = loaded(record(sent=900, pieces=[1100], end=3100, status="cancelled"))
    assert found.good == found.good_gaps_s == ()
    assert found.cycles == ((1, 2),)


def test_in_flight_share_is_the_overlap_with_the_window():
    found = loaded(
        record(sent=0, pieces=[5000], end=5000, status="cancelled"),  # 2 s
        record(sent=1500, pieces=[2000], end=2000, tokens=1),  # 0.5 s
        record(sent=0, pieces=[500], end=900, tokens=1),
        record(sent=3100, end=3500, status="cancelled"),
        concurrency=2,
    )
    assert found.in_flight_share == 2.5 / 2 / 2


def test_engine_account_of_busy_slots_travels_along():
    assert loaded(record(pieces=[1500]), busy=0.75).busy_share == 0.75
    assert loaded(record(pieces=[1500])).busy_share is None


@pytest.mark.parametrize("end", [1000, 999])
def test_an_empty_window_is_refused(end: float):
    with pytest.raises(ConfigError, match=r"^the window must end after its start, got 1000000000"):
        loaded(window=(1000, end))


def test_merged_parts_join_samples_and_add_counts():
    one = Samples(
        cold_ttft_ms=100,
        single_ttft_ms=(1,),
        single_tps=(2,),
        loaded_ttft_ms=(3,),
        loaded_waiting_ms=(4,),
        loaded_tpot_ms=(5,),
        cycles=((6, 7),),
        good=(1,),
        good_gaps_s=(8,),
        window_s=9,
        failed=10,
        sent=11,
        output_tokens=(12,),
        in_flight_share=0.5,
        busy_share=0.25,
    )
    other = Samples(
        cold_ttft_ms=300,
        single_ttft_ms=(21,),
        single_tps=(22,),
        loaded_ttft_ms=(23,),
        loaded_waiting_ms=(24,),
        loaded_tpot_ms=(25,),
        cycles=((26, 27),),
        good=(0,),
        good_gaps_s=(28,),
        window_s=29,
        failed=30,
        sent=31,
        output_tokens=(32,),
        in_flight_share=1.0,
        busy_share=0.75,
    )
    assert merge(one, other) == Samples(
        cold_ttft_ms=200,
        single_ttft_ms=(1, 21),
        single_tps=(2, 22),
        loaded_ttft_ms=(3, 23),
        loaded_waiting_ms=(4, 24),
        loaded_tpot_ms=(5, 25),
        cycles=((6, 7), (26, 27)),
        good=(1, 0),
        good_gaps_s=(8, 28),
        window_s=38,
        failed=40,
        sent=42,
        output_tokens=(12, 32),
        in_flight_share=0.75,
        busy_share=0.5,
    )
    assert merge(one, Samples()) == one
    assert merge() == Samples()


def test_samples_come_back_from_json():
    samples = loaded(
        record(pieces=[1500, 2000], tokens=2), record(sent=2000, end=3500, status="cancelled")
    )
    assert msgspec.json.decode(msgspec.json.encode(samples), type=Samples) == samples
