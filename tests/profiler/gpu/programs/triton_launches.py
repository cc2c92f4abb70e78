"""Launches of plain Triton kernels, each in a scope of its own; prints what their work has to be.

triton_launches.py     kernels are those of triton_kernels.py
"""

from __future__ import annotations

import json

import torch
import triton
import triton.language as tl
import triton_kernels as kernels

import tileprof

LAUNCHES = 3


def told(grid, kernel, arguments):
    """Flops and bytes of a launch, as the kernel's author gives them."""
    return {"name": kernel.name, "flops32": 1, "bytes": 2}


@triton.jit(launch_metadata=told)
def authored(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def add():
    n = 1_000_003
    x, y = (torch.randn(n, device="cuda") for _ in range(2))
    out = torch.empty_like(x)
    grid = (triton.cdiv(n, 1024),)
    launch = lambda: kernels.add[grid](x, y, out, n, BLOCK=1024)  # noqa: E731
    return launch, lambda: torch.equal(out, x + y), 0, 3 * n * 4


def matmul():
    m, n, k = 1024, 512, 768
    a = torch.randn(m, k, device="cuda", dtype=torch.float16)
    b = torch.randn(k, n, device="cuda", dtype=torch.float16)
    c = torch.empty(m, n, device="cuda", dtype=torch.float16)
    sizes = (m, n, k, *a.stride(), *b.stride(), *c.stride())
    launch = lambda: kernels.matmul[m // 128, n // 128](a, b, c, *sizes, BM=128, BN=128, BK=64)  # noqa: E731
    right = lambda: torch.allclose(c, a @ b, rtol=1e-2, atol=0.1)  # noqa: E731
    return launch, right, 2 * m * n * k, (m * k + k * n + m * n) * 2


def gather():
    rows, width = 1000, 256
    table = torch.randn(1 << 17, width, device="cuda", dtype=torch.float16)
    index = torch.randint(len(table), (rows,), device="cuda")
    out = torch.empty(rows, width, device="cuda", dtype=torch.float16)
    launch = lambda: kernels.gather[(rows,)](table, index, out, width, BLOCK=256)  # noqa: E731
    return launch, lambda: torch.equal(out, table[index]), 0, rows * (2 * width * 2 + 8)


def chosen():
    x, y = (torch.ones(512, device="cuda") for _ in range(2))
    out = torch.empty(1024, device="cuda")
    launch = lambda: kernels.chosen[(2,)](x, y, out, 512, 2, BLOCK=256)  # noqa: E731
    return launch, lambda: bool((out == 3).all()), 0, 0


def by_author():
    x = torch.ones(1000, device="cuda")
    launch = lambda: authored[(1,)](x, 1000, BLOCK=1024)  # noqa: E731
    return launch, lambda: bool((x > 1).all()), 1, 2


def main() -> None:
    found = {}
    for make in (add, matmul, gather, chosen, by_author):
        launch, right, flops, moved = make()
        launch()
        torch.cuda.synchronize()
        with tileprof.scope(make.__name__):
            for _ in range(LAUNCHES):
                launch()
            torch.cuda.synchronize()
        kernel = "authored" if make is by_author else make.__name__
        found[make.__name__] = {
            "kernel": kernel,
            "right": right(),
            "count": LAUNCHES,
            "flops": LAUNCHES * flops,
            "bytes": LAUNCHES * moved,
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
