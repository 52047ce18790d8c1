"""Pairs of the same request, with values worked out by hand."""

import math
from dataclasses import replace

import pytest

from vivace.measure.compare import compare
from vivace.measure.paired import paired_interval, paired_logs
from vivace.measure.samples import Samples

SLOW = Samples(
    single_ttft_ms=(100.0, 200.0, 400.0), single_tps=(10.0, 20.0, 30.0), single_ids=("a", "b", "c")
)
FAST = Samples(
    single_ttft_ms=(50.0, 100.0, 200.0), single_tps=(15.0, 30.0, 45.0), single_ids=("a", "b", "c")
)


def test_questions_of_different_length_do_not_widen_the_interval():
    ratio = compare(FAST, SLOW, "ttft_p50_ms", seed=0)
    assert ratio is not None
    assert (ratio.ratio, ratio.lo, ratio.hi) == pytest.approx((0.5, 0.5, 0.5))
    assert ratio.proven


def test_speed_is_candidate_over_reference():
    ratio = compare(FAST, SLOW, "tps_single", seed=0)
    assert ratio is not None
    assert ratio.ratio == pytest.approx(1.5)


def test_pairs_are_found_by_request_and_not_by_place():
    turned = Samples(single_ttft_ms=(200.0, 50.0, 100.0), single_ids=("c", "a", "b"))
    assert paired_logs(turned, SLOW, "ttft_p50_ms") == pytest.approx([math.log(0.5)] * 3)


def test_a_request_measured_twice_counts_once_with_its_geometric_mean():
    twice = Samples(single_ttft_ms=(25.0, 100.0, 200.0, 100.0), single_ids=("a", "b", "c", "a"))
    assert paired_logs(twice, SLOW, "ttft_p50_ms") == pytest.approx([math.log(0.5)] * 3)


def test_two_common_requests_are_too_few():
    two = Samples(single_ttft_ms=(50.0, 100.0, 1.0), single_ids=("a", "b", "x"))
    assert paired_logs(two, SLOW, "ttft_p50_ms") is None


def test_values_without_ids_are_compared_unpaired():
    assert paired_logs(replace(FAST, single_ids=()), SLOW, "ttft_p50_ms") is None
    unpaired = compare(replace(FAST, single_ids=()), SLOW, "ttft_p50_ms", seed=0)
    assert unpaired is not None
    assert unpaired.lo < 0.4


def test_only_the_single_phase_is_paired():
    assert paired_logs(FAST, SLOW, "throughput_tps") is None
    assert paired_logs(FAST, SLOW, "ttft_loaded_p50_ms") is None


def test_a_value_of_zero_has_no_logarithm():
    zero = replace(FAST, single_ttft_ms=(0.0, 100.0, 200.0))
    assert paired_logs(zero, SLOW, "ttft_p50_ms") is None


def test_the_interval_is_students_t_on_the_logarithms():
    ratio, lo, hi = paired_interval([0.0, 0.1, 0.2])
    assert ratio == pytest.approx(math.exp(0.1))
    # Standard deviation 0.1, three pairs, t of two degrees of freedom 4.30265.
    reach = 4.30265 * 0.1 / math.sqrt(3)
    assert (lo, hi) == pytest.approx((math.exp(0.1 - reach), math.exp(0.1 + reach)))


def test_noise_between_the_pairs_leaves_a_difference_unproven():
    noisy = replace(FAST, single_ttft_ms=(50.0, 300.0, 200.0))
    ratio = compare(noisy, SLOW, "ttft_p50_ms", seed=0)
    assert ratio is not None
    assert ratio.lo < 1 < ratio.hi
    assert not ratio.proven


def test_speed_is_paired_as_well():
    assert paired_logs(FAST, SLOW, "tps_single") == pytest.approx([math.log(1.5)] * 3)


def test_values_below_one_are_paired():
    tiny = replace(FAST, single_ttft_ms=(0.5, 1.0, 2.0))
    assert paired_logs(tiny, SLOW, "ttft_p50_ms") == pytest.approx([math.log(0.005)] * 3)


def test_an_interval_of_pairs_has_to_leave_one_out():
    for factor, proven in ((1.2, True), (1.0, False), (0.8, True)):
        other = replace(SLOW, single_ttft_ms=(100 * factor, 200 * factor, 400 * factor))
        ratio = compare(other, SLOW, "ttft_p50_ms", seed=0)
        assert ratio is not None
        assert ratio.ratio == pytest.approx(factor)
        assert ratio.proven is proven


def test_a_tie_with_noise_above_one_is_unproven():
    noisy = replace(SLOW, single_ttft_ms=(100.0, 210.0, 400.0))
    ratio = compare(noisy, SLOW, "ttft_p50_ms", seed=0)
    assert ratio is not None
    assert 1 < ratio.hi < 2
    assert not ratio.proven
