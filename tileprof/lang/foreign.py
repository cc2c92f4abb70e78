"""Operations of Python, NumPy, PyTorch and Triton that a kernel's author may try: what each is
called here.

Values of a kernel are known when it runs, so a function that wants numbers now can only fail.  In:
its name.  Out: an error at the author's line that names the operation of the language.
"""

from __future__ import annotations

import linecache
import operator
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from tileprof.errors import KernelError, Location, UnknownOperation

from .spans import here

_CHOICE = "`T.if_then_else(condition, a, b)`"
_LOOPS = "`T.Parallel(m, n)` for elements in any order, `T.serial(n)` for one after the other"
_LAUNCH = "`with T.Kernel(gx, gy) as (bx, by):`, which gives a block its numbers"
_COPY = "`T.copy(source, target)` for tiles, or elements: `A[i, j]`"
_GEMM = "`T.gemm(A, B, C)` of on-chip tiles"
_NO_BARRIER = "no barrier: the compiler places them"
_NO_POINTER = "no addresses, which nobody could check: pass tensors, or one tensor with an index"
_OTHER: Mapping[str, str] = {
    "maximum": "`T.max(a, b)`", "minimum": "`T.min(a, b)`", "fmax": "`T.max(a, b)`",
    "fmin": "`T.min(a, b)`", "amax": "`T.reduce_max`", "amin": "`T.reduce_min`",
    "max": "`T.max(a, b)` of scalars, `T.reduce_max` of a tile",
    "min": "`T.min(a, b)` of scalars, `T.reduce_min` of a tile",
    "sum": "`T.reduce_sum`", "cumulative_sum": "`T.cumsum`", "clip": "`T.clamp`",
    "prod": "a loop over the elements", "mean": "`T.reduce_sum`, then a division",
    "where": _CHOICE, "select": _CHOICE,
    "dot": _GEMM, "matmul": _GEMM, "mm": _GEMM, "bmm": _GEMM, "einsum": _GEMM, "inner": _GEMM,
    "zeros": "`T.alloc_fragment(shape, dtype)` and `T.clear`", "zeros_like": "`T.clear(buffer)`",
    "ones": "`T.fill(buffer, 1)`", "full": "`T.fill(buffer, value)`",
    "arange": "the variables of `T.Parallel(n)`",
    "load": _COPY, "store": _COPY, "Grid": _LOOPS,
    "program_id": _LAUNCH, "num_programs": _LAUNCH, "block_idx": _LAUNCH, "launch_thread": _LAUNCH,
    "cdiv": "`T.ceildiv(a, b)`", "floor_divide": "`a // b`", "remainder": "`a % b`",
    "power": "`T.pow`", "absolute": "`T.abs`", "arcsin": "`T.asin`", "arccos": "`T.acos`",
    "arctan": "`T.atan`", "arctan2": "`T.atan2`", "rint": "`T.nearbyint`",
    "expm1": "`T.exp(x) - 1`", "relu": "`T.max(x, 0)`", "int": '`T.cast(x, "int32")`',
    "float": '`T.cast(x, "float32")`', "to": '`x.astype(dtype)`', "any": "`T.any_of`",
    "all": "`T.all_of`", "syncthreads": _NO_BARRIER,
    "debug_barrier": _NO_BARRIER, "transpose": "`transpose_A`, `transpose_B` of `T.gemm`",
    "ptr": _NO_POINTER, "make_tensor": _NO_POINTER, "access_ptr": _NO_POINTER,
    "constexpr": "a plain parameter of the function", "len": "`buffer.shape[0]`",
}  # fmt: skip
"""Replacements for names that the language lacks."""
_CALL = re.compile(r"(?:\w+\.)*(\w+)\(")
_OPERATORS: Mapping[Any, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul,
    np.true_divide: operator.truediv, np.floor_divide: operator.floordiv,
    np.remainder: operator.mod, np.power: operator.pow, np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor, np.left_shift: operator.lshift,
    np.right_shift: operator.rshift, np.less: operator.lt, np.less_equal: operator.le,
    np.greater: operator.gt, np.greater_equal: operator.ge, np.equal: operator.eq,
    np.not_equal: operator.ne,
}  # fmt: skip
"""NumPy's operators: a NumPy scalar on the left of a value calls them."""


def other_name(name: str) -> str:
    """Return the replacement for a name that the language lacks; '' if none is known."""
    if name in _OTHER:
        return _OTHER[name]
    known = sys.modules[__package__].__all__
    return next((f"`T.{n}`" for n in (name, f"reduce_{name}") if n in known), "")


def called_function(location: Location | None) -> str:
    """Return the name of the function that is called at a place of the source; '' where none is."""
    if location is None or not location.end_column:
        return ""
    line = linecache.getline(location.file, location.line).encode()
    text = line[location.column :].decode(errors="ignore")
    found = _CALL.match(text)
    return found[1] if found else ""


def _refuse(what: str, name: str) -> NoReturn:
    other = other_name(name)
    raise KernelError(
        f"{what} works on numbers that are known now, and a kernel's values are known when it runs",
        location=here(),
        hint=f"The language has {other}." if other else "`dir(tileprof.lang)` lists its functions.",
    )


class Foreign:
    """Protocols of other libraries, each refused by name for a value of a kernel."""

    __slots__ = ()

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """NumPy's element functions; its operators are those of the value."""
        if method == "__call__" and not options and function in _OPERATORS:
            left, *right = (
                np.asarray(x).item() if isinstance(x, np.generic) else x for x in inputs
            )
            return _OPERATORS[function](left, *right)
        _refuse(f"`np.{function.__name__}`", function.__name__)

    def __array_function__(self, function: Any, *_: Any) -> Any:
        """NumPy's other functions."""
        _refuse(f"`np.{function.__name__}`", function.__name__)

    @classmethod
    def __torch_function__(cls, function: Any, *_: Any) -> Any:
        """PyTorch's functions."""
        _refuse(f"`torch.{function.__name__}`", function.__name__)

    def __matmul__(self, other: Any) -> Any:
        """`@`."""
        raise KernelError(
            "`@` is not an operator of a kernel",
            location=here(),
            hint="The language has `T.gemm(A, B, C)` of on-chip tiles: it adds A times B to C.",
        )

    __rmatmul__ = __matmul__

    def __getattr__(self, name: str) -> Any:
        """Methods of arrays and tensors."""
        if name.startswith("_"):
            raise AttributeError(name)
        other = other_name(name)
        raise UnknownOperation(
            f"{self!r} has no `{name}`",
            location=here(),
            hint=f"The language has {other}." if other else "Functions of a kernel are in `T`.",
        )
