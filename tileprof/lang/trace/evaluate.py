"""Extents that follow from others: `T.empty((T.ceildiv(m, 128),), dtype)` computed at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tileprof import ir
from tileprof.errors import KernelError

_BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "min": min,
    "max": max,
}


@dataclass(frozen=True, slots=True)
class Evaluator:
    """A function from the values of the parameters and symbols to the number that `value` is."""

    value: ir.Value
    evaluate: Callable[[Sequence[Any], Mapping[str, int]], int]

    def __call__(self, values: Sequence[Any], known: Mapping[str, int]) -> int:
        """Return the number for a call."""
        return self.evaluate(values, known)


def evaluator(
    value: ir.Value, params: Sequence[ir.Value], symbols: Mapping[str, ir.Value]
) -> Evaluator:
    """Return a function from the values of the parameters and symbols to the number that `value`
    is.
    """
    names = {v: n for n, v in symbols.items()}
    positions = {v: at for at, v in enumerate(params)}

    def evaluate(held: ir.Value, args: Sequence[Any], known: Mapping[str, int]) -> int:
        if held in names:
            return known[names[held]]
        if held in positions:
            return int(args[positions[held]])
        match held.owner:
            case ir.Constant(value=number):
                return int(number)
            case ir.Cast(operand=inner):
                return evaluate(inner, args, known)
            case ir.Binary(kind=kind, left=left, right=right) if kind in _BINARY:
                return _BINARY[kind](evaluate(left, args, known), evaluate(right, args, known))
            case op:
                raise KernelError(
                    "an extent is computed in a way that cannot be done before the kernel runs",
                    location=op.span if op is not None else None,
                    hint="Extents are made with +, -, *, //, %, `T.min`, `T.max`, `T.ceildiv`.",
                )

    return Evaluator(value, lambda args, known: evaluate(value, args, known))
