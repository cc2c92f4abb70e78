"""Sites of a lowered kernel as regions: consecutive ops of a block, nested in each other.

    prologue [fill C | …]   loop k [wait for As, Bs | gemm | wait for gemm]   epilogue [write C]

| mode   | regions                                                                           |
| ------ | --------------------------------------------------------------------------------- |
| scopes | ops of one scope (`marks.note_scopes`)                                            |
| stages | and loops, what stands before and after them, in these runs of steps of one kind |
| ops    | the same with each step on its own                                                |

Ops of a scope that passes have moved apart are several regions, and so several visits of a site.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tileprof import ir
from tileprof.errors import Location
from tileprof.instrument.state_table import path_of
from tileprof.ir.instructions import CpAsync
from tileprof.ir.kernel import SiteKind

from .insertion import Mode
from .steps import Step, Steps, is_glue


@dataclass(slots=True, eq=False)
class Region:
    """One visit of a site, wherever its ops are run; compared by identity."""

    name: str
    kind: SiteKind
    location: Location | None = None
    items: list[Item] = field(default_factory=list)
    step: Step | None = None
    """Step, where the region is one: its ops are one piece."""


Item = Region | ir.OpBase
_Path = tuple[int, ...]


class Regions:
    """The regions of one launch's blocks."""

    def __init__(self, kernel: ir.Kernel, launch: ir.Launch, mode: Mode) -> None:
        self._sites = kernel.sites
        self._parents = [site.parent for site in kernel.sites]
        self._by_steps = mode != "scopes"
        self._by_kind = mode == "stages"
        self._steps = Steps(launch)
        self._known: dict[ir.OpBase, list[Step]] = {}

    def of(self, block: ir.Block, owner: ir.OpBase) -> list[Item]:
        """Return the ops of a block in order, grouped as regions; `owner` holds the block."""
        items = self._scoped(block.ops, self._scopes(owner))
        return self._staged(items) if self._by_steps else items

    def splits(self, item: Item) -> bool:
        """Return whether it is a loop or branch that holds regions which are not one with it."""
        if not isinstance(item, _Control):
            return False
        if self._holds_scopes(item):
            return True
        return self._by_steps and bool(self._inside(item)) and self._single(item) is None

    def is_idle(self, op: ir.OpBase) -> bool:
        """Return whether an op takes no time that counts, so that it goes with what follows."""
        if self._by_steps:
            if is_glue(op) or self.splits(op):
                return False
            step = self._step(op)
            return step is None or (self._by_kind and step.kind == "barrier")
        return not op.SPEC.effect or isinstance(op, (ir.Alloc, ir.Ring, ir.Annotate))

    # -- scopes

    def _scopes(self, op: ir.OpBase) -> _Path:
        """Return the scopes around an op in the author's text, outermost first."""
        span = (_guarded_load(op) or op).span
        return tuple(path_of(span.scope if span is not None else None, self._parents))

    def _scoped(self, ops: Sequence[ir.OpBase], around: _Path) -> list[Item]:
        """Return ops with those of each scope inside of `around` as a region."""
        items: list[Item] = []
        opened: list[tuple[int, Region]] = []
        idle: list[Item] = []
        paths = self._paths(ops, around)
        for op in ops:
            if op not in paths and not is_glue(op):
                idle.append(op)
                continue
            if op in paths:
                path = paths[op]
                del opened[len(_common(path, tuple(number for number, _ in opened))) :]
                for number in path[len(opened) :]:
                    made = Region(self._sites[number].name, "scope", self._sites[number].location)
                    _innermost(opened, items).append(made)
                    opened.append((number, made))
            _innermost(opened, items).extend([*idle, op])
            idle = []
        return [*items, *idle]

    def _paths(self, ops: Sequence[ir.OpBase], around: _Path) -> dict[ir.OpBase, _Path]:
        """Return the scopes of each op that takes time.  A wait that a pass has put between two ops
        of one scope does not cut the scope, unless it lies in another one itself."""
        timed = [op for op in ops if not is_glue(op) and not self.is_idle(op)]
        paths = [_beyond(self._scopes(op), around) for op in timed]
        for at, op in enumerate(timed):
            if at > 0 and isinstance(op, _WAITS):
                later = zip(timed[at:], paths[at:], strict=True)
                after = next((p for o, p in later if not isinstance(o, _WAITS)), ())
                both = _common(paths[at - 1], after)
                if both[: len(paths[at])] == paths[at]:
                    paths[at] = both
        return dict(zip(timed, paths, strict=True))

    def _holds_scopes(self, op: ir.OpBase) -> bool:
        """Return whether something in a loop or branch lies in a scope that does not hold it."""
        own = self._scopes(op)
        inside = self._pieces(op)
        return any(_beyond(self._scopes(o), own) and not self.is_idle(o) for o in inside)

    # -- stages

    def _staged(self, items: list[Item]) -> list[Item]:
        """Return items of one block or scope, around its loops: prologue, loops, epilogue."""
        for item in items:
            if isinstance(item, Region):
                item.items = self._staged(item.items)
        made: list[Item] = []
        before: list[Item] = []
        name, loop = "prologue", None
        for item in items:
            if not (isinstance(item, _Loop) and self.splits(item)):
                before.append(item)
                continue
            made += self._stage(name, before, item)
            made.append(Region(_loop_name(item), "stage", item.span, [item]))
            name, before, loop = "between loops", [], item
        if loop is None:
            return self._stepped(items)
        return made + self._stage("epilogue", before, loop)

    def _stage(self, name: str, items: list[Item], beside: ir.OpBase) -> list[Item]:
        made = self._stepped(items)
        if not any(isinstance(item, Region) or self.splits(item) for item in made):
            return made
        return [Region(name, "stage", beside.span, made)]

    # -- steps

    def _stepped(self, items: Sequence[Item]) -> list[Item]:
        """Return steps, or runs of steps of one kind, as regions."""
        runs = _Runs(self._by_kind)
        for item in items:
            if isinstance(item, Region) or self.splits(item):
                runs.add(item)
            elif is_glue(item):
                runs.glue(item)
            else:
                runs.step(item, self._step(item))
        return runs.done()

    def _step(self, op: ir.OpBase) -> Step | None:
        """Return the step of an op; of a loop or branch, if it does a single thing."""
        if isinstance(op, _Control):
            return self._single(op)
        step = self._steps.of(op)
        return _coarse(step) if step is not None and self._by_kind else step

    def _single(self, op: ir.For | ir.While | ir.If) -> Step | None:
        inside, loops = self._inside(op), isinstance(op, _Loop)
        if not inside:
            return Step("compute", _loop_name(op)) if isinstance(op, _Loop) else None
        # Each iteration of a loop is a visit; a branch not taken must leave rings as they are.
        counts = inside[0].queued if loops else inside[0].guarded
        return None if counts or len(inside) > 1 else inside[0]

    def _inside(self, op: ir.For | ir.While | ir.If) -> list[Step]:
        """Return the steps in a loop or a branch, joined as they would be in one block."""
        if op not in self._known:
            runs = _Runs(self._by_kind)
            for inner in self._pieces(op):
                if is_glue(inner):
                    runs.glue(inner)
                else:
                    runs.step(inner, self._step(inner))
            found = [item.step for item in runs.done() if isinstance(item, Region)]
            self._known[op] = [step for step in found if step is not None]
        return self._known[op]

    def _pieces(self, op: ir.OpBase) -> Iterator[ir.OpBase]:
        """Yield what is inside of a loop or branch, at any depth: ops, and loops without own steps.

        Such loops take their time all the same.
        """
        for block in op.blocks():
            for inner in block.ops:
                if isinstance(inner, _Control) and not self._is_bare(inner):
                    yield from self._pieces(inner)
                else:
                    yield inner

    def _is_bare(self, op: ir.OpBase) -> bool:
        """Return whether it is a loop without a step inside."""
        return self._by_steps and isinstance(op, _Loop) and not self._inside(op)


class _Runs:
    """Ops of one block, joined to regions from first to last."""

    def __init__(self, by_kind: bool) -> None:
        self._by_kind = by_kind
        self._items: list[Item] = []
        self._idle: list[Item] = []
        self._run: Region | None = None
        self._sealed = False

    def add(self, item: Item) -> None:
        """Add what is no step: a region, or a loop or a branch with regions of its own."""
        self._items += [*self._idle, item]
        self._idle, self._run = [], None

    def glue(self, op: ir.OpBase) -> None:
        """Add an op that goes with the step before; it ends a group of loads."""
        held = self._items if self._run is None else self._run.items
        held += [*self._idle, op]
        self._idle, self._sealed = [], True

    def step(self, op: ir.OpBase, step: Step | None) -> None:
        """Add an op with its step; None for an op that goes with what follows."""
        before = self._run.step if self._run is not None else None
        if step is not None and before is not None and self._joins(before, step):
            assert self._run is not None
            self._run.items += [*self._idle, op]
            self._run.step = _joined(before, step)
            self._run.name = self._run.step.name
        elif step is None or (step.kind == "barrier" and self._by_kind):
            self._idle.append(op)
            return
        else:
            title = step.title if self._by_kind else step.name
            kind: SiteKind = "stage" if self._by_kind else "op"
            self._run = Region(title, kind, op.span, [op], step)
            self._items += [*self._idle, self._run]
        self._idle, self._sealed = [], False

    def done(self) -> list[Item]:
        """Return the regions, and the ops between them."""
        return [*self._items, *self._idle]

    def _joins(self, before: Step, after: Step) -> bool:
        """Return whether a step goes on with the one before."""
        if before.kind == after.kind == "load" and before.issues:
            return before.issues == after.issues and not self._sealed
        if not self._by_kind:
            return False
        if after.kind == "barrier":
            return before.kind.startswith("wait")
        return before.kind == after.kind and not before.queued and not after.queued


_WAITS = (
    ir.Wait, ir.RingWait, ir.RingAcquire, ir.RingSend, ir.RingReceive, ir.Barrier, ir.TurnWait
)  # fmt: skip
_Loop = (ir.For, ir.While)
_Control = (ir.For, ir.While, ir.If)


def _coarse(step: Step) -> Step:
    """Return a step as part of a run: asynchronous stores and their waits count as writing."""
    if step.kind == "wait stores" or step.issues == "bulk":
        return replace(step, kind="write", issues="", retires="", pending=0)
    return step


def _joined(before: Step, after: Step) -> Step:
    if after.kind == "barrier":
        return before
    made = replace(before, what=before.what + after.what)
    return replace(made, name=made.title)


def _loop_name(op: ir.For | ir.While) -> str:
    name = op.body.args[0].name if isinstance(op, ir.For) else ""
    return f"loop {name}".rstrip()


def _leaves(op: ir.OpBase) -> Iterator[ir.OpBase]:
    """Yield the ops inside of loops and branches, at any depth, without the loops and branches."""
    for block in op.blocks():
        for inner in block.ops:
            if isinstance(inner, _Control):
                yield from _leaves(inner)
            else:
                yield inner


def _guarded_load(op: ir.OpBase) -> ir.OpBase | None:
    """The first load of a group of cp.async that a branch leaves out beyond the last iteration:
    such a branch is in the scope that all of the loads are in, and the group counts when empty
    too."""
    if not isinstance(op, ir.If):
        return None
    inside = [o for o in _leaves(op) if o.SPEC.effect and not is_glue(o)]
    loads = [o for o in inside if isinstance(o, ir.AsyncCopy) and isinstance(o.lowering, CpAsync)]
    scopes = {o.span.scope if o.span is not None else None for o in loads}
    return loads[0] if len(loads) == len(inside) and len(scopes) == 1 else None


def _innermost(opened: list[tuple[int, Region]], items: list[Item]) -> list[Item]:
    return opened[-1][1].items if opened else items


def _common(a: _Path, b: _Path) -> _Path:
    count = 0
    while count < min(len(a), len(b)) and a[count] == b[count]:
        count += 1
    return a[:count]


def _beyond(path: _Path, around: _Path) -> _Path:
    """Return the scopes of a path that are not around already."""
    return path[len(_common(path, around)) :]
