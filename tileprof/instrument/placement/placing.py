"""Put marks into a kernel that was lowered for a GPU: the last pass, so nothing else sees them.

    ring_acquire %ring                mark {state = 3}     producer / loop k / wait for a free slot
    async_copy %A, %As, %ring    →    ring_acquire %ring
    async_copy %B, %Bs, %ring         mark {state = 4}     producer / loop k / load A, B
                                      async_copy %A, %As, %ring …

A mark says which state the calling warp is in from here on; the time until its next mark is spent
there.  A state is a site and how many sites of its path go on from before: the others are visits
that begin here.  Both hold whichever path control took:

- a loop or a branch that holds marks has the state of its own place in front of it;
- into the body of a loop only the sites around it go on, also from one iteration to the next;
- behind a loop or a branch the sites around it go on, and no state is taken to be known.

A condition of a `while` runs in the state before it.  No mark reads or writes what another op does,
so one may stand anywhere between two ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.ir.rewriter import clone, clone_block, opened

from .insertion import Mode
from .marks import strip_marks
from .regions import Item, Region, Regions
from .steps import is_glue


def place_marks(kernel: ir.Kernel, mode: Mode) -> ir.Kernel:
    """Return the kernel with marks for the sites of `mode`, and its tables of sites and states.

    In: a kernel after all passes, its scopes noted by `note_scopes`.  Where there is no site it
    comes back without marks.
    """
    bare = strip_marks(kernel)
    if mode == "off" or (mode == "scopes" and not kernel.sites):
        return bare
    table = _Table()
    ops = [
        _Launch(kernel, op, mode, table).marked() if isinstance(op, ir.Launch) else op
        for op in kernel.body.ops
    ]
    if not table.sites:
        return bare
    body = ir.Block(kernel.body.args, ops)
    return replace(kernel, body=body, sites=tuple(table.sites), states=tuple(table.states))


class _Table:
    """Sites and states of a kernel, numbered as they are met."""

    def __init__(self) -> None:
        self.sites: list[ir.Site] = []
        self.states: list[ir.State] = [ir.State(-1)]
        self._site_of: dict[object, int] = {}
        self._state_of: dict[ir.State, int] = {self.states[0]: 0}

    def state(self, path: Sequence[Region], fresh: int) -> int:
        """Return the number of the state in the innermost region of a path."""
        site: int | None = None
        for region in path:
            site = self._site(region, site)
        state = ir.State(-1 if site is None else site, fresh)
        if state not in self._state_of:
            self._state_of[state] = len(self.states)
            self.states.append(state)
        return self._state_of[state]

    def _site(self, region: Region, parent: int | None) -> int:
        """Return a site's number; one place of the source in copies of one loop is one site."""
        step, location = region.step, region.location
        if location is None and parent is not None:
            # What a pass made of nothing in particular.
            location = self.sites[parent].location
        queues = (step.issues, step.retires, step.pending) if step is not None else ("", "", 0)
        key = (region.name, region.kind, location, parent, queues)
        if key not in self._site_of:
            number = self._site_of[key] = len(self.sites)
            self.sites.append(ir.Site(number, region.name, region.kind, location, parent, *queues))
        return self._site_of[key]


class _Launch:
    """One launch on the way to its marks."""

    def __init__(self, kernel: ir.Kernel, launch: ir.Launch, mode: Mode, table: _Table) -> None:
        self.launch = launch
        self.table = table
        self.regions = Regions(kernel, launch, mode)
        self.shows_roles = mode != "scopes"
        self.mapping: dict[ir.Value, ir.Value] = {}
        self.path: list[Region] = []
        """The regions around the op at hand."""
        self.held: tuple[Region, ...] = ()
        """Regions that the warp has entered and not left, whichever path it took."""
        self.exact = False
        """True where the warp's state is the innermost of these, whichever path it came by."""
        self.idle_from = 0
        """Index in the current block for a mark: in front of ops that go with what follows."""

    def marked(self) -> ir.Launch:
        """Return the launch with marks; as it was where it has no site."""
        sites = len(self.table.sites)
        body = self._body(self.launch.body)
        if len(self.table.sites) == sites and not any(
            isinstance(o, ir.Mark) and o.state for o in ir.walk(body)
        ):
            return self.launch
        made = clone(self.launch, {}, {"body": body})
        assert isinstance(made, ir.Launch)
        return made

    def _body(self, block: ir.Block) -> ir.Block:
        if not any(isinstance(op, ir.Roles) for op in block.ops):
            return self._block(block, self.launch)
        made = opened(block, self.mapping)
        for op in block.ops:
            regions = {}
            if isinstance(op, ir.Roles):
                regions = {n: self._role(n, getattr(op, n), op) for n in op.SPEC.regions}
            self._emit(op, made, regions)
        return made

    def _role(self, name: str, block: ir.Block, op: ir.Roles) -> ir.Block:
        """Return one role, of whose state nothing is known when it begins."""
        self.path = [Region(name, "stage", op.span)] if self.shows_roles else []
        self.held, self.exact = (), False
        made = self._block(block, op)
        self.path = []
        return made

    # -- blocks

    def _block(self, block: ir.Block, owner: ir.OpBase) -> ir.Block:
        """Return a copy of a block with marks."""
        made = opened(block, self.mapping)
        outer, self.idle_from = self.idle_from, 0
        self._items(self.regions.of(block, owner), made)
        self.idle_from = outer
        return made

    def _items(self, items: Sequence[Item], made: ir.Block) -> None:
        for item in items:
            if isinstance(item, Region):
                self.path.append(item)
                if item.step is None:
                    self._items(item.items, made)
                else:
                    self._whole(item, made)
                self.path.pop()
            else:
                self._op(item, made)

    def _whole(self, region: Region, made: ir.Block) -> None:
        """Add a step: one mark, then all of its ops."""
        self._ensure(made)
        for op in region.items:
            assert isinstance(op, ir.OpBase)
            self._copy(op, made)
        self.idle_from = len(made.ops)

    def _op(self, op: ir.OpBase, made: ir.Block) -> None:
        if self.regions.splits(op):
            self._ensure(made)
            self._emit(op, made, self._control(op))
        elif is_glue(op):
            self._copy(op, made)
            if not self._is_exact():
                # The op before is in the loop's last iteration, so it goes with what follows.
                return
        elif self.regions.is_idle(op):
            self._copy(op, made)
            return
        else:
            self._ensure(made)
            self._copy(op, made)
        self.idle_from = len(made.ops)

    def _control(self, op: ir.OpBase) -> dict[str, ir.Block]:
        """Return the blocks of a loop or a branch; behind it, the sites around it go on."""
        around = tuple(self.path)
        regions: dict[str, ir.Block] = {}
        for name in op.SPEC.regions:
            block: ir.Block = getattr(op, name)
            # An iteration may begin in the state that the previous one left.
            self.held, self.exact = around, isinstance(op, ir.If)
            if name == "condition":
                regions[name] = clone_block(block, self.mapping)
            else:
                regions[name] = self._block(block, op)
        self.held, self.exact = around, False
        return regions

    # -- ops

    def _ensure(self, made: ir.Block) -> None:
        """Put a mark where the warp's state is not known to be that of the path."""
        if self._is_exact():
            return
        path = tuple(self.path)
        fresh = 0
        while fresh < min(len(path), len(self.held)) and path[fresh] is self.held[fresh]:
            fresh += 1
        span = path[-1].location if path else None
        mark = ir.Mark(self.table.state(path, fresh), span=span)
        made.ops.insert(self.idle_from, mark)
        self.held, self.exact = path, True

    def _is_exact(self) -> bool:
        return self.exact and tuple(self.path) == self.held

    def _copy(self, op: ir.OpBase, made: ir.Block) -> None:
        regions = {n: clone_block(getattr(op, n), self.mapping) for n in op.SPEC.regions}
        self._emit(op, made, regions)

    def _emit(self, op: ir.OpBase, made: ir.Block, regions: dict[str, ir.Block]) -> None:
        new = clone(op, self.mapping, regions)
        self.mapping.update(zip(op.results, new.results, strict=True))
        made.ops.append(new)
