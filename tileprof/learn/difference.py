"""The first element of a result that differs from the specification, and who wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tileprof.errors import Location

from .exercise import Array
from .watch import Watch


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element of a result that differs from the specification."""

    name: str
    index: tuple[int, ...]
    got: Any
    expected: Any
    count: int
    """Elements that differ."""
    total: int
    belongs: tuple[int, ...] | None
    """The only other element of the specification's result that has the value found here."""
    writer: tuple[tuple[int, ...], Location | None] | None
    """The block that wrote it last, and where; None where nobody did, or where it is not known."""
    grids: tuple[tuple[int, ...], ...]
    """Grids of the launches; empty where the run was not watched."""
    unwritten: int
    """Elements of the result that no block wrote."""

    @classmethod
    def first(
        cls,
        name: str,
        got: Array,
        expected: Array,
        rtol: float,
        atol: float,
        watch: Watch | None,
    ) -> Difference | None:
        """Return the first difference; an element that nobody wrote differs whatever it holds.

        `watch`: of the run; None where it was not watched.
        """
        # Memory that nobody wrote may hold any bits, also those about which NumPy warns.
        with np.errstate(all="ignore"):
            one, right = got.astype(np.float64), expected.astype(np.float64)
            wrong = ~np.isclose(one, right, rtol, atol, equal_nan=True)
        missing = np.zeros(one.shape, np.bool_)
        if watch is not None:
            traffic = watch.tensors.get(name)
            missing[...] = True if traffic is None else (traffic.writes == 0).reshape(one.shape)
        wrong |= missing
        if not wrong.any():
            return None
        at = int(np.flatnonzero(wrong)[0])
        index = _index(at, one.shape)
        with np.errstate(all="ignore"):
            alike = np.flatnonzero(np.isclose(right, one[index], 1e-6, 0.0)).tolist()
        belongs = _index(alike[0], one.shape) if len(alike) == 1 and one[index] else None
        return cls(
            name, index, got[index], expected[index], int(wrong.sum()), wrong.size,
            None if missing[index] or belongs == index else belongs,
            None if watch is None else watch.writer(name, at),
            () if watch is None else tuple(watch.grids),
            int(missing.sum()),
        )  # fmt: skip

    @property
    def place(self) -> str:
        """The element as a learner writes it."""
        return _place(self.name, self.index)

    def text(self) -> str:
        """Return what differs, as a sentence."""
        differ = f"{self.count:,} of {self.total:,} elements differ"
        return f"{self.place} is {self.got:.6g}, expected {self.expected:.6g} ({differ})"

    def explained(self) -> str:
        """Return who wrote the element and where its value belongs, as sentences."""
        belongs = ""
        if self.belongs is not None:
            belongs = f"The value belongs at {_place(self.name, self.belongs)}."
        if not self.grids:
            return belongs
        grids = " and ".join(map(indices, self.grids))
        if self.writer is None:
            others = f", nor {self.unwritten - 1:,} other elements" if self.unwritten > 1 else ""
            return (
                f"No block writes {self.place}{others}; the value is whatever was in memory. The "
                f"grid is {grids}."
            )
        block, location = self.writer
        line = f" in line {location.line}" if location else ""
        return f"Block {indices(block)} of the grid {grids} writes it{line}. {belongs}".rstrip()


def indices(numbers: tuple[int, ...]) -> str:
    """Return indices or extents as `3` or `(3, 4)`."""
    return str(numbers[0]) if len(numbers) == 1 else str(numbers)


def _place(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def _index(element: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(element, shape))
