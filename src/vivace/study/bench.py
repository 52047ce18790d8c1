"""Runs trials: a candidate alone, or in turn with others that idle meanwhile.

Blocks go forth and back (B A A B), so that a drift of the machine falls on both sides alike.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from vivace.errors import ConfigError, EngineError
from vivace.measure.slo import Slo
from vivace.study.arm import Arm, Ended
from vivace.study.ports import Tools
from vivace.study.trial import Ask, Measured, Phase

FAILURES = (EngineError, ConfigError, Ended)
LOADED = (
    "ttft_loaded_p50_ms",
    "ttft_loaded_p95_ms",
    "tpot_p95_ms",
    "throughput_tps",
    "goodput_rps",
)


@dataclass(slots=True)
class Bench:
    """Runs trials with one set of tools."""

    tools: Tools
    slo: Slo
    window_s: float
    #: Several engines may be in memory at once; else they are started again for every turn.
    together: bool = True
    _kept: Arm | None = None
    _last: Arm | None = None
    _arms: list[Arm] = field(default_factory=list[Arm])

    def run(self, ask: Ask, others: Sequence[Ask] = (), *, mirrored: bool = False) -> Measured:
        """Measure `ask`; every failure of an engine is an outcome, never an exception.

        `others` are measured in turn with it and end up in `Measured.others`; one whose engine was
        kept goes on with it. `mirrored` gives the others as much load as the candidate.
        """
        self.dismiss()
        driver = self.tools.driver
        begin = driver.now_ns()
        arm = self._last = Arm(self.tools, self.slo, Measured(ask=ask))
        rivals = [self._arm_for(other) for other in others]
        if len(rivals) == 1 and not mirrored:
            self._kept = rivals[0]
        self._arms = [arm, *rivals]
        arm.measured.others = [rival.measured for rival in rivals]
        try:
            self._measure(arm, rivals, mirrored=mirrored)
        except FAILURES as error:
            arm.fail(error)
        finally:
            measured = arm.measured
            for side in self._arms:
                if side is not self._kept and (side is not arm or measured.status != "ok"):
                    side.stop()
            measured.wall_s = (driver.now_ns() - begin) / 1e9
        return measured

    def keep(self) -> None:
        """The engine of the last trial idles as the next reference."""
        last, self._last = self._last, None
        if last is not self._kept:
            self._stop(self._kept)
        self._kept = last

    def dismiss(self) -> None:
        """End the engine of the last trial."""
        last, self._last = self._last, None
        self._stop(last)

    def close(self) -> None:
        """End every engine."""
        for arm in (self._kept, self._last, *self._arms):
            self._stop(arm)
        self._kept = self._last = None
        self._arms = []

    def _measure(self, arm: Arm, rivals: Sequence[Arm], *, mirrored: bool) -> None:
        try:
            self._blocks(arm, rivals, mirrored=mirrored)
        except Ended:
            if not _keep_part(arm.measured):
                raise
        for rival in rivals:
            if mirrored or rival.ask.window_s is not None:
                rival.read_memory()
            self._stop(rival)
        arm.read_memory()

    def _blocks(self, arm: Arm, rivals: Sequence[Arm], *, mirrored: bool) -> None:
        ask = arm.ask
        self._turn(arm, lambda: arm.single(ask.block))
        wanted = self._gate(arm, "glance", LOADED)
        alive = self._singles(arm, rivals if wanted is None else ())
        for place, level in enumerate(ask.levels):
            decides = place == len(ask.levels) - 1
            turns = [r for r in alive if level in r.ask.levels] if decides else []
            self._loads(arm, turns, level, mirrored=mirrored, decides=decides)
        if ask.levels:
            self._gate(arm, "loaded", ())
        elif ask.no_load:
            arm.measured.skipped |= dict.fromkeys(LOADED, ask.no_load)

    def _singles(self, arm: Arm, rivals: Sequence[Arm]) -> list[Arm]:
        """The rest of the first round, and more rounds as the gate asks; the rivals still alive."""
        alive, block = list(rivals), arm.ask.block
        for round_ in range(arm.ask.rounds):
            if round_:
                self._turn(arm, lambda: arm.single(block))
            back = arm.ask.there_and_back
            for order in (alive, list(reversed(alive)))[: 1 + back]:
                alive = [r for r in order if self._survives(r, lambda r=r: r.single(r.ask.block))]
            if back:
                self._turn(arm, lambda: arm.single(block))
            alive = [r for r in rivals if r in alive]
            if self._gate(arm, "single", LOADED) is not None:
                break
        return alive

    def _loads(
        self, arm: Arm, rivals: Sequence[Arm], level: int, *, mirrored: bool, decides: bool
    ) -> None:
        """B A B with half a window each, or B A A B; without rivals one whole window."""
        part_s = self.window_s / 2 if rivals else self.window_s

        def block(side: Arm) -> Callable[[], None]:
            return lambda: side.load(level, side.ask.window_s or part_s, decides=decides)

        self._turn(arm, block(arm))
        alive = [r for r in rivals if self._survives(r, block(r))]
        if mirrored:
            for rival in reversed(alive):
                self._survives(rival, block(rival))
        if rivals:
            self._turn(arm, block(arm))

    def _turn(self, arm: Arm, block: Callable[[], None]) -> None:
        for other in (self._kept, *self._arms):
            if other is None or other is arm:
                continue
            if self.together:
                other.settle()
            else:
                other.stop()
        block()

    def _survives(self, rival: Arm, block: Callable[[], None]) -> bool:
        """A reference that fails leaves the comparison to what was measured of it before."""
        try:
            self._turn(rival, block)
        except FAILURES as error:
            rival.fail(error)
            rival.stop()
            return False
        return True

    def _gate(self, arm: Arm, phase: Phase, unmeasured: Sequence[str]) -> str | None:
        measured = arm.measured
        wanted = measured.ask.gate(measured, phase)
        if not wanted:
            return wanted
        for name in unmeasured:
            measured.skipped.setdefault(name, f"not measured: {wanted}")
        raise arm.end("ok", wanted)

    def _arm_for(self, ask: Ask) -> Arm:
        kept = self._kept
        if kept is not None and kept.ask.config == ask.config:
            # One that was lost while it idled gives way to a fresh one.
            with contextlib.suppress(EngineError):
                kept.begin(ask)
                return kept
        self._stop(kept)
        return Arm(self.tools, self.slo, Measured(ask=ask))

    @staticmethod
    def _stop(arm: Arm | None) -> None:
        if arm is not None:
            arm.stop()


def _keep_part(measured: Measured) -> bool:
    """Whether what a trial had measured when the budget ended stands; it is a result then.

    It needs both blocks of single requests, or one of the load on each side.
    """
    ask = measured.ask
    if measured.status != "interrupted" or not ask.keeps_part:
        return False
    sides = (measured, *measured.others)
    if len(measured.single_blocks) < 2 and not all(side.load_blocks for side in sides):
        return False
    if not measured.load_blocks:
        measured.skipped |= dict.fromkeys(LOADED, f"not measured: {measured.reason}")
    measured.notes.append(("cut_short", f"`{ask.id}`: {measured.reason}; what it measured stands"))
    measured.status, measured.reason = "ok", ""
    return True
