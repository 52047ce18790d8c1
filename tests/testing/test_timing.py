"""Times of the scripted engine, each worked out by hand: 1,000 prompt and 50 answer tokens/s."""

from dataclasses import replace
from itertools import pairwise

from vivace.core import Message
from vivace.load.steady import SteadyWindow
from vivace.testing import Script

from .asking import CONFIG, Bench, request, stream, words

PLAIN = Script(prefill_tps=1000, decode_tps=50, prefix_cache=False)


def ttfts(records):
    return [r.ttft_ms for r in records]


def test_a_lone_request_takes_its_prompt_and_then_its_tokens():
    (record,) = Bench(PLAIN).ask(request(100, "a"))
    assert (record.ttft_ms, record.tpot_ms, record.e2e_ms) == (100.0, 20.0, 300.0)
    assert record.usage.prompt_tokens == 100
    assert record.usage.cached_tokens == 0
    assert record.output_tokens == len(record.pieces) == 11
    assert [p.tokens for p in record.pieces] == list(range(1, 12))
    assert record.text.split(" ") == [p.text.strip() for p in record.pieces]
    assert (record.status, record.finish_reason) == ("ok", "length")


def test_a_step_with_prompt_tokens_can_cost_a_fixed_time():
    script = replace(PLAIN, prompt_step_s=0.08, batch_tokens=60)
    (record,) = Bench(script).ask(request(100, "a"))
    assert (record.ttft_ms, record.tpot_ms) == (260.0, 20.0)  # two steps for 100 tokens


def test_one_at_a_time_requests_do_not_wait_for_each_other():
    records = Bench(PLAIN).ask(request(100, "a"), request(50, "b"), request(200, "c"))
    assert ttfts(records) == [100.0, 50.0, 200.0]
    assert [r.sent_ns for r in records[1:]] == [r.end_ns for r in records[:2]]


def test_an_answer_of_one_token_ends_with_its_prompt():
    (record,) = Bench(PLAIN).ask(request(100, "a", max_tokens=1))
    assert record.e2e_ms == record.ttft_ms == 100.0
    assert record.tpot_ms is None


def test_a_cached_prefix_is_not_computed_again():
    bench = Bench(replace(PLAIN, prefix_cache=True))
    first, second, again = bench.ask(
        request(100, "a", shared=90), request(100, "b", shared=90), request(100, "b", shared=90)
    )
    assert ttfts([first, second, again]) == [100.0, 10.0, 1.0]
    assert [r.usage.cached_tokens for r in (first, second, again)] == [0, 90, 99]


def test_the_next_turn_finds_the_answer_in_the_cache():
    bench = Bench(replace(PLAIN, prefix_cache=True))
    question = request(100, "a")
    (answer,) = bench.ask(question)
    turn = replace(
        question,
        messages=(
            *question.messages,
            Message(role="assistant", content=answer.text),
            Message(role="user", content=words(8, "b")),
        ),
    )
    (record,) = bench.ask(turn)
    assert record.usage.prompt_tokens == 121
    assert record.usage.cached_tokens == 111
    assert record.ttft_ms == 10.0


def test_one_slot_serves_in_order_of_arrival():
    records = Bench(PLAIN).ask(*(request(100, n) for n in "abcd"), concurrency=4)
    assert ttfts(records) == [100.0, 400.0, 700.0, 1000.0]


def test_four_slots_share_the_prefill_step_and_each_decode_step():
    script = replace(PLAIN, slots=4, batch_cost=0.1)
    records = Bench(script).ask(*(request(100, n) for n in "abcd"), concurrency=4)
    assert ttfts(records) == [400.0] * 4
    assert [r.tpot_ms for r in records] == [26.0] * 4  # (1 + 0.1 * 3) / 50 s


def test_a_small_batch_computes_prompts_one_after_the_other_while_others_write():
    script = replace(PLAIN, slots=2, batch_cost=0.5, batch_tokens=100)
    records = Bench(script).ask(request(100, "a"), request(200, "b"), concurrency=2)
    # a's prompt; then twice 100 tokens of b's (100 ms) with one of a's (20 ms)
    assert ttfts(records) == [100.0, 340.0]
    gaps = [(b.t_ns - a.t_ns) / 1e6 for a, b in pairwise(records[0].pieces)]
    assert gaps == [120.0, 120.0] + [30.0] * 8  # then both write: (1 + 0.5) / 50 s


def test_continuous_batching_fills_a_free_slot_at_once():
    script = replace(PLAIN, slots=2, batch_cost=0.0)
    requests = [request(100, "a"), request(100, "b", max_tokens=21), request(100, "c")]
    records = Bench(script).ask(*requests, concurrency=3)
    # a ends at 200 + 10 * 20; c's prompt then takes 100, with one token of b's
    assert ttfts(records) == [200.0, 200.0, 520.0]


def test_static_batching_waits_for_the_whole_batch():
    script = replace(PLAIN, slots=2, batch_cost=0.0, continuous=False)
    requests = [request(100, "a"), request(100, "b", max_tokens=21), request(100, "c")]
    records = Bench(script).ask(*requests, concurrency=3)
    # b ends at 200 + 20 * 20; c's prompt begins then
    assert ttfts(records) == [200.0, 200.0, 700.0]


def test_each_cold_slot_computes_the_shared_prefix():
    script = Script(prefill_tps=1000, slots=4)
    requests = [request(1010, n, shared=1000) for n in "abcd"]
    bench = Bench(script)
    cold = bench.ask(*requests, concurrency=4)
    # 2,048 tokens fit a step: a, b and 28 of c's; then the rest with a token each of a and b
    assert ttfts(cold) == [2048.0, 2048.0, 4062.0, 4062.0]  # 2,048 + 982 + 1,010 + 22
    assert sum(r.usage.cached_tokens for r in cold) == 0


def test_warmed_slots_all_know_the_shared_prefix():
    bench = Bench(Script(prefill_tps=1000, slots=4, start_s=2.0))
    before_s = bench.clock.now_s()
    prefix = request(1010, "a", shared=1000).messages[:1]
    bench.start(replace(CONFIG, warm_prefix=True), prefixes=[prefix])
    # start, 999 tokens of tag and words, four copies of 7 ms
    assert round(bench.clock.now_s() - before_s, 9) == 2.0 + 0.999 + 0.028
    requests = [request(1010, n, shared=1000) for n in "abcd"]
    warm = bench.ask(*requests, concurrency=4)
    assert [r.usage.cached_tokens for r in warm] == [999] * 4
    assert ttfts(warm) == [44.0] * 4
    bench.running.reset_cache()
    (again,) = bench.ask(request(1010, "e", shared=1000))
    assert again.ttft_ms == 11.0


def test_speculation_writes_several_tokens_a_step():
    script = replace(PLAIN, batch_cost=0.1, drafted_per_step=2.0, accepted_per_step=1.0)
    (record,) = Bench(script).ask(request(100, "a"))
    # 2 tokens a step of (1 + 0.1 * 2) / 50 s
    assert [p.tokens for p in record.pieces] == [1, 3, 5, 7, 9, 11]
    assert record.tpot_ms == 12.0
    assert (record.usage.draft_tokens, record.usage.accepted_tokens) == (10, 5)


def test_a_draft_model_costs_its_own_steps():
    script = replace(
        PLAIN, batch_cost=0.0, drafted_per_step=3.0, accepted_per_step=1.0, draft_cost=2.0
    )
    (record,) = Bench(script).ask(request(100, "a"))
    assert record.tpot_ms == 30.0  # 2 tokens in a step of (1 + 2) / 50 s


def test_pieces_can_be_joined_without_moving_first_and_last():
    requests = [request(100, "a", max_tokens=12)]
    (fine,) = Bench(PLAIN).ask(*requests)
    (coarse,) = Bench(PLAIN, tokens_per_piece=5).ask(*requests)
    assert [p.tokens for p in coarse.pieces] == [1, 6, 11, 12]
    assert (coarse.text, coarse.ttft_ms, coarse.e2e_ms) == (fine.text, fine.ttft_ms, fine.e2e_ms)
    assert {(p.t_ns, p.tokens) for p in coarse.pieces} < {(p.t_ns, p.tokens) for p in fine.pieces}


def test_a_steady_window_holds_whole_cycles_of_one_slot():
    bench = Bench(PLAIN)
    window = SteadyWindow(concurrency=4, min_s=3.0, ramp_cap_s=1.0)
    records = bench.driver.closed_loop(bench.running.url, stream(100), concurrency=4, until=window)
    assert window.start_ns is not None
    assert window.end_ns is not None
    # a request ends every 100 + 10 * 20 ms
    assert (window.end_ns - window.start_ns) / 1e9 == 3.0
    assert [r.status for r in records].count("cancelled") == 4 - 1
    assert len(records) == 4 + 10 + 3  # ended before, in and after the window
