"""Models for engine tests: a made-up shape, and the real file for tests marked `engine`."""

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from vivace.engines.base import ModelFiles
from vivace.models.shape import ModelShape
from vivace.testing import SMOL_SHAPE

FAKE = Path(__file__).with_name("fake_llama_server.py")


@pytest.fixture
def shape() -> ModelShape:
    """SmolLM2-135M's shape: 23,040 bytes of f16 KV per token."""
    return replace(SMOL_SHAPE, tensor_bytes=1_000_000, file_bytes=1_100_000)


@pytest.fixture
def files(tmp_path: Path, shape: ModelShape) -> ModelFiles:
    """Files that need not exist."""
    return ModelFiles(path=tmp_path / "model.gguf", shape=shape, sha256="abc")


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """The stand-in for `llama-server` as a program of its own."""
    program = tmp_path / "llama-server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -u {FAKE} "$@"\n', encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


@pytest.fixture(scope="session")
def real_files() -> ModelFiles:
    """The default model, or the one `VIVACE_TEST_GGUF` names."""
    from vivace.models.home import vivace_home
    from vivace.models.resolve import resolve

    spec = os.environ.get("VIVACE_TEST_GGUF")
    model = resolve(spec, home=vivace_home(), say=print, confirm=lambda _: True)
    return ModelFiles(path=model.path, shape=model.shape, sha256=model.sha256)
