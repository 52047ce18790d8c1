"""Which type each tensor of a made file gets: the rules of llama.cpp's own quantiser.

Source: `llama_tensor_get_type_impl` and `tensor_allows_quantization` in llama.cpp's
`src/llama-quant.cpp` (read 2026-11-30). Left out: its exceptions for Falcon, for the 70B Llamas
and for models with eight experts.
"""

import re
from collections.abc import Sequence

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType

from vivace.models.gguf_header import Tensor
from vivace.models.types import STAND_IN, ggml_type

#: Changes whenever the rules below do, so that files made by older rules are not used.
RECIPE_VERSION = 1

_UNTOUCHED = (
    "_norm.weight",
    "ffn_gate_inp.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "position_embd",
    "token_types",
    "attn_rel_b.weight",
)
_ATTENTION_V = ("attn_v.weight", "attn_qkv.weight", "attn_kv_b.weight")
_LAYER = re.compile(r"^blk\.(\d+)\.")


def recipe(tensors: Sequence[Tensor], type_name: str, *, layers: int) -> list[GGMLQuantizationType]:
    """The type of each tensor, in order.

    Vectors, norms and routers keep theirs. The output matrix, or the token embedding where it
    serves as one, gets `Q6_K` in the types below 8 bits. `Q4_K_M` gives `Q6_K` to the value and
    down projections of half the layers. Rows that do not fit get a stand-in.
    """
    tied = all(t.name != "output.weight" for t in tensors)
    output = "token_embd.weight" if tied else "output.weight"
    return [
        _fitting(_wanted(t, type_name, output=output, layers=layers), t.dims[0])
        if _may_change(t)
        else t.type
        for t in tensors
    ]


def file_type(type_name: str) -> int:
    """The number that `general.file_type` has for a type."""
    return LlamaFileType[f"MOSTLY_{type_name}"].value


def _may_change(tensor: Tensor) -> bool:
    return (
        len(tensor.dims) > 1
        and tensor.name.endswith("weight")
        and not any(part in tensor.name for part in _UNTOUCHED)
    )


def _wanted(tensor: Tensor, type_name: str, *, output: str, layers: int) -> str:
    if tensor.name == output and type_name not in ("F16", "Q8_0"):
        return "Q6_K"
    if type_name == "Q4_K_M" and _is_sensitive(tensor.name, layers=layers):
        return "Q6_K"
    return ggml_type(type_name).name


def _is_sensitive(name: str, *, layers: int) -> bool:
    """llama.cpp's `use_more_bits`: the first and last eighth of the layers and every third between."""
    match = _LAYER.match(name)
    if match is None or not (name.endswith(_ATTENTION_V) or "ffn_down" in name):
        return False
    layer, eighth = int(match[1]), layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def _fitting(wanted: str, width: int) -> GGMLQuantizationType:
    for name in (wanted, STAND_IN.get(wanted, wanted)):
        kind = GGMLQuantizationType[name]
        if width % GGML_QUANT_SIZES[kind][0] == 0:
            return kind
    return GGMLQuantizationType.F16
