import pytest

from vivace.report.words import (
    Footnotes,
    amount,
    figure,
    percent,
    ratio,
    ratio_range,
    seconds,
    setting,
    tick,
)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5210.3, "5,210"),
        (98.24, "98.2"),
        (99.96, "100"),
        (9.996, "10.0"),
        (8.62, "8.62"),
        (0, "0.00"),
    ],
)
def test_amounts_have_three_digits(value: float, words: str) -> None:
    assert amount(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(0.0042, "0.004x"), (0.0188, "0.02x"), (1.764, "1.76x"), (2.996, "3.0x"), (7.13, "7.1x"),
     (9.96, "10x"), (16.95, "17x")],
)  # fmt: skip
def test_ratios_keep_the_digits_that_matter(value: float, words: str) -> None:
    assert ratio(value) == words


def test_an_interval_of_ratios_is_in_brackets() -> None:
    assert ratio_range(0.95, 1.05) == "[0.95, 1.05]"


def test_metrics_are_shown_in_their_display_unit() -> None:
    assert figure("memory_bytes", 420_000_000) == "420"
    assert figure("quality_loss", 0.0041) == "0.41"
    assert figure("quality_loss", 0.337) == "33.7"
    assert percent(-0.003) == "-0.30 %"
    assert tick("memory_bytes", 2e8) == "200"
    assert tick("quality_loss", 0.02) == "2 %"


@pytest.mark.parametrize(
    ("value", "words"),
    [(45, "45 s"), (480, "8 min"), (451.2, "7 min 31 s"), (3900, "1 h 5 min")],
)
def test_durations_are_read_aloud(value: float, words: str) -> None:
    assert seconds(value) == words


def test_settings_are_words() -> None:
    assert setting(None) == "engine's own"
    assert setting(False) == "off"
    assert setting({"kind": "ngram", "n_max": 16, "n_match": None}) == "kind ngram, n_max 16"
    assert setting([1, "a"]) == "1, a"


def test_the_same_reason_gets_the_same_footnote() -> None:
    notes = Footnotes()
    assert [notes.dash("a"), notes.dash("b"), notes.dash("a")] == ["–¹", "–²", "–¹"]
    assert notes.dash("") == "–³"
    assert notes.reasons == ["a", "b", "no reason was recorded"]
