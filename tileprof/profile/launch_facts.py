"""Arguments of launches, as the recorder saw them: types, sizes, and which tensors are one.

The first launches of a kernel from a line are looked at, and then ever fewer; those whose tensors
are alike are one variant.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tileprof.errors import Location


@dataclass(frozen=True, slots=True)
class Origin:
    """The launch that stored to a tensor before."""

    kernel: str
    line: int
    """Line that launched it."""
    parameter: str


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor that a launch was given."""

    parameter: str
    dtype: str
    """Type of an element, as PyTorch names it: `bfloat16`."""
    elements: int
    width: int
    """Bytes of an element."""
    memory: int
    """Number of its memory: tensors of one launch with the same number share it."""
    origin: Origin | None = None
    """The launch, of those looked at, that stored to the tensor last; None if none is known."""


@dataclass(frozen=True, slots=True)
class NumberArgument:
    """A number that launches were given."""

    parameter: str
    low: float
    """The least that a launch was given; `high` is the most."""
    high: float


Argument: TypeAlias = TensorArgument | NumberArgument


@dataclass(frozen=True, slots=True)
class LaunchVariant:
    """Launches of a kernel from one line whose tensors are alike."""

    kernel: str
    place: Location
    """The line that launches it."""
    looked_at: int
    """Launches of this variant that were looked at."""
    others: int
    """Launches from this line that were looked at, but fit none of the variants kept."""
    arguments: tuple[Argument, ...]
    """Tensors and numbers, in the order of the kernel's parameters."""

    def tensor(self, parameter: str) -> TensorArgument | None:
        """Return the tensor that was given for a parameter, None if there was none."""
        held = (each for each in self.arguments if isinstance(each, TensorArgument))
        return next((each for each in held if each.parameter == parameter), None)

    def number(self, parameter: str) -> NumberArgument | None:
        """Return the numbers that were given for a parameter, None if there were none."""
        held = (each for each in self.arguments if isinstance(each, NumberArgument))
        return next((each for each in held if each.parameter == parameter), None)


def seen_at(
    launches: Iterable[LaunchVariant], kernel: str, file: str, lines: Container[int]
) -> tuple[LaunchVariant, ...]:
    """Return what was seen of a kernel's launches from some lines; nothing unless all that was
    looked at there is among it."""
    found = tuple(
        each for each in launches
        if each.kernel == kernel and each.place.file == file and each.place.line in lines
    )  # fmt: skip
    return () if any(each.others for each in found) else found
