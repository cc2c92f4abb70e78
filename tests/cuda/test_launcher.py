"""Warm calls through the native launcher, with host tensors on a driver that records."""

from __future__ import annotations

import ctypes
import gc
import hashlib
import re
import shutil
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tileprof
from benchmarks.launch_floor import KERNELS, driver_us, parts, variants
from tests.cuda import runtime_kernels as kernels
from tests.cuda.fake_driver import FakeDriver
from tests.cuda.noting import PLACE, note
from tileprof import ir
from tileprof.compiler.build import build, find_compiler
from tileprof.compiler.cuda.source import Argument, LaunchSpec, TensorMapSpec
from tileprof.errors import ArgumentError, BoundsError, ExecutionError
from tileprof.lang import calls, warm
from tileprof.native import FOLDER
from tileprof.runtime import hooks
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda import native_launcher as cuda_native
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.executable import CudaExecutable, Need
from tileprof.runtime.cuda.host_values import HostProgram
from tileprof.runtime.cuda.object_layout import NewTensors, address_of
from tileprof.runtime.launch import LoadedKernel

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(bool(cuda_native.why_not()), reason=cuda_native.why_not())
CPU = 1
EXTRA: tuple[tuple[Argument, ...], ...] = ((),)
"""Arguments of each launch of a kernel, besides what `_arguments` gives."""
NOTES, COUNTER = (Argument("notes", 0),), (Argument("counter", 0),)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU whose tensors are those of the host; kernels are loaded on it."""
    fake = FakeDriver()
    fake.context = fake.device.context

    def load(program: Any, device: str) -> LoadedKernel:
        kernel, name = program.kernel, f"k{len(fake.sizes)}"
        for number, more in enumerate(EXTRA):
            sizes = tuple(_size(kernel, a) for a in (*_arguments(kernel), *more))
            fake.sizes[f"{name}_{number}"] = sizes
        executable = CudaExecutable(kernel, lambda need: binary(kernel, need, name), fake.device)
        return LoadedKernel(program, device, executable)

    monkeypatch.setattr(CudaExecutable, "device_type", CPU)
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 0)
    monkeypatch.setattr(calls, "load", load)
    monkeypatch.setattr(calls, "choose", lambda specs: "cuda:0")
    return fake


def _arguments(kernel: ir.Kernel) -> tuple[Argument, ...]:
    """Every parameter in order, a map of the first, and every symbol."""
    made = []
    for at, param in enumerate(kernel.params):
        scalar = param.type if isinstance(param.type, ir.DType) else None
        made.append(Argument("scalar" if scalar else "pointer", at, scalar))
    index = ir.dtype("index")
    symbols = [Argument("symbol", at, index) for at, _ in enumerate(kernel.symbols)]
    return (*made, Argument("map", 0), *symbols)


def _size(kernel: ir.Kernel, argument: Argument) -> int:
    if argument.kind == "map":
        return 128
    return argument.dtype.bytes if argument.dtype else 8


def binary(kernel: ir.Kernel, need: Need, name: str) -> CudaBinary:
    """What a compiler would give; the block's size says which variant it is."""
    launch = next(o for o in kernel.body.ops if isinstance(o, ir.Launch))
    first = kernel.params[0].type
    assert isinstance(first, ir.BufferType)
    tensor = TensorMapSpec(0, first.dtype, (first.shape[0],), (1,), (64,), 0)
    threads = 128 + len(need[0]) + 64 * need[1]
    specs = tuple(
        LaunchSpec(f"{name}_{number}", (*_arguments(kernel), *more), (tensor,), (), threads, 0)
        for number, more in enumerate(EXTRA)
    )
    host = HostProgram.of(kernel, launch.grid * len(specs))
    axes = (len(launch.grid),) * len(specs)
    return CudaBinary(b"cubin", specs, (PLACE,), host, axes, "sm_90a")


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The calls that went the whole way."""
    seen: list[Any] = []
    run = calls.Plan.run

    def counted(self: Any, args: Any, *rest: Any) -> Any:
        seen.append(args)
        return run(self, args, *rest)

    monkeypatch.setattr(calls.Plan, "run", counted)
    return seen


def fresh(name: str) -> Any:
    """A kernel that nobody has called."""
    held = getattr(kernels, name)
    return tileprof.jit(held.function)


def vector(count: int = 64, offset: int = 0) -> torch.Tensor:
    """A float32 tensor at a multiple of 16 bytes, plus some elements."""
    return torch.zeros(count + offset)[offset:]


def test_the_third_call_is_warm(gpu: FakeDriver, slow: list[Any]) -> None:
    """It launches what the whole way launches, with the addresses of its own tensors."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(5):
        add(a, b, c)
    assert len(slow) == 2
    first, *rest = gpu.launches
    assert rest == [first] * 4
    d = vector()
    add(a, d, c)
    assert len(slow) == 2
    assert gpu.launches[-1].words()[:3] == (a.data_ptr(), d.data_ptr(), c.data_ptr())


def test_calls_with_keywords_are_warm(gpu: FakeDriver, slow: list[Any]) -> None:
    """The order of keywords does not matter, other values and misspelt names go the whole way."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, C=c, block=32)
    add(a, b, block=32, C=c)
    add(a, C=c, B=b, block=32)
    assert len(slow) == 2
    assert {launched.grid for launched in gpu.launches} == {gpu.launches[0].grid}
    assert gpu.launches[-1].words()[:3] == (a.data_ptr(), b.data_ptr(), c.data_ptr())
    add(a, b, C=c, block=64)
    assert len(slow) == 3
    assert gpu.launches[-1].grid != gpu.launches[0].grid
    for wrong in ({"C": c, "blocks": 32}, {"B": b, "block": 32}, {"C": c, "A": a}):
        with pytest.raises(ArgumentError):
            add(a, b, **wrong)
    compiled = fresh("add").compile(N=64)
    for _ in range(4):
        compiled(C=c, A=a, B=b)
    assert len(slow) == 5
    with pytest.raises(ArgumentError):
        compiled(A=a, B=b)


def test_maps_follow_addresses(gpu: FakeDriver, slow: list[Any]) -> None:
    """A tensor at a new address gets a map of its own, and one that comes again keeps it."""
    add = fresh("add")
    tensors = [vector() for _ in range(4)]
    for _ in range(2):
        add(*tensors[:3])
    for first in (tensors[3], tensors[0], tensors[3]):
        add(first, *tensors[1:3])
    assert len(slow) == 2
    # Python's first; the launcher keeps its own.
    addresses = [tensors[0], tensors[3], tensors[0]]
    assert [e["address"] for e in gpu.encoded] == [t.data_ptr() for t in addresses]
    assert gpu.encoded[0] == gpu.encoded[2]
    assert len({launched.parameters[3] for launched in gpu.launches[2:]}) == 2


def _other_shape(add: Any, a: Any, b: Any, c: Any) -> Any:
    return add(vector(32), vector(32), vector(32))


def _unaligned(add: Any, a: Any, b: Any, c: Any) -> Any:
    return add(vector(64, 1), b, c)


def _overlapping(add: Any, a: Any, b: Any, c: Any) -> Any:
    return add(c, b, c)


def _strided(add: Any, a: Any, b: Any, c: Any) -> Any:
    return add(torch.zeros(128)[::2], b, c)


def _keyword(add: Any, a: Any, b: Any, c: Any) -> Any:
    return add(a, b, C=c)


def _block(add: Any, a: Any, b: Any, c: Any) -> Any:
    return add(a, b, c, 32)


@pytest.mark.parametrize(
    "other",
    [_other_shape, _unaligned, _overlapping, _strided, _keyword, _block],
)
def test_other_calls_go_the_whole_way(
    gpu: FakeDriver, slow: list[Any], other: Callable[..., Any]
) -> None:
    """A call that is not like the learnt one launches what it does without a launcher."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    other(add, a, b, c)
    assert len(slow) == 3
    learnt = gpu.launches[-1]
    plain = fresh("add")
    other(plain, a, b, c)
    alone = gpu.launches[-1]
    assert (learnt.grid, learnt.block) == (alone.grid, alone.block)
    add(a, b, c)
    assert len(slow) == 4


TENSORS: dict[str, Callable[[], torch.Tensor]] = {
    "a view": lambda: torch.arange(128.0)[4:68],
    "a view at an odd place": lambda: vector(64, 1),
    "a column": lambda: torch.zeros(64, 2)[:, 0],
    "a column of one": lambda: torch.zeros(64, 1)[:, 0],
    "a row": lambda: torch.zeros(2, 64)[1],
    "shorter": lambda: vector(32),
    "without elements": lambda: vector(0),
    "of another rank": lambda: torch.zeros(64, 1),
    "of another type": lambda: torch.zeros(64, dtype=torch.int32),
    "of a parameter": lambda: torch.nn.Parameter(vector()).detach(),
    "changed in place": lambda: vector(32).resize_(64),
    "of other memory": lambda: torch.frombuffer(bytearray(256 + 64), dtype=torch.float32)[:64],
    "not copied yet": lambda: torch._lazy_clone(vector()),
    "under inference": lambda: _inferred(),
}


def _inferred() -> torch.Tensor:
    with torch.inference_mode():
        return vector()


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.parametrize("number", [0, 2])
def test_any_tensor_is_launched_on_as_without_a_launcher(
    gpu: FakeDriver, kind: str, number: int
) -> None:
    """Whatever it is a view of, a launcher that has learnt another call does what Python does."""
    warm_one, plain = fresh("add"), fresh("add")
    tensors = [vector(), vector(), vector()]
    for _ in range(3):
        warm_one(*tensors)
    tensors[number] = TENSORS[kind]()
    found: list[Any] = []
    for add in (plain, warm_one, warm_one, warm_one):
        count = len(gpu.launches)
        try:
            add(*tensors)
        except Exception as error:
            found.append((type(error), str(error)))
        else:
            found.append([(w.parameters, w.grid, w.block) for w in gpu.launches[count:]])
    assert found[1:] == found[:1] * 3


def test_memory_that_is_shared_until_it_is_written(gpu: FakeDriver, slow: list[Any]) -> None:
    """A launch is a write: it gets a copy of its own, as in PyTorch."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    lazy = torch._lazy_clone(c)
    add(a, b, lazy)
    address = gpu.launches[-1].words()[2]
    assert address == lazy.data_ptr() != c.data_ptr()


def test_an_object_stays_what_it_is(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that are answered natively leave a kernel its type's name, its methods, and the
    `__call__` of its class for all other calls."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    before = type(add)
    add(a, b, c)
    for _ in range(2):
        add(a, b, c)
        assert isinstance(add, before)
        assert (type(add).__name__, type(add).__module__) == (before.__name__, before.__module__)
    assert type(add) is not before
    assert "1 kernel" in repr(add)
    assert add.compile(N=64) is not None
    monkeypatch.setattr(before, "__call__", lambda *given: given)
    assert add(a) == (add, a)
    held = weakref.ref(add)
    del add
    gc.collect()
    assert held() is None


def _less_aligned(add: Any, a: Any, b: Any, c: Any) -> Any:
    return add(vector(64, 2), b, c)


def test_a_tensor_at_another_multiple_goes_the_whole_way(gpu: FakeDriver, slow: list[Any]) -> None:
    """Whether its elements can be accessed there is not known."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        _less_aligned(add, a, b, c)
    count = len(slow)
    _less_aligned(add, a, b, c)
    assert len(slow) == count
    _unaligned(add, a, b, c)
    assert len(slow) == count + 1


@pytest.mark.parametrize("other", [_unaligned, _overlapping, _other_shape])
def test_variants_are_learnt(gpu: FakeDriver, slow: list[Any], other: Callable[..., Any]) -> None:
    """Several kinds of calls are warm at once, each with its own kernel."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
        other(add, a, b, c)
    count = len(slow)
    blocks = [(launched.block, launched.grid) for launched in gpu.launches[-2:]]
    add(a, b, c)
    other(add, a, b, c)
    assert len(slow) == count
    assert [(launched.block, launched.grid) for launched in gpu.launches[-2:]] == blocks


def test_parameters_of_modules(gpu: FakeDriver, slow: list[Any]) -> None:
    """Where no gradients are recorded, tensors that autograd follows are tensors like others."""
    add = fresh("add")
    a, c = torch.nn.Parameter(vector()), vector()
    with torch.no_grad():
        for _ in range(4):
            add(a, a, c)
    assert len(slow) == 2
    assert gpu.launches[-1] == gpu.launches[0]


@pytest.mark.parametrize("how", ["in C", "refused in C", "in Python"])
def test_outputs_are_new_tensors(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Each call gives its own, and the launcher keeps none."""
    if how == "in Python":
        monkeypatch.setattr(cuda_native, "find_new_tensors", lambda: None)
    elif how == "refused in C":
        monkeypatch.setattr(NewTensors, "numbers_of", lambda self, tensor: (6, 9, 0))
    double = fresh("double")
    a = vector()
    made = [double(a) for _ in range(4)]
    assert len(slow) == 2
    assert len({m.data_ptr() for m in made}) == 4
    assert {(m.shape, m.dtype, m.requires_grad) for m in made} == {(a.shape, a.dtype, False)}
    assert {type(m) for m in made} == {torch.Tensor}
    assert gpu.launches[-1].words()[:2] == (a.data_ptr(), made[-1].data_ptr())
    held = [weakref.ref(m) for m in made]
    del made
    gc.collect()
    assert [h() for h in held] == [None] * 4


def test_arguments_are_not_kept(gpu: FakeDriver) -> None:
    """Their memory goes when the caller lets it go."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    held = [weakref.ref(t) for t in (a, b, c)]
    del a, b, c
    gc.collect()
    assert [h() for h in held] == [None] * 3


def test_scalars(gpu: FakeDriver, slow: list[Any]) -> None:
    """A number that only the device sees may differ; one that the grid follows from may not."""
    scaled = fresh("scaled")
    a = vector()
    for _ in range(2):
        scaled(a, 0.5, 3, 8)
    for factor, number in ((2.5, -7), (3, 1 << 31)):
        scaled(a, factor, number, 8)
        words = gpu.launches[-1].parameters
        assert words[1] == torch.tensor(float(factor)).numpy().tobytes()
        assert int.from_bytes(words[2], "little") == number & 0xFFFFFFFF
    assert len(slow) == 2
    scaled(a, 0.5, 3, 9)
    assert len(slow) == 3
    assert [launched.grid[0] for launched in gpu.launches[-2:]] == [8, 9]


def test_globals(gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that reads another value of a global is another kernel."""
    add = fresh("grouped")
    a = vector()
    for _ in range(3):
        add(a)
    monkeypatch.setattr(kernels, "GROUP", 16)
    add(a)
    assert len(slow) == 3
    assert [launched.grid[0] for launched in gpu.launches[-2:]] == [2, 4]


@pytest.mark.parametrize("name", ["TILEPROF_DEVICE", "TILEPROF_DEBUG"])
def test_environment(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What a user sets while the program runs holds from the next call on."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    launches = len(gpu.launches)
    monkeypatch.setenv(name, "interpreter" if name == "TILEPROF_DEVICE" else "1")
    assert add._warm.call((a, b, c)) is NotImplemented
    assert len(gpu.launches) == launches


def test_device_and_listener(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chosen device and a profile see every call."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    with tileprof.device("cuda:0"):
        add(a, b, c)
    assert len(slow) == 3


def test_another_context(gpu: FakeDriver, slow: list[Any]) -> None:
    """A thread that works on another device goes the whole way, which changes over and back."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    gpu.context = 0xBAD
    add(a, b, c)
    assert len(slow) == 3
    assert gpu.context == 0xBAD


def test_a_refused_launch(gpu: FakeDriver) -> None:
    """An error as of the whole way."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    gpu.fails["cuLaunchKernelEx"] = 700
    with pytest.raises(ExecutionError, match="`add`, or a kernel before it"):
        add(a, b, c)


def test_many_plans(gpu: FakeDriver, slow: list[Any]) -> None:
    """More shapes than the launcher keeps: all are right, the recent ones warm."""
    add = fresh("add")
    for count in range(1, 50):
        tensors = [vector(64 * count) for _ in range(3)]
        for _ in range(3):
            add(*tensors)
        assert gpu.launches[-1].grid == (count, 1, 1)
        assert len(slow) == 2 * count


def test_without_a_library(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python alone launches the same."""
    monkeypatch.setattr(cuda_native, "launcher_library", lambda: None)
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(4):
        add(a, b, c)
    assert len(slow) == 4
    assert add._warm.call is None
    assert gpu.launches == [gpu.launches[0]] * 4
    assert hooks.listener is None
    assert warm.LESSONS > 1


def test_the_installed_library_is_used_where_it_was_made_of_these_sources(tmp_path: Path) -> None:
    """Another one, or none that can be loaded, is passed over; then the launcher is compiled."""
    assert cuda_native.installed_in(tmp_path) is None
    sources = sorted((FOLDER / "launcher").glob("*.*"))
    digests = "".join(hashlib.sha256(p.read_bytes()).hexdigest() for p in sources)
    compiler = find_compiler()
    assert compiler is not None
    for number, made_of in enumerate((digests, "", digests[1:])):
        folder = tmp_path / str(number)
        folder.mkdir()
        text = 'extern "C" __attribute__((visibility("default"))) const char *tp_launcher_sources()'
        text += f'{{ return "{made_of}"; }}'
        library = build(text, (), compiler, name=f"launcher{number}")
        shutil.copy(library, folder / "libtileprof_launcher.so")
        assert (cuda_native.installed_in(folder) is not None) == (made_of == digests)
    (tmp_path / "libtileprof_launcher.so").write_text("no library")
    assert cuda_native.installed_in(tmp_path) is None


# -- what launches note, and counters of tiles


def extra(monkeypatch: pytest.MonkeyPatch, *launches: tuple[Argument, ...]) -> None:
    """Kernels have these launches from now on."""
    monkeypatch.setitem(globals(), "EXTRA", launches)


def test_kernels_that_note_are_warm(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each launch has its report, whose address stays; nothing waits."""
    extra(monkeypatch, NOTES, (), NOTES)
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(4):
        add(a, b, c)
    assert len(slow) == 2
    reports = [launched.words()[-1] for launched in gpu.launches]
    assert reports[:3] == reports[-3:]
    assert len(set(reports[::3]) | set(reports[2::3])) == 2
    assert not [name for name in gpu.names() if "Synchronize" in name]


def test_a_warm_call_raises_what_was_noted(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third call, natively; it launches nothing.  The fourth one is like any other."""
    extra(monkeypatch, NOTES)
    add, other = fresh("add"), fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
        other(a, b, c)
    count = len(gpu.launches)
    for told in (add, other):
        note(gpu.launches[-2].words()[-1], -3)
        with pytest.raises(BoundsError, match=r"at \[-3\].*an earlier launch of `add`"):
            told(a, b, c)
    assert len(gpu.launches) == count
    add(a, b, c)
    other(a, b, c)
    assert len(gpu.launches) == count + 2
    assert len(slow) == 4


def test_a_capture_goes_the_whole_way(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the report is kept for the graph; what was noted waits for the end of the capture."""
    extra(monkeypatch, NOTES)
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    note(gpu.launches[-1].words()[-1], -3)
    gpu.capturing = 1
    add(a, b, c)
    assert len(slow) == 3
    assert gpu.launches[-1] == gpu.launches[0]
    gpu.capturing = 0
    with pytest.raises(BoundsError):
        add(a, b, c)


def test_waiting_calls_are_not_learnt(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the user wants each call to tell of itself."""
    extra(monkeypatch, NOTES)
    monkeypatch.setattr(gpu.device.notes, "is_blocking", True)
    add = fresh("add")
    for _ in range(4):
        add(vector(), vector(), vector())
    assert len(slow) == 4
    assert gpu.names().count("cuStreamSynchronize") == 4


def test_a_plan_keeps_its_reports(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While others are freed; a plan that is dropped keeps none."""
    extra(monkeypatch, NOTES)
    notes = gpu.device.notes
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    kept = gpu.launches[-1].words()[-1]
    notes._reclaim()
    assert kept not in {slot.report.address for slot in notes._free}
    add(a, b, c)
    assert (len(slow), gpu.launches[-1].words()[-1]) == (2, kept)
    del add
    gc.collect()
    notes._reclaim()
    assert kept in {slot.report.address for slot in notes._free}


def test_counters_of_streams(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each stream's own, by its number; launches of a graph share none."""
    extra(monkeypatch, COUNTER)
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    for number in (5, 0, 5):  # a handle that came back for another stream
        gpu.stream_numbers[0] = number
        add(a, b, c)
    gpu.capturing = 1
    for _ in range(2):
        add(a, b, c)
    assert len(slow) == 2
    counters = [launched.words()[-1] for launched in gpu.launches]
    assert counters[:3] == [counters[4]] * 3
    assert counters[3] == counters[5] != counters[4]
    assert len(set(counters)) == 4


STREAMS = """
#define TP_EXPORT extern "C" __attribute__((visibility("default")))
struct Number { signed char type, device; long long number; };
TP_EXPORT long long number = 5, asked = 0;
TP_EXPORT Number current(signed char device) { return {1, device, number}; }
TP_EXPORT int handle(int, int, void **out) { ++asked; *out = (void *)(0x500 + number); return 0; }
"""


def test_the_handle_of_a_stream_is_asked_for_once(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And again when another stream is current, whose number PyTorch gives at each call."""
    compiler = find_compiler()
    assert compiler is not None
    library = ctypes.CDLL(str(build(STREAMS, (), compiler, name="streams")))
    number, asked = (ctypes.c_longlong.in_dll(library, each) for each in ("number", "asked"))
    words = (ctypes.c_uint64 * 7).from_address(cuda_native._exchange_api(torch))
    copied = (ctypes.c_uint64 * 7)(*words[:6], address_of(library.handle))
    monkeypatch.setattr(cuda_native, "_exchange_api", lambda torch: ctypes.addressof(copied))
    monkeypatch.setattr(cuda_native, "find_current_number", lambda: address_of(library.current))
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(2):
        add(a, b, c)
    for number.value in (5, 5, 6, 6, 5):
        add(a, b, c)
    assert len(slow) == 2
    assert [each.stream for each in gpu.launches[2:]] == [0x505, 0x505, 0x506, 0x506, 0x505]
    assert asked.value == 3


def test_all_launches_are_ready_before_one_starts(
    gpu: FakeDriver, slow: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second launch that finds no counter sends the call the whole way, with none enqueued."""
    extra(monkeypatch, (), COUNTER)
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
    assert len(gpu.launches) == 6
    assert len({launched.words()[-1] for launched in gpu.launches[1::2]}) == 1
    gpu.fails["cuStreamGetId"] = 1
    assert add._warm.call((a, b, c)) is NotImplemented
    gpu.fails.clear()
    gpu.capturing = 1
    monkeypatch.setattr(gpu.device.counters, "_take", None)
    assert add._warm.call((a, b, c)) is NotImplemented
    assert len(gpu.launches) == 6
    gpu.capturing = 0
    add(a, b, c)
    assert len(slow) == 2
    assert gpu.launches[-2:] == gpu.launches[:2]


NOTHING = """
#define TP_EXPORT extern "C" __attribute__((visibility("default")))
TP_EXPORT int launch(void *, void *, void *, void *) { return 0; }
TP_EXPORT int current(void **out) { *out = (void *)0xC0; return 0; }
"""


def test_a_warm_call_stays_native(
    gpu: FakeDriver, calls: Callable[[Callable[[], object]], int]
) -> None:
    """From the arguments to the driver, a warm call enters no function that Python knows of, with
    keywords and without."""
    compiler = find_compiler()
    assert compiler is not None
    library = ctypes.CDLL(str(build(NOTHING, (), compiler, name="nothing")))
    pointer = ctypes.c_void_p
    launch = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer)
    current = ctypes.CFUNCTYPE(ctypes.c_int, pointer)
    gpu.driver.launch = launch(("launch", library))
    gpu.driver._held["cuCtxGetCurrent"] = current(("current", library))
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(3):
        add(a, b, c)
        add(a, B=b, C=c)

    assert calls(lambda: add(a, b, c)) == calls(lambda: None)
    assert calls(lambda: add(a, B=b, C=c)) == calls(lambda: None)
    compiled = add.compile(N=64)
    for _ in range(3):
        compiled(a, b, c)
    assert calls(lambda: compiled(a, b, c)) == calls(lambda: None)


def test_gradients_are_refused_on_the_warm_way_too(gpu: FakeDriver, slow: list[Any]) -> None:
    """A tensor that begins to require gradients is refused; where none are recorded it stays
    warm."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(4):
        add(a, b, c)
    assert len(slow) == 2
    a.requires_grad_()
    with pytest.raises(ArgumentError, match="requires gradients"):
        add(a, b, c)
    with torch.no_grad():
        add(a, b, c)
        add(torch.nn.Parameter(a), b, c)
    assert len(slow) == 2
    assert len(gpu.launches) == 6


def test_views_of_other_signs_are_refused_on_the_warm_way_too(
    gpu: FakeDriver, slow: list[Any]
) -> None:
    """Their memory has not the elements that PyTorch shows."""
    add = fresh("add")
    a, b, c = vector(), vector(), vector()
    for _ in range(4):
        add(a, b, c)
    with pytest.raises(ArgumentError, match="other signs than its memory") as caught:
        add(torch._neg_view(a), b, c)
    assert "resolve_neg" in caught.value.hint
    assert len(gpu.launches) == 4
    add(torch._neg_view(a).resolve_neg(), b, c)
    assert len(slow) == 2


def test_operators_are_warm_under_autograd(
    gpu: FakeDriver, slow: list[Any], calls: Callable[[Callable[[], object]], int]
) -> None:
    """The kernel of an operator, and that of its gradients, are answered by the launcher; beside
    the kernel's own call there are few of Python's."""
    forward, backward = fresh("double"), fresh("add_up")
    operator = tileprof.op("launcher_tests::double", backward=backward)(forward)
    a = vector().requires_grad_()
    for _ in range(6):
        operator(a).backward(vector())
    warm_from = len(slow)
    for _ in range(5):
        operator(a).backward(vector())
    assert len(slow) == warm_from
    assert len(gpu.launches) == 22
    plain = vector()
    forward(plain)
    alone = calls(lambda: forward(plain))
    with torch.no_grad():
        assert calls(lambda: operator(a)) - alone <= 6
    assert calls(lambda: operator(a)) - alone <= 8


def test_the_driver_alone_launches_what_a_call_does(gpu: FakeDriver) -> None:
    """In the loop that tells what is the driver's of a call's time; what it refuses is raised."""
    add = fresh("add")
    tensors = [vector() for _ in range(3)]
    add(*tensors)
    bound = add.compile(N=64).bound(*tensors, device="cuda:0")
    gpu.launches.clear()
    assert driver_us(bound, 5) > 0
    assert len(gpu.launches) == 5
    assert gpu.launches[0].words()[:3] == tuple(t.data_ptr() for t in tensors)
    gpu.fails["cuLaunchKernelEx"] = 701
    with pytest.raises(ExecutionError):
        driver_us(bound, 5)


def test_what_the_time_of_a_launch_consists_of(gpu: FakeDriver) -> None:
    """Launches differ in parameters, attributes or streams alone; one that the driver refuses has
    no time."""
    for name, sizes in re.findall(r"void (\w+)\((.*?)\) {", KERNELS):
        count = sizes.count("*") or sizes.count("__grid_constant__")
        size = 8 if "*" in sizes else 128 if name == "maps" else int(name[5:] or 0)
        gpu.sizes[name] = (size,) * count
    plain: list[tuple[Any, Any]] = []

    def launch(function: int, *rest: Any) -> int:
        *_, parameters, extra = rest
        plain.append((parameters, extra))
        return 0

    kinds = (ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
    made = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(launch)

    def found_at(name: str) -> int:
        return address_of(made if name == "cuLaunchKernel" else gpu.driver.function(name))

    gpu.fails["cuStreamGetId"] = 1
    found = variants(gpu.device, parts(gpu.device, b"image", found_at), 2)
    assert found.pop("cuStreamGetId") == {}
    assert all(each["median_us"] >= each["least_us"] > 0 for each in found.values())
    once = gpu.launches[: len(found) - 4]
    assert {sum(map(len, launched.parameters)) for launched in once} == {
        0, 8, 24, 128, 384, 1024, 4000
    }  # fmt: skip
    assert len({launched.stream for launched in once}) == 5
    assert {(launched.cluster, launched.early) for launched in once} == {
        (1, False), (1, True), (2, False), (2, True)
    }  # fmt: skip
    assert {(bool(parameters), bool(extra)) for parameters, extra in plain} == {
        (True, False), (False, True)
    }  # fmt: skip
