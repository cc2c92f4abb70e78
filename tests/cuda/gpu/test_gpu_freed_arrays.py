"""Arrays that are dropped while a kernel still works on them: `python -m pytest -m gpu`."""

from __future__ import annotations

import weakref
from typing import Any

import pytest

import tileprof
from benchmarks.reliability import launch_kernels

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.gpu
cuda: Any = torch.cuda
SIZE = 256
CYCLES = 100_000_000
"""Of waiting on the device before a kernel starts, about 60 ms."""


class Capsule:
    """An array that only has DLPack, whose owner reuses the memory as soon as it is gone."""

    def __init__(self, held: torch.Tensor, reuse: Any) -> None:
        self.held = held

        def overwrite() -> None:
            with cuda.stream(reuse):
                held.fill_(-1)

        weakref.finalize(self, overwrite)

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.held.__dlpack_device__()


@pytest.mark.parametrize("side", [False, True])
def test_tensors_may_be_dropped_right_after_a_launch(side: bool) -> None:
    """Later tensors that get their memory are written after the kernel has read it."""
    kernel = tileprof.compile(launch_kernels.double, out_idx=[-1])
    kernel(torch.zeros(SIZE, device="cuda"))
    stream = cuda.Stream() if side else cuda.current_stream()
    with cuda.stream(stream):
        results = []
        for number in range(50):
            a = torch.full((SIZE,), float(number), device="cuda")
            cuda._sleep(CYCLES // 50)
            results.append(kernel(a))
            del a
            torch.full((SIZE,), -1.0, device="cuda")
        stream.synchronize()
        assert all(bool((y == 2 * n).all()) for n, y in enumerate(results))


def test_arrays_of_dlpack_may_be_dropped_right_after_a_launch() -> None:
    """Their owner hears that nobody needs them when the kernel is over, and not before."""
    kernel = tileprof.compile(launch_kernels.double)
    out = torch.zeros(SIZE, device="cuda")
    kernel(torch.zeros(SIZE, device="cuda"), out)
    reuse = cuda.Stream()
    for number in range(5):
        a = Capsule(torch.full((SIZE,), float(number), device="cuda"), reuse)
        torch.cuda.synchronize()
        cuda._sleep(CYCLES)  # on the default stream, which the launch is ordered after
        kernel(a, out)
        del a
        torch.cuda.synchronize()
        assert bool((out == 2 * number).all())
