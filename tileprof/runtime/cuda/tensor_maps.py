"""Tensor maps: what the hardware's bulk tensor copies know of an argument.

Encoding one takes the driver about a microsecond; a map depends on an argument's address and
extents alone, so those of earlier calls are kept.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tileprof import ir
from tileprof.compiler.cuda.source import LaunchSpec, TensorMapSpec
from tileprof.errors import ExecutionError
from tileprof.ir.types import Dim

from .driver import Driver, DriverFailure

BYTES = 128
_MAX_MAPS = 4096
_Compiled = TypeVar("_Compiled")
DATA_TYPES = {
    "bool": 0, "uint8": 0, "int8": 0, "float8_e4m3": 0, "float8_e5m2": 0, "uint16": 1, "int16": 1,
    "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "index": 5,
    "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
}  # fmt: skip
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTE_256 = 3
_MOST_STRIDE = 1 << 40
"""Strides in bytes are below this (CUDA driver API 13.0, `cuTensorMapEncodeTiled`)."""


class TensorMaps:
    """The maps of one launch of a kernel."""

    def __init__(self, driver: Driver, kernel: ir.Kernel, specs: Sequence[TensorMapSpec]) -> None:
        self._driver = driver
        self._kernel = kernel
        self._specs = specs
        self._known: dict[tuple[int, int, tuple[int, ...]], bytes] = {}

    def get(self, number: int, address: int, symbols: tuple[int, ...]) -> bytes:
        """Return the 128 bytes of map `number` for an argument at `address` (a multiple of 16)."""
        key = (number, address, symbols)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_MAPS:
                self._known.clear()
            found = self._known[key] = self._encode(self._specs[number], address, symbols)
        return found

    def _encode(self, spec: TensorMapSpec, address: int, symbols: tuple[int, ...]) -> bytes:
        named = dict(zip(self._kernel.symbols, symbols))
        rank, size = len(spec.shape), spec.dtype.bytes
        # The hardware counts dimensions from the innermost one.
        shape = [value_of(d, named) for d in reversed(spec.shape)]
        strides = [value_of(d, named) * size for d in reversed(spec.strides[:-1])]
        self._check(spec, shape, strides)
        _owner, made = _aligned()
        try:
            self._driver.call(
                "cuTensorMapEncodeTiled",
                made,
                DATA_TYPES[spec.dtype.name],
                rank,
                address,
                (ctypes.c_uint64 * rank)(*shape),
                (ctypes.c_uint64 * max(rank - 1, 1))(*strides),
                (ctypes.c_uint32 * rank)(*reversed(spec.box)),
                (ctypes.c_uint32 * rank)(*[1] * rank),
                0,
                SWIZZLES[spec.swizzle],
                _PROMOTE_256,
                0,
            )
        except DriverFailure as failure:
            raise self._refused(spec, f"the driver refused it ({failure.message})") from None
        return ctypes.string_at(made, BYTES)

    def _check(self, spec: TensorMapSpec, shape: list[int], strides: list[int]) -> None:
        """Raise with a reason what the driver would refuse as `invalid value`."""
        for extent in shape:
            if not 1 <= extent <= 1 << 32:
                raise self._refused(spec, f"an extent is {extent}, and 1 to 2**32 can be copied")
        for stride in strides:
            if stride % 16 or not 0 < stride < _MOST_STRIDE:
                raise self._refused(spec, f"rows are {stride} bytes apart, no multiple of 16")

    def _refused(self, spec: TensorMapSpec, why: str) -> ExecutionError:
        name = self._kernel.params[spec.param].name
        return ExecutionError(
            f"`{self._kernel.name}` cannot copy `{name}` by TMA: {why}",
            location=self._kernel.location,
            hint="Compile the kernel with `tma=False`.",
        )


def value_of(dim: Dim | tuple[Dim, ...], named: Mapping[str, int]) -> int:
    """Return an extent or a stride as a number; a tuple is a product."""
    match dim:
        case int():
            return dim
        case str():
            return named[dim]
        case _:
            return math.prod(value_of(d, named) for d in dim)


def unaligned_params(launches: Iterable[LaunchSpec], named: Mapping[str, int]) -> frozenset[int]:
    """Return the parameters whose rows launches cannot copy by TMA, or in their chunks, given the
    values of symbols."""
    found = set()
    for launch in launches:
        for spec in launch.maps:
            rows = [value_of(s, named) * spec.dtype.bytes for s in spec.strides[:-1]]
            extents = [value_of(d, named) for d in spec.shape]
            if any(r % 16 or not 0 < r < _MOST_STRIDE for r in rows) or not all(extents):
                found.add(spec.param)
        for held in launch.rows:
            if any(value_of(n, named) % held.chunk for n in held.counts):
                found.add(held.param)
    return frozenset(found)


def fitting(
    compiled: Callable[[frozenset[int]], _Compiled],
    launches: Callable[[_Compiled], Iterable[LaunchSpec]],
    named: Mapping[str, int],
    unaligned: frozenset[int] = frozenset(),
) -> tuple[frozenset[int], _Compiled]:
    """Return what `compiled` gives for the least set of unaligned parameters, with `unaligned`,
    whose launches can copy all rows, given the values of symbols; and that set.

    A copy that gets slower may make others of its loop so, which then ask for more: rows of TMA
    have to begin at multiples of 16 bytes, and those in chunks have to end there, too.
    """
    made = compiled(unaligned)
    while not (asked := unaligned_params(launches(made), named)) <= unaligned:
        unaligned |= asked
        made = compiled(unaligned)
    return unaligned, made


def _aligned() -> tuple[Any, int]:
    """Memory for a map, which is 64-byte aligned: what owns it, and its address."""
    owner = ctypes.create_string_buffer(BYTES + 64)
    return owner, (ctypes.addressof(owner) + 63) & ~63
