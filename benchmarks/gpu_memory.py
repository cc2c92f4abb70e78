"""Work that memory bounds, beside a device copy of as many bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import gpu_kernels as kernels
import torch
from gpu_attention import shown
from gpu_peers import LIMIT, Call, check, normal
from measuring import Work, alone, compare

TURNED: tuple[Mapping[str, int], ...] = (
    *({"block_M": 256, "block_N": 128, "rows": rows} for rows in (16, 1, 4, 8, 32, 64)),
    *({"block_M": m, "block_N": n, "rows": rows}
      for m, n in ((128, 128), (128, 256), (512, 64), (512, 128), (64, 512)) for rows in (8, 16)),
    {"block_M": 256, "block_N": 256, "rows": 8, "threads": 512},
    {"block_M": 256, "block_N": 128, "rows": 16, "threads": 512},
)  # fmt: skip
"""Tiles of a transpose, and rows of blocks that run together, which are tried."""
STORED: tuple[Mapping[str, int], ...] = (
    *({"rows": rows, "kept": kept} for rows in (8, 16, 32) for kept in (True, False)),
    {"block_M": 256, "block_N": 128, "rows": 16},
)  # fmt: skip
"""The same of a transpose that stores whole tiles."""


def device_copy(size: float) -> Call:
    """A copy within device memory that reads and writes so many bytes together."""
    source = torch.empty(int(size // 2), device="cuda", dtype=torch.uint8).random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def bandwidth(
    name: str,
    size: float,
    ours: Callable[[], torch.Tensor],
    peers: dict[str, Callable[[], torch.Tensor]],
    limit: float = LIMIT,
) -> Work:
    """Work that moves `size` bytes, beside a device copy that moves as many; the first of the
    peers says what is right."""
    made, wanted = ours(), next(iter(peers.values()))()
    for part, truth in zip(made.flatten().split(1 << 27), wanted.flatten().split(1 << 27)):
        check(name, part, truth, limit)
    del made, wanted, part, truth
    work = Work(name, size, "GB/s", 0.92, 0.97)
    work.results = compare(ours, {"copy": device_copy(size)})
    work.note = ", ".join(
        f"{p.peer} {work.rate(p.peer_ms):.0f}" for p in compare(ours, peers, pairs=7)
    )
    return work


def normalisations(quick: bool) -> Iterator[Work]:
    """Softmax and RMSNorm over rows; 1.07 GB each."""
    rows, columns = 32768, 8192
    x, weight = normal(rows, columns), normal(columns)
    size = 4.0 * rows * columns

    def norm(t: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(t, (columns,), weight, 1e-6)

    def soft(t: torch.Tensor) -> torch.Tensor:
        return torch.softmax(t, -1)

    cases: list[tuple[str, Callable[..., Any], Call, float]] = [
        ("softmax", soft, lambda: kernels.softmax(x), LIMIT),
        ("RMSNorm", norm, lambda: kernels.rms_norm(x, weight), 6e-3),
    ]
    for name, theirs, ours, limit in cases:
        peers: dict[str, Callable[[], torch.Tensor]] = {"eager": partial(theirs, x)}
        if not quick:
            peers["compile"] = partial(torch.compile(theirs), x)
        yield bandwidth(f"{name} {rows}×{columns} bf16", size, ours, peers, limit)


def elementwise() -> Iterator[Work]:
    """Transpose, sum and conversion; at least 1.07 GB each."""
    rows, columns = 32768, 8192
    x, other = normal(rows, columns), normal(rows * columns)
    ways: dict[str, Call] = {shown(way): partial(kernels.transpose, x, **way) for way in TURNED}
    for way in STORED:
        ways[f"stored by tile, {shown(way)}"] = partial(kernels.transpose_stored, x, **way)
    taken = alone(ways)
    best = next(iter(taken))
    work = bandwidth(
        f"transpose {rows}×{columns} bf16", 4.0 * x.numel(), ways[best],
        {"eager": lambda: x.t().contiguous()},
    )  # fmt: skip
    work.ways, work.note = taken, f"{best}; {work.note}"
    yield work
    flat = x.view(-1)
    yield bandwidth(
        "add 268 M bf16", 6.0 * flat.numel(), lambda: kernels.add(flat, other),
        {"eager": lambda: flat + other},
    )  # fmt: skip
    wide = torch.randn(rows * columns, device="cuda")
    yield bandwidth(
        "cast 268 M f32 → bf16", 6.0 * wide.numel(), lambda: kernels.cast(wide),
        {"eager": lambda: wide.to(torch.bfloat16)},
    )  # fmt: skip
