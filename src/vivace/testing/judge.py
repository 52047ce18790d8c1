"""Quality in virtual time: what the script says, after the seconds that scoring takes."""

from vivace.core import QualityResult, Verdict
from vivace.engines.base import Running
from vivace.errors import ConfigError
from vivace.testing.virtual import Clock, VirtualRunning


class VirtualJudge:
    """Gives each engine the `quality_loss` of its script, within `half_width` on both sides."""

    reference_name = "scripted 16-bit reference"

    def __init__(
        self, clock: Clock, *, limit: float = 0.02, half_width: float = 0.005, seconds: float = 10.0
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._half_width = half_width
        self._seconds = seconds

    def learn_reference(self, running: Running) -> str:
        """Costs the time of scoring once; there is nothing to remember."""
        self._scripted(running)
        return ""

    def recall(self, stored: str) -> bool:  # noqa: ARG002
        """The scripted reference is always known."""
        return True

    def judge(self, running: Running) -> QualityResult:
        """The verdict as `contract.md` defines it."""
        loss = self._scripted(running).script.quality_loss
        lo, hi = loss - self._half_width, loss + self._half_width
        verdict: Verdict = "inconclusive"
        if hi <= self._limit:
            verdict = "pass"
        elif lo > self._limit:
            verdict = "fail"
        return QualityResult(
            loss=loss,
            lo=lo,
            hi=hi,
            positions=550,
            verdict=verdict,
            basis="scripted",
            reference=self.reference_name,
        )

    def _scripted(self, running: Running) -> VirtualRunning:
        if not isinstance(running, VirtualRunning):
            raise ConfigError("the scripted judge knows only scripted engines")
        self._clock.advance(self._seconds)
        return running
