"""A few seconds before the plan: how fast is this machine, how long are the prompts."""

from dataclasses import replace

from vivace.core import Message, Record, ServingConfig
from vivace.errors import EngineError
from vivace.study.pace import Pace
from vivace.study.ports import Tools

PROBE_TOKENS = 16


def probe(tools: Tools, pace: Pace, config: ServingConfig) -> Pace:
    """Learn the pace of `config` and the sizes from one request of the workload."""
    first = next(tools.workload.stream("tune"))
    typical = replace(first, max_tokens=min(first.max_tokens, PROBE_TOKENS), id="probe")
    hello = replace(typical, messages=(Message(role="user", content="Hello"),), max_tokens=2)
    running = tools.engine.start(tools.files(config), config, workdir=tools.workdir)
    try:
        # The first request of all also reads the weights into memory.
        requests = iter((hello, typical))
        *_, record = tools.driver.closed_loop(running.url, requests, concurrency=1)
    finally:
        running.stop()
    if record.status != "ok":
        raise EngineError(
            f"the engine could not answer the first request: {record.error or record.status}",
            hint="a prompt longer than the model's context? See the engine's log in `logs/`",
        )
    return replace(
        pace.learn(prefill_tps=_prefill_tps(record), decode_tps=_decode_tps(record)),
        prompt_tokens=record.usage.prompt_tokens or pace.prompt_tokens,
        output_tokens=first.max_tokens,
    )


def _prefill_tps(record: Record) -> float | None:
    tokens, ttft_ms = record.usage.prompt_tokens, record.ttft_ms
    cached = record.usage.cached_tokens or 0
    return (tokens - cached) * 1e3 / ttft_ms if tokens and ttft_ms else None


def _decode_tps(record: Record) -> float | None:
    return 1e3 / record.tpot_ms if record.tpot_ms else None
