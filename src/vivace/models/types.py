"""Which GGUF weight types make sense for a model, and what they cost."""

from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from vivace.errors import ConfigError
from vivace.models.shape import ModelShape

#: The types that vivace makes, largest first.
TYPES = ("F16", "Q8_0", "Q6_K", "Q5_0", "Q4_K_M", "Q4_0")
#: Types that are names of mixtures: their main type.
MAIN_TYPE = {"Q4_K_M": "Q4_K"}
#: What stands in where a row cannot be cut into blocks of 256, as llama.cpp does it.
STAND_IN = {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}
#: With more of the weights than this in stand-ins, a type is not what its name promises.
_MOST_MISFITS = 0.25


def bytes_per_weight(type_name: str) -> float:
    """Bytes of one weight: block bytes / block size. Mixtures count as their main type."""
    try:
        block, block_bytes = GGML_QUANT_SIZES[ggml_type(type_name)]
    except KeyError as error:
        raise ConfigError(
            f"unknown weight type `{type_name}`", hint=f"one of {', '.join(TYPES)}"
        ) from error
    return block_bytes / block


def ggml_type(type_name: str) -> GGMLQuantizationType:
    """The (main) tensor type behind a name; `KeyError` for an unknown one."""
    return GGMLQuantizationType[MAIN_TYPE.get(type_name, type_name)]


def sensible_types(shape: ModelShape) -> dict[str, str | None]:
    """Each type that can be made -> `None` where it fits, else why trying it is no use.

    `F16` always fits: it is the reference. `Q8_0` is tried even from a smaller source, since its
    plain 8-bit blocks compute faster than packed ones.
    """
    return {name: _objection(name, shape) for name in TYPES}


def _objection(name: str, shape: ModelShape) -> str | None:
    if name in ("F16", shape.weight_type):
        return None
    if MAIN_TYPE.get(name) == shape.weight_type:
        return f"the source file is {shape.weight_type} already"
    main = ggml_type(name)
    block = GGML_QUANT_SIZES[main][0]
    misfits = sorted(width for width in shape.widths if width % block)
    share = sum(shape.widths[w] for w in misfits) / max(1, sum(shape.widths.values()))
    if share > _MOST_MISFITS:
        stand_in = STAND_IN.get(main.name, "F16")
        return (
            f"{main.name} needs widths divisible by {block}: {', '.join(map(str, misfits))} "
            f"({share:.0%} of the weights) would become {stand_in}"
        )
    source_bytes = _source_bytes_per_weight(shape)
    if name != "Q8_0" and source_bytes is not None and bytes_per_weight(name) > source_bytes:
        return f"no gain: more bits than the source ({shape.weight_type}) has"
    return None


def _source_bytes_per_weight(shape: ModelShape) -> float | None:
    """`None` for types of safetensors that GGUF does not name."""
    known = shape.weight_type in GGMLQuantizationType.__members__
    return bytes_per_weight(shape.weight_type) if known else None
