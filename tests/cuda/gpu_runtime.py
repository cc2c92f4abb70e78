"""Launches on a real GPU: `python -m pytest -m gpu tests/cuda/gpu_runtime.py`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.cuda import runtime_kernels as kernels
from tileprof import ir
from tileprof.compiler.cuda.build import compile_cubin
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.prelude import text
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec, TensorMapSpec
from tileprof.runtime import hooks
from tileprof.runtime.cuda import native_launcher as cuda_native
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.device import find_device
from tileprof.runtime.cuda.executable import CudaExecutable
from tileprof.runtime.cuda.host_values import HostProgram

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]


def script(body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own: a fault ends the context of the whole process."""
    code = (
        "import numpy as np, torch, tileprof\n"
        "from tests.cuda import runtime_kernels as kernels\n" + body
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def vector(count: int = 1000, device: str = "cuda:0") -> torch.Tensor:
    """0, 1, 2, …"""
    return torch.arange(count, dtype=torch.float32, device=device)


# -- kernels of the language


def test_in_place_and_outputs() -> None:
    """PyTorch in, PyTorch out, on the same device."""
    a, b, c = vector(), vector(), torch.zeros(1000, device="cuda")
    for _ in range(4):
        c.zero_()
        kernels.add(a, b, c)
        assert torch.equal(c, a + b)
        out = kernels.double(a)
        assert out.device == a.device
        assert torch.equal(out, a * 2)


def test_scalars() -> None:
    """A float, an integer, and a number that the grid follows from."""
    for factor, number, blocks in ((0.5, 3, 125), (2.5, -7, 125), (1.0, 0, 1), (2.0, 1, 0)):
        a = vector()
        expected = a.clone()
        expected[: blocks * 8] = expected[: blocks * 8] * factor + number
        kernels.scaled(a, factor, number, blocks)
        assert torch.equal(a, expected)


def test_unaligned_and_overlapping() -> None:
    """Slices at any element, and a result over its own operand."""
    for offset in (1, 2, 3):
        held = [vector(1000 + offset)[offset:] for _ in range(3)]
        expected = held[0] + held[1]
        kernels.add(*held)
        assert torch.equal(held[2], expected)
    a = vector()
    kernels.add(a, a, a)
    assert torch.equal(a, vector() * 2)


def test_strided() -> None:
    """Every second element."""
    a, b, c = vector(2000)[::2], vector(), torch.zeros(1000, device="cuda")
    kernels.add(a, b, c)
    assert torch.equal(c, a + b)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_host_arrays(kind: str) -> None:
    """Copied in and out where the GPU was asked for."""
    a = np.arange(1000, dtype=np.float32)
    c = np.zeros(1000, np.float32)
    wrap: Any = torch.from_numpy if kind == "torch" else np.asarray
    with tileprof.device("cuda"):
        kernels.add(wrap(a), wrap(a), wrap(c))
        out = kernels.double(wrap(a))
    assert np.array_equal(c, 2 * a)
    assert isinstance(out, torch.Tensor if kind == "torch" else np.ndarray)
    assert np.array_equal(np.asarray(out), 2 * a)


class Interface:
    """An array that only has `__cuda_array_interface__`."""

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.held.__cuda_array_interface__


class Capsule:
    """An array that only has DLPack."""

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.held.__dlpack_device__()


@pytest.mark.parametrize("wrap", [Interface, Capsule])
def test_other_frameworks(wrap: Callable[[torch.Tensor], Any]) -> None:
    """Arrays that no framework is known of."""
    a, c = vector(), torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    kernels.add(wrap(a), wrap(a), wrap(c))
    torch.cuda.synchronize()
    assert torch.equal(c, a * 2)


def test_streams() -> None:
    """Work is enqueued on PyTorch's current stream: behind what is there, and not elsewhere."""
    a, c = vector(), torch.zeros(1000, device="cuda")
    for _ in range(3):
        kernels.add(a, a, c)
    c.zero_()
    cuda: Any = torch.cuda
    side = cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        cuda._sleep(200_000_000)
        kernels.add(a, a, c)
    assert not side.query()
    assert float(c[1]) == 0  # the default stream does not wait for a stream that does not block
    side.synchronize()
    assert torch.equal(c, a * 2)


def test_graph() -> None:
    """A launch is recorded into a graph and replayed."""
    a, c = vector(), torch.zeros(1000, device="cuda")
    for _ in range(3):
        kernels.add(a, a, c)
        kernels.double(a)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernels.add(a, a, c)
        out = kernels.double(c)
    c.zero_()
    a += 1
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(c, a * 2)
    assert torch.equal(out, a * 4)


def test_threads_and_devices() -> None:
    """A new thread has no context; each device gets its own."""
    for number in range(torch.cuda.device_count()):
        device = f"cuda:{number}"
        found: list[bool] = []

        def work(device: str = device, found: list[bool] = found) -> None:
            a, c = vector(device=device), torch.zeros(1000, device=device)
            for _ in range(4):
                kernels.add(a, a, c)
            found.append(torch.equal(c, a * 2))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found == [True]


class Listener:
    """Takes the time of every launch."""

    instrument = "off"
    times_gpus = False

    def __init__(self) -> None:
        self.launches: list[Any] = []

    def begin(self, kernel: Any) -> int:
        return 0

    def end(self, token: int, launch: Any) -> None:
        self.launches.append(launch)


def test_time_under_a_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the kernel on the device: more data takes longer."""
    listener = Listener()
    small, large = (torch.zeros(n, device="cuda") for n in (1 << 10, 1 << 26))
    for held in (small, large):
        kernels.add(held, held, torch.empty_like(held))
    monkeypatch.setattr(hooks, "listener", listener)
    for held in (small, large):
        kernels.add(held, held, torch.empty_like(held))
    short, long = (launch.time_ns for launch in listener.launches)
    assert 500 < short < 100_000
    assert 50_000 < long < 10_000_000


def test_overhead() -> None:
    """A warm call with three tensors costs the host no more than PyTorch's own addition."""
    assert cuda_native.why_not() == ""
    a, b, c = vector(64), vector(64), torch.zeros(64, device="cuda")

    def each_us(call: Callable[[], object]) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(100):
            call()
        return (time.perf_counter() - start) / 100 * 1e6

    calls = (lambda: kernels.add(a, b, c), lambda: torch.add(a, b, out=c))
    for call in calls:
        each_us(call)
    # In turns: machines are slower for a while and then fast again.
    times = [[each_us(call) for call in calls] for _ in range(50)]
    ours, torchs = map(min, zip(*times, strict=True))
    sys.stdout.write(f"warm call: {ours:.2f} µs, PyTorch's {torchs:.2f} µs\n")
    assert ours <= torchs


# -- what goes wrong


def test_assertion() -> None:
    """The author's line and the point, after what was printed before."""
    done = script(
        "a = torch.arange(100, dtype=torch.float32, device='cuda')\n"
        "try:\n    kernels.checked(a)\n"
        "except tileprof.TileprofError as error:\n"
        "    print(type(error).__name__, error.message, error.location)\n"
    )
    assert done.returncode == 0, done.stderr
    assert "DeviceAssertError the kernel's assertion failed: a < 70" in done.stdout
    (point,) = re.findall(r"in block \(1\), point \(i=(\d+)\)", done.stdout)
    # Each of its warps may be the first.
    assert 6 <= int(point) < 64
    assert "runtime_kernels.py:" in done.stdout


def test_print(capfd: pytest.CaptureFixture[str]) -> None:
    """Blocks in order, as on the `cpu` device."""
    a = torch.tensor([1.5, -2, 3, 4], device="cuda")
    kernels.spoken(a)
    out = capfd.readouterr().out
    assert out == "".join(f"block ({i}): x = {v}\n" for i, v in enumerate((1.5, -2.0, 3.0, 4.0)))


def test_fault() -> None:
    """An address that is not mapped: which kernel, and where it is defined."""
    done = script(
        "from tests.cuda.gpu_runtime import poke\n"
        "try:\n    poke()\n"
        "except tileprof.TileprofError as error:\n    print(error)\n",
    )
    assert "`scale`, or a kernel before it, was stopped on" in done.stdout, done.stderr
    assert "runtime_kernels.py:" in done.stdout


def test_other_target() -> None:
    """PTX of sm_80, which the driver finishes for this GPU."""
    done = script(
        "a = torch.arange(100, dtype=torch.float32, device='cuda')\n"
        "print(torch.equal(kernels.double(a), a * 2))\n",
        TILEPROF_CUDA_TARGET="sm_80",
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.parametrize("targets", [(), ("sm_80",)])
def test_saved(tmp_path: Path, targets: tuple[str, ...]) -> None:
    """A file runs without the compiler, without NVRTC and without the source."""
    path = tmp_path / "double.tpk"
    kernels.double.compile(N=1000).save(path, targets)
    done = script(
        "import sys\n"
        "class Refuse:\n"
        "    def find_spec(self, name, *rest):\n"
        "        assert 'nvrtc' not in name and name != 'tileprof.compiler.cuda.pipeline', name\n"
        "sys.meta_path.insert(0, Refuse())\n"
        f"f = tileprof.load_kernel({str(path)!r})\n"
        "for a in (torch.arange(1000.0, device='cuda'), torch.arange(1001.0, device='cuda')[1:]):\n"
        "    for _ in range(3):\n"
        "        assert torch.equal(f(a), a * 2)\n",
        CXX="/nonexistent",
    )
    assert done.returncode == 0, done.stderr


# -- a function written by hand: tensor maps, clusters, large shared memory

HEADERS = ("base.cuh", "barriers.cuh", "async.cuh")
SHARED = 100_000
TILE = """\
#include "barriers.cuh"
#include "async.cuh"
extern "C" __global__ void __cluster_dims__(2, 1, 1) tile(
    const __grid_constant__ TpTensorMap map, uint16_t *out, int n, float factor) {
  extern __shared__ __align__(1024) unsigned char shared[];
  __shared__ uint64_t barrier;
  const int columns = (n + 31) / 32, bx = blockIdx.x % columns, by = blockIdx.x / columns;
  if (threadIdx.x == 0) {
    tp_mbarrier_init(&barrier, 1);
    tp_fence_mbarrier_init();
    tp_mbarrier_expect(&barrier, 8 * 32 * 2);
    tp_tma_load(shared + 98304, &map, &barrier, bx * 32, by * 8);
  }
  __syncthreads();
  tp_mbarrier_wait(&barrier, 0);
  const uint16_t *tile = (const uint16_t *)(shared + 98304);
  for (int i = threadIdx.x; i < 256; i += blockDim.x)
    out[blockIdx.x * 256 + i] = tile[i] + (factor == 0.5f);
}
"""
POKE = """\
extern "C" __global__ void tile(unsigned char *to, int n, float factor, int more) {
  *(volatile int *)(to + (1ll << 44)) = n;
}
"""


def _tiles(builder: ir.Builder, extent: ir.Value, size: int) -> ir.Value:
    """`extent` / `size`, rounded up."""
    more = builder.emit(ir.Binary("add", extent, builder.constant(size - 1))).result
    return builder.emit(ir.Binary("floordiv", more, builder.constant(size))).result


def by_hand(code: str, arguments: tuple[Argument, ...], **launch: Any) -> CudaExecutable:
    """The kernel `scale` with a function of our own, over the grid of the kernel."""
    kernel = kernels.scale.compile().program.kernel
    device = find_device(0)
    spec = LaunchSpec("tile", arguments, launch.pop("maps", ()), (), 128, **launch)
    headers = tuple((name, text(name)) for name in HEADERS)
    source = CudaSource("tile", code, headers, (spec,), ())
    body = ir.Block([ir.Value(v.type, v.name) for v in kernel.body.args])
    builder = ir.Builder(body)
    columns, rows = body.args[-1], body.args[-2]
    grid = [_tiles(builder, v, n) for v, n in ((columns, 32), (rows, 8))]
    host = HostProgram.of(kernel.with_body(body), grid)
    cubin = compile_cubin(source, device.target, Controls())
    binary = CudaBinary(cubin.bytes, (spec,), (), host, (2,), device.target.name)
    return CudaExecutable(kernel, lambda need: binary, device)


def test_tensor_map_and_cluster() -> None:
    """Tiles of 8 × 32 by TMA, zero outside, by clusters of two blocks with 100,000 bytes each."""
    half = ir.dtype("float16")
    tensor = TensorMapSpec(0, half, ("M", "N"), ("N", 1), (8, 32), 0)
    held = by_hand(
        TILE,
        (
            Argument("map", 0),
            Argument("pointer", 1),
            Argument("symbol", 1, ir.dtype("int32")),
            Argument("scalar", 2, ir.dtype("float32")),
        ),
        maps=(tensor,),
        shared=SHARED,
        cluster=2,
    )
    a = torch.arange(20 * 72, dtype=torch.int16, device="cuda").reshape(20, 72)
    out = torch.zeros(9 * 256 + 256, dtype=torch.int16, device="cuda")
    result = held.run([a, out, 0.5, 0], (20, 72))
    torch.cuda.synchronize()
    padded = torch.zeros(24, 96, dtype=torch.int16, device="cuda")
    padded[:20, :72] = a
    tiles = padded.reshape(3, 8, 3, 32).permute(0, 2, 1, 3).reshape(9, 256)
    assert torch.equal(out[: 9 * 256].reshape(9, 256), tiles + 1)
    assert (result.grid, result.blocks) == ((3, 3), 10)


def poke() -> None:
    """Write where nothing is mapped."""
    a = torch.zeros(64, 64, device="cuda", dtype=torch.float16)
    held = by_hand(
        POKE,
        (
            Argument("pointer", 1),
            Argument("symbol", 1, ir.dtype("int32")),
            Argument("scalar", 2, ir.dtype("float32")),
            Argument("symbol", 0, ir.dtype("int32")),
        ),
        shared=0,
    )
    hooks.listener = Listener()  # type: ignore[assignment]
    held.run([a, a, 0.5, 0], (64, 64))
