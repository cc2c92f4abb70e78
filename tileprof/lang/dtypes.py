"""Element types as an author writes them: `T.float32`, which also converts: `T.float32(x)`."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from tileprof import ir
from tileprof.errors import DTypeError

from .context import active, current
from .spans import here
from .static import cast_number, is_number


class dtype(str):
    """The name of an element type.  It is a string, equal to its plain name, and can be called to
    convert a value; `dtype(x)` takes whatever names a type: a string, a NumPy or PyTorch type."""

    __slots__ = ()

    def __new__(cls, spec: Any) -> dtype:
        """Return the type that `spec` names; DTypeError where there is none."""
        return super().__new__(cls, dtype_of(spec).name)

    def __call__(self, value: Any = 0) -> Any:
        """`value` converted to this type."""
        if is_number(value) and active() is None:
            return cast_number(value, ir.DTYPES[self])
        return current().cast(value, ir.DTYPES[self])

    def __repr__(self) -> str:
        return f"T.{str.__str__(self)}"

    @property
    def bits(self) -> int:
        """Size of an element in bits."""
        return ir.DTYPES[self].bits

    @property
    def bytes(self) -> int:
        """Size of an element in bytes."""
        return ir.DTYPES[self].bytes

    itemsize = bytes

    def as_torch(self) -> Any:
        """Return the PyTorch type of this name."""
        import torch

        return getattr(torch, {"float8_e4m3": "float8_e4m3fn"}.get(self, self))


class packed_dtype(str):
    """The name of a type of less than a byte.  It can be compared and handed on, and no buffer has
    such elements: several of them lie in a byte of `uint8`."""

    __slots__ = ()

    def __call__(self, value: Any = 0) -> NoReturn:
        """Refuse: no value has this type."""
        _refuse_packed(self)

    def __repr__(self) -> str:
        return f"T.{str.__str__(self)}"

    @property
    def bits(self) -> int:
        """Size of an element in bits."""
        return int(re.findall(r"\d+", self)[0])


def _refuse_packed(name: str) -> NoReturn:
    raise DTypeError(
        f"elements of type {name} are smaller than a byte",
        location=here(),
        hint="Pack them: a buffer of `T.uint8` with two in each byte, taken apart by shifts, as "
        "`case_studies/int4_matmul.py` does.",
    )


def dtype_of(spec: Any) -> ir.DType:
    """Return the element type that `spec` names; DTypeError at the user's line where there is
    none."""
    if isinstance(spec, str) and spec in PACKED:
        _refuse_packed(spec)
    try:
        return ir.dtype(spec)
    except DTypeError as error:
        raise DTypeError(error.message, location=here(), hint=error.hint) from None


def of(kind: ir.DType) -> dtype:
    """Return the author's name for an element type."""
    return _BY_NAME[kind.name]


def is_dtype(value: Any) -> bool:
    """Return whether `value` is one of the names in this file (not a plain string)."""
    return isinstance(value, dtype)


PACKED: dict[str, packed_dtype] = {
    name: packed_dtype(name)
    for name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")
}  # fmt: skip
"""Names of types of less than a byte."""
_BY_NAME = {name: dtype(kind) for name, kind in ir.DTYPES.items()}
_ALIASES = {
    "float": "float32", "half": "float16", "double": "float64", "int": "int32", "uint": "uint32",
    "float8_e4m3fn": "float8_e4m3", "tfloat32": "float32",
}  # fmt: skip
NAMES: dict[str, dtype] = {
    **{n: d for n, d in _BY_NAME.items() if n != "index"},
    **{alias: _BY_NAME[name] for alias, name in _ALIASES.items()},
}
"""Every element type under each of its names."""
