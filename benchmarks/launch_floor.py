"""Time that the driver alone takes to enqueue a kernel, in µs: the least that any launcher pays.

In: a call of a compiled kernel that is bound to its arguments, and the times that it is made.  Out:
µs a launch of `cuLaunchKernelEx` in a loop of C, with the parameters and the configuration that
calls from Python have.
"""

from __future__ import annotations

import ctypes
from typing import Any

from tileprof.compiler.build import find_compiler
from tileprof.errors import InternalError
from tileprof.lang.calls import BoundCall
from tileprof.native.building import Order, load_library
from tileprof.once import once

__all__ = ["driver_us"]

_TEXT = """
#include <time.h>

typedef int Launch(const void *config, void *function, void **parameters, void **extra);

static double now_us() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e6 * double(t.tv_sec) + 1e-3 * double(t.tv_nsec);
}

// µs a launch; the driver's code, negative, where it refuses one.
extern "C" __attribute__((visibility("default"))) double
launch_us(Launch *launch, const void *config, void *function, void **parameters, int count) {
  const double began = now_us();
  for (int i = 0; i < count; ++i)
    if (const int code = launch(config, function, parameters, nullptr)) return -code;
  return (now_us() - began) / count;
}
"""


@once
def _library() -> Any:
    compiler = find_compiler()
    if compiler is None:
        raise InternalError("there is no C++ compiler")
    library = load_library(Order("launch_floor", _TEXT, compiler), ctypes.CDLL)
    library.launch_us.restype = ctypes.c_double
    library.launch_us.argtypes = (*[ctypes.c_void_p] * 4, ctypes.c_int)
    return library


def driver_us(bound: BoundCall, count: int) -> float:
    """Return the µs that the driver takes for each of so many launches, which must fit into the
    device's queue; of a call of several launches, for all of them."""
    executable: Any = bound.loaded.executable
    prepared = executable.prepare(bound.values, bound.symbols)
    if prepared is None:
        raise InternalError(f"`{executable.kernel.name}` does more in a call than to launch")
    launch = ctypes.cast(executable.device.driver.launch, ctypes.c_void_p)
    total = 0.0
    for function, call in zip(*prepared, strict=True):
        frame = function.frame(call)
        took = float(
            _library().launch_us(launch, frame.launch, function.handle, frame.parameters, count)
        )
        if took < 0:
            executable.refuse(round(-took))
        total += took
    return total
