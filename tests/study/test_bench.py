"""Trials on the bench: the order of blocks, what runs beside what, and what failures leave."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import pytest

from vivace.core import ServingConfig
from vivace.errors import EngineRequestError
from vivace.measure.slo import parse_slo
from vivace.study.bench import Bench
from vivace.study.ports import Tools
from vivace.study.trial import Ask, Measured, Phase
from vivace.testing import (
    NO_FILES,
    SMOL_SHAPE,
    Clock,
    Script,
    VirtualDriver,
    VirtualEngine,
    VirtualJudge,
)
from vivace.workload import make_workload

from .virtual import TYPES

FAST = ServingConfig(engine="scripted", weights="fast")
SLOW = ServingConfig(engine="scripted", weights="slow")
THIRD = ServingConfig(engine="scripted", weights="third")


class Watched(VirtualDriver):
    """Notes which configuration each load went to, how wide it was, and how many engines ran.

    `events` has every load by its side, and between them the sides that were waited for.
    """

    def __init__(self, clock: Clock, engine: VirtualEngine) -> None:
        super().__init__(clock, [engine], tokens_per_piece=4)
        self.engine = engine
        self.loads: list[tuple[str, int]] = []
        self.events: list[str] = []
        self.most = 0

    def closed_loop(self, url, requests, *, concurrency, until=None, stall_s=60.0):
        records = super().closed_loop(
            url, requests, concurrency=concurrency, until=until, stall_s=stall_s
        )
        if url in self.engine.running:
            name = self.engine.running[url].config.weights
            self.loads.append((name, concurrency))
            self.events.append(name)
        self.most = max(self.most, len(self.engine.running))
        return records


@dataclass
class Case:
    bench: Bench
    driver: Watched
    engine: VirtualEngine

    def order(self) -> list[str]:
        """Sides in the order of their turns, without the warm-ups' repetitions."""
        return [name for name, _ in groupby(name for name, _ in self.driver.loads)]


def make(folder: Path, scripts: dict[str, Script] | None = None, *, together: bool = True) -> Case:
    known = {"fast": Script(slots=4, decode_tps=80.0), "slow": Script(slots=4), **(scripts or {})}
    clock = Clock()
    engine = VirtualEngine(lambda c: known.get(c.weights, Script(slots=4)), clock=clock)
    driver = Watched(clock, engine)
    tools = Tools(
        engine=engine, driver=driver, judge=VirtualJudge(clock, limit=0.02),
        files=lambda config: NO_FILES, workload=make_workload("assistant", seed=0), shape=SMOL_SHAPE,
        weight_types=TYPES, cores=2, free_memory=lambda: 2**34, cpu_mark=lambda _pids: None, workdir=folder, say=lambda _: None,
    )  # fmt: skip
    bench = Bench(tools=tools, slo=parse_slo(""), window_s=20.0, together=together)
    return Case(bench=bench, driver=driver, engine=engine)


def ask(config: ServingConfig, **changes: object) -> Ask:
    return replace(
        Ask(id=config.weights, config=config, levels=(4,), salt="x"),
        **changes,  # type: ignore[arg-type]
    )


def ids(measured: Measured, phase: str) -> list[str]:
    return [record.request_id for name, record in measured.records if name == phase]


def test_single_blocks_go_forth_and_back_and_a_load_lies_between_two(tmp_path: Path):
    case = make(tmp_path)
    measured = case.bench.run(ask(FAST), [ask(SLOW)])
    # B A A B one request at a time, then B A B under load: neighbours of the same side join.
    assert case.order() == ["fast", "slow", "fast", "slow", "fast"]
    assert len(measured.single_blocks) == 2
    assert len(measured.load_blocks) == 2
    (other,) = measured.others
    assert (len(other.single_blocks), len(other.load_blocks)) == (2, 1)


def test_a_mirrored_trial_gives_each_side_as_much_load(tmp_path: Path):
    case = make(tmp_path)
    measured = case.bench.run(ask(FAST), [ask(SLOW), ask(THIRD)], mirrored=True)
    assert len(measured.load_blocks) == 2
    assert [len(o.load_blocks) for o in measured.others] == [2, 2]
    loads = [name for name, width in case.driver.loads if width == 4]
    # Each side's first is the wave that warms its slots.
    for name in ("fast", "slow", "third"):
        loads.remove(name)
    assert loads == ["fast", "slow", "third", "third", "slow", "fast"]


def test_both_sides_get_the_same_single_questions(tmp_path: Path):
    measured = make(tmp_path).bench.run(ask(FAST), [ask(SLOW)])
    assert ids(measured, "single") == ids(measured.others[0], "single")
    assert len(set(ids(measured, "single"))) == 6


def test_the_candidates_windows_together_are_as_long_as_one_alone(tmp_path: Path):
    paired = make(tmp_path).bench.run(ask(FAST), [ask(SLOW)])
    alone = make(tmp_path).bench.run(ask(FAST))
    assert paired.samples.window_s is not None and paired.samples.window_s >= 20
    assert alone.samples.window_s is not None and alone.samples.window_s >= 20
    assert len(alone.load_blocks) == 1


def test_a_kept_engine_goes_on_and_is_not_warmed_again(tmp_path: Path):
    case = make(tmp_path)
    case.bench.run(ask(SLOW, levels=()))
    case.bench.keep()
    starts = case.engine.starts
    measured = case.bench.run(ask(FAST, salt="y", levels=()), [ask(SLOW, salt="y", levels=())])
    assert case.engine.starts == starts + 1
    assert not ids(measured.others[0], "warm")
    assert ids(measured.others[0], "single") == ids(measured, "single")


def test_memory_is_read_when_no_other_engine_runs(tmp_path: Path):
    case = make(tmp_path)
    running: list[int] = []
    start = case.engine.start

    def watching(*args, **kwargs):
        engine = start(*args, **kwargs)
        read = engine.memory
        engine.memory = lambda: (running.append(len(case.engine.running)), read())[1]
        return engine

    case.engine.start = watching
    measured = case.bench.run(ask(FAST), [ask(SLOW)])
    assert measured.memory is not None
    assert running == [1]


def test_engines_that_do_not_fit_beside_each_other_take_turns_in_memory(tmp_path: Path):
    case = make(tmp_path, together=False)
    measured = case.bench.run(ask(FAST), [ask(SLOW)])
    assert case.driver.most == 1
    assert measured.status == "ok"
    assert len(measured.others[0].single_blocks) == 2


def test_one_side_after_the_other_is_ended_with_the_bench(tmp_path: Path):
    case = make(tmp_path)
    case.bench.run(ask(SLOW))
    case.bench.keep()
    case.bench.run(ask(FAST), [ask(SLOW)])
    case.bench.close()
    assert case.engine.running == {}


@pytest.mark.parametrize("decision", ["keep", "dismiss"])
def test_after_a_decision_only_the_best_runs(tmp_path: Path, decision: str):
    case = make(tmp_path)
    case.bench.run(ask(SLOW))
    case.bench.keep()
    case.bench.run(ask(FAST, levels=()), [ask(SLOW, levels=())])
    getattr(case.bench, decision)()
    names = {running.config.weights for running in case.engine.running.values()}
    assert names <= ({"fast"} if decision == "keep" else {"slow"})


def test_a_reference_that_dies_leaves_the_candidate_to_be_measured(tmp_path: Path):
    case = make(tmp_path, {"slow": Script(slots=4, dies_after=5)})
    measured = case.bench.run(ask(FAST), [ask(SLOW)])
    assert measured.status == "ok"
    assert len(measured.single_blocks) == 2
    assert measured.samples.cycles


def test_a_candidate_that_dies_is_crashed_and_ended(tmp_path: Path):
    case = make(tmp_path, {"fast": Script(slots=4, dies_after=5)})
    measured = case.bench.run(ask(FAST), [ask(SLOW)])
    assert (measured.status, measured.reason) == ("crashed", "scripted failure")
    assert "fast" not in {r.config.weights for r in case.engine.running.values()}


def gate_of(answers: dict[Phase, Sequence[str | None]], seen: list[Phase]):
    left = {phase: list(values) for phase, values in answers.items()}

    def gate(_measured: Measured, phase: Phase) -> str | None:
        seen.append(phase)
        return left[phase].pop(0)

    return gate


def test_a_clear_first_block_needs_no_turns(tmp_path: Path):
    seen: list[Phase] = []
    gate = gate_of({"glance": [""], "single": [""], "loaded": [""]}, seen)
    case = make(tmp_path)
    measured = case.bench.run(ask(FAST, gate=gate), [ask(SLOW, gate=gate)])
    assert seen == ["glance", "single", "loaded"]
    assert measured.others[0].single_blocks == []
    assert "slow" not in case.order()


def test_an_undecided_round_is_followed_by_another(tmp_path: Path):
    seen: list[Phase] = []
    gate = gate_of({"glance": [None], "single": [None, ""], "loaded": [""]}, seen)
    asked = ask(FAST, gate=gate, rounds=2)
    measured = make(tmp_path).bench.run(asked, [ask(SLOW)])
    assert seen == ["glance", "single", "single", "loaded"]
    assert len(measured.single_blocks) == len(measured.others[0].single_blocks) == 4


def test_a_settled_trial_ends_without_a_load_and_says_why(tmp_path: Path):
    gate = gate_of({"glance": [None], "single": ["a loss"]}, [])
    measured = make(tmp_path).bench.run(ask(FAST, gate=gate), [ask(SLOW)])
    assert (measured.status, measured.reason) == ("ok", "a loss")
    assert measured.skipped["throughput_tps"] == "not measured: a loss"
    assert not measured.load_blocks


def test_a_deadline_within_the_window_keeps_what_is_long_enough(tmp_path: Path):
    case = make(tmp_path)
    # The single phase of this script ends at about 10 s.
    measured = case.bench.run(ask(FAST, deadline_ns=round(25e9)))
    assert measured.status == "ok"
    assert measured.notes[0][0] == "short_window"
    assert measured.samples.window_s is not None and 8 <= measured.samples.window_s < 20


def test_a_deadline_before_a_window_interrupts_the_trial(tmp_path: Path):
    measured = make(tmp_path).bench.run(ask(FAST, deadline_ns=round(12e9)))
    assert measured.status == "interrupted"
    assert "budget" in measured.reason


def watch_settling(case: Case, *, settles: bool = True) -> None:
    start = case.engine.start

    def watched(*args, **kwargs):
        running = start(*args, **kwargs)

        def settle() -> bool:
            case.driver.events.append(f"settle {running.config.weights}")
            return settles

        running.settle = settle
        return running

    case.engine.start = watched


def test_an_engine_is_waited_for_before_the_next_block_of_any_side(tmp_path: Path):
    case = make(tmp_path)
    watch_settling(case)
    measured = case.bench.run(ask(FAST), [ask(SLOW)])
    assert [name for name in case.driver.events if "settle" in name] == [
        "settle fast",
        "settle slow",
    ]
    # Each directly before the other side's next block; the last one has none after it.
    for place, name in enumerate(case.driver.events):
        if "settle" in name:
            assert case.driver.events[place + 1] != name.removeprefix("settle ")
    assert not measured.notes


def test_without_cancelled_requests_nothing_is_waited_for(tmp_path: Path):
    case = make(tmp_path)
    watch_settling(case)
    case.bench.run(ask(FAST, levels=()), [ask(SLOW, levels=())])
    assert not [name for name in case.driver.events if "settle" in name]


def test_an_engine_that_does_not_come_to_rest_is_a_warning(tmp_path: Path):
    case = make(tmp_path)
    watch_settling(case, settles=False)
    measured = case.bench.run(ask(FAST), [ask(SLOW)])
    (note,) = measured.notes
    assert note[0] == "not_settled"
    assert "load-4" in note[1]


def test_the_wave_that_warms_the_slots_is_as_wide_as_the_slots_that_will_be_used(tmp_path: Path):
    for slots, level, wide in ((4, 16, 4), (4, 2, 2)):
        case = make(tmp_path, {"fast": Script(slots=slots)})
        case.bench.run(ask(FAST, levels=(level,)))
        wave, load = case.driver.loads[-2:]
        assert (wave, load) == (("fast", wide), ("fast", level))


def test_what_a_validation_had_measured_when_the_budget_ended_stands(tmp_path: Path):
    case = make(tmp_path)
    whole = make(tmp_path).bench.run(ask(FAST, levels=()), [ask(SLOW, levels=())])
    end = round((whole.wall_s + 1) * 1e9)
    measured = case.bench.run(
        ask(FAST, deadline_ns=end, keeps_part=True), [ask(SLOW, deadline_ns=end)]
    )
    assert (measured.status, measured.reason) == ("ok", "")
    assert ("cut_short", "`fast`: the budget ended during this trial; what it measured stands") in (
        measured.notes
    )
    assert "the budget ended" in measured.skipped["throughput_tps"]
    assert len(measured.single_blocks) == 2
    assert measured.memory is not None


def test_without_two_blocks_there_is_nothing_to_keep(tmp_path: Path):
    measured = make(tmp_path).bench.run(
        ask(FAST, deadline_ns=round(4e9), keeps_part=True), [ask(SLOW)]
    )
    assert measured.status == "interrupted"


def test_a_reference_that_was_lost_while_it_idled_is_started_again(tmp_path: Path):
    case = make(tmp_path)
    case.bench.run(ask(SLOW, levels=()))
    case.bench.keep()
    (idle,) = case.engine.running.values()

    def lost() -> None:
        raise EngineRequestError("timed out")

    idle.state = lost
    measured = case.bench.run(ask(FAST, salt="y", levels=()), [ask(SLOW, salt="y", levels=())])
    assert measured.status == "ok"
    assert len(measured.others[0].single_blocks) == 2
    assert idle not in case.engine.running.values()


def test_an_engine_that_does_not_answer_about_itself_is_lost(tmp_path: Path):
    case = make(tmp_path)
    start = case.engine.start

    def hanging(*args, **kwargs):
        running = start(*args, **kwargs)
        state, asked = running.state, []

        def once():
            asked.append(1)
            if len(asked) > 1:
                raise EngineRequestError("timed out")
            return state()

        running.state = once
        return running

    case.engine.start = hanging
    measured = case.bench.run(ask(FAST))
    assert (measured.status, measured.reason, measured.lost) == ("crashed", "timed out", True)


def test_a_load_that_was_measured_on_both_sides_stands_too(tmp_path: Path):
    asked = ask(FAST, keeps_part=True, there_and_back=False)
    rival = ask(SLOW, there_and_back=False)
    whole = make(tmp_path).bench.run(asked, [rival])
    # Within the last block of B A B, which has no window yet.
    end = round((whole.wall_s - 8) * 1e9)
    case = make(tmp_path)
    cut = case.bench.run(replace(asked, deadline_ns=end), [replace(rival, deadline_ns=end)])
    assert (cut.status, len(cut.load_blocks), len(cut.others[0].load_blocks)) == ("ok", 1, 1)
    assert [code for code, _ in cut.notes] == ["cut_short"]
    assert "throughput_tps" not in cut.skipped


def test_memory_that_cannot_be_read_leaves_the_rest_of_the_trial(tmp_path: Path):
    case = make(tmp_path)
    start = case.engine.start

    def silent(*args, **kwargs):
        running = start(*args, **kwargs)

        def memory() -> None:
            raise EngineRequestError("timed out")

        running.memory = memory
        return running

    case.engine.start = silent
    measured = case.bench.run(ask(FAST))
    assert (measured.status, measured.memory) == ("ok", None)
    assert [code for code, _ in measured.notes] == ["no_memory"]


def test_a_trial_without_a_load_says_why(tmp_path: Path):
    measured = make(tmp_path).bench.run(ask(FAST, levels=(), no_load="because"))
    assert measured.skipped["throughput_tps"] == "because"


def test_empty_answers_are_named_and_end_a_trial_where_there_are_no_others(tmp_path: Path):
    case = make(tmp_path, {"fast": Script(slots=4, answer_tokens=0)})
    measured = case.bench.run(ask(FAST))
    assert measured.status == "infeasible"
    assert "empty answer" in measured.reason
