"""One call of a kernel on every device: what each of them returns.

With `TILEPROF_TEST_GPU=1` in the environment a GPU is one of them: that runs tests of the language,
which need none, on it as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

import tileprof
from tileprof import ir
from tileprof.compiler.build import find_compiler
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.lang.jit_function import JitFunction
from tileprof.runtime.cuda.tensor_maps import fitting

__all__ = ["compiled_for", "results_everywhere"]

Array = np.ndarray[Any, Any]


def compiled_for(
    kernel: ir.Kernel,
    target: str,
    controls: Controls | None,
    extents: Mapping[str, int],
    unaligned: frozenset[int] = frozenset(),
    **options: Any,
) -> CudaProgram:
    """The variant that a GPU runs on tensors that are aligned but for some parameters, given the
    values of symbols: the first one copies rows as if they were multiples of 16 bytes."""
    _, program = fitting(
        lambda some: compile_cuda(kernel, find_target(target), controls, some, **options),
        lambda program: program.source.launches,
        extents,
        unaligned,
    )
    return program


def arrays_of(kernel: ir.Kernel) -> frozenset[int]:
    """Positions of a kernel's tensors."""
    return frozenset(
        at for at, param in enumerate(kernel.params) if isinstance(param.type, ir.BufferType)
    )


def hardly_aligned(values: Sequence[Any]) -> list[Any]:
    """The arguments with contiguous arrays at multiples of one element and of no more."""
    made = []
    for value in values:
        if isinstance(value, np.ndarray) and value.flags.c_contiguous:
            size = value.itemsize
            memory = np.zeros(value.nbytes + 64, np.uint8)
            start = -memory.ctypes.data % 32 + size
            moved = memory[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
            moved[...] = value
            value = moved
        made.append(value)
    return made


def results_everywhere(
    function: JitFunction, arrays: Sequence[Array], debug: bool = True, **static: Any
) -> Iterator[tuple[str, list[Array]]]:
    """Yield (device, outputs) of an eager kernel on copies of `arrays`, the interpreter's first.

    The emulated GPU takes outputs filled with 77, so that what nobody writes shows.  Without
    `debug`, the kernel is not run as plain Python.
    """
    for device in ("interpreter", "cpu") if find_compiler() else ("interpreter",):
        with tileprof.device(device):
            yield device, _listed(function(*_copies(arrays), **static))
    if debug:
        plain = tileprof.jit(function.function, debug=True)
        yield "debug", _listed(plain(*_copies(arrays), **static))
    if find_compiler():
        yield "emulated sm_90a", _emulated(function, arrays, static)
    # Without tensors nothing says that a call is for a GPU.
    if arrays and os.environ.get("TILEPROF_TEST_GPU") == "1":
        yield "GPU", _on_gpu(function, arrays, static)


def _emulated(
    function: JitFunction, arrays: Sequence[Array], static: dict[str, Any]
) -> list[Array]:
    compiled = function.compile(*arrays, **static)
    traced, kernel = compiled.traced, compiled.program.kernel
    given, values = iter(_copies(arrays)), []
    symbols: dict[str, int] = {}
    for param in traced.params:
        assert isinstance(param.type, ir.BufferType)
        if param.role == "in":
            values.append(next(given))
            named = zip(param.type.shape, values[-1].shape, strict=True)
            symbols |= {dim: extent for dim, extent in named if isinstance(dim, str)}
        else:
            shape = [symbols[d] if isinstance(d, str) else d for d in param.type.shape]
            values.append(np.full(shape, 77, param.type.dtype.to_numpy()))
    program = compiled_for(kernel, "sm_90a", None, symbols)
    emulate(program.source, kernel, values, symbols)
    return [v for v, p in zip(values, traced.params, strict=True) if p.role == "out"]


def _on_gpu(function: JitFunction, arrays: Sequence[Array], static: dict[str, Any]) -> list[Array]:
    import torch

    def moved(array: Array) -> Any:
        # NumPy types of other packages are nothing that PyTorch knows.
        known = array.dtype.isbuiltin == 1
        held = torch.from_numpy((array if known else array.view(f"i{array.itemsize}")).copy())
        return (held if known else held.view(getattr(torch, array.dtype.name))).cuda()

    def fetched(tensor: Any) -> Array:
        name = str(tensor.dtype).removeprefix("torch.")
        if name == "bfloat16" or name.startswith("float8"):
            held = tensor.view(torch.int16 if name == "bfloat16" else torch.int8).cpu().numpy()
            return np.asarray(held.view(getattr(ml_dtypes, name)))
        return np.asarray(tensor.cpu().numpy())

    return [fetched(each) for each in _listed(function(*map(moved, arrays), **static))]


def _copies(arrays: Sequence[Array]) -> list[Array]:
    return [a.copy() for a in arrays]


def _listed(made: Any) -> list[Array]:
    return list(made) if isinstance(made, tuple) else [made]
