"""`chat`: conversations that only grow; every turn sends all turns before it."""

import msgspec

from vivace.core import Message, Request
from vivace.workload.base import Split, Workload
from vivace.workload.texts import load_texts, shuffled


class Conversation(msgspec.Struct):
    """Turns of [user, assistant]; the last has no assistant text yet, `answer` refers to it."""

    turns: list[list[str]]
    answer: str | None = None


class Conversations(msgspec.Struct):
    """The form of the file."""

    system: str
    tune: list[Conversation]
    validate: list[Conversation]


def make_chat(*, seed: int) -> Workload:
    """64 output tokens a turn. The assistant's part of the history is fixed, not generated."""
    texts = load_texts("chat", Conversations)
    system = Message(role="system", content=texts.system.strip())

    def requests(split: Split, conversations: list[Conversation]) -> tuple[Request, ...]:
        order = shuffled(conversations, seed=seed, split=split)
        turns = max(len(c.turns) for c in order)
        # All first turns, then all second turns: guests write at the same time, and each sends
        # the next turn only after the one before.
        return tuple(
            _request(f"chat-{split}-{number}-{turn}", system, c, turn=turn, seed=seed)
            for turn in range(turns)
            for number, c in enumerate(order)
            if turn < len(c.turns)
        )

    return Workload(
        name="chat",
        seed=seed,
        description="travel assistant: conversations of four turns that only grow "
        "(English, Chinese), a shared system prompt, 64 output tokens a turn",
        requests_tune=requests("tune", texts.tune),
        requests_validate=requests("validate", texts.validate),
        prefixes=((system,),),
        max_request_tokens_hint=768,
    )


def _request(
    request_id: str, system: Message, conversation: Conversation, *, turn: int, seed: int
) -> Request:
    messages = [system]
    for user, *assistant in conversation.turns[:turn]:
        messages.append(Message(role="user", content=user))
        messages.extend(Message(role="assistant", content=a) for a in assistant)
    asked, *told = conversation.turns[turn]
    messages.append(Message(role="user", content=asked))
    return Request(
        id=request_id,
        messages=tuple(messages),
        max_tokens=64,
        seed=seed,
        answer=told[0] if told else conversation.answer,
    )
