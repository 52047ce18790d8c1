import pytest

from measure.build import record
from vivace.errors import ConfigError
from vivace.measure.slo import HINT, Objective, Slo, parse_slo


def answer(*, ttft: float, tpot: float, status: str = "ok"):
    # three tokens: two gaps of `tpot`
    return record(pieces=[ttft, ttft + tpot, ttft + 2 * tpot], tokens=3, status=status)  # type: ignore[arg-type]


def test_default_is_one_second_and_a_tenth():
    assert Slo().met(answer(ttft=1000, tpot=100))
    assert not Slo().met(answer(ttft=1000.001, tpot=100))
    assert not Slo().met(answer(ttft=1000, tpot=100.001))


def test_empty_text_is_the_default():
    assert parse_slo("") == parse_slo("  ") == Slo()


def test_text_names_metric_percentile_limit_and_unit():
    assert parse_slo("ttft_p95=500ms, tpot_p99.9=0.05s").objectives == (
        Objective(metric="ttft", limit_ms=500, percentile=95),
        Objective(metric="tpot", limit_ms=50, percentile=99.9),
    )
    assert parse_slo("ttft=2s").objectives == (Objective(metric="ttft", limit_ms=2000),)
    assert parse_slo("ttft_p1=2s").objectives[0].percentile == 1


def test_only_named_objectives_are_judged():
    slow_tokens = answer(ttft=400, tpot=900)
    assert parse_slo("ttft_p95=500ms").met(slow_tokens)
    assert not parse_slo("tpot_p95=500ms").met(slow_tokens)


def test_a_limit_that_is_reached_is_met():
    slo = parse_slo("ttft_p95=500ms,tpot_p95=50ms")
    assert slo.met(answer(ttft=500, tpot=50))
    assert not slo.met(answer(ttft=500.001, tpot=50))
    assert not slo.met(answer(ttft=500, tpot=50.001))


def test_one_token_is_judged_on_its_ttft_alone():
    assert Slo().met(record(pieces=[900], tokens=1))
    assert not Slo().met(record(pieces=[1100], tokens=1))
    assert parse_slo("tpot=1ms").met(record(pieces=[900], tokens=1))


def test_an_answer_without_output_is_not_good():
    assert not Slo().met(record(end=10))
    assert not parse_slo("tpot=1s").met(record(end=10))


@pytest.mark.parametrize("status", ["error", "stalled", "incomplete", "cancelled"])
def test_a_request_that_did_not_finish_is_not_good(status: str):
    assert not Slo().met(answer(ttft=1, tpot=1, status=status))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft_p95=500", "cannot read the objective `ttft_p95=500`"),
        ("ttft_p95=500ms,", "cannot read the objective ``"),
        ("speed=500ms", "cannot read the objective `speed=500ms`"),
        ("ttft_p100=500ms", "cannot read the objective `ttft_p100=500ms`"),
        ("ttft_p95=-5ms", "cannot read the objective `ttft_p95=-5ms`"),
        ("ttft_p95=nanms", "cannot read the objective `ttft_p95=nanms`"),
        ("ttft_p95=0ms", "the limit of `ttft` must be above 0, got 0 ms"),
        ("tpot_p0=5ms", "the percentile of `tpot` must be above 0, got 0"),
    ],
)
def test_bad_text_says_what_and_how_to_write_it(text: str, words: str):
    with pytest.raises(ConfigError) as error:
        parse_slo(text)
    assert str(error.value) == words
    assert error.value.hint == HINT


@pytest.mark.parametrize("metric", ["ttft", "tpot"])
def test_two_objectives_for_one_metric_are_refused(metric: str):
    text = f"{metric}_p50=1s,{metric}_p95=2s"
    with pytest.raises(ConfigError) as error:
        parse_slo(text)
    assert str(error.value) == f"`{metric}` has two objectives in `{text}`"
    assert error.value.hint == "keep one of them"
