"""When a trial ends early, and what becomes of a lever."""

from dataclasses import replace

import pytest

from vivace.core import MemoryUse, Metric, QualityResult, Ratio, ServingConfig
from vivace.measure.samples import Samples
from vivace.study.decide import Limits, at_a_glance, decide, early_end
from vivace.study.finished import Finished

MIB = 2**20
LIMITS = Limits(goal="throughput", quality_loss=0.02)
TRIAL = Finished(
    id="t", config=ServingConfig(), split="tune", status="ok", reason="", samples=Samples(),
    concurrency=16, wall_s=1.0, measured_at="",
)  # fmt: skip


def ratio(value: float, lo: float, hi: float) -> Ratio:
    return Ratio(ratio=value, lo=lo, hi=hi, proven=lo > 1 or hi < 1)


def memory(mib: int) -> MemoryUse:
    return MemoryUse(total=mib * MIB, weights=0, kv=0, other=mib * MIB, reserved=0)


def status(
    throughput: Ratio | None = None,
    *,
    trial: Finished = TRIAL,
    previous: Finished = TRIAL,
    limits: Limits = LIMITS,
    quality: QualityResult | None = None,
    others: dict[Metric, Ratio] | None = None,
    vs_default: dict[Metric, Ratio] | None = None,
    proven_in: tuple[Metric, ...] = (),
    noise_floor: float = 1.0,
) -> tuple[str, str]:
    found = dict(others or {})
    if throughput is not None:
        found["throughput_tps"] = throughput
    decision = decide(
        trial, previous, limits, quality=quality, vs_previous=found,
        vs_default=vs_default or {}, proven_in=proven_in, noise_floor=noise_floor,
    )  # fmt: skip
    return decision.status, decision.reason


@pytest.mark.parametrize(
    ("single", "clear"),
    [
        (None, False),
        (ratio(3.0, 1.6, 5.0), True),
        (ratio(3.0, 1.4, 6.0), False),
        (ratio(0.3, 0.2, 0.6), True),
        (ratio(0.3, 0.1, 0.7), False),
        (ratio(1.2, 1.19, 1.21), False),
    ],
)
def test_only_what_noise_cannot_reach_is_clear_at_a_glance(single: Ratio | None, clear: bool):
    assert at_a_glance(single) == ("" if clear else None)


@pytest.mark.parametrize(
    ("single", "last", "end"),
    [
        (None, False, ""),
        (ratio(1.1, 1.01, 1.2), False, ""),
        (ratio(0.9, 0.8, 0.99), False, "a loss"),
        (ratio(1.1, 0.99, 1.2), False, None),
        (ratio(1.1, 0.99, 1.2), True, "no proven gain"),
        (ratio(1.01, 0.99, 1.03), False, "no proven gain"),
    ],
)
def test_a_round_ends_the_trial_goes_on_or_asks_for_another(
    single: Ratio | None, last: bool, end: str | None
):
    found = early_end(single, last=last)
    assert found == end or (end and found and found.startswith(end))


def test_a_proven_gain_is_kept_and_an_unproven_one_is_not():
    assert status(ratio(1.2, 1.1, 1.3))[0] == "kept"
    assert status(ratio(1.2, 0.99, 1.5))[0] == "rejected"
    assert "no proven gain" in status(ratio(1.2, 0.99, 1.5))[1]


def test_a_gain_within_the_noise_is_rejected_and_says_so():
    found = status(ratio(1.05, 1.01, 1.09), noise_floor=1.06)
    assert found[0] == "rejected"
    assert "within the noise of 1.06x" in found[1]
    assert status(ratio(1.07, 1.01, 1.12), noise_floor=1.06)[0] == "kept"


BALANCED = Limits(goal="balanced", quality_loss=0.02)


def test_a_gain_in_what_the_lever_attacks_is_not_lost_in_the_noise_of_the_rest():
    noisy: dict[Metric, Ratio] = {
        "ttft_p50_ms": ratio(1.0, 0.5, 2.0),
        "tps_single": ratio(1.0, 0.6, 1.6),
    }
    gain = ratio(1.3, 1.2, 1.4)
    kept, words = status(gain, limits=BALANCED, others=noisy, proven_in=("throughput_tps",))
    assert kept == "kept"
    assert words == "throughput_tps: 1.30x [1.20, 1.40], balanced: 1.09x"
    assert status(gain, limits=BALANCED, others=noisy)[0] == "rejected"


def test_a_proven_gain_that_costs_the_goal_more_is_rejected():
    gain = ratio(1.1, 1.05, 1.15)
    worse: dict[Metric, Ratio] = {"ttft_p50_ms": ratio(1.2, 1.01, 1.4)}
    found = status(gain, limits=BALANCED, others=worse, proven_in=("throughput_tps",))
    assert found == (
        "rejected",
        "no proven gain, throughput_tps: 1.10x [1.05, 1.15], balanced: 0.96x",
    )


def test_what_is_not_proven_to_change_does_not_outweigh_a_proven_gain():
    noise: dict[Metric, Ratio] = {"ttft_p50_ms": ratio(1.5, 0.9, 2.5)}
    gain = ratio(1.3, 1.2, 1.4)
    found = status(gain, limits=BALANCED, others=noise, proven_in=("throughput_tps",))
    assert found == ("kept", "throughput_tps: 1.30x [1.20, 1.40], balanced: 1.14x")


def test_where_what_the_lever_attacks_was_not_measured_the_rest_of_the_goal_decides():
    single: dict[Metric, Ratio] = {"tps_single": ratio(1.3, 1.2, 1.4)}
    found = status(limits=BALANCED, others=single, proven_in=("throughput_tps",))
    assert found == ("kept", "balanced: 1.30x [1.20, 1.40]")


def test_a_proven_loss_of_another_metric_rejects_unless_the_default_is_still_reached():
    lost: dict[Metric, Ratio] = {"ttft_p50_ms": ratio(1.3, 1.2, 1.4)}
    gain = ratio(1.5, 1.4, 1.6)
    assert status(gain, others=lost)[0] == "rejected"
    still: dict[Metric, Ratio] = {"ttft_p50_ms": ratio(0.9, 0.8, 1.0)}
    assert status(gain, others=lost, vs_default=still)[0] == "kept"
    worse: dict[Metric, Ratio] = {"ttft_p50_ms": ratio(1.2, 1.1, 1.3)}
    assert status(gain, others=lost, vs_default=worse)[0] == "rejected"


def test_memory_beyond_the_limit_rejects_whatever_the_speed():
    limits = replace(LIMITS, memory=100 * MIB)
    small, large = replace(TRIAL, memory=memory(90)), replace(TRIAL, memory=memory(110))
    found = status(ratio(2, 1.9, 2.1), trial=large, previous=small, limits=limits)
    assert found == ("rejected", "needs 110 MiB of memory, the limit is 100 MiB")
    assert status(ratio(0.5, 0.4, 0.6), trial=small, previous=large, limits=limits)[0] == "kept"
    unknown = status(ratio(2, 1.9, 2.1), previous=small, limits=limits)
    assert unknown[0] == "rejected"
    assert "not measured" in unknown[1]


@pytest.mark.parametrize(
    ("verdict", "words"), [("fail", "limit of"), ("inconclusive", "cannot win")]
)
def test_quality_that_does_not_pass_rejects_before_speed(verdict: str, words: str):
    quality = QualityResult(
        loss=0.05, lo=0.03, hi=0.07, positions=1000, verdict=verdict,  # type: ignore[arg-type]
        basis="b", reference="r",
    )  # fmt: skip
    found = status(ratio(2, 1.9, 2.1), quality=quality)
    assert found[0] == "rejected"
    assert words in found[1]


@pytest.mark.parametrize("failure", ["crashed", "oom", "timeout", "infeasible"])
def test_a_failure_is_its_own_status_with_its_reason(failure: str):
    trial = replace(TRIAL, status=failure, reason="why")  # type: ignore[arg-type]
    assert status(trial=trial) == (failure, "why")


def test_what_the_budget_cut_off_was_not_tried():
    trial = replace(TRIAL, status="interrupted", reason="the budget ended")
    assert status(trial=trial) == ("not_tried", "the budget ended")


def test_a_trial_that_ended_early_is_rejected_for_that_reason():
    trial = replace(TRIAL, reason="a loss for one request")
    assert status(ratio(2, 1.9, 2.1), trial=trial) == ("rejected", "a loss for one request")
