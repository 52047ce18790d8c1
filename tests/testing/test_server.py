"""The scripted engine over real HTTP on loopback. Lower bounds on times only: machines are busy."""

import contextlib
import http.client
import json
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest

from vivace.testing import Quirks, Script, ScriptedServer

FAST = Script(prefill_tps=100_000, decode_tps=5_000, slots=2)
CHAT = {"messages": [{"role": "user", "content": "one two 世界"}], "max_tokens": 5}
STREAM = CHAT | {"stream": True, "stream_options": {"include_usage": True}}


@contextlib.contextmanager
def connected(url):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
    try:
        yield connection
    finally:
        connection.close()


def call(url, path, body=None):
    with connected(url) as connection:
        data = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, data)
        response = connection.getresponse()
        raw = response.read()
        is_json = response.headers["content-type"] == "application/json"
        return response.status, json.loads(raw) if is_json else raw.decode()


def events(url, body, path="/v1/chat/completions"):
    """Raw text of a stream and its JSON events."""
    status, text = call(url, path, body)
    assert status == 200
    payloads = [line.partition(":")[2].strip() for line in text.splitlines() if line]
    return text, [json.loads(p) for p in payloads if p != "[DONE]"]


def deltas(stream, key="content"):
    choices = [c for event in stream for c in event.get("choices", ())]
    return [c["delta"][key] for c in choices if c["delta"].get(key)]


@pytest.fixture
def server():
    with ScriptedServer(FAST) as running:
        yield running


def test_a_stream_has_a_role_then_each_token_then_reason_and_usage(server):
    text, stream = events(server.url, STREAM)
    assert text.endswith("data: [DONE]\n\n")
    assert stream[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert len(deltas(stream)) == 5
    assert stream[-2]["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "length"}
    assert stream[-1]["choices"] == []
    assert stream[-1]["usage"] == {
        "completion_tokens": 5,
        "prompt_tokens": 6,
        "total_tokens": 11,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
    assert stream[-1]["timings"]["prompt_n"] == 6
    assert stream[-1]["timings"]["predicted_n"] == 5


def test_without_a_wish_for_usage_a_stream_has_none(server):
    _, stream = events(server.url, CHAT | {"stream": True})
    assert not [e for e in stream if "usage" in e]


def test_an_answer_in_one_piece_is_the_stream_joined(server):
    _, stream = events(server.url, STREAM)
    status, whole = call(server.url, "/v1/chat/completions", CHAT)
    assert status == 200
    assert whole["choices"][0]["message"]["content"] == "".join(deltas(stream))
    assert whole["usage"]["prompt_tokens_details"]["cached_tokens"] == 5
    assert whole["timings"]["cache_n"] == 5


def test_text_completions_stream_and_come_whole(server):
    body = {"prompt": "one two three", "max_tokens": 3}
    _, stream = events(server.url, body | {"stream": True}, "/v1/completions")
    _, whole = call(server.url, "/v1/completions", body)
    assert "".join(e["choices"][0]["text"] for e in stream) == whole["choices"][0]["text"]
    assert stream[-1]["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["prompt_tokens"] == 3


def test_tokens_do_not_come_before_their_time():
    from time import perf_counter

    script = Script(prefill_tps=100, decode_tps=50)
    with ScriptedServer(script) as server, connected(server.url) as connection:
        connection.connect()
        begin = perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(STREAM))
        response = connection.getresponse()
        arrivals = []
        for line in response:
            if b'"content": "' in line or b'"content": " ' in line:
                arrivals.append(perf_counter() - begin)
        (job,) = server.jobs
    # 6 prompt tokens at 100/s, then one each 20 ms
    assert [t >= 0.06 + 0.02 * k for k, t in enumerate(arrivals)] == [True] * 5
    assert [t - job.submitted_ns for t in job.step_ends] == [
        60_000_000 + 20_000_000 * k for k in range(5)
    ]


def test_a_late_step_does_not_move_the_next_ones(server):
    call(server.url, "/v1/chat/completions", CHAT | {"max_tokens": 50})
    (job,) = server.jobs
    assert job.step_ends == list(range(job.first_ns, job.end_ns + 1, 200_000))


def test_a_time_scale_stretches_everything():
    with ScriptedServer(FAST, time_scale=50.0) as server:
        call(server.url, "/v1/chat/completions", CHAT | {"max_tokens": 5})
        (job,) = server.jobs
        clock = server.live.clock_ns
        assert clock(job.end_ns) - clock(job.first_ns) == 50 * 4 * 200_000


def test_totals_are_those_that_the_clients_saw(server):
    usages = []

    def ask(number):
        body = CHAT | {"messages": [{"role": "user", "content": f"a b c d {number}"}]}
        for _ in range(5):
            usages.append(call(server.url, "/v1/chat/completions", body)[1]["usage"])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    status, text = call(server.url, "/metrics")
    assert status == 200
    series = dict(line.split(" ") for line in text.splitlines() if not line.startswith("#"))
    values = {name: float(value) for name, value in series.items()}
    cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usages)
    assert len(usages) == 20
    assert values["llamacpp:tokens_predicted_total"] == 100
    assert values["llamacpp:prompt_tokens_cached_total"] == cached > 0
    computed = sum(u["prompt_tokens"] for u in usages) - cached
    assert values["llamacpp:prompt_tokens_total"] == computed
    assert values["llamacpp:requests_processing"] == 0
    assert values["llamacpp:requests_deferred"] == 0
    assert 1 <= values["llamacpp:n_busy_slots_per_decode"] <= 2


def test_slots_and_props_tell_the_settings(server):
    call(server.url, "/v1/chat/completions", CHAT)
    _, slots = call(server.url, "/slots")
    assert [(s["id"], s["n_ctx"], s["is_processing"]) for s in slots] == [
        (0, 8192, False),
        (1, 8192, False),
    ]
    assert [s["n_prompt_tokens"] for s in slots] == [11, 0]
    _, props = call(server.url, "/props")
    assert props["total_slots"] == 2
    assert props["default_generation_settings"]["n_ctx"] == 8192
    assert call(server.url, "/health") == (200, {"status": "ok"})
    assert call(server.url, "/v1/models")[1]["data"][0]["id"] == "scripted"
    assert call(server.url, "/nothing")[0] == 404


def test_a_warmed_slot_can_be_copied_into_another(server):
    """The way `warm_prefix` goes: template, tokens, compute, save, restore."""

    def rendered(question):
        chat = [{"role": "system", "content": "be kind"}, {"role": "user", "content": question}]
        _, template = call(server.url, "/apply-template", {"messages": chat})
        return call(server.url, "/tokenize", {"content": template["prompt"]})[1]["tokens"], chat

    (one, chat), (two, _) = rendered("a"), rendered("b")
    prefix = [x for x, y in zip(one, two, strict=True) if x == y][:4]
    warm = {"prompt": prefix, "n_predict": 0, "id_slot": 0}
    assert call(server.url, "/completion", warm)[1]["tokens_evaluated"] == 4
    file = {"filename": "warm.bin"}
    assert call(server.url, "/slots/0?action=save", file)[1]["n_saved"] == 4
    assert call(server.url, "/slots/1?action=restore", file)[1]["n_restored"] == 4
    asked = {"messages": chat, "id_slot": 1}
    _, answer = call(server.url, "/v1/chat/completions", asked)
    assert answer["timings"]["cache_n"] == 4
    assert call(server.url, "/slots/0?action=erase", {}) == (200, {"id_slot": 0, "n_erased": 4})
    assert call(server.url, "/slots/0?action=restore", {"filename": "none"})[0] == 400
    assert call(server.url, "/slots/7?action=erase", {})[0] == 400


def test_tokens_can_be_turned_back_into_text(server):
    _, tokens = call(server.url, "/tokenize", {"content": "one two 世界"})
    assert len(tokens["tokens"]) == 4
    assert call(server.url, "/detokenize", tokens)[1]["content"] == "one two 世 界"


def test_the_log_probability_of_a_forced_token_falls_by_the_scripted_loss():
    import math

    def score(loss):
        with ScriptedServer(Script(quality_loss=loss, decode_tps=5_000)) as server:
            _, tokens = call(server.url, "/tokenize", {"content": "a text to be scored here"})
            ids = tokens["tokens"]
            logprobs = []
            for end in range(1, len(ids)):
                body = {
                    "prompt": ids[:end],
                    "n_predict": 1,
                    "n_probs": 8,
                    "logit_bias": [[ids[end], 1e4]],
                }
                _, answer = call(server.url, "/completion", body)
                (position,) = answer["completion_probabilities"]
                assert position["id"] == ids[end]
                top = [t["logprob"] for t in position["top_logprobs"]]
                assert top == sorted(top, reverse=True)
                assert len(top) == 8
                assert sum(map(math.exp, top)) <= 1 + 1e-9
                logprobs.append(position["logprob"])
            return logprobs

    reference, same, worse = score(0.0), score(0.0), score(0.1)
    assert reference == same
    losses = [a - b for a, b in zip(reference, worse, strict=True)]
    assert losses == pytest.approx([math.log(1.1)] * 5)


def test_bad_requests_are_told(server):
    assert call(server.url, "/v1/chat/completions", {"max_tokens": 3})[0] == 400
    assert call(server.url, "/v1/chat/completions", CHAT | {"id_slot": 9})[0] == 400
    long = {"messages": [{"role": "user", "content": "word " * 9000}]}
    status, answer = call(server.url, "/v1/chat/completions", long)
    assert status == 400
    assert "exceeds the available context size" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("quirks", "check"),
    [
        (Quirks(crlf=True), lambda text, stream: text.endswith("data: [DONE]\r\n\r\n")),
        (Quirks(space=False), lambda text, stream: text.startswith("data:{")),
        (Quirks(done=False), lambda text, stream: "[DONE]" not in text),
        (Quirks(role_chunk=False), lambda text, stream: "role" not in text),
        (Quirks(tokens_per_chunk=2), lambda text, stream: len(deltas(stream)) == 3),
        (Quirks(empty_chunks=1), lambda text, stream: text.count('"content": ""') == 5),
        (
            Quirks(reasoning_tokens=2),
            lambda text, stream: (
                (len(deltas(stream, "reasoning_content")), len(deltas(stream))) == (2, 3)
            ),
        ),
        (
            Quirks(error_after=2),
            lambda text, stream: len(deltas(stream)) == 2 and "error" in stream[-1],
        ),
        (Quirks(timings=False), lambda text, stream: "timings" not in text),
        (Quirks(cached_tokens=False), lambda text, stream: "cached_tokens" not in text),
    ],
    ids=repr,
)
def test_each_quirk_shows_in_the_stream(quirks, check):
    with ScriptedServer(FAST, quirks=quirks) as server:
        assert check(*events(server.url, STREAM))


def test_a_cut_stream_ends_without_its_last_chunk():
    with (
        ScriptedServer(FAST, quirks=Quirks(cut_after=2)) as server,
        pytest.raises(http.client.IncompleteRead),
    ):
        events(server.url, STREAM)


def test_every_nth_request_is_told_to_come_later():
    with ScriptedServer(FAST, quirks=Quirks(reject_every=3)) as server:
        statuses = [call(server.url, "/v1/chat/completions", CHAT)[0] for _ in range(6)]
    assert statuses == [200, 200, 429, 200, 200, 429]


@pytest.mark.parametrize("close", [False, True])
def test_a_connection_is_kept_after_a_stream_unless_the_quirk_closes_it(close):
    with (
        ScriptedServer(FAST, quirks=Quirks(close_after_stream=close)) as server,
        connected(server.url) as connection,
    ):
        connection.request("POST", "/v1/chat/completions", json.dumps(STREAM))
        response = connection.getresponse()
        assert "connection" not in response.headers
        response.read()
        if close:
            assert connection.sock.recv(1) == b""
        else:
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200


def test_a_client_that_leaves_frees_its_slot():
    script = Script(prefill_tps=100_000, decode_tps=50, slots=1)
    with ScriptedServer(script) as server:
        with connected(server.url) as connection:
            body = STREAM | {"max_tokens": 5000}
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            connection.getresponse().readline()
        # it would write for 100 s; the next one needs its slot
        status, answer = call(server.url, "/v1/chat/completions", CHAT)
        assert (status, answer["usage"]["completion_tokens"]) == (200, 5)
        assert [j.state for j in server.jobs] == ["cancelled", "ok"]


def test_a_death_resets_connections_and_closes_the_port():
    with ScriptedServer(Script(dies_after=1, decode_tps=5_000)) as server:
        assert call(server.url, "/v1/chat/completions", CHAT)[0] == 200
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            call(server.url, "/v1/chat/completions", CHAT)
        assert server.died.wait(10)
        with pytest.raises(ConnectionError):
            call(server.url, "/health")


def test_a_hang_keeps_the_connection_and_says_nothing():
    with (
        ScriptedServer(Script(hangs_after=0)) as server,
        connected(server.url) as connection,
    ):
        connection.timeout = 0.2
        connection.request("POST", "/v1/chat/completions", json.dumps(CHAT))
        with pytest.raises(TimeoutError):
            connection.getresponse()
        assert call(server.url, "/health")[0] == 200
        assert "llamacpp:requests_deferred 1" in call(server.url, "/metrics")[1]


def child(script):
    return subprocess.Popen(
        [sys.executable, "-m", "vivace.testing.server", "--script", json.dumps(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_in_a_process_of_its_own_it_serves_until_its_stdin_ends():
    with child({"slots": 3}) as process:
        url = process.stdout.readline().removeprefix("READY ").strip()
        assert call(url, "/props")[1]["total_slots"] == 3
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")


@pytest.mark.parametrize(("death", "code"), [("crashed", 1), ("oom", -9)])
def test_in_a_process_of_its_own_it_dies_as_an_engine_does(death, code):
    script = {"dies_after": 0, "death": death, "last_words": "out of luck"}
    with child(script) as process:
        url = process.stdout.readline().removeprefix("READY ").strip()
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            call(url, "/v1/chat/completions", CHAT)
        assert process.wait(timeout=20) == code
        assert process.stderr.read() == "out of luck\n"
