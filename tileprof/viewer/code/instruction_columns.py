"""Counts of instructions as columns: executions, rates of two counts, and the other counts.

In: the counts of a profile.  Out: for each column, the number and the text of an instruction, a
line or a function, from its sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tileprof.profile import InstructionCounts
from tileprof.profile.instruction_counts import EXECUTIONS, NAMES
from tileprof.profile.units import format_value
from tileprof.viewer.grid import Field

Sums = Mapping[str, int]
"""Counts, keyed by metric."""


@dataclass(frozen=True, slots=True)
class CountColumn:
    """A count, or one count divided by another."""

    name: str
    above: str
    below: str = ""

    def number(self, sums: Sums) -> float | None:
        """Return the number of an instruction, a line or a function; None where there is none."""
        above = sums.get(self.above, 0)
        if not self.below:
            return above
        below = sums.get(self.below, 0)
        return above / below if below else None

    def text(self, sums: Sums) -> str:
        """Return the same as people read it; '' for none and for no execution."""
        number = self.number(sums)
        return "" if number is None or not any(sums.values()) else format_value(number, "1")


def count_columns(counts: InstructionCounts) -> list[CountColumn]:
    """Return the columns of a profile: executions, rates, and counts that no rate is made of."""
    columns = [CountColumn(EXECUTIONS, EXECUTIONS)] if EXECUTIONS in counts.metrics else []
    columns += [CountColumn(each.name, each.above, each.below) for each in counts.rates]
    parts = {part for each in counts.rates for part in (each.above, each.below)} | {EXECUTIONS}
    return [*columns, *(CountColumn(name, name) for name in counts.metrics if name not in parts)]


def count_fields(columns: Sequence[CountColumn], sums: Sequence[Sums], rank: int) -> list[Field]:
    """Return the columns for rows that have these sums."""
    fields = (
        Field(each.name.replace("_", " "), [each.text(row) for row in sums], rank + place)
        for place, each in enumerate(columns)
    )
    return [field for field in fields if any(field.cells)]


def summed(parts: Sequence[Sums]) -> dict[str, int]:
    """Return the sums of several."""
    found: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            found[name] = found.get(name, 0) + count
    return found


def counted_text(counts: InstructionCounts) -> str:
    """Describe what was counted, and how that changes times."""
    own = set(NAMES.values())
    others = [name for name in counts.metrics if name not in own]
    what = f"{', '.join(others)} of each" if others and len(others) == len(counts.metrics) else ""
    return (
        f"Instructions were counted{f': {what}' if what else ''}; kernels ran patched and one after"
        " the other, so times are longer than without"
    )
