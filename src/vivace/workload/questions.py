"""Workloads of single questions under one system prompt: `assistant` and `creative`."""

from collections.abc import Sequence

import msgspec

from vivace.core import Message, Request
from vivace.workload.base import Split, Workload
from vivace.workload.texts import load_texts, shuffled


class Question(msgspec.Struct):
    """A question with its reference answer, where there is one."""

    question: str
    answer: str | None = None


class Questions(msgspec.Struct):
    """The form of the file."""

    system: str
    tune: list[str]
    validate: list[Question | str]


def make_questions(
    name: str, *, seed: int, description: str, max_tokens: int, max_request_tokens_hint: int
) -> Workload:
    """A workload from `data/workloads/NAME.toml`; its system prompt is the shared prefix."""
    texts = load_texts(name, Questions)
    system = Message(role="system", content=texts.system.strip())

    def requests(split: Split, entries: Sequence[Question | str]) -> tuple[Request, ...]:
        return tuple(
            Request(
                id=f"{name}-{split}-{number}",
                messages=(system, Message(role="user", content=entry.question)),
                max_tokens=max_tokens,
                seed=seed,
                answer=entry.answer,
            )
            for number, entry in enumerate(shuffled(_plain(entries), seed=seed, split=split))
        )

    return Workload(
        name=name,
        seed=seed,
        description=description,
        requests_tune=requests("tune", texts.tune),
        requests_validate=requests("validate", texts.validate),
        prefixes=((system,),),
        max_request_tokens_hint=max_request_tokens_hint,
    )


def _plain(entries: Sequence[Question | str]) -> list[Question]:
    return [Question(question=e) if isinstance(e, str) else e for e in entries]
