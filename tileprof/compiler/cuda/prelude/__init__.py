"""CUDA C++ that emitted kernels include: every PTX instruction they use is a `tp_…` function here.

In: nothing.  Out: the headers' text, for NVRTC as in-memory includes.  All are short, include no
CUDA header and cost the compiler about 1 ms each.  A register array is a pointer to its first
register (`acc + 4 * i` names a part of one), and its indices must be constants.

| header    | functions (`tp_` left out) |
|-----------|-----------|
| base      | arithmetic as on the cpu: floordiv … clz, min, max, abs, bit_cast, within, clip;
|           | uniform, cluster_rank, shared_address |
| numbers   | TpHalf TpBfloat TpE4m3 TpE5m2; value, store<T>, round<T>, fma_odd, pack2/4<T>,
|           | unpack2/4<T>; half, half_add, half_sub, half_mul |
| functions | exp … erf as on the cpu; exp2_flush, rsqrt_flush, reciprocal_flush (one instruction) |
| memory    | load_vector(array, from), load_vector<N>(to, from), store_vector, which copy; and
|           | load_values<N>(to, from), store_values<N>(to, from), which convert, floats in pairs;
|           | each also _global, _shared, _stream |
| barriers  | barrier, warp_barrier, cluster_barrier, fence_async, mbarrier_…, elect,
|           | registers_decrease/increase<N> |
| async     | cp_async<BYTES>, tma_load, tma_load_multicast, tma_store, tma_reduce_add/min/max,
|           | …_hint with evict_first/last(), bulk_load/store/commit/wait/wait_read |
| shuffle   | shuffle_xor/up/down/index of any type, any, all, ballot,
|           | warp_reduce<Kind, LANES, STRIDE>, warp_scan<Kind, LANES> |
| matrix    | ldmatrix_x1/2/4, stmatrix_x1/2/4, their _trans forms, mma_m… |
| wgmma     | descriptor, descriptor_advance, wgmma_fence/commit/wait<N>/hold; the instructions are
|           | made for a kernel by `emit/gemm/wgmma.py` |
| atomics   | atomic<Kind>(at, value), combine<Kind>; in global memory, nothing given back:
|           | atomic_add_vector<N>, atomic_add_global |
| tiles     | next_tile |
| report    | what failed, what was printed |
| sampling  | publish(place, state); sample<WARPS, STATES>: which states warps are in |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tileprof.compiler.codegen import prelude

__all__ = ["FOLDER", "text", "with_dependencies"]

FOLDER = Path(__file__).parent
"""Folder of the headers."""

_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"', re.MULTILINE)
_COMMON = re.compile(r'^#include "(\w+\.h)"\n', re.MULTILINE)
"""A header of the C++ emitter's prelude, which a CPU and a GPU have in common."""


@cache
def text(header: str) -> str:
    """The text of one header, as `#include` names it, with what it has in common with a CPU's."""
    own = (FOLDER / header).read_text()
    return _COMMON.sub(lambda found: (prelude.FOLDER / found[1]).read_text(), own)


def with_dependencies(headers: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Name and text of the headers and of all that they include, those first."""
    ordered: dict[str, str] = {}

    def add(header: str) -> None:
        if header not in ordered:
            for each in _INCLUDE.findall(text(header)):
                add(each)
            ordered[header] = text(header)

    for header in sorted(headers):
        add(header)
    return tuple(ordered.items())
