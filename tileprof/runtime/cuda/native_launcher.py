"""The native launcher: warm calls with PyTorch tensors, without Python on the way.

In: a call that has succeeded, with what its executable knows of it.  Out: a function from the tuple
of arguments to the outputs, which gives NotImplemented where a call differs in more than addresses
and plain scalars; the caller then goes the whole way.  Structures are those of
`native/launcher/recipes.h`.
"""

from __future__ import annotations

import ctypes
import hashlib
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_int32, c_int64, c_uint32, c_uint64, c_void_p, py_object
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tileprof import ir
from tileprof.compiler.build import find_compiler
from tileprof.errors import TileprofError
from tileprof.native import FOLDER
from tileprof.native.building import Order, load_library
from tileprof.once import once
from tileprof.runtime import hooks, selection

from .driver import LaunchConfig
from .launch import Call, Frame, Function
from .object_layout import (
    Layout,
    address_of,
    find_current_number,
    find_new_tensors,
    find_objects,
    offset_of,
)
from .tensor_maps import DATA_TYPES, SWIZZLES, value_of

if TYPE_CHECKING:
    from .executable import CudaExecutable

_SOURCES = FOLDER / "launcher"
_BY_VALUE, _TENSOR, _INTEGER, _FLOAT = range(4)
_POINTER_FIELD, _INTEGER_FIELD, _FLOAT_FIELD, _COUNTER_FIELD = range(4)


class _Field(ctypes.Structure):
    _fields_ = (("kind", c_int32), ("slot", c_int32), ("offset", c_int32), ("size", c_int32))


class _Map(ctypes.Structure):
    _fields_ = (
        ("slot", c_int32), ("offset", c_int32), ("type", c_int32), ("rank", c_int32),
        ("swizzle", c_int32), ("box", c_uint32 * 5), ("shape", c_uint64 * 5),
        ("strides", c_uint64 * 5),
    )  # fmt: skip


class _Overlap(ctypes.Structure):
    _fields_ = (("a", c_int32), ("b", c_int32), ("a_bytes", c_int64), ("b_bytes", c_int64))


class _Launch(ctypes.Structure):
    _fields_ = (
        ("function", c_void_p), ("config", POINTER(LaunchConfig)), ("bytes", c_void_p),
        ("offsets", POINTER(c_int32)), ("fields", POINTER(_Field)), ("maps", POINTER(_Map)),
        ("size", c_int32), ("count", c_int32), ("field_count", c_int32), ("map_count", c_int32),
    )  # fmt: skip


class _Output(ctypes.Structure):
    _fields_ = (
        ("allocate", py_object), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("rank", c_int32), ("dtype", c_int32), ("device_type", c_int32), ("device", c_int32),
    )  # fmt: skip


class _Recipe(ctypes.Structure):
    _fields_ = (
        ("arguments", py_object), ("failed", py_object), ("kinds", POINTER(c_int32)),
        ("counter", py_object), ("noted", py_object), ("lent", py_object), ("word", c_void_p),
        ("scope", py_object), ("names", py_object), ("values", py_object),
        ("outputs", POINTER(_Output)), ("returned", POINTER(c_int32)),
        ("overlaps", POINTER(_Overlap)), ("launches", POINTER(_Launch)), ("context", c_void_p),
        ("output_count", c_int32), ("returned_count", c_int32), ("overlap_count", c_int32),
        ("launch_count", c_int32), ("device_type", c_int32), ("device", c_int32),
        ("notes", c_int32),
    )  # fmt: skip


class _Environment(ctypes.Structure):
    _fields_ = (
        ("api", c_void_p),
        ("launch", c_void_p),
        ("encode", c_void_p),
        ("current", c_void_p),
        ("capturing", c_void_p),
        ("stream_number", c_void_p),
        *((name, py_object) for name in (
            "missed", "none", "tensor", "parameter", "integer", "real", "text", "boolean", "kind",
            "names", "defaults", "hooks", "listener", "chosen",
        )),
        ("ever_chosen", c_void_p),
        ("value_of", c_void_p),
        ("requires_grad", c_void_p),
        ("grad_enabled", c_void_p),
        ("empty_strided", c_void_p),
        ("forget", c_void_p),
        ("wrap", c_void_p),
        ("current_number", c_void_p),
        ("layout", Layout),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Known:
    """A call that has succeeded."""

    arguments: tuple[Any, ...]
    """Arguments exactly as the caller passed them."""
    slots: tuple[int, ...]
    """Position of the argument of each kernel parameter; -1 for an output or where the argument has
    its default value."""
    values: Sequence[Any]
    """One for each parameter, outputs too."""
    symbols: tuple[int, ...]
    returned: tuple[int, ...]
    scope: Mapping[str, Any]
    depends: tuple[str, ...]
    """Names of the scope whose values the kernel depends on."""


class Launcher:
    """The calls that one kernel has learnt."""

    def __init__(
        self,
        executable: CudaExecutable,
        library: Any,
        owner: Any,
        parameters: Sequence[tuple[str, Any]],
    ) -> None:
        """`owner` is called with arguments for `parameters`, pairs of a name and a default; it has
        a slot `_capsule`."""
        torch = sys.modules["torch"]
        driver = executable.device.driver
        objects = find_objects()
        assert objects is not None, "`why_not` has asked"
        self._library, self._owner = library, weakref.ref(owner)
        self._environment = _Environment(
            _exchange_api(torch),
            *(
                address_of(each)
                for each in (
                    driver.launch,
                    driver.function("cuTensorMapEncodeTiled"),
                    driver.function("cuCtxGetCurrent"),
                    driver.function("cuStreamIsCapturing"),
                    driver.function("cuStreamGetId"),
                )
            ),
            NotImplemented,
            None,
            torch.Tensor,
            torch.nn.Parameter,
            int,
            float,
            str,
            bool,
            type(owner),
            tuple(name for name, _ in parameters),
            tuple(default for _, default in parameters),
            vars(hooks),
            "listener",
            selection.chosen,
            ctypes.addressof(selection.ever_chosen),
            address_of(ctypes.pythonapi.PyContextVar_Get),
            objects.requires_grad,
            objects.grad_enabled,
            *(new_tensors.addresses if (new_tensors := find_new_tensors()) else (0, 0, 0)),
            find_current_number(),
            objects.layout,
        )
        self._capsule = library.tp_launcher(ctypes.byref(self._environment))
        self.call: Callable[[tuple[Any, ...]], Any] = library.tp_launcher_function(self._capsule)

    def answer(self) -> None:
        """Answer calls of the owner, from the next one on."""
        owner = self._owner()
        if owner is not None and not hasattr(owner, "_capsule"):
            owner._capsule = self._capsule
            at = offset_of(self._capsule, owner)
            assert at is not None, "it is in the slot alone"
            owner.__class__ = _answering(type(owner), at, self._library)

    def learn(self, executable: CudaExecutable, known: Known) -> bool:
        """Take a call's like over; False where the launcher cannot."""
        made = _recipe(executable, known)
        if made is None:
            return False
        recipe, _owners = made
        return bool(self._library.tp_launcher_add(self._capsule, ctypes.byref(recipe)))


def _exchange_api(torch: Any) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = c_void_p, (py_object, ctypes.c_char_p)
    return int(get(torch.Tensor.__dlpack_c_exchange_api__, b"dlpack_exchange_api"))


@once
def _answering(kind: type, at: int, library: Any) -> type:
    """Return a type like `kind` whose instances, with a capsule at an offset, are called by its
    launcher first."""
    name = f"{kind.__module__}.{kind.__qualname__}".encode()
    _type_names.append(name)
    made: type = library.tp_launcher_type(kind, name, at)
    return made


_type_names: list[bytes] = []
"""Names of types, whose bytes have to stay (until Python 3.11, which copies them)."""


def why_not() -> str:
    """Why this process has no native launcher; '' where it has one, or could."""
    torch = sys.modules.get("torch")
    if find_compiler() is None and installed() is None:
        return "there is no C++ compiler"
    if torch is not None and not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
        return f"PyTorch {torch.__version__} has no DLPack exchange API (2.10 has)"
    if sys.implementation.name != "cpython":
        return f"Python is {sys.implementation.name}"
    if torch is not None and find_objects() is None:
        return f"PyTorch {torch.__version__} hides whether tensors require gradients"
    return ""


@once
def launcher_library() -> Any:
    """Return the library: the installed one, else one that is compiled here; None where this is not
    possible."""
    if "torch" not in sys.modules or why_not():
        return None
    library = installed() or _compiled()
    if library is None:
        return None
    library.tp_launcher.restype = library.tp_launcher_function.restype = py_object
    library.tp_launcher_function.argtypes = (py_object,)
    library.tp_launcher_type.restype = library.tp_launcher_gate.restype = py_object
    library.tp_launcher_gate.argtypes = (c_void_p,)
    library.tp_launcher_type.argtypes = (py_object, ctypes.c_char_p, c_int64)
    library.tp_launcher_add.argtypes = (py_object, c_void_p)
    return library


@once
def installed() -> Any:
    """Return the library of this installation; see `installed_in`."""
    return installed_in(FOLDER)


def installed_in(folder: Path) -> Any:
    """Return the library that came with the installation; None where it is not there, or was made
    of other sources than lie here."""
    path = folder / "libtileprof_launcher.so"
    if not path.exists():
        return None
    try:
        library = ctypes.PyDLL(str(path))
        library.tp_launcher_sources.restype = ctypes.c_char_p
        made_of = library.tp_launcher_sources().decode()
    except (OSError, AttributeError):
        return None
    digests = [hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(_SOURCES.glob("*.*"))]
    return library if made_of == "".join(digests) else None


def _compiled() -> Any:
    compiler = find_compiler()
    if compiler is None:
        return None
    order = Order(
        "launcher",
        (_SOURCES / "launcher.cpp").read_text(),
        compiler,
        parts=tuple(path.read_text() for path in sorted(_SOURCES.glob("*.h"))),
        options=(f"-I{_SOURCES}",),
        noun="the launcher",
    )
    try:
        return load_library(order, ctypes.PyDLL)
    except (TileprofError, OSError):
        return None


# -- recipes


def _recipe(executable: CudaExecutable, known: Known) -> tuple[_Recipe, list[Any]] | None:
    """Return the recipe of a call, and what has to live until it is taken over."""
    kernel = executable.kernel
    outputs = [at for at, p in enumerate(kernel.params) if p.role == "out"]
    slots = list(known.slots)
    for number, at in enumerate(outputs):
        slots[at] = len(known.arguments) + number
    tensors = [at for at, p in enumerate(kernel.params) if isinstance(p.type, ir.BufferType)]
    if any(slots[at] < 0 for at in tensors):
        return None
    prepared = executable.prepare(known.values, known.symbols)
    if prepared is None:
        return None
    functions, calls = prepared
    free = _free_scalars(executable, known)
    kinds = [_BY_VALUE] * len(known.arguments)
    for at in tensors:
        if at not in outputs:
            kinds[slots[at]] = _TENSOR
    for at, kind in free.items():
        kinds[slots[at]] = kind
    launches = [
        _launch(function, call, slots, free)
        for function, call in zip(functions, calls)
        if function.blocks(call.grid)
    ]
    overlaps = [
        _Overlap(
            slots[a], slots[b], executable.span(a, known.symbols), executable.span(b, known.symbols)
        )
        for a, b in executable.overlaps
    ]
    notes = executable.device.notes
    lent = tuple(call.lent for call in calls if call.lent is not None)
    made = [_output(known.values[at]) for at in outputs]
    kept: list[Any] = [launches, kinds]
    recipe = _Recipe(
        known.arguments,
        executable.refuse,
        _array(c_int32, kinds),
        executable.device.counters.address,
        notes.check,
        lent,
        notes.word(),
        known.scope,
        known.depends,
        tuple(known.scope.get(n) for n in known.depends),
        _array(_Output, made),
        _array(c_int32, [slots[at] for at in known.returned]),
        _array(_Overlap, overlaps),
        _array(_Launch, [made for made, _ in launches]),
        executable.device.context,
        len(outputs),
        len(known.returned),
        len(overlaps),
        len(launches),
        executable.device_type,
        executable.device.number,
        bool(lent),
    )
    return recipe, kept


def _free_scalars(executable: CudaExecutable, known: Known) -> dict[int, int]:
    """Scalar parameters whose value only the device sees, and how a call gives them."""
    found = {}
    host = executable.binary.host
    for at, param in enumerate(executable.kernel.params):
        if isinstance(param.type, ir.DType) and known.slots[at] >= 0 and not host.reads(at):
            if param.type.is_integer:
                found[at] = _INTEGER
            elif param.type.name in ("float32", "float64"):
                found[at] = _FLOAT
    return found


def _output(value: Any) -> _Output:
    """Return what makes tensors like this one."""
    import torch

    shape, strides = tuple(value.shape), tuple(value.stride())
    new_tensors = find_new_tensors()
    return _Output(
        # A third faster than `torch.empty`, which looks for sizes given one by one.
        partial(torch.empty_strided, shape, strides, dtype=value.dtype, device=value.device),
        _array(c_int64, shape),
        _array(c_int64, strides),
        len(shape),
        *(new_tensors.numbers_of(value) if new_tensors else (-1, 0, 0)),
    )


def _launch(
    function: Function, call: Call, slots: Sequence[int], free: Mapping[int, int]
) -> tuple[_Launch, list[Any]]:
    frame: Frame = function.frame(call)
    fields, maps = [], []
    for parameter in function.layout:
        kind, at = parameter.argument.kind, parameter.argument.index
        if kind == "map":
            spec = function.spec.maps[at]
            maps.append(_map(function, call, at, slots[spec.param], parameter.offset))
        elif kind == "pointer":
            fields.append(_Field(_POINTER_FIELD, slots[at], parameter.offset, 8))
        elif kind == "counter":
            fields.append(_Field(_COUNTER_FIELD, 0, parameter.offset, 8))
        elif kind == "scalar" and at in free:
            held = _INTEGER_FIELD if free[at] == _INTEGER else _FLOAT_FIELD
            fields.append(_Field(held, slots[at], parameter.offset, parameter.size))
    owners = [frame, fields, maps]
    made = _Launch(
        function.handle,
        ctypes.pointer(frame.config),
        frame.base,
        _array(c_int32, [p.offset for p in function.layout]),
        _array(_Field, fields),
        _array(_Map, maps),
        function.size,
        len(function.layout),
        len(fields),
        len(maps),
    )
    return made, owners


def _map(function: Function, call: Call, at: int, slot: int, offset: int) -> _Map:
    spec = function.spec.maps[at]
    named = dict(zip(function.kernel.symbols, call.symbols))
    made = _Map(slot, offset, DATA_TYPES[spec.dtype.name], len(spec.shape), SWIZZLES[spec.swizzle])
    for axis, (box, extent) in enumerate(zip(reversed(spec.box), reversed(spec.shape))):
        made.box[axis], made.shape[axis] = box, value_of(extent, named)
    for axis, stride in enumerate(reversed(spec.strides[:-1])):
        made.strides[axis] = value_of(stride, named) * spec.dtype.bytes
    return made


def _array(kind: Any, items: Sequence[Any]) -> Any:
    return (kind * max(len(items), 1))(*items)
