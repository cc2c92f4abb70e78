"""Operators on tile kernels that came after the second test split: where tiles live, who does what.

In: a program.  Out: sites, as other operators have them. They keep in shared memory what registers
could hold, leave out a tile that was worth its copy, lay tiles the other way round, read through
lists of rows, do a call twice, and give blocks and lanes work badly.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from plant.generated.operators import Operator, Site, launch_lines
from plant.generated.programs import Edit, Program, dotted, walk
from plant.generated.tile_operators import _names as _names_in
from plant.generated.tile_operators import dotted_base
from plant.generated.tile_rewrites import (
    _REDUCTIONS,
    _at,
    _buffers,
    _dtype,
    _launch,
    _results,
    _tensors,
    _written,
)

__all__ = ["DECOYS", "OPERATORS", "clamped", "copied_result", "double_sums"]

_LONG = 16
"""Tiles that a block walks one after the other."""


def _products(program: Program) -> set[str]:
    """Return names of tiles that products read or write."""
    return {
        name for call in program.calls("T.gemm") for arg in call.args[:3] for name in _names_in(arg)
    }


def _loads_of(program: Program, name: str) -> list[ast.Name]:
    """Return the places where a name is read."""
    return [
        node for node in walk(program.body)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]  # fmt: skip


def _elements(program: Program, name: str, copy: ast.Call, axes: int) -> list[ast.Subscript] | None:
    """Return where single elements of a tile are read, or nothing where it is used otherwise."""
    found = []
    for node in _loads_of(program, name):
        spot = program.parents[node]
        if spot is copy:
            continue
        if not isinstance(spot, ast.Subscript) or not isinstance(spot.ctx, ast.Load):
            return None
        if len(_index(spot)) != axes or any(isinstance(e, ast.Slice) for e in _index(spot)):
            return None
        found.append(spot)
    return found


def _index(spot: ast.Subscript) -> list[ast.expr]:
    held = spot.slice
    return list(held.elts) if isinstance(held, ast.Tuple) else [held]


def _staged(program: Program) -> Iterator[tuple[ast.Call, str, list[ast.Subscript]]]:
    """Yield copies of tensors to tiles of which nothing but single elements is read."""
    tensors = _tensors(program)
    tiles = _buffers(program, "T.alloc_shared", "T.alloc_fragment")
    for call in program.calls("T.copy"):
        if len(call.args) != 2 or call.keywords:
            continue
        source, name = dotted_base(call.args[0]), dotted(call.args[1])
        if source not in tensors or name not in tiles:
            continue
        others = [e for e in program.calls("T.copy") if e is not call
                  and dotted_base(e.args[1]) == name]  # fmt: skip
        spots = _elements(program, name, call, len(tiles[name].sizes))
        if spots and not others and _dtype(program, source) == tiles[name].dtype:
            yield call, name, spots


# -- where tiles live


def _parked(program: Program) -> Iterator[Site]:
    """Keep in shared memory what registers could hold."""
    causes = ("bank-conflict", "low-occupancy", "layout-change", "late-warps")
    sums = {dotted_base(call.args[2]) for call in program.calls("T.gemm") if len(call.args) > 2}
    for name, held in _buffers(program, "T.alloc_fragment").items():
        if name not in sums:
            edit = program.replace(held.call.func, "T.alloc_shared")
            yield Site((edit,), tuple(program.uses(name)), causes, f"{name} in shared memory")


def _unstaged(program: Program) -> Iterator[Site]:
    """Read each element from global memory where it is needed, without a tile."""
    causes = ("redundant-traffic", "scattered-access", "narrow-access", "shallow-pipeline",
              "synchronous-copy")  # fmt: skip
    for call, name, spots in _staged(program):
        places = [
            _at(program, call.args[0], [f"({program.segment(e)})" for e in _index(spot)])
            for spot in spots
        ]
        if None in places:
            continue
        edits = (
            program.replace(program.statement(call), "pass"),
            *(program.replace(spot, str(place)) for spot, place in zip(spots, places)),
        )
        yield Site(edits, (), causes, f"{name} read where it is needed")


def _other_way(program: Program) -> Iterator[Site]:
    """Lay a tile by columns, though its rows are copied and read."""
    causes = ("bank-conflict", "layout-change", "narrow-access", "scattered-access",
              "synchronous-copy", "shallow-pipeline")  # fmt: skip
    for call, name, spots in _staged(program):
        held = _buffers(program, "T.alloc_shared").get(name)
        place = _at(program, call.args[0], ("p", "q")) if held and len(held.sizes) == 2 else None
        if held is None or place is None:
            continue
        rows, columns = held.sizes
        pad = " " * program.statement(call).col_offset
        edits = [
            program.replace(held.call.args[0], f"({columns}, {rows})"),
            program.replace(call, f"for p, q in T.Parallel({rows}, {columns}):\n"
                                  f"{pad}    {name}[q, p] = {place}"),
        ]  # fmt: skip
        for spot in spots:
            one, other = map(program.segment, _index(spot))
            edits.append(program.replace(spot, f"{name}[{other}, {one}]"))
        yield Site(tuple(edits), tuple(program.uses(name)), causes, f"{name} by columns")


def _padded_rows(program: Program) -> Iterator[Site]:
    """Copy a matrix to rows that are one element longer, and read those."""
    launch = _launch(program)
    causes = ("narrow-access", "synchronous-copy", "shallow-pipeline", "redundant-traffic",
              "needless-pass", "scattered-access")  # fmt: skip
    for name, extents in _tensors(program).items() if launch else ():
        assert launch is not None
        uses = [node for each in launch.node.body for node in walk(each)
                if isinstance(node, ast.Name) and node.id == name]  # fmt: skip
        whole = not all(isinstance(program.parents[each], ast.Subscript) for each in uses)
        if len(extents) != 2 or not uses or whole or name in _written(launch.node):
            continue
        rows, columns = extents
        text = "\n".join((
            f"{name}_longer = T.alloc_global(({rows}, {columns} + 1), {_dtype(program, name)})",
            f"with T.Kernel({rows}, T.ceildiv({columns} + 1, 1024), threads=128) as (p, o):",
            "    for q in T.Parallel(1024):",
            f"        {name}_longer[p, o * 1024 + q] = {name}[p, o * 1024 + q]",
        ))  # fmt: skip
        edits = (program.before(launch.node, text),
                 *(program.replace(node, f"{name}_longer") for node in uses))  # fmt: skip
        lines = tuple(sorted({node.lineno for node in uses}))
        yield Site(edits, lines, causes, f"rows of {name} one longer",
                   counts=(f"T.ceildiv({columns} + 1, 1024)",))  # fmt: skip


# -- which elements


def clamped(program: Program) -> Iterator[Site]:
    """Cut every index off at its tensor's last element, though nothing beyond is used."""
    causes = ("narrow-access", "scattered-access", "redundant-arithmetic", "synchronous-copy",
              "shallow-pipeline")  # fmt: skip
    tensors = _tensors(program)
    for loop, _ in program.loops("T.Parallel"):
        fed = {dotted_base(t) for each in loop.body if isinstance(each, ast.Assign)
               for t in each.targets}  # fmt: skip
        if fed & _products(program):
            continue  # beyond the end a product needs zeros
        edits: list[Edit] = []
        spots = [node for each in loop.body for node in walk(each)
                 if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
                 and dotted(node.value) in tensors]  # fmt: skip
        for spot in spots:
            nested = any(other in spots for other in program.around(spot))
            last = _index(spot)[-1]
            if not nested and isinstance(last, ast.BinOp | ast.Name):
                extent = tensors[dotted(spot.value)][-1]
                text = f"T.min({program.segment(last)}, {extent} - 1)"
                edits.append(program.replace(last, text))
        if edits:
            yield Site(tuple(edits), (), causes, "indices cut off at the last element")


def _listed(program: Program) -> Iterator[Site]:
    """Read rows by way of a list of their numbers, which is in order."""
    launch = _launch(program)
    causes = ("scattered-access", "narrow-access", "synchronous-copy", "shallow-pipeline")
    for name, extents in _tensors(program).items() if launch else ():
        assert launch is not None
        spots = [node for each in launch.node.body for node in walk(each)
                 if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
                 and dotted(node.value) == name and len(_index(node)) == len(extents) >= 2
                 and program.turns(node, "T.Parallel")
                 and not isinstance(_index(node)[0], ast.Constant)]  # fmt: skip
        if not spots:
            continue
        text = "\n".join((
            f"Listed = T.alloc_global(({extents[0]},), T.int32)",
            f"with T.Kernel(T.ceildiv({extents[0]}, 256), threads=256) as p:",
            "    for q in T.Parallel(256):",
            "        Listed[p * 256 + q] = p * 256 + q",
        ))  # fmt: skip
        firsts = [_index(spot)[0] for spot in spots]
        edits = (
            program.before(launch.node, text),
            *(program.replace(each, f"Listed[{program.segment(each)}]") for each in firsts),
        )
        yield Site(edits, (), causes, f"rows of {name} from a list")


def _half_empty(program: Program) -> Iterator[Site]:
    """Walk twice as many points as there are, and leave half of them out."""
    causes = ("masked-work", "idle-lanes")
    for loop, call in program.loops("T.Parallel"):
        head = program.text[slice(*program.span(loop))].split("\n")[0]
        if call.keywords or not head.endswith(":"):
            continue
        last = program.segment(call.args[-1])
        names = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        sizes = [*map(program.segment, call.args[:-1]), f"2 * ({last})"]
        heads = (f"for {program.segment(loop.target)} in T.Parallel({', '.join(sizes)}):",
                 f"if {dotted(names[-1])} < {last}:")  # fmt: skip
        yield Site(tuple(program.deeper(loop, heads)), program.lines(loop), causes,
                   f"half of twice {last} points")  # fmt: skip


# -- how often


def _call_again(program: Program) -> Iterator[Site]:
    """Do a product or a reduction again, whose result is the same."""
    for call in program.calls("T.gemm", *_REDUCTIONS):
        said = {each.arg: program.segment(each.value) for each in call.keywords}
        product = dotted(call.func) == "T.gemm"
        fresh = said.get("clear_accum") == "True" if product else said.get("clear") != "False"
        statement = program.statement(call)
        if fresh and isinstance(statement, ast.Expr):
            causes = ("redundant-arithmetic", "serial-products" if product else "late-warps")
            edit = program.after(statement, program.segment(statement))
            yield Site((edit,), (call.lineno,), causes, f"{dotted(call.func)} twice")


def _apart(program: Program) -> Iterator[Site]:
    """Walk the points of a loop once for each of its results, and load what they need each time."""
    causes = ("redundant-traffic", "redundant-arithmetic")
    for loop, _ in program.loops("T.Parallel"):
        stores = [each for each in loop.body if isinstance(each, ast.Assign)
                  and isinstance(each.targets[0], ast.Subscript)]  # fmt: skip
        others = [each for each in loop.body if each not in stores]
        written = {dotted_base(each.targets[0]) for each in stores}
        used = {name for each in (*others, *(e.value for e in stores)) for name in _names_in(each)}
        plain = all(isinstance(each, ast.Assign | ast.For) for each in others)
        if len(stores) < 2 or not plain or written & used or any(map(_written, others)):
            continue
        head = program.text[slice(*program.span(loop))].split("\n")[0]
        if not head.endswith(":"):
            continue
        pad = " " * loop.col_offset
        parts = []
        for store in stores:
            held = [each for each in loop.body if each not in stores or each is store]
            lines = [f"{pad}    {program.segment(each)}" for each in held]
            parts.append("\n".join((head, *lines)))
        edit = program.replace(loop, f"\n{pad}".join(parts))
        yield Site((edit,), (), causes, f"a loop for each of {len(stores)} results")


def _long_blocks(program: Program) -> Iterator[Site]:
    """Let a block walk sixteen tiles, so that few blocks are left."""
    causes = ("small-grid", "tail-wave")
    launch = _launch(program)
    if launch is None:
        return
    body = launch.node.body
    allocs = [each for each in body if isinstance(each, ast.Assign)
              and dotted(getattr(each.value, "func", each.value)).startswith("T.alloc_")
              ]  # fmt: skip
    rest = [each for each in body if each not in allocs]
    if not rest or (allocs and allocs[-1].lineno > rest[0].lineno):
        return
    for number, (axis, name) in enumerate(zip(launch.grid, launch.axes)):
        if not (isinstance(axis, ast.Name) or dotted(getattr(axis, "func", axis)) == "T.ceildiv"):
            continue
        held = launch.node.items[0].optional_vars
        assert held is not None
        spot = held.elts[number] if isinstance(held, ast.Tuple) else held
        edits = (
            program.replace(axis, f"T.ceildiv({program.segment(axis)}, {_LONG})"),
            program.replace(spot, f"{name}_long"),
            *_below(program, rest, (f"for each_of_{name} in T.serial({_LONG}):",
                                    f"    {name} = {name}_long * {_LONG} + each_of_{name}")),
        )  # fmt: skip
        yield Site(edits, launch_lines(program), causes, f"{_LONG} tiles a block along {name}")


def _below(program: Program, rest: Sequence[ast.stmt], heads: Sequence[str]) -> tuple[Edit, ...]:
    """Put statements below new lines, four columns to the right."""
    first, last = rest[0], rest[-1]
    assert last.end_lineno is not None
    lines, at, edits = program.text.split("\n"), 0, []
    pad = " " * first.col_offset
    for number, line in enumerate(lines, 1):
        if number == first.lineno:
            edits.append(Edit(at, at, "".join(f"{pad}{head}\n" for head in heads)))
        if first.lineno <= number <= last.end_lineno and line.strip():
            edits.append(Edit(at, at, "    "))
        at += len(line) + 1
    return tuple(edits)


def copied_result(program: Program) -> Iterator[Site]:
    """Make a result elsewhere, and copy it by a launch of its own."""
    causes = ("redundant-traffic", "needless-pass")
    launch = _launch(program)
    results = _results(program)
    if launch is None or len(results) != 1:
        return
    (name,) = results
    made = next(call for call in program.calls("T.empty"))
    if not isinstance(made.args[0], ast.Tuple) or not 1 <= len(made.args[0].elts) <= 3:
        return
    sizes = list(map(program.segment, made.args[0].elts))
    uses = [node for each in launch.node.body for node in walk(each)
            if isinstance(node, ast.Name) and node.id == name]  # fmt: skip
    *outer, last = sizes
    axes = ("p", "q")[: len(outer)]
    place = ", ".join((*axes, "o * 1024 + i"))
    # The last but one goes to the grid's first axis, which has room for any number of rows.
    grid = (*outer[-1:], f"T.ceildiv({last}, 1024)", *outer[:-1])
    names = ", ".join((*axes[-1:], "o", *axes[:-1]))
    names = f"({names})" if axes else names
    text = "\n".join((
        f"with T.Kernel({', '.join(grid)}, threads=128) as {names}:",
        "    for i in T.Parallel(1024):",
        f"        {name}[{place}] = {name}_made[{place}]",
    ))  # fmt: skip
    edits = (
        program.after(program.statement(made),
                      f"{name}_made = T.alloc_global(({', '.join(sizes)},), "
                      f"{program.segment(made.args[1])})"),
        *(program.replace(node, f"{name}_made") for node in uses),
        program.after(launch.node, text),
    )  # fmt: skip
    yield Site(edits, (), causes, f"{name} copied at the end", counts=grid[1:])


def double_sums(program: Program) -> Iterator[Site]:
    """Add up in float64."""
    causes = ("slow-arithmetic", "wide-arithmetic", "spill", "low-occupancy")
    added = {dotted_base(node.target) for node in walk(program.body)
             if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)}  # fmt: skip
    for name, held in _buffers(program, "T.alloc_fragment").items():
        if name in added - _products(program) and held.dtype == "T.float32":
            edit = program.replace(held.call.args[1], "T.float64")
            yield Site((edit,), tuple(program.uses(name)), causes, f"{name} of float64")


# -- what costs nothing


def _cleared_twice(program: Program) -> Iterator[Site]:
    for call in program.calls("T.clear", "T.fill"):
        if not program.turns(call, "T.serial", "T.Pipelined"):
            statement = program.statement(call)
            edit = program.after(statement, program.segment(statement))
            yield Site((edit,), (call.lineno,), ("redundant-arithmetic", "redundant-traffic"),
                       "cleared twice, once a block")  # fmt: skip


_TILE = frozenset(("tile",))
OPERATORS: tuple[Operator, ...] = (
    Operator("park-in-shared", "defect", _TILE, _parked, "Values cross shared memory each time."),
    Operator("skip-tile", "defect", _TILE, _unstaged, "Each use is a request of its own."),
    Operator("turn-buffer", "defect", _TILE, _other_way, "Lanes meet in a bank."),
    Operator("pad-rows", "defect", _TILE, _padded_rows, "Rows that are not aligned."),
    Operator("list-rows", "defect", _TILE, _listed, "Addresses that wait for a list."),
    Operator("widen-loop", "defect", _TILE, _half_empty, "Every other lane has no work."),
    Operator("repeat-call", "defect", _TILE, _call_again, "A result that was there."),
    Operator("split-loop", "defect", _TILE, _apart, "What was loaded is loaded again."),
    Operator("long-blocks", "defect", _TILE, _long_blocks, "Most multiprocessors without work."),
)  # fmt: skip
DECOYS: tuple[Operator, ...] = (
    Operator("clear-twice", "decoy", _TILE, _cleared_twice, "Registers set once more a block."),
)
