"""Quality in virtual time: what the script says, after the seconds that scoring takes."""

from vivace.core import QualityResult, Verdict
from vivace.engines.base import Running
from vivace.errors import ConfigError
from vivace.testing.virtual import Clock, VirtualRunning


class VirtualJudge:
    """Gives each engine the `quality_loss` of its script.

    Within `half_width` on both sides, of which each further stage leaves half.
    """

    reference_name = "scripted 16-bit reference"

    def __init__(
        self,
        clock: Clock,
        *,
        limit: float = 0.02,
        half_width: float = 0.005,
        seconds: float = 10.0,
        stages: int = 1,
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._half_width = half_width
        self._seconds = seconds
        self._known = 0
        self.stages = stages

    def knows(self, stage: int) -> bool:
        """Whether the reference went through this stage."""
        return stage < self._known

    def learn_reference(self, running: Running, stage: int) -> str:
        """Costs the time of scoring once; there is only the stage to remember."""
        self._scripted(running)
        self._known = stage + 1
        return str(self._known)

    def recall(self, stored: str) -> None:
        """The stages that are known."""
        self._known = int(stored)

    def judge(self, running: Running, stage: int) -> QualityResult:
        """The verdict as `contract.md` defines it."""
        loss = self._scripted(running).script.quality_loss
        half_width = self._half_width / 2**stage
        lo, hi = loss - half_width, loss + half_width
        verdict: Verdict = "inconclusive"
        if hi <= self._limit:
            verdict = "pass"
        elif lo > self._limit:
            verdict = "fail"
        return QualityResult(
            loss=loss,
            lo=lo,
            hi=hi,
            positions=550 * (stage + 1),
            verdict=verdict,
            basis="scripted",
            reference=self.reference_name,
        )

    def _scripted(self, running: Running) -> VirtualRunning:
        if not isinstance(running, VirtualRunning):
            raise ConfigError("the scripted judge knows only scripted engines")
        self._clock.advance(self._seconds)
        return running
