"""Output that is wrong whatever its log-probabilities say: one token repeated, or nothing."""

import re
from collections import Counter
from collections.abc import Hashable, Sequence

MIN_TOKENS = 32
MAX_SHARE = 0.9

# A run of letters or digits, one Chinese or Japanese character, or one other symbol: close enough
# to tokens to see repetition in an answer that came as text.
_UNITS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]")


def is_degenerate(tokens: Sequence[Hashable]) -> bool:
    """Whether one token makes up more than 90 % of at least 32.

    Source: QwenLM/Qwen3#315, answers of a 4-bit model that were only exclamation marks.
    """
    if len(tokens) < MIN_TOKENS:
        return False
    [(_, count)] = Counter(tokens).most_common(1)
    return count > MAX_SHARE * len(tokens)


def wrong_output(text: str) -> str | None:
    """Why an answer is no answer, or `None`: `empty answer`, `one token repeated`."""
    units = _UNITS.findall(text)
    if not units:
        return "empty answer"
    return "one token repeated" if is_degenerate(units) else None
