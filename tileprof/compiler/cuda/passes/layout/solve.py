"""Find the layout of every loop and fragment of a launch: strict, then common, then free.

strict   matrix products fix the layouts of their accumulators and register operands
common   what follows from known layouts, breadth first
free     for each part of the graph that nothing fixes, layouts of its largest nodes are tried and
         the one with the fewest counted cycles is kept
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from tileprof import ir
from tileprof.compiler.cuda.layouts.candidates import candidates
from tileprof.compiler.cuda.layouts.registers import RegisterLayout
from tileprof.compiler.cuda.target import WIDEST_ACCESS
from tileprof.compiler.cuda.tuning import ROOT_SHAPES, SMALL_NODE, UNKNOWN_LAYOUT_CYCLES

from .cost import component_cost, loop_cost
from .flow import Known, conflicts, propagate, unfit
from .graph import Graph, Link, Node


@dataclass(frozen=True, slots=True, eq=False)
class Operand:
    """A fragment that an op needs in a layout of its own."""

    op: ir.Gemm
    field: str
    value: ir.Value
    layout: RegisterLayout


@dataclass
class Solution:
    """Layouts of all nodes, and what does not fit together."""

    known: Known = field(default_factory=dict)
    operands: list[Operand] = field(default_factory=list)
    """Operands of matrix products whose fragment has another layout."""
    links: list[Link] = field(default_factory=list)
    """Accesses and reductions whose fragment has another layout."""
    fixed: dict[Node, ir.Gemm] = field(default_factory=dict)
    """Fragments whose layout a matrix product fixes."""


def solve(graph: Graph, vectorize: bool = True) -> Solution:
    """Layouts for every node of the graph."""
    found = Solution()
    _strict(graph, found)
    choose = _Chooser(graph, vectorize)
    propagate(graph, found.known, list(found.known), choose)
    for nodes in graph.components():
        while missing := [n for n in nodes if n not in found.known]:
            _free(graph, found.known, missing, choose, vectorize)
    found.links = conflicts(found.known, graph.links)
    return found


def _strict(graph: Graph, found: Solution) -> None:
    for op, _ in graph.ops:
        if not isinstance(op, ir.Gemm):
            continue
        for name, value, layout in _matrix_operands(op, graph.threads):
            if found.known.setdefault(value, layout) == layout:
                found.fixed.setdefault(value, op)
            else:
                found.operands.append(Operand(op, name, value, layout))


def _matrix_operands(op: ir.Gemm, threads: int) -> Iterator[tuple[str, ir.Value, RegisterLayout]]:
    from tileprof.compiler.cuda.layouts import matrix

    if op.c.buffer.space == "fragment":
        yield "c", op.c, matrix.accumulator_layout(op, threads)
    for name, value in (("a", op.a), ("b", op.b)):
        if value.buffer.space == "fragment":
            layout = matrix.operand_layout(op, threads, "a" if name == "a" else "b")
            if layout is not None:
                yield name, value, layout


@dataclass
class _Chooser:
    """Chooses the vector width of a loop where a fragment leaves it open."""

    graph: Graph
    vectorize: bool

    def __call__(
        self, node: Node, make: Callable[[int], RegisterLayout | None]
    ) -> RegisterLayout | None:
        widths = (8, 4, 2, 1) if self.vectorize else (1,)
        if not isinstance(node, ir.Parallel) or not self.graph.loops[node].accesses:
            return make(1)
        loop = self.graph.loops[node]
        made = [m for m in map(make, widths) if m is not None]
        return min(made, key=lambda m: loop_cost(loop, m), default=None)


def _free(
    graph: Graph, known: Known, nodes: Sequence[Node], choose: _Chooser, vectorize: bool
) -> None:
    """Extend `known` to at least the root among the nodes that is best."""
    best: tuple[float, int, Known] | None = None
    inside = set(nodes)
    links = [link for link in graph.links if link.parent in inside or link.child in inside]
    roots = _roots(graph, nodes)
    for at, root in enumerate((*roots, *_numbering(graph, nodes))):
        if at >= len(roots) and best is not None and _is_settled(best[2], nodes, links):
            break
        widest, dims = _vectors(graph, nodes, root, vectorize)
        for layout in candidates(graph.shapes[root], graph.threads, widest, dims):
            tried = {**known, root: layout}
            propagate(graph, tried, [root], choose)
            missing = sum(n not in tried for n in nodes)
            cost = component_cost(graph, tried, nodes, conflicts(tried, links))
            cost += (missing + len(unfit(graph, tried))) * UNKNOWN_LAYOUT_CYCLES
            if best is None or (cost, layout.registers_per_thread) < best[:2]:
                best = cost, layout.registers_per_thread, tried
    assert best is not None
    known.update(best[2])


def _roots(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The nodes to try: the largest shapes, loops before fragments."""
    chosen: dict[tuple[int, ...], Node] = {}
    order = sorted(nodes, key=lambda n: (-_size(graph, n), isinstance(n, ir.Value)))
    least = _size(graph, order[0]) / SMALL_NODE
    for node in order:
        if _size(graph, node) > least:
            chosen.setdefault(graph.shapes[node], node)
    return list(chosen.values())[:ROOT_SHAPES]


def _is_settled(known: Known, nodes: Sequence[Node], links: Sequence[Link]) -> bool:
    """Whether all nodes have layouts that fit together."""
    return known.keys() >= set(nodes) and not conflicts(known, links)


def _numbering(graph: Graph, nodes: Sequence[Node]) -> list[Node]:
    """The loop whose points number the most elements of a fragment, to be tried where no layout of
    the roots fits everywhere: these elements are then in registers of the point's thread."""
    most = max(nodes, key=lambda n: _size(graph, n) * (_numbered(graph, n) - 1))
    return [most] if _numbered(graph, most) > 1 else []


def _numbered(graph: Graph, node: Node) -> int:
    """Return how many elements of a fragment a point of a loop indexes by numbers."""
    found = 1
    for link in graph.at.get(node, ()) if isinstance(node, ir.Parallel) else ():
        shape = graph.shapes[link.child]
        found = max(found, math.prod(e for d, e in zip(link.dims, shape, strict=True) if d is None))
    return found


def _size(graph: Graph, node: Node) -> int:
    return math.prod(graph.shapes[node])


def _vectors(
    graph: Graph, nodes: Sequence[Node], root: Node, vectorize: bool
) -> tuple[int, list[int]]:
    """The widest vector that any access of loops like the root can use, in elements, and the
    dimensions along which memory is contiguous."""
    shape = graph.shapes[root]
    last = len(shape) - 1
    smallest, dims = WIDEST_ACCESS, {last} if shape else set()
    for node in nodes:
        if not isinstance(node, ir.Parallel) or graph.shapes[node] != shape:
            continue
        loop = graph.loops[node]
        for access in loop.accesses:
            smallest = min(smallest, access.buffer.dtype.bytes)
            for variable, factor in access.address.terms.items():
                if abs(factor) == access.neighbours and variable in loop.variables:
                    dims.add(loop.variables[variable])
    limit = _wished(nodes, WIDEST_ACCESS // smallest if smallest < WIDEST_ACCESS else 4)
    return limit if vectorize else 1, sorted(dims, reverse=True)


def _wished(nodes: Sequence[Node], widest: int) -> int:
    """With the author's `coalesced_width`."""
    for node in nodes:
        if isinstance(node, ir.Parallel):
            width = dict(node.hints).get("coalesced_width")
            if isinstance(width, int) and width > 0 and width & (width - 1) == 0:
                widest = min(widest, width)
    return widest
