"""Which types make sense."""

from dataclasses import replace

import pytest

from vivace.errors import ConfigError
from vivace.models.types import TYPES, bytes_per_weight, sensible_types
from vivace.testing import SMOL_SHAPE


@pytest.mark.parametrize(
    ("name", "expected"),
    [("F16", 2), ("Q8_0", 1.0625), ("Q6_K", 0.8203125), ("Q5_0", 0.6875), ("Q4_0", 0.5625)],
)
def test_bytes_per_weight_count_the_scales(name: str, expected: float) -> None:
    assert bytes_per_weight(name) == expected


def test_a_mixture_counts_as_its_main_type() -> None:
    assert bytes_per_weight("Q4_K_M") == 144 / 256


def test_an_unknown_type_is_told() -> None:
    with pytest.raises(ConfigError, match="`Q3`"):
        bytes_per_weight("Q3")


def test_k_types_are_refused_with_the_widths_and_their_share() -> None:
    reasons = sensible_types(SMOL_SHAPE)
    assert list(reasons) == list(TYPES)
    assert reasons["Q4_K_M"] == (
        "Q4_K needs widths divisible by 256: 576 (80% of the weights) would become Q5_0"
    )
    assert reasons["Q6_K"] is not None and "Q8_0" in reasons["Q6_K"]


def test_more_bits_than_the_source_are_no_gain_except_for_plain_8_bit() -> None:
    reasons = sensible_types(SMOL_SHAPE)
    assert reasons["Q5_0"] == "no gain: more bits than the source (Q4_1) has"
    assert reasons["F16"] is None
    assert reasons["Q8_0"] is None
    assert reasons["Q4_0"] is None


def test_everything_fits_a_16_bit_model_with_even_widths() -> None:
    shape = replace(SMOL_SHAPE, weight_type="BF16", widths={1024: 10, 4096: 10})
    assert set(sensible_types(shape).values()) == {None}


def test_a_few_odd_rows_do_not_rule_a_type_out() -> None:
    shape = replace(SMOL_SHAPE, weight_type="F16", widths={1024: 75, 576: 25})
    assert sensible_types(shape)["Q4_K_M"] is None
    shape = replace(SMOL_SHAPE, weight_type="F16", widths={1024: 74, 576: 26})
    assert sensible_types(shape)["Q4_K_M"] is not None


def test_the_mixture_that_the_source_is_gets_named() -> None:
    shape = replace(SMOL_SHAPE, weight_type="Q4_K", widths={1024: 1})
    assert sensible_types(shape)["Q4_K_M"] == "the source file is Q4_K already"
