"""Work of the instructions of JAX's programs, from the modules that XLA compiled them to.

In: executables, from JAX's own function that compiles or loads one, which is replaced while a
recording listens; those that were there before, from its backends.  Out: the work of instructions
by the name of the range in which XLA runs a module. Modules are kept as they are, and read when
somebody asks for one that has run.

A range has the module's name and XLA's number of the program. Modules of one name are common
(`jit_broadcast_in_dim`), and the number is in no module: on a GPU, the one in its proto is another.
So a range is matched by the steps that ran in it, all of which a module must have, and among such
modules by order: the numbers of programs rise as they are compiled. Where neither tells, an
instruction has work if all modules that it can be of agree.

A version of JAX that does this in another way has no work; nothing is raised there. Programs for
CPUs are left out: what runs there is no kernel of a device.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias

from tileprof.once import cached_property
from tileprof.profiler.frameworks.hlo_text import Instruction, parse
from tileprof.profiler.frameworks.hlo_work import Work, work_of
from tileprof.profiler.import_watch import Watch, when_imported

_COMPILER, _FUNCTION = "jax._src.compiler", "compile_or_get_cached"
"""Function that returns an executable, new or cached, as of JAX 0.6 to 0.11, 2026-11."""
_BRIDGE = "jax._src.xla_bridge"
_LEFT_OUT = ("cpu", "interpreter", "tpu")
"""Platforms whose programs are left out: those without kernels that this profiler sees."""
_RANGE = re.compile(
    r"Xla(Module|CompileBackend):#(?:.*,)?(?:hlo_)?module=([^,#]*)(?:.*,program_id=(\d+))?"
)
"""Name of XLA's range around a run of a module, `XlaModule:#hlo_module=jit_f,program_id=7#`, or
around its compilation, `XlaCompileBackend:#module=jit_f,program_id=7#`."""
GRAPH = re.compile(r"command_buffer(_\d+)?$")
"""Name of a step that is no instruction: a graph that XLA made of several."""
_MOST_PROGRAMS = 4096
"""Programs that are kept; more make the first ones go."""

InstructionWork: TypeAlias = Mapping[str, Work | None]
"""Work by instruction's name; None where an instruction runs but its work is not known."""


@dataclass(frozen=True, slots=True)
class _Read:
    """A module's text, as far as it is asked for."""

    work: InstructionWork | None = None
    """Work of its instructions; None where the text is not understood."""
    names: frozenset[str] = frozenset()
    """All instructions."""
    nameless: int = 0
    """Further instructions, whose names the text does not have."""


class Program:
    """One module, whose text is read at the first question."""

    def __init__(self, module: Any, in_order: bool) -> None:
        self.name = str(module.name)
        self.in_order = in_order
        """Whether it was compiled behind all that are known before it."""
        self._module = module

    @cached_property
    def work(self) -> InstructionWork | None:
        """Work of its instructions; None where its text is not understood."""
        return self._read.work

    def has(self, steps: Iterable[str]) -> bool:
        """Whether all these steps can be of its instructions."""
        if self.work is None:
            return True
        others = [each for each in steps if each not in self._read.names]
        return sum(GRAPH.match(each) is None for each in others) <= self._read.nameless

    @cached_property
    def _read(self) -> _Read:
        try:
            parsed = parse(self._module.to_string())
            work = work_of(parsed)
            every = [
                each for of in parsed.computations.values() for each in of.instructions.values()
            ]
            begins = {each.name for each in every if _is_short(each)}
            inner = _wrapped(self._module, begins)
            work |= {inner[name]: work[name] for name in inner if name in work}
            names = frozenset(each.name for each in every).union(inner.values())
        except Exception:
            # The module is JAX's, perhaps of a version that nobody knows yet.
            return _Read()
        finally:
            self._module = None
        return _Read(work, names, len(begins - inner.keys()))


class Programs:
    """Programs that JAX compiled or loaded while this listened."""

    def __init__(self, left_out: tuple[str, ...] = _LEFT_OUT) -> None:
        """Leave out programs for platforms of these names."""
        self._left_out = left_out
        self._lock = threading.Lock()
        self._programs: list[Program] = []
        self._gone = set[str]()
        """Names of which there were more programs than are kept."""
        self._begun = self._open = 0
        """Compilations that began, and those that have not ended."""
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

    def note(self, executable: Any, in_order: bool = False) -> None:
        """Keep the modules of an executable; nothing is raised.

        `in_order`: it was compiled when all that are known before it were.
        """
        try:
            if executable.client.platform in self._left_out:
                return
            made = [Program(each, in_order) for each in executable.hlo_modules()]
        except Exception:
            return
        with self._lock:
            self._programs += made
            self._gone.update(each.name for each in self._programs[:-_MOST_PROGRAMS])
            del self._programs[:-_MOST_PROGRAMS]

    def __len__(self) -> int:
        return len(self._programs)

    def find(self, seen: Mapping[str, Iterable[str]]) -> dict[str, InstructionWork]:
        """Return the work of the programs that run in XLA's ranges, by the names of the ranges.

        `seen` has the names of all ranges of runs and compilations, with the names of the
        instructions that were seen to run in each. Ranges of unknown programs are left out.
        """
        with self._lock:
            programs = self._programs[:]
        runs = list[tuple[str, str, int]]()
        compiled, ran = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
        for name in seen:
            if (found := _RANGE.search(name)) is not None:
                is_run, number = found[1] == "Module", int(found[3] or -1)
                (ran if is_run else compiled)[found[2]].add(number)
                if is_run:
                    runs.append((name, found[2], number))
        steps = defaultdict[tuple[str, int], set[str]](set)
        for name, module, number in runs:
            steps[module, number].update(seen[name])
        by_name = defaultdict[str, list[Program]](list)
        for each in programs:
            if each.name not in self._gone:
                by_name[each.name].append(each)
        work = dict[str, InstructionWork]()
        for name, module, number in runs:
            known = by_name[module]
            if -1 in ran[module] or len(ran[module]) <= len(known):
                fitting = [each for each in known if each.has(steps[module, number])]
                ranked = _ranked(known, (ran[module] | compiled[module], ran[module]), number)
                if fitting:
                    work[name] = _agreed([ranked] if ranked in fitting else fitting)
        return work

    def _replace(self, compiler: ModuleType) -> None:
        original = getattr(compiler, _FUNCTION, None)
        if not callable(original):
            return

        @functools.wraps(original)
        def compile_or_get_cached(*given: Any, **named: Any) -> Any:
            with self._lock:
                self._begun += 1
                mine, alone = self._begun, not self._open
                self._open += 1
            try:
                executable = original(*given, **named)
            finally:
                with self._lock:
                    self._open -= 1
            if self._owner is not None:
                self.note(executable, in_order=alone and mine == self._begun)
            return executable

        self._owner, self._original = compiler, original
        self._wrapper = compile_or_get_cached
        setattr(compiler, _FUNCTION, compile_or_get_cached)


programs = Programs()
"""Those of this process, of all recordings."""


def _is_short(each: Instruction) -> bool:
    """Whether an instruction begins one that the text has no name of, as `fusion-start`."""
    is_start = each.opcode.endswith("-start") and each.opcode != "async-start"
    return is_start and "calls" in each.attributes


def _wrapped(module: Any, begins: Set[str]) -> dict[str, str]:
    """Return the names of the instructions that these begin, by theirs; none where JAX has none.

    The range of the step has them, the module's text does not.
    """
    if not begins:
        return {}
    try:
        every = [each for of in module.computations() for each in of.instructions()]
        roots = [(each.name, each.async_wrapped_root()) for each in every if each.name in begins]
        return {name: root.name for name, root in roots if root is not None}
    except Exception:
        return {}


def _ranked(
    known: Sequence[Program], numberings: Iterable[Set[int]], number: int
) -> Program | None:
    """Return the program of a number, by the order of as many numbers as there are programs.

    None where no such numbers are known, or the order of programs is not.
    """
    if all(each.in_order for each in known):
        for numbers in numberings:
            if len(numbers) == len(known) and number >= 0:
                return known[sorted(numbers).index(number)]
    return None


def _agreed(programs: Sequence[Program]) -> InstructionWork:
    """Return the work of each instruction of any of them: None where they differ."""
    works = [each.work or {} for each in programs]
    names = dict.fromkeys(name for each in works for name in each)
    return {
        name: works[0].get(name)
        if all(each.get(name) == works[0].get(name) for each in works)
        else None
        for name in names
    }
