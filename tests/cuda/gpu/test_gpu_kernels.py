"""Kernels on a real GPU over types, layouts and shapes: `python -m pytest -m gpu tests/cuda/gpu`.

Operands are small integers wherever every type holds every partial sum, so that results are exact.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.gpu import attention_studies, studies
from tileprof.errors import BoundsError

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[3]
DEVICE = "cuda"
tiles: Any = importlib.import_module("tests.cuda.gpu.tiles")
gpu_kernels: Any = importlib.import_module("benchmarks.gpu_kernels")

Case = tuple[str, str, torch.dtype]
TYPES: dict[str, Case] = {
    "bf16": ("bfloat16", "float32", torch.bfloat16),
    "fp16": ("float16", "float32", torch.float16),
    "tf32": ("float32", "float32", torch.float32),
    "e4m3": ("float8_e4m3", "float32", torch.float8_e4m3fn),
    "e5m2": ("float8_e5m2", "float32", torch.float8_e5m2),
    "int8": ("int8", "int32", torch.int8),
    "fp64": ("float64", "float64", torch.float64),
}
BOTH = [(False, False), (False, True), (True, False), (True, True)]
NAMES = ["NN", "NT", "TN", "TT"]


def integers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """From -4 to 4, on the device."""
    made = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed))
    return made.float().to(dtype).to(DEVICE)


def operands(
    m: int, n: int, k: int, turned: tuple[bool, bool], dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A and B as they lie in memory, and the product."""
    a = integers(*((k, m) if turned[0] else (m, k)), dtype=dtype)
    b = integers(*((n, k) if turned[1] else (k, n)), dtype=dtype, seed=1)
    left, right = a.double(), b.double()
    return a, b, (left.t() if turned[0] else left) @ (right.t() if turned[1] else right)


def script(arguments: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own."""
    return subprocess.run(
        arguments, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip


# -- products


@pytest.mark.parametrize("turned", BOTH, ids=NAMES)
@pytest.mark.parametrize("name", TYPES)
def test_types_and_layouts(name: str, turned: tuple[bool, bool]) -> None:
    """Every type of matrix instruction, each way round."""
    dtype, out, held = TYPES[name]
    a, b, expected = operands(192, 144, 208, turned, held)
    assert torch.equal(tiles.product(a, b, dtype, out, *turned).double(), expected)


@pytest.mark.parametrize("turned", BOTH, ids=NAMES)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (7, 129, 65), (127, 1000, 104), (1001, 129, 72), (129, 7, 1001), (128, 256, 63)],
    ids=str,
)
def test_boundaries(shape: tuple[int, int, int], turned: tuple[bool, bool]) -> None:
    """Sizes around the tiles, rows that are no multiple of 16 bytes."""
    a, b, expected = operands(*shape, turned, torch.bfloat16)
    found = tiles.product(a, b, "bfloat16", "float32", *turned)
    assert torch.equal(found.double(), expected)


@pytest.mark.parametrize("stages", [0, 1, 3, 4])
def test_stages(stages: int) -> None:
    """Without a ring, and rings longer and shorter than the loop."""
    for k in (64, 320):
        a, b, expected = operands(130, 264, k, (False, True), torch.bfloat16)
        options = {"bm": 128, "bn": 256 if stages < 4 else 128, "threads": 256, "stages": stages}
        found = tiles.product(a, b, "bfloat16", "float32", False, True, **options)
        assert torch.equal(found.double(), expected)


@pytest.mark.parametrize("name", ["matmul", "matmul_nt", "matmul_tn"])
def test_measured_products(name: str) -> None:
    """What `benchmarks/kernels.py` measures, in its own tiles; rounded to bfloat16."""
    turned = (name == "matmul_tn", name == "matmul_nt")
    for m, n, k in ((384, 520, 576), (1000, 1001, 72)):
        a, b, expected = operands(m, n, k, turned, torch.bfloat16)
        found = getattr(gpu_kernels, name)(a, b)
        assert torch.equal(found, expected.to(torch.bfloat16))


@pytest.mark.parametrize("name", ["matmul_int4", "matmul_int4_t"])
@pytest.mark.parametrize("m", [16, 200])
def test_int4(name: str, m: int) -> None:
    """Packed weights; scales that are powers of two."""
    a = integers(m, 256, dtype=torch.bfloat16)
    packed = torch.randint(0, 256, (136, 128), dtype=torch.uint8).to(DEVICE)
    scales = torch.tensor([0.5, 1.0, 2.0, 4.0], device=DEVICE).repeat(34)
    weights = torch.stack((packed & 15, packed >> 4), -1).flatten(1).double() - 8
    expected = (a.double() @ weights.t() * scales).to(torch.bfloat16)
    found = getattr(gpu_kernels, name)(a, packed, scales, block_M=64)
    assert torch.equal(found.t() if name.endswith("_t") else found, expected)


def test_views() -> None:
    """Operands that begin anywhere, with rows of any stride, or transposed in place."""
    whole, b = integers(130, 300, dtype=torch.bfloat16), integers(96, 72, dtype=torch.bfloat16)
    flat = integers(64 * 96 + 1, dtype=torch.bfloat16)
    odd = integers(130, 301, dtype=torch.bfloat16)
    square = integers(96, 130, dtype=torch.bfloat16)
    views = (whole[:, :96], whole[:, 5:101], flat[1:].view(64, 96), odd[:, :96], square.t())
    for a in views:
        found = tiles.product(a, b, "bfloat16", "float32")
        assert torch.equal(found.double(), a.double() @ b.double())


# -- rows, columns, elements

SHAPES = [(1, 1), (7, 129), (127, 1000), (16, 1001)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_normalisations(shape: tuple[int, int]) -> None:
    """Rows of any length within bfloat16's rounding."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(*shape, generator=generator).to(torch.bfloat16).to(DEVICE)
    w = torch.randn(shape[1], generator=generator).to(torch.bfloat16).to(DEVICE)
    soft = torch.softmax(x.double(), -1)
    torch.testing.assert_close(gpu_kernels.softmax(x).double(), soft, rtol=8e-3, atol=1e-6)
    held = x.double()
    norm = held * torch.rsqrt((held * held).mean(-1, keepdim=True) + 1e-6) * w.double()
    torch.testing.assert_close(gpu_kernels.rms_norm(x, w).double(), norm, rtol=8e-3, atol=1e-6)


HELD = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
        "int32": torch.int32, "int8": torch.int8, "float64": torch.float64}  # fmt: skip


@pytest.mark.parametrize("dtype", HELD)
@pytest.mark.parametrize("shape", [(1, 1), (33, 127), (129, 1001)], ids=str)
def test_transpose(dtype: str, shape: tuple[int, int]) -> None:
    """Elements of 1 to 8 bytes."""
    x = integers(*shape, dtype=HELD[dtype])
    assert torch.equal(tiles.turned(x, dtype), x.t())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions(dtype: str, kind: str, dim: int) -> None:
    """By tile; what lies outside counts as 0."""
    m, n = 40, 129
    x = integers(m, n, dtype=HELD[dtype])
    padded = torch.zeros(48, 192, device=DEVICE, dtype=torch.float64)
    padded[:m, :n] = x
    blocks = padded.view(3, 16, 3, 64).transpose(1, 2)
    axis = 3 if dim else 2
    ways: dict[str, Any] = {"sum": torch.sum, "max": torch.amax, "min": torch.amin}
    expected = ways[kind](blocks, dim=axis)
    assert torch.equal(tiles.reduced(x, dtype, kind, dim).double(), expected)


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 127), (5, 1000)], ids=str)
def test_scan(dtype: str, shape: tuple[int, int]) -> None:
    """Running sums of rows."""
    x = integers(*shape, dtype=HELD[dtype])
    assert torch.equal(tiles.scanned(x, dtype).double(), x.double().cumsum(1))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("count", [1, 127, 100_001])
def test_atomics(dtype: str, count: int) -> None:
    """Many threads on few places."""
    x = (torch.arange(count) % 7).int().to(DEVICE)
    found = torch.zeros(7, device=DEVICE, dtype=HELD[dtype])
    tiles.counted(x, found, dtype)
    assert torch.equal(found.long(), torch.bincount(x.long(), minlength=7))


@pytest.mark.parametrize("count", [1, 127, 1000, 1001, 100_001])
def test_elementwise(count: int) -> None:
    """Aligned, and from the second element on."""
    x, y = (integers(count + 1, dtype=torch.bfloat16, seed=s) for s in range(2))
    for start in (0, 1):
        assert torch.equal(gpu_kernels.add(x[start:], y[start:]), x[start:] + y[start:])
    wide = torch.randn(count + 1).to(DEVICE)
    assert torch.equal(gpu_kernels.cast(wide[1:]), wide[1:].to(torch.bfloat16))


# -- what a kernel says


def test_print_and_assert() -> None:
    """In a process of its own, for a failed assertion ends the device's context."""
    code = (
        "import importlib, torch\n"
        "from tileprof.errors import DeviceAssertError\n"
        "tiles = importlib.import_module('tests.cuda.gpu.tiles')\n"
        f"x = torch.arange(100., device='{DEVICE}'); y = torch.zeros_like(x)\n"
        "tiles.warned(x, y); assert torch.equal(x, y)\n"
        "x[70] = -1\n"
        "try: tiles.warned(x, y)\n"
        "except DeviceAssertError as e: print('said', 'x is negative' in str(e))\n"
    )
    done = script([sys.executable, "-c", code])
    assert done.returncode == 0, done.stderr
    assert "64" in done.stdout
    assert "said True" in done.stdout


def test_an_index_that_is_negative() -> None:
    """The next call raises; the context lives, and what the other threads did is there."""
    table = torch.arange(50.0, device=DEVICE)
    index = torch.arange(40, dtype=torch.int32, device=DEVICE)
    others = index != 7
    index[7] = -3
    found = tiles.picked(table, index)
    assert torch.equal(found[others], table[:40][others])
    with pytest.raises(BoundsError, match=r"\[-3\].*noted by an earlier launch of `picked`"):
        tiles.picked(table, index)
    index[7] = 7
    for _ in range(2):
        assert torch.equal(tiles.picked(table, index), table[:40])


# -- case studies, other targets, other tools


@pytest.mark.parametrize("name", studies.STUDIES)
def test_case_studies(name: str) -> None:
    """Small sizes, no multiples of the tiles."""
    studies.run(name, DEVICE)


def test_slots_are_read_before_they_are_filled_again() -> None:
    """By threads whose reads stand in a queue behind many stores."""
    shapes = ((16896, 640), (4096, 640), (16896, 4096))
    a, b, r = (torch.randn(s, device=DEVICE).bfloat16() for s in shapes)
    expected = a.double() @ b.double().T + r.double()
    for _ in range(5):
        found = tiles.added(a, b, r).double()
        assert float((found - expected).abs().max()) < 1e-2


@pytest.mark.parametrize("name", attention_studies.STUDIES)
def test_attention_studies(name: str) -> None:
    """Lengths before, at and behind the edges of tiles, against float64."""
    attention_studies.run(name, DEVICE)


def test_case_studies_on_sm_80() -> None:
    """With `cp.async` and `mma`, as the driver finishes them for this GPU."""
    command = [sys.executable, "-m", "tests.cuda.gpu.studies", *studies.STUDIES]
    done = script(command, TILEPROF_CUDA_TARGET="sm_80")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == list(studies.STUDIES)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_sanitizer(tool: str, target: str) -> None:
    """No access outside of memory, no race in shared memory."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, "-m",
               "tests.cuda.gpu.studies", *studies.STUDIES]  # fmt: skip
    done = script(command, TILEPROF_CUDA_TARGET=target)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert all(name in done.stdout for name in studies.STUDIES)


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_sanitizer_of_attention(tool: str) -> None:
    """The same, with all that the compiler finds in loops."""
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", sys.executable, "-m",
               "tests.cuda.gpu.attention_studies", *attention_studies.STUDIES]  # fmt: skip
    done = script(command)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert all(name in done.stdout for name in attention_studies.STUDIES)
