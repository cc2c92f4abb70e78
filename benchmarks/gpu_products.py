"""Matrix products beside cuBLAS, cuBLASLt and TileLang: square ones, few rows, and of float8."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gpu_kernels as kernels
import torch
from gpu_attention import shown
from gpu_peers import LIMIT, TILELANG, Call, Maker, Spec, WrongResult, check, normal, usable
from measuring import Work, alone, compare, fastest, replayed

sys.path.insert(0, str(Path(__file__).parents[1]))

import tileprof
from case_studies import block_scaled_gemm

POLICIES = ("Square", "FullRow")


def gemm_bf16_peers(size: int, layout: str) -> tuple[Spec, ...]:
    """One for each way to share a tile among warp groups."""
    return tuple(("matmul", size, size, size, layout, p) for p in POLICIES)


def gemm_bf16(size: int, layout: str) -> Iterator[Work]:
    """A square product in bfloat16 beside cuBLAS and TileLang."""
    a, b = normal(size, size), normal(size, size)
    left = a.t() if layout[0] == "T" else a
    right = b.t() if layout[1] == "T" else b
    ours = {"NN": kernels.matmul, "NT": kernels.matmul_nt, "TN": kernels.matmul_tn}[layout]
    out = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
    expected = torch.mm(left, right)
    check(f"GEMM {size} {layout}", ours(a, b), expected, LIMIT)

    def called(kernel: Any) -> Callable[[], torch.Tensor]:
        def run() -> torch.Tensor:
            kernel(a, b, out)
            return out

        return run

    work = Work(f"GEMM bf16 {size}³ {layout}", 2.0 * size**3, "TFLOP/s", 0.95, 1.03)
    specs = [s for s in gemm_bf16_peers(size, layout) if s in TILELANG]
    problems: list[str] = []
    found = usable({s[-1]: called(TILELANG[s]) for s in specs}, expected, LIMIT, problems)
    peers: dict[str, Call] = {"cuBLAS": lambda: torch.mm(left, right, out=out)}
    if found:
        best = fastest(found)
        peers["TileLang"] = found[best]
        problems.append(f"TileLang's policy {best}")
    work.note = "; ".join(problems)
    work.results = compare(lambda: ours(a, b), peers)
    yield work


def gemm_fp8(size: int) -> Iterator[Work]:
    """A square product of e4m3 in bfloat16 beside cuBLASLt."""
    a, b = (normal(size, size).to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    truth = torch.mm(a.float(), b.float().t())

    def peer() -> torch.Tensor:
        return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    def ours() -> torch.Tensor:
        return kernels.matmul_nt(a, b, dtype="float8_e4m3", block_K=128)  # type: ignore[no-any-return]

    # The hardware adds products of 8-bit floats with 14 bits or so.
    check(f"GEMM fp8 {size}", ours(), truth, 2e-2)
    check(f"cuBLASLt's fp8 {size}", peer(), truth, 2e-2)
    del truth
    work = Work(f"GEMM fp8 {size}³", 2.0 * size**3, "TFLOP/s", 0.9, 1.0)
    work.results = compare(ours, {"cuBLASLt": peer})
    yield work


_SQUARE = {"block_M": 128, "block_N": 128, "stages": 5, "threads": 256}
_TALL = {"block_M": 256, "block_N": 128, "stages": 3, "threads": 256}
_THREE = {"block_M": 192, "block_N": 128, "stages": 4, "threads": 384}
BLOCK_SCALED: tuple[tuple[dict[str, int], dict[str, Any]], ...] = (
    (_SQUARE, {}),
    (_SQUARE, {"cluster": 2}),
    (_SQUARE, {"overlap": False}),
    (_SQUARE, {"overlap": False, "cluster": 2}),
    (_SQUARE, {"ping_pong": True}),
    (_SQUARE, {"cluster": 2, "tile_order": "dynamic"}),
    (_THREE, {}),
    (_THREE, {"ping_pong": True}),
    (_THREE, {"cluster": 2}),
    (_TALL, {}),
    (_TALL, {"cluster": 2}),
    (_TALL, {"ping_pong": True, "cluster": 2}),
    ({"block_M": 64, "block_N": 128, "stages": 4, "threads": 128}, {}),
)
"""Options and controls of the product with scales of blocks that are tried."""


def by_blocks(x: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rounded to e4m3 with a scale for each `rows` × 128: that, and the scales, rows first."""
    size = block_scaled_gemm.BLOCK
    blocks = x.float().unflatten(0, (-1, rows)).unflatten(2, (-1, size))
    scales = blocks.abs().amax(dim=(1, 3)).clamp_min(1e-4) / block_scaled_gemm.LARGEST
    made = blocks / scales[:, None, :, None]
    return made.to(torch.float8_e4m3fn).flatten(2).flatten(0, 1), scales


def gemm_block_scaled(m: int, n: int, k: int) -> Iterator[Work]:
    """A product of e4m3 with scales of 1×128 and 128×128 beside cuBLASLt's without scales, and
    with them where it has such a product."""
    size = block_scaled_gemm.BLOCK
    (a, a_scales), (b, b_scales) = by_blocks(normal(m, k), 1), by_blocks(normal(n, k), size)
    by_column = a_scales.t().contiguous()
    one = torch.ones((), device=a.device)

    def unscaled() -> torch.Tensor:
        return torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    def scaled() -> torch.Tensor:
        return torch._scaled_mm(a, b.t(), by_column.t(), b_scales.t(), out_dtype=torch.bfloat16)

    left = a.float() * a_scales.repeat_interleave(size, 1)
    right = b.float() * b_scales.repeat_interleave(size, 0).repeat_interleave(size, 1)
    expected = torch.mm(left, right.t()).to(torch.bfloat16)
    del left, right
    name = f"{m}³" if m == n == k else f"{m}×{n}×{k}"
    work = Work(f"GEMM fp8 block-scaled {name}", 2.0 * m * n * k, "TFLOP/s", 0.9, 1.0)
    given = (a, b, by_column, b_scales)
    ways: dict[str, Call] = {}
    for options, controls in BLOCK_SCALED:
        kernel = tileprof.jit(block_scaled_gemm.block_scaled_gemm.function, controls=controls)
        ways[shown({**options, **controls})] = partial(kernel, *given, **options)
    problems: list[str] = []
    ours = usable(ways, expected, LIMIT, problems)
    if not ours:
        raise WrongResult("; ".join(problems))
    work.ways = alone(ours)
    best = next(iter(work.ways))
    # Without scales it is the same work with another result.
    truth = torch.mm(a.float(), b.float().t())
    others = usable({"cuBLASLt, no scales": unscaled}, truth, 2e-2, problems)
    del truth
    others |= usable({"cuBLASLt, scales of blocks": scaled}, expected, LIMIT, problems)
    work.note = "; ".join([best, *problems])
    work.results = compare(ours[best], others)
    yield work


Tile = tuple[str, dict[str, int]]
"""The kernel and its options."""
_PLAIN, _SWAPPED = "matmul_nt", "matmul_skinny"


def _plain(rows: int, columns: int, depth: int, stages: int, threads: int) -> Tile:
    return _PLAIN, {"block_M": rows, "block_N": columns, "block_K": depth, "stages": stages,
                    "threads": threads}  # fmt: skip


def _swapped(tokens: int, columns: int, depth: int, stages: int, shift: int) -> Tile:
    return _SWAPPED, {"tokens": tokens, "block_N": columns, "block_K": depth, "stages": stages,
                      "threads": 2 * columns, "shift": shift}  # fmt: skip


SKINNY: dict[int, tuple[Tile, ...]] = {
    16: (
        _swapped(16, 64, 256, 4, 1), _swapped(16, 64, 64, 12, 0), _swapped(16, 128, 128, 6, 1),
        _swapped(16, 64, 128, 6, 1),
    ),
    32: (
        _swapped(16, 128, 128, 6, 1), _swapped(32, 64, 64, 12, 0), _swapped(32, 64, 256, 4, 1),
        _swapped(16, 128, 128, 6, 0),
    ),
    64: (
        _plain(64, 64, 128, 6, 128), _swapped(64, 64, 64, 8, 0), _plain(64, 64, 64, 8, 128),
        _swapped(32, 128, 64, 8, 0),
    ),
    128: (
        _plain(64, 128, 128, 4, 128), _plain(64, 128, 64, 8, 128), _swapped(64, 128, 64, 8, 0),
        _swapped(64, 128, 128, 4, 0),
    ),
    256: (
        _swapped(128, 128, 64, 6, 0), _swapped(128, 128, 64, 6, 1), _plain(128, 128, 64, 6, 256),
    ),
}  # fmt: skip
"""By rows of A the tiles that are tried."""


def gemm_skinny(m: int, size: int = 8192) -> Iterator[Work]:
    """Few rows times a square matrix of weights: the rate at which weights are read.

    Four matrices in turn, since one of them alone would partly stay in L2.
    """
    a = normal(m, size)
    weights = [normal(size, size) for _ in range(4)]
    problems: list[str] = []

    def ours(tile: Tile) -> Maker:
        kernel = getattr(kernels, tile[0])
        return lambda w: lambda: kernel(a, w, **tile[1])

    def peer(w: torch.Tensor) -> Call:
        return lambda: torch.mm(a, w.t())

    makers = {" ".join(map(str, (t[0], *t[1].values()))): ours(t) for t in SKINNY[m]}
    expected = peer(weights[0])()
    right = usable({n: make(weights[0]) for n, make in makers.items()}, expected, LIMIT, problems)
    if not right:
        raise WrongResult("; ".join(problems))
    calls = {n: replayed([makers[n](w) for w in weights]) for n in right}
    best = fastest(calls)
    work = Work(f"GEMM bf16 M={m} N=K={size}", 4 * 2.0 * size * size, "GB/s", 0.95, 1.02)
    work.note = "; ".join([best, *problems])
    work.results = compare(calls[best], {"cuBLAS": replayed([peer(w) for w in weights])})
    yield work
