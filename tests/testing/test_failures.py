"""What a scripted engine does wrong when its script says so."""

import pytest

from vivace.errors import EngineStartError
from vivace.testing import Script

from .asking import CONFIG, FILES, Bench, request


def statuses(records):
    return [r.status for r in records]


@pytest.mark.parametrize("outcome", ["crashed", "oom", "infeasible"])
def test_a_start_fails_as_scripted(outcome, tmp_path):
    bench = Bench(Script())
    bench.engine.script_for = lambda _: Script(start_failure=outcome, last_words="no more memory")
    with pytest.raises(EngineStartError, match="no more memory") as error:
        bench.engine.start(FILES, CONFIG, workdir=tmp_path)
    assert (error.value.outcome, error.value.last_words) == (outcome, "no more memory")


def test_a_slow_start_takes_exactly_the_time_allowed(tmp_path):
    bench = Bench(Script(start_s=1.0))
    bench.engine.script_for = lambda _: Script(start_s=31.0)
    with pytest.raises(EngineStartError) as error:
        bench.engine.start(FILES, CONFIG, workdir=tmp_path, timeout_s=30.0)
    assert error.value.outcome == "timeout"
    assert bench.clock.now_s() == 1.0 + 30.0


def test_a_crash_takes_what_is_in_flight_with_it():
    bench = Bench(Script(slots=2, batch_cost=0.0, dies_after=2, death="oom", last_words="killed"))
    requests = [request(100, "a"), request(100, "b", max_tokens=21), request(100, "c")]
    assert bench.running.failure() is None
    records = bench.ask(*requests, concurrency=3)
    assert statuses(records) == ["ok", "error", "error"]
    # c would begin when a ends at 400 ms: b has 11 of its 21 tokens by then
    assert len(records[1].pieces) == 11
    assert records[1].end_ns == records[0].end_ns
    assert "died" in (records[1].error or "")
    assert bench.running.failure() == ("oom", "killed")


def test_a_dead_engine_ends_an_endless_load():
    bench = Bench(Script(dies_after=0))
    forever = (request(10, f"q{i}x") for i in iter(int, 1))
    records = bench.driver.closed_loop(bench.running.url, forever, concurrency=3)
    assert len(records) == 8
    assert set(statuses(records)) == {"error"}


def test_a_stopped_engine_refuses():
    bench = Bench(Script())
    bench.running.stop()
    bench.running.stop()
    (record,) = bench.ask(request(10, "a"))
    assert (record.status, record.error, record.pieces) == ("error", "connection refused", ())
    assert record.http_status is None


def test_a_hang_stalls_what_waits_and_what_was_writing():
    bench = Bench(Script(slots=2, batch_cost=0.0, hangs_after=2))
    requests = [request(100, "a"), request(100, "b", max_tokens=21), request(100, "c")]
    records = bench.ask(*requests, concurrency=3, stall_s=5.0)
    assert statuses(records) == ["ok", "stalled", "stalled"]
    # silent since 400 ms: b wrote its 11th token then, and until then c may have been in a queue
    assert [(r.end_ns - r.sent_ns) / 1e9 for r in records[1:]] == [5.4, 5.4]
    assert [len(r.pieces) for r in records[1:]] == [11, 0]
    assert bench.running.failure() is None


def test_waiting_in_a_long_queue_is_no_stall_while_others_are_answered():
    bench = Bench(Script(prefix_cache=False))
    # each takes 2 s of prompt and 0.2 s of answer
    records = bench.ask(*(request(2000, n) for n in "abc"), concurrency=3, stall_s=5.0)
    assert statuses(records) == ["ok", "ok", "ok"]
    assert (records[2].ttft_ms or 0) > 5000


def test_every_nth_request_is_refused():
    bench = Bench(Script(error_every=3, error_status=429))
    records = bench.ask(*(request(10, n) for n in "abcdefg"))
    assert statuses(records) == ["ok", "ok", "error", "ok", "ok", "error", "ok"]
    assert records[2].http_status == 429
    assert records[2].end_ns == records[2].sent_ns


def test_a_prompt_that_fills_the_context_is_refused():
    bench = Bench(Script(context_tokens=100))
    fits, full = bench.ask(request(99, "a"), request(100, "b"))
    assert (fits.status, fits.output_tokens, fits.finish_reason) == ("ok", 1, "length")
    assert (full.status, full.http_status) == ("error", 400)
    assert "100 tokens" in (full.error or "")


def test_empty_answers_end_without_output():
    (record,) = Bench(Script(answer_tokens=0)).ask(request(100, "a"))
    assert (record.status, record.pieces, record.output_tokens) == ("ok", (), 0)
    assert record.finish_reason == "stop"
    assert record.end_ns - record.sent_ns == 100_000_000


def test_answers_can_end_by_themselves():
    (record,) = Bench(Script(answer_tokens=5)).ask(request(100, "a"))
    assert (record.output_tokens, record.finish_reason) == (5, "stop")
