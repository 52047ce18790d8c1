"""Speculation with a quantised copy of the target as its draft."""

from collections.abc import Sequence

from vivace.core import ServingConfig, Speculation
from vivace.levers.base import About, Option, Situation


class DraftCopy:
    """Attacks decode of one request. Pays only when the draft is several times cheaper."""

    about = About(
        name="draft_copy",
        effort="case",
        attacks=("tps_single",),
        cost="memory and compute of the draft; making it once",
        risk="none for answers: every guess is checked",
        shows_in="single",
        priority=2,
        needs=frozenset({"speculation"}),
    )

    def options(self, config: ServingConfig, situation: Situation) -> Sequence[Option]:
        if config.speculation is not None:
            return ()
        usable = [name for name, reason in situation.weight_types.items() if reason is None]
        kind = usable[-1] if usable else None
        title = "Draft: a quantised copy of the target"
        if kind is None or kind == config.weights:
            reason = "no weight type smaller than the target's can be made"
            return (Option(lever="draft_copy", title=title, change={}, impossible=reason),)
        speculation = Speculation(kind="draft", draft_weights=kind, n_max=5)
        change = {"speculation": speculation}
        return (Option(lever="draft_copy", title=f"Draft: the target in {kind}", change=change),)
