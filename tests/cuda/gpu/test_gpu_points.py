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
