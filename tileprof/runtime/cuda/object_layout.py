"""Offsets in the objects of Python and PyTorch that the native launcher reads.

In: this process's Python and PyTorch.  Out: a `Layout`, offsets that were found by trying them on
tensors whose extents, strides, types, devices and storages are known.  PyTorch's own functions and
DLPack take 550 instructions a tensor for what a few loads tell.  Where a trial fails, `direct` is
0, and the launcher asks DLPack.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from ctypes import c_int8, c_int64, c_uint8, c_uint64, c_void_p
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from tileprof.once import once

_WORD_BITS = (1 << 64) - 1
_WORD = ctypes.sizeof(c_void_p)
_MOST_OBJECT = 184
"""Bytes of a tensor's C++ object, as far as it is looked at."""
_MOST_STORAGE = 64
"""Bytes of a storage's C++ object, as far as it is looked at."""

_TYPES = (
    "bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
    "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64",
)  # fmt: skip
"""Types of PyTorch that must not be taken for one another."""


class Layout(ctypes.Structure):
    """`ObjectLayout` of `native/launcher/recipes.h`."""

    _fields_ = (
        *((name, c_int64) for name in ("type_at", "items_at", "impl_at", "keys_at")),
        ("negative", c_uint64),
        *((name, c_int64) for name in (
            "direct", "sizes_at", "strides_at", "first_at", "kind_at", "storage_at", "data_at",
            "guarded_at",
        )),
        ("kind_bits", c_uint64),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Objects:
    """Offsets in the objects of this process, and functions that ask them."""

    requires_grad: int
    """The address of `bool c10::TensorImpl::requires_grad() const`, which takes 5 ns where the
    attribute takes 40."""
    grad_enabled: int
    """The address of `bool c10::GradMode::is_enabled()`."""
    layout: Layout


def address_of(function: Any) -> int:
    """Return the address of a function of C."""
    return ctypes.cast(function, c_void_p).value or 0


def offset_of(value: object, holder: object) -> int | None:
    """Return where in the memory of `holder` the reference to `value` lies, in bytes; None unless
    at one place."""
    places = range(0, type(holder).__basicsize__ - _WORD + 1, _WORD)
    found = [at for at in places if _word(id(holder) + at) == id(value)]
    return found[0] if len(found) == 1 else None


@once
def find_objects() -> Objects | None:
    """Return what this process has; None where not even gradients can be asked for."""
    torch = sys.modules["torch"]
    probes = [torch.zeros(1, requires_grad=yes) for yes in (False, True)]
    probes.append(torch.nn.Parameter(probes[0]))
    places = range(object.__basicsize__, torch.Tensor.__basicsize__ - _WORD + 1, _WORD)
    found = [at for at in places if all(_word(id(p) + at) == p._cdata for p in probes)]
    type_at = offset_of(object, object())
    try:
        library = ctypes.CDLL(str(Path(str(torch.__file__)).parent / "lib" / "libc10.so"))
        requires_grad = library._ZNK3c1010TensorImpl13requires_gradEv
        enabled = library._ZN3c108GradMode10is_enabledEv
    except (OSError, AttributeError):
        return None
    requires_grad.restype = enabled.restype = ctypes.c_bool
    requires_grad.argtypes = (c_void_p,)
    marks = [requires_grad(p._cdata) for p in probes]
    if len(found) != 1 or marks != [False, True, True] or type_at is None:
        return None
    layout = Layout(type_at=type_at, items_at=tuple.__basicsize__, impl_at=found[0])
    _find_keys(torch, layout)
    if layout.negative:
        # What a trial asks of PyTorch may not be there.
        with suppress(AttributeError, RuntimeError):
            _find_fields(torch, layout)
    return Objects(address_of(requires_grad), address_of(enabled), layout)


@dataclass(frozen=True, slots=True)
class NewTensors:
    """PyTorch's functions in C that make tensors: 3,000 instructions, where its function of Python
    takes 7,000."""

    addresses: tuple[int, int, int]
    """Addresses of `aoti_torch_empty_strided`, `aoti_torch_delete_tensor_object` and
    `THPVariable_Wrap`."""
    _numbers: tuple[Any, ...]

    def numbers_of(self, tensor: Any) -> tuple[int, int, int]:
        """Return type, device type and device of a tensor, as PyTorch numbers them."""
        found = []
        handle = c_void_p(tensor._cdata)
        for ask in self._numbers:
            number = ctypes.c_int32(-1)
            ask(ctypes.byref(handle), ctypes.byref(number))
            found.append(number.value)
        return found[0], found[1], found[2]


@once
def find_new_tensors() -> NewTensors | None:
    """Return these functions; None where this PyTorch has not all of them."""
    folder = Path(str(sys.modules["torch"].__file__)).parent / "lib"
    try:
        shims = ctypes.CDLL(str(folder / "libtorch_cpu.so"))
        names = (
            "aoti_torch_get_dtype",
            "aoti_torch_get_device_type",
            "aoti_torch_get_device_index",
        )
        numbers = tuple(getattr(shims, name) for name in names)
        python = ctypes.CDLL(str(folder / "libtorch_python.so"))
        # Each takes the address of a C++ tensor, from which it may move.
        wraps = [getattr(python, f"_Z16THPVariable_Wrap{how}N2at10TensorBaseE", None) for how in (
            "RK", "", "O",
        )]  # fmt: skip
        made = shims.aoti_torch_empty_strided, shims.aoti_torch_delete_tensor_object
    except (OSError, AttributeError):
        return None
    wrap = next((each for each in wraps if each is not None), None)
    if wrap is None:
        return None
    return NewTensors((address_of(made[0]), address_of(made[1]), address_of(wrap)), numbers)


class _StreamNumber(ctypes.Structure):
    """`StreamNumber` of `native/launcher/recipes.h`."""

    _fields_ = (("device_type", c_int8), ("device", c_int8), ("number", c_int64))


@once
def find_current_number() -> int:
    """Return the address of PyTorch's function from a GPU to the number of its current stream; 0
    where this PyTorch has no such function or no GPU, or its number is not that of
    `current_stream`."""
    torch = sys.modules["torch"]
    if not torch.cuda.is_available():
        return 0
    try:
        library = ctypes.CDLL(str(Path(str(torch.__file__)).parent / "lib" / "libc10_cuda.so"))
        asked = library._ZN3c104cuda20getCurrentCUDAStreamEa
    except (OSError, AttributeError):
        return 0
    asked.restype, asked.argtypes = _StreamNumber, (c_int8,)
    stream = torch.cuda.current_stream()
    found = asked(stream.device_index)
    wanted = stream.device_type, stream.device_index, stream.stream_id
    same = (found.device_type, found.device, found.number) == wanted
    return address_of(asked) if same else 0


def _find_keys(torch: Any, layout: Layout) -> None:
    """Find the set of dispatch keys, with which views of other signs are told; without it, it is
    the kernel's own first call that refuses such views."""
    plain = torch.zeros(1)
    views = plain, torch._neg_view(plain)
    words = [torch._C._dispatch_keys(view).raw_repr() & _WORD_BITS for view in views]
    if (at := _only(_places(views, words, _MOST_OBJECT))) is not None:
        layout.keys_at, layout.negative = at, words[1] & ~words[0]


def _find_fields(torch: Any, layout: Layout) -> None:
    """Find what is read of a tensor in place of what DLPack says; `direct` stays 0 unless every
    trial confirms it."""
    base = torch.empty(100_000)
    shapes = ((2, 3, 5), (7, 11, 13, 17), (19,))
    steps = ((701, 41, 3), (4001, 307, 29, 2), (5,))
    firsts = (1009, 2003, 3001)
    views = [base.as_strided(*each) for each in zip(shapes, steps, firsts)]
    sizes = _only(_places(views, [len(s) for s in shapes], _MOST_OBJECT, lambda v, at: all(
        _word(v._cdata + at + _WORD * (1 + d)) == n for d, n in enumerate(v.shape)
    )))  # fmt: skip
    strides = _only(_places(views, [s[0] for s in steps], _MOST_OBJECT, lambda v, at: all(
        _word(v._cdata + at + _WORD * d) == n for d, n in enumerate(v.stride())
    )))  # fmt: skip
    first = _only(_places(views, firsts, _MOST_OBJECT))
    count = _only(_places(views, [v.numel() for v in views], _MOST_OBJECT))
    # Memory that is not PyTorch's own: the address is not what its owner frees.
    others = [torch.frombuffer(bytearray(16), dtype=torch.uint8), base]
    storages = [t.untyped_storage() for t in others]
    storage = _only(_places(others, [s._cdata for s in storages], _MOST_OBJECT))
    data = _only(_places(storages, [s.data_ptr() for s in storages], _MOST_STORAGE))
    guarded = _guarded_at(torch, storages)
    if None in (sizes, strides, first, count, storage, data, guarded):
        return
    # Type and device lie behind the number of elements; the rest of that word are flags.
    kind, bits = count + _WORD, (1 << 40) - 1  # type: ignore[operator]
    if _kinds_differ(torch, kind, bits):
        layout.sizes_at, layout.strides_at, layout.first_at = sizes, strides, first
        layout.kind_at, layout.kind_bits = kind, bits
        layout.storage_at, layout.data_at, layout.guarded_at = storage, data, guarded
        layout.direct = 1


def _guarded_at(torch: Any, plain: Sequence[Any]) -> int | None:
    """Return where a storage says that its address may not be read as it is: that of a tensor that
    shares its memory until one of both is written."""
    owner = torch.zeros(3)
    lazy = [t.untyped_storage()._cdata for t in (owner, torch._lazy_clone(owner))]
    return _only(
        at
        for at in range(_MOST_STORAGE)
        if all(_byte(each + at) == 1 for each in lazy)
        and all(_byte(each._cdata + at) == 0 for each in plain)
    )


def _kinds_differ(torch: Any, at: int, bits: int) -> bool:
    """Return whether the word at an offset is the same in all tensors of one type on one device,
    and another one in all others."""
    found: dict[Any, set[int]] = {}
    for name in _TYPES:
        for device in ("cpu", "meta"):
            made = torch.empty((4, 3), dtype=getattr(torch, name), device=device)
            each = [made, made[1:, :2], made[:1].detach().t(), torch.nn.Parameter(made, False)]
            found[name, device] = {_word(t._cdata + at) & bits for t in each}
    # No index is -1 there; that of a GPU is compared with DLPack's where a call is learnt.
    indices = {word >> 24 & 0xFF for words in found.values() for word in words}
    return indices == {0xFF} and not any(
        len(a) > 1 or len(b) > 1 or a & b for a, b in combinations(found.values(), 2)
    )


def _places(
    objects: Sequence[Any], words: Sequence[int], size: int, agrees: Any = lambda _v, _at: True
) -> list[int]:
    """Return the offsets at which each C++ object has its word."""
    return [
        at
        for at in range(0, size, _WORD)
        if all(_word(o._cdata + at) == w for o, w in zip(objects, words))
        and all(agrees(o, at) for o in objects)
    ]


def _only(places: Iterable[int]) -> int | None:
    found = [*places]
    return found[0] if len(found) == 1 else None


def _word(address: int) -> int:
    return c_uint64.from_address(address).value


def _byte(address: int) -> int:
    return c_uint8.from_address(address).value
