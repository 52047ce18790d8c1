import copy

from vivace.report.headline import headline, told

from .sample import interrupted_study, quality, study, study_without_winner


def test_the_headline_names_both_baselines_with_their_ratios() -> None:
    assert headline(study()) == (
        "TTFT 5,210 → 98.2 ms (0.02x), one request 38.0 → 67.1 tokens/s (1.77x), "
        "16 concurrent 8.62 → 146 tokens/s (17x), memory 420 → 334 MB (0.80x), "
        "quality loss 0.20 % (pass) against unoptimised; against llama.cpp's defaults "
        "TTFT 0.11x, one request 1.08x, 16 concurrent 7.7x, memory 0.95x (not proven)."
    )


def test_a_gain_that_is_not_proven_is_not_claimed() -> None:
    doc = copy.deepcopy(study())
    for change in doc["winner"]["vs_engine_default"].values():
        change["proven"] = False
    assert "against llama.cpp's defaults no proven gain: TTFT 0.11x (not proven)" in headline(doc)


def test_a_proven_loss_is_no_gain() -> None:
    doc = copy.deepcopy(study())
    ratios = doc["winner"]["vs_engine_default"]
    for name in ("ttft_p50_ms", "tps_single", "throughput_tps"):
        ratios[name]["ratio"] = 1.2 if name == "ttft_p50_ms" else 0.8
    assert "no proven gain" in headline(doc)


def test_without_a_winner_the_default_stands() -> None:
    assert headline(study_without_winner()) == (
        "No configuration beat llama.cpp's defaults: serve the model as it is."
    )


def test_a_study_that_was_cut_short_claims_nothing() -> None:
    doc = {**study_without_winner(), "state": "budget"}
    assert headline(doc) == (
        "The budget ended before a winner was validated; no gain over llama.cpp's defaults is claimed."
    )
    assert headline(interrupted_study()) == (
        "Interrupted before any configuration beyond the baselines was measured."
    )


def test_the_nearest_miss_of_a_memory_limit_is_named() -> None:
    doc = copy.deepcopy(study_without_winner())
    doc["constraints"]["max_memory_bytes"] = 200_000_000
    for step in doc["ablation"]:
        if step["row"]:
            step["row"]["memory_bytes"] = 400_000_000
    doc["ablation"][1]["row"]["memory_bytes"] = 262_000_000
    doc["ablation"][1]["quality"] = None
    doc["quality_limit"] = None
    doc["constraints"]["max_quality_loss"] = None
    assert headline(doc) == (
        "No configuration meets the constraints; the nearest miss is "
        "`Weights Q4_0` with 262 MB of memory where 200 are allowed."
    )


def test_the_nearest_miss_of_the_quality_limit_is_named() -> None:
    doc = copy.deepcopy(study_without_winner())
    doc["baselines"]["engine_defaults"] = {}
    doc["ablation"] = [s for s in doc["ablation"] if s["lever"] in ("weights_q4_0", "kv_q4")]
    doc["ablation"][0]["quality"] = quality(0.337, 0.31, 0.364, "fail")
    assert headline(doc) == (
        "No configuration meets the constraints; the nearest miss is "
        "`KV cache q4_0` with a quality loss of up to 3.10 % where 2.00 % is allowed."
    )


def test_the_documents_own_headline_is_told() -> None:
    assert told({**study(), "headline": "as it was"}) == "as it was"
    assert told(study()) == headline(study())


def test_missing_numbers_are_said_to_be_missing() -> None:
    doc = copy.deepcopy(study())
    doc["winner"]["row"]["tps_single"] = None
    doc["winner"]["quality"]["loss"] = None
    doc["winner"]["row"]["quality_loss"] = None
    doc["winner"]["vs_engine_default"] = {}
    words = headline(doc)
    assert "one request not measured" in words
    assert "quality loss not measured" in words
    assert words.endswith("against llama.cpp's defaults nothing was compared.")
