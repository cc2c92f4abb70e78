"""Operators on tile kernels that came after the fifth test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They add up with a correction that nobody
needs, count for statistics, loop over arrays of registers, spread rows over tiles, copy more than
is used, read numbers byte by byte, and divide by constants.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from plant.generated.fresh.tile_operators import _index, read_by_element
from plant.generated.operators import Operator, Site
from plant.generated.programs import Edit, Program, dotted
from plant.generated.tile_operators import dotted_base
from plant.generated.tile_rewrites import _buffers, _dtype, _launch, _tensors, _written

__all__ = ["OPERATORS", "compensated", "counted"]

_LOOPS = ("T.Pipelined", "T.serial")
_ALLOC = ("T.alloc_shared", "T.alloc_fragment")


def _names(node: ast.AST) -> set[str]:
    """Return the names in a node."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _stored(node: ast.AST) -> set[str]:
    """Return the names that a node binds."""
    return {
        each.id for each in ast.walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }  # fmt: skip


# -- both languages


def compensated(program: Program) -> Iterator[Site]:
    """Add up by Kahan's summation."""
    causes = ("redundant-arithmetic", "slow-arithmetic", "spill", "low-occupancy")
    fragments = _buffers(program, "T.alloc_fragment")
    if _names(program.body) & {"term", "next_sum"}:
        return
    for loop, _ in program.loops("T.Parallel"):
        points = [each.id for each in ast.walk(loop.target) if isinstance(each, ast.Name)]
        for node in loop.body:
            if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
                continue
            target = node.target
            held = fragments.get(dotted_base(target))
            if held is None or not isinstance(target, ast.Subscript) or held.dtype != "T.float32":
                continue
            # An element that several points add to would lose what the others add.
            alone = list(map(program.segment, _index(target))) == points
            if not alone or not program.turns(loop, *_LOOPS):
                continue
            spot, lost = program.segment(target), f"{held.name}_lost"
            rest = spot.replace(held.name, lost, 1)
            lines = (
                f"term = ({program.segment(node.value)}) - {rest}",
                f"next_sum = {spot} + term",
                f"{rest} = (next_sum - {spot}) - term",
                f"{spot} = next_sum",
            )
            pad = "\n" + " " * node.col_offset
            made = f"{lost} = {program.segment(held.call)}\nT.clear({lost})"
            edits = (program.after(program.statement(held.call), made),
                     program.replace(node, pad.join(lines)))  # fmt: skip
            yield Site(edits, (node.lineno,), causes, f"{held.name} with a correction")


def counted(program: Program) -> Iterator[Site]:
    """Count the iterations of all blocks in one number."""
    causes = ("atomic-traffic", "serial-work", "late-warps", "long-end", "shallow-pipeline")
    launch = _launch(program)
    if launch is None or "Visits" in _names(program.body):
        return
    text = "\n".join((
        "Visits = T.alloc_global((1,), T.int32)",
        "with T.Kernel(1, threads=32) as o:",
        "    Visits[o] = 0",
    ))  # fmt: skip
    for loop, _ in program.loops(*_LOOPS):
        if program.turns(loop, "T.Parallel"):
            continue
        edits = (program.before(launch.node, text),
                 program.before(loop.body[0], "T.atomic_add(Visits[0], 1)"))  # fmt: skip
        yield Site(edits, (loop.lineno,), causes, "iterations counted")


# -- loops and tiles


def _rolled(program: Program) -> Iterator[Site]:
    """Run a loop over a thread's array as a loop, so that its elements need addresses."""
    causes = ("spill", "redundant-arithmetic", "shallow-pipeline", "serial-work", "late-warps")
    for loop, call in program.loops("T.unroll"):
        edit = program.replace(call.func, "T.serial")
        yield Site((edit,), (loop.lineno,), causes, f"{program.segment(call)} as a loop")


def _spread(program: Program) -> Iterator[Site]:
    """Fill a tile with a row or column before a loop that reads the tile in its place."""
    causes = ("redundant-arithmetic", "redundant-traffic", "bank-conflict", "low-occupancy",
              "late-warps", "layout-change", "shallow-pipeline")  # fmt: skip
    launch = _launch(program)
    if launch is None or "wide" in _names(program.body):
        return
    types = {name: each.dtype for name, each in _buffers(program, *_ALLOC).items()}
    types |= {name: _dtype(program, name) for name in _tensors(program)}
    for loop, call in program.loops("T.Parallel"):
        if len(call.args) != 2 or not isinstance(loop.target, ast.Tuple):
            continue
        points = _names(loop.target)
        changed = set().union(*map(_stored, loop.body)) | set().union(*map(_written, loop.body))
        known: set[str] = set()
        for node in [each for part in loop.body for each in ast.walk(part)]:
            if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
                continue
            name, text = dotted(node.value), program.segment(node)
            used = set().union(*map(_names, _index(node)))
            plain = not any(isinstance(each, ast.Subscript) for part in _index(node)
                            for each in ast.walk(part))  # fmt: skip
            one = len(used & points) == 1 and not (used | {name}) & changed
            if name not in types or text in known or not plain or not one:
                continue
            known.add(text)
            sizes = ", ".join(map(program.segment, call.args))
            first = launch.node.body[0]
            place = f"wide[{', '.join(map(program.segment, loop.target.elts))}]"
            lines = f"{program.text[program.span(loop)[0] : program.span(call)[1]]}:"
            spots = [
                each for part in loop.body for each in ast.walk(part)
                if isinstance(each, ast.Subscript) and program.segment(each) == text
            ]  # fmt: skip
            edits = (
                program.before(first, f"wide = T.alloc_shared(({sizes}), {types[name]})"),
                program.before(loop, f"{lines}\n    {place} = {text}"),
                *(program.replace(each, place) for each in spots),
            )
            yield Site(edits, (loop.lineno, node.lineno), causes, f"{text} spread over a tile")


def _more_copied(program: Program) -> Iterator[Site]:
    """Copy twice as much of an axis as is used, as for a border that there once was."""
    causes = ("redundant-traffic", "low-occupancy", "shallow-pipeline", "bank-conflict",
              "synchronous-copy")  # fmt: skip
    tensors = _tensors(program)
    for name, held in _buffers(program, "T.alloc_shared").items():
        uses = [
            node for node in ast.walk(program.body)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]  # fmt: skip
        copies = [
            call for call in program.calls("T.copy")
            if len(call.args) == 2 and dotted(call.args[1]) == name
        ]  # fmt: skip
        if len(copies) != 1 or not isinstance(copies[0].args[0], ast.Subscript):
            continue
        index = _index(copies[0].args[0])
        sliced = [at for at, each in enumerate(index) if isinstance(each, ast.Slice)]
        axes = sliced or list(range(len(index) - len(held.sizes), len(index)))
        moving = [at for at, axis in enumerate(axes) if axis >= 0 and _moves(index[axis])]
        if dotted_base(copies[0].args[0]) not in tensors or len(axes) != len(held.sizes):
            continue
        if not moving:
            continue
        at = moving[-1]
        part, size = index[axes[at]], held.sizes[at]
        edits = []
        if isinstance(part, ast.Slice):
            assert part.upper is not None
            upper = program.segment(part.upper)
            edits.append(program.replace(part.upper, f"{upper} + {size}"))
        whole = ", ".join(f"0:{each}" for each in held.sizes)
        for use in uses:
            parent = program.parents[use]
            if isinstance(parent, ast.Subscript) or parent is copies[0]:
                continue
            if not isinstance(parent, ast.Call) or dotted(parent.func) not in ("T.copy", "T.gemm"):
                break
            edits.append(program.replace(use, f"{name}[{whole}]"))
        else:
            assert isinstance(held.call.args[0], ast.Tuple)
            edits.append(program.replace(held.call.args[0].elts[at], f"2 * {size}"))
            yield Site(tuple(edits), (copies[0].lineno, held.call.lineno), causes,
                       f"twice as much in {name}")  # fmt: skip


def _moves(place: ast.expr) -> bool:
    """Whether a copy begins at a computed place of an axis."""
    start = place.lower if isinstance(place, ast.Slice) else place
    return start is not None and bool(_names(start))


# -- elements


def _by_bytes(program: Program) -> Iterator[Site]:
    """Read four bytes and put a number together, as parsers of files do."""
    causes = ("narrow-access", "scattered-access", "redundant-arithmetic", "redundant-traffic")
    launch = _launch(program)
    if launch is None:
        return
    for name, extents, spots in read_by_element(program, launch):
        dtype = _dtype(program, name)
        if dtype not in ("T.float32", "T.int32", "T.uint32"):
            continue
        *outer, last = extents
        shape = ", ".join((*outer, f"{last} * 4")) + ("" if outer else ",")
        edits = [program.before(launch.node, f"{name}_bytes = T.view({name}, ({shape}), T.uint8)")]
        for spot in spots:
            *rows, column = map(program.segment, _index(spot))
            parts = []
            for at in range(4):
                place = ", ".join((*rows, f"({column}) * 4 + {at}"))
                parts.append(f"(T.cast({name}_bytes[{place}], T.uint32) << T.uint32({8 * at}))")
            edits.append(program.replace(spot, f"T.reinterpret({' | '.join(parts)}, {dtype})"))
        lines = tuple(sorted({spot.lineno for spot in spots}))
        yield Site(tuple(edits), lines, causes, f"{name} byte by byte")


def _divided(program: Program) -> Iterator[Site]:
    """Divide by constants instead of multiplying by what is one over them."""
    for loop, _ in program.loops("T.Parallel"):
        edits: list[Edit] = []
        for node in [each for part in loop.body for each in ast.walk(part)]:
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
                continue
            for factor, other in ((node.left, node.right), (node.right, node.left)):
                value = factor.value if isinstance(factor, ast.Constant) else None
                if not isinstance(value, float) or isinstance(other, ast.Constant) or not value:
                    continue
                start, end = program.span(node)
                inside = any(edit.start < end and edit.end > start for edit in edits)
                if math.frexp(value)[0] != 0.5 and not inside:
                    text = f"({program.segment(other)}) / {1 / value!r}"
                    edits.append(program.replace(node, text))
        if edits:
            lines = tuple(range(loop.lineno, (loop.end_lineno or loop.lineno) + 1))
            yield Site(tuple(edits), lines, ("slow-arithmetic", "redundant-arithmetic"),
                       f"{len(edits)} divisions")  # fmt: skip


_TILE = frozenset(("tile",))
OPERATORS: tuple[Operator, ...] = (
    Operator("roll-loop", "defect", _TILE, _rolled, "Registers that are addressed lie in memory."),
    Operator("spread-row", "defect", _TILE, _spread, "A tile is written and read for a row."),
    Operator("copy-more", "defect", _TILE, _more_copied, "Bytes that nobody uses."),
    Operator("read-bytes", "defect", _TILE, _by_bytes, "Four requests for a number."),
    Operator("divide-constant", "defect", _TILE, _divided, "Some ten instructions for one."),
)  # fmt: skip
