"""Candidate against reference: paired differences on the same tokens, and a verdict.

    loss = exp(mean over paired tokens of (NLL candidate - NLL reference)) - 1

the relative perplexity increase. The interval comes from a bootstrap over documents, because the
tokens of one document are not independent of each other.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vivace.core import QualityResult, Verdict
from vivace.errors import ConfigError
from vivace.quality.scores import Scores
from vivace.quality.texts import SLICES

RESAMPLES = 2_000
CONFIDENCE = 0.95
#: Fewer documents than this say nothing about a slice of their own.
MIN_SLICE_DOCUMENTS = 4
#: `clearly_failing` wants this many paired tokens, and a lower end this many times the limit.
EARLY_POSITIONS = 150
EARLY_FACTOR = 2.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A loss with its interval."""

    loss: float
    lo: float
    hi: float


def compare(
    reference: Mapping[str, Scores],
    candidate: Mapping[str, Scores],
    *,
    limit: float,
    seed: int,
    basis: str,
    reference_name: str,
    looks: int = 1,
) -> QualityResult:
    """The quality of a candidate, over the documents that both have.

    `looks`: how often a verdict may be taken while documents are added. The intervals share the
    5 % among them (Bonferroni), so they hold at every look. `basis` says what was compared; how
    KL was taken and how many values are bounds is appended. Raises `ConfigError` when nothing is
    paired or the tokens differ.
    """
    pairs = _pairs(reference, candidate)
    doubt = (1 - CONFIDENCE) / looks
    whole = loss_interval(pairs, seed=seed, confidence=1 - doubt)
    broken = _broken_slices(pairs, limit=limit, seed=seed, doubt=doubt)
    notes = [basis, f"KL over the reference's top {_top_k(pairs)} tokens, the rest as one bucket"]
    floored = sum(max(r.floored, c.floored) for r, c in pairs)
    if looks > 1:
        notes.append(f"intervals that hold at each of {looks} looks")
    if floored:
        notes.append(f"{floored} tokens outside the listed ones, counted by a bound")
    if broken:
        notes.append(f"fails on {', '.join(broken)} alone")
    tops = [(r, c) for rs, cs in pairs for r, c in zip(rs.top, cs.top, strict=True)]
    by_slice = {name: of for name in SLICES if (of := [p for p in pairs if p[0].slice == name])}
    return QualityResult(
        loss=whole.loss,
        lo=whole.lo,
        hi=whole.hi,
        positions=sum(len(r.tokens) for r, _ in pairs),
        verdict="fail" if broken else verdict(whole, limit=limit),
        basis="; ".join(notes),
        reference=reference_name,
        kl_mean=math.fsum(kl(r, c) for r, c in tops) / len(tops),
        same_top1=sum(r[0][0] == c[0][0] for r, c in tops) / len(tops),
        by_slice={name: loss_interval(of, seed=seed).loss for name, of in by_slice.items()},
    )


def verdict(interval: Interval, *, limit: float) -> Verdict:
    """pass: upper end <= limit; fail: lower end > limit; else not enough evidence."""
    if interval.hi <= limit:
        return "pass"
    return "fail" if interval.lo > limit else "inconclusive"


def clearly_failing(
    reference: Mapping[str, Scores], candidate: Mapping[str, Scores], *, limit: float, seed: int
) -> bool:
    """Whether more documents are a waste: the lower end is beyond twice the limit already.

    Made for the `should_stop` of scoring. It stops only towards a failure: looking again and again
    would make a pass too easy, while a candidate this bad does not come back.
    """
    common = [name for name in candidate if name in reference]
    if sum(len(candidate[name].tokens) for name in common) < EARLY_POSITIONS:
        return False
    if len(common) < MIN_SLICE_DOCUMENTS:
        return False
    return loss_interval(_pairs(reference, candidate), seed=seed).lo > EARLY_FACTOR * limit


def loss_interval(
    pairs: list[tuple[Scores, Scores]], *, seed: int, confidence: float = CONFIDENCE
) -> Interval:
    """The loss over all tokens; percentile bootstrap over documents of the ratio of sums."""
    delta = np.array([math.fsum(r.logprobs) - math.fsum(c.logprobs) for r, c in pairs])
    tokens = np.array([len(r.tokens) for r, _ in pairs], dtype=np.float64)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, len(pairs), size=(RESAMPLES, len(pairs)))
    means: Floats = delta[drawn].sum(axis=1) / tokens[drawn].sum(axis=1)
    tail = (1 - confidence) / 2
    lo, hi = np.quantile(means, [tail, 1 - tail])
    loss = math.expm1(float(delta.sum() / tokens.sum()))
    return Interval(loss=loss, lo=math.expm1(float(lo)), hi=math.expm1(float(hi)))


def kl(reference: tuple[tuple[int, float], ...], candidate: tuple[tuple[int, float], ...]) -> float:
    """KL(reference || candidate) in nats over the reference's listed tokens and one rest bucket.

    A token that the candidate does not list counts with the candidate's smallest listed
    probability, which is the most it can have.
    """
    theirs = dict(candidate)
    floor = min(theirs.values())
    p = np.array([logprob for _, logprob in reference])
    q = np.array([theirs.get(token, floor) for token, _ in reference])
    rest_p = _rest(p)
    rest_q = _rest(q)
    inside = float((np.exp(p) * (p - q)).sum())
    outside = rest_p * math.log(rest_p / rest_q)
    return max(0.0, inside + outside)


def _rest(logprobs: Floats) -> float:
    # Never zero: rounding may bring a listed sum to 1 or a hair above.
    return max(1e-9, 1.0 - float(np.exp(logprobs).sum()))


def _broken_slices(
    pairs: list[tuple[Scores, Scores]], *, limit: float, seed: int, doubt: float
) -> tuple[str, ...]:
    """Slices that fail the limit on their own, which a good average must not hide.

    Each slice is one more chance to fail by accident, so their intervals share the `doubt` among them.
    """
    slices = {n: [p for p in pairs if p[0].slice == n] for n in SLICES}
    judged = {n: of for n, of in slices.items() if len(of) >= MIN_SLICE_DOCUMENTS}
    share = doubt / max(1, len(judged))
    intervals = {n: loss_interval(of, seed=seed, confidence=1 - share) for n, of in judged.items()}
    return tuple(n for n, interval in intervals.items() if interval.lo > limit)


def _pairs(
    reference: Mapping[str, Scores], candidate: Mapping[str, Scores]
) -> list[tuple[Scores, Scores]]:
    # In the reference's order, so that the bootstrap does not depend on how scoring was spread.
    pairs = [(reference[name], candidate[name]) for name in reference if name in candidate]
    if not pairs:
        raise ConfigError("no document was scored by both the reference and the candidate")
    for r, c in pairs:
        if r.tokens != c.tokens:
            raise ConfigError(
                f"quality document `{r.id}` has other tokens in the candidate than in the reference",
                hint="both have to be the same model with the same tokenizer",
            )
    return pairs


def _top_k(pairs: list[tuple[Scores, Scores]]) -> int:
    return max(len(top) for r, _ in pairs for top in r.top)
