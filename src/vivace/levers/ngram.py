"""N-gram speculation: guess the next tokens from the text so far, check them in one step."""

from collections.abc import Sequence

from vivace.core import ServingConfig, Speculation
from vivace.levers.base import About, Option, Situation

#: llama.cpp's own defaults (match 24, min 48) wait for very long repeats; these were measured
#: to double copy-heavy decode on a CPU (2026-11).
SETTING = Speculation(kind="ngram", n_match=8, n_min=2, n_max=16)


class NgramSpeculation:
    """Attacks decode of one request where answers repeat the prompt: code, JSON, tables."""

    about = About(
        name="ngram",
        effort="case",
        attacks=("tps_single",),
        cost="wasted work on rejected guesses, most of all with many requests at once",
        risk="none for answers: every guess is checked",
        shows_in="single",
        priority=1,
        needs=frozenset({"speculation"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:  # noqa: ARG002
        if config.speculation is not None:
            return ()
        change = {"speculation": SETTING}
        return (Option(lever="ngram", title="N-gram speculation", change=change),)
