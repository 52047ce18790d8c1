"""Whole studies on the scripted engine in virtual time: the right winner for known effects."""

from dataclasses import replace
from pathlib import Path

import pytest

from vivace.core import ServingConfig
from vivace.errors import EngineError, StudyError
from vivace.report.document import check_document
from vivace.study.document import study_document
from vivace.study.lab import Lab
from vivace.testing import Rules, Script, VirtualJudge

from .virtual import Bed, make_bed

RULES = Rules(stock_context_tokens=8192)
ABOUT = {
    "name": "n",
    "created": "2026-12-01",
    "command": "vivace tune",
    "versions": {},
    "model": {},
    "hardware": {},
    "workload": {},
    "notes": [],
}


def document(bed: Bed):
    return study_document(bed.lab, about=ABOUT, state="finished")


def winner(bed: Bed) -> ServingConfig:
    assert bed.lab.outcome.winner is not None
    return bed.lab.outcome.winner.config


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Bed:
    bed = make_bed(tmp_path_factory.mktemp("study"))
    bed.run()
    return bed


def test_what_helps_is_kept_and_what_does_not_is_rejected(done: Bed):
    tried = done.tried()
    kept = {name for name, status in tried.items() if status == "kept"}
    assert {"prefix_cache", "weights:source", "warm_prefix", "slot_count:more"} <= kept
    for name in ("flash_attention", "ngram", "draft_copy", "kv_type", "threads", "weights:Q8_0"):
        assert tried[name] == "rejected"


def test_the_winner_carries_every_kept_lever(done: Bed):
    config = winner(done)
    assert (config.weights, config.slots) == ("source", 16)
    assert config.prefix_cache
    assert config.flash_attention is None
    assert config.speculation is None


def test_a_type_beyond_the_quality_limit_is_rejected_with_its_loss_and_its_speed_not_measured(
    done: Bed,
):
    (tried,) = [t for t in done.lab.outcome.ablation if t.option.lever == "weights:Q4_0"]
    assert tried.decision.status == "rejected"
    assert "33.7" in tried.decision.reason
    assert tried.trial is None


def test_a_type_that_cannot_be_made_is_infeasible_with_its_reason(done: Bed):
    assert done.tried()["weights:Q4_K_M"] == "infeasible"
    assert "divisible by 256" in done.reason("weights:Q4_K_M")


def test_baselines_and_winner_are_measured_on_held_out_prompts_and_levers_are_not(done: Bed):
    outcome = done.lab.outcome
    assert outcome.unoptimised is not None and outcome.unoptimised.split == "validate"
    assert outcome.default is not None and outcome.default.split == "validate"
    assert outcome.winner is not None and outcome.winner.split == "validate"
    assert {t.trial.split for t in outcome.ablation if t.trial is not None} == {"tune"}


def test_the_unoptimised_baseline_has_everything_off(done: Bed):
    assert done.lab.outcome.unoptimised is not None
    config = done.lab.outcome.unoptimised.config
    assert (config.weights, config.slots, config.prefix_cache) == ("F16", 1, False)
    assert config.speculation is None
    assert not config.warm_prefix


def test_the_document_follows_the_schema_and_holds_the_measured_figures(done: Bed):
    doc = document(done)
    assert check_document(doc) == []
    row = doc["winner"]["row"]
    assert done.lab.outcome.winner is not None
    measured = done.lab.outcome.winner.row(seed=0, quality_loss=None)
    assert row["throughput_tps"] == pytest.approx(measured.throughput_tps.value, abs=1e-3)
    assert doc["winner"]["held_out"] is True
    ratio = doc["winner"]["vs_unoptimised"]["throughput_tps"]["ratio"]
    base = doc["baselines"]["unoptimised"]["throughput_tps"]
    assert ratio == pytest.approx(row["throughput_tps"] / base, rel=1e-3)


def test_predictions_and_diagnosis_are_empty_until_they_exist(done: Bed):
    doc = document(done)
    assert doc["diagnosis"] == []
    assert {entry["predicted"] for entry in doc["ablation"]} == {None}


@pytest.mark.parametrize("budget_s", [180.0, 240.0, 300.0, 480.0, 700.0])
def test_every_budget_ends_on_time_with_both_baselines_and_a_validated_winner(
    tmp_path: Path, budget_s: float
):
    bed = make_bed(tmp_path, RULES, budget_s=budget_s)
    outcome = bed.run()
    assert bed.lab.elapsed_s <= budget_s
    assert outcome.improved
    assert outcome.winner is not None and outcome.winner.split == "validate"


def test_a_short_budget_tries_the_first_levers_as_one_step(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, budget_s=180.0)
    bed.run()
    assert bed.tried()["bundle"] == "kept"
    assert winner(bed).warm_prefix


def test_what_the_budget_has_no_room_for_is_listed_as_not_tried(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, budget_s=180.0)
    bed.run()
    assert bed.tried()["flash_attention"] == "not_tried"
    assert "budget" in bed.reason("flash_attention")


def test_a_budget_too_short_for_the_baselines_is_an_error_that_says_so(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, budget_s=40.0)
    with pytest.raises(EngineError) as caught:
        bed.run()
    assert "40 s" in str(caught.value)
    assert "--budget" in caught.value.hint


def test_the_plan_is_told_before_anything_is_measured(done: Bed):
    first = next(i for i, line in enumerate(done.said) if line.startswith("measuring"))
    plans = [i for i, line in enumerate(done.said) if line.startswith("plan: about")]
    assert plans and plans[0] < first
    assert "Winner in turn with the default" in done.said[plans[0]]


def test_copying_workloads_get_ngram_speculation(tmp_path: Path):
    rules = replace(RULES, copy_share=1.0)
    bed = make_bed(tmp_path, rules, workload="copy", concurrency=(1,), goal="latency")
    bed.run()
    assert bed.tried()["ngram"] == "kept"
    assert winner(bed).speculation is not None


def test_a_memory_limit_is_met_by_fewer_slots(tmp_path: Path):
    limit = 300 * 2**20
    bed = make_bed(tmp_path, RULES, max_memory=limit)
    outcome = bed.run()
    assert outcome.meets
    assert outcome.winner is not None and outcome.winner.memory is not None
    assert outcome.winner.memory.total <= limit
    assert winner(bed).slots in (2, 4, 8)


def test_a_limit_that_nothing_meets_names_the_nearest_miss_and_what_to_relax(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, max_memory=10 * 2**20)
    outcome = bed.run()
    assert not outcome.meets
    assert outcome.winner is None
    miss = document(bed)["nearest_miss"]
    assert miss["memory_bytes"] > miss["limit_bytes"] == 10 * 2**20
    assert miss["relax"].startswith("--max-memory ")


def test_nothing_helps_then_the_default_is_served_and_no_gain_is_claimed(tmp_path: Path):
    def flat(config: ServingConfig) -> Script:
        return Script(decode_tps=40.0, prefill_tps=900.0, prefix_cache=False)

    bed = make_bed(tmp_path, flat)
    outcome = bed.run()
    assert not outcome.improved
    assert outcome.winner is outcome.default
    assert "kept" not in bed.tried().values()


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"start_failure": "crashed"}, "crashed"),
        ({"start_failure": "oom"}, "oom"),
        ({"start_failure": "timeout"}, "timeout"),
        ({"dies_after": 4}, "crashed"),
        ({"dies_after": 4, "death": "oom"}, "oom"),
        ({"hangs_after": 5}, "timeout"),
        ({"answer_tokens": 0}, "infeasible"),
        ({"error_every": 1}, "infeasible"),
    ],
    ids=str,
)
def test_a_failing_trial_is_an_outcome_with_a_reason_and_never_wins(
    tmp_path: Path, change: dict[str, object], status: str
):
    def script_for(config: ServingConfig) -> Script:
        script = RULES(config)
        return replace(script, **change) if config.warm_prefix else script  # type: ignore[arg-type]

    bed = make_bed(tmp_path, script_for)
    outcome = bed.run()
    assert bed.tried()["warm_prefix"] == status
    assert bed.reason("warm_prefix")
    assert outcome.meets
    assert not winner(bed).warm_prefix


def test_a_baseline_that_fails_ends_the_study_with_its_reason(tmp_path: Path):
    bed = make_bed(tmp_path, lambda c: replace(RULES(c), dies_after=6))
    with pytest.raises(EngineError, match="unoptimised"):
        bed.run()


def test_the_same_command_goes_on_and_measures_nothing_twice(tmp_path: Path):
    first = make_bed(tmp_path, RULES, budget_s=3000.0)
    first.run()
    measured = [line for line in first.said if line.startswith("measuring")]
    first.lab.store.close()
    second = make_bed(tmp_path, RULES, budget_s=3000.0)
    second.run()
    assert len(measured) > 10
    assert not [line for line in second.said if line.startswith("measuring")]
    assert winner(second) == winner(first)
    assert second.tried() == first.tried()
    runs = document(second)["runs"]
    assert [(run["run"], bool(run["measured"])) for run in runs] == [(1, True), (2, False)]


def test_a_study_interrupted_in_a_trial_keeps_the_trials_before_it(tmp_path: Path):
    class Stop(KeyboardInterrupt):
        pass

    def script_for(config: ServingConfig) -> Script:
        if config.warm_prefix:
            raise Stop
        return RULES(config)

    first = make_bed(tmp_path, script_for)
    with pytest.raises(Stop):
        first.run()
    finished = {t.id: t for t in first.lab.store.trials()}
    assert {"unoptimised", "engine-default", "prefix_cache"} <= finished.keys()
    first.lab.store.close()
    second = make_bed(tmp_path, RULES)
    second.run()
    assert not any("`unoptimised` (" in line for line in second.said)
    for name, trial in finished.items():
        assert second.lab.store.trial(name) == trial
    first_run, second_run = document(second)["runs"]
    assert set(first_run["measured"]) == set(finished)
    assert "warm_prefix" in second_run["measured"]
    assert not set(first_run["measured"]) & set(second_run["measured"])


def test_the_same_folder_with_other_inputs_is_refused(tmp_path: Path):
    make_bed(tmp_path, RULES).lab.store.close()
    with pytest.raises(StudyError) as caught:
        make_bed(tmp_path, RULES, max_quality_loss=0.5)
    assert "other inputs" in str(caught.value)
    assert "--fresh" in caught.value.hint


def test_another_budget_is_the_same_study(tmp_path: Path):
    make_bed(tmp_path, RULES).lab.store.close()
    make_bed(tmp_path, RULES, budget_s=200.0)


def test_fresh_takes_the_folder_and_forgets_the_trials(tmp_path: Path):
    first = make_bed(tmp_path, RULES, budget_s=180.0)
    first.run()
    first.lab.store.close()
    second = make_bed(tmp_path, RULES, fresh=True, max_quality_loss=0.5)
    assert second.lab.store.trials() == []


def test_each_load_level_gets_a_row_and_the_last_one_decides(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, concurrency=(1, 4), budget_s=900.0)
    outcome = bed.run()
    assert outcome.winner is not None
    row = outcome.winner.row(seed=0, quality_loss=None)
    assert set(row.by_concurrency) == {1, 4}
    assert row.concurrency == 4
    at_four = row.by_concurrency[4].throughput_tps.value
    at_one = row.by_concurrency[1].throughput_tps.value
    assert at_four is not None and at_one is not None
    assert row.throughput_tps.value == pytest.approx(at_four)
    assert at_four > at_one


def test_each_trial_leaves_its_raw_records(done: Bed):
    names = {p.name for p in (done.lab.store.folder / "records").iterdir()}
    assert {"unoptimised.jsonl.zst", "prefix_cache.jsonl.zst", "winner.jsonl.zst"} <= names
    assert not [n for n in names if n.endswith(".part")]


def test_a_lucky_candidate_does_not_survive_the_validation(tmp_path: Path):
    def lucky(config: ServingConfig) -> Script:
        # Nothing helps; one lever only looks good while it is tried.
        luck = config.threads is not None and bed.said[-1].startswith("measuring `threads`")
        return Script(decode_tps=60.0 if luck else 40.0, prefill_tps=900.0, prefix_cache=False)

    bed = make_bed(tmp_path, lucky, budget_s=2500.0)
    outcome = bed.run()
    assert bed.tried()["threads"] == "kept"
    assert not outcome.improved
    assert outcome.winner is outcome.default


def judged(bed: Bed, stages: int) -> list[str]:
    judge = VirtualJudge(bed.clock, limit=0.02, half_width=0.03, stages=stages)
    bed.lab.tools = replace(bed.lab.tools, judge=judge)
    bed.lab.bench.tools = bed.lab.tools
    bed.run()
    return [line for line in bed.said if line == "not enough evidence: more texts"]


def test_quality_in_doubt_gets_more_texts_until_it_is_settled(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, budget_s=1500.0)
    # Q8_0 of these rules loses nothing: within 3 %, then within 1.5 %.
    assert judged(bed, stages=3)
    (tried,) = [t for t in bed.lab.outcome.ablation if t.option.lever == "weights:Q8_0"]
    assert tried.quality is not None
    assert (tried.quality.verdict, tried.quality.positions) == ("pass", 1100)


def test_quality_that_stays_in_doubt_cannot_win(tmp_path: Path):
    bed = make_bed(tmp_path, RULES, budget_s=1500.0)
    assert not judged(bed, stages=1)
    assert bed.tried()["weights:source"] == "rejected"
    assert "inconclusive and cannot win" in bed.reason("weights:source")
    # Nor is the engine's default, which computes the same, known to be good enough.
    assert bed.lab.outcome.winner is None
    assert not bed.lab.outcome.meets


def test_a_validation_cut_before_the_load_claims_no_gain_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bed = make_bed(tmp_path, RULES, budget_s=600.0)
    trial = Lab.trial

    def cut(lab: Lab, trial_id: str, config: ServingConfig, **rest: object):
        done = trial(lab, trial_id, config, **rest)  # type: ignore[arg-type]
        if trial_id != "winner":
            return done
        single = replace(done.samples, cycles=())
        return replace(done, samples=single, load_blocks=(), by_level={})

    monkeypatch.setattr(Lab, "trial", cut)
    outcome = bed.run()
    assert not outcome.improved
    assert [words for name, words in outcome.warnings if name == "not_compared"] == [
        "throughput_tps not compared with the default: no gain over it is claimed"
    ]


def test_an_engine_lost_once_is_measured_again_and_the_report_says_so(tmp_path: Path):
    lost: list[str] = []

    def script_for(config: ServingConfig) -> Script:
        script = RULES(config)
        if config.warm_prefix and len(lost) < 1:
            lost.append("killed")
            return replace(script, dies_after=4)
        return script

    bed = make_bed(tmp_path, script_for)
    bed.run()
    assert bed.tried()["warm_prefix"] == "kept"
    (words,) = [words for name, words in bed.lab.outcome.warnings if name == "measured_again"]
    assert "`warm_prefix`" in words and "scripted failure" in words


def test_a_candidate_whose_reference_was_lost_is_measured_again(tmp_path: Path):
    calls: list[bool] = []

    def script_for(config: ServingConfig) -> Script:
        script = RULES(config)
        if (config.prefix_cache, config.weights) != (True, "F16"):
            return script
        # The engine of `prefix_cache` itself dies later, as the reference of the next lever.
        calls.append(True)
        return replace(script, dies_after=24) if len(calls) == 1 else script

    bed = make_bed(tmp_path, script_for, budget_s=3000.0)
    bed.run()
    names = [words for name, words in bed.lab.outcome.warnings if name == "measured_again"]
    assert names and "the engine of `prefix_cache` was lost" in names[0]


def test_a_baseline_that_was_lost_twice_is_measured_by_the_next_run(tmp_path: Path):
    first = make_bed(tmp_path, lambda c: replace(RULES(c), dies_after=6))
    with pytest.raises(EngineError, match="unoptimised"):
        first.run()
    first.lab.store.close()
    second = make_bed(tmp_path, RULES)
    assert second.run().improved


def test_more_budget_gives_the_winner_more_rounds_of_turns(tmp_path: Path):
    blocks: list[int] = []
    for budget_s in (480.0, 3000.0):
        bed = make_bed(tmp_path / f"{budget_s}", RULES, budget_s=budget_s)
        outcome = bed.run()
        assert outcome.winner is not None
        blocks.append(len(outcome.winner.single_blocks))
    # Two blocks of each side to a round, four rounds at most.
    assert blocks == [2, 8]


def test_every_figure_that_is_missing_has_its_reason(done: Bed):
    for entry in document(done)["ablation"]:
        row = entry["row"] or {}
        for name in ("ttft_p50_ms", "tps_single", "throughput_tps", "memory_bytes", "quality_loss"):
            if row and row[name] is None:
                assert row["reasons"][name], (entry["lever"], name)
    (flash,) = [e for e in document(done)["ablation"] if e["lever"] == "flash_attention"]
    # Rejected before its answers had to be scored, which is no loss of 0.
    assert flash["row"]["quality_loss"] is None
