"""Records and samples for the tests of `measure`, in milliseconds."""

from collections.abc import Sequence

import numpy as np

from vivace.core import Piece, Record, RecordStatus, Usage
from vivace.measure.percentile import Array

MS = 1_000_000


def record(
    *,
    name: str = "r",
    sent: float = 0,
    pieces: Sequence[float] = (),
    end: float | None = None,
    tokens: int | None = None,
    counts: Sequence[int | None] | None = None,
    status: RecordStatus = "ok",
) -> Record:
    """One request: sent, pieces and end at these milliseconds, `counts` sent with the pieces."""
    counts = counts or [None] * len(pieces)
    if end is None:
        end = pieces[-1] if pieces else sent
    return Record(
        request_id=name,
        sent_ns=round(sent * MS),
        end_ns=round(end * MS),
        status=status,
        pieces=tuple(
            Piece(t_ns=round(t * MS), kind="content", text="x", tokens=n)
            for t, n in zip(pieces, counts, strict=True)
        ),
        usage=Usage(completion_tokens=tokens),
    )


def seen(*values: float) -> Array:
    """Rows of values that were all measured to their end."""
    return np.array([(v, 0.0) for v in values])
