"""What the host computes and asks before a launch: scalars, targets, errors, foreign arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.cuda.fake_driver import FakeDriver
from tileprof import ir
from tileprof.errors import (
    ArgumentError,
    ExecutionError,
    InternalError,
    MissingDependencyError,
    UsageError,
)
from tileprof.runtime import arguments
from tileprof.runtime.arguments import TensorSpec, address, describe, is_host
from tileprof.runtime.cuda import device as cuda_device
from tileprof.runtime.cuda import driver as cuda_driver
from tileprof.runtime.cuda.driver import Driver, DriverFailure
from tileprof.runtime.cuda.host_values import HostProgram

torch: Any = pytest.importorskip("torch")

F32 = ir.dtype("float32")


def kernel(build: Any) -> ir.Kernel:
    """Of a tensor, a bfloat16, an int8 and a symbol; gives what `build` makes."""
    types: tuple[ir.BufferType | ir.DType, ...] = (
        ir.BufferType(("N",), F32, "global"),
        ir.dtype("bfloat16"),
        ir.dtype("int8"),
    )
    params = tuple(ir.Param(n, t) for n, t in zip(("A", "alpha", "n"), types))
    args = [ir.Value(p.type, p.name) for p in params] + [ir.Value(ir.dtype("index"), "N")]
    body = ir.Block(args)
    builder = ir.Builder(body)
    results = build(builder, *args[1:])
    held = ir.Kernel("k", params, ("N",), body)
    builder.emit(ir.Yield(results))
    ir_text = ir.print_kernel(HostProgram.of(held, results).kernel)
    return ir.parse(ir_text)


def run(build: Any, alpha: float = 1.0, n: int = 5, extent: int = 1000) -> tuple[Any, ...]:
    """The results for the arguments, through the text form."""
    return HostProgram(kernel(build)).run([None, alpha, n], [extent])


def test_arithmetic() -> None:
    """As the interpreter computes: wrapping integers, narrow floats rounded after each step."""

    def build(b: ir.Builder, alpha: ir.Value, n: ir.Value, extent: ir.Value) -> list[ir.Value]:
        hundred = b.constant(100, ir.dtype("int8"))
        tiny = b.constant(0.001, ir.dtype("bfloat16"))
        tiles = b.emit(ir.Binary("floordiv", extent, b.constant(-7))).result
        return [
            b.emit(ir.Binary("add", n, hundred)).result,
            b.emit(ir.Binary("add", alpha, tiny)).result,
            tiles,
            b.emit(ir.Cast(b.emit(ir.Compare("lt", n, hundred)).result, ir.dtype("int32"))).result,
            extent,
        ]

    made = run(build, n=100)
    assert made == (-56, 1.0, -143, 0, 1000)
    assert [type(v) for v in made] == [int, float, int, int, int]


def test_branches_run_on_one_side() -> None:
    """A division that the condition guards is not computed."""

    def build(b: ir.Builder, alpha: ir.Value, n: ir.Value, extent: ir.Value) -> list[ir.Value]:
        zero = b.constant(0, ir.dtype("int8"))
        then = ir.Builder(ir.Block())
        quotient = then.emit(ir.Binary("floordiv", zero, n)).result
        then.emit(ir.Yield([quotient]))
        other = ir.Block([], [ir.Yield([n])])
        condition = b.emit(ir.Compare("ne", n, zero)).result
        return [b.emit(ir.If(condition, then.block, other)).result]

    assert run(build, n=0) == (0,)
    assert run(build, n=3) == (0,)


def test_division_by_zero() -> None:
    """An error with a way out, where Python would give one of its own."""

    def build(b: ir.Builder, alpha: ir.Value, n: ir.Value, extent: ir.Value) -> list[ir.Value]:
        return [b.emit(ir.Binary("floormod", extent, b.constant(0))).result]

    with pytest.raises(ExecutionError, match="division by 0 while a launch is prepared"):
        run(build)


def test_data_is_out_of_reach() -> None:
    """The host does not read tensors."""
    value = ir.Value(ir.dtype("index"), "elsewhere")
    held = ir.Kernel("k", (), (), ir.Block())
    with pytest.raises(InternalError, match="the host cannot compute"):
        HostProgram.of(held, [value])


def test_values_of_another_kernel_are_refused() -> None:
    """A sentence names the value, before a run fails for want of it."""
    value = ir.Value(ir.dtype("index"), "elsewhere")
    block = ir.Block()
    negated = ir.Builder(block).emit(ir.Unary("neg", value)).result
    with pytest.raises(InternalError, match=r"values of another kernel: .*elsewhere"):
        HostProgram.of(ir.Kernel("k", (), (), ir.Block()), [negated])


def test_reads() -> None:
    """Which parameters the results depend on."""
    held = HostProgram(kernel(lambda b, alpha, n, extent: [b.emit(ir.Unary("neg", n)).result]))
    assert [held.reads(at) for at in range(3)] == [False, False, True]


# -- devices and the driver


@pytest.mark.parametrize(
    ("capability", "wanted", "found"),
    [
        ((9, 0), "", ("sm_90a", False)),
        ((9, 0), "sm_80", ("sm_80", True)),
        ((8, 0), "", ("sm_80", False)),
        ((8, 9), "", ("sm_80", False)),
        ((10, 0), "", ("sm_80", True)),
        ((12, 0), "sm_80", ("sm_80", True)),
    ],
)
def test_targets(
    monkeypatch: pytest.MonkeyPatch, capability: Any, wanted: str, found: tuple[str, bool]
) -> None:
    """The target of each architecture, and where the driver compiles PTX."""
    monkeypatch.setenv("TILEPROF_CUDA_TARGET", wanted)
    device = FakeDriver(capability).device
    assert (device.target.name, device.from_ptx) == found


@pytest.mark.parametrize(
    ("capability", "wanted", "error"),
    [((7, 5), "", MissingDependencyError), ((8, 0), "sm_90a", MissingDependencyError),
     ((9, 0), "sm_70", UsageError)],
)  # fmt: skip
def test_targets_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, capability: Any, wanted: str, error: type[Exception]
) -> None:
    """Too old, too new for the device, unknown."""
    monkeypatch.setenv("TILEPROF_CUDA_TARGET", wanted)
    with pytest.raises(error):
        FakeDriver(capability)


def test_no_such_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of devices is said."""
    fake = FakeDriver()
    monkeypatch.setattr(cuda_device, "load_driver", lambda: fake.driver)
    with pytest.raises(ArgumentError, match="there is no device `cuda:3`: the driver has 1"):
        cuda_device.find_device.__wrapped__(3)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without a GPU."""

    def missing(name: str) -> Any:
        raise OSError

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(MissingDependencyError, match="there is no CUDA driver"):
        cuda_driver.load_driver.__wrapped__()


def test_old_driver() -> None:
    """A function that it lacks is named when it is wanted."""
    fake = FakeDriver()

    def resolve(name: str, prototype: Any) -> Any:
        if name == "cuTensorMapEncodeTiled":
            raise AttributeError(name)
        return fake.resolve(name, prototype)

    driver = Driver(resolve)
    with pytest.raises(MissingDependencyError, match="has no function cuTensorMapEncodeTiled"):
        driver.function("cuTensorMapEncodeTiled")


def test_failures_are_in_words() -> None:
    """The function, the driver's text, its name and its number."""
    fake = FakeDriver()
    fake.fails["cuMemAllocAsync"] = 2
    with pytest.raises(DriverFailure) as e:
        fake.driver.pointer("cuMemAllocAsync", 1 << 50, 0)
    assert e.value.message == "cuMemAllocAsync failed: what 2 means (CUDA_ERROR_2, 2)"
    assert e.value.hint == "Free arrays on the device, or use smaller ones."


# -- arrays on a GPU that no framework is known of


class Interface:
    """What CuPy and Numba say of an array."""

    def __init__(self, shape: Any, typestr: str, strides: Any, stream: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "strides": strides,
            "data": (4096, False),
            "stream": stream,
            "version": 3,
        }


def test_cuda_array_interface() -> None:
    """Strides are bytes there and elements here; stream 2 is that of the thread."""
    held = Interface((4, 5), "<f2", (20, 2), 2)
    assert describe(held) == TensorSpec(ir.dtype("float16"), (4, 5), (10, 1), "cuda:0", "dlpack")
    assert (address(held), is_host(held), arguments.stream_of(held, 0)) == (4096, False, 2)
    dense = Interface((1, 5), "<i4", (999 * 4, 4), None)
    assert describe(dense) == TensorSpec(ir.dtype("int32"), (1, 5), None, "cuda:0", "dlpack")
    assert arguments.stream_of(dense, 0) == 1


class Capsule:
    """DLPack alone; the memory is the host's, though it says that it is a GPU's."""

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held
        self.streams: list[Any] = []

    def __dlpack__(self, stream: Any = None) -> Any:
        self.streams.append(stream)
        return self.held.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 3


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (torch.float32, "float32"),
        (torch.bfloat16, "bfloat16"),
        (torch.int8, "int8"),
        (torch.bool, "bool"),
        (torch.uint8, "uint8"),
    ],
)
def test_dlpack(kind: torch.dtype, name: str) -> None:
    """The capsule's own fields; it is asked for on the legacy default stream."""
    whole = torch.zeros(6, 8, dtype=kind)
    held = Capsule(whole[1:, ::2])
    expected = TensorSpec(ir.dtype(name), (5, 4), (8, 2), "cuda:3", "dlpack")
    assert describe(held) == expected
    assert address(held) == whole[1:].data_ptr()
    assert held.streams == [1, 1]
    assert not is_host(held)
    assert is_host(np.zeros(3))


def test_dlpack_types_that_kernels_lack() -> None:
    """Complex numbers."""
    with pytest.raises(ArgumentError, match="DLPack type 5 with 64 bits"):
        describe(Capsule(torch.zeros(3, dtype=torch.complex64)))
