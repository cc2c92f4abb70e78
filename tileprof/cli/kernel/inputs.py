"""Arguments for a kernel that the command line calls: from a file, or made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tileprof.errors import UsageError

if TYPE_CHECKING:
    from tileprof.ir import Param
    from tileprof.lang.jit_function import Kernel

SEED = 0
"""Seed of the numbers that fill tensors of floats."""


def arguments(kernel: Kernel, path: str | None) -> dict[str, Any]:
    """Return the kernel's arguments by name: those that the `.npz` file `path` holds, others made.

    A made tensor of floats has normally distributed numbers, one of integers or bools has zeros,
    which are valid indices and lengths; a made scalar is 1.  UsageError for an extent without a
    value, and for an array in the file that is no argument.
    """
    given = {} if path is None else _read(path)
    for name in given:
        if name not in kernel.arguments:
            raise UsageError(
                f"{path} has an array `{name}`, and `{kernel.__name__}` has no such argument",
                hint=f"Its arguments are: {', '.join(kernel.arguments)}.",
            )
    params = {param.name: param for param in kernel.traced.params}
    return {n: given[n] if n in given else _made(params[n]) for n in kernel.arguments}


def _read(path: str) -> Mapping[str, Any]:
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as held:
            if isinstance(held, np.lib.npyio.NpzFile):
                return {name: held[name] for name in held.files}
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}",
            hint="Write it with numpy.savez(FILE, NAME=array, …).",
        ) from None
    except (ValueError, zipfile.BadZipFile):
        pass
    raise UsageError(
        f"{path} is not a file of NumPy arrays",
        hint="Write it with numpy.savez(FILE, NAME=array, …).",
    )


def _made(param: Param) -> Any:
    import numpy as np

    from tileprof import ir

    if not isinstance(param.type, ir.BufferType):
        return 1
    shape, dtype = [n for n in param.type.shape if isinstance(n, int)], param.type.dtype
    unknown = [dim for dim in param.type.shape if isinstance(dim, str)]
    if unknown:
        raise UsageError(
            f"extent `{unknown[0]}` of `{param.name}` has no value",
            hint=f"Give it: --set {unknown[0]}=…, or pass the tensor with --input FILE.npz.",
        )
    if not dtype.is_float:
        return np.zeros(shape, dtype.to_numpy())
    return np.random.default_rng(SEED).standard_normal(shape, np.float32).astype(dtype.to_numpy())


def unknown_extents(kernel: Kernel) -> list[str]:
    """Return the extents of the arguments that have no value."""
    from tileprof import ir

    types = [p.type for p in kernel.traced.params if p.name in kernel.arguments]
    shapes = [type_.shape for type_ in types if isinstance(type_, ir.BufferType)]
    return list(dict.fromkeys(dim for shape in shapes for dim in shape if isinstance(dim, str)))
