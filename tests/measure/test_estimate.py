from dataclasses import replace

import pytest

from vivace.core import LOWER_IS_BETTER, METRICS, Estimate, MemoryUse
from vivace.errors import ConfigError
from vivace.measure.estimate import estimate
from vivace.measure.metrics import DEFINITIONS
from vivace.measure.row import make_row
from vivace.measure.samples import Samples

FULL = Samples(
    cold_ttft_ms=4000,
    single_ttft_ms=(100, 120, 110, 130, 300, 90, 105),
    single_tps=(50, 40, 60, 55),
    loaded_ttft_ms=(400, 200, 300, 500),
    loaded_tpot_ms=(10, 20, 30, 40, 50),
    cycles=((30, 0.5), (50, 1.5), (40, 2)),
    good=(1, 0, 1),
    good_gaps_s=(0.5, 1.5, 2),
    window_s=4,
    sent=30,
)

#: tag -> unit, lower is better, the value of FULL worked out by hand, samples it rests on.
TABLE = {
    "ttft_p50_ms": ("ms", True, 110, 7),  # 90 100 105 *110* 120 130 300
    "tps_single": ("tokens/s", False, 52.5, 4),  # 40 *50 55* 60
    "ttft_cold_ms": ("ms", True, 4000, 1),
    "ttft_loaded_p50_ms": ("ms", True, 350, 4),  # 200 *300 400* 500
    "ttft_loaded_p95_ms": ("ms", True, 485, 4),  # rank 2.85: 400 + 0.85 * 100
    "tpot_p95_ms": ("ms", True, 48, 5),  # rank 3.8: 40 + 0.8 * 10
    "throughput_tps": ("tokens/s", False, 30, 3),  # 120 tokens / 4 s
    "goodput_rps": ("requests/s", False, 0.5, 3),  # 2 good / 4 s
}
#: tag -> what is said when there is nothing to compute it from.
ABSENT = {
    "ttft_p50_ms": "no single request was answered",
    "tps_single": "no single request had two tokens to time",
    "ttft_cold_ms": "no request was sent to a cold engine",
    "ttft_loaded_p50_ms": "nothing was measured under load",
    "ttft_loaded_p95_ms": "nothing was measured under load",
    "tpot_p95_ms": "no request with two tokens ended under load",
    "throughput_tps": "nothing was measured under load",
    "goodput_rps": "no request ended under load",
}


def test_every_metric_has_one_definition():
    assert DEFINITIONS.keys() == TABLE.keys() == ABSENT.keys()
    assert set(METRICS) - {"memory_bytes"} <= DEFINITIONS.keys()


@pytest.mark.parametrize("tag", TABLE)
def test_metric_has_unit_direction_formula_and_the_value_worked_out_by_hand(tag: str):
    unit, lower_is_better, value, count = TABLE[tag]
    metric = DEFINITIONS[tag]
    assert (metric.unit, metric.lower_is_better) == (unit, lower_is_better)
    assert metric.__doc__
    found = estimate(FULL, tag, seed=1)
    assert found.value == pytest.approx(value)
    assert found.n == count


@pytest.mark.parametrize("tag", [m for m in METRICS if m in DEFINITIONS])
def test_directions_agree_with_those_of_the_comparison(tag: str):
    assert DEFINITIONS[tag].lower_is_better == (tag in LOWER_IS_BETTER)


@pytest.mark.parametrize("tag", TABLE)
def test_an_interval_holds_its_value_and_one_sample_has_none(tag: str):
    found = estimate(FULL, tag, seed=1)
    assert found.value is not None
    if tag == "ttft_cold_ms":
        assert (found.lo, found.hi, found.reason) == (None, None, "one sample: no interval")
    elif tag == "goodput_rps":
        # without the two good ones, nothing but the mean is left: 0.2857, 0.8, 0.5
        assert found.lo is not None and found.hi is not None
        assert found.lo < 0.5 < found.hi
    else:
        assert found.lo is not None and found.hi is not None
        assert found.lo < found.value < found.hi
        assert found.reason == ""


@pytest.mark.parametrize("tag", TABLE)
def test_what_was_not_measured_is_none_with_a_reason(tag: str):
    assert estimate(Samples(), tag, seed=1) == Estimate(value=None, reason=ABSENT[tag])


def test_failures_are_named_when_nothing_is_left():
    found = estimate(Samples(failed=4, sent=5), "ttft_p50_ms", seed=1)
    assert found.reason == "no single request was answered: 4 of 5 requests failed"


def test_nothing_good_is_zero_and_not_missing():
    found = estimate(replace(FULL, good=(0, 0, 0)), "goodput_rps", seed=1)
    assert found.value == 0
    assert found.reason == "3 samples without a logarithm: no interval"


def test_goodput_needs_a_gap_for_every_request():
    with pytest.raises(ValueError, match="longer"):
        estimate(replace(FULL, good=(1, 1)), "goodput_rps", seed=1)


def test_unknown_metric_lists_the_valid_ones():
    with pytest.raises(ConfigError, match=r"^no metric `speed`$") as error:
        estimate(FULL, "speed", seed=1)
    assert error.value.hint == "one of " + ", ".join(TABLE)


def test_seed_decides_the_interval():
    cycles = tuple((float(tokens), 1.0) for tokens in range(10, 50))
    one = estimate(Samples(cycles=cycles), "throughput_tps", seed=1)
    assert one == estimate(Samples(cycles=cycles), "throughput_tps", seed=1)
    assert one != estimate(Samples(cycles=cycles), "throughput_tps", seed=2)


def test_percentile_among_waiting_requests_is_a_lower_bound():
    # ranks: 200 300 | 400+ 600+ 800+: the median 400 is an age
    samples = Samples(loaded_ttft_ms=(200, 300), loaded_waiting_ms=(600, 800, 400))
    found = estimate(samples, "ttft_loaded_p50_ms", seed=1)
    assert (found.value, found.hi, found.n) == (pytest.approx(400), None, 5)
    assert found.lo is not None
    assert found.reason == ("lower bound: 3 of 5 requests had no first token when the window ended")


def test_percentile_among_served_requests_is_no_bound():
    samples = Samples(loaded_ttft_ms=(200, 300, 310), loaded_waiting_ms=(50, 800))
    found = estimate(samples, "ttft_loaded_p50_ms", seed=1)
    # 200, 300, 310 and the 800 weigh 1.25 each: rank 2 is 0.6 of the way from 300 to 310
    assert found.value == pytest.approx(306)
    assert found.hi is not None
    assert found.reason == ""
    assert estimate(samples, "ttft_loaded_p95_ms", seed=1).reason.startswith("lower bound: 2 of 5")


def test_percentile_equal_to_the_slowest_served_is_no_bound():
    samples = Samples(loaded_ttft_ms=(200, 300), loaded_waiting_ms=(50,))
    assert estimate(samples, "ttft_loaded_p95_ms", seed=1).value == pytest.approx(300)
    assert estimate(samples, "ttft_loaded_p95_ms", seed=1).reason == ""


def test_all_waiting_is_a_lower_bound():
    found = estimate(Samples(loaded_waiting_ms=(500, 700)), "ttft_loaded_p50_ms", seed=1)
    assert (found.value, found.lo, found.hi) == (600, None, None)
    assert found.reason.startswith("lower bound: 2 of 2")


@pytest.mark.parametrize("tag", ["throughput_tps", "goodput_rps"])
def test_a_window_that_was_not_full_is_told(tag: str):
    told = estimate(replace(FULL, in_flight_share=0.71), tag, seed=1)
    assert told.reason == "only 71% of the concurrent requests were in flight"
    assert told.value == TABLE[tag][2]
    assert estimate(replace(FULL, in_flight_share=0.9), tag, seed=1).reason == ""
    assert estimate(replace(FULL, in_flight_share=0.89), tag, seed=1).reason != ""


def test_a_window_that_was_not_full_does_not_touch_latencies():
    assert estimate(replace(FULL, in_flight_share=0.5), "tpot_p95_ms", seed=1).reason == ""


def test_row_carries_every_field():
    memory = MemoryUse(total=10, weights=5, kv=3, other=2, reserved=1)
    samples = replace(FULL, cycles=tuple((float(n), 1.0) for n in range(10, 50)), busy_share=0.8)
    row = make_row(
        samples,
        concurrency=16,
        memory=memory,
        warmup_s=2.5,
        quality_loss=0.01,
        seed=3,
        skipped={},
    )
    for tag in TABLE:
        assert getattr(row, tag) == estimate(samples, tag, seed=3)
    assert row.concurrency == 16
    assert row.memory == memory
    assert row.warmup_s == 2.5
    assert row.quality_loss == 0.01
    assert row.busy_slots_share == 0.8


def test_row_says_why_a_part_was_skipped():
    why = "the quality limit was broken, so the load was not measured"
    samples = Samples(single_ttft_ms=(1, 2))
    row = make_row(
        samples, concurrency=16, seed=3, skipped={"throughput_tps": why, "ttft_p50_ms": why}
    )
    assert row.throughput_tps == Estimate(value=None, reason=why)
    assert row.goodput_rps.reason == ABSENT["goodput_rps"]
    assert row.ttft_p50_ms == estimate(samples, "ttft_p50_ms", seed=3)
    assert (row.memory, row.warmup_s, row.quality_loss, row.busy_slots_share) == (None,) * 4
