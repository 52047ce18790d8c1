"""The judge of a real study: log-probabilities over the engine's own endpoint."""

from collections.abc import Mapping

from vivace.core import QualityResult
from vivace.engines.base import Running
from vivace.quality.compare import clearly_failing, compare
from vivace.quality.logprobs import score
from vivace.quality.scores import Scores, dump_scores, parse_scores
from vivace.quality.texts import Document
from vivace.study.ports import Judge

BASIS = "log-probabilities of given tokens, top 64 per position"


class EngineJudge(Judge):
    """Scores the same documents on the 16-bit reference and on each candidate."""

    def __init__(
        self, documents: tuple[Document, ...], *, reference_name: str, limit: float, seed: int
    ) -> None:
        self.reference_name = reference_name
        self._documents, self._limit, self._seed = documents, limit, seed
        self._reference: Mapping[str, Scores] = {}

    def learn_reference(self, running: Running) -> str:
        """Score the reference; what comes back can be kept and given to `recall`."""
        self._reference = score(running.url, self._documents, slots=_slots(running))
        return dump_scores(self._reference).decode()

    def recall(self, stored: str) -> bool:
        """Use the scores of an earlier run, if they are of the same documents."""
        scores = parse_scores(stored.encode())
        if scores.keys() != {d.id for d in self._documents}:
            return False
        self._reference = scores
        return True

    def judge(self, running: Running) -> QualityResult:
        """Compare a candidate; scoring stops early when it is clearly failing."""

        def hopeless(so_far: Mapping[str, Scores]) -> bool:
            return clearly_failing(self._reference, so_far, limit=self._limit, seed=self._seed)

        scores = score(running.url, self._documents, slots=_slots(running), should_stop=hopeless)
        return compare(
            self._reference,
            scores,
            limit=self._limit,
            seed=self._seed,
            basis=BASIS,
            reference_name=self.reference_name,
        )


def _slots(running: Running) -> int:
    """Documents scored side by side: as many as the engine has slots, four at most."""
    slots = running.state().settings.get("slots")
    return max(1, min(4, slots)) if isinstance(slots, int) else 1
