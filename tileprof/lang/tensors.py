"""Annotations of arguments: `T.Tensor((M, K), dtype)`, `T.const`, `T.dynamic`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tileprof import ir
from tileprof.errors import KernelError, ShapeError

from .context import current
from .dtypes import NAMES, dtype, dtype_of, is_dtype, of
from .spans import here
from .values import BufferData, Symbol


@dataclass(frozen=True, slots=True)
class TensorType:
    """The annotation of a tensor argument; extents are numbers, `T.const`s or symbols."""

    shape: tuple[Any, ...]
    kind: ir.DType
    strides: tuple[Any, ...] | None = None

    @property
    def dtype(self) -> dtype:
        """The element type."""
        return of(self.kind)


def shape_of(shape: Any) -> tuple[Any, ...]:
    """A shape from a tuple, a list or one extent; raises `ShapeError` for names and types."""
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for extent in extents:
        if isinstance(extent, str) or is_dtype(extent):
            hint = "The shape comes first, then the type."
            if isinstance(extent, str) and extent not in NAMES:
                hint = f'An extent that a call gives is `{extent} = T.dynamic("{extent}")`.'
            raise ShapeError(f"{extent!r} is not an extent", location=here(), hint=hint)
    return extents


class _TensorMaker:
    """`Tensor(shape, dtype)` or `Tensor[shape, dtype]`."""

    def __call__(self, shape: Any, dtype: Any = "float32", data: Any = None) -> Any:
        """The annotation of a tensor; with `data` (`buffer.data`) another view of that memory."""
        if data is not None:
            held = data.buffer if isinstance(data, BufferData) else data
            return current().reinterpret(held, shape_of(shape), dtype_of(dtype))
        return TensorType(shape_of(shape), dtype_of(dtype))

    def __getitem__(self, spec: Any) -> Any:
        shape, kind = spec if isinstance(spec, tuple) and len(spec) == 2 else (spec, "float32")
        return self(shape, kind)


class _StridedMaker:
    """`StridedTensor(shape, strides, dtype)` or `StridedTensor[shape, strides, dtype]`."""

    def __call__(self, shape: Any, strides: Any, dtype: Any = "float32") -> TensorType:
        """The annotation of a tensor with strides, in elements."""
        return TensorType(shape_of(shape), dtype_of(dtype), shape_of(strides))

    def __getitem__(self, spec: Any) -> TensorType:
        return self(*spec)


Tensor = _TensorMaker()
StridedTensor = _StridedMaker()


class Ref:
    """Annotation of a macro's parameter that is passed by reference: a variable or an element."""


@dataclass(frozen=True, slots=True)
class TileType:
    """The annotation of a macro's parameter that is an on-chip buffer."""

    space: ir.Space
    shape: tuple[Any, ...]
    kind: ir.DType

    def check(self, name: str, value: Any) -> None:
        """Raise where an argument is no such buffer."""
        kind = getattr(value, "type", None)
        wanted = ir.BufferType(self.shape, self.kind, self.space)
        if kind != wanted:
            raise KernelError(
                f"`{name}` is {kind or repr(value)}, and the macro takes {wanted}",
                location=here(),
                hint="Pass a buffer of this memory, shape and element type, or leave the parameter"
                " without an annotation.",
            )


class _TileMaker:
    """`SharedBuffer(shape, dtype)` or `SharedBuffer[shape, dtype]`."""

    def __init__(self, space: ir.Space) -> None:
        self._space = space

    def __call__(self, shape: Any, dtype: Any = "float32") -> TileType:
        """The annotation of an on-chip buffer."""
        return TileType(self._space, shape_of(shape), dtype_of(dtype))

    def __getitem__(self, spec: Any) -> TileType:
        shape, kind = spec if isinstance(spec, tuple) and len(spec) == 2 else (spec, "float32")
        return self(shape, kind)


SharedBuffer = _TileMaker("shared")
FragmentBuffer = _TileMaker("fragment")
LocalBuffer = _TileMaker("local")


def _split(names: str) -> list[str]:
    return [n for n in re.split(r"[\s,]+", names) if n]


def const(name: str, dtype: Any = None) -> Any:
    """Return extents that follow from the arguments of each call: `M, N = T.const("M, N")`.

    A kernel is compiled for each combination of values. One name gives one extent, several names
    give a tuple.
    """
    names = _split(name)
    if not names or not all(n.isidentifier() for n in names):
        raise KernelError(
            f"`T.const({name!r})` names no extent",
            location=here(),
            hint='Give names: `M, N = T.const("M, N")`.',
        )
    made = current().const(names)
    return made[0] if len(made) == 1 else made


def dynamic(name: str, dtype: Any = None) -> Any:
    """Return extents that are known only at launch: `N = T.dynamic("N")`.

    One compiled kernel serves all values.
    """
    names = _split(name)
    made = tuple(Symbol(n) for n in names)
    return made[0] if len(made) == 1 else made


class _Dyn:
    """`T.dyn["K"]`: a symbol in an annotation."""

    def __getitem__(self, name: str) -> Any:
        return dynamic(name)


dyn = _Dyn()


def empty(*shape: Any, dtype: Any = "float32") -> Any:
    """Return a result tensor, which each call allocates: `Y = T.empty((M, N), T.float32)`.

    Elements that the kernel does not write have arbitrary values. Under
    `with tileprof.device("interpreter"):`, a read of such an element raises `UninitializedError`.
    """
    dims: Sequence[Any] = shape
    if (len(shape) == 2 and isinstance(shape[1], str)) or (
        len(shape) == 2 and isinstance(shape[0], (tuple, list))
    ):
        dims, dtype = (shape[0],), shape[1]
    if len(dims) == 1:
        dims = shape_of(dims[0])
    return current().empty(dims, dtype_of(dtype))
