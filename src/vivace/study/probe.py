"""A few seconds before the plan: how fast is this machine, how long are the prompts."""

from dataclasses import replace

from vivace.core import Message, Record, Request, ServingConfig
from vivace.errors import EngineError
from vivace.study.pace import Pace
from vivace.study.ports import Tools

PROBE_WORDS = 160
PROBE_TOKENS = 16


def probe(tools: Tools, pace: Pace, config: ServingConfig) -> Pace:
    """Learn the pace of `config` from two short requests, the sizes from one of the workload."""
    words = " ".join(f"{n} reports" for n in range(PROBE_WORDS // 2))
    question = Message(role="user", content=f"Go on counting: {words}")
    short = Request(id="probe", messages=(question,), max_tokens=PROBE_TOKENS)
    typical = replace(next(tools.workload.stream("tune")), max_tokens=1, id="probe-typical")
    running = tools.engine.start(tools.files(config), config, workdir=tools.workdir)
    try:
        requests = iter((short, short, typical))
        records = tools.driver.closed_loop(running.url, requests, concurrency=1)
    finally:
        running.stop()
    cold, _, long = records
    if cold.status != "ok" or long.status != "ok":
        bad = cold if cold.status != "ok" else long
        raise EngineError(
            f"the engine could not answer the first request: {bad.error or bad.status}",
            hint="a prompt longer than the model's context? See the engine's log in `logs/`",
        )
    return replace(
        pace.learn(prefill_tps=_prefill_tps(long), decode_tps=_decode_tps(cold)),
        prompt_tokens=long.usage.prompt_tokens or pace.prompt_tokens,
        output_tokens=next(tools.workload.stream("tune")).max_tokens,
    )


def _prefill_tps(record: Record) -> float | None:
    tokens, ttft_ms = record.usage.prompt_tokens, record.ttft_ms
    cached = record.usage.cached_tokens or 0
    return (tokens - cached) * 1e3 / ttft_ms if tokens and ttft_ms else None


def _decode_tps(record: Record) -> float | None:
    return 1e3 / record.tpot_ms if record.tpot_ms else None
