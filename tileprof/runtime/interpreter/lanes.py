"""Values of scalars while many blocks run at once, and the algebra of masks.

A *lane* is one point of a `parallel` in one block.  A scalar is either uniform (the same in all
lanes: a Python int for `index`, a NumPy scalar otherwise) or an array of shape
(blocks, axis 1, …, axis D) with 1 where it does not vary; D is the deepest nesting of parallel axes
in the kernel.  Scalars are never changed in place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tileprof import ir

Array = NDArray[Any]
Scalar = Any
Mask = bool | NDArray[np.bool_]
"""Mask of active lanes: True for all, False for none."""


def uniform(value: Scalar) -> bool:
    """Return whether a scalar is the same in all lanes."""
    return type(value) is int or np.ndim(value) == 0


def tidy(value: Scalar, dtype: ir.DType) -> Scalar:
    """Return a uniform `index` as a Python int: arithmetic on it then costs little."""
    return int(value) if dtype.kind == "index" and uniform(value) else value


def span(value: Scalar) -> tuple[int, int]:
    """Return the least and the greatest of an integer scalar."""
    if uniform(value):
        return int(value), int(value)
    return int(value.min()), int(value.max())


def as_mask(condition: Scalar) -> Mask:
    """Return a bool scalar as a mask."""
    return bool(condition) if np.ndim(condition) == 0 else condition


def both(a: Mask, b: Mask) -> Mask:
    """Lanes in `a` and in `b`."""
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return a & b


def either(a: Mask, b: Mask) -> Mask:
    """Lanes in `a` or in `b`."""
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    return a | b


def without(a: Mask, b: Mask) -> Mask:
    """Lanes in `a` that are not in `b`."""
    return both(a, (not b) if isinstance(b, bool) else ~b)


def some(mask: Mask) -> bool:
    """Return whether any lane takes part."""
    return mask if isinstance(mask, bool) else bool(mask.any())
