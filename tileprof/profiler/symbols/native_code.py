"""The functions behind native frames of a recording.

In: calls as the recorder numbers them, module and address.  Out: for each the functions that it
stands for, outermost first, with their places. While the program runs, names come from symbol
tables; when it has ended, lines and inlined functions of the program's own code are added.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

from tileprof.errors import Location
from tileprof.profile import NativeModule
from tileprof.profile.installed import is_installed
from tileprof.profiler.symbols.functions import Functions, read_functions
from tileprof.profiler.symbols.lines import SourceFrame, read_lines

_ADDRESS_BITS = 48
"""Bits of an address in its file; the module's number is above (stacks/modules.h)."""
_PLUMBING = frozenset({"_start", "__libc_start_main", "start_thread", "clone", "clone3"})
"""Functions that start programs and threads."""
_STUB = re.compile(r"__device_stub__|__cudaLaunch|libcudart_static_|__cudart\d|cudart::")
"""Names of functions that pass a launch on: nvcc's, and those inside of CUDA's runtime."""
_RUNTIME = re.compile(r"cuda[A-Z]\w*$")
"""Functions of CUDA's runtime, which nvcc links into programs."""
_STATIC_RUNTIME = "[libcudart_static.a]"
"""File of functions of CUDA's runtime that are part of another file."""
_THREAD = "std::thread::_State_impl"
"""Class whose function runs what is given to `std::thread`, in GCC's library."""
_ADDED = re.compile(r"(?<=.)[.@].*")
"""Additions to names: versions, as in `memcpy@@GLIBC_2.14`, and those of copies that compilers
make of functions, as `f.isra.0`."""
_ARGUMENTS = re.compile(r"\)(?: const)?(?: volatile)?(?: &{1,2})?$")


@dataclass(frozen=True, slots=True)
class CodeFrame:
    """A function that a native frame stands for."""

    name: str
    place: Location
    """Its file, or that of the module with line 0."""


class NativeCode:
    """The functions behind native frames; each is looked up once."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native
        self._slow_before: int = native.native_slow()
        self._modules: list[NativeModule] = []
        self._functions: dict[int, Functions | None] = {}
        self._frames: dict[int, tuple[CodeFrame, ...]] = {}
        self._lines: dict[int, dict[int, list[SourceFrame]]] = {}

    def facts(self) -> dict[str, str]:
        """Return what provenance has of stacks that took long to follow: 0.1 µs each frame."""
        slow = self._native.native_slow() - self._slow_before
        return {"slow native stacks": str(slow)} if slow else {}

    def frames(self, call: int) -> tuple[CodeFrame, ...]:
        """Return the functions of a call, outermost first; none for those that start threads."""
        if call not in self._frames:
            self._frames[call] = self._looked_up(call)
        return self._frames[call]

    def add_lines(self, calls: Iterable[int]) -> None:
        """Look up lines and inlined functions of the program's own code, which takes its time."""
        wanted: dict[int, list[int]] = {}
        for call in sorted(set(calls)):
            wanted.setdefault(call >> _ADDRESS_BITS, []).append(call)
        for number, held in wanted.items():
            module, functions = self._module(number), self._functions_of(number)
            if functions is None or not functions.has_lines or is_installed(module.path):
                continue
            known = self._lines.setdefault(number, {})
            new = [each for each in map(_address, held) if each not in known]
            if new:
                known |= read_lines(module.path, new)
            for call in held:
                self._frames.pop(call, None)

    def modules_of(self, calls: Iterable[int]) -> tuple[NativeModule, ...]:
        """Return the modules of calls, in the order of their paths."""
        found = {self._module(call >> _ADDRESS_BITS) for call in calls}
        return tuple(sorted(found, key=lambda each: (each.path, each.build_id)))

    def _looked_up(self, call: int) -> tuple[CodeFrame, ...]:
        number, address = call >> _ADDRESS_BITS, _address(call)
        module = self._module(number)
        if inlined := self._lines.get(number, {}).get(address):
            frames = [self._with_source(module, each) for each in inlined]
            if frames[0].name.startswith(_THREAD):
                # The library's templates around the function that was given to `std::thread`.
                frames = [each for each in frames if not is_installed(each.place.file)] or frames
            return tuple(each for each in frames if _shows(each.name))
        functions = self._functions_of(number)
        mangled = functions.name_at(address) if functions is not None else ""
        name = self._readable(mangled) if mangled else _unnamed(module, address)
        return (_in_module(name, module.path),) if _shows(name) else ()

    def _with_source(self, module: NativeModule, frame: SourceFrame) -> CodeFrame:
        name = self._readable(frame.function) if frame.function else os.path.basename(module.path)
        if not frame.file:
            return _in_module(name, module.path)
        return _frame(name, frame.file, frame.line)

    def _readable(self, mangled: str) -> str:
        plain = _ADDED.sub("", mangled)
        # Functions of C, and inlined ones that the tools know by their own name alone.
        return without_arguments(self._native.demangled(plain)) if plain[:2] == "_Z" else plain

    def _functions_of(self, number: int) -> Functions | None:
        """Return the functions in a module's file, None where it is not the one that was loaded."""
        if number not in self._functions:
            module = self._module(number)
            found = read_functions(module.path) if module.path.startswith(os.sep) else None
            replaced = found is not None and found.build_id != module.build_id
            self._functions[number] = None if replaced else found
        return self._functions[number]

    def _module(self, number: int) -> NativeModule:
        if number >= len(self._modules):
            new = self._native.native_modules(len(self._modules))
            self._modules += [NativeModule(path, build_id) for path, build_id in new]
        return self._modules[number]


def _address(call: int) -> int:
    return call & ((1 << _ADDRESS_BITS) - 1)


def _shows(name: str) -> bool:
    return name not in _PLUMBING and not _STUB.match(name)


def _in_module(name: str, module: str) -> CodeFrame:
    """Return a function whose line is not known, at its module."""
    static = _RUNTIME.match(name) and not os.path.basename(module).startswith("libcudart")
    return _frame(name, _STATIC_RUNTIME if static else module, 0)


def _frame(name: str, file: str, line: int) -> CodeFrame:
    return CodeFrame(name, Location(file, line, function=name))


def _unnamed(module: NativeModule, address: int) -> str:
    """Return what a call without a symbol is called: its module, and where in its file it is."""
    file = os.path.basename(module.path)
    return f"{file}+{address:#x}" if module.path.startswith(os.sep) else file


def without_arguments(name: str) -> str:
    """Return a function's name in C++ without its parameters and the type that it returns.

    `void f<int>(int)` is `f<int>`, and `(anonymous namespace)::g(int) const` is
    `(anonymous namespace)::g`.
    """
    ending = _ARGUMENTS.search(name)
    if ending is None:
        return name
    depth, at = 0, ending.start()
    for at in range(ending.start(), -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            break
    held = name[:at] if at and depth == 0 else name
    return _after_type(held)


def _after_type(name: str) -> str:
    """Return what follows the last space that is in no brackets; names of operators have some."""
    if "operator" in name:
        return name
    depth, start = 0, 0
    for at, letter in enumerate(name):
        if letter in "<(":
            depth += 1
        elif letter in ">)":
            depth -= 1
        elif letter == " " and depth == 0:
            start = at + 1
    return name[start:]


Lookup = Callable[[int], Sequence[CodeFrame]]
"""Gives the functions of a call, outermost first."""
