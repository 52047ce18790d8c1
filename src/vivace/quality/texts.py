"""What quality is measured on: the shipped documents and the workload's own reference answers."""

import hashlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from typing import Literal, Protocol, get_args

from vivace.core import Request
from vivace.errors import ConfigError

Slice = Literal["en", "zh", "code", "workload"]
SLICES: tuple[Slice, ...] = get_args(Slice)

#: Reference answers taken from the workload, and those that stand by for a verdict in doubt.
WORKLOAD_DOCUMENTS = 4
MORE_WORKLOAD_DOCUMENTS = 20
#: Documents of the first stage: enough to judge each slice on its own.
FIRST_STAGE = 20
#: Most characters of a question that are read before its answer: its beginning, which is what the
#: beginning of the answer follows from.
CONTEXT_CHARS = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A text whose tokens are scored; `context` stands before it, is read and is not scored."""

    id: str
    slice: Slice
    text: str
    context: str = ""

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise ConfigError(f"quality document `{self.id}` has no text")
        if self.slice not in SLICES:
            raise ConfigError(f"quality document `{self.id}` has the unknown slice `{self.slice}`")


class HasRequests(Protocol):
    """The part of a workload that is needed here."""

    @property
    def requests_validate(self) -> tuple[Request, ...]: ...


def stages(workload: HasRequests | None = None) -> tuple[tuple[Document, ...], ...]:
    """Documents to be scored one stage after another, for as long as the verdict is in doubt.

    The shipped documents with four of the workload's reference answers early among them make two
    stages; more of its answers, where it has them, a third.
    """
    mine: tuple[Document, ...] = ()
    if workload is not None:
        most = WORKLOAD_DOCUMENTS + MORE_WORKLOAD_DOCUMENTS
        mine = workload_documents(workload.requests_validate, limit=most)
    first, more = mine[:WORKLOAD_DOCUMENTS], mine[WORKLOAD_DOCUMENTS:]
    mixed: list[Document] = []
    for index, shipped in enumerate(shipped_documents()):
        mixed.extend(first[index : index + 1])
        mixed.append(shipped)
    found = (tuple(mixed[:FIRST_STAGE]), tuple(mixed[FIRST_STAGE:]), more)
    return tuple(stage for stage in found if stage)


def shipped_documents() -> tuple[Document, ...]:
    """The corpus in `data/quality`, in the order of its file."""
    source = resources.files("vivace").joinpath("data/quality/documents.toml")
    return parse_documents(source.read_text("utf-8"))


def parse_documents(toml: str) -> tuple[Document, ...]:
    """Documents of a TOML text. Raises `ConfigError` for an empty text or an unknown slice."""
    entries = tomllib.loads(toml)["document"]
    return tuple(Document(id=e["id"], slice=e["slice"], text=e["text"].strip()) for e in entries)


def workload_documents(
    requests: Iterable[Request], *, limit: int = WORKLOAD_DOCUMENTS
) -> tuple[Document, ...]:
    """Reference answers after their question alone, each pair of the two once.

    The shared system prompt is left out: every prompt token costs prefill in every candidate, and
    both sides of the comparison miss it alike.
    """
    found: list[Document] = []
    for request in requests:
        if len(found) == limit:
            break
        if request.answer is not None and request.answer.strip():
            question = next((m.content for m in request.messages[::-1] if m.role == "user"), "")
            document = _answer_document(question[:CONTEXT_CHARS], request.answer.strip())
            if document not in found:
                found.append(document)
    return tuple(found)


def _answer_document(question: str, answer: str) -> Document:
    # The id follows the text, not the request's place: stored reference scores stay right when
    # another seed puts the requests in another order.
    digest = hashlib.sha256(f"{question}\0{answer}".encode()).hexdigest()[:12]
    context = f"{question}\n\n" if question else ""
    return Document(id=f"workload-{digest}", slice="workload", text=answer, context=context)
