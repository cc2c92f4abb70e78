"""Operators on tile kernels that came after the fourth test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They clear what is overwritten, keep more
shared memory than is used, take elements out of pairs, index by 64 bits, and leave checks in.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from plant.generated.fresh.tile_operators import _index, read_by_element
from plant.generated.operators import Operator, Site
from plant.generated.programs import Program, dotted
from plant.generated.tile_operators import dotted_base
from plant.generated.tile_rewrites import _buffers, _dtype, _launch, _tensors

__all__ = ["OPERATORS", "paired"]

_LOOPS = ("T.Pipelined", "T.serial")
_ALLOC = ("T.alloc_shared", "T.alloc_fragment")
_BYTES = {"T.float32": 4, "T.int32": 4, "T.bfloat16": 2, "T.float16": 2, "T.int8": 1, "T.uint8": 1}
_RESERVED = 96 * 1024
"""Bytes of shared memory that an oversized tile takes: two blocks of it fill a multiprocessor."""


def _cleared(program: Program) -> Iterator[Site]:
    """Clear a tile in each iteration before a copy overwrites all of it."""
    causes = ("redundant-arithmetic", "serial-work", "synchronous-copy", "shallow-pipeline",
              "late-warps", "bank-conflict")  # fmt: skip
    tiles, tensors = _buffers(program, *_ALLOC), _tensors(program)
    for call in program.calls("T.copy"):
        name = dotted(call.args[1]) if len(call.args) == 2 else ""
        if name in tiles and dotted_base(call.args[0]) in tensors and program.turns(call, *_LOOPS):
            edit = program.before(program.statement(call), f"T.clear({name})")
            yield Site((edit,), (call.lineno,), causes, f"{name} cleared before it is copied")


def _oversized(program: Program) -> Iterator[Site]:
    """Allocate many times the rows that a tile in shared memory has."""
    known = {each.name: each.value for group in program.bindings() for each in group}
    for name, held in _buffers(program, "T.alloc_shared").items():
        try:
            extents = [int(eval(each, {"__builtins__": {}}, dict(known))) for each in held.sizes]
        except (NameError, SyntaxError, TypeError):
            continue
        size = _BYTES.get(held.dtype, 4)
        for extent in extents:
            size *= extent
        uses = [
            node for node in ast.walk(program.body)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        ]  # fmt: skip
        whole = ", ".join(f"0:{each}" for each in held.sizes)
        edits = []
        for use in uses:
            parent = program.parents[use]
            if isinstance(parent, ast.Subscript):
                continue
            if not isinstance(parent, ast.Call) or dotted(parent.func) != "T.copy":
                break
            edits.append(program.replace(use, f"{name}[{whole}]"))
        else:
            factor = _RESERVED // size
            if factor >= 2 and isinstance(held.call.args[0], ast.Tuple):
                first = held.call.args[0].elts[0]
                edits.append(program.replace(first, f"({program.segment(first)}) * {factor}"))
                yield Site(tuple(edits), (held.call.lineno, program.body.lineno),
                           ("low-occupancy",), f"{name} {factor} times as large")  # fmt: skip


def paired(program: Program) -> Iterator[Site]:
    """Put each element of an input beside one that nobody needs, as structures of two have them."""
    causes = ("scattered-access", "narrow-access", "redundant-traffic", "needless-pass")
    launch = _launch(program)
    if launch is None:
        return
    for name, extents, spots in read_by_element(program, launch):
        if len(extents) > 3:
            continue
        *outer, last = extents
        axes = ["p", "q"][: len(outer)]
        # The last but one goes to the grid's first axis, which has room for any number of rows.
        grid = (*outer[-1:], f"T.ceildiv({last}, 1024)", *outer[:-1])
        if not outer:
            grid = (f"T.ceildiv({last}, 1024)",)
        names = ", ".join((*axes[-1:], "o", *axes[:-1]))
        names = f"({names})" if axes else names
        place = ", ".join((*axes, "o * 1024 + i"))
        text = "\n".join((
            f"{name}_pairs = T.alloc_global(({', '.join(extents)}, 2), {_dtype(program, name)})",
            f"with T.Kernel({', '.join(grid)}, threads=128) as {names}:",
            "    for i in T.Parallel(1024):",
            f"        {name}_pairs[{place}, 0] = {name}[{place}]",
        ))  # fmt: skip
        edits = [program.before(launch.node, text)]
        for spot in spots:
            inner = ", ".join(map(program.segment, _index(spot)))
            edits.append(program.replace(spot, f"{name}_pairs[{inner}, 0]"))
        lines = tuple(sorted({spot.lineno for spot in spots}))
        yield Site(tuple(edits), lines, causes, f"{name} as pairs", counts=grid[1:])


def _long_indices(program: Program) -> Iterator[Site]:
    """Reckon where elements are with whole numbers of 64 bits."""
    causes = ("wide-arithmetic", "slow-arithmetic", "redundant-arithmetic", "spill")
    tensors = _tensors(program)
    launch = _launch(program)
    if launch is None:
        return
    indices = {
        each.id for node in ast.walk(program.body)
        if isinstance(node, ast.Subscript) and dotted(node.value) in tensors
        for part in _index(node) for each in ast.walk(part) if isinstance(each, ast.Name)
    }  # fmt: skip
    for loop, _ in program.loops("T.Parallel"):
        for node in loop.body:
            if not isinstance(node, ast.Assign):
                continue
            pairs = [(node.targets[0], node.value)]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(node.targets[0].elts, node.value.elts))
            edits = [
                program.replace(value, f"T.cast({program.segment(value)}, T.int64)")
                for one, value in pairs
                if dotted(one) in indices and isinstance(value, ast.BinOp)
                and {each.id for each in ast.walk(value) if isinstance(each, ast.Name)}
                & set(launch.axes)
            ]  # fmt: skip
            if edits:
                yield Site(tuple(edits), program.lines(loop), causes, "indices of 64 bits")


def _asserted(program: Program) -> Iterator[Site]:
    """Check in the innermost loop that numbers are numbers, as when a kernel was debugged."""
    causes = ("redundant-arithmetic", "late-warps", "masked-work", "narrow-access", "bulky-code")
    tiles = _buffers(program, *_ALLOC)
    for loop, _ in program.loops("T.Parallel"):
        for node in loop.body:
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            if isinstance(node, ast.AugAssign):
                target = node.target
            if (
                isinstance(target, ast.Subscript)
                and dotted(target.value) in tiles
                and tiles[dotted(target.value)].dtype == "T.float32"
                and program.turns(loop, *_LOOPS)
            ):
                text = program.segment(target)
                edit = program.after(node, f"T.device_assert({text} == {text})")
                yield Site((edit,), (node.lineno,), causes, f"{text} is asserted")
                break


_TILE = frozenset(("tile",))
OPERATORS: tuple[Operator, ...] = (
    Operator("clear-each", "defect", _TILE, _cleared, "Bytes that are overwritten at once."),
    Operator("oversize-tile", "defect", _TILE, _oversized, "Shared memory that nobody uses."),
    Operator("long-index", "defect", _TILE, _long_indices, "Twice the arithmetic and registers."),
    Operator("assert-each", "defect", _TILE, _asserted, "A branch for each element."),
)  # fmt: skip
