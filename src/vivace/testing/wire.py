"""What the scripted server answers, in the shapes of llama.cpp's server (read 2026-11)."""

import math
import zlib
from collections.abc import Sequence

from vivace.testing.job import Job
from vivace.testing.model import EngineModel
from vivace.testing.script import Quirks, Script

Json = dict[str, object]
CREATED = 1_796_000_000


def usage(job: Job, quirks: Quirks) -> Json:
    """OpenAI's `usage`; cached tokens are part of the prompt's."""
    body: Json = {
        "completion_tokens": job.written,
        "prompt_tokens": job.prompt_tokens,
        "total_tokens": job.prompt_tokens + job.written,
    }
    if quirks.cached_tokens:
        body["prompt_tokens_details"] = {"cached_tokens": job.cached_tokens}
    return body


def timings(job: Job, script: Script) -> Json:
    """llama.cpp's `timings`, from the model's exact times."""
    computed = job.prompt_tokens - job.cached_tokens
    prompt_ms = (job.first_ns - job.started_ns) / 1e6
    predicted_ms = (job.end_ns - job.first_ns) / 1e6
    body: Json = {
        "cache_n": job.cached_tokens,
        "prompt_n": computed,
        "prompt_ms": prompt_ms,
        "prompt_per_second": computed / prompt_ms * 1e3 if prompt_ms else 0.0,
        "predicted_n": job.written,
        "predicted_ms": predicted_ms,
        "predicted_per_second": job.written / predicted_ms * 1e3 if predicted_ms else 0.0,
    }
    if script.drafted_per_step:
        body["draft_n"] = round(job.steps * script.drafted_per_step)
        body["draft_n_accepted"] = max(0, job.written - 1 - job.steps)
    return body


def error(status: int, message: str) -> Json:
    """An error object."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"code": status, "message": message, "type": kind}}


def envelope(job: Job, model: str, *, chat: bool, chunk: bool) -> Json:
    """What all answers and chunks of one request begin with."""
    kind = "chat.completion" + ".chunk" * chunk if chat else "text_completion"
    ident = f"{'chatcmpl' if chat else 'cmpl'}-{job.number:06d}"
    return {"id": ident, "object": kind, "created": CREATED, "model": model}


def chunk_choice(text: str, *, chat: bool, finish: str | None = None, key: str = "content") -> Json:
    """The one choice of a streamed chunk; the one with the finish reason carries no text."""
    if chat:
        delta: Json = {} if finish else {key: text}
        return {"index": 0, "delta": delta, "finish_reason": finish}
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


def whole_choice(text: str, *, chat: bool, finish: str) -> Json:
    """The one choice of an answer in one piece."""
    if chat:
        message: Json = {"role": "assistant", "content": text}
        return {"index": 0, "message": message, "finish_reason": finish}
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


def metrics(model: EngineModel) -> str:
    """Prometheus text with the names of llama.cpp."""
    totals, script = model.counters, model.script
    drafted = totals.decoded * script.drafted_per_step
    counters = {
        "prompt_tokens_total": totals.prompt_tokens,
        "prompt_tokens_cached_total": totals.cached_tokens,
        "prompt_seconds_total": totals.prefill_ns / 1e9,
        "tokens_predicted_total": model.output_tokens(),
        "tokens_predicted_seconds_total": totals.decode_ns / 1e9,
        "n_decode_total": totals.steps,
        "spec_decode_num_draft_tokens_total": round(drafted),
        "spec_decode_num_accepted_tokens_total": round(totals.decoded * script.accepted_per_step),
    }
    gauges = {
        "requests_processing": model.running,
        "requests_deferred": model.waiting,
        "n_busy_slots_per_decode": totals.busy_slots / totals.steps if totals.steps else 0,
    }
    lines: list[str] = []
    for kind, series in (("counter", counters), ("gauge", gauges)):
        for name, value in series.items():
            lines += [f"# HELP llamacpp:{name} scripted", f"# TYPE llamacpp:{name} {kind}"]
            lines.append(
                f"llamacpp:{name} {value:g}" if value < 1e5 else f"llamacpp:{name} {value}"
            )
    return "\n".join(lines) + "\n"


def slots(model: EngineModel) -> list[Json]:
    """`/slots`: what each slot holds and does."""
    busy = {job.slot: job for job in model.active()}
    answers: list[Json] = []
    for slot in range(model.script.slots):
        job = busy.get(slot)
        answers.append(
            {
                "id": slot,
                "n_ctx": model.script.context_tokens,
                "speculative": model.script.drafted_per_step > 0,
                "is_processing": job is not None,
                "n_prompt_tokens": sum(map(len, model.held(slot))),
                "next_token": [{"n_decoded": model.written(job) if job else 0}],
            }
        )
    return answers


def props(script: Script) -> Json:
    """`/props`: the settings in effect."""
    return {
        "default_generation_settings": {"n_ctx": script.context_tokens},
        "total_slots": script.slots,
        "model_alias": "scripted",
        "model_path": "scripted.gguf",
        "chat_template": "scripted",
        "endpoint_slots": True,
        "endpoint_metrics": True,
        "build_info": "scripted",
    }


def token_id(token: str) -> int:
    """A number that only this token has, for all practical purposes."""
    return zlib.crc32(token.encode()) & 0x7FFFFFFF


def probabilities(context: Sequence[str], token: str, top: int, script: Script) -> Json:
    """`token` after `context` and the likeliest tokens there: invented, but always the same.

    A token's log-probability lies in -0.3..-3.3 by a hash; `quality_loss` lowers each by
    ln(1 + loss), so that the relative perplexity increase against a script without is the loss.
    """
    place = "\0".join(context[-4:])
    shift = math.log1p(script.quality_loss)
    scatter = script.quality_spread * (2 * _unit(f"{script.quality_loss}{place}\0{token}") - 1)
    logprob = min(-1e-6, -0.3 - 3 * _unit(f"{place}\0{token}") - shift + scatter)
    listed = [(token_id(token), logprob)]
    rest = math.log(-math.expm1(logprob))
    for rank in range(top - 1):  # each other token half as likely as the one before it
        listed.append((token_id(f"{place}\0{rank}"), rest + (rank + 1) * math.log(0.5)))
    listed.sort(key=lambda entry: -entry[1])
    return {
        "id": token_id(token),
        "token": f" {token}",
        "logprob": logprob,
        "top_logprobs": [{"id": i, "token": "", "logprob": p} for i, p in listed[:top]],
    }


def _unit(text: str) -> float:
    return zlib.crc32(text.encode()) / 2**32
