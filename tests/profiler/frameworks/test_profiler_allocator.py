"""PyTorch's allocator, watched: the library on a played allocator, and when it is built."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.native.cupti_programs import compile_cpp
from tileprof.native import FOLDER
from tileprof.native.building import find_compiler
from tileprof.profiler.frameworks import allocator
from tileprof.profiler.frameworks.observer_library import cuda_headers, extension

recorder = pytest.importorskip("tileprof.native._recorder")

SOURCE = FOLDER / "observer" / "memory.cpp"
PLAYED = Path(__file__).parent / "played_allocator"
ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
           "segment_map", "segment_unmap", "snapshot", "oom")  # fmt: skip


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, linked with an allocator that a test plays."""
    if shutil.which("g++") is None:
        pytest.skip("could not import 'g++': no compiler")
    library = tmp_path_factory.mktemp("allocator") / "memory.so"
    compile_cpp([SOURCE, PLAYED / "allocator.cpp"], library, "-fPIC", "-shared", f"-I{PLAYED}")
    return library


@pytest.fixture
def library(built: Path, tmp_path: Path) -> Iterator[Any]:
    """A copy of it, to which nothing is attached yet."""
    copy = tmp_path / "memory.so"
    shutil.copy(built, copy)
    library = ctypes.CDLL(str(copy))
    library.tileprof_memory_start.restype = ctypes.c_char_p
    library.tileprof_memory_start.argtypes = (ctypes.c_void_p,)
    recorder.memory_forget()
    recorder.set_frames(False)
    recorder.set_epoch(1)
    yield library
    library.tileprof_memory_stop()
    recorder.set_epoch(0)
    recorder.set_frames(True)
    recorder.memory_forget()


def tell(library: Any, action: str, address: int, size: int, device: int = 0) -> None:
    """Have the allocator tell what it did."""
    numbers = map(ctypes.c_uint64, (address, size))
    library.played_event(ACTIONS.index(action), device, *numbers)


def pool(device: int = 0) -> dict[str, Any]:
    """Return what is known of a device's memory."""
    pools = recorder.memory_state()[0]["pools"]
    return dict(next(each for each in pools if each["device"] == device))


def test_events_of_the_allocator_reach_the_recorder(library: Any) -> None:
    """A release counts when it is complete; what was there before is known."""
    assert library.tileprof_memory_start(recorder.memory_table()) is None
    tell(library, "segment_alloc", 0x1000, 2 << 20)
    tell(library, "alloc", 0x1000, 300)
    tell(library, "alloc", 0x2000, 500, device=1)
    tell(library, "free_requested", 0x1000, 300)
    assert (pool()["live"], pool()["reserved"]) == (1000, 4096 + (2 << 20))
    tell(library, "free_completed", 0x1000, 300)
    tell(library, "segment_map", 0x9000, 1 << 20)
    tell(library, "segment_unmap", 0x9000, 1 << 20)
    tell(library, "segment_free", 0x1000, 2 << 20)
    tell(library, "snapshot", 0, 0)
    tell(library, "oom", 12345, 1 << 40)
    assert (pool()["live"], pool()["peak"], pool()["reserved"]) == (700, 1000, 4096)
    assert (pool()["failures"], pool()["most_failed"]) == (1, 1 << 40)
    assert pool(1)["live"] == 500


def test_tracker_is_attached_once_and_silent_after_a_stop(library: Any) -> None:
    """PyTorch lets go of none."""
    for _ in range(2):
        assert library.tileprof_memory_start(recorder.memory_table()) is None
        library.tileprof_memory_stop()
    assert library.played_trackers() == 1
    recorder.memory_forget()
    tell(library, "alloc", 1, 300)
    assert recorder.memory_state()[0]["pools"] == []


def test_allocator_without_trackers_is_refused_in_words(library: Any) -> None:
    """As `cudaMallocAsync`; nothing is passed on then."""
    library.played_refuses(1)
    problem = library.tileprof_memory_start(recorder.memory_table())
    assert problem.decode().splitlines()[0] == "cudaMallocAsync has no trackers"


def test_library_compiles_with_pytorchs_headers(tmp_path: Path) -> None:
    """Those that are installed, and CUDA's where there are any."""
    torch = pytest.importorskip("torch")
    folder = Path(torch.__file__).parent
    cuda = cuda_headers(folder.parent)
    compiler = find_compiler()
    if cuda is None or compiler is None:
        pytest.skip("could not import 'cuda_runtime_api.h': no headers of CUDA")
    # A PyTorch that is built without CUDA lacks a header that says how it was built.
    made = tmp_path / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    made.parent.mkdir(parents=True)
    made.touch()
    order = extension(torch, compiler, SOURCE, "the watcher", cuda=cuda)
    done = subprocess.run(
        [compiler.path, *order.compiler.flags, *order.options, f"-isystem{tmp_path}",
         "-fsyntax-only", str(SOURCE)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert order.libraries[-1] == "-lc10_cuda"


def test_headers_of_cuda_are_complete_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages that PyTorch requires lack one that Triton brings."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    runtime = tmp_path / "nvidia" / "cu13" / "include"
    triton = tmp_path / "triton" / "backends" / "nvidia" / "include"
    for folder in (runtime, triton):
        (folder / "crt").mkdir(parents=True)
        for name in ("cuda.h", "cuda_runtime_api.h"):
            (folder / name).touch()
    (triton / "crt" / "host_defines.h").touch()
    assert cuda_headers(tmp_path) == triton
    (runtime / "crt" / "host_defines.h").touch()
    assert cuda_headers(tmp_path) == runtime
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "toolkit"))
    assert cuda_headers(tmp_path) == runtime


class PlayedTorch(SimpleNamespace):
    """A PyTorch that is imported and has not begun to use CUDA."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        cuda = SimpleNamespace(_lazy_call=self.waiting.append)
        super().__init__(version=SimpleNamespace(cuda="13.0"), cuda=cuda, __spec__=None)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedTorch]:
    """It takes the place of the real one."""
    played = PlayedTorch()
    monkeypatch.setitem(sys.modules, "torch", played)
    monkeypatch.setattr(allocator, "_library", None)
    monkeypatch.setattr(allocator, "_reason", "")
    yield played
    allocator.detach()


def test_allocator_is_watched_once_the_program_uses_cuda(
    torch: PlayedTorch, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which watching it does not begin; not after the recording has ended."""
    monkeypatch.setattr(allocator, "load_memory", lambda torch, tell: library)
    allocator.attach()
    assert library.played_trackers() == 0
    torch.waiting[0]()
    tell(library, "alloc", 1, 300)
    assert (library.played_trackers(), pool()["live"]) == (1, 1000)
    allocator.detach()
    tell(library, "alloc", 2, 300)
    assert pool()["live"] == 1000
    torch.waiting[0]()
    tell(library, "alloc", 3, 300)
    assert pool()["live"] == 1000
    assert allocator.why_not() == ""


def test_reasons_why_memory_is_not_recorded_are_kept(
    torch: PlayedTorch, library: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Missing headers, and an allocator without trackers."""

    def missing(torch: Any, tell: Any) -> Any:
        raise OSError("there are no headers of CUDA")

    monkeypatch.setattr(allocator, "load_memory", missing)
    allocator.attach()
    assert allocator.why_not() == "there are no headers of CUDA"
    allocator.detach()
    library.played_refuses(1)
    monkeypatch.setattr(allocator, "load_memory", lambda torch, tell: library)
    allocator.attach()
    torch.waiting[0]()
    assert allocator.why_not() == "cudaMallocAsync has no trackers"
