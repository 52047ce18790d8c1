import math

import pytest

from vivace.errors import ConfigError
from vivace.quality.compare import (
    Interval,
    clearly_failing,
    compare,
    kl,
    loss_interval,
    verdict,
)
from vivace.quality.scores import Scores, dump_scores, parse_scores

TOP = ((1, math.log(0.5)), (2, math.log(0.25)))


def scores(name, *logprobs, slice="en", tokens=None, top=TOP, floored=0):
    return Scores(
        id=name,
        slice=slice,
        tokens=tuple(tokens or range(len(logprobs))),
        logprobs=logprobs,
        top=(top,) * len(logprobs),
        floored=floored,
    )


def sides(*deltas, slice="en", tokens=10, prefix=""):
    """Reference and candidate whose NLL differs by delta on each token of each document."""
    names = [f"{prefix}{slice}{i}" for i in range(len(deltas))]
    reference = {n: scores(n, *[-1.0] * tokens, slice=slice) for n in names}
    candidate = {
        n: scores(n, *[-1.0 - d] * tokens, slice=slice) for n, d in zip(names, deltas, strict=True)
    }
    return reference, candidate


def result(reference, candidate, limit=0.02):
    return compare(
        reference, candidate, limit=limit, seed=3, basis="the basis", reference_name="F16"
    )


def test_loss_is_the_relative_perplexity_increase_over_all_tokens():
    reference = {"a": scores("a", -1.0, -2.0, -3.0), "b": scores("b", -1.0)}
    candidate = {"a": scores("a", -1.1, -2.1, -3.0), "b": scores("b", -1.2)}
    # (0.1 + 0.1 + 0 + 0.2) / 4 tokens, not the mean of the documents' means (0.133)
    assert result(reference, candidate).loss == pytest.approx(math.exp(0.1) - 1)


def test_a_better_candidate_has_a_negative_loss():
    assert result(*sides(-0.1, -0.1)).loss == pytest.approx(math.exp(-0.1) - 1)


def test_equal_differences_leave_an_interval_without_width():
    pairs = result(*sides(0.01, 0.01, 0.01))
    assert pairs.lo == pytest.approx(pairs.loss)
    assert pairs.hi == pytest.approx(math.exp(0.01) - 1)


def test_the_interval_is_taken_over_documents():
    # two documents, resampled: means 0, 0.05, 0.1 with shares 1/4, 1/2, 1/4
    reference, candidate = sides(0.0, 0.1, tokens=200)
    interval = loss_interval([(reference[n], candidate[n]) for n in reference], seed=1)
    assert interval.lo == pytest.approx(0.0)
    assert interval.loss == pytest.approx(math.expm1(0.05))
    assert interval.hi == pytest.approx(math.expm1(0.1))


def test_the_interval_weighs_documents_by_their_tokens():
    reference = {"a": scores("a", *[-1.0] * 3), "b": scores("b", -1.0)}
    candidate = {"a": scores("a", *[-1.0] * 3), "b": scores("b", -1.4)}
    pairs = [(reference[n], candidate[n]) for n in "ab"]
    # draws: aa 0, ab 0.4/4, bb 0.8/2; the middle half of the draws is `ab`
    middle = loss_interval(pairs, seed=1, confidence=0.4)
    assert (middle.lo, middle.hi) == pytest.approx((math.expm1(0.1), math.expm1(0.1)))


#: Documents whose interval shows which seed was taken.
UNEVEN = (0.0, 0.011, 0.053, -0.027, 0.031, 0.047, 0.019)


def test_the_same_seed_gives_the_same_interval():
    arms = sides(*UNEVEN)
    made = [
        compare(*arms, limit=0.02, seed=seed, basis="the basis", reference_name="F16")
        for seed in (3, 3, 4, 5, 6)
    ]
    assert made[0] == made[1]
    assert len({m.loss for m in made}) == 1
    assert len({(m.lo, m.hi) for m in made}) > 1


def test_an_interval_holds_95_percent_unless_told_otherwise():
    reference, candidate = sides(*UNEVEN)
    pairs = [(reference[n], candidate[n]) for n in reference]
    made = {c: loss_interval(pairs, seed=3, confidence=c) for c in (0.9, 0.95, 0.99)}
    assert made[0.99].lo < made[0.95].lo < made[0.9].lo
    assert made[0.99].hi > made[0.95].hi > made[0.9].hi
    assert loss_interval(pairs, seed=3) == made[0.95]


@pytest.mark.parametrize("seed", range(12))
def test_slices_and_the_early_stop_are_judged_with_the_given_seed(seed):
    arms = sides(*UNEVEN, tokens=30)
    # a single slice has the whole 5 % to itself, so that its interval is that of all documents
    lo = compare(*arms, limit=0.02, seed=seed, basis="b", reference_name="F16").lo
    for limit, beyond in ((lo - 1e-12, True), (lo + 1e-12, False)):
        made = compare(*arms, limit=limit, seed=seed, basis="b", reference_name="F16")
        assert made.basis.endswith("; fails on en alone") is beyond
        assert clearly_failing(*arms, limit=limit / 2, seed=seed) is beyond


def test_a_loss_of_exactly_the_limit_fails_no_slice_and_stops_nothing():
    arms = sides(*[0.25] * 4, tokens=64)  # powers of two: no rounding on the way
    limit = math.expm1(0.25)
    made = result(*arms, limit=limit)
    assert made.lo == made.loss == made.hi == limit
    assert made.verdict == "pass"
    assert not clearly_failing(*arms, limit=limit / 2, seed=1)


@pytest.mark.parametrize(
    ("lo", "hi", "expected"),
    [
        (-0.01, 0.02, "pass"),
        (-0.01, 0.0201, "inconclusive"),
        (0.02, 0.05, "inconclusive"),
        (0.0201, 0.05, "fail"),
        (-0.05, -0.01, "pass"),
    ],
)
def test_the_verdict_follows_the_contract(lo, hi, expected):
    assert verdict(Interval(loss=0.0, lo=lo, hi=hi), limit=0.02) == expected


def test_a_result_says_what_it_rests_on():
    made = result(*sides(0.01, 0.01))
    assert made.verdict == "pass"
    assert made.positions == 20
    assert made.reference == "F16"
    assert made.basis == "the basis; KL over the reference's top 2 tokens, the rest as one bucket"


def test_bounded_values_are_counted_in_the_basis():
    reference = {"a": scores("a", -1.0, -1.0, floored=1), "b": scores("b", -1.0, floored=0)}
    candidate = {"a": scores("a", -1.0, -1.0, floored=0), "b": scores("b", -1.0, floored=1)}
    assert (
        "; 2 tokens outside the listed ones, counted by a bound"
        in result(reference, candidate).basis
    )


def test_a_good_average_does_not_hide_a_broken_slice():
    ref_en, cand_en = sides(*[-0.02] * 20, slice="en")
    ref_zh, cand_zh = sides(*[0.05] * 4, slice="zh")
    made = result(ref_en | ref_zh, cand_en | cand_zh)
    assert made.loss < 0
    assert made.hi <= 0.02
    assert made.verdict == "fail"
    assert made.basis.endswith("; fails on zh alone")
    assert made.by_slice == pytest.approx({"en": math.expm1(-0.02), "zh": math.expm1(0.05)})


def test_every_broken_slice_is_named():
    ref_en, cand_en = sides(*[0.05] * 4, slice="en")
    ref_zh, cand_zh = sides(*[0.05] * 4, slice="zh")
    assert result(ref_en | ref_zh, cand_en | cand_zh).basis.endswith("; fails on en, zh alone")


def test_a_document_counts_for_the_slice_that_the_reference_has_it_in():
    reference, _ = sides(*[0.05] * 4, slice="zh")
    candidate = {n: scores(n, *[-1.05] * 10, slice="en") for n in reference}
    made = result(reference, candidate)
    assert list(made.by_slice) == ["zh"]
    assert made.basis.endswith("; fails on zh alone")


def test_three_documents_are_too_few_to_call_a_slice_broken():
    ref_en, cand_en = sides(*[-0.02] * 20, slice="en")
    ref_zh, cand_zh = sides(*[0.05] * 3, slice="zh")
    assert result(ref_en | ref_zh, cand_en | cand_zh).verdict == "pass"


def test_slices_share_the_chance_of_failing_by_accident():
    # one outlier of twelve; it is drawn four times or more in 1.4 % of the resamples, which is
    # inside the tail of a lone interval (2.5 %) and outside that of three slices (0.83 %)
    ref_zh, cand_zh = sides(*[0.06] * 11, -0.1, slice="zh")
    ref_en, cand_en = sides(*[0.0] * 4, slice="en")
    ref_code, cand_code = sides(*[0.0] * 4, slice="code")
    zh_alone = loss_interval([(ref_zh[n], cand_zh[n]) for n in ref_zh], seed=3)
    assert zh_alone.lo > 0.01
    made = result(ref_en | ref_zh | ref_code, cand_en | cand_zh | cand_code, limit=0.01)
    assert made.verdict == "inconclusive"


def test_slices_that_are_absent_are_not_reported():
    assert list(result(*sides(0.0, 0.0, slice="code")).by_slice) == ["code"]


def test_kl_is_the_sum_over_listed_tokens_and_the_rest():
    reference = ((1, math.log(0.5)), (2, math.log(0.25)))
    candidate = ((2, math.log(0.5)), (1, math.log(0.25)))
    # 0.5 ln 2 - 0.25 ln 2 + 0.25 ln 1
    assert kl(reference, candidate) == pytest.approx(0.25 * math.log(2))


def test_kl_gives_an_unlisted_token_the_most_it_can_have():
    reference = ((1, math.log(0.5)), (2, math.log(0.25)))
    candidate = ((1, math.log(0.5)), (3, math.log(0.125)))
    # token 2 counts 0.125; rest 0.25 against 1 - 0.625
    expected = 0.25 * math.log(2) + 0.25 * math.log(0.25 / 0.375)
    assert kl(reference, candidate) == pytest.approx(expected)


def test_kl_counts_a_small_rest_as_it_is():
    reference, candidate = ((1, math.log(0.9999)),), ((1, math.log(0.9998)),)
    expected = 0.9999 * math.log(0.9999 / 0.9998) + 0.0001 * math.log(0.0001 / 0.0002)
    assert kl(reference, candidate) == pytest.approx(expected, rel=1e-6)


def test_kl_of_equal_distributions_is_zero_even_when_everything_is_listed():
    certain = ((1, 0.0),)
    assert kl(TOP, TOP) == 0
    assert kl(certain, certain) == 0


def test_kl_and_the_share_of_equal_first_choices_are_means_over_positions():
    swapped = ((2, math.log(0.5)), (1, math.log(0.25)))
    reference = {"a": scores("a", -1.0, -1.0, -1.0), "b": scores("b", -1.0)}
    candidate = {"a": scores("a", -1.0, -1.0, -1.0), "b": scores("b", -1.0, top=swapped)}
    made = result(reference, candidate)
    assert made.same_top1 == 0.75
    assert made.kl_mean == pytest.approx(0.25 * math.log(2) / 4)


def test_only_documents_of_both_sides_are_paired():
    reference, candidate = sides(0.01, 0.01, 0.01)
    del candidate["en1"]
    candidate["new"] = scores("new", -9.0)
    made = result(reference, candidate)
    assert made.positions == 20
    assert made.loss == pytest.approx(math.expm1(0.01))


def test_nothing_in_common_is_refused():
    with pytest.raises(ConfigError, match=r"^no document was scored by both the "):
        result({"a": scores("a", -1.0)}, {"b": scores("b", -1.0)})


def test_another_tokenizer_is_refused():
    with pytest.raises(ConfigError, match="`a` has other tokens") as caught:
        result({"a": scores("a", -1.0, tokens=[1])}, {"a": scores("a", -1.0, tokens=[2])})
    assert caught.value.hint == "both have to be the same model with the same tokenizer"


@pytest.mark.parametrize(
    ("deltas", "tokens", "expected"),
    [
        ([0.3] * 5, 30, True),
        ([0.3] * 5, 29, False),  # 145 positions
        ([0.3] * 3, 60, False),  # three documents
        ([0.3] * 4, 60, True),
        ([0.039] * 5, 30, False),  # 3.98 %, not beyond twice the limit of 2 %
        ([0.0395] * 5, 30, True),
        ([-0.5] * 5, 30, False),
    ],
)
def test_scoring_stops_early_only_towards_a_clear_failure(deltas, tokens, expected):
    reference, candidate = sides(*deltas, tokens=tokens)
    assert clearly_failing(reference, candidate, limit=0.02, seed=1) is expected


def test_stopping_looks_only_at_documents_that_the_reference_has():
    reference, candidate = sides(*[0.3] * 5, tokens=30)
    del reference["en0"]
    assert not clearly_failing(reference, candidate, limit=0.02, seed=1)
    assert not clearly_failing({}, candidate, limit=0.02, seed=1)


def test_scores_survive_storage():
    made = {"a": scores("a", -1.25, -2.5, slice="zh", floored=1)}
    assert parse_scores(dump_scores(made)) == made


def test_scores_count_no_bound_unless_they_say_so():
    stored = b'{"a":{"id":"a","slice":"en","tokens":[],"logprobs":[],"top":[]}}'
    assert parse_scores(stored)["a"].floored == 0


@pytest.mark.parametrize("data", [b"", b"[1]", b'{"a":{"id":"a"}}', dump_scores({})[:1]])
def test_stored_scores_that_are_damaged_are_refused(data):
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        parse_scores(data)
    assert caught.value.hint == "delete the file; it is made again"


def test_scores_of_different_lengths_are_refused():
    with pytest.raises(ConfigError, match="`a` do not fit together: 2 tokens, 1 log-prob"):
        Scores(id="a", slice="en", tokens=(1, 2), logprobs=(-1.0,), top=(TOP,))
