"""Numbers as people read them: three significant digits and a unit that fits the size.

In: a value in the unit its metric declares.  Out: short text, or the aligned cells of one column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.profile.storage.plain_text import clean_text

Values: TypeAlias = npt.NDArray[np.float64]

_LARGEST_PLAIN_COUNT = 10_000_000


@dataclass(frozen=True, slots=True)
class _Scale:
    """The names that a unit takes, smallest first; each holds `1000` of the one before."""

    names: tuple[str, ...]


_SCALES = {
    "ns": _Scale(("ns", "µs", "ms", "s")),
    "bytes": _Scale(("B", "KB", "MB", "GB", "TB", "PB")),
    "flop": _Scale(("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP")),
    "bytes/s": _Scale(("B/s", "KB/s", "MB/s", "GB/s", "TB/s", "PB/s")),
    "flop/s": _Scale(("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s")),
    "hz": _Scale(("Hz", "kHz", "MHz", "GHz")),
    "1/s": _Scale(("/s", "k/s", "M/s", "G/s", "T/s", "P/s")),
    "op/s": _Scale(("op/s", "kop/s", "Mop/s", "Gop/s", "Top/s", "Pop/s")),
}
_PLAIN = _Scale(("", "k", "M", "G", "T", "P"))


def format_value(value: float, unit: str) -> str:
    """`value`, which is in `unit`, with an automatic multiple: `1.23 ms`; empty for NaN."""
    number, name = _split(value, unit)
    return f"{number} {name}" if name else number


def cells(values: Iterable[float], unit: str, signed: bool = False) -> list[str]:
    """Return the values of one column, padded so that right-aligned digits stand above each other.
    `signed` puts a plus before positive values, as differences want it."""
    column = np.fromiter(values, np.float64)

    def texts(shown: Sequence[float]) -> list[str]:
        pairs = [_split(value, unit) for value in shown]
        if signed:
            pairs = [(f"+{n}" if n and n != "0" and n[0] != "-" else n, name) for n, name in pairs]
        width = max((len(name) for _, name in pairs), default=0)
        if not width:
            return [number for number, _ in pairs]
        return [f"{number} {name:>{width}}" if number else "" for number, name in pairs]

    return each_once(column, _shown(column, unit), texts)


def format_percent(share: float) -> str:
    """Return a share of one as a percentage with one decimal; empty for NaN."""
    return "" if math.isnan(share) else f"{share * 100:.1f}"


def percents(shares: Values) -> list[str]:
    """Return what `format_percent` makes of each share."""

    def texts(shown: Sequence[float]) -> list[str]:
        return [format_percent(each) for each in shown]

    return each_once(shares, _rounded(shares * 1000), texts)


def each_once(
    values: Values, shown: npt.NDArray[np.generic], texts: Callable[[Sequence[float]], list[str]]
) -> list[str]:
    """Return the texts of values, made together and once for all that show the same number."""
    _, one, place = np.unique(shown, return_index=True, return_inverse=True)
    made: list[str] = np.array(texts(values[one].tolist()), object)[place].tolist()
    return made


_NEAR_TIE = 1e-6
"""Numbers so near to the middle of two that can be shown are not rounded here: what a text rounds
them to is the text's affair."""


def _shown(values: Values, unit: str) -> Values:
    """Return numbers that are equal only where `_split` shows the same."""
    if unit == "1":
        return values
    with np.errstate(divide="ignore", invalid="ignore"):
        size = 10.0 ** (np.floor(np.log10(np.abs(values))) - 2)
        return np.where(np.isfinite(size) & (size > 0), _rounded(values / size) * size, values)


def _rounded(values: Values) -> Values:
    """Return values as whole numbers, those near a tie as they are."""
    with np.errstate(invalid="ignore"):
        is_near = np.abs(np.abs(values - np.floor(values)) - 0.5) < _NEAR_TIE
    return np.where(is_near, values, np.rint(values))


def _split(value: float, unit: str) -> tuple[str, str]:
    if math.isnan(value):
        return "", ""
    if unit == "share":
        value, unit = value * 100, "%"
    if value == 0:
        return "0", ""
    if math.isinf(value):
        return ("inf" if value > 0 else "-inf"), ""
    if unit == "1" and abs(value) < _LARGEST_PLAIN_COUNT:
        return (f"{value:,.0f}" if value == int(value) else _three_digits(value)), ""
    scale = _SCALES.get(unit, _PLAIN)
    scaled, step = float(f"{value:.3g}"), 0
    while abs(scaled) >= 1000 and step < len(scale.names) - 1:
        scaled, step = scaled / 1000, step + 1
    return _three_digits(scaled), _unit_name(scale.names[step], unit)


def _unit_name(name: str, unit: str) -> str:
    if unit in _SCALES or unit == "1":
        return name
    # A unit may be any text of the program's or of a file's.
    return clean_text(f"{name}{unit}")


def _three_digits(value: float) -> str:
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 0.1:
        return f"{value:.2f}" if size < 10 else f"{value:.1f}"
    return f"{value:.2g}"
