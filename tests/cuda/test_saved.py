"""Kernels in files: what is written is what runs, on a driver that records."""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.cuda import runtime_kernels as kernels
from tests.cuda.fake_driver import FakeDriver
from tileprof import ir
from tileprof.compiler.codegen import Place
from tileprof.compiler.cuda import images
from tileprof.compiler.cuda.source import Argument, LaunchSpec, TensorMapSpec
from tileprof.errors import ArgumentError, Location, OutputError, UsageError
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.copies import Converts, CpAsyncCandidate, TmaStore
from tileprof.runtime.cuda import device as cuda_device
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.binary_file import read_binary, write_binary
from tileprof.runtime.cuda.host_values import HostProgram

torch: Any = pytest.importorskip("torch")

HALF = ir.dtype("float16")


def made(kernel: ir.Kernel, target: str, *, general: bool, ptx: bool) -> CudaBinary:
    """What a compiler would give; its threads say which variant it is."""
    launch = next(o for o in kernel.body.ops if isinstance(o, ir.Launch))
    arguments = [
        Argument("scalar", at, p.type) if isinstance(p.type, ir.DType) else Argument("pointer", at)
        for at, p in enumerate(kernel.params)
    ]
    arguments += [Argument("symbol", at, ir.dtype("index")) for at in range(len(kernel.symbols))]
    param, symbol = kernel.params[0], kernel.symbols[0] if kernel.symbols else 5
    held = TensorMapSpec(0, param.type.dtype, (symbol, 8), ((symbol, 2), 1), (64, 32), 128)  # type: ignore[union-attr]
    maps = (held,) if general else ()
    spec = LaunchSpec("k", tuple(arguments), maps, (), 128 + 32 * general + 64 * ptx, 1000, 1, 2)
    inner = Location("a.py", 2, 3, 4, 5, "f", Location("b.py", 1))
    places = (Place("assert", inner, "no", "A", ("M", 3), 1, "read", (4, "N"), HALF, ("i",)),)
    remarks = (
        Remark(
            TmaStore("evict_first"),
            "copy",
            "",
            inner,
            (Rejection(CpAsyncCandidate(), Converts("a", "b")),),
            "missed",
        ),
    )
    host = HostProgram.of(kernel, launch.grid)
    axes = (len(launch.grid),)
    return CudaBinary(target.encode(), (spec,), places, host, axes, target, "text", remarks)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, int]], FakeDriver]:
    """A GPU of a compute capability, and a compiler for it."""

    def compile_cuda(kernel: Any, target: Any, _: Any, unaligned: Any, *, aliased: bool) -> Any:
        assert bool(unaligned) == aliased
        return SimpleNamespace(target=target.name, general=aliased)

    def of(kernel: ir.Kernel, program: Any, *, ptx: bool) -> CudaBinary:
        return made(kernel, program.target, general=program.general, ptx=ptx)

    # These images are no machine code; `test_saved_trust.py` has some.
    monkeypatch.setattr(images, "check_image", lambda *given: None)
    stub = SimpleNamespace(compile_cuda=compile_cuda)
    monkeypatch.setitem(sys.modules, "tileprof.compiler.cuda.pipeline", stub)
    monkeypatch.setattr(CudaBinary, "of", of)
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 0)

    def device(capability: tuple[int, int]) -> FakeDriver:
        fake = FakeDriver(capability)
        fake.sizes["k"] = (8, 8)
        monkeypatch.setattr(cuda_device, "find_device", lambda number: fake.device)
        return fake

    return device


def test_binaries_are_read_as_they_were_written() -> None:
    """Every field, through the text of JSON."""
    kernel = kernels.scale.compile().program.kernel
    binary = made(kernel, "sm_80", general=True, ptx=True)
    held = json.loads(json.dumps(write_binary(binary)))
    again = read_binary(held, binary.image, kernel)
    for name in ("image", "launches", "places", "axes", "target", "text", "remarks"):
        assert getattr(again, name) == getattr(binary, name), name
    values = [None, None, 0.5, 3]
    for symbols in ((3, 64), (7, 65)):
        grid = (-(-symbols[1] // 64), symbols[0])
        assert again.host.run(values, symbols) == binary.host.run(values, symbols) == grid


@pytest.mark.parametrize(
    ("capability", "targets", "threads", "image"),
    [
        ((9, 0), (), 128, b"sm_90a"),
        ((9, 0), ("sm_80",), 192, b"sm_80"),
        ((8, 6), ("sm_80", "sm_90a"), 128, b"sm_80"),
        ((10, 0), ("sm_90a", "sm_80"), 192, b"sm_80"),
    ],
)
def test_a_saved_kernel_runs(
    gpu: Any, tmp_path: Path, capability: Any, targets: Any, threads: int, image: bytes
) -> None:
    """The right image for the GPU; outputs are allocated, arguments checked."""
    fake = gpu(capability)
    path = tmp_path / "double.tpk"
    kernels.double.compile(N=1000).save(path, targets)
    fake.sizes["k"] = (8, 8)
    loaded = tileprof.load_kernel(path)
    a = torch.zeros(1000)
    with tileprof.device("cuda:0"):
        out = loaded(a)
        launched = fake.launches[-1]
        assert launched.words() == (a.data_ptr(), out.data_ptr())
        assert (launched.grid, launched.block) == ((16, 1, 1), (threads, 1, 1))
        assert out.shape == (1000,)
        with pytest.raises(ArgumentError, match="has 999 in dimension 0, and 1000 is expected"):
            loaded(torch.zeros(999))
        odd = torch.zeros(1001)[1:]
        loaded(odd)
        assert fake.launches[-1].block == (threads + 32, 1, 1)
    assert loaded.arguments == ("A",)


def test_extents_that_follow_from_others(gpu: Any, tmp_path: Path) -> None:
    """Symbols that a call computes are computed by the file's own text."""
    fake = gpu((9, 0))
    path = tmp_path / "sums.tpk"
    kernel = kernels.sums.compile()
    kernel.save(path)
    symbols = len(kernel.traced.symbols)
    fake.sizes["k"] = (8,) * (2 + symbols)
    with tileprof.device("cuda:0"):
        out = tileprof.load_kernel(path)(torch.zeros(130))
    assert out.shape == (3,)
    assert fake.launches[-1].grid == (3, 1, 1)


def test_on_the_host(gpu: Any, tmp_path: Path) -> None:
    """Host arrays run there, from the program in the file."""
    gpu((9, 0))
    path = tmp_path / "double.tpk"
    kernels.double.compile(N=100).save(path)
    a = np.arange(100, dtype=np.float32)
    with tileprof.device("interpreter"):
        assert np.array_equal(tileprof.load_kernel(path)(a), a * 2)


def test_another_gpu(gpu: Any, tmp_path: Path) -> None:
    """What a file lacks is said with the way to get it."""
    gpu((9, 0))
    path = tmp_path / "double.tpk"
    kernels.double.compile(N=100).save(path, ["sm_90a"])
    gpu((8, 0))
    with (
        tileprof.device("cuda:0"),
        pytest.raises(UsageError, match="is for sm_90a, and Fake GPU needs sm_80"),
    ):
        tileprof.load_kernel(path)(torch.zeros(100))


@pytest.mark.parametrize("kind", ["missing", "text", "cut", "foreign", "later"])
def test_files_that_are_none(gpu: Any, tmp_path: Path, kind: str) -> None:
    """Each is one sentence."""
    gpu((9, 0))
    path = tmp_path / "k.tpk"
    kernels.double.compile(N=100).save(path)
    content = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "text":
        path.write_text("hello")
    elif kind == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        with zipfile.ZipFile(path) as archive:
            held = json.loads(archive.read("kernel.json"))
        held |= {"format": "x"} if kind == "foreign" else {"version": 99}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("kernel.json", json.dumps(held))
    wanted = {
        "missing": "there is no file",
        "foreign": "is not a kernel of tileprof",
        "later": "was written by a later version",
    }.get(kind, "is not a kernel of tileprof, or damaged")
    with pytest.raises(UsageError, match=wanted):
        tileprof.load_kernel(path)


@pytest.mark.parametrize("kind", ["pointer", "report"])
def test_a_file_of_an_earlier_version(gpu: Any, tmp_path: Path, kind: str) -> None:
    """What it says to the host lies elsewhere today; one that says nothing runs."""
    gpu((9, 0))
    path = tmp_path / "k.tpk"
    kernels.double.compile(N=100).save(path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    held = json.loads(files["kernel.json"]) | {"version": 1}
    held["variants"][0]["launches"][0]["arguments"][1]["kind"] = kind
    files["kernel.json"] = json.dumps(held).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    if kind == "pointer":
        assert tileprof.load_kernel(path).arguments == ("A",)
    else:
        with pytest.raises(UsageError, match="was written by an earlier version"):
            tileprof.load_kernel(path)


def test_unwritable(gpu: Any, tmp_path: Path) -> None:
    """A folder that is not there."""
    gpu((9, 0))
    with pytest.raises(OutputError, match="cannot be written to"):
        kernels.double.compile(N=100).save(tmp_path / "no" / "k.tpk")
