"""Copies of a few elements that the hardware does beside the program, `cp.async` of CUDA.

A copy takes effect where it stands, as every operation does; the compiler decides whether it runs
beside what follows.  Groups of copies and waiting for them are in `roles`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tileprof.errors import KernelError
from tileprof.ir import DType
from tileprof.lang.context import current
from tileprof.lang.dtypes import dtype_of
from tileprof.lang.scalar_math import if_then_else
from tileprof.lang.spans import here
from tileprof.lang.static import is_number
from tileprof.lang.values import Buffer, BufferData

__all__ = ["ptx_cp_async", "tvm_access_ptr", "type_annotation"]


@dataclass(frozen=True)
class Pointer:
    """A place in a buffer: so many elements behind its first one."""

    buffer: Buffer
    offset: Any

    def element(self, further: Any) -> tuple[Buffer, tuple[Any, ...]]:
        """Return a buffer and the indices of an element that many places further."""
        rest: Any = self.offset + further
        flat = current().flat(self.buffer)
        if flat is not None:
            return flat, (rest,)
        indices: list[Any] = []
        for extent in self.buffer.shape[:0:-1]:
            indices.insert(0, rest % extent)
            rest = rest // extent
        return self.buffer, (rest, *indices)


def type_annotation(dtype: Any) -> DType:
    """Return an element type, as `tvm_access_ptr` takes it."""
    return dtype_of(dtype)


def tvm_access_ptr(
    dtype: Any, data: Any, offset: Any, extent: Any = None, rw_mask: int = 3
) -> Pointer:
    """Return the place `offset` elements behind the beginning of `buffer.data`."""
    held = data.buffer if isinstance(data, BufferData) else data
    if not isinstance(held, Buffer):
        raise KernelError(
            f"`T.tvm_access_ptr` of {data!r:.60}",
            location=here(),
            hint="It takes the memory of a buffer: "
            "`T.tvm_access_ptr(T.type_annotation(dtype), A.data, offset, extent, 1)`.",
        )
    if dtype_of(dtype) != held.type.dtype:
        raise KernelError(
            f"a pointer to {dtype_of(dtype)} into `{held.name}`, which has {held.type.dtype}",
            location=here(),
            hint="See the buffer as the other type first: `T.view(buffer, shape, dtype)`.",
        )
    return Pointer(held, offset)


def ptx_cp_async(dst: Any, src: Any, num_elems: int, predicate: Any = None) -> None:
    """Copy neighbouring elements; without the predicate, fill the target with zeros.

    `dst` and `src` are places that `tvm_access_ptr` gives.
    """
    if not isinstance(dst, Pointer) or not isinstance(src, Pointer) or not is_number(num_elems):
        raise KernelError(
            "`T.ptx_cp_async` of something else than two places and a number of elements",
            location=here(),
            hint="`T.ptx_cp_async(T.tvm_access_ptr(…), T.tvm_access_ptr(…), 8)`, or whole tiles: "
            "`T.copy(source, target)`.",
        )

    def copied(e: Any) -> None:
        source, at = src.element(e)
        target, place = dst.element(e)
        held = source[at]
        target[place] = held if predicate is None else if_then_else(predicate, held, 0)

    current().each(num_elems, copied)
