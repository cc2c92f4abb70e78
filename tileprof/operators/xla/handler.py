"""The handler that XLA calls where its program calls a kernel, and the kernels that it knows.

In: a call's frame: the addresses of arrays, on a GPU a stream, and a digest.  Out: a launch of the
kernel with this digest; an error of tileprof's becomes one of XLA's with the same text.

The handler is Python behind a C function that ctypes makes, so nothing has to be compiled.  A call
is known by a digest of what it does and never by a number: JAX can keep compiled programs on disk,
and another process must not find another kernel under the same number.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.errors import InternalError, MissingDependencyError
from tileprof.lang.calls import Plan, place
from tileprof.lang.jit_function import JitFunction
from tileprof.once import Kept, once
from tileprof.runtime.arguments import TensorSpec

from . import abi

TARGET = "tileprof_kernel"
"""Name of the handler in XLA's programs."""
ATTRIBUTE = "call"
"""Name of the attribute that holds the digest."""


@dataclass(frozen=True, slots=True)
class Array:
    """The type of an array."""

    shape: tuple[int, ...]
    kind: ir.DType

    def spec(self, device: str) -> TensorSpec:
        """Return what a kernel may know of it on a device."""
        return TensorSpec(self.kind, self.shape, None, device, "jax")

    def zeros(self) -> Any:
        """Return zeros of this type."""
        import jax.numpy

        return jax.numpy.zeros(self.shape, self.kind.to_numpy())


class Call:
    """A kernel with its arguments; arrays are known by type."""

    def __init__(self, kernel: JitFunction, arguments: Sequence[Any]) -> None:
        self.kernel = kernel
        self.arguments = tuple(arguments)
        self._arrays = [at for at, a in enumerate(arguments) if isinstance(a, Array)]
        self._plans: Kept[Any, Plan] = Kept()

    def plan(self, device: str) -> Plan:
        """Return its plan on a device, compiled."""
        specs = [a.spec(device) if isinstance(a, Array) else None for a in self.arguments]
        where = place([s for s in specs if s is not None])
        return self._plans.made(where, lambda: self.kernel.planned(self.arguments, specs, where))

    def digest(self, plan: Plan) -> str:
        """Return a name for what it does."""
        kernel = plan.variant.traced.kernel
        parts = (ir.print_kernel(kernel), repr(plan.variant.options), repr(self.arguments))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def run(self, frame: abi.Frame, device: str, stream: int | None) -> None:
        """Launch on the arrays of a frame."""
        plan = self.plan(device)
        given = list(self.arguments)
        for at, pointer in zip(self._arrays, _buffers(frame.arguments), strict=True):
            given[at] = _array(pointer, given[at], stream, writable=False)
        types = plan.results(self.arguments)
        results = [
            _array(pointer, Array(shape, kind), stream, writable=True)
            for pointer, (shape, kind) in zip(_buffers(frame.results), types, strict=True)
        ]
        plan.launch_into(given, results)


class GpuArray:
    """An array on a GPU, whose work is enqueued on XLA's stream."""

    is_cuda = True

    def __init__(self, address: int, stream: int) -> None:
        self._address = address
        self.__cuda_array_interface__ = {"stream": stream}

    def data_ptr(self) -> int:
        """Return its address."""
        return self._address


_calls: Kept[str, Call] = Kept()


def known(call: Call, plan: Plan) -> str:
    """Return the digest of a call, under which the handler finds it from now on."""
    digest = call.digest(plan)
    _calls.made(digest, lambda: call)
    return digest


@once
def register() -> None:
    """Register the handler for processors and for CUDA; MissingDependencyError for a jaxlib of
    another API."""
    import jax

    _check_version(jax)
    for platform, on_gpu in (("cpu", False), ("CUDA", True)):
        handler = abi.Handler(partial(_handle, on_gpu))
        _kept.append(handler)
        pointer = ctypes.cast(handler, ctypes.c_void_p).value
        jax.ffi.register_ffi_target(TARGET, jax.ffi.pycapsule(pointer), platform=platform)


_kept: list[Any] = []
"""Handlers, which XLA calls for as long as the process lives."""
_minor = abi.MINOR


def _check_version(jax: Any) -> None:
    """Read the version of the installed API; answers of handlers may not claim a later one."""
    global _minor
    header = Path(jax.ffi.include_dir()) / "xla" / "ffi" / "api" / "c_api.h"
    found = {}
    with suppress(OSError):
        found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header.read_text()))
    major, minor = int(found.get("MAJOR", abi.MAJOR)), int(found.get("MINOR", abi.MINOR))
    if major != abi.MAJOR:
        raise MissingDependencyError(
            f"jaxlib has version {major}.{minor} of XLA's FFI, and tileprof knows "
            f"{abi.MAJOR}.{abi.MINOR}",
            hint="Install a jaxlib of the same major version: pip install jax==0.10.2.",
        )
    _minor = min(minor, abi.MINOR)


def _handle(on_gpu: bool, pointer: Any) -> int | None:
    """Answer a call of XLA's."""
    frame = pointer.contents
    if frame.extension and _is_question(frame.extension):
        return None
    if frame.stage != abi.EXECUTE:
        return None
    try:
        call = _calls.get(_digest(frame))
        if call is None:
            raise InternalError("XLA calls a kernel that this process has not traced")
        if on_gpu:
            call.run(frame, f"cuda:{_device(frame)}", _stream(frame))
        else:
            call.run(frame, "cpu", None)
    except BaseException as error:  # nothing may leave a function that C calls
        return _error(frame, f"{type(error).__name__}: {error}")
    return None


def _is_question(address: int) -> bool:
    """Return whether XLA asks what the handler is, and answer."""
    extension = abi.MetadataExtension.from_address(address)
    if extension.base.type != abi.METADATA:
        return False
    metadata = extension.metadata.contents
    metadata.version.major, metadata.version.minor = abi.MAJOR, _minor
    metadata.traits = 0
    return True


def _digest(frame: abi.Frame) -> str:
    attributes = frame.attributes
    for at in range(attributes.size):
        if attributes.types[at] == abi.STRING and _text(attributes.names[at].contents) == ATTRIBUTE:
            return _text(abi.Span.from_address(attributes.held[at]))
    raise InternalError("XLA calls a kernel without saying which")


def _text(span: abi.Span) -> str:
    return ctypes.string_at(span.begin or 0, span.length).decode()


def _buffers(arrays: abi.Arrays) -> list[abi.Buffer]:
    return [abi.Buffer.from_address(arrays.held[at]) for at in range(arrays.size)]


def _array(buffer: abi.Buffer, expected: Array, stream: int | None, *, writable: bool) -> Any:
    """Return an array over XLA's memory."""
    shape = tuple(buffer.dims[: buffer.rank])
    if shape != expected.shape:
        raise InternalError(f"XLA passes an array of shape {shape}, and it traced {expected.shape}")
    address = buffer.data or 0
    if stream is not None:
        return GpuArray(address, stream)
    kind = expected.kind.to_numpy()
    size = math.prod(shape) * kind.itemsize
    if not size:
        return np.empty(shape, kind)
    memory = (ctypes.c_char * size).from_address(address)
    array = np.frombuffer(memory, np.uint8).view(kind).reshape(shape)
    array.flags.writeable = writable
    return array


def _stream(frame: abi.Frame) -> int:
    asked = abi.GetStream(ctypes.sizeof(abi.GetStream), None, frame.context, None)
    _ask(frame.api.contents.get_stream, asked)
    return asked.stream or 0


def _device(frame: abi.Frame) -> int:
    """Return the number of the GPU; 0 where this XLA cannot say it."""
    api = frame.api.contents
    # `get_device` is the last function that is declared here.
    if api.struct_size < ctypes.sizeof(abi.Api):
        return 0
    asked = abi.GetDevice(ctypes.sizeof(abi.GetDevice), None, frame.context, 0)
    _ask(api.get_device, asked)
    return asked.number


def _ask(function: int, arguments: ctypes.Structure) -> None:
    if abi.Function(function)(ctypes.addressof(arguments)):
        raise InternalError(f"XLA refuses {type(arguments).__name__}")


def _error(frame: abi.Frame, message: str) -> int | None:
    made = abi.CreateError(ctypes.sizeof(abi.CreateError), None, message.encode(), abi.INTERNAL)
    error: int | None = abi.Function(frame.api.contents.create_error)(ctypes.addressof(made))
    return error
