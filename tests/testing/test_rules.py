"""Each setting has the effect that the rules name, so studies know the right winner."""

from dataclasses import replace

import pytest

from vivace.core import ServingConfig, Speculation
from vivace.errors import ConfigError
from vivace.testing import Clock, Rules, VirtualDriver, VirtualEngine, VirtualJudge

from .asking import FILES, request, stream

UNOPTIMISED = ServingConfig(
    engine="scripted", weights="F16", slots=1, context_tokens=1024, prefix_cache=False
)
NGRAM = Speculation(kind="ngram", n_max=16, n_min=2, n_match=8)
DRAFT = Speculation(kind="draft", n_max=5, draft_weights="Q4_0")


class Figures:
    """TTFT and tokens/s alone (third request), tokens/s of 16 at once, memory."""

    def __init__(self, config, rules, tmp_path):
        clock = Clock()
        engine = VirtualEngine(rules, clock=clock)
        driver = VirtualDriver(clock, [engine], tokens_per_piece=8)
        prefix = request(420, "x", shared=400).messages[:1]
        running = engine.start(FILES, config, workdir=tmp_path, prefixes=[prefix])
        requests = stream(420, shared=400, max_tokens=65)
        alone = driver.closed_loop(running.url, (next(requests) for _ in range(3)), concurrency=1)
        self.ttft_ms = alone[-1].ttft_ms
        self.tps = 1000 / alone[-1].tpot_ms
        running.reset_cache()
        begin_s = clock.now_s()
        lengths = [33 + 32 * (i % 3) for i in range(32)]
        many = (replace(next(requests), max_tokens=n) for n in lengths)
        batch = driver.closed_loop(running.url, many, concurrency=16, stall_s=600)
        self.throughput = sum(r.output_tokens for r in batch) / (clock.now_s() - begin_s)
        self.memory = running.memory().total


@pytest.fixture
def figures(tmp_path):
    return lambda change=(), rules=None, start=UNOPTIMISED: Figures(
        replace(start, **dict(change)), rules or Rules(), tmp_path
    )


def test_the_unoptimised_baseline_has_the_speed_of_its_base_script(figures):
    plain = figures()
    assert plain.ttft_ms == 80 + 420 / 250 * 1000
    assert round(plain.tps, 6) == 45.0


def test_the_prefix_cache_leaves_only_the_question_to_compute(figures):
    assert figures({"prefix_cache": True}).ttft_ms == 80 + 20 / 250 * 1000


@pytest.mark.parametrize(
    ("weights", "factor"), [("source", 1.3), ("Q8_0", 1.2), ("Q4_0", 1.5), ("Q4_K_M", 1.1)]
)
def test_lighter_weights_are_faster_and_smaller(figures, weights, factor):
    plain, light = figures(), figures({"weights": weights})
    assert round(light.tps / plain.tps, 6) == factor
    assert round(plain.ttft_ms / light.ttft_ms, 6) == factor
    assert light.memory < plain.memory


def test_more_slots_give_throughput_and_cost_memory(figures):
    one, four, sixteen = (figures({"slots": n}) for n in (1, 4, 16))
    assert one.throughput < four.throughput < sixteen.throughput
    assert one.memory < four.memory < sixteen.memory
    assert one.tps == sixteen.tps


def test_warm_slots_beat_cold_ones_with_a_cache(figures):
    cached = {"slots": 16, "prefix_cache": True}
    cold, warm = figures(cached), figures(cached | {"warm_prefix": True})
    assert warm.throughput > 1.2 * cold.throughput


def test_static_batching_is_slower_than_continuous(figures):
    base = {"slots": 4}
    assert figures(base | {"continuous_batching": False}).throughput < figures(base).throughput


def test_flash_attention_off_is_slower_or_faster_as_the_rules_say(figures):
    off = {"flash_attention": False}
    assert round(figures().ttft_ms / figures(off).ttft_ms, 6) == 0.7
    assert figures(off, Rules(flash_attention_off=1.25)).ttft_ms < figures().ttft_ms


def test_fewer_threads_are_slower_and_more_than_cores_are_useless(figures):
    assert round(figures({"threads": 1}).tps, 6) == 22.5
    assert figures({"threads": 8}).tps == figures({"threads": 2}).tps


def test_a_quantised_kv_cache_is_smaller_and_slower(figures):
    plain, small = figures(), figures({"kv_type": "q8_0"})
    assert small.memory < plain.memory
    assert small.tps < plain.tps
    assert small.ttft_ms > plain.ttft_ms


def test_ngrams_help_where_answers_copy_and_cost_under_load_where_not(figures):
    loaded = {"slots": 16, "prefix_cache": True, "warm_prefix": True}
    ngram = loaded | {"speculation": NGRAM}
    assert figures(ngram, Rules(copy_share=0.9)).tps > 1.6 * figures(loaded).tps
    assert figures(ngram).throughput < 0.97 * figures(loaded).throughput


def test_a_draft_copy_is_slower_and_bigger(figures):
    plain, draft = figures(), figures({"speculation": DRAFT})
    assert draft.tps < 0.9 * plain.tps
    assert draft.memory > plain.memory


def test_an_unknown_weight_type_is_named(figures):
    with pytest.raises(ConfigError, match="`Q9`"):
        figures({"weights": "Q9"})


def test_the_stock_configuration_has_the_slots_of_a_server_and_its_cache():
    stock = Rules()(VirtualEngine(Rules(), clock=Clock()).stock())
    assert (stock.slots, stock.prefix_cache, stock.continuous) == (4, True, True)


@pytest.mark.parametrize(
    ("weights", "verdict"),
    [("F16", "pass"), ("source", "pass"), ("Q8_0", "pass"), ("Q4_K_M", "fail"), ("Q4_0", "fail")],
)
def test_the_judge_passes_what_stays_below_the_limit(weights, verdict, tmp_path):
    clock = Clock()
    engine = VirtualEngine(Rules(), clock=clock)
    running = engine.start(FILES, replace(UNOPTIMISED, weights=weights), workdir=tmp_path)
    before_s = clock.now_s()
    result = VirtualJudge(clock, seconds=12.0).judge(running, 0)
    assert (result.verdict, clock.now_s() - before_s) == (verdict, 12.0)


def test_a_loss_near_the_limit_is_not_enough_evidence(tmp_path):
    clock = Clock()
    engine = VirtualEngine(Rules(), clock=clock)
    running = engine.start(FILES, replace(UNOPTIMISED, weights="source"), workdir=tmp_path)
    assert VirtualJudge(clock, limit=0.004).judge(running, 0).verdict == "inconclusive"
