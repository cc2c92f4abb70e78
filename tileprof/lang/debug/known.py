"""Values that are known: what ops compute and read while a kernel runs as plain Python."""

from __future__ import annotations

from typing import Any

from tileprof import ir
from tileprof.errors import TileprofError


class Fault:
    """Stands for what a read would have given that went wrong: using it raises the error.

    `T.copy(A[i, j], tile)` names an element without wanting its value.
    """

    __slots__ = ("error",)

    def __init__(self, error: TileprofError) -> None:
        self.error = error


class Known(ir.Value):
    """A value of the program that has been computed: a NumPy scalar, an int for an index, or the
    interpreter's buffer or tile."""

    __slots__ = ("guarded", "held")

    def __init__(
        self, type: ir.Type, name: str = "", owner: ir.OpBase | None = None, held: Any = None
    ) -> None:
        super().__init__(type, name, owner)
        self.held = held
        self.guarded = False
        """Whether it was read outside of its tensor."""


class Environment(dict[ir.Value, Any]):
    """The interpreter's map of values; each value holds its own, so that it is forgotten
    with it."""

    def __getitem__(self, value: ir.Value) -> Any:
        assert isinstance(value, Known)
        held = value.held
        if type(held) is Fault:
            raise held.error
        return held

    def __setitem__(self, value: ir.Value, held: Any) -> None:
        assert isinstance(value, Known)
        value.held = held
