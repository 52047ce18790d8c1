"""What llama.cpp b11549 really printed, read."""

import msgspec

from vivace.engines.llamacpp_state import Props, Slot, engine_state, kv_tokens, parse_metrics

METRICS = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed, excluding cached tokens
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 280
# TYPE llamacpp:prompt_tokens_cached_total counter
llamacpp:prompt_tokens_cached_total 1
llamacpp:prompt_seconds_total 1.66186
llamacpp:tokens_predicted_total 5
llamacpp:n_decode_total 7
llamacpp:requests_processing 2
llamacpp:requests_deferred 3
llamacpp:n_busy_slots_per_decode 1.5
"""
SLOTS = b"""[
{"id":0,"n_ctx":1024,"speculative":false,"is_processing":false,"id_task":2,"n_prompt_tokens":250,
 "n_prompt_tokens_processed":0,"n_prompt_tokens_cache":0,"next_token":[{"n_decoded":0}]},
{"id":1,"n_ctx":1024,"speculative":false,"is_processing":false}]"""
PROPS = b"""{"default_generation_settings":{"params":{"seed":1},"n_ctx":1024},"total_slots":2,
"build_info":"b0-unknown","model_path":"/m.gguf"}"""

slots = msgspec.json.decode(SLOTS, type=list[Slot])
props = msgspec.json.decode(PROPS, type=Props)


def test_counters_gauges_and_settings_are_read_back() -> None:
    metrics = parse_metrics(METRICS)
    state = engine_state(7, metrics, slots, props, context_total=2048, restored={})
    assert (state.t_ns, state.running, state.waiting) == (7, 2, 3)
    assert (state.busy_slots_per_step, state.steps_total) == (1.5, 7)
    assert (state.output_tokens_total, state.cached_tokens_total) == (5, 1)
    assert state.kv_tokens == 250
    assert state.kv_usage == 250 / 2048
    assert state.settings == {
        "slots": 2,
        "context_tokens_per_slot": 1024,
        "context_tokens_total": 2048,
        "speculation": False,
        "build": "b0-unknown",
    }


def test_prompt_tokens_include_the_cached_ones() -> None:
    state = engine_state(0, parse_metrics(METRICS), slots, props, context_total=1, restored={})
    assert state.prompt_tokens_total == 281


def test_an_absent_series_is_none_and_not_zero() -> None:
    state = engine_state(0, {}, slots, props, context_total=1, restored={})
    assert state.running is None
    assert state.waiting is None
    assert state.prompt_tokens_total is None
    assert state.cached_tokens_total is None
    assert state.output_tokens_total is None
    assert state.busy_slots_per_step is None
    assert state.steps_total is None


def test_prompt_tokens_are_unknown_when_only_one_part_is_known() -> None:
    metrics = {"llamacpp:prompt_tokens_total": 5.0}
    state = engine_state(0, metrics, slots, props, context_total=1, restored={})
    assert state.prompt_tokens_total is None


def test_a_restored_slot_counts_until_it_tells_for_itself() -> None:
    assert kv_tokens(slots, {0: 100, 1: 40}) == 290


def test_labels_comments_and_unreadable_values_are_passed_over() -> None:
    text = 'a{slot="0", x="y z"} 4\n# b 5\n\nc nothing\nd 1e3\n'
    assert parse_metrics(text) == {"a": 4.0, "d": 1000.0}
