import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivace.measure.percentile import percentile, waiting_percentile

times = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=40)
shares = st.floats(0, 100)


def of(served: list[float], waiting: list[float], q: float) -> float:
    values = np.array([*served, *waiting], dtype=float)
    flags = np.array([False] * len(served) + [True] * len(waiting))
    return float(waiting_percentile(values, flags, q))


def test_no_values_have_no_percentile():
    assert percentile([], 50) is None


def test_rank_is_linear_between_the_two_nearest():
    # rank (4 - 1) * 0.95 = 2.85: 0.85 of the way from the third to the fourth
    assert percentile([40, 10, 30, 20], 95) == pytest.approx(38.5)
    assert percentile([40, 10, 30, 20], 50) == 25
    assert percentile([40, 10, 30, 20], 0) == 10
    assert percentile([40, 10, 30, 20], 100) == 40


@given(times, shares)
def test_percentile_lies_between_neighbours_of_its_rank(values: list[float], q: float):
    found = percentile(values, q)
    ordered = sorted(values)
    rank = (len(values) - 1) * q / 100
    assert found is not None
    assert ordered[int(rank)] * (1 - 1e-12) <= found
    assert found <= ordered[min(int(rank) + 1, len(values) - 1)] * (1 + 1e-12)


@given(times, shares, st.floats(0.01, 100))
def test_percentile_scales_with_its_values(values: list[float], q: float, scale: float):
    once = percentile(values, q)
    assert once is not None
    assert percentile([v * scale for v in values], q) == pytest.approx(once * scale)


@given(times, shares)
def test_without_waiting_requests_it_is_the_plain_percentile(values: list[float], q: float):
    assert of(values, [], q) == pytest.approx(percentile(values, q))


@given(times, shares)
def test_requests_that_were_just_sent_change_the_ranks_only(values: list[float], q: float):
    # Weights n/served each, all before the first served one: the range stays that of the served.
    found = of(values, [0.0, 0.0], q)
    assert min(values) * (1 - 1e-9) <= found <= max(values) * (1 + 1e-9)


def test_mass_of_a_waiting_request_goes_to_the_slower_ones():
    # 10 | waiting since 15 | 20 30: 20 and 30 weigh 1.5 each and begin at ranks 1 and 2.5.
    # The median's rank is 1.5, a third of the way from 20 to 30.
    assert of([10, 20, 30], [15], 50) == pytest.approx(20 + 10 / 3)
    # rank 0.75 is three quarters of the way from 10 (rank 0) to 20 (rank 1)
    assert of([10, 20, 30], [15], 25) == pytest.approx(17.5)
    # rank 2.85 lies behind 2.5, where the last begins
    assert of([10, 20, 30], [15], 95) == 30


def test_a_tie_counts_the_served_one_first():
    # 10 10+ 20 30, in this order: as if the waiting one had waited a little longer than 10.
    assert of([10, 20, 30], [10], 50) == of([10, 20, 30], [10.001], 50)
    assert of([10, 20, 30], [10], 50) != of([10, 20, 30], [9.999], 50)


def test_who_waited_longest_counts_with_the_age():
    # ranks 0 1 2 3 of 10, 20, 40+, 80+
    assert of([10, 20], [40, 80], 50) == pytest.approx(30)
    assert of([10, 20], [40, 80], 100) == 80
    assert of([], [5, 7], 50) == 6


def test_a_waiting_request_as_old_as_the_slowest_served_counts_with_its_age():
    assert of([10, 20], [20], 100) == 20
    assert of([10, 20], [20], 75) == 20


def test_rows_are_computed_one_by_one():
    values = np.array([[10.0, 20, 30, 15], [10, 20, 25, 80]])
    flags = np.array([[False, False, False, True], [False, False, True, True]])
    found = waiting_percentile(values, flags, 50)
    assert found.tolist() == pytest.approx([20 + 10 / 3, 22.5])


def test_estimate_of_waiting_times_is_not_dragged_down_by_fresh_requests():
    # True waits are exponential with median ln 2; watched for a time that is cut at random.
    rng = np.random.default_rng(3)
    true = rng.exponential(1.0, 4000)
    cut = rng.uniform(0, 2.5, 4000)
    found = float(waiting_percentile(np.minimum(true, cut), true > cut, 50))
    assert found == pytest.approx(np.log(2), rel=0.06)
    assert np.percentile(np.minimum(true, cut), 50) < 0.8 * np.log(2)
