"""Scores documents with an engine's own log-probabilities (llama.cpp's native `/completion`).

One request per position: the tokens so far as prompt (all but the last are in the slot's cache),
one token to predict. `logit_bias` makes the sampler take the document's next token, and since the
engine reports probabilities from before its samplers, the answer carries that token's exact
log-probability however unlikely it is. The `TOP_K` likeliest tokens come with it.

The engine withholds the answer while its output ends inside a UTF-8 character, as half of the
tokens of Chinese text do. Such a token is looked up in a longer list of `WIDE_K` instead, taken
with a harmless token forced; if it is not even there, the last listed bounds it from above.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Lock

from vivace.errors import ConfigError, EngineRequestError
from vivace.quality.scores import Scores
from vivace.quality.texts import Document
from vivace.quality.wire import NativeClient, Prediction

TOP_K = 64
WIDE_K = 1024
#: Tokens of a document without context that are read and not scored: the model knows next to
#: nothing there, and the differences spread twice as wide as later (measured 2026-11-30).
UNSCORED_START = 4
#: Most tokens of one document that are scored; the interval gains more from further documents.
MAX_SCORED = 32

#: Told after every document: how many are done, of how many.
OnProgress = Callable[[int, int], None]
#: Asked after every document with what is scored so far; True ends the scoring.
ShouldStop = Callable[[Mapping[str, Scores]], bool]


def score(
    url: str,
    documents: Sequence[Document],
    *,
    slots: int = 1,
    on_progress: OnProgress | None = None,
    should_stop: ShouldStop | None = None,
    timeout_s: float = 60.0,
) -> dict[str, Scores]:
    """Scores by document id; fewer than `documents` only when `should_stop` ended it.

    With several `slots` each takes every n-th document, so that a slot's work does not depend on
    timing. Raises `EngineRequestError` when the engine refuses, leaves or gives no
    log-probabilities.
    """
    if slots < 1:
        raise ConfigError(f"slots must be at least 1, got {slots}")
    done: dict[str, Scores] = {}
    lock = Lock()
    stopped = False

    def run(slot: int) -> None:
        nonlocal stopped
        with NativeClient(url, timeout_s=timeout_s) as client:
            for document in documents[slot::slots]:
                if stopped:
                    return
                scored = score_document(client, document, slot=slot)
                with lock:
                    done[document.id] = scored
                    if on_progress is not None:
                        on_progress(len(done), len(documents))
                    stopped = stopped or (should_stop is not None and should_stop(done))

    if slots == 1:
        run(0)
    else:
        with ThreadPoolExecutor(slots) as pool:
            try:
                runs = [pool.submit(run, slot) for slot in range(slots)]
                for ended in as_completed(runs):  # whichever fails first is told first
                    ended.result()
            except BaseException:  # Ctrl-C too: the other slots must not score on to their end
                stopped = True
                raise
    return {d.id: done[d.id] for d in documents if d.id in done}


def score_document(client: NativeClient, document: Document, *, slot: int) -> Scores:
    """Scores up to `MAX_SCORED` tokens: after the context, else after the first few tokens."""
    context = client.tokenize(document.context, add_special=True)
    tokens = context + client.tokenize(document.text, add_special=not context)
    first = len(context) or UNSCORED_START
    last = min(len(tokens), first + MAX_SCORED)
    if first >= last:
        raise ConfigError(
            f"quality document `{document.id}` is too short: {len(tokens) - len(context)} tokens"
        )
    harmless = client.tokenize("a", add_special=False)[0]
    positions = [
        client.predict(tokens[:index], force=tokens[index], slot=slot, top_k=TOP_K)
        or _required(client.predict(tokens[:index], force=harmless, slot=slot, top_k=WIDE_K))
        for index in range(first, last)
    ]
    wanted = tokens[first:last]
    known = [logprob_of(token, p) for token, p in zip(wanted, positions, strict=True)]
    return Scores(
        id=document.id,
        slice=document.slice,
        tokens=tuple(wanted),
        logprobs=tuple(logprob for logprob, _ in known),
        top=tuple(p.top[:TOP_K] for p in positions),
        floored=sum(is_floor for _, is_floor in known),
    )


def logprob_of(token: int, prediction: Prediction) -> tuple[float, bool]:
    """The token's log-probability, and whether it is only an upper bound.

    An engine that did not take the forced token still lists the likeliest; a token outside that
    list is at most as likely as the last one in it.
    """
    if prediction.token == token:
        return prediction.logprob, False
    for listed, logprob in prediction.top:
        if listed == token:
            return logprob, False
    return min(logprob for _, logprob in prediction.top), True


def _required(prediction: Prediction | None) -> Prediction:
    if prediction is None:
        raise EngineRequestError(
            "the engine gave no token probabilities",
            hint="quality needs a llama.cpp server whose /completion knows `n_probs`",
        )
    return prediction
