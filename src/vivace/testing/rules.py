"""How the scripted engine answers to a `ServingConfig`: known effects, so a known winner."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vivace.core import ServingConfig, Speculation
from vivace.errors import ConfigError
from vivace.testing.script import Script


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """One weight type: speed as a factor of F16's, size and quality loss."""

    speed: float
    weights_bytes: int
    quality_loss: float


def _weights() -> Mapping[str, Weights]:
    return {
        "F16": Weights(speed=1.0, weights_bytes=269_000_000, quality_loss=0.0),
        "source": Weights(speed=1.3, weights_bytes=97_000_000, quality_loss=0.002),
        "Q8_0": Weights(speed=1.2, weights_bytes=143_000_000, quality_loss=-0.003),
        "Q4_K_M": Weights(speed=1.1, weights_bytes=105_000_000, quality_loss=0.055),
        "Q4_0": Weights(speed=1.5, weights_bytes=92_000_000, quality_loss=0.337),
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """A `script_for`: each setting changes the script by a factor that stands here.

    The figures follow what a small model did on a CPU with two cores (2026-11). Call it with a
    `ServingConfig`; give `base` or a factor another value to script another machine.
    """

    #: F16, flash attention on, all cores, no speculation.
    base: Script = field(
        default_factory=lambda: Script(
            prefill_tps=250.0, prompt_step_s=0.08, decode_tps=45.0, batch_cost=0.2
        )
    )
    weights: Mapping[str, Weights] = field(default_factory=_weights)
    stock_slots: int = 4
    stock_context_tokens: int = 2048
    cores: int = 2
    #: Prefill without flash attention.
    flash_attention_off: float = 0.7
    #: A quantised KV cache: prefill, decode, bytes.
    kv_prefill: float = 0.65
    kv_decode: float = 0.95
    kv_bytes: float = 0.53
    #: Share of the answers that stands in the prompt already: what n-gram speculation lives on.
    copy_share: float = 0.0
    #: A draft costs this share of the target's step for each token it guesses.
    draft_step_cost: float = 0.75
    draft_acceptance: float = 0.6

    def __call__(self, config: ServingConfig) -> Script:
        """The script of one configuration; raises `ConfigError` for a weight type without rules."""
        weights = self._of(config.weights)
        threads = min(config.threads or self.cores, self.cores) / self.cores
        prefill = self.base.prefill_tps * weights.speed * threads
        decode = self.base.decode_tps * weights.speed * threads
        kv_bytes = self.base.kv_bytes_per_token
        if config.flash_attention is False:
            prefill *= self.flash_attention_off
        if config.kv_type not in (None, "f16"):
            prefill, decode = prefill * self.kv_prefill, decode * self.kv_decode
            kv_bytes *= self.kv_bytes
        script = replace(
            self.base,
            prefill_tps=prefill,
            prompt_step_s=self.base.prompt_step_s * self.base.prefill_tps / prefill,
            decode_tps=decode,
            slots=config.slots or self.stock_slots,
            context_tokens=config.context_tokens or self.stock_context_tokens,
            batch_tokens=config.batch_tokens or self.base.batch_tokens,
            prefix_cache=config.prefix_cache is not False,
            continuous=config.continuous_batching is not False,
            weights_bytes=weights.weights_bytes,
            kv_bytes_per_token=kv_bytes,
            quality_loss=weights.quality_loss,
        )
        if config.speculation is None:
            return script
        return self._speculating(script, config.speculation)

    def _of(self, name: str) -> Weights:
        if name not in self.weights:
            raise ConfigError(
                f"no rules for weight type `{name}`", hint=f"known: {', '.join(self.weights)}"
            )
        return self.weights[name]

    def _speculating(self, script: Script, speculation: Speculation) -> Script:
        """N-grams guess little where nothing repeats; a draft guesses always and costs its steps."""
        if speculation.draft_weights is not None:
            drafted = float(speculation.n_max)
            return replace(
                script,
                drafted_per_step=drafted,
                accepted_per_step=drafted * self.draft_acceptance,
                draft_cost=drafted * self.draft_step_cost,
                weights_bytes=script.weights_bytes
                + self._of(speculation.draft_weights).weights_bytes,
            )
        drafted = 0.25 + 3.75 * self.copy_share
        return replace(
            script,
            drafted_per_step=drafted,
            accepted_per_step=0.05 + 3.35 * self.copy_share,
        )
