import pytest

from vivace.quality.degenerate import is_degenerate, wrong_output

# QwenLM/Qwen3#315: answers of a GPTQ-Int4 model served in float16 were only exclamation marks.
QWEN3_315 = (
    ("!" * 248, True),
    ("!" * 200, True),
    ("The capital is Paris.", False),
)


@pytest.mark.parametrize(("text", "degenerate"), QWEN3_315)
def test_answers_of_nothing_but_exclamation_marks_are_wrong(text, degenerate):
    assert wrong_output(text) == ("one token repeated" if degenerate else None)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([7] * 32, True),
        ([7] * 31, False),
        ([], False),
        ([7] * 90 + list(range(100, 110)), False),  # 90 of 100 is not more than 90 %
        ([7] * 91 + list(range(100, 109)), True),
    ],
)
def test_one_token_beyond_nine_tenths_of_at_least_thirty_two(tokens, expected):
    assert is_degenerate(tokens) is expected


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_no_answer_is_wrong(text):
    assert wrong_output(text) == "empty answer"


@pytest.mark.parametrize(
    "text", ["the " * 40, "好" * 40, "カ" * 40, "好。" * 2 + "好" * 60, "OK" + "好" * 60]
)
def test_words_and_characters_repeated_are_seen(text):
    assert wrong_output(text) == "one token repeated"


@pytest.mark.parametrize(
    "text",
    [
        "word" * 40,  # one long word
        "今天天气很好，我们一起去公园散步，看看花，然后回家吃饭，晚上再看一本书，早点睡觉，明天还要工作。",
        "yes no " * 40,
    ],
)
def test_ordinary_answers_are_not_wrong(text):
    assert wrong_output(text) is None
