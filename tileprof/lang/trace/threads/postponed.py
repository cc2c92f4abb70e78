"""Values of each thread that are computed where a statement uses them.

In: ops that only compute, statements in their order.  Out: the ops that a statement needs, and
those among them that read memory which has changed in between: their values have to be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from tileprof import ir
from tileprof.errors import Location
from tileprof.ir.memory import base

Refuse = Callable[[str, str, Location | None], NoReturn]
"""Raises an error from its sentence, its hint and its place."""


@dataclass(frozen=True, slots=True)
class _Later:
    """A value of each thread that is computed where a statement uses it."""

    op: ir.OpBase
    versions: tuple[tuple[ir.Value, int], ...]
    """Buffers that it reads, and how often each was written before."""


class PostponedValues:
    """The values that were postponed so far, and how often each buffer was written."""

    def __init__(self, refuse: Refuse) -> None:
        self.refuse = refuse
        self.later: dict[ir.Value, _Later] = {}
        self.written: dict[ir.Value, int] = {}
        self.stale: dict[ir.OpBase, ir.OpBase] = {}
        """Ops needed after memory that they read had changed, each with its first user."""

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Forget at the end what is postponed inside of a loop or branch."""
        kept = dict(self.later)
        yield
        self.later = kept

    def postpone(self, op: ir.OpBase) -> None:
        """Keep an op whose results are computed where they are used."""
        read = {base(a.value) for a in op.all_accesses() if a.reads}
        held = _Later(op, tuple((v, self.written.get(v, 0)) for v in read))
        self.later.update(dict.fromkeys(op.results, held))

    def needed(self, values: Sequence[ir.Value], at: ir.OpBase) -> list[ir.OpBase]:
        """Return the postponed ops that values need, in order, and note those whose memory has
        changed."""
        found: dict[ir.OpBase, None] = {}

        def add(value: ir.Value) -> None:
            held = self.later.get(value)
            if held is None or held.op in found:
                return
            for each in held.op.all_operand_values():
                add(each)
            if any(self.written.get(buffer, 0) != version for buffer, version in held.versions):
                self.stale.setdefault(held.op, at)
            found[held.op] = None

        for value in values:
            add(value)
        return list(found)

    def note(self, op: ir.OpBase) -> None:
        """Count what an op writes."""
        for access in op.all_accesses():
            if access.writes:
                self.bump(base(access.value))

    def bump(self, buffer: ir.Value) -> None:
        """Count a write to a buffer."""
        self.written[buffer] = self.written.get(buffer, 0) + 1

    def bump_all(self, op: ir.OpBase) -> None:
        """Count what a loop writes before its body: a value from before is old in its second
        iteration."""
        for buffer in {base(a.value) for a in op.all_accesses() if a.writes}:
            self.bump(buffer)
