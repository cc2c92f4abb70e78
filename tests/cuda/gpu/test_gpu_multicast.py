"""Clusters on a real GPU: blocks that load tiles for each other, persistent and not."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tileprof

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
tiles: Any = importlib.import_module("tests.cuda.gpu.tiles")
gpu_kernels: Any = importlib.import_module("benchmarks.gpu_kernels")

ORDERS = {"NN": (False, False), "NT": (False, True), "TN": (True, False)}
SIZES = [(256, 256, 64), (512, 1000, 328), (4000, 4104, 1000), (4096, 4096, 4096)]


def integers(*shape: int, seed: int = 0) -> torch.Tensor:
    """From -4 to 4 in bfloat16; every partial sum is exact in float32."""
    made = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed))
    return made.to(torch.bfloat16).cuda()


def clustered(kernel: Any, size: int, **controls: Any) -> Any:
    """The kernel in clusters."""
    return tileprof.jit(kernel.function, controls=tileprof.Controls(cluster=size, **controls))


def check(kernel: Any, m: int, n: int, k: int, order: str, **given: Any) -> None:
    """Several calls in a row give the product: a slot too early or too late would show."""
    ta, tb = ORDERS[order]
    a, b = integers(*((k, m) if ta else (m, k))), integers(*((n, k) if tb else (k, n)), seed=1)
    want = (a.t() if ta else a).float() @ (b.t() if tb else b).float()
    for _ in range(5):
        made = kernel(a, b, **given)
        assert torch.equal(made, want.to(made.dtype))


@pytest.fixture(autouse=True)
def _exact() -> Any:
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("persistent", [False, True], ids=["plain", "persistent"])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cluster", [2, 4])
def test_products(cluster: int, order: str, size: tuple[int, int, int], persistent: bool) -> None:
    """Tiles of 128 × 128, over the edge too; one size leaves 4 blocks only."""
    held = clustered(tiles.product, cluster, persistent=persistent)
    ta, tb = ORDERS[order]
    check(
        held, *size, order, dtype="bfloat16", out="float32", ta=ta, tb=tb,
        bm=128 if size[0] > 256 else 64, bn=128, stages=3, threads=128,
    )  # fmt: skip


@pytest.mark.parametrize("cluster", [2, 4])
@pytest.mark.parametrize("size", [(4096, 4096, 4096), (4000, 4104, 1000)], ids=str)
@pytest.mark.parametrize(
    ("name", "order"), [("matmul", "NN"), ("matmul_nt", "NT")], ids=["NN", "NT"]
)
def test_measured_kernels(cluster: int, size: tuple[int, int, int], name: str, order: str) -> None:
    """The kernels of the benchmarks: two consumer warp groups, tiles of 128 × 256."""
    check(clustered(getattr(gpu_kernels, name), cluster), *size, order)
