"""A model that was found: its file, its shape and where it came from."""

from dataclasses import dataclass
from pathlib import Path

from vivace.errors import ModelError
from vivace.models.shape import ModelShape


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """`path` is the GGUF file (the first part of a split one) or the safetensors folder."""

    name: str
    path: Path
    shape: ModelShape
    sha256: str
    #: Where it came from, in the words that find it again: `pypi:...`, `hub:...`, a path.
    source: str
    #: Empty when the file does not say.
    licence: str

    @property
    def is_gguf(self) -> bool:
        """Whether llama.cpp can load it as it is."""
        return self.path.suffix == ".gguf"


def require_gguf(model: Model) -> None:
    """Raises `ModelError` for a safetensors folder: llama.cpp cannot serve one."""
    if not model.is_gguf:
        raise ModelError(
            f"`{model.path}` is a safetensors folder, and llama.cpp serves GGUF files only",
            hint="convert it with llama.cpp's `convert_hf_to_gguf.py`, or name a GGUF file of this model",
        )
