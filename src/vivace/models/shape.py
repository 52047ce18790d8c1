"""The shape of a model: what its memory and speed follow from."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelShape:
    """Read from the model's file. Sizes in elements, `file_bytes` and `tensor_bytes` in bytes."""

    architecture: str
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    key_size: int
    value_size: int
    vocabulary: int
    context: int
    #: The type most weight bytes have, e.g. `Q4_1`.
    weight_type: str
    parameters: int
    tensor_bytes: int
    file_bytes: int
    #: Row widths (the quantised dimension) of the weight matrices -> how many parameters have it.
    widths: Mapping[int, int] = field(default_factory=dict[int, int])
    name: str = ""
    licence: str = ""
    chat_template: str | None = None

    def kv_bytes_per_token(self, bytes_per_element: float = 2.0) -> int:
        """KV bytes of one token: layers x KV heads x (key + value size) x element size."""
        per_layer = self.kv_heads * (self.key_size + self.value_size)
        return round(self.layers * per_layer * bytes_per_element)
