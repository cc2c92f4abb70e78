"""Kernels of `test_branches.py` and `test_points_once.py` on a real GPU, long scans, layouts that
change within warps, arrays of CuPy: `python -m pytest -m gpu tests/cuda/gpu`."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import tileprof

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
branches: Any = importlib.import_module("tests.cuda.test_branches")
once: Any = importlib.import_module("tests.cuda.test_points_once")
boxes: Any = importlib.import_module("tests.cuda.test_aligned_boxes")
tiles: Any = importlib.import_module("tests.cuda.gpu.tiles")
Array = np.ndarray[Any, Any]


def on_gpu(array: Array) -> torch.Tensor:
    """A copy, with PyTorch's type for those that NumPy lacks."""
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).cuda().view(torch.bfloat16)
    return torch.from_numpy(array.copy()).cuda()


def agrees(function: Any, arrays: list[Array]) -> None:
    """As on the cpu."""
    kernel = tileprof.compile(function)
    found = [on_gpu(a) for a in arrays]
    kernel(*found)
    with tileprof.device("interpreter"):
        kernel(*arrays)
    for one, other in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(one.double().cpu().numpy(), other.astype(np.float64))


@pytest.mark.parametrize("m", [16, 23, 1000])
@pytest.mark.parametrize("name", branches.FUNCTIONS)
def test_branches(name: str, m: int) -> None:
    """Whole blocks and blocks at the edge."""
    agrees(branches.FUNCTIONS[name], branches.arguments(name, m))


@pytest.mark.parametrize("name", once.KERNELS)
def test_points_that_run_once(name: str) -> None:
    """Atomics whose results several threads need."""
    function, shape = once.KERNELS[name]
    agrees(function, [np.arange(-2, 6, dtype=np.int32), np.zeros(shape, np.int32)])


@pytest.mark.parametrize(("rows", "length"), [(1, 512), (1, 4096), (3, 1000), (2, 8192)])
def test_lines_that_warps_share(rows: int, length: int) -> None:
    """Sums of whole numbers."""
    held = torch.randint(-4, 5, (2 * rows, length)).float().cuda()
    found = tiles.scanned(held, "float32", rows)
    assert torch.equal(found, held.cumsum(1))


@pytest.mark.parametrize("size", [16, 48, 512, 1000])
def test_slots_of_a_small_table(size: int) -> None:
    """Persistent blocks load it once for each of their tiles, into two slots in turn."""
    a, table = torch.randint(-2, 3, (2048, 128)).half().cuda(), torch.randint(-2, 3, (size,)).cuda()
    codes = torch.randint(0, min(size, 256), (2048, 128)).cuda()
    found = torch.zeros(2048, 2048, dtype=torch.float16, device="cuda")
    boxes.looked_up(a, codes.to(torch.uint8), table.float(), found)
    assert torch.equal(found, (a.float() @ table.float()[codes].T).half())


@pytest.mark.parametrize("rows", [1, 3, 9])
@pytest.mark.parametrize("columns", [40, 48, 1000])
def test_panels_of_few_rows(rows: int, columns: int) -> None:
    """Through shared memory and out by TMA."""
    x = torch.randn(64 * rows, columns, device="cuda")
    found = torch.zeros_like(x)
    boxes.doubled(x, found, rows=rows)
    assert torch.equal(found, 2 * x)


@pytest.mark.parametrize("words", [False, True])
def test_rows_that_are_wider_than_a_box(words: bool) -> None:
    """Seen under another shape, too."""
    x = torch.randint(0, 9, (96, 288), dtype=torch.uint8).cuda()
    found = torch.zeros_like(x)
    boxes.raised(x, found, rows=3, columns=288, words=words)
    assert torch.equal(found, x + 1)


@pytest.mark.parametrize(("rows", "columns"), [(1, 4), (3, 4), (3, 16)])
def test_slots_of_small_tiles(rows: int, columns: int) -> None:
    """A tile of few bytes beside the operands of each turn."""
    a, b = (torch.randint(-2, 3, (512, 256)).half().cuda() for _ in "ab")
    scales = torch.randint(-2, 3, (4 * rows, columns)).float().cuda()
    found = torch.zeros(512, 512, device="cuda")
    boxes.scaled(a, b, scales, found, rows=rows, columns=columns)
    i, j = torch.arange(512)[:, None] % 64 % rows, torch.arange(512) % 64 % columns
    want = torch.zeros(512, 512, device="cuda")
    for turn in range(4):
        part = slice(turn * 64, turn * 64 + 64)
        want += a[:, part].float() @ b[:, part].T.float() * scales[turn * rows :][i, j]
    assert torch.equal(found, want)


def test_operands_that_warps_exchange() -> None:
    """A product of two in a row whose second takes float8 from registers."""
    a, b, c = (torch.randint(-2, 3, (64, 64)).float().cuda() for _ in "abc")
    inputs = [x.to(torch.float8_e4m3fn) for x in (a, b, c)]
    found = tiles.chained(*inputs)
    middle = (a @ b).to(torch.float8_e4m3fn).float()
    assert torch.equal(found, middle @ c.t())


def test_arrays_of_cupy() -> None:
    """Taken and given back, on the stream that CuPy works on."""
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True):
        held = cupy.arange(2 * 600, dtype=cupy.float32).reshape(2, 600) % 7
        found = tiles.scanned(held, "float32", 1)
        assert isinstance(found, cupy.ndarray)
        assert bool((found == cupy.cumsum(held, axis=1)).all())
