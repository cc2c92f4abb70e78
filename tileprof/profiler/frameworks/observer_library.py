"""Libraries for the PyTorch that is imported: compiled once, then from the cache.

In: the module `torch`.  Out: the functions of its observer, and of the watcher of its allocator,
through ctypes. An entry of the cache is named by the library's sources, PyTorch's version and ABI,
and the compiler.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from ctypes import c_char_p, c_int32, c_uint64, c_void_p
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from tileprof.native import FOLDER
from tileprof.native.building import (
    Compiler,
    Order,
    build_library,
    find_compiler,
    is_cached,
    load_library,
    one_at_a_time,
)

Tell: TypeAlias = Callable[[str], None]
"""Function that takes a line for the user."""

_SOURCES = FOLDER / "observer"
_FLAGS = ("-std=c++20", "-O2", "-DNDEBUG", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_PATIENCE = 1.0
"""Seconds of compiling after which the user is told."""


def to_stderr(line: str) -> None:
    """Write a line for the user to stderr, where there is one."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"tileprof: {line}\n")
        sys.stderr.flush()


@contextmanager
def named_apart(recorder: ModuleType, name: str) -> Iterator[None]:
    """Record what happens inside, as compiling a library, as an operation of that name and not as
    time of PyTorch's import."""
    entered = recorder.enter_op(name, -1, 0)
    try:
        yield
    finally:
        recorder.leave(entered)


def load(torch: Any, tell: Tell) -> Any:
    """Return the library. TileprofError where it cannot be built, OSError where not be loaded."""
    compiler = find_compiler()
    if compiler is None:
        raise OSError("there is no C++ compiler")
    shared = (
        FOLDER / "recorder" / "host" / name for name in ("observer_api.h", "thread_pointer.h")
    )
    headers = (*_SOURCES.glob("*.h"), *shared)
    order = extension(torch, compiler, _SOURCES / "observer.cpp", "the PyTorch observer", headers)
    library = _loaded(torch, order, tell)
    library.tileprof_observer_start.restype = c_uint64
    library.tileprof_observer_start.argtypes = (c_void_p, c_int32, c_int32)
    library.tileprof_observer_thread.restype = None
    library.tileprof_observer_stop.restype = None
    library.tileprof_observer_stop.argtypes = (c_uint64,)
    library.tileprof_observer_count_work.restype = c_int32
    library.tileprof_again_begin.restype = c_int32
    library.tileprof_again_end.restype = None
    library.tileprof_again_end.argtypes = (c_int32,)
    return library


def load_memory(torch: Any, tell: Tell) -> Any:
    """Return the library that watches the allocator of CUDA memory; errors as those of `load`."""
    compiler = find_compiler()
    if compiler is None:
        raise OSError("there is no C++ compiler")
    cuda = cuda_headers(Path(torch.__file__).parent.parent)
    if cuda is None:
        raise OSError(
            "there are no headers of CUDA (cuda_runtime_api.h); they come with CUDA's toolkit,"
            " which CUDA_HOME names, and with Triton"
        )
    headers = (FOLDER / "recorder" / "records" / "memory_api.h",)
    source, noun = _SOURCES / "memory.cpp", "the watcher of PyTorch's allocator"
    library = _loaded(torch, extension(torch, compiler, source, noun, headers, cuda), tell)
    library.tileprof_memory_start.restype = c_char_p
    library.tileprof_memory_start.argtypes = (c_void_p,)
    library.tileprof_memory_stop.restype = None
    return library


def cuda_headers(packages: Path) -> Path | None:
    """Return the folder of the headers of CUDA's runtime; None where there are none.

    `packages` is the folder of installed packages that PyTorch is in. The packages that PyTorch
    requires lack a header that the others include, which the toolkit and Triton have.
    """
    toolkits = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    folders = [
        *(Path(toolkit) / "include" for toolkit in toolkits if toolkit),
        *sorted((packages / "nvidia").glob("*/include")),
        packages / "triton" / "backends" / "nvidia" / "include",
        Path("/usr/local/cuda/include"),
    ]
    needed = ("cuda.h", "cuda_runtime_api.h", "crt/host_defines.h")
    return next((each for each in folders if all((each / name).exists() for name in needed)), None)


def _loaded(torch: Any, order: Order, tell: Tell) -> Any:
    if not is_cached(order):
        line = f"compiling {order.noun} for {torch.__version__}, once"
        with _telling(tell, line), one_at_a_time(order):
            build_library(order)
    # What it refers to is in libraries of PyTorch's that are loaded, under the same names.
    return load_library(order, ctypes.CDLL)


def extension(
    torch: Any,
    compiler: Compiler,
    source: Path,
    noun: str,
    headers: Iterable[Path] = (),
    cuda: Path | None = None,
) -> Order:
    """Return the order of a library in C++ that fits a PyTorch; OSError if that has no headers.

    With the folder of CUDA's headers, `cuda`, it may use the parts of PyTorch that need CUDA.
    """
    folder = Path(torch.__file__).parent
    includes = (folder / "include", folder / "include" / "torch" / "csrc" / "api" / "include")
    if not (folder / "include" / "ATen" / "record_function.h").exists():
        raise OSError(f"PyTorch {torch.__version__} came without its C++ headers")
    abi = int(torch.compiled_with_cxx11_abi())
    version = torch.version
    built_as = (torch.__version__, version.git_version, version.cuda, getattr(version, "hip", None))
    return Order(
        f"torch-{source.stem}",
        source.read_text(),
        replace(compiler, flags=(*_FLAGS, f"-D_GLIBCXX_USE_CXX11_ABI={abi}")),
        parts=(*(path.read_text() for path in sorted(headers)), repr(built_as)),
        options=(
            f"-I{source.parent}",
            *(f"-isystem{path}" for path in (*includes, *((cuda,) if cuda else ()))),
            f"-L{folder / 'lib'}",
        ),
        libraries=("-ltorch_cpu", "-lc10", *(("-lc10_cuda",) if cuda else ())),
        noun=noun,
    )


@contextmanager
def _telling(tell: Tell, line: str) -> Iterator[None]:
    """Tell the user what takes so long, once it has."""
    timer = threading.Timer(_PATIENCE, tell, (line,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
