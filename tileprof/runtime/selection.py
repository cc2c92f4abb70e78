"""Choice of the device that a call runs on: that of its arguments, unless overridden."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tileprof.errors import ArgumentError, UsageError
from tileprof.once import once

from .arguments import TensorSpec

chosen: ContextVar[str | None] = ContextVar("tileprof_device", default=None)
"""Device that `device` names, None outside of it."""
ever_chosen = ctypes.c_int32(0)
"""1 once `device` has been used: until then, nobody has to ask."""
_NAME = re.compile(r"interpreter|cpu|cuda(:\d+)?")


def parse_device(name: str) -> str:
    """Return the device's full name; UsageError for one that does not exist."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"there is no device `{name}`", hint="Devices are: interpreter, cpu, cuda, cuda:N."
        )
    return "cuda:0" if name == "cuda" else name


def gpu_number(name: str) -> int:
    """Return the number of the GPU that a device names: N of `cuda:N`, 0 of `cuda`."""
    return int(name.partition(":")[2] or 0)


def environment_device() -> str:
    """Return the device that `TILEPROF_DEVICE` names, '' without it; UsageError for no device."""
    name = os.environ.get("TILEPROF_DEVICE", "")
    try:
        return parse_device(name) if name else ""
    except UsageError as error:
        raise UsageError(f"TILEPROF_DEVICE: {error.message}", hint=error.hint) from None


@contextmanager
def device(name: str) -> Iterator[None]:
    """Run the kernels that are called inside a `with` block on a device.

    `name` is "interpreter" (checks every access), "cpu", "cuda" or "cuda:N".

        with tileprof.device("cuda"):
            y = kernel(x)   # host arrays are copied to the GPU and back
    """
    ever_chosen.value = 1
    token = chosen.set(parse_device(name))
    try:
        yield
    finally:
        chosen.reset(token)


def choose(specs: Iterable[TensorSpec]) -> str:
    """Return the device for a call with these arguments. First `with tileprof.device(…)`, then
    `TILEPROF_DEVICE`, then where the arguments are: host arrays go to `cpu`, or to the interpreter
    where no C++ compiler is found."""
    name = chosen.get() or environment_device()
    if name:
        return name
    places = {s.device for s in specs}
    if len(places) > 1:
        raise ArgumentError(
            f"the arguments are on several devices: {', '.join(sorted(places))}",
            hint="Move them to one device.",
        )
    return _host_device() if places <= {"cpu"} else places.pop()


@once
def _host_device() -> str:
    from tileprof.compiler.build import find_compiler

    if find_compiler() is not None:
        return "cpu"
    sys.stderr.write(
        "tileprof: no C++ compiler found; kernels run in the interpreter "
        "(install g++ or clang++, or set CXX)\n"
    )
    return "interpreter"
