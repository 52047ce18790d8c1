"""`copy`: JSON and code to be handed back with one small change; the answer is nearly the input.

The inputs are generated from the seed, so the right answer is known exactly.
"""

import itertools
import json
import random
from collections.abc import Callable, Mapping

from vivace.core import Message, Request
from vivace.workload.base import Split, Workload

REQUESTS_PER_SPLIT = 24

SYSTEM = Message(
    role="system",
    content="You are an editor for data and code. You repeat the text with the change, "
    "completely and without a comment.",
)
_NAMES = ("Lena", "Omar", "Priya", "Jonas", "Mei", "Carlos", "Aiko", "Fatima", "Nils", "Zofia")
_CITIES = ("Kassel", "Porto", "Turku", "Graz", "Lyon", "Gdansk", "Leeds", "Bergen", "Nanjing")
_GOODS = ("lamp", "desk", "chair", "shelf", "drill", "plane", "clamp", "ladder", "saw", "vise")
_STATES = ("open", "paid", "shipped", "returned")


Maker = Callable[[random.Random], tuple[str, str]]


def make_copy(*, seed: int) -> Workload:
    """128 output tokens; the inputs have 120 to 170 tokens, each after a worked example."""
    examples = {make: _example(make) for make in (_order, _settings, _code)}
    return Workload(
        name="copy",
        seed=seed,
        description="JSON and code to be repeated with one small change, 128 output tokens",
        requests_tune=_requests("tune", seed=seed, examples=examples),
        requests_validate=_requests("validate", seed=seed, examples=examples),
        prefixes=tuple(examples.values()),
        max_request_tokens_hint=768,
    )


def _requests(
    split: Split, *, seed: int, examples: Mapping[Maker, tuple[Message, ...]]
) -> tuple[Request, ...]:
    rng = random.Random(f"{seed}/{split}")
    requests: list[Request] = []
    for index, (make, example) in zip(
        range(REQUESTS_PER_SPLIT), itertools.cycle(examples.items()), strict=False
    ):
        question, answer = make(rng)
        requests.append(
            Request(
                id=f"copy-{split}-{index}",
                messages=(*example, Message(role="user", content=question)),
                max_tokens=128,
                seed=seed,
                answer=answer,
            )
        )
    return tuple(requests)


def _example(make: Maker) -> tuple[Message, ...]:
    # One worked example of the same kind: without it a small model explains the change instead of
    # making it, and with one of another kind it repeats that.
    question, answer = make(random.Random("copy/example"))
    return (
        SYSTEM,
        Message(role="user", content=question),
        Message(role="assistant", content=answer),
    )


def _order(rng: random.Random) -> tuple[str, str]:
    """A customer's order; one key gets another name."""
    items = [
        {"name": name, "count": rng.randint(1, 9), "price": rng.randint(10, 99)}
        for name in rng.sample(_GOODS, 4)
    ]
    text = _json(
        {
            "order": rng.randint(1000, 9999),
            "customer": rng.choice(_NAMES),
            "city": rng.choice(_CITIES),
            "status": rng.choice(_STATES),
            "items": items,
        }
    )
    return _task(
        "rename the key `customer` to `client`", text, text.replace('"customer"', '"client"')
    )


def _settings(rng: random.Random) -> tuple[str, str]:
    """A service's settings; one key gets another name."""
    hosts = rng.sample(_CITIES, 3)
    text = _json(
        {
            "service": rng.choice(_GOODS),
            "owner": rng.choice(_NAMES),
            "port": rng.randint(1_000, 9_000),
            "retries": rng.randint(1, 9),
            "replicas": [
                {"host": f"{h.lower()}.example.com", "weight": rng.randint(1, 90)} for h in hosts
            ],
            "logging": {"level": "info", "rotate": True, "keep_days": rng.randint(2, 60)},
        }
    )
    return _task("rename the key `owner` to `team`", text, text.replace('"owner"', '"team"'))


def _code(rng: random.Random) -> tuple[str, str]:
    """A Python class; one field gets another name."""
    good = rng.choice(_GOODS)
    limit = rng.randint(10, 90)
    fields = rng.sample(("weight", "height", "width", "price", "stock"), 3)
    lines = [f"class {good.title()}:", f"    limit = {limit}", ""]
    lines.append(f"    def __init__(self, name, {', '.join(fields)}):")
    lines.append("        self.name = name")
    lines.extend(f"        self.{field} = {field}" for field in fields)
    for field in fields:
        lines += [
            "",
            f"    def has_large_{field}(self):",
            f"        return self.{field} > self.limit",
        ]
    text = "\n".join(lines)
    return _task("rename `limit` to `maximum`", text, text.replace("limit", "maximum"))


def _task(change: str, text: str, answer: str) -> tuple[str, str]:
    return f"Repeat this text, but {change}:\n\n{text}", answer


def _json(value: object) -> str:
    return json.dumps(value, indent=1)
