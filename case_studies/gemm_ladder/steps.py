"""One matrix product in bfloat16, from a loop over single elements to the compiler's own choice.

The first step reads global memory element by element.  All others are one function of tile code,
which the compiler is kept from lowering as it would: each step forbids one thing less, or changes
the tile.  `STEPS` says for each what is new in it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import tileprof
import tileprof.lang as T
from tileprof import ir

THREADS = 256


def naive(A, B, block_M: int = 8, block_N: int = 32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=THREADS) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            row, column = by * block_M + i, bx * block_N + j
            total = T.cast(0, T.float32)
            for k in T.serial(K):
                total += T.cast(A[row, k], T.float32) * T.cast(B[k, column], T.float32)
            C[row, column] = total
    return C


def tiled(A, B, block_M: int = 128, block_N: int = 128, block_K: int = 64, stages: int = 4):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=THREADS) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        B_shared = T.alloc_shared((block_K, block_N), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@dataclass(frozen=True)
class Step:
    """A rung of the ladder: the one before it, and one thing more."""

    name: str
    change: str
    """What is new in it."""
    forbidden: dict[str, Any]
    """Lowering controls that differ from the compiler's own choice."""
    tile: dict[str, int] = field(default_factory=dict)
    """Arguments of the kernel that differ from their defaults."""
    function: Callable[..., Any] = tiled

    def kernel(self, **changed: Any) -> Any:
        """The kernel under the step's controls, and `changed` ones; to be called with arrays."""
        held = tileprof.Controls(**{**self.forbidden, **changed})
        return partial(tileprof.jit(controls=held)(self.function), **self.tile)

    def traced(self, m: int, n: int, k: int) -> ir.Kernel:
        """The program for given extents, before it is lowered."""
        return tileprof.jit(self.function).compile(M=m, N=n, K=k, **self.tile).ir


ONE_BLOCK_A_TILE = {"rasterize": False, "persistent": False}
NO_TMA = {"tma": False, **ONE_BLOCK_A_TILE}
WIDE = {"block_N": 256}
STEPS = (
    Step("naive", "an element of C a thread, all operands from global memory", {}, {}, naive),
    Step(
        "shared memory",
        "tiles of A and B are copied to shared memory first",
        {"tensor_cores": False, "stages": 1, **NO_TMA},
    ),
    Step("tensor cores", "wgmma multiplies the tiles", {"stages": 1, **NO_TMA}),
    Step("pipelined", "loads run ahead, in four stages of cp.async", NO_TMA),
    Step("warp roles", "a producer warp group loads by TMA; C is stored by TMA", ONE_BLOCK_A_TILE),
    Step("wide tile", "tiles of 128×256 instead of 128×128", ONE_BLOCK_A_TILE, WIDE),
    Step("rasterised", "blocks walk C in groups of 8 rows of tiles", {"persistent": False}, WIDE),
    Step("persistent", "a block stays for many tiles; nothing is forbidden any more", {}, WIDE),
)
