"""The way into an operator of PyTorch without Python: who hears of a call.

In: which arguments of an operator are tensors.  Out: a function from the tuple of arguments to
whether gradients are recorded, None where others than autograd hear of a call: modes, transforms,
profilers, subclasses of tensors, a listener to launches.  Structures are those of
`native/launcher/gate.h`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_int32, c_void_p, py_object
from pathlib import Path
from typing import Any

from tileprof.once import once
from tileprof.runtime import hooks

from .object_layout import Layout, address_of, find_objects

_ASKED = (
    ("libc10.so", "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv"),
    ("libtorch_cpu.so", "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv"),
    ("libc10.so", "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE"),
    ("libtorch_cpu.so", "_ZN5torch8profiler4impl15profilerEnabledEv"),
)
"""Libraries of PyTorch and functions in them: the number of modes and of function modes, whether a
dispatch key is included, and whether a profiler is on."""


class _Gate(ctypes.Structure):
    _fields_ = (
        *((name, py_object) for name in (
            "none", "yes", "no", "tensor", "parameter", "hooks", "listener"
        )),
        *((name, c_void_p) for name in (
            "modes", "function_modes", "is_included", "is_profiling", "requires_grad",
            "grad_enabled",
        )),
        ("layout", Layout), ("tensors", POINTER(c_int32)), ("tensor_count", c_int32),
        ("count", c_int32), ("transforms", c_int32),
    )  # fmt: skip


def gate(tensors: Sequence[int], count: int) -> Callable[[tuple[Any, ...]], bool | None] | None:
    """Return the gate of an operator of `count` arguments, those at `tensors` being tensors; None
    where no kernel of this process has a launcher, or this PyTorch hides what a gate asks."""
    launching = sys.modules.get(f"{__package__}.native_launcher")
    library = None if launching is None else launching.launcher_library()
    if library is None or not (asked := _asked()):
        return None
    objects = find_objects()
    assert objects is not None, "without it there is no launcher"
    torch = sys.modules["torch"]
    recipe = _Gate(
        None, True, False, torch.Tensor, torch.nn.Parameter, vars(hooks), "listener", *asked,
        objects.requires_grad, objects.grad_enabled, objects.layout,
        (c_int32 * max(len(tensors), 1))(*tensors), len(tensors), count,
        int(torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode),
    )  # fmt: skip
    made: Callable[[tuple[Any, ...]], bool | None] = library.tp_launcher_gate(ctypes.byref(recipe))
    return made


@once
def _asked() -> tuple[int, ...]:
    """Return the addresses of what a gate asks, in the order of `_ASKED`; none without all."""
    folder = Path(str(sys.modules["torch"].__file__)).parent / "lib"
    try:
        return tuple(address_of(getattr(ctypes.CDLL(str(folder / f)), name)) for f, name in _ASKED)
    except (OSError, AttributeError):
        return ()
