"""One request, start to end: for warm-up, checks and small tools."""

import selectors
import time
from collections.abc import Mapping

from vivace.client.body import render_chat
from vivace.client.chat import Response, to_record
from vivace.client.connection import Connection, connect_all
from vivace.client.endpoint import Endpoint, parse_endpoint
from vivace.client.exchange import Exchange
from vivace.client.http1 import render_request
from vivace.client.kernel_clock import new_kernel_clock
from vivace.core import Record, Request

NO_HEADERS: Mapping[str, str] = {}


def render(endpoint: Endpoint, request: Request, model: str, headers: Mapping[str, str]) -> bytes:
    """Head and body of one streamed chat completion, ready for the socket."""
    headers = {"content-type": "application/json", "accept": "text/event-stream", **headers}
    return render_request(
        "POST", endpoint.authority, endpoint.path, headers, render_chat(request, model)
    )


def refused(endpoint: Endpoint, request_id: str, why: str, *, retried: bool = False) -> Record:
    """The record of a request that found no connection."""
    now_ns = time.perf_counter_ns()
    return to_record(
        Response(
            request_id=request_id,
            sent_ns=now_ns,
            end_ns=now_ns,
            ending="failed",
            detail=f"cannot connect to {endpoint.authority}: {why.lower()}",
            retried=retried,
        )
    )


def chat_once(
    url: str,
    request: Request,
    *,
    model: str = "default",
    headers: Mapping[str, str] = NO_HEADERS,
    stall_s: float = 60.0,
    connect_s: float = 5.0,
) -> Record:
    """One streamed chat completion on a connection of its own.

    Failures are told by the record's status; only a bad URL raises (`ConfigError`).
    """
    endpoint = parse_endpoint(url)
    payload = render(endpoint, request, model, headers)
    connection = Connection(endpoint.resolve(), new_kernel_clock())
    try:
        connect_all([connection], connect_s)
        if not connection.connected:
            return refused(endpoint, request.id, connection.failure)
        exchange = Exchange(connection, payload, request_id=request.id, stall_s=stall_s)
        with selectors.DefaultSelector() as selector:
            key = selector.register(connection.socket, selectors.EVENT_READ)
            while exchange.ending is None:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if exchange.sending else 0)
                if key.events != wanted:
                    key = selector.modify(connection.socket, wanted)
                now_ns = time.perf_counter_ns()
                events = selector.select(max(0.0, (exchange.deadline_ns - now_ns) / 1e9))
                for _, mask in events:
                    if mask & selectors.EVENT_WRITE:
                        exchange.on_writable()
                    if mask & selectors.EVENT_READ:
                        exchange.on_readable()
                if not events and time.perf_counter_ns() >= exchange.deadline_ns:
                    exchange.on_deadline(time.perf_counter_ns())
        return exchange.record()
    finally:
        connection.close()
