"""One `T.Parallel` while its points run one after the other, as if they ran at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.errors import BoundsError, Location
from tileprof.runtime.interpreter import faults
from tileprof.runtime.interpreter.buffers import Buffer, Memory

from .machine import Machine, base_of, written_by


@dataclass(slots=True)
class _Saved:
    """A `local` buffer from outside, as it was before the points."""

    memory: Memory
    before: Memory

    def restore(self) -> None:
        """Put the values from before back."""
        shadow = self.before.shadow
        self.memory.data[...] = self.before.data
        self.memory.blank = self.before.blank
        self.memory.shadow = None if shadow is None else shadow.copy()


def _save(memory: Memory) -> _Saved:
    shadow = None if memory.shadow is None else memory.shadow.copy()
    return _Saved(memory, replace(memory, data=memory.data.copy(), shadow=shadow))


class Points:
    """Keeps `local` buffers from outside private to each point, and with strict bounds finds global
    accesses that miss their tensor at every point."""

    def __init__(self, machine: Machine, names: Sequence[str]) -> None:
        self._machine = machine
        self._names = [n or "i" for n in names]
        self._saved: dict[int, _Saved] = {}
        self._fresh: set[int] = set()
        self._missed: dict[Location | None, BoundsError | None] = {}
        # What misses at one point is an error only where it misses at all of them.
        self._options = machine.options
        machine.options = replace(self._options, strict_bounds=False)

    def begin(self, at: tuple[int, ...]) -> None:
        """Start a point."""
        self._machine.around[:] = [(self._names, at)]

    def end(self) -> None:
        """Take back what the point wrote to `local` buffers from outside."""
        for each in self._saved.values():
            each.restore()

    def finish(self) -> None:
        """End the points: `local` buffers that were written lose their content; BoundsError for an
        access that missed."""
        self._machine.around.clear()
        self._machine.options = self._options
        for each in self._saved.values():
            each.memory.clear_shadow()
        for error in self._missed.values():
            if error is not None:
                raise error

    def before(self, op: ir.OpBase) -> None:
        """An op is about to run."""
        target = written_by(op)
        if target is None or target.buffer.space != "local":
            return
        memory = self._buffer(target).memory
        if id(memory) not in self._saved and id(memory) not in self._fresh:
            self._saved[id(memory)] = _save(memory)

    def after(self, op: ir.OpBase) -> None:
        """An op ran."""
        match op:
            case ir.Alloc():
                self._fresh.add(id(self._buffer(op.result).memory))
            case ir.Load() | ir.Store() | ir.Atomic() if self._options.strict_bounds:
                if op.buffer.buffer.space == "global":
                    self._note(op)
            case _:
                pass

    def _note(self, op: ir.Load | ir.Store | ir.Atomic) -> None:
        at = self._machine.place()
        if not self._machine.missed:
            self._missed[at] = None
        elif at not in self._missed:
            op.span = at
            buffer, env = self._buffer(op.buffer), self._machine.env
            asked = [int(env[i]) for i in op.indices]
            try:
                faults.nothing_inside(self._machine, op, buffer, _access(op), asked, (0,))
            except BoundsError as error:
                self._missed[at] = error

    def _buffer(self, value: ir.Value) -> Buffer:
        held = self._machine.env[base_of(value)]
        assert isinstance(held, Buffer)
        return held


def _access(op: ir.OpBase) -> faults.Access:
    return "read" if isinstance(op, ir.Load) else "written"
