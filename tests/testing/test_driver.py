"""The virtual driver keeps the promises of `load/base.py`."""

import math
import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vivace.errors import ConfigError
from vivace.testing import Script

from .asking import Bench, request, stream

NOISY = Script(slots=2, noise_sigma=0.05, seed=7)


def times(records):
    return [(r.request_id, r.status, r.sent_ns, r.end_ns, r.pieces) for r in records]


def test_it_always_keeps_exactly_so_many_in_flight():
    bench = Bench(replace(NOISY, slots=3))
    requests = [request(50 + 7 * i, f"q{i}x", max_tokens=1 + i % 9) for i in range(40)]
    records = bench.ask(*requests, concurrency=5)
    assert [r.request_id for r in records] == [r.id for r in requests]
    for record in records[5:]:
        flying = [r for r in records if r.sent_ns <= record.sent_ns < r.end_ns]
        assert len(flying) == 5


def test_until_is_asked_ten_times_a_second_and_at_each_first_token_and_end():
    bench = Bench(Script(prefix_cache=False))
    seen = []
    records = bench.driver.closed_loop(
        bench.running.url,
        iter([request(1050, "a")]),
        concurrency=1,
        until=lambda p: bool(seen.append((p.now_ns - p.start_ns, p.first_tokens, p.finished))),
    )
    asked_ms = [t / 1e6 for t, _, _ in seen]
    assert asked_ms == [*range(100, 1001, 100), 1050, 1100, 1200, 1250]
    assert seen[10][1:] == (1, 0)
    assert seen[-1][1:] == (1, 1)
    assert records[0].e2e_ms == 1250.0


def test_stopping_keeps_the_pieces_that_had_come():
    bench = Bench(Script(slots=2, batch_cost=0.0))
    records = bench.driver.closed_loop(
        bench.running.url,
        stream(100, max_tokens=1000),
        concurrency=3,
        until=lambda p: p.now_ns - p.start_ns >= 1_000_000_000,
    )
    assert [r.status for r in records] == ["cancelled"] * 3
    # 200 ms of prompts, then a token every 20 ms, the one at 1,000 ms included
    assert [len(r.pieces) for r in records] == [41, 41, 0]
    assert records[0].output_tokens is None
    assert records[0].pieces[-1].tokens == 41
    assert bench.driver.now_ns() == bench.clock.now_ns() == 2_000_000_000


def test_after_a_stop_the_engine_serves_the_next_load():
    bench = Bench(Script(slots=1, prefix_cache=False))
    url = bench.running.url
    bench.driver.closed_loop(url, stream(1000), concurrency=4, until=lambda p: p.now_ns > 1.2e9)
    (record,) = bench.ask(request(100, "a"))
    # the step under way, 1,000 prompt tokens from 1.0 s on, goes on to its end at 2.0 s
    assert record.sent_ns == 1_300_000_000
    assert record.ttft_ms == 700.0 + 100.0


def test_one_seed_gives_one_history():
    def run(script):
        requests = [request(80, f"q{i}x") for i in range(12)]
        return times(Bench(script).ask(*requests, concurrency=3))

    assert run(NOISY) == run(NOISY)
    assert run(NOISY) != run(replace(NOISY, seed=8))


def test_a_second_start_has_noise_of_its_own():
    bench = Bench(NOISY)
    first = bench.ask(request(100, "a"))[0]
    bench.start()
    second = bench.ask(request(100, "a"))[0]
    assert first.text == second.text
    assert first.ttft_ms != second.ttft_ms


@pytest.mark.parametrize("sigma", [0.05, 0.2])
def test_noise_has_the_spread_that_was_asked_for(sigma):
    bench = Bench(Script(noise_sigma=sigma, prefix_cache=False, slots=1))
    records = bench.ask(*(request(100, f"q{i}x", max_tokens=2) for i in range(2000)))
    logs = [math.log(r.ttft_ms / 100) for r in records]
    # 2,000 draws: four standard errors of mean and deviation
    assert abs(statistics.mean(logs)) < 4 * sigma / 2000**0.5
    assert abs(statistics.stdev(logs) / sigma - 1) < 4 / 4000**0.5


def test_totals_of_the_engine_are_those_of_the_records():
    bench = Bench(replace(NOISY, slots=3, drafted_per_step=2.0, accepted_per_step=0.7))
    requests = [request(100, f"q{i}x", shared=60, max_tokens=1 + i % 17) for i in range(50)]
    records = bench.ask(*requests, concurrency=4)
    state = bench.running.state()
    usages = [r.usage for r in records]
    assert state.output_tokens_total == sum(u.completion_tokens for u in usages)
    assert state.cached_tokens_total == sum(u.cached_tokens for u in usages) > 0
    assert state.prompt_tokens_total == sum(u.prompt_tokens for u in usages)
    assert (state.running, state.waiting) == (0, 0)
    assert 1 < state.busy_slots_per_step <= 3
    counters = bench.running.model.counters
    steps = sum(u.draft_tokens for u in usages) / 2
    assert counters.decoded == steps
    assert state.steps_total == counters.steps > 0


def test_memory_is_the_sum_of_its_parts():
    script = Script(
        slots=4,
        context_tokens=1000,
        weights_bytes=500,
        kv_bytes_per_token=2.0,
        other_bytes=30,
    )
    bench = Bench(script)
    bench.ask(request(100, "a"))
    memory = bench.running.memory()
    assert memory.kv == 2 * (100 + 11)
    assert memory.reserved == 8000 - memory.kv
    assert memory.total == memory.weights + memory.kv + memory.other == 500 + 8000 + 30


def test_a_clock_does_not_run_backwards():
    with pytest.raises(ValueError, match="cannot go back"):
        Bench(NOISY).clock.advance(-1)


@pytest.mark.parametrize("field", ["prefill_tps", "slots", "batch_tokens"])
def test_a_script_without_speed_or_slots_is_refused(field):
    with pytest.raises(ConfigError, match=field):
        Script(**{field: 0})


@settings(max_examples=60, deadline=None)
@given(
    slots=st.integers(1, 4),
    concurrency=st.integers(1, 6),
    sizes=st.lists(st.tuples(st.integers(3, 60), st.integers(1, 30)), min_size=1, max_size=12),
    batch_tokens=st.sampled_from([16, 64, 2048]),
    accepted=st.sampled_from([0.0, 0.35, 2.0]),
    continuous=st.booleans(),
)
def test_jumping_over_equal_steps_changes_nothing(
    slots, concurrency, sizes, batch_tokens, accepted, continuous
):
    script = Script(
        slots=slots,
        batch_tokens=batch_tokens,
        drafted_per_step=accepted,
        accepted_per_step=accepted,
        continuous=continuous,
        noise_sigma=0.1,
    )
    requests = [request(p, f"q{i}x", max_tokens=m) for i, (p, m) in enumerate(sizes)]
    jumped = Bench(script).ask(*requests, concurrency=concurrency)

    bench = Bench(script)
    model, step = bench.running.model, bench.running.model.advance

    def one_step_at_a_time(limit_ns):
        while (end_ns := model.next_ns()) is not None and end_ns <= limit_ns:
            if changed := step(end_ns):
                return changed
        return step(limit_ns)

    model.advance = one_step_at_a_time
    stepped = bench.ask(*requests, concurrency=concurrency)
    assert times(jumped) == times(stepped)
    assert all(r.status == "ok" for r in jumped)
