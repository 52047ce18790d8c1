"""Scores and floors, with values worked out by hand."""

import math

import pytest

from vivace.core import Metric, Ratio
from vivace.study.goal import FLOOR, below_floor, endpoints, gain, losses, score


def ratio(value: float, lo: float | None = None, hi: float | None = None) -> Ratio:
    lo, hi = lo or value, hi or value
    return Ratio(ratio=value, lo=lo, hi=hi, proven=lo > 1 or hi < 1)


def test_a_gain_in_time_is_turned_round_with_its_interval():
    turned = gain("ttft_p50_ms", ratio(0.5, 0.4, 0.8))
    assert (turned.ratio, turned.lo, turned.hi) == (2.0, 1.25, 2.5)
    assert turned.proven


def test_a_gain_in_speed_stays_as_it_is():
    same = ratio(1.5, 1.2, 1.8)
    assert gain("tps_single", same) is same
    assert gain("throughput_tps", same) is same


def test_less_memory_is_a_gain():
    assert gain("memory_bytes", ratio(0.5)).ratio == 2.0


def test_balanced_is_the_geometric_mean_of_three_gains():
    ratios: dict[Metric, Ratio] = {
        "ttft_p50_ms": ratio(0.25),
        "tps_single": ratio(2.0),
        "throughput_tps": ratio(1.0),
        "memory_bytes": ratio(9.0),
    }
    total = score("balanced", ratios)
    assert total is not None
    assert total.ratio == pytest.approx(2.0)
    assert (total.lo, total.hi) == pytest.approx((2.0, 2.0))


def test_half_widths_of_one_requests_metrics_add_up_on_the_log_scale():
    ratios: dict[Metric, Ratio] = {
        "ttft_p50_ms": ratio(1.0, 0.5, 2.0),
        "tps_single": ratio(1.0, 0.5, 4.0),
    }
    total = score("latency", ratios)
    assert total is not None
    # Down: TTFT can be 2x worse, TPS 2x worse; up: TTFT 2x better, TPS 4x better.
    assert math.log(total.lo) == pytest.approx(-2 * math.log(2) / 2)
    assert math.log(total.hi) == pytest.approx(3 * math.log(2) / 2)
    assert not total.proven


def test_the_loads_half_width_joins_them_in_quadrature():
    ratios: dict[Metric, Ratio] = {
        "ttft_p50_ms": ratio(1.0, 0.5, 2.0),
        "tps_single": ratio(1.0, 0.5, 2.0),
        "throughput_tps": ratio(1.0, 0.5, 2.0),
    }
    total = score("balanced", ratios)
    assert total is not None
    assert math.log(total.hi) == pytest.approx(math.sqrt(2**2 + 1) * math.log(2) / 3)


def test_a_score_is_proven_when_its_interval_excludes_one():
    up = score("throughput", {"throughput_tps": ratio(1.2, 1.01, 1.4)})
    down = score("throughput", {"throughput_tps": ratio(0.8, 0.7, 0.99)})
    unclear = score("throughput", {"throughput_tps": ratio(1.2, 1.0, 1.4)})
    assert up is not None and up.proven
    assert down is not None and down.proven
    assert unclear is not None and not unclear.proven


def test_a_ratio_without_an_interval_leaves_the_score_unproven():
    lone = Ratio(ratio=3.0, lo=3.0, hi=3.0, proven=False)
    total = score("balanced", {"tps_single": lone})
    assert total is not None
    assert (total.lo, total.hi) == pytest.approx((1.0, 3.0))
    assert not total.proven


def test_only_what_was_measured_is_scored():
    total = score("balanced", {"tps_single": ratio(4.0)})
    assert total is not None
    assert total.ratio == pytest.approx(4.0)


def test_a_score_can_be_narrowed_to_some_metrics():
    ratios: dict[Metric, Ratio] = {"tps_single": ratio(4.0), "throughput_tps": ratio(0.1)}
    total = score("balanced", ratios, ("ttft_p50_ms", "tps_single"))
    assert total is not None
    assert total.ratio == pytest.approx(4.0)


def test_nothing_measured_scores_nothing():
    assert score("throughput", {"tps_single": ratio(2.0)}) is None
    assert score("latency", {"throughput_tps": ratio(2.0)}) is None


@pytest.mark.parametrize(
    ("goal", "metric"), [("throughput", "throughput_tps"), ("memory", "memory_bytes")]
)
def test_each_goal_scores_its_own_metric(goal, metric: Metric):
    assert score(goal, {metric: ratio(0.5)}) is not None
    assert score(goal, {"tps_single": ratio(0.5)}) is None


def test_a_proven_loss_beyond_the_floor_is_named():
    lost = losses({"tps_single": ratio(0.9, 0.85, FLOOR - 0.001)}, {})
    assert lost == ["tps_single"]


def test_a_loss_whose_interval_reaches_the_floor_is_not_proven():
    assert losses({"tps_single": ratio(0.9, 0.85, FLOOR)}, {}) == []


def test_a_loss_is_allowed_while_the_engine_default_is_still_matched():
    previous: dict[Metric, Ratio] = {"ttft_p50_ms": ratio(1.5, 1.4, 1.6)}
    assert losses(previous, {"ttft_p50_ms": ratio(1.0)}) == []
    assert losses(previous, {"ttft_p50_ms": ratio(1.2)}) == ["ttft_p50_ms"]


def test_memory_is_no_speed():
    assert losses({"memory_bytes": ratio(3.0)}, {}) == []
    assert below_floor({"memory_bytes": ratio(3.0)}, proven=True) == []


def test_a_winner_below_the_floor_of_the_default_is_seen_in_every_speed():
    vs_default: dict[Metric, Ratio] = {
        "ttft_p50_ms": ratio(1.06),
        "tps_single": ratio(FLOOR),
        "throughput_tps": ratio(0.94),
    }
    assert below_floor(vs_default, proven=True) == ["ttft_p50_ms", "throughput_tps"]


def test_a_gain_is_proven_in_what_the_lever_attacks_of_the_goal():
    assert endpoints("balanced", ("tps_single", "memory_bytes")) == ("tps_single",)
    assert endpoints("throughput", ("throughput_tps", "tps_single")) == ("throughput_tps",)
    # One that attacks nothing of it has to gain in all of it.
    assert endpoints("latency", ("throughput_tps",)) == ("ttft_p50_ms", "tps_single")
    assert endpoints("latency", ()) == ("ttft_p50_ms", "tps_single")


def test_below_the_floor_within_the_noise_is_told_and_does_not_decide():
    vs_default: dict[Metric, Ratio] = {
        "ttft_p50_ms": ratio(1.1, 0.9, 1.4),
        "tps_single": ratio(0.9, 0.85, 0.99),
        "throughput_tps": ratio(0.96, 0.8, 1.1),
    }
    assert below_floor(vs_default, proven=True) == ["tps_single"]
    assert below_floor(vs_default, proven=False) == ["ttft_p50_ms"]
