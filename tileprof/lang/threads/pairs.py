"""Pairs of elements, as CUDA's `bfloat16x2`: two neighbours that are computed with at once.

    a = T.alloc_local((4,), T.bfloat16x2)      # eight bfloat16 in memory
    a[j] = T.max2(T.abs2(T.bfloat16x2(x, y)), a[j])

A pair is known to the tracing alone: its buffer has a last dimension of 2, and an operation of
pairs is one for each half.  Which of them one instruction computes is for the compiler to choose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tileprof.errors import DTypeError
from tileprof.lang import scalar_math as math
from tileprof.lang.context import current
from tileprof.lang.dtypes import dtype_of
from tileprof.lang.spans import here

__all__ = [
    "PAIRS", "abs2", "add2", "fma2", "is_pair_type", "max2", "min2", "mul2", "pair_buffer", "sub2",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pair:
    """Two scalars of one type."""

    first: Any
    second: Any

    def __getitem__(self, at: int) -> Any:
        return (self.first, self.second)[at]

    def _with(self, other: Any, combine: Callable[[Any, Any], Any]) -> Pair:
        one, two = (other.first, other.second) if isinstance(other, Pair) else (other, other)
        return Pair(combine(self.first, one), combine(self.second, two))

    def __add__(self, other: Any) -> Pair:
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Pair:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Pair:
        return self._with(other, lambda a, b: a * b)


class pair_dtype(str):
    """The name of a type of pairs; called with two scalars it makes one."""

    __slots__ = ()

    @property
    def element(self) -> str:
        """Name of the type of each half."""
        return self.removesuffix("x2")

    @property
    def bits(self) -> int:
        """Size of a pair in bits."""
        return 2 * dtype_of(self.element).bits

    @property
    def bytes(self) -> int:
        """Size of a pair in bytes."""
        return self.bits // 8

    def __call__(self, first: Any, second: Any = None) -> Pair:
        """Return a pair of two scalars, or of one twice."""
        kind = dtype_of(self.element)
        other = first if second is None else second
        return Pair(math.cast(first, kind), math.cast(other, kind))

    def __repr__(self) -> str:
        return f"T.{str.__str__(self)}"


def is_pair_type(dtype: Any) -> bool:
    """Return whether a type is one of pairs, by its object or its name."""
    return isinstance(dtype, str) and str(dtype) in PAIRS


class PairBuffer:
    """A buffer whose elements are pairs."""

    def __init__(self, halves: Any, dtype: str) -> None:
        self.halves = halves
        """The buffer in memory, with a last dimension of 2."""
        self.dtype = PAIRS[dtype]

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents, in pairs."""
        return tuple(self.halves.shape[:-1])

    def _places(self, key: Any) -> tuple[Any, Any]:
        at = tuple(key) if isinstance(key, (tuple, list)) else (key,)
        if len(at) != len(self.shape) or any(isinstance(k, slice) for k in at):
            raise DTypeError(
                f"a part of a buffer of {self.dtype}",
                location=here(),
                hint="Name a pair, or see its elements: `T.view(a, shape, T.bfloat16)`.",
            )
        return (*at, 0), (*at, 1)

    def __getitem__(self, key: Any) -> Pair:
        first, second = self._places(key)
        return Pair(self.halves[first], self.halves[second])

    def __setitem__(self, key: Any, value: Any) -> None:
        first, second = self._places(key)
        held = value if isinstance(value, Pair) else Pair(value, value)
        self.halves[first], self.halves[second] = held.first, held.second


def pair_buffer(space: Any, shape: tuple[Any, ...], dtype: str) -> PairBuffer:
    """Return a buffer of a block or of a thread for pairs."""
    kind = dtype_of(PAIRS[dtype].element)
    return PairBuffer(current().alloc(space, (*shape, 2), kind), dtype)


def _each(name: str, combine: Callable[..., Any]) -> Callable[..., Pair]:
    def function(*pairs: Any) -> Pair:
        if not all(isinstance(p, Pair) for p in pairs):
            raise DTypeError(
                f"`T.{name}` takes pairs",
                location=here(),
                hint="`T.bfloat16x2(x, y)` makes one of two scalars.",
            )
        return Pair(combine(*(p.first for p in pairs)), combine(*(p.second for p in pairs)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return for each half what `{name.removesuffix('2')}` gives."
    return function


abs2, max2, min2 = _each("abs2", math.abs), _each("max2", math.max), _each("min2", math.min)
add2 = _each("add2", lambda a, b: a + b)
sub2 = _each("sub2", lambda a, b: a - b)
mul2 = _each("mul2", lambda a, b: a * b)
fma2 = _each("fma2", lambda a, b, c: a * b + c)
PAIRS = {name: pair_dtype(name) for name in ("float16x2", "bfloat16x2", "float32x2")}
"""Types of pairs by name."""
