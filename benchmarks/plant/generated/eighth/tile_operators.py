"""Operators on tile kernels that came after the seventh test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They load ahead by hand, multiply what
rounding left of operands that have no rest, keep two sums for one, add up products tile by tile,
take three quarters of the threads, walk tiles in strips, and leave loops at numbers that are none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from plant.generated.operators import Operator, Site, launch_lines
from plant.generated.programs import Edit, Program, dotted, walk
from plant.generated.seventh.tile_operators import _free, _loaded, _points, _uses
from plant.generated.tile_operators import dotted_base
from plant.generated.tile_rewrites import _buffers, _launch, _tensors

__all__ = ["OPERATORS", "alternated", "folded", "prefetched", "promoted", "residual", "upside_down"]

_LOOPS = ("T.Pipelined", "T.serial")
_HALVES = ("T.float16", "T.bfloat16")
_ACCUMULATORS = ("T.float32", "T.int32")


def _renamed(text: str, name: str, other: str) -> str:
    """Return a text with another name in the place of a name."""
    return re.sub(rf"\b{name}\b", other, text)


def _counted(program: Program) -> Iterator[tuple[ast.For, str, str]]:
    """Yield loops over a number of iterations: the loop, its variable, and the number."""
    for loop, call in program.loops(*_LOOPS):
        if len(call.args) == 1 and isinstance(loop.target, ast.Name):
            yield loop, loop.target.id, program.segment(call.args[0])


def _products(program: Program) -> Iterator[tuple[ast.Call, ast.For, str, str]]:
    """Yield products that a loop adds up: the call, the loop, its variable, and the sum's name."""
    fragments = _buffers(program, "T.alloc_fragment")
    for loop, name, _ in _counted(program):
        for call in program.calls("T.gemm", inside=loop):
            total = dotted(call.args[2])
            cleared = any(each.arg == "clear_accum" for each in call.keywords)
            nearest = program.turns(call, *_LOOPS) is loop
            if not cleared and nearest and total in fragments and _uses(loop, total) == 1:
                yield call, loop, name, total


# -- both languages: loops


def prefetched(program: Program) -> Iterator[Site]:
    """Load the next iteration's tiles to registers by hand, in a loop that is not pipelined."""
    causes = ("synchronous-copy", "shallow-pipeline", "spill", "low-occupancy", "bank-conflict",
              "serial-products", "narrow-access", "late-warps")  # fmt: skip
    tiles, tensors = _buffers(program, "T.alloc_shared"), _tensors(program)
    for loop, name, count in _counted(program):
        later = f"{name}_later"
        if program.turns(loop, *_LOOPS, "T.Parallel") or not _free(program, later):
            continue
        edits: list[Edit] = []
        first, again, last = [], [f"{later} = T.min({name} + 1, {count} - 1)"], loop.body[0]
        for node in loop.body:
            call = node.value if isinstance(node, ast.Expr) else None
            if not isinstance(call, ast.Call) or dotted(call.func) != "T.copy" or call.keywords:
                break
            held = tiles.get(dotted(call.args[1]))
            if held is None or dotted_base(call.args[0]) not in tensors:
                break
            source, ahead = program.segment(call.args[0]), f"{held.name}_ahead"
            first.append(f"T.copy({_renamed(source, name, '0')}, {ahead})")
            again.append(f"T.copy({_renamed(source, name, later)}, {ahead})")
            made = f"{ahead} = T.alloc_fragment(({', '.join(held.sizes)},), {held.dtype})"
            edits.append(program.after(program.statement(held.call), made))
            edits.append(program.replace(call, f"T.copy({ahead}, {held.name})"))
            last = node
        if not first or any(_uses(node, name) for node in walk(loop.iter)):
            continue
        edits += [
            program.replace(loop.iter, f"T.serial({count})"),
            program.before(loop, "\n".join(first)),
            program.after(last, "\n".join(again)),
        ]
        yield Site(tuple(edits), (loop.lineno,), causes, f"{name} loaded ahead by hand")


def alternated(program: Program) -> Iterator[Site]:
    """Add up even and odd iterations apart, and both sums at the end."""
    causes = ("low-occupancy", "spill", "redundant-arithmetic", "serial-products", "layout-change",
              "shallow-pipeline", "bulky-code")  # fmt: skip
    fragments = _buffers(program, "T.alloc_fragment")
    found: list[tuple[ast.stmt, ast.For, str, str]] = [
        (program.statement(call), loop, name, total)
        for call, loop, name, total in _products(program)
    ]
    for loop, name, _ in _counted(program):
        for inner, _ in program.loops("T.Parallel"):
            if program.parents[inner] is not loop:
                continue
            for node in inner.body:
                if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                    total = dotted_base(node.target)
                    if total in fragments and _uses(loop, total) == 1:
                        found.append((node, loop, name, total))
    for node, loop, name, total in found:
        held, odd = fragments[total], f"{total}_odd"
        if held.dtype not in _ACCUMULATORS or not _free(program, odd, "pr", "pc", "po"):
            continue
        text = program.segment(node)
        other = _renamed(text, total, odd)
        pad = "\n" + " " * node.col_offset
        head, spot = _points(held)
        shape = ", ".join(held.sizes)
        edits = (
            program.after(program.statement(held.call),
                          f"{odd} = T.alloc_fragment(({shape},), {held.dtype})"),
            program.before(loop, f"T.clear({odd})"),
            program.replace(node, pad.join((f"if {name} % 2 == 0:", f"    {text}",
                                            "else:", f"    {other}"))),
            program.after(loop, f"{head}\n    {spot} += {spot.replace(total, odd, 1)}"),
        )  # fmt: skip
        yield Site(edits, (node.lineno,), causes, f"{total} and {odd} in turns")


# -- both languages: products


def residual(program: Program) -> Iterator[Site]:
    """Multiply as well what rounding to a narrow type leaves of an operand, which is nothing."""
    causes = ("redundant-arithmetic", "serial-products", "shallow-pipeline", "synchronous-copy",
              "layout-change", "bank-conflict", "spill", "low-occupancy",
              "late-warps")  # fmt: skip
    tiles = _buffers(program, "T.alloc_shared")
    if not _free(program, "rest", "pr", "pc"):
        return
    for call in program.calls("T.gemm"):
        held = tiles.get(dotted(call.args[0]))
        if held is None or held.dtype not in _HALVES or len(held.sizes) != 2:
            continue
        head, spot = _points(held)
        wide = f"T.cast({spot}, T.float32)"
        left = f"T.cast({wide} - T.cast(T.cast({wide}, {held.dtype}), T.float32), {held.dtype})"
        more = "".join(f", {program.segment(each)}" for each in call.keywords
                       if each.arg != "clear_accum")  # fmt: skip
        factors = ", ".join(map(program.segment, call.args[1:3]))
        statement = program.statement(call)
        edits = (
            program.after(program.statement(held.call),
                          f"rest = T.alloc_shared(({', '.join(held.sizes)}), {held.dtype})"),
            program.before(statement, f"{head}\n    rest[pr, pc] = {left}"),
            program.after(statement, f"T.gemm(rest, {factors}{more})"),
        )  # fmt: skip
        yield Site(edits, (call.lineno,), causes, f"what is left of {held.name} multiplied")


def promoted(program: Program) -> Iterator[Site]:
    """Multiply into a tile of its own in each iteration, and add that to the sum."""
    causes = ("redundant-arithmetic", "serial-products", "low-occupancy", "spill", "late-warps",
              "serial-work", "shallow-pipeline", "synchronous-copy")  # fmt: skip
    fragments = _buffers(program, "T.alloc_fragment")
    for call in program.calls("T.gemm"):
        held = fragments.get(dotted(call.args[2]))
        cleared = any(each.arg == "clear_accum" for each in call.keywords)
        if held is None or cleared or not program.turns(call, *_LOOPS):
            continue
        part = f"{held.name}_part"
        if not _free(program, part, "pr", "pc"):
            continue
        head, spot = _points(held)
        end = program.span(call)[1] - 1
        edits = (
            program.after(program.statement(held.call), f"{part} = T.alloc_fragment("
                          f"({', '.join(held.sizes)}), {held.dtype})"),
            program.replace(call.args[2], part),
            Edit(end, end, ", clear_accum=True"),
            program.after(program.statement(call), f"{head}\n    {spot} += {part}[pr, pc]"),
        )  # fmt: skip
        yield Site(edits, (call.lineno,), causes, f"{held.name} by parts")


# -- threads, strips, ends


def _uneven(program: Program) -> Iterator[Site]:
    """Take three quarters of the threads, by which no extent of a tile divides."""
    causes = ("idle-lanes", "late-warps", "layout-change", "narrow-access", "low-occupancy",
              "masked-work", "serial-work", "scattered-access")  # fmt: skip
    launch = _launch(program)
    if launch is None or list(program.calls("T.gemm")):
        return
    for each in launch.call.keywords:
        count = each.value.value if isinstance(each.value, ast.Constant) else 0
        if each.arg == "threads" and isinstance(count, int) and count >= 128:
            lines = (
                *launch_lines(program),
                *(loop.lineno for loop, _ in program.loops("T.Parallel")),
            )
            yield Site((program.replace(each.value, str(count * 3 // 4)),), lines, causes,
                       f"{count * 3 // 4} threads")  # fmt: skip


def _stripped(program: Program) -> Iterator[Site]:
    """Walk a tile in four strips, one after the other, each of a quarter of its rows."""
    causes = ("idle-lanes", "serial-work", "late-warps", "narrow-access", "layout-change",
              "bulky-code", "shallow-pipeline")  # fmt: skip
    known = {each.name: each.value for group in program.bindings() for each in group}
    for loop, call in program.loops("T.Parallel"):
        first = call.args[0]
        size = program.segment(first)
        count = known.get(size, int(size) if size.isdigit() else 0)
        names = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        row = dotted(names[0])
        if count % 4 or count < 8 or call.keywords or not _free(program, f"{row}_in"):
            continue
        rest = "".join(f", {program.segment(each)}" for each in call.args[1:])
        inner = ", ".join((f"{row}_in", *map(dotted, names[1:])))
        heads = (f"for {row}_strip in list(range(4)):",
                 f"for {inner} in T.Parallel({size} // 4{rest}):",
                 f"{row} = {row}_strip * ({size} // 4) + {row}_in")  # fmt: skip
        edits = program.deeper(loop, heads)
        yield Site(tuple(edits), program.lines(loop), causes, f"{row} in four strips")


def _left(program: Program) -> Iterator[Site]:
    """Leave a loop where what was loaded is no number, which none is."""
    causes = ("shallow-pipeline", "synchronous-copy", "serial-products", "late-warps",
              "serial-work")  # fmt: skip
    for call, held in _loaded(program):
        loop = program.turns(call, *_LOOPS)
        statement = program.statement(call)
        if loop is None or program.parents[statement] is not loop:
            continue
        spot = f"{held.name}[{', '.join('0' * len(held.sizes))}]"
        edit = program.after(loop.body[-1], f"if {spot} != {spot}:\n    break")
        yield Site((edit,), (loop.lineno,), causes, f"left where {held.name} is no number")


# -- decoys


def upside_down(program: Program) -> Iterator[Site]:
    """Add up from the last iteration to the first."""
    causes = ("shallow-pipeline", "block-order", "scattered-access", "redundant-arithmetic")
    for loop, name, count in _counted(program):
        if program.turns(loop, *_LOOPS) or not all(_sums_only(each) for each in loop.body):
            continue
        edits = (program.replace(loop.target, f"{name}_up"),
                 program.before(loop.body[0], f"{name} = {count} - 1 - {name}_up"))  # fmt: skip
        if _free(program, f"{name}_up"):
            yield Site(edits, (loop.lineno,), causes, f"{name} downwards")


def _sums_only(node: ast.stmt) -> bool:
    """Whether a statement copies, multiplies, or adds to sums, so that its turn does not matter."""
    if isinstance(node, ast.For):
        return all(isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add)
                   for each in node.body)  # fmt: skip
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or any(e.arg == "clear_accum" for e in call.keywords):
        return False
    return dotted(call.func) in ("T.copy", "T.gemm")


def folded(program: Program) -> Iterator[Site]:
    """Number the blocks of a grid of two axes by one, from which both are divided out."""
    causes = ("slow-arithmetic", "redundant-arithmetic", "block-order")
    launch = _launch(program)
    if launch is None or len(launch.axes) != 2 or not _free(program, "flat"):
        return
    across, down = map(program.segment, launch.grid)
    held = launch.node.items[0].optional_vars
    assert held is not None
    begin, end = program.span(launch.grid[0])[0], program.span(launch.grid[1])[1]
    edits = (
        Edit(begin, end, f"({across}) * ({down})"),
        program.replace(held, "flat"),
        program.before(launch.node.body[0], f"{launch.axes[0]} = flat % ({across})\n"
                       f"{launch.axes[1]} = flat // ({across})"),
    )  # fmt: skip
    yield Site(edits, launch_lines(program), causes, "one number for two axes of the grid")


_TILE = frozenset(("tile",))
OPERATORS: tuple[Operator, ...] = (
    Operator("uneven-threads", "defect", _TILE, _uneven, "Threads without work, odd layouts."),
    Operator("strip-loop", "defect", _TILE, _stripped, "Fewer points at a time than threads."),
    Operator("leave-at-nan", "defect", _TILE, _left, "Loads wait for a branch."),
)
