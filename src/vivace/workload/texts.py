"""The shipped texts of the default workloads (`data/workloads/NAME.toml`)."""

import random
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import TypeVar

import msgspec

from vivace.workload.base import Split

Item = TypeVar("Item")
Kind = TypeVar("Kind")


def load_texts(name: str, kind: type[Kind]) -> Kind:
    """The file of a workload, as `kind` (a `msgspec.Struct`)."""
    source = resources.files("vivace").joinpath(f"data/workloads/{name}.toml")
    return msgspec.convert(tomllib.loads(source.read_text("utf-8")), kind)


def shuffled(items: Sequence[Item], *, seed: int, split: Split) -> tuple[Item, ...]:
    """The items in an order that follows from seed and split alone."""
    order = list(items)
    random.Random(f"{seed}/{split}").shuffle(order)
    return tuple(order)
