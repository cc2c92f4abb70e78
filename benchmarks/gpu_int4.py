"""bfloat16 times packed int4 weights beside TileLang, each side in the fastest of its tilings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import gpu_kernels as kernels
import measuring
import torch
from gpu_peers import LIMIT, REGISTERS, TILELANG, Maker, Spec, WrongResult, normal, usable
from measuring import Work, compare, fastest, replayed

Tiling = tuple[str, tuple[int, int, int], int, int]
"""Kernel, tile (rows of A, rows of weights, K), stages, threads."""
INT4_OURS: dict[int, tuple[Tiling, ...]] = {
    8192: (
        ("matmul_int4", (256, 128, 64), 4, 256), ("matmul_int4", (128, 256, 64), 4, 256),
        ("matmul_int4_t", (256, 128, 128), 3, 256), ("matmul_int4_t", (256, 128, 64), 4, 256),
    ),
    16: (
        ("matmul_int4_split", (16, 128, 256), 4, 256),
        ("matmul_int4_split", (16, 128, 512), 2, 256),
        ("matmul_int4_split", (16, 128, 256), 6, 256),
        ("matmul_int4_split", (16, 128, 128), 8, 256),
        ("matmul_int4_t", (16, 64, 512), 3, 128),
    ),
}  # fmt: skip
INT4_THEIRS: dict[int, tuple[Tiling, ...]] = {
    8192: (
        ("matmul_int4", (256, 128, 128), 2, 256), ("matmul_int4", (128, 256, 64), 4, 256),
        ("matmul_int4_t", (128, 128, 128), 2, 256), ("matmul_int4_t", (256, 128, 64), 4, 256),
    ),
    16: (
        ("matmul_int4_t", (16, 64, 128), 8, 128), ("matmul_int4_t", (16, 64, 256), 4, 128),
        ("matmul_int4_t", (16, 128, 128), 6, 256),
    ),
}  # fmt: skip


def int4_peers(m: int, size: int = 8192) -> tuple[Spec, ...]:
    """TileLang's kernels in the tiles above."""
    return tuple((name, m, size, size, *rest) for name, *rest in INT4_THEIRS[m])


def unpacked(packed: torch.Tensor) -> torch.Tensor:
    """N×K weights in -8…7, as float32."""
    halves = torch.stack((packed & 15, packed >> 4), dim=-1)
    return halves.flatten(1).float() - 8


def gemm_int4(m: int, size: int = 8192) -> Iterator[Work]:
    """bfloat16 times packed int4 weights, each side in the fastest of its tilings."""
    a, scales = normal(m, size), torch.rand(size, device="cuda") + 0.5
    shape = (size, size // 2)
    weights = [
        torch.randint(0, 256, shape, device="cuda", dtype=torch.uint8)
        for _ in range(1 if m > 256 else 4)
    ]
    expected = torch.mm(a.float(), unpacked(weights[0]).t()) * scales
    problems: list[str] = []
    sides = {}
    for side, makers in (("ours", our_int4(a, scales, m)), ("TileLang", their_int4(a, scales, m))):
        right = usable({n: make(weights[0]) for n, make in makers.items()}, expected, LIMIT,
                       problems)  # fmt: skip
        calls = right
        if len(weights) > 1:
            calls = {n: replayed([makers[n](w) for w in weights]) for n in right}
        if calls:
            best = fastest(calls)
            sides[side] = calls[best]
            problems.append(f"{side}: {best}")
    many = m > 256
    amount = 2.0 * m * size * size if many else len(weights) * size * size / 2
    name = f"int4 bf16 GEMM {size}³" if many else f"int4 M={m} N=K={size}"
    work = Work(name, amount, "TFLOP/s" if many else "GB/s", 1.0, 1.1, note="; ".join(problems))
    if "ours" not in sides:
        raise WrongResult(work.note)
    peers = {"TileLang": sides["TileLang"]} if "TileLang" in sides else {}
    if many:
        dense = unpacked(weights[0]).to(torch.bfloat16)
        cublas = measuring.batch_ms(lambda: torch.mm(a, dense.t()), 5)
        work.note += f"; cuBLAS on bf16 weights {work.rate(cublas):.0f}"
    work.results = compare(sides["ours"], peers)
    yield work


def our_int4(a: torch.Tensor, scales: torch.Tensor, m: int) -> dict[str, Maker]:
    """By tiling; each takes the weights."""

    def maker(tiling: Tiling) -> Maker:
        name, (bm, bn, bk), stages, threads = tiling
        kernel = getattr(kernels, name)
        options = {"block_M": bm, "block_N": bn, "block_K": bk, "stages": stages}

        def run(w: torch.Tensor) -> torch.Tensor:
            made = kernel(a, w, scales, threads=threads, **options)
            return made[0] if isinstance(made, tuple) else made

        return lambda w: lambda: run(w)

    return {shown(t): maker(t) for t in INT4_OURS[m]}


def their_int4(a: torch.Tensor, scales: torch.Tensor, m: int) -> dict[str, Maker]:
    """The same for TileLang."""

    def maker(spec: Spec) -> Maker:
        kernel, size = TILELANG[spec], len(scales)
        shape = (size, m) if spec[0].endswith("_t") else (m, size)
        out = torch.empty(shape, device="cuda", dtype=torch.bfloat16)

        def make(w: torch.Tensor) -> Callable[[], torch.Tensor]:
            def run() -> torch.Tensor:
                kernel(a, w, scales, out)
                return out

            return run

        return make

    return {
        shown(t): maker(s)
        for t, s in zip(INT4_THEIRS[m], int4_peers(m, len(scales)))
        if s in TILELANG
    }


_PLACES = {
    "matmul_int4": "shared",
    "matmul_int4_t": REGISTERS,
    "matmul_int4_split": f"{REGISTERS}, parts of K,",
}
"""Where weights are multiplied from; those in registers alone give the result transposed."""


def shown(tiling: Tiling) -> str:
    """`registers 16×64×128, 8 stages`."""
    name, tile, stages, _ = tiling
    place = _PLACES[name]
    return f"{place} {'×'.join(map(str, tile))}, {stages} stages"
