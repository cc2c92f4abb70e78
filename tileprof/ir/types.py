"""Types of values: element types, and buffers in a memory space."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from tileprof.errors import DTypeError

Kind = Literal["bool", "int", "uint", "index", "float", "handle"]
Space = Literal["global", "shared", "fragment", "local"]
Dim = int | str
"""An extent: a number, or the name of a symbol of the kernel that is known at launch."""


@dataclass(frozen=True, slots=True)
class DType:
    """An element type.  `index` is the type of loop variables and extents: a 64-bit signed integer
    that a backend may narrow where ranges allow."""

    name: str
    bits: int
    kind: Kind

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """Whether the type is a floating-point type."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether the type is a signed, unsigned or index integer; bool is none."""
        return self.kind in ("int", "uint", "index")

    @property
    def bytes(self) -> int:
        """Size of one element in memory."""
        return max(self.bits // 8, 1)

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest number of an integer type or of bool."""
        if self.kind == "bool":
            return 0, 1
        low = 0 if self.kind == "uint" else -(1 << (self.bits - 1))
        return low, low + (1 << self.bits) - 1

    def to_numpy(self) -> np.dtype[Any]:
        """Return the NumPy type that holds it (`ml_dtypes` for bfloat16 and float8)."""
        return _numpy_dtype(self.name)


bool_ = DType("bool", 8, "bool")
int8, int16, int32, int64 = (DType(f"int{b}", b, "int") for b in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{b}", b, "uint") for b in (8, 16, 32, 64))
float16, float32, float64 = (DType(f"float{b}", b, "float") for b in (16, 32, 64))
bfloat16 = DType("bfloat16", 16, "float")
float8_e4m3 = DType("float8_e4m3", 8, "float")
float8_e5m2 = DType("float8_e5m2", 8, "float")
index = DType("index", 64, "index")
token = DType("token", 0, "handle")
"""Type of the result of an asynchronous op: something to wait for, that is stored nowhere."""
ring = DType("ring", 0, "handle")
"""The barriers and the position of a ring of buffers."""

DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        *(bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64),
        *(float16, float32, float64, bfloat16, float8_e4m3, float8_e5m2, index),
    )
}
HANDLES: dict[str, DType] = {d.name: d for d in (token, ring)}
"""Types of values that are no elements."""
_ALIASES = {
    "float": "float32",
    "half": "float16",
    "double": "float64",
    "int": "int32",
    "uint": "uint32",
    "float8_e4m3fn": "float8_e4m3",
    "e4m3": "float8_e4m3",
    "e5m2": "float8_e5m2",
    "bool_": "bool",
}


@cache
def _numpy_dtype(name: str) -> np.dtype[Any]:
    if name in ("bfloat16", "float8_e4m3", "float8_e5m2"):
        import ml_dtypes

        # "float8_e4m3" on NVIDIA hardware is the finite-only variant: no infinities, one NaN.
        exact = {"float8_e4m3": "float8_e4m3fn"}.get(name, name)
        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, exact))
        return found
    return np.dtype("int64" if name == "index" else name)


def dtype(spec: Any) -> DType:
    """Return the element type named by a string, a NumPy or PyTorch type, a Python type or a
    `DType`.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, type) and spec in (bool, int, float):
        return {bool: bool_, int: int32, float: float32}[spec]
    # `torch.float32` prints as "torch.float32", a NumPy type as its own name.
    text = spec if isinstance(spec, str) else getattr(spec, "name", None) or str(spec)
    if isinstance(spec, type) and hasattr(spec, "__name__"):
        text = spec.__name__
    short = text.rsplit(".", 1)[-1]
    found = DTYPES.get(_ALIASES.get(short, short))
    if found is None:
        raise DTypeError(
            f"`{text}` is not an element type", hint=f"Element types are: {', '.join(DTYPES)}."
        )
    return found


def promote(a: DType, b: DType) -> DType:
    """Return the type in which an operation on `a` and `b` is computed, as in TileLang.

    Floats win over integers, wider over narrower, `index` over other integers, unsigned over signed
    of the same width; two different floats of one width meet in float32.
    """
    if a == b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if a.is_float:
        if a.bits != b.bits:
            return a if a.bits > b.bits else b
        return float32
    if "bool" in (a.kind, b.kind):
        return b if a.kind == "bool" else a
    if "index" in (a.kind, b.kind):
        return index
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "uint" else b


@dataclass(frozen=True, slots=True)
class BufferType:
    """A buffer or a view of one: `shape` in elements, `dtype`, and the memory it lies in.

    `strides` (in elements) is None for row-major contiguous; a view has the strides of its base.
    A `local` buffer belongs to one thread; `shared` and `fragment` ones to a block.
    """

    shape: tuple[Dim, ...]
    dtype: DType
    space: Space
    strides: tuple[Dim, ...] | None = None

    def __str__(self) -> str:
        body = ", ".join([*(str(d) for d in self.shape), self.dtype.name])
        tail = "" if self.strides is None else f", strides = [{', '.join(map(str, self.strides))}]"
        return f"{self.space}<{body}{tail}>"

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape where every extent is a number; ValueError otherwise."""
        if not all(isinstance(d, int) for d in self.shape):
            raise ValueError(f"{self} has extents that are known at launch only")
        return tuple(int(d) for d in self.shape)


Type = DType | BufferType
