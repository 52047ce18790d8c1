"""A request as the JSON body of a streamed chat completion."""

import msgspec

from vivace.core import Request


def render_chat(request: Request, model: str) -> bytes:
    """The body that `/v1/chat/completions` takes; `extra` adds keys and overrides ours."""
    body: dict[str, object] = {
        "model": model,
        "messages": [{"role": m.role, "content": m.content} for m in request.messages],
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
        "stream": True,
        "stream_options": {"include_usage": True},
        **request.extra,
    }
    return msgspec.json.encode(body)
