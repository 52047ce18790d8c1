"""One contract over every lever, then what each of them does."""

from dataclasses import replace

import pytest

from vivace.core import METRICS, ServingConfig
from vivace.levers import all_levers
from vivace.levers.base import Lever, Situation
from vivace.levers.sizing import context_for, kv_allocated, slots_that_fit
from vivace.testing import SMOL_SHAPE

SITUATION = Situation(
    shape=SMOL_SHAPE,
    cores=4,
    concurrency=16,
    request_tokens=1100,
    shared_prefixes=1,
    weight_types={"F16": None, "Q8_0": None, "Q4_K_M": "widths", "Q4_0": None},
)
BASE = ServingConfig(weights="F16", slots=1, prefix_cache=False)
MIB = 2**20


def lever(name: str) -> Lever:
    return next(found for found in all_levers() if found.about.name == name)


def only(name: str, config: ServingConfig = BASE, situation: Situation = SITUATION):
    (option,) = lever(name).options(config, situation)
    return option


@pytest.mark.parametrize("found", all_levers(), ids=lambda found: found.about.name)
def test_every_lever_says_what_it_attacks_costs_and_risks(found: Lever):
    about = found.about
    assert about.attacks
    assert set(about.attacks) <= set(METRICS)
    assert about.cost
    assert about.risk
    assert about.needs


@pytest.mark.parametrize("found", all_levers(), ids=lambda found: found.about.name)
def test_every_possible_option_changes_the_configuration_and_only_fields_it_needs(found: Lever):
    options = found.options(replace(BASE, slots=4, context_tokens=1280), SITUATION)
    for option in (o for o in options if not o.impossible):
        changed = option.apply(BASE)
        assert changed != BASE
        assert set(changed.diff(BASE)) <= found.about.needs | {"flash_attention"}


@pytest.mark.parametrize("found", all_levers(), ids=lambda found: found.about.name)
def test_no_lever_offers_what_is_already_on(found: Lever):
    config = replace(BASE, slots=4, context_tokens=1280)
    for option in found.options(config, SITUATION):
        if not option.impossible:
            again = found.options(option.apply(config), SITUATION)
            assert option.change not in [o.change for o in again if not o.impossible]


def test_names_are_unique():
    names = [found.about.name for found in all_levers()]
    assert len(set(names)) == len(names)


def test_the_file_as_shipped_is_tried_before_types_that_must_be_made():
    names = [o.lever for o in lever("weights").options(BASE, SITUATION)]
    assert names == ["weights:source", "weights:Q8_0", "weights:Q4_K_M", "weights:Q4_0"]


def test_a_type_that_does_not_fit_the_widths_carries_its_reason():
    options = {o.lever: o for o in lever("weights").options(BASE, SITUATION)}
    assert options["weights:Q4_K_M"].impossible == "widths"
    assert options["weights:Q8_0"].impossible == ""


def test_the_source_type_is_not_made_a_second_time():
    situation = replace(SITUATION, weight_types={"Q4_1": None, "Q8_0": None})
    names = [o.lever for o in lever("weights").options(BASE, situation)]
    assert names == ["weights:source", "weights:Q8_0"]


def test_context_is_the_longest_request_and_a_tenth_in_whole_steps():
    assert context_for(SITUATION) == 1280
    assert context_for(replace(SITUATION, request_tokens=1164)) == 1280
    assert context_for(replace(SITUATION, request_tokens=1165)) == 1536
    assert context_for(replace(SITUATION, request_tokens=8000)) == 8192


def test_kv_allocation_is_slots_times_context_times_bytes_per_token():
    config = replace(BASE, slots=4, context_tokens=1280)
    assert kv_allocated(config, SITUATION) == 4 * 1280 * 23_040
    assert kv_allocated(replace(config, kv_type="q8_0"), SITUATION) == 4 * 1280 * 12_240
    assert kv_allocated(BASE, SITUATION) == 8192 * 23_040


def test_without_a_memory_limit_there_are_as_many_slots_as_requests_at_once():
    assert slots_that_fit(BASE, SITUATION) == 16
    assert slots_that_fit(BASE, replace(SITUATION, concurrency=1)) == 2


def test_without_a_gpu_there_are_at_most_four_slots_for_each_core():
    two = replace(SITUATION, cores=2)
    assert slots_that_fit(BASE, two) == 8
    assert slots_that_fit(replace(BASE, gpu_layers=30), two) == 16
    assert slots_that_fit(BASE, replace(SITUATION, cores=1)) == 4


@pytest.mark.parametrize(
    ("limit_mib", "slots"),
    [(1000, 16), (550, 16), (549, 8), (325, 8), (324, 4), (213, 4), (157, 2), (156, None)],
)
def test_slots_are_halved_until_the_memory_limit_holds(limit_mib: int, slots: int | None):
    # 280 MiB now, 180 of them KV for 8,192 tokens; a slot of 1,280 tokens takes 28.125 MiB.
    situation = replace(SITUATION, memory_limit=limit_mib * MIB, memory_now=280 * MIB)
    assert slots_that_fit(BASE, situation) == slots


def test_slots_that_do_not_fit_are_impossible_with_the_limit_in_the_reason():
    situation = replace(SITUATION, memory_limit=100 * MIB, memory_now=280 * MIB)
    assert "100 MiB" in only("slots", situation=situation).impossible


def test_warming_brings_slots_along_where_there_are_none():
    changed = only("warm_prefix").apply(BASE)
    assert (changed.slots, changed.context_tokens) == (16, 1280)
    assert changed.warm_prefix
    assert changed.prefix_cache


def test_warming_keeps_the_slots_that_are_there():
    config = replace(BASE, slots=8, context_tokens=1536)
    changed = only("warm_prefix", config).apply(config)
    assert (changed.slots, changed.context_tokens) == (8, 1536)


def test_warming_needs_a_shared_beginning():
    situation = replace(SITUATION, shared_prefixes=0)
    assert "no shared beginning" in only("warm_prefix", situation=situation).impossible


def test_flash_attention_is_tried_the_other_way_round():
    assert only("flash_attention").apply(BASE).flash_attention is False
    off = replace(BASE, flash_attention=False)
    assert only("flash_attention", off).apply(off).flash_attention is True


def test_flash_attention_stays_on_for_a_quantised_kv_cache():
    config = replace(BASE, kv_type="q8_0")
    assert "needs flash attention" in only("flash_attention", config).impossible


def test_a_quantised_kv_cache_switches_flash_attention_on_again():
    off = replace(BASE, flash_attention=False)
    changed = only("kv_type", off).apply(off)
    assert changed.flash_attention is True
    assert changed.kv_type == "q8_0"


def test_threads_leave_one_core_free_and_need_two():
    assert only("threads").apply(BASE).threads == 3
    assert "one core" in only("threads", situation=replace(SITUATION, cores=1)).impossible


def test_static_batching_needs_slots_and_requests_at_once():
    assert "at least two slots" in only("static_batching").impossible
    config = replace(BASE, slots=4)
    assert only("static_batching", config).apply(config).continuous_batching is False
    alone = replace(SITUATION, concurrency=1)
    assert only("static_batching", config, alone).impossible


def test_twice_and_half_the_slots_are_tried_within_the_requests_at_once():
    config = replace(BASE, slots=8, context_tokens=1280)
    counts = {o.lever: o.change["slots"] for o in lever("slot_count").options(config, SITUATION)}
    assert counts == {"slot_count:more": 16, "slot_count:fewer": 4}
    assert only("slot_count", replace(config, slots=16)).change == {"slots": 8}


@pytest.mark.parametrize("slots", [None, 1])
def test_there_must_be_slots_to_change_their_number(slots: int | None):
    assert "only one" in only("slot_count", replace(BASE, slots=slots)).impossible


def test_the_draft_is_the_smallest_type_that_can_be_made():
    speculation = only("draft_copy").apply(BASE).speculation
    assert speculation is not None
    assert speculation.draft_weights == "Q4_0"


def test_no_second_speculation_on_top_of_the_first():
    config = only("ngram").apply(BASE)
    assert lever("ngram").options(config, SITUATION) == ()
    assert lever("draft_copy").options(config, SITUATION) == ()


def test_a_draft_as_large_as_the_target_is_impossible():
    situation = replace(SITUATION, weight_types={"Q4_0": None})
    config = replace(BASE, weights="Q4_0")
    assert "no weight type smaller" in only("draft_copy", config, situation).impossible


def test_a_type_with_more_bits_than_the_source_comes_late():
    late = {o.lever: o.late for o in lever("weights").options(BASE, SITUATION)}
    # The source is Q4_1.
    assert late["weights:Q8_0"]
    assert not late["weights:Q4_0"]
    assert not late["weights:source"]
    wide = replace(SITUATION, shape=replace(SMOL_SHAPE, weight_type="F16"))
    assert not any(o.late for o in lever("weights").options(BASE, wide))
