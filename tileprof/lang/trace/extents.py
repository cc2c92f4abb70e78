"""Extents of views that are known at launch, `num_tokens * num_topk`, as products of symbols.

Two shapes hold equally many elements if the products of their extents are equal, which can be said
of products of numbers and symbols before any of them is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tileprof import ir


@dataclass(frozen=True, slots=True)
class Product:
    """A number times symbols."""

    number: int
    symbols: tuple[str, ...] = ()
    """Factors in alphabetical order; one that is a factor twice stands there twice."""

    def __mul__(self, other: Product) -> Product:
        symbols = sorted(self.symbols + other.symbols)
        return Product(self.number * other.number, tuple(symbols))

    @property
    def name(self) -> str:
        """Return a name for an extent of this size."""
        return "_".join((*self.symbols, "times", str(self.number)))


def product_of(value: ir.Value, symbols: Mapping[ir.Value, Product]) -> Product | None:
    """Return the product that a value is; None where it is computed in another way."""
    if value in symbols:
        return symbols[value]
    match value.owner:
        case ir.Constant(value=number):
            return Product(int(number))
        case ir.Cast(operand=inner):
            return product_of(inner, symbols)
        case ir.Binary(kind="mul", left=left, right=right):
            first, second = product_of(left, symbols), product_of(right, symbols)
            return None if first is None or second is None else first * second
        case _:
            return None


def product_of_all(extents: Iterable[ir.Dim], symbols: Mapping[str, Product]) -> Product:
    """Return the number of elements of a shape, or a factor of its bytes."""
    total = Product(1)
    for each in extents:
        total = total * (Product(each) if isinstance(each, int) else symbols.get(
            each, Product(1, (each,))
        ))  # fmt: skip
    return total
