"""How long things take here: learnt from what was measured, used to plan and to stay in the budget."""

from dataclasses import dataclass, replace

from vivace.core import ServingConfig

#: Seconds from the start of an engine process to its first answer, and of ending it.
START_S = 2.0
MAKE_S = 8.0
WARM_REQUESTS = 3
#: The discarded requests warm the cache; their answers are cut short to save time.
WARM_TOKENS = 8
#: Requests of one single block.
BLOCK = 3
#: Slots of an engine's default, where the configuration does not say.
STOCK_SLOTS = 4
#: Beyond one request alone, what a wave of short ones takes (2 cores, 2026-12).
WAVE_S = 4.0
#: Scoring the first quality texts takes as long as so many tokens of one request (2 cores, 2026-12).
QUALITY_STEPS = 350
#: A request that takes longer than this is slow: it gets one block and no turns.
SLOW_S = 4.0
#: Most that a surprise may lengthen later estimates.
WORST = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Speeds of this machine and sizes of a typical request; the defaults are guesses until measured."""

    window_s: float
    prefill_tps: float = 200.0
    decode_tps: float = 40.0
    prompt_tokens: int = 1000
    output_tokens: int = 64
    new_tokens: int = 24
    #: Decode speed of smaller weights against 16-bit ones.
    smaller_gain: float = 1.2
    #: Scoring the first quality texts once.
    quality_s: float = 8.0
    #: How much longer trials took than these figures say.
    slowness: float = 1.0

    def request_s(self, config: ServingConfig) -> float:
        """One request alone."""
        prompt = self.prompt_tokens if config.prefix_cache is False else self.new_tokens
        gain = 1.0 if config.weights == "F16" else self.smaller_gain
        return prompt / self.prefill_tps + self.output_tokens / (gain * self.decode_tps)

    def slow(self, config: ServingConfig) -> bool:
        """Whether a single block takes so long that one has to do."""
        return self.request_s(config) > SLOW_S

    def warm_s(self, config: ServingConfig) -> float:
        """The start and the discarded requests."""
        whole, new = self.prompt_tokens / self.prefill_tps, self.new_tokens / self.prefill_tps
        first, rest = (new if config.warm_prefix else whole), new
        if config.prefix_cache is False:
            first = rest = whole
        warm = first + (WARM_REQUESTS - 1) * rest + WARM_REQUESTS * WARM_TOKENS / self.decode_tps
        return START_S + warm

    def warm_slots_s(self, config: ServingConfig) -> float:
        """The wave before the first load block: each cold slot reads the prompt."""
        if config.slots == 1 or config.prefix_cache is False:
            return 0.0
        cold = 0 if config.warm_prefix else (config.slots or STOCK_SLOTS) - 1
        return cold * self.prompt_tokens / self.prefill_tps + self.request_s(config) + WAVE_S

    def load_s(self, config: ServingConfig, window_s: float | None = None) -> float:
        """One load block: ramp, window, and the request that closes it."""
        request_s = self.request_s(config)
        ramp_s = min(10.0, request_s if config.slots == 1 else 2 * request_s)
        return (self.window_s if window_s is None else window_s) + ramp_s + request_s

    def trial_s(
        self,
        config: ServingConfig,
        *,
        loaded: bool = True,
        quality: bool = False,
        reference: ServingConfig | None = None,
        blocks: int = 2,
    ) -> float:
        """A whole trial of `config`, with one round of turns where there is a reference."""
        if self.slow(config):
            blocks = 1
        seconds = self.warm_s(config) + blocks * BLOCK * self.request_s(config)
        if reference is not None:
            seconds += blocks * BLOCK * self.request_s(reference)
        if loaded:
            seconds += self.warm_slots_s(config)
        if loaded and takes_load_turns(config, reference):
            half_s = self.window_s / 2
            seconds += 2 * self.load_s(config, half_s) + self.load_s(reference or config, half_s)
        elif loaded:
            seconds += self.load_s(config)
        return self.slowness * seconds + self.quality_s * quality

    @property
    def judge_s(self) -> float:
        """Scoring the quality of one configuration in an engine of its own."""
        return START_S + self.quality_s

    def learn(self, *, prefill_tps: float | None, decode_tps: float | None) -> "Pace":
        """The same with speeds that were measured."""
        decode_tps = decode_tps or self.decode_tps
        return replace(
            self,
            prefill_tps=prefill_tps or self.prefill_tps,
            decode_tps=decode_tps,
            quality_s=QUALITY_STEPS / decode_tps,
        )

    def surprised(self, *, expected_s: float, took_s: float) -> "Pace":
        """Later estimates follow a trial that took longer than these figures alone say.

        They go halfway back when one is shorter.
        """
        seen = took_s / expected_s if expected_s > 0 else self.slowness
        slowness = seen if seen > self.slowness else (seen + self.slowness) / 2
        return replace(self, slowness=min(WORST, max(1.0, slowness)))


def follows(config: ServingConfig, reference: ServingConfig | None, *, level: int) -> bool:
    """Whether the load tells nothing new: one slot, or one request at a time, is as fast as that alone."""
    return level == 1 or (config.slots == 1 and (reference is None or reference.slots == 1))


def takes_load_turns(config: ServingConfig, reference: ServingConfig | None) -> bool:
    """Whether a load is measured in turn: an engine of one slot serves as fast as one request alone."""
    return reference is not None and config.slots != 1 and reference.slots != 1
