"""Loops over tiles, fragments and the links between, on which the layouts of one launch depend.

A loop or a fragment is a node, and so is a fragment seen under another shape, which has the same
elements in the same registers; a link says that a fragment is indexed by dimensions of a loop, or
that it is what a reduction leaves of another fragment.  Both mean the same: the child's layout is
the parent's, with the dimensions `dims` selected.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from math import gcd

from tileprof import ir
from tileprof.compiler.cuda.emit.loops.guards import unfolded
from tileprof.compiler.cuda.layouts.exchange import unreduced
from tileprof.compiler.cuda.layouts.neighbours import Window, address_of, windows
from tileprof.compiler.cuda.target import ADDED_TOGETHER, WIDEST_ACCESS
from tileprof.compiler.cuda.tuning import UNKNOWN_EXTENT, UNKNOWN_TRIPS
from tileprof.ir.memory import base
from tileprof.ir.types import Dim
from tileprof.once import cached_property

from .index import Form, Forms

Node = ir.Parallel | ir.Value
LARGE = 1 << 40


@dataclass(eq=False)
class Access:
    """One access of global or shared memory inside a loop."""

    op: ir.Load | ir.Store | ir.Atomic
    forms: tuple[Form, ...]
    strides: tuple[int, ...]
    """Strides in elements; rows of shared memory are taken to be unpadded."""
    aligned: bool = True
    """Whether the buffer starts at a multiple of 16 bytes."""
    neighbours: int = 1
    """Elements of a point, from this one on, that one instruction can access."""

    @property
    def buffer(self) -> ir.Value:
        """Return what is accessed: a parameter, an allocation, or either under another shape."""
        return self.op.buffer

    @property
    def is_shared(self) -> bool:
        """Whether it is shared memory."""
        return self.buffer.buffer.space == "shared"

    @property
    def widest(self) -> int:
        """Bytes of one access at most."""
        if isinstance(self.op, ir.Atomic):
            added = self.op.kind == "add" and self.buffer.dtype.name in ADDED_TOGETHER
            return self.buffer.dtype.bytes if self.is_shared or not added else WIDEST_ACCESS
        return WIDEST_ACCESS

    @cached_property
    def address(self) -> Form:
        """Elements from the start of the buffer."""
        total = Form() if self.aligned else Form(divisor=1)
        for each, stride in zip(self.forms, self.strides, strict=True):
            total = total.plus(each.times(stride))
        return total


@dataclass(eq=False)
class Loop:
    """A `parallel` with constant extents."""

    op: ir.Parallel
    extents: tuple[int, ...]
    weight: int
    """Rough number of its runs."""
    accesses: list[Access] = field(default_factory=list)
    work: int = 0
    """Ops of one point."""

    @cached_property
    def variables(self) -> dict[ir.Value, int]:
        """Position of each loop variable."""
        return {v: d for d, v in enumerate(self.op.body.args)}


@dataclass(eq=False)
class Link:
    """`child` is laid out as `parent` with the dimensions `dims` selected; None: indexed by a
    number, so that the dimension lies in registers."""

    op: ir.Parallel | ir.Reduce
    parent: Node
    child: ir.Value
    dims: tuple[int | None, ...]
    weight: int
    reads: bool = False
    writes: bool = False
    uses: list[ir.OpBase] = field(default_factory=list)
    """The accesses inside the loop."""


@dataclass
class Graph:
    """Everything of one launch that layouts depend on."""

    launch: ir.Launch
    threads: int
    shapes: dict[Node, tuple[int, ...]] = field(default_factory=dict)
    loops: dict[ir.Parallel, Loop] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    at: dict[Node, list[Link]] = field(default_factory=dict)
    fragments: list[ir.Alloc] = field(default_factory=list)
    seen_as: dict[Node, list[ir.Value]] = field(default_factory=dict)
    """All forms of a fragment under other shapes, for each of them the others."""
    shared: list[ir.Alloc] = field(default_factory=list)
    ops: list[tuple[ir.OpBase, int]] = field(default_factory=list)
    """Tile ops with how often they run."""

    def link(self, link: Link) -> None:
        """Add a link."""
        self.links.append(link)
        self.at.setdefault(link.parent, []).append(link)
        self.at.setdefault(link.child, []).append(link)

    def components(self) -> Iterator[list[Node]]:
        """Nodes that are linked with each other, in the order of the program."""
        seen: set[Node] = set()
        for start in self.shapes:
            if start in seen:
                continue
            seen.add(start)
            found = [start]
            for node in found:
                for link in self.at.get(node, ()):
                    for other in (link.parent, link.child):
                        if other not in seen:
                            seen.add(other)
                            found.append(other)
                for same in self.seen_as.get(node, ()):
                    if same not in seen:
                        seen.add(same)
                        found.append(same)
            yield found

    def see(self, value: ir.Value) -> None:
        """Add a fragment that is seen under another shape."""
        held = base(value)
        self.shapes[value] = value.buffer.static_shape
        together = [held, *self.seen_as.get(held, ()), value]
        for each in together:
            self.seen_as[each] = [v for v in together if v is not each]


def survey(launch: ir.Launch, unaligned: Set[ir.Value]) -> Graph:
    """The graph of a launch whose fragments are all accessed by plain indices; `unaligned` are the
    parameters whose address is a multiple of the element's size only."""
    # Threads that a block does not fill to a warp exist and are layed out too.
    graph = Graph(launch, -(-launch.block_threads // 32) * 32)
    _Survey(graph, unaligned).block(launch.body, 1)
    return graph


class _Survey:
    def __init__(self, graph: Graph, unaligned: Set[ir.Value]) -> None:
        self.graph = graph
        self.unaligned = unaligned
        self.steps: dict[ir.Value, int] = {}

    def block(self, block: ir.Block, weight: int) -> None:
        for op in block.ops:
            self._op(op, weight)

    def _op(self, op: ir.OpBase, weight: int) -> None:
        graph = self.graph
        match op:
            case ir.Alloc(space="fragment"):
                graph.fragments.append(op)
                graph.shapes[op.result] = op.shape
            case ir.Reinterpret() if op.result.buffer.space == "fragment":
                graph.see(op.result)
            case ir.Alloc(space="shared"):
                graph.shared.append(op)
            case ir.Parallel():
                self._parallel(op, weight)
            case ir.Reduce(source=source, target=target):
                graph.ops.append((op, weight))
                graph.link(Link(op, source, target, unreduced(op), weight, not op.clear, True))
            case ir.For():
                trips = op.static_range
                step = op.step.owner
                if isinstance(step, ir.Constant) and isinstance(op.start.owner, ir.Constant):
                    self.steps[op.body.args[0]] = gcd(int(step.value), int(op.start.owner.value))
                count = UNKNOWN_TRIPS if trips is None else max(len(trips), 1)
                self.block(op.body, weight * min(count, UNKNOWN_TRIPS))
            case _:
                graph.ops.append((op, weight))
                for inner in op.blocks():
                    self.block(inner, weight)

    def _parallel(self, op: ir.Parallel, weight: int) -> None:
        if op.static_extents is None:
            return
        loop = Loop(op, op.static_extents, weight)
        self.graph.loops[op] = loop
        self.graph.shapes[op] = loop.extents
        forms = Forms(loop.variables, self.steps)
        links: dict[tuple[ir.Value, tuple[int | None, ...]], Link] = {}
        for each in ir.walk(op.body):
            if isinstance(each, ir.Load | ir.Store | ir.Atomic):
                self._access(loop, each, forms, links)
            elif not isinstance(each, ir.Constant | ir.Yield | ir.If | ir.For | ir.Alloc):
                loop.work += 1
        loop.accesses = _joined(loop)
        for link in links.values():
            self.graph.link(link)

    def _access(
        self,
        loop: Loop,
        op: ir.Load | ir.Store | ir.Atomic,
        forms: Forms,
        links: dict[tuple[ir.Value, tuple[int | None, ...]], Link],
    ) -> None:
        buffer = op.buffer
        at = tuple(forms.of(i) for i in op.indices)
        if buffer.buffer.space in ("global", "shared"):
            aligned = base(buffer) not in self.unaligned
            loop.accesses.append(Access(op, at, _strides(buffer), aligned))
        if buffer.buffer.space != "fragment":
            return
        dims = []
        for index, extent in zip(op.indices, buffer.buffer.static_shape, strict=True):
            dims.append(None if extent == 1 else loop.variables.get(index))
        key = (buffer, tuple(dims))
        if key not in links:
            links[key] = Link(loop.op, loop.op, buffer, key[1], loop.weight)
        links[key].uses.append(op)
        links[key].reads |= not isinstance(op, ir.Store)
        links[key].writes |= not isinstance(op, ir.Load)


def _joined(loop: Loop) -> list[Access]:
    """Return the accesses of a loop, those of neighbours of a point as one."""
    guards = unfolded(loop.op.body)[1]
    held = {access.op: access for access in loop.accesses}

    def fits(window: Window) -> bool:
        form = held[window.first].address
        factors = gcd(form.constant, form.divisor, *form.terms.values())
        return form.is_linear and bool(form.terms) and factors % window.size == 0

    known = []
    for access in loop.accesses:
        branch = tuple((g.condition, g.holds) for g in guards.get(access.op, ()))
        if not isinstance(access.op, ir.Atomic) and access.strides and access.strides[-1] == 1:
            known.append((access.op, address_of(access.op, access.strides, branch)))
    others: set[ir.OpBase] = set()
    for window in windows(known, fits):
        held[window.first].neighbours = window.size
        others |= {op for op, _ in window.members if op is not window.first}
    return [access for access in loop.accesses if access.op not in others]


def _strides(buffer: ir.Value) -> tuple[int, ...]:
    held = buffer.buffer
    if held.strides is not None:
        return tuple(_number(s) for s in held.strides)
    strides: list[int] = []
    step = 1
    for extent in reversed(held.shape):
        strides.insert(0, step)
        step = min(step * _number(extent), LARGE)
    return tuple(strides)


def _number(dim: Dim) -> int:
    return dim if isinstance(dim, int) else UNKNOWN_EXTENT
