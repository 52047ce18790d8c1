"""When each output token arrived, whatever the engine tells about its own counts."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from vivace.core import Record
from vivace.measure.percentile import Array


def token_arrivals(records: Sequence[Record]) -> tuple[NDArray[np.int64], Array]:
    """Arrival times (ns) of all pieces and how many tokens each piece brought."""
    usual = _tokens_per_piece(records)
    times = [p.t_ns for r in records for p in r.pieces]
    tokens = [n for r in records for n in piece_tokens(r, usual=usual)]
    return np.array(times, dtype=np.int64), np.array(tokens, dtype=np.float64)


def piece_tokens(record: Record, *, usual: float = 1.0) -> list[float]:
    """Tokens of each piece: by the cumulative counts sent with the pieces, else the request's
    total in equal shares, else `usual` (a cancelled request has no total).
    """
    counts = [p.tokens for p in record.pieces if p.tokens is not None]
    pieces = len(record.pieces)
    if len(counts) == pieces:
        return [float(b - a) for a, b in pairwise([0, *counts])]
    total = record.output_tokens
    return [usual if total is None else total / pieces] * pieces


def _tokens_per_piece(records: Sequence[Record]) -> float:
    """Mean over the requests that have both; above 1 where an engine sends several at once."""
    known = [(r.output_tokens, len(r.pieces)) for r in records if r.output_tokens and r.pieces]
    pieces = sum(p for _, p in known)
    return sum(t for t, _ in known) / pieces if pieces else 1.0
