"""How long things take here: learnt from what was measured, used to plan and to stay in the budget."""

from dataclasses import dataclass, replace

from vivace.core import ServingConfig

#: Seconds from the start of an engine process to its first answer, and of ending it.
START_S = 2.0
MAKE_S = 8.0
WARM_REQUESTS = 3
#: The discarded requests warm the cache; their answers are cut short to save time.
WARM_TOKENS = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Speeds of this machine and sizes of a typical request; the defaults are guesses until measured."""

    window_s: float
    prefill_tps: float = 200.0
    decode_tps: float = 40.0
    prompt_tokens: int = 1000
    output_tokens: int = 64
    new_tokens: int = 24
    #: Scoring the quality texts once.
    quality_s: float = 12.0

    def request_s(self, *, cached: bool) -> float:
        """One request alone."""
        prompt = self.new_tokens if cached else self.prompt_tokens
        return prompt / self.prefill_tps + self.output_tokens / self.decode_tps

    def singles(self, *, cached: bool) -> int:
        """Requests of a single phase: enough for an interval, few where each takes seconds."""
        return 3 if self.request_s(cached=cached) > 4.0 else 6

    def warm_s(self, *, cached: bool) -> float:
        """The discarded requests."""
        first = self.prompt_tokens / self.prefill_tps
        rest = first if not cached else self.new_tokens / self.prefill_tps
        return first + (WARM_REQUESTS - 1) * rest + WARM_REQUESTS * WARM_TOKENS / self.decode_tps

    def trial_s(
        self, config: ServingConfig, *, loaded: bool = True, quality: bool = False
    ) -> float:
        """A whole trial of `config`."""
        cached = config.prefix_cache is not False
        single = self.singles(cached=cached) * self.request_s(cached=cached)
        ramp = min(10.0, 2 * self.request_s(cached=cached)) + self.request_s(cached=cached)
        load = self.window_s + ramp if loaded else 0.0
        return START_S + self.warm_s(cached=cached) + single + load + self.quality_s * quality

    def learn(self, *, prefill_tps: float | None, decode_tps: float | None) -> "Pace":
        """The same with speeds that were measured."""
        return replace(
            self,
            prefill_tps=prefill_tps or self.prefill_tps,
            decode_tps=decode_tps or self.decode_tps,
        )
