"""Layouts that follow from layouts: along the links of a graph, down and up.

Down, a child's layout is selected from its parent's.  Up, a loop takes the layout of a fragment
that it indexes by its variables; dimensions that the fragment does not have go where its threads
hold copies, and else into registers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tileprof import ir
from tileprof.compiler.cuda.layouts.registers import Digit, RegisterLayout, unit
from tileprof.ir.memory import base

from .graph import Graph, Link, Node

Known = dict[Node, RegisterLayout]


def down(
    parent: RegisterLayout, dims: Sequence[int | None], shape: tuple[int, ...]
) -> RegisterLayout:
    """The layout of a fragment of `shape` whose dimension k is indexed by dimension `dims[k]` of a
    loop; what the loop does not reach lies in registers."""
    made = parent.select(dims, shape)
    registers = list(made.registers)
    for d, extent in enumerate(shape):
        reach = made.covered[d]
        if reach < extent:
            registers.append(Digit(-(-extent // reach), unit(len(shape), d, reach)))
    if len(registers) == len(made.registers):
        return made
    return RegisterLayout.make(shape, registers, made.lanes, made.warps)


def up(
    child: RegisterLayout,
    dims: Sequence[int | None],
    shape: tuple[int, ...],
    vector: int = 1,
) -> RegisterLayout | None:
    """The layout of a loop over `shape` that indexes a fragment so, with `vector` elements of the
    last dimension that the fragment does not have in registers; None where threads differ in what
    the loop indexes by a number."""
    rank = len(shape)
    if any(
        d is None and any(digit.step[k] for digit in (*child.lanes, *child.warps))
        for k, d in enumerate(dims)
    ):
        return None

    def moved(digit: Digit) -> Digit:
        step = [0] * rank
        for k, d in enumerate(dims):
            if d is not None:
                step[d] = digit.step[k]
        return Digit(digit.radix, tuple(step))

    registers = [
        m
        for m in map(moved, child.registers)
        if not m.is_copy and all(s < e for s, e in zip(m.step, shape))
    ]
    missing = [d for d in reversed(range(rank)) if d not in dims and shape[d] > 1]
    reach = [1] * rank
    front: list[Digit] = []
    if missing and vector > 1:
        front.append(Digit(vector, unit(rank, missing[0], 1)))
        reach[missing[0]] = vector

    def filled(digits: Iterable[Digit]) -> list[Digit]:
        made = []
        for digit in map(moved, digits):
            free = [d for d in missing if reach[d] < shape[d]]
            if digit.is_copy and free and digit.radix == 2:
                made.append(Digit(2, unit(rank, free[0], reach[free[0]])))
                reach[free[0]] *= 2
            else:
                made.append(digit)
        return made

    lanes, warps = filled(child.lanes), filled(child.warps)
    for d in missing:
        if reach[d] < shape[d]:
            registers.append(Digit(-(-shape[d] // reach[d]), unit(rank, d, reach[d])))
    return RegisterLayout.make(shape, front + registers, lanes, warps)


Vector = Callable[[Node, Callable[[int], RegisterLayout | None]], RegisterLayout | None]
"""Chooses among the layouts of a loop for each vector width."""


def propagate(graph: Graph, known: Known, start: Iterable[Node], choose: Vector) -> None:
    """Extend `known` to every node that is linked with a known one, beginning at `start`: first
    what follows exactly, then what needs a choice."""
    queue: list[Node] = []
    for node in start:
        _learn(graph, known, node, known[node], queue)
    later: list[tuple[Link, int]] = []
    while queue or later:
        if not queue:
            later.sort(key=lambda each: each[1])
            link, _ = later.pop()
            _up(graph, known, link, queue, choose)
            continue
        node = queue.pop(0)
        for link in graph.at.get(node, ()):
            if link.parent is node and link.child not in known:
                if _is_unreached(graph, link):
                    later.append((link, 0))
                    continue
                made = down(known[node], link.dims, graph.shapes[link.child])
                _learn(graph, known, link.child, made, queue)
            elif link.child is node and link.parent not in known:
                shape = graph.shapes[link.parent]
                covered = len({d for d in link.dims if d is not None and shape[d] > 1})
                if isinstance(link.parent, ir.Parallel) and covered == _rank(shape):
                    _up(graph, known, link, queue, choose)
                else:
                    later.append((link, covered + 1))


def _learn(
    graph: Graph, known: Known, node: Node, layout: RegisterLayout, queue: list[Node]
) -> None:
    """Note the layout of a node and, before anything else follows from it, that of the same
    fragment under other shapes."""
    known[node] = layout
    queue.append(node)
    for other in graph.seen_as.get(node, ()):
        if other not in known:
            made = layout.reshape(graph.shapes[other])
            if made is not None:
                known[other] = made
                queue.append(other)


def _rank(shape: tuple[int, ...]) -> int:
    return sum(extent > 1 for extent in shape)


def _is_unreached(graph: Graph, link: Link) -> bool:
    """Whether a part of the child would lie in registers for want of anything better."""
    shape = graph.shapes[link.child]
    return any(
        extent > 1 and (d is None or graph.shapes[link.parent][d] < extent)
        for d, extent in zip(link.dims, shape, strict=True)
    )


def _up(graph: Graph, known: Known, link: Link, queue: list[Node], choose: Vector) -> None:
    """One link in the direction in which something is still unknown."""
    if link.parent in known:
        if link.child not in known:
            made = down(known[link.parent], link.dims, graph.shapes[link.child])
            _learn(graph, known, link.child, made, queue)
        return
    child, shape = known[link.child], graph.shapes[link.parent]
    chosen = choose(link.parent, lambda vector: up(child, link.dims, shape, vector))
    if chosen is not None:
        _learn(graph, known, link.parent, chosen, queue)


def conflicts(known: Known, links: Iterable[Link]) -> list[Link]:
    """The links whose two ends do not fit together."""
    return [
        link
        for link in links
        if link.parent in known
        and link.child in known
        and known[link.parent].register_weights(link.dims, known[link.child]) is None
    ]


def unfit(graph: Graph, known: Known) -> list[ir.Value]:
    """The fragments that are not laid out alike under all shapes that they are seen as."""
    found: dict[ir.Value, None] = {}
    for value in (v for views in graph.seen_as.values() for v in views):
        held = base(value)
        if value is held or held not in known or value not in known:
            continue
        if known[held].reshape(graph.shapes[value]) != known[value]:
            found[held] = None
    return list(found)
