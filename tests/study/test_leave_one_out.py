"""The winner without each of its levers, and what becomes of a lever that has come to hurt."""

from dataclasses import replace
from pathlib import Path

import pytest

from vivace.core import ServingConfig
from vivace.levers.base import Option
from vivace.study.decide import Decision
from vivace.study.leave_one_out import without
from vivace.study.outcome import Tried
from vivace.testing import Rules, Script

from .virtual import make_bed

RULES = Rules(stock_context_tokens=8192)
BASE = ServingConfig(engine="scripted", weights="source", slots=1, prefix_cache=True)


def tried(diff: dict[str, tuple[object, object]]) -> Tried:
    return Tried(
        lever=None,
        option=Option(lever="x", title="x", change={}),
        config=BASE,
        decision=Decision(status="kept", reason=""),
        diff=diff,
    )


def test_a_lever_is_taken_out_by_its_settings_before():
    config = replace(BASE, flash_attention=False)
    assert without(config, tried({"flash_attention": (None, False)})) == BASE


def test_settings_that_a_later_lever_changed_are_not_taken_out():
    config = replace(BASE, slots=16)
    assert without(config, tried({"slots": (1, 8)})) is None


def test_the_prefix_cache_stays_where_warm_slots_need_it():
    diff: dict[str, tuple[object, object]] = {"prefix_cache": (False, True)}
    assert without(BASE, tried(diff)) == replace(BASE, prefix_cache=False)
    assert without(replace(BASE, warm_prefix=True), tried(diff)) is None


def two_faced(config: ServingConfig) -> Script:
    """Smaller weights help one request and make wide batches costly."""
    return replace(RULES(config), batch_cost=0.02 if config.weights == "F16" else 0.3)


def test_an_early_lever_that_hurts_a_later_one_is_dropped(tmp_path: Path):
    bed = make_bed(tmp_path, two_faced, budget_s=2500.0)
    outcome = bed.run()
    assert bed.tried()["weights:source"] == "kept"
    assert bed.tried()["warm_prefix"] == "kept"
    dropped = {o.lever for o in outcome.left_out if o.dropped}
    assert "weights:source" in dropped
    finalist = next(t for t in outcome.trials if t.id == "winner")
    assert finalist.config.weights == "F16"


def test_each_kept_lever_is_worth_what_the_winner_loses_without_it(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, budget_s=2500.0)
    outcome = bed.run()
    kept = {t.option.lever for t in outcome.ablation if t.decision.status == "kept"}
    # Warm slots need the prefix cache, and later changes of their number stand for the first.
    assert {o.lever for o in outcome.left_out} <= kept - {"prefix_cache"}
    assert not any(o.dropped for o in outcome.left_out)
    weights = next(o for o in outcome.left_out if o.lever == "weights:source")
    assert weights.vs_winner["tps_single"].ratio == pytest.approx(1 / 1.3, rel=0.01)


def test_a_short_budget_leaves_it_out_and_says_so(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, budget_s=480.0)
    assert bed.run().left_out == []
    assert any("without its other levers" in line for line in bed.said)
