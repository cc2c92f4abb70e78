"""Groups of products and of bulk stores that may be running at a place of a launch.

In: the groups before an op, and what it commits.  Out: the groups behind it, oldest first, each
with how many were surely committed after it: so many may still run where it has to be complete.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tileprof import ir


@dataclass(frozen=True)
class Group:
    """A committed group of products, or of bulk stores."""

    op: ir.OpBase
    """Op of the kernel before this pass."""
    age: int
    """0: of this iteration of the loop around it; 1: of an earlier one."""
    result: ir.Value | None
    """The accumulator."""
    reads: frozenset[ir.Value]
    """Buffers that it reads until it is complete."""
    token: ir.Value = field(compare=False)
    """Value that it returned, another one in each walk over a loop."""
    younger: int = 0
    """Groups that were surely committed after it."""

    @property
    def key(self) -> tuple[ir.OpBase, int]:
        """The same in every walk over a loop."""
        return self.op, self.age


Groups = tuple[Group, ...]


def join(*ways: Groups) -> Groups:
    """Return what may be running after any of several ways, oldest first."""
    held: dict[tuple[ir.OpBase, int], Group] = {}
    for group in (g for way in ways for g in way):
        known = held.get(group.key, group)
        held[group.key] = replace(group, younger=min(known.younger, group.younger))
    return tuple(sorted(held.values(), key=lambda g: -g.younger))


def committed(groups: Groups, new: Group) -> Groups:
    """One more group; what the same op committed before belongs to an earlier iteration."""
    aged = []
    for group in groups:
        age = 1 if group.op is new.op else group.age
        aged.append(replace(group, age=age, younger=group.younger + 1))
    return (*join(tuple(aged)), new)


@dataclass
class State:
    """Groups that may be running, oldest first."""

    wgmma: Groups = ()
    stores: Groups = ()

    def copy(self) -> State:
        """The same, to be changed on its own."""
        return State(self.wgmma, self.stores)

    def become(self, *ways: State) -> None:
        """Let what may be running after any of these be the state."""
        self.wgmma = join(*(w.wgmma for w in ways))
        self.stores = join(*(w.stores for w in ways))
