"""`creative`: open answers with little to copy from the prompt."""

from vivace.workload.base import Workload
from vivace.workload.questions import make_questions


def make_creative(*, seed: int) -> Workload:
    """128 output tokens after a prompt of about 45."""
    return make_questions(
        "creative",
        seed=seed,
        description="open answers: short stories and descriptions (English, Chinese), "
        "little to copy, 128 output tokens",
        max_tokens=128,
        max_request_tokens_hint=256,
    )
