"""Work of the instructions of JAX's programs, from the modules that XLA compiled them to.

In: executables, from JAX's own function that compiles or loads one, which is replaced while a
recording listens; those that were there before, from its backends.  Out: for the name of the range
in which XLA runs a module, the work of its instructions. Modules are kept as they are, and read
when somebody asks for one that has run.

A version of JAX that does this in another way has no work; nothing is raised there. Programs for
CPUs are left out: what runs there is no kernel of a device.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeAlias

from tileprof.once import cached_property
from tileprof.profiler.frameworks.hlo_text import parse
from tileprof.profiler.frameworks.hlo_work import Work, work_of
from tileprof.profiler.import_watch import Watch, when_imported

_COMPILER, _FUNCTION = "jax._src.compiler", "compile_or_get_cached"
"""Function that returns an executable, new or cached, as of JAX 0.6 to 0.11, 2026-11."""
_BRIDGE = "jax._src.xla_bridge"
_LEFT_OUT = ("cpu", "interpreter", "tpu")
"""Platforms whose programs are left out: those without kernels that this profiler sees."""
_RANGE = re.compile(r"XlaModule:#(?:.*,)?hlo_module=([^,#]*)(?:.*,program_id=(\d+))?")
"""Name of XLA's range around a run of a module: `XlaModule:#hlo_module=jit_f,program_id=7#`."""
_ID_FIELD = 5
"""Field of the module's number in XLA's `HloModuleProto`."""
_MOST_PROGRAMS = 4096
"""Programs that are kept; more make the first ones go."""

InstructionWork: TypeAlias = Mapping[str, Work | None]
"""Work by instruction's name; None where an instruction runs but its work is not known."""


class Program:
    """One module; its number and its text are read at the first question."""

    def __init__(self, module: Any) -> None:
        self.name = str(module.name)
        self._module = module

    @cached_property
    def number(self) -> int | None:
        """XLA's number of the module, which the name of its range has; None if not known."""
        try:
            return module_number(self._module.as_serialized_hlo_module_proto())
        except Exception:
            # The module is JAX's, perhaps of a version that nobody knows yet.
            return None

    @cached_property
    def work(self) -> InstructionWork | None:
        """Work of its instructions; None where its text is not understood."""
        try:
            return work_of(parse(self._module.to_string()))
        except Exception:
            return None
        finally:
            _ = self.number
            self._module = None


class Programs:
    """Programs that JAX compiled or loaded while this listened."""

    def __init__(self, left_out: tuple[str, ...] = _LEFT_OUT) -> None:
        """Leave out programs for platforms of these names."""
        self._left_out = left_out
        self._lock = threading.Lock()
        self._programs: list[Program] = []
        self._watch: Watch | None = None
        self._owner: ModuleType | None = None
        self._original: Any = None
        self._wrapper: Any = None

    def attach(self) -> None:
        """Listen from here on; take what is there already."""
        if self._watch is not None:
            return
        self._watch = when_imported(_COMPILER, self._replace)
        backends = getattr(sys.modules.get(_BRIDGE), "_backends", None)
        for backend in list(backends.values()) if isinstance(backends, dict) else []:
            try:
                executables = list(backend.live_executables())
            except Exception:
                continue
            for each in executables:
                self.note(each)

    def detach(self) -> None:
        """Listen no more; programs that are known stay so."""
        if self._watch is None:
            return
        self._watch.forget()
        self._watch = None
        owner = self._owner
        # Somebody else's wrapper around ours stays, and ours in it then only calls the original.
        if owner is not None and getattr(owner, _FUNCTION, None) is self._wrapper:
            setattr(owner, _FUNCTION, self._original)
        self._owner = None

    def note(self, executable: Any) -> None:
        """Keep the modules of an executable; nothing is raised."""
        try:
            if executable.client.platform in self._left_out:
                return
            made = [Program(each) for each in executable.hlo_modules()]
        except Exception:
            return
        with self._lock:
            self._programs += made
            del self._programs[:-_MOST_PROGRAMS]

    def __len__(self) -> int:
        return len(self._programs)

    def find(self, name: str) -> InstructionWork | None:
        """Return the work of the program that runs in a range of this name; None if not known.

        Where XLA's numbers do not tell which of several programs of a name it is, none is.
        """
        found = _RANGE.search(name)
        if found is None:
            return None
        with self._lock:
            named = [each for each in self._programs if each.name == found[1]]
        if found[2]:
            numbers = {each.number for each in named}
            exact = [each for each in named if each.number == int(found[2])]
            if exact:
                return exact[-1].work
            if numbers - {None}:
                return None
        works = [each.work for each in named]
        return works[0] if works and all(each == works[0] for each in works) else None

    def _replace(self, compiler: ModuleType) -> None:
        original = getattr(compiler, _FUNCTION, None)
        if not callable(original):
            return

        @functools.wraps(original)
        def compile_or_get_cached(*given: Any, **named: Any) -> Any:
            executable = original(*given, **named)
            if self._owner is not None:
                self.note(executable)
            return executable

        self._owner, self._original = compiler, original
        self._wrapper = compile_or_get_cached
        setattr(compiler, _FUNCTION, compile_or_get_cached)


programs = Programs()
"""Those of this process, of all recordings."""


def module_number(serialized: bytes) -> int | None:
    """Return the number in a serialised `HloModuleProto`; None where there is none."""
    at = 0
    while at < len(serialized):
        tag, at = _varint(serialized, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(serialized, at)
            if tag >> 3 == _ID_FIELD:
                return value
        elif kind == 2:
            length, at = _varint(serialized, at)
            at += length
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            return None
    return None


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
