"""Puts a study together from real parts, runs it and writes its folder."""

import fcntl
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import msgspec

from vivace import __version__
from vivace.core import Goal
from vivace.engines.llamacpp import LlamaCpp
from vivace.errors import ConfigError, StudyError
from vivace.hardware import Hardware, cpu_mark, free_memory_bytes, read_hardware
from vivace.levers import all_levers
from vivace.load.closed import HttpDriver
from vivace.load.steady import DEFAULT_WINDOW_S
from vivace.measure.slo import parse_slo
from vivace.models.home import vivace_home
from vivace.models.make import REFERENCE_NOTE
from vivace.models.model import Model, require_gguf
from vivace.models.resolve import resolve
from vivace.models.types import sensible_types
from vivace.quality.texts import stages
from vivace.report.document import Doc
from vivace.report.headline import headline
from vivace.report.writer import write_reports
from vivace.study.document import study_document
from vivace.study.files import FilesOnDisk
from vivace.study.inputs import Inputs
from vivace.study.judging import EngineJudge
from vivace.study.lab import Lab
from vivace.study.pace import Pace
from vivace.study.ports import Say, Tools
from vivace.study.run import run_study
from vivace.study.store import Store
from vivace.study.tuned import tuned_of, write_tuned
from vivace.workload import make_workload
from vivace.workload.base import Workload

INTERRUPTED = 130
PACKAGES = ("gguf", "libgguf", "numpy", "xllamacpp")


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What the command line asked for."""

    model: str | None = None
    llama_server: Path | None = None
    gpu_layers: int | None = None
    workload: str = "assistant"
    concurrency: tuple[int, ...] = (16,)
    budget_s: float = 480.0
    max_quality_loss: float = 0.02
    max_memory: int | None = None
    goal: Goal = "balanced"
    slo: str = ""
    seed: int = 0
    out: Path | None = None
    offline: bool = False
    fresh: bool = False
    command: str = "vivace tune"
    window_s: float = DEFAULT_WINDOW_S


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """The study's document and what the command's exit code says of it."""

    document: Doc
    exit_code: int
    folder: Path


def tune(request: Request, *, say: Say, confirm: Callable[[str], bool]) -> Result:
    """The whole job. Raises `VivaceError`; an interrupt writes the report of what was found."""
    slo = parse_slo(request.slo)
    workload = make_workload(request.workload, seed=request.seed)
    home = vivace_home()
    model = resolve(request.model, home=home, offline=request.offline, say=say, confirm=confirm)
    require_gguf(model)
    inputs = Inputs(
        model=model.source,
        model_sha256=model.sha256,
        workload=workload.name,
        workload_digest=workload.digest(),
        engine=_engine(request),
        concurrency=request.concurrency,
        budget_s=request.budget_s,
        goal=request.goal,
        max_quality_loss=request.max_quality_loss,
        max_memory=request.max_memory,
        slo=request.slo,
        seed=request.seed,
    )
    folder = request.out or Path("vivace-study") / _name(model, workload, inputs)
    with _locked(folder):
        store = Store(folder)
        try:
            resumed = store.claim(inputs, fresh=request.fresh, now=_now())
            done = store.fact("finished")
            if done is not None and (folder / "report.json").exists():
                say(
                    f"this study was finished on {done}: nothing was measured (`--fresh` measures again)"
                )
                document = msgspec.json.decode((folder / "report.json").read_bytes())
                return Result(document=document, exit_code=_code(document), folder=folder)
            if resumed:
                say(f"going on with the study in {folder}")
            hardware = read_hardware()
            tools = Tools(
                engine=LlamaCpp(binary=request.llama_server, gpu_layers=request.gpu_layers),
                driver=HttpDriver(),
                judge=EngineJudge(
                    stages(workload),
                    reference_name=_reference_name(model),
                    limit=request.max_quality_loss,
                    seed=request.seed,
                ),
                files=FilesOnDisk(model, home=home, say=say),
                workload=workload,
                shape=model.shape,
                weight_types=sensible_types(model.shape),
                cores=hardware.usable_cores,
                free_memory=lambda: None if request.gpu_layers else free_memory_bytes(),
                cpu_mark=cpu_mark,
                workdir=folder,
                say=say,
            )
            lab = Lab(
                inputs=inputs,
                tools=tools,
                store=store,
                slo=slo,
                window_s=request.window_s,
                today=_now,
                pace=Pace(window_s=request.window_s),
            )
            return _run(lab, request, model, hardware)
        finally:
            store.close()


def _run(lab: Lab, request: Request, model: Model, hardware: Hardware) -> Result:
    about = _about(request, lab, model, hardware)
    state = "finished"
    try:
        run_study(lab, all_levers())
    except KeyboardInterrupt:
        state = "interrupted"
        if lab.outcome.default is None:
            raise
    document = study_document(lab, about=about, state=state)
    document["headline"] = headline(document)
    files = write_reports(document, lab.store.folder)
    winner = lab.outcome.winner
    if winner is not None:
        tuned = tuned_of(
            config=winner.config,
            model_source=model.source,
            sha256=model.sha256,
            engine_args=winner.engine_args,
            prefixes=lab.tools.workload.prefixes,
            made_by={"study": lab.store.folder.name, "vivace": __version__, **_versions()},
        )
        write_tuned(lab.store.folder / "tuned.yaml", tuned)
        files = {**files, "tuned": "tuned.yaml"}
    environment = {key: about[key] for key in ("created", "command", "versions", "hardware")}
    (lab.store.folder / "environment.json").write_bytes(msgspec.json.encode(environment))
    if state == "finished":
        lab.store.note("finished", _now())
    lab.tools.say(f"written to {lab.store.folder}: {', '.join(sorted(files.values()))}")
    code = INTERRUPTED if state == "interrupted" else _code(document)
    return Result(document=document, exit_code=code, folder=lab.store.folder)


def _about(request: Request, lab: Lab, model: Model, hardware: Hardware) -> dict[str, object]:
    return {
        "name": lab.store.folder.name,
        "created": _now(),
        "command": request.command,
        "versions": {"vivace": __version__, **_versions()},
        "model": {
            "name": model.name,
            "source": model.source,
            "sha256": model.sha256,
            "licence": model.licence,
            "shape": msgspec.to_builtins(replace(model.shape, chat_template=None, widths={})),
        },
        "hardware": msgspec.to_builtins(hardware),
        "workload": lab.tools.workload.describe(),
        "notes": [_reference_name(model)] if model.shape.weight_type != "F16" else [],
    }


def _engine(request: Request) -> str:
    """What runs: another build or another number of layers on the GPU is another study."""
    if request.llama_server is None:
        return f"llamacpp:xllamacpp-{metadata.version('xllamacpp')}"
    try:
        seen = request.llama_server.stat()
        build = f"{seen.st_size}-{seen.st_mtime_ns}"
    except OSError:
        build = ""
    return f"llamacpp:{request.llama_server}:{build}:{request.gpu_layers}"


def _reference_name(model: Model) -> str:
    if model.shape.weight_type in ("F16", "BF16"):
        return f"{model.name} as published, 16-bit"
    return REFERENCE_NOTE


def _versions() -> dict[str, str]:
    return {name: metadata.version(name) for name in PACKAGES}


def _code(document: Doc) -> int:
    return 0 if document.get("meets_constraints") else 1


def _name(model: Model, workload: Workload, inputs: Inputs) -> str:
    words = f"{model.name}-{Path(workload.name).stem}".lower()
    return re.sub(r"[^a-z0-9.]+", "-", words).strip("-.") + f"-{inputs.fingerprint()[:6]}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    """One run at a time in a study folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise StudyError(
            f"cannot write the study folder `{folder}`: {error.strerror}",
            hint="choose another with `--out DIR`",
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ConfigError(
            f"another `vivace tune` is running in `{folder}`",
            hint="wait for it, or choose another folder with `--out DIR`",
        ) from None
    else:
        yield
    finally:
        os.close(descriptor)
