"""Launches on a GPU, seen from a driver that only records them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.cuda.fake_driver import FakeDriver, Launched
from tests.cuda.runtime_kernels import scale, words_of_bytes
from tileprof import ir
from tileprof.compiler.codegen import Place
from tileprof.compiler.cuda.source import Argument, LaunchSpec, TensorMapSpec
from tileprof.errors import ArgumentError, DeviceAssertError, ExecutionError, Location
from tileprof.runtime import hooks
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.executable import CudaExecutable, Need
from tileprof.runtime.cuda.host_values import HostProgram
from tileprof.runtime.cuda.report import Reports, _Head, _Message

KERNEL: ir.Kernel = scale.compile().traced
F32, I8, INDEX = ir.dtype("float32"), ir.dtype("int8"), ir.dtype("index")
MAP = TensorMapSpec(0, ir.dtype("float16"), ("M", "N"), ("N", 1), (64, 32), 64)
SPEC = LaunchSpec(
    "scale_0",
    (
        Argument("pointer", 0),
        Argument("scalar", 3, I8),
        Argument("map", 0),
        Argument("scalar", 2, F32),
        Argument("pointer", 1),
        Argument("symbol", 1, ir.dtype("int32")),
        Argument("symbol", 0, INDEX),
    ),
    (MAP,),
    (),
    256,
    100_000,
    cluster=2,
)

PLAIN = replace(SPEC, function="plain_0", arguments=SPEC.arguments[:2], maps=())
"""Of the variant that has no tensor maps."""
SIZES = {"scale_0": (8, 1, 128, 4, 8, 4, 8), "plain_0": (8, 1)}


def binary(spec: LaunchSpec = SPEC, kernel: ir.Kernel = KERNEL) -> CudaBinary:
    """The binary that a compiler would give."""
    launch = next(o for o in kernel.body.ops if isinstance(o, ir.Launch))
    host = HostProgram.of(kernel, launch.grid)
    place = Place("assert", Location("k.py", 7), "x is positive", point=("i",))
    printed = Place("print", Location("k.py", 8), "x =", dtype=F32, point=("i",))
    return CudaBinary(b"cubin", (spec,), (place, printed), host, (len(launch.grid),), "sm_90a")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU whose memory is the host's: arrays of NumPy and PyTorch count as lying on it."""
    fake = FakeDriver()
    fake.sizes = dict(SIZES)
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 77)
    return fake


def executable(gpu: FakeDriver, spec: LaunchSpec = SPEC) -> tuple[CudaExecutable, list[Need]]:
    """The kernel on it, and the variants that were asked for."""
    needs: list[Need] = []

    def build(need: Need) -> CudaBinary:
        needs.append(need)
        return binary(PLAIN if need[0] else spec)

    return CudaExecutable(KERNEL, build, gpu.device), needs


def aligned(shape: tuple[int, ...], offset: int = 0) -> np.ndarray[Any, Any]:
    """A float16 array at a multiple of 256 bytes, plus `offset`."""
    count = int(np.prod(shape))
    raw = np.zeros(2 * count + 512, np.uint8)
    start = -raw.ctypes.data % 256 + offset
    return raw[start : start + 2 * count].view(np.float16).reshape(shape)


def test_parameters_and_configuration(gpu: FakeDriver) -> None:
    """Each argument at its place; the grid is one axis, whole clusters, on the array's stream."""
    held, _ = executable(gpu)
    a, c = aligned((5, 136)), aligned((5, 136))
    result = held.run([a, c, 0.5, -3], (5, 136))
    (launched,) = gpu.launches
    assert (launched.grid, launched.block) == ((16, 1, 1), (256, 1, 1))  # 3 * 5 tiles, by twos
    assert (launched.shared, launched.cluster, launched.stream) == (100_000, 2, 77)
    words = launched.words()
    half = struct.unpack("<I", struct.pack("<f", 0.5))[0]
    assert words[:2] == (a.ctypes.data, 256 - 3)
    assert words[3:] == (half, c.ctypes.data, 136, 5)
    assert len(set(launched.parameters[2])) > 1
    assert launched.aligned[2] == 64
    assert (result.time_ns, result.grid, result.blocks) == (-1, (3, 5), 16)
    assert ("cuFuncSetAttribute", 8, 100_000) in [(n, *a[1:]) for n, a in gpu.calls if len(a) == 3]


def test_tensor_map(gpu: FakeDriver) -> None:
    """Innermost first; the stride in bytes; encoded once for an address and extents."""
    held, _ = executable(gpu)
    a, c = aligned((5, 136)), aligned((5, 136))
    for _ in range(3):
        held.run([a, c, 0.5, 1], (5, 136))
    assert gpu.encoded == [
        {
            "kind": 6,
            "address": a.ctypes.data,
            "shape": [136, 5],
            "strides": [272],
            "box": [32, 64],
            "steps": [1, 1],
            "swizzle": 2,
        }
    ]
    held.run([c, a, 0.5, 1], (5, 136))
    held.run([a, c, 0.5, 1], (4, 136))
    assert [(e["address"], e["shape"]) for e in gpu.encoded[1:]] == [
        (c.ctypes.data, [136, 5]),
        (a.ctypes.data, [136, 4]),
    ]


def test_a_warm_call_only_launches(gpu: FakeDriver) -> None:
    """What a graph records must not synchronise, allocate or set attributes."""
    held, _ = executable(gpu)
    a, c = aligned((5, 136)), aligned((5, 136))
    held.run([a, c, 0.5, 1], (5, 136))
    gpu.context = gpu.device.context
    gpu.calls.clear()
    held.run([a, c, 0.5, 1], (5, 136))
    assert gpu.names() == ["cuCtxGetCurrent", "cuLaunchKernelEx"]


@pytest.mark.parametrize(
    ("columns", "offset", "same", "need"),
    [
        (136, 0, False, (frozenset(), False)),
        (136, 2, False, (frozenset({1}), False)),
        (137, 0, False, (frozenset({0}), False)),
        (136, 0, True, (frozenset(), True)),
    ],
    ids=["none", "address", "rows", "overlap"],
)
def test_variants(
    gpu: FakeDriver, columns: int, offset: int, same: bool, need: tuple[Any, bool]
) -> None:
    """Arguments that fulfil less get a kernel that assumes less."""
    held, needs = executable(gpu)
    a = aligned((4, columns))
    c = a if same else aligned((4, columns), offset)
    for _ in range(2):
        held.run([a, c, 1.0, 1], (4, columns))
    assert needs == [(frozenset(), False)] + ([need] if need != (frozenset(), False) else [])


def test_partial_overlap(gpu: FakeDriver) -> None:
    """Rows that both tensors have; neighbours without a common byte do not overlap."""
    held, needs = executable(gpu)
    whole = aligned((8, 136))
    held.run([whole[:4], whole[4:], 1.0, 1], (4, 136))
    assert needs == [(frozenset(), False)]
    held.run([whole[:4], whole[3:7], 1.0, 1], (4, 136))
    assert needs[1:] == [(frozenset(), True)]


def test_persistent_and_empty_grids(gpu: FakeDriver) -> None:
    """At most so many blocks for each SM; nothing at all where there is no tile."""
    held, _ = executable(gpu, replace(SPEC, persistent=2))
    a, c = aligned((400, 136)), aligned((400, 136))
    held.run([a, c, 1.0, 1], (400, 136))
    assert gpu.launches[0].grid == (264, 1, 1)
    empty = aligned((0, 136))
    result = held.run([empty, empty, 1.0, 1], (0, 136))
    assert len(gpu.launches) == 1
    assert result.blocks == 0


@pytest.mark.parametrize(("fitting", "blocks"), [(32, 396), (2, 264), (0, 132)])
def test_no_more_blocks_stay_than_fit(gpu: FakeDriver, fitting: int, blocks: int) -> None:
    """The compiler says how many may; the driver knows their registers."""
    gpu.resident_blocks = fitting
    held, _ = executable(gpu, replace(SPEC, cluster=1, persistent=3))
    (function,) = held.variant((frozenset(), False)).functions
    assert function.blocks((2, 70_000)) == blocks


@pytest.mark.parametrize("persistent", [0, 1])
def test_blocks_are_counted_at_launch(gpu: FakeDriver, persistent: int) -> None:
    """Where an extent is known only then; one axis alone may be as large as all of them."""
    held, _ = executable(gpu, replace(SPEC, persistent=persistent))
    (function,) = held.variant((frozenset(), False)).functions
    assert function.blocks((2, 70_000)) == (132 if persistent else 140_000)
    with pytest.raises(ExecutionError, match="`scale` has 70,000 x 70,000 blocks; a launch has at"):
        function.blocks((70_000, 70_000))


def test_no_more_clusters_stay_than_run_at_once(gpu: FakeDriver) -> None:
    """Parts of the GPU that hold no whole cluster count for nothing."""
    gpu.resident_clusters = 60
    held, _ = executable(gpu, replace(SPEC, persistent=1))
    a, c = aligned((400, 136)), aligned((400, 136))
    held.run([a, c, 1.0, 1], (400, 136))
    assert gpu.launches[0].grid == (120, 1, 1)


@pytest.mark.parametrize(("cluster", "waits"), [(1, False), (1, True), (2, True)])
def test_an_early_start_is_asked_for(gpu: FakeDriver, cluster: int, waits: bool) -> None:
    """Beside a cluster, too."""
    held, _ = executable(gpu, replace(SPEC, cluster=cluster, waits=waits))
    held.run([aligned((5, 136)), aligned((5, 136)), 0.5, 1], (5, 136))
    assert (gpu.launches[0].cluster, gpu.launches[0].early) == (cluster, waits)


def test_a_driver_that_cannot_record_an_early_start_is_not_asked(gpu: FakeDriver) -> None:
    """A graph could not be captured otherwise; the kernel is right without."""
    gpu.version = 12020
    held, _ = executable(gpu, replace(SPEC, waits=True))
    held.run([aligned((5, 136)), aligned((5, 136)), 0.5, 1], (5, 136))
    assert not gpu.launches[0].early


def test_clusters_of_the_text(gpu: FakeDriver) -> None:
    """A function that says its cluster itself is launched by whole clusters without asking."""
    gpu.cluster_dims = 2
    held, _ = executable(gpu)
    held.run([aligned((5, 136)), aligned((5, 136)), 0.5, 1], (5, 136))
    assert (gpu.launches[0].grid, gpu.launches[0].cluster) == ((16, 1, 1), 1)


def test_refused_launch(gpu: FakeDriver) -> None:
    """The numbers of a launch that the driver does not take, and the kernel's line."""
    held, _ = executable(gpu)
    gpu.fails["cuLaunchKernelEx"] = 1
    with pytest.raises(
        ExecutionError, match="16 blocks, clusters of 2, 256 threads and 100000"
    ) as e:
        held.run([aligned((5, 136)), aligned((5, 136)), 0.5, 1], (5, 136))
    assert e.value.location == KERNEL.location


def test_large_extent(gpu: FakeDriver) -> None:
    """Extents are 31 bits on a device."""
    held, _ = executable(gpu)
    with pytest.raises(ArgumentError, match="extent `N` of `scale` is 2147483648"):
        held.run([aligned((1, 8)), aligned((1, 8)), 0.5, 1], (1, 1 << 31))


def test_time_under_a_listener(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events around the launch; while a graph is recorded, neither events nor waits."""
    held, _ = executable(gpu)
    monkeypatch.setattr(hooks, "listener", SimpleNamespace(times_gpus=False))
    a, c = aligned((5, 136)), aligned((5, 136))
    assert held.run([a, c, 0.5, 1], (5, 136)).time_ns == 12_500
    names = [n for n in gpu.names() if n.startswith(("cuEvent", "cuLaunch"))]
    assert names == [
        "cuEventCreate", "cuEventCreate", "cuEventRecord", "cuLaunchKernelEx", "cuEventRecord",
        "cuEventSynchronize", "cuEventElapsedTime",
    ]  # fmt: skip
    gpu.calls.clear()
    gpu.capturing = 1
    assert held.run([a, c, 0.5, 1], (5, 136)).time_ns == -1
    assert not [n for n in gpu.names() if n.startswith("cuEvent")]


def test_a_fault_names_the_kernel(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the device says late, with the kernel's name and line."""
    held, _ = executable(gpu)
    monkeypatch.setattr(hooks, "listener", SimpleNamespace(times_gpus=False))
    gpu.kernels["scale_0"] = lambda launched: 700
    with pytest.raises(ExecutionError, match=r"`scale`, or a kernel before it.*not mapped") as e:
        held.run([aligned((5, 136)), aligned((5, 136)), 0.5, 1], (5, 136))
    assert e.value.location == KERNEL.location


# -- host arrays


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    """A GPU for host arrays; nothing of its memory is left at the end."""
    fake = FakeDriver()
    fake.sizes = dict(SIZES)
    yield fake
    assert not fake.memory


def double(shape: tuple[int, ...]) -> Any:
    """A fake kernel: C = 2 * A at the addresses that it is given."""

    def run(launched: Launched) -> int:
        words = launched.words()
        count = int(np.prod(shape))
        source, target = (
            np.ctypeslib.as_array((ctypes.c_uint16 * count).from_address(w)).view(np.float16)
            for w in (words[0], words[4])
        )
        target[:] = source * 2
        return 0

    return run


@pytest.mark.parametrize(("library", "name"), [("numpy", "asarray"), ("torch", "from_numpy")])
def test_host_arrays_are_copied(host: FakeDriver, library: str, name: str) -> None:
    """In before the launch, out after it; the copies are counted."""
    convert = getattr(pytest.importorskip(library), name)
    held, needs = executable(host)
    a, c = np.arange(8 * 136, dtype=np.float16).reshape(8, 136), np.zeros((8, 136), np.float16)
    host.kernels["scale_0"] = double((8, 136))
    result = held.run([convert(a), convert(c), 1.0, 1], (8, 136))
    assert np.array_equal(c, a * 2)
    sizes = [(copy.direction, copy.bytes) for copy in result.copies]
    assert sizes == [("in", 8 * 136 * 2), ("in", 8 * 136 * 2), ("out", 8 * 136 * 2)]
    assert host.launches[0].stream == 0
    assert needs == [(frozenset(), False)]


def test_host_arrays_that_overlap_stay_one(host: FakeDriver) -> None:
    """The kernel sees the overlap as the host has it."""
    held, needs = executable(host)
    whole = np.ones((6, 136), np.float16)
    host.kernels["scale_0"] = double((4, 136))
    held.run([whole[:4], whole[2:], 1.0, 1], (4, 136))
    words = host.launches[0].words()
    assert words[4] - words[0] == 2 * 136 * 2
    assert needs[1:] == [(frozenset(), True)]
    assert np.array_equal(whole[:2], np.ones((2, 136)))
    assert np.array_equal(whole[2:4], np.full((2, 136), 2))


def test_read_only_host_array(host: FakeDriver) -> None:
    """Said before anything is copied."""
    held, _ = executable(host)
    c = np.zeros((4, 136), np.float16)
    c.flags.writeable = False
    with pytest.raises(ArgumentError, match="`C` is written by the kernel"):
        held.run([np.zeros((4, 136), np.float16), c, 1.0, 1], (4, 136))


# -- what kernels say


REPORTING = replace(
    SPEC, arguments=(Argument("pointer", 0), Argument("report", 0)), maps=(), cluster=1
)


def write_messages(launched: Launched) -> int:
    """Two messages, the later block first; then a failure of the last block."""
    address = launched.words()[1]
    head = _Head.from_address(address)
    at = address + ctypes.sizeof(_Head)
    for block in (4, 1):
        message = _Message.from_address(at)
        message.block, message.place, message.words, message.ready = block, 1, 2, 1
        words = (ctypes.c_int64 * 2).from_address(at + ctypes.sizeof(_Message))
        words[0], words[1] = 3, struct.unpack("<i", struct.pack("<f", 1.5))[0]
        at += ctypes.sizeof(_Message) + 16
    head.cursor = at - address - ctypes.sizeof(_Head)
    return 0


def test_prints_in_block_order(gpu: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    """In the words of the `cpu` device."""
    gpu.sizes = {"scale_0": (8, 8)}
    held, _ = executable(gpu, REPORTING)
    gpu.kernels["scale_0"] = write_messages
    held.run([aligned((4, 136)), aligned((4, 136)), 1.0, 1], (4, 136))
    assert capsys.readouterr().out == (
        "block (1, 0), point (i=3): x = 1.5\nblock (1, 1), point (i=3): x = 1.5\n"
    )


def test_failed_assertion(gpu: FakeDriver, capsys: pytest.CaptureFixture[str]) -> None:
    """What was printed before, then the error at the author's line."""
    gpu.sizes = {"scale_0": (8, 8)}
    held, _ = executable(gpu, REPORTING)

    def fail(launched: Launched) -> int:
        write_messages(launched)
        head = _Head.from_address(launched.words()[1])
        head.failed, head.place, head.block = 1, 0, 5
        head.values[0] = 9
        return 719

    gpu.kernels["scale_0"] = fail
    with pytest.raises(DeviceAssertError) as e:
        held.run([aligned((4, 136)), aligned((4, 136)), 1.0, 1], (4, 136))
    assert e.value.message == (
        "the kernel's assertion failed: x is positive, in block (2, 1), point (i=9)"
    )
    assert e.value.location == Location("k.py", 7)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_failure_that_ends_well(gpu: FakeDriver) -> None:
    """A kernel that prints noted an index: it raises, and the next launch has a clean report."""
    gpu.sizes = {"scale_0": (8, 8)}
    held, _ = executable(gpu, REPORTING)
    given = list[int]()

    def fail(launched: Launched) -> int:
        given.append(launched.words()[1])
        head = _Head.from_address(launched.words()[1])
        assert not head.failed
        head.failed, head.place, head.block = 1, 0, 5
        return 0

    gpu.kernels["scale_0"] = fail
    for _ in range(2):
        with pytest.raises(DeviceAssertError):
            held.run([aligned((4, 136)), aligned((4, 136)), 1.0, 1], (4, 136))
    assert len(given) == 2
    assert given[0] == given[1]


def test_what_is_captured_shares_a_buffer(gpu: FakeDriver) -> None:
    """A graph waits for nobody, so nobody reads; nothing is allocated that a capture forbids."""
    gpu.sizes = {"scale_0": (8, 8)}
    held, _ = executable(gpu, REPORTING)
    given = list[int]()

    def note(launched: Launched) -> int:
        given.append(launched.words()[1])
        return 0

    gpu.kernels["scale_0"] = note
    gpu.capturing = 1
    for _ in range(3):
        held.run([aligned((4, 136)), aligned((4, 136)), 1.0, 1], (4, 136))
    gpu.capturing = 0
    for _ in range(2):
        held.run([aligned((4, 136)), aligned((4, 136)), 1.0, 1], (4, 136))
    captured, read = set(given[:3]), set(given[3:])
    assert len(captured) == len(read) == 1
    assert not captured & read


def test_a_renumbered_block_is_not_named(gpu: FakeDriver) -> None:
    """Its number is not that of the author's grid."""
    gpu.sizes = {"scale_0": (8, 8)}
    held, _ = executable(gpu, replace(REPORTING, in_order=False))

    def fail(launched: Launched) -> int:
        head = _Head.from_address(launched.words()[1])
        head.failed, head.place, head.block = 1, 0, 5
        return 719

    gpu.kernels["scale_0"] = fail
    with pytest.raises(DeviceAssertError) as e:
        held.run([aligned((4, 136)), aligned((4, 136)), 1.0, 1], (4, 136))
    assert e.value.message == "the kernel's assertion failed: x is positive"


def test_report_is_cleared(gpu: FakeDriver) -> None:
    """Messages of one launch are not those of the next."""
    with gpu.device.current():
        report = Reports(gpu.driver).take()
    write_messages(Launched("", (), (), 0, 0, 1, (b"", report.address.to_bytes(8, "little")), ()))
    held = binary(REPORTING)
    assert len(list(report._messages(held.places, 0))) == 2
    report.clear()
    assert not list(report._messages(held.places, 0))


@pytest.mark.parametrize("offset", [0, 1, 2, 4, 8])
def test_elements_at_no_multiple_of_their_size(gpu: FakeDriver, offset: int) -> None:
    """A launch would end with a misaligned address, so there is none."""
    kernel = words_of_bytes.compile().program.kernel
    held = CudaExecutable(kernel, lambda need: binary(PLAIN), gpu.device)
    begin = 1 << 20
    if offset % 4 == 0:
        unaligned = frozenset({0} if offset % 16 else ())
        assert held.need([begin + offset, 2 * begin], ()) == (unaligned, False)
        return
    with pytest.raises(ArgumentError, match="`X` is accessed as int32 in `words_of_bytes`"):
        held.need([begin + offset, 2 * begin], ())
