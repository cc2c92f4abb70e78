"""Give every fragment, shared buffer and parallel loop its layout.

    %t = alloc fragment {shape = [64, 32]}     →  {layout = "regs (0,1) … | lanes … | warps …"}
    %s = alloc shared {shape = [64, 64]}       →  {layout = "swizzle=128"}
    parallel [%c64, %c32] body(%i, %j) { …     →  {layout = "regs … | lanes … | warps …"}
    reduce sum %t, %r {dim = 1}                →  reduce sum %t, %r, %scratch {dim = 1}

Fragments that cannot be in registers move to shared memory (`demote.py`).  Layouts of fragments and
loops are solved for together (`solve.py`); where two uses of a fragment need different ones, it is
converted around one of them; points that must run once fill fragments through shared memory
(`once.py`).  Shared layouts follow from the accesses (`shared.py`).

In: a kernel after `expand`.  Out: each loop with constant extents and each buffer with a layout;
the fragments of a loop numbered by `RegisterLayout.register_weights`.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering, has_open_rows
from tileprof.compiler.cuda.tuning import WIDE_FRAGMENT
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.memory import base
from tileprof.ir.rewriter import per_launch
from tileprof.remarks.common import Asked, RegisterCandidate
from tileprof.remarks.layouts import (
    ByCompiler,
    ElementOutside,
    InSharedMemory,
    SeveralThreads,
    TooManyElements,
    UnderOtherShape,
    WorkedOut,
)

from .apply import apply
from .demote import Demotion, demote, is_single, unnumbered
from .flow import down, unfit
from .graph import Graph, Link, survey
from .once import repeated, run_once
from .shared import shared_layouts
from .solve import Solution, solve


def infer_layouts(kernel: ir.Kernel, lowering: Lowering) -> ir.Kernel:
    """The kernel with all layouts decided."""
    values = kernel.param_values()
    # A kernel whose rows are known at launch only looks at addresses by itself.
    unaligned = frozenset(
        values[at] for at in lowering.unaligned if not has_open_rows(values[at].buffer)
    )

    def change(launch: ir.Launch) -> ir.Launch:
        chosen = unnumbered(launch)
        while True:
            if chosen:
                _tell_demoted(chosen, lowering)
                launch = demote(launch, chosen)
            graph = survey(launch, unaligned)
            solution = solve(graph, lowering.controls.vectorize)
            chosen = _misplaced(graph, solution)
            once = {} if chosen else repeated(solution.known, lowering)
            if once:
                launch = run_once(launch, once, lowering)
            elif not chosen:
                break
        _tell_wishes(graph, lowering)
        texts = shared_layouts(graph, solution, lowering)
        return apply(graph, solution, texts, lowering)

    return per_launch(kernel, change)


def _misplaced(graph: Graph, solution: Solution) -> dict[ir.Value, Demotion]:
    """Fragments that other shapes show otherwise than their registers lie, those of which some loop
    would need many elements in each thread, those that one point changes for several threads, and
    single elements that all threads use and not all of them hold.
    """
    found: dict[ir.Value, Demotion] = {}
    for value in unfit(graph, solution.known):
        found[value] = Demotion(UnderOtherShape(), None)
    for link in graph.links:
        if _is_changed_by_one(link, solution):
            found[base(link.child)] = Demotion(SeveralThreads(), link.op.span)
    for op, _ in graph.ops:
        if is_single(op) and isinstance(op, ir.Load | ir.Store):
            layout = solution.known.get(op.buffer)
            if layout is None or not layout.is_same_everywhere:
                found[op.buffer] = Demotion(ElementOutside(), op.span)
    fixed = {base(node) for node in solution.fixed if isinstance(node, ir.Value)}
    for link in solution.links:
        if base(link.child) in fixed or not _is_indexed_by_numbers(graph, link):
            continue
        needed = down(solution.known[link.parent], link.dims, graph.shapes[link.child])
        if needed.registers_per_thread > WIDE_FRAGMENT:
            why = TooManyElements(needed.registers_per_thread)
            found[base(link.child)] = Demotion(why, link.op.span)
    return found


def _is_changed_by_one(link: Link, solution: Solution) -> bool:
    """Whether a loop writes a fragment at points that differ in more than the fragment's indices,
    and different threads run them.

    Of points with the same element a condition lets at most one write, as in `if j == first[i]:
    f[i] = …`.  Its thread is one of those that hold the element: the others would keep what they
    had.
    """
    if not link.writes or not isinstance(link.op, ir.Parallel):
        return False
    layout = solution.known.get(link.op)
    # A loop without a layout accesses no fragment in registers.
    if layout is None:
        return False
    left_out = [d for d, extent in enumerate(layout.shape) if extent > 1 and d not in link.dims]
    return any(digit.step[d] for digit in (*layout.lanes, *layout.warps) for d in left_out)


def _is_indexed_by_numbers(graph: Graph, link: Link) -> bool:
    shape = graph.shapes[link.child]
    return any(d is None and e > 1 for d, e in zip(link.dims, shape, strict=True))


def _tell_demoted(chosen: dict[ir.Value, Demotion], lowering: Lowering) -> None:
    for value, (why, span) in chosen.items():
        owner = value.owner
        place = span or (owner.span if owner is not None else None)
        rejected = (RegisterCandidate(), why)
        name = buffer_name(value)
        lowering.remarks.add("buffer", name, place, InSharedMemory(), rejected, severity="missed")


def _tell_wishes(graph: Graph, lowering: Lowering) -> None:
    """Layouts that the author gave for fragments and loops as functions: ours are chosen."""
    for op, _ in graph.ops:
        match op:
            case ir.Annotate(name="annotate_layout", target=value, hints=hints) if (
                value is not None and value.buffer.space == "fragment"
            ):
                wish = Asked(str(dict(hints).get("layout", "layout")))
                name, rejected = buffer_name(value), (wish, WorkedOut())
                lowering.remarks.add("buffer", name, op.span, ByCompiler(), rejected)
    for loop in graph.loops:
        if asked := dict(loop.hints).get("loop_layout"):
            rejected = (Asked(str(asked)), WorkedOut())
            lowering.remarks.add("parallel", "", loop.span, ByCompiler(), rejected)
