"""How exact is the client? TTFT and ITL against a server that logs every send.

    python benchmarks/client.py [--concurrency 64] [--requests 256]

Builds `truth_server.c` with gcc, runs it on one core and the client on another, pairs each record
with the server's line (by order of arrival) and prints client minus truth in milliseconds. The
server's clock is CLOCK_MONOTONIC, which is `perf_counter_ns` on Linux; its request times are the
kernel's (`KTS=1`).
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from vivace.client.kernel_clock import new_kernel_clock
from vivace.core import Message, Record, Request
from vivace.load.closed import HttpDriver

SOURCE = Path(__file__).with_name("truth_server.c")
TOKENS = 64


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@contextmanager
def truth_server(folder: Path, **knobs: object) -> Iterator[str]:
    """The server's URL; its log is `folder/truth.jsonl` after the end."""
    binary = folder / "truth_server"
    subprocess.run(["gcc", "-O2", "-o", binary, SOURCE], check=True)
    port = _free_port()
    settings = {"PORT": port, "LOG": folder / "truth.jsonl", "N": TOKENS, "KTS": 1, **knobs}
    env = {**os.environ, **{k: str(v) for k, v in settings.items()}}
    process = subprocess.Popen([binary], env=env)
    if hasattr(os, "sched_setaffinity") and len(cores := sorted(os.sched_getaffinity(0))) > 1:
        os.sched_setaffinity(process.pid, cores[:1])
        os.sched_setaffinity(0, cores[1:2])
    try:
        _wait(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _wait(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError("the truth server did not start")


def _stats(url: str) -> dict[str, float]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/truth/stats") as answer:
        return json.load(answer)


def _percentiles(values: Sequence[float]) -> str:
    ordered = sorted(values)
    p50, p99 = (ordered[min(len(ordered) - 1, int(len(ordered) * q))] for q in (0.5, 0.99))
    return f"p50 {p50:9.4f}   p99 {p99:9.4f}   max {ordered[-1]:9.4f}"


def _print_errors(records: Sequence[Record], truth: Sequence[dict[str, list[int]]]) -> None:
    ttft, ttft_error, itl, itl_error, unmerged = [], [], [], [], []
    for record, line in zip(records, truth, strict=True):
        sends, times = line["sends"], [p.t_ns for p in record.pieces]
        true_ms = (sends[0] - line["t"]) / 1e6
        ttft.append(true_ms)
        ttft_error.append(abs((record.ttft_ms or 0) - true_ms))
        for (s0, s1), (t0, t1) in zip(pairwise(sends), pairwise(times), strict=True):
            itl.append((s1 - s0) / 1e6)
            itl_error.append(abs((t1 - t0) - (s1 - s0)) / 1e6)
            if not record.merged_reads:
                unmerged.append(itl_error[-1])
    print(f"true TTFT          {_percentiles(ttft)} ms")
    print(f"TTFT error, paired {_percentiles(ttft_error)} ms")
    print(f"true ITL           {_percentiles(itl)} ms")
    print(f"ITL error, paired  {_percentiles(itl_error)} ms")
    if unmerged:
        share = len(unmerged) / len(itl)
        print(f"  no merged reads  {_percentiles(unmerged)} ms ({share:.0%} of gaps)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--requests", type=int, default=256)
    args = parser.parse_args()
    message = (Message(role="user", content="hi"),)
    requests = (
        Request(id=str(i), messages=message, max_tokens=TOKENS) for i in range(args.requests)
    )
    with tempfile.TemporaryDirectory() as name:
        with truth_server(Path(name), TTFT_MS=200, ITL_MS=20) as url:
            before = resource.getrusage(resource.RUSAGE_SELF)
            records = HttpDriver().closed_loop(url, requests, concurrency=args.concurrency)
            after = resource.getrusage(resource.RUSAGE_SELF)
            peak = _stats(url)["peak_inflight"]
        lines = (Path(name) / "truth.jsonl").read_text().splitlines()
    truth = sorted(map(json.loads, lines), key=lambda line: line["t"])
    tokens = sum(r.output_tokens or 0 for r in records)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{len(records)} requests, {sum(r.status == 'ok' for r in records)} ok, "
        f"{tokens} tokens, peak in flight {peak} of {args.concurrency}, "
        f"clock {'kernel' if new_kernel_clock() else 'user'}, "
        f"merged events {sum(r.merged_reads for r in records)}"
    )
    _print_errors(records, truth)
    print(f"client CPU         {cpu_s / tokens * 1e6:.1f} s per 1M tokens")


if __name__ == "__main__":
    main()
