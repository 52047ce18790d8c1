"""The judge of a real study: log-probabilities over the engine's own endpoint."""

from collections.abc import Mapping, Sequence

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
        self,
        stages: Sequence[Sequence[Document]],
        *,
        reference_name: str,
        limit: float,
        seed: int,
    ) -> None:
        self.reference_name = reference_name
        self._stages, self._limit, self._seed = stages, limit, seed
        self._reference: dict[str, Scores] = {}
        self._candidate: dict[str, Scores] = {}

    @property
    def stages(self) -> int:
        """How many there are."""
        return len(self._stages)

    def knows(self, stage: int) -> bool:
        """Whether the reference of this stage is known."""
        return all(d.id in self._reference for d in self._stages[stage])

    def learn_reference(self, running: Running, stage: int) -> str:
        """Score the reference; what comes back can be kept and given to `recall`."""
        self._reference |= score(running.url, self._stages[stage], slots=_slots(running))
        return dump_scores(self._reference).decode()

    def recall(self, stored: str) -> None:
        """Use the scores of an earlier run."""
        self._reference = parse_scores(stored.encode())

    def judge(self, running: Running, stage: int) -> QualityResult:
        """Compare a candidate; scoring stops early when it is clearly failing."""
        before = self._candidate if stage else {}

        def hopeless(so_far: Mapping[str, Scores]) -> bool:
            return clearly_failing(
                self._reference, before | {**so_far}, limit=self._limit, seed=self._seed
            )

        documents = self._stages[stage]
        scores = score(running.url, documents, slots=_slots(running), should_stop=hopeless)
        self._candidate = before | scores
        return compare(
            self._reference,
            self._candidate,
            limit=self._limit,
            seed=self._seed,
            basis=BASIS,
            reference_name=self.reference_name,
            looks=self.stages,
        )


def _slots(running: Running) -> int:
    """Documents scored side by side: as many as the engine has slots, four at most."""
    slots = running.state().settings.get("slots")
    return max(1, min(4, slots)) if isinstance(slots, int) else 1
