"""C++ names as people write them: `_Z3addPfi` is `add(float*, int)`.

In: the name of a function as the linker or the driver knows it.  Out: the demangled name; the name
as it is where it is not mangled, or where this machine has no C++ runtime to ask.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable

__all__ = ["demangled"]

_RUNTIMES = ("libstdc++.so.6", "libc++abi.so.1", "libc++abi.dylib")
_PREFIXES = ("_Z", "__Z")  # the second one on macOS, where symbols have a further underscore


@functools.lru_cache(maxsize=65_536)
def demangled(name: str) -> str:
    """The C++ function that a mangled name stands for, else the name itself."""
    if not name.startswith(_PREFIXES) or "\0" in name or (demangle := _demangler()) is None:
        return name
    found = demangle(name[name.index("_Z") :].encode("utf-8", "surrogateescape"))
    return name if found is None else found.decode("utf-8", "backslashreplace")


@functools.cache
def _demangler() -> Callable[[bytes], bytes | None] | None:
    """The C++ runtime's own demangler; None where there is no runtime."""
    for library in _RUNTIMES:
        try:
            call = ctypes.CDLL(library).__cxa_demangle
            release = ctypes.CDLL(None).free
        except (OSError, AttributeError, TypeError):  # TypeError: Windows has no library `None`
            continue
        call.restype = ctypes.c_void_p
        call.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
        release.restype = None
        release.argtypes = [ctypes.c_void_p]
        return functools.partial(_ask, call, release)
    return None


def _ask(
    call: Callable[..., int | None], release: Callable[[int], None], name: bytes
) -> bytes | None:
    """What `__cxa_demangle` answers, which it puts into memory that is ours to free."""
    address = call(name, None, None, None)
    if not address:
        return None
    try:
        return ctypes.string_at(address)
    finally:
        release(address)
