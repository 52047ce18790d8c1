"""`assistant`: a company's policy of about 1,000 tokens, short different questions."""

from vivace.workload.base import Workload
from vivace.workload.questions import make_questions


def make_assistant(*, seed: int) -> Workload:
    """64 output tokens. The longest request has 1,166 tokens with the default model's tokenizer."""
    return make_questions(
        "assistant",
        seed=seed,
        description="support assistant: a shared system prompt of about 1,000 tokens, "
        "short different questions (English, Chinese), 64 output tokens",
        max_tokens=64,
        max_request_tokens_hint=1_280,
    )
