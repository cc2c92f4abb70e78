"""Counters of tiles at launch: 0 at first, one for each stream, one for each launch of a graph."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest

import tileprof
from tests.cuda import runtime_kernels
from tests.cuda.fake_driver import FakeDriver, Launched
from tests.cuda.test_runtime import KERNEL, PLAIN, aligned, binary
from tileprof.compiler.cuda.source import Argument
from tileprof.lang import calls
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda import native_launcher as cuda_native
from tileprof.runtime.cuda.executable import CudaExecutable
from tileprof.runtime.launch import LoadedKernel

CPU = 1
SPEC = replace(
    PLAIN, function="counted_0", persistent=1, cluster=1,
    arguments=(Argument("pointer", 0), Argument("counter", 0)),
)  # fmt: skip


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU whose memory is the host's, and whose current stream is `gpu.stream`."""
    fake = FakeDriver()
    fake.context = fake.device.context
    fake.sizes = {"counted_0": (8, 8)}
    fake.stream = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: fake.stream)  # type: ignore[attr-defined]
    return fake


def counter_of(gpu: FakeDriver, held: CudaExecutable, stream: int = 0) -> int:
    """The counter of a launch on a stream."""
    gpu.stream = stream  # type: ignore[attr-defined]
    held.run([aligned((5, 136)), aligned((5, 136)), 0.5, 1], (5, 136))
    return gpu.launches[-1].words()[1]


def loaded(gpu: FakeDriver) -> CudaExecutable:
    """A kernel whose blocks share a counter."""
    return CudaExecutable(KERNEL, lambda need: binary(SPEC), gpu.device)


def test_each_stream_has_its_own(gpu: FakeDriver) -> None:
    """And keeps it: its launches run one after the other, of one kernel and of several."""
    one, other = loaded(gpu), loaded(gpu)
    found = [counter_of(gpu, held, stream) for held in (one, other) for stream in (0, 7, 9, 7)]
    assert found[:4] == found[4:]
    assert found[1] == found[3]
    assert len(set(found)) == 3
    assert all(ctypes.c_uint32.from_address(at).value == 0 for at in found)
    # A sector of L2 for each.
    assert all(abs(a - b) >= 32 for a in found for b in found if a != b)


def test_a_handle_that_comes_again(gpu: FakeDriver) -> None:
    """It may be another stream, whose launches run beside those of the old one."""
    held = loaded(gpu)
    before = counter_of(gpu, held, 7)
    gpu.stream_numbers[7] = 1234
    assert counter_of(gpu, held, 7) != before
    gpu.stream_numbers[8] = 7
    assert counter_of(gpu, held, 8) == before


def test_each_launch_of_a_graph_has_its_own(gpu: FakeDriver) -> None:
    """Graphs are replayed beside each other and beside everything else."""
    held = loaded(gpu)
    beside = counter_of(gpu, held, 7)
    gpu.capturing = 1
    captured = [counter_of(gpu, held, 7) for _ in range(2000)]
    gpu.capturing = 0
    assert len({beside, *captured}) == 2001
    assert counter_of(gpu, held, 7) == beside
    assert counter_of(gpu, held, 9) not in {beside, *captured}


def test_the_first_launch_may_be_captured(gpu: FakeDriver) -> None:
    """What is allocated then is allocated beside the capture, and cleared before it is given."""
    gpu.capturing = 1
    at = counter_of(gpu, loaded(gpu), 7)
    assert ctypes.c_uint32.from_address(at).value == 0
    names = gpu.names()
    assert names.count("cuThreadExchangeStreamCaptureMode") == 2
    assert names.index("cuMemsetD8Async") < names.index("cuLaunchKernelEx")
    (place,) = (a for n, a in gpu.calls if n == "cuMemsetD8Async")
    assert place[-1] != 7


def test_no_counter_without_need(gpu: FakeDriver) -> None:
    """Other kernels ask for nothing."""
    gpu.sizes["plain_0"] = (8, 1)
    held = CudaExecutable(KERNEL, lambda need: binary(replace(PLAIN, cluster=1)), gpu.device)
    held.run([aligned((5, 136)), aligned((5, 136)), 0.5, 1], (5, 136))
    assert not {"cuStreamGetId", "cuMemAllocAsync"} & set(gpu.names())


def test_launches_leave_it_as_it_was(gpu: FakeDriver) -> None:
    """Each finds 0, whatever the stream, when it counts as the device does."""
    seen = []

    def count(launched: Launched) -> int:
        word = ctypes.c_uint32.from_address(launched.words()[1])
        seen.append(word.value)
        tiles = 15
        for _ in range(tiles):
            word.value = 0 if word.value >= tiles - 1 else word.value + 1
        return 0

    gpu.kernels["counted_0"] = count
    held = loaded(gpu)
    for stream in (0, 7, 0, 7, 7):
        counter_of(gpu, held, stream)
    assert seen == [0] * 5


@pytest.mark.skipif(bool(cuda_native.why_not()), reason=cuda_native.why_not())
def test_warm_calls(torch: Any, gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The native launcher asks for the counter of the stream in each call."""

    def load(program: Any, device: str) -> LoadedKernel:
        spec = replace(SPEC, arguments=(Argument("counter", 0), Argument("pointer", 0)))
        held = CudaExecutable(program.kernel, lambda need: binary(spec, program.kernel), gpu.device)
        return LoadedKernel(program, device, held)

    monkeypatch.setattr(CudaExecutable, "device_type", CPU)
    monkeypatch.setattr(calls, "load", load)
    monkeypatch.setattr(calls, "choose", lambda specs: "cuda:0")
    slow: list[Any] = []
    run = calls.Plan.run

    def counted(self: Any, *given: Any) -> Any:
        slow.append(given)
        return run(self, *given)

    monkeypatch.setattr(calls.Plan, "run", counted)
    add = tileprof.jit(runtime_kernels.add.function)
    tensors = [torch.zeros(64) for _ in range(3)]
    for _ in range(4):
        add(*tensors)
    gpu.capturing = 1
    for _ in range(2):
        add(*tensors)
    gpu.capturing = 0
    add(*tensors)
    assert len(slow) == 2
    found = [launched.words()[0] for launched in gpu.launches]
    assert len(set(found)) == 3
    assert len({*found[:4], found[6]}) == 1
    assert {launched.words()[1] for launched in gpu.launches} == {tensors[0].data_ptr()}
    gpu.fails["cuStreamGetId"] = 1
    with pytest.raises(tileprof.TileprofError, match="cuStreamGetId failed"):
        add(*tensors)
