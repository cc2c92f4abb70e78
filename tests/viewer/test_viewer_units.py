"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.profile.units import cells, format_percent, format_value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "ns", "0"),
        (812, "ns", "812 ns"),
        (999.4, "ns", "999 ns"),
        (999.6, "ns", "1.00 µs"),
        (1_234, "ns", "1.23 µs"),
        (12_345_678, "ns", "12.3 ms"),
        (2.5e12, "ns", "2,500 s"),
        (0.25, "ns", "0.25 ns"),
        (-1_500, "ns", "-1.50 µs"),
        (4_096, "bytes", "4.10 KB"),
        (80e9, "bytes", "80.0 GB"),
        (512, "flop", "512 FLOP"),
        (6.4e9, "flop", "6.40 GFLOP"),
        (4.21e12, "bytes/s", "4.21 TB/s"),
        (7.53e14, "flop/s", "753 TFLOP/s"),
        (1.5e15, "op/s", "1.50 Pop/s"),
        (3, "1", "3"),
        (1_234_567, "1", "1,234,567"),
        (12_345_678, "1", "12.3 M"),
        (0.5, "1", "0.50"),
        (1_500, "J", "1.50 kJ"),
        (math.nan, "ns", ""),
        (math.inf, "ns", "inf"),
    ],
)
def test_a_value_takes_the_unit_that_fits(value: float, unit: str, text: str) -> None:
    """Three significant digits and the largest unit that leaves a number of one or more."""
    assert format_value(value, unit) == text


def test_cells_of_a_column_align_by_their_digits() -> None:
    """Units are padded to one width, so that right-aligned numbers end in one place."""
    assert cells([1.5e9, 2_000, 0, math.nan], "ns") == ["1.50  s", "2.00 µs", "0   ", ""]


def test_signed_cells_say_which_way() -> None:
    """Differences carry a plus, except for none at all."""
    assert cells([1_500, -20, 0], "ns", signed=True) == ["+1.50 µs", "-20.0 ns", "0   "]


def test_a_percentage_has_one_decimal() -> None:
    """Shares are numbers of one; an unknown share is empty."""
    assert [format_percent(s) for s in (1.0, 0.0049, math.nan)] == ["100.0", "0.5", ""]


@given(st.floats(1e-3, 1e20), st.sampled_from(["ns", "bytes", "flop", "1", "J"]))
def test_the_text_is_true_to_three_digits(value: float, unit: str) -> None:
    """Reading the text back gives the value up to the digits that were cut."""
    number, _, name = format_value(value, unit).partition(" ")
    scales = {
        "ns": {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9},
        "bytes": {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "PB": 1e15},
        "flop": {"FLOP": 1, "kFLOP": 1e3, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15},
    }.get(unit, {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15})
    scale = scales[name.removesuffix("J") if unit == "J" else name]
    assert float(number.replace(",", "")) * scale == pytest.approx(value, rel=0.0501)
