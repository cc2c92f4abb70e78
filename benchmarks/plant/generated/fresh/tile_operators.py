"""Operators on tile kernels that came after the third test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They copy row by row or by way of a
second tile, fill tables again and again, leave the end of a kernel to another one, turn or clear
tensors before they are used, and meet where nobody has to wait.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from plant.generated.operators import Operator, Site
from plant.generated.programs import Edit, Program, dotted, walk
from plant.generated.tile_operators import dotted_base
from plant.generated.tile_rewrites import (
    _buffers,
    _dtype,
    _Launch,
    _launch,
    _read,
    _reductions,
    _results,
    _tensors,
    _written,
)

__all__ = ["DECOYS", "OPERATORS", "atomic_each", "longest_row"]

_LOOPS = ("T.Pipelined", "T.serial")
_ALLOC = ("T.alloc_shared", "T.alloc_fragment")


def _lines_of(program: Program, node: ast.stmt) -> str:
    """Return a statement's text, its lines as deep as if it stood at the left."""
    return program.segment(node).replace(f"\n{' ' * node.col_offset}", "\n")


def _index(spot: ast.Subscript) -> list[ast.expr]:
    held = spot.slice
    return list(held.elts) if isinstance(held, ast.Tuple) else [held]


def _tile_loads(program: Program) -> Iterator[tuple[ast.Call, str, tuple[str, ...], str]]:
    """Yield copies of tensors to whole tiles: the call, the tile's name, sizes and type."""
    tiles, tensors = _buffers(program, *_ALLOC), _tensors(program)
    for call in program.calls("T.copy"):
        name = dotted(call.args[1]) if len(call.args) == 2 and not call.keywords else ""
        if name in tiles and dotted_base(call.args[0]) in tensors:
            yield call, name, tiles[name].sizes, tiles[name].dtype


# -- copies


def _row_by_row(program: Program) -> Iterator[Site]:
    """Copy a tile one row after the other."""
    causes = ("synchronous-copy", "shallow-pipeline", "idle-lanes", "serial-work", "late-warps",
              "narrow-access")  # fmt: skip
    for call, name, sizes, _ in _tile_loads(program):
        source = call.args[0]
        if len(sizes) != 2 or not isinstance(source, ast.Subscript):
            continue
        index = _index(source)
        slices = [at for at, each in enumerate(index) if isinstance(each, ast.Slice)]
        slices = slices or list(range(len(index) - 2, len(index)))
        if len(slices) != 2 or slices[0] < 0:
            continue
        made = list(map(program.segment, index))
        row, column = slices
        for at, text in ((row, "{} + r"), (column, f"{{0}} : {{0}} + {sizes[1]}")):
            each = index[at]
            lower = each.lower if isinstance(each, ast.Slice) else each
            begin = f"({program.segment(lower)})" if lower is not None else "0"
            made[at] = text.format(begin)
        pad = " " * program.statement(call).col_offset
        lines = (
            f"for r in T.serial({sizes[0]}):",
            f"    T.copy({dotted(source.value)}[{', '.join(made)}], {name}[r, :])",
        )
        edit = program.replace(call, f"\n{pad}".join(lines))
        yield Site((edit,), (call.lineno,), causes, f"{name} row by row")


def _in_two(program: Program) -> Iterator[Site]:
    """Copy to another tile first, and from there to where it is used."""
    causes = ("synchronous-copy", "shallow-pipeline", "bank-conflict", "layout-change",
              "low-occupancy", "spill")  # fmt: skip
    for call, name, sizes, dtype in _tile_loads(program):
        if not program.turns(call, *_LOOPS):
            continue
        held = _buffers(program, *_ALLOC)[name].call
        for kind, where in (("T.alloc_shared", "shared memory"), ("T.alloc_fragment", "registers")):
            shape = ", ".join(sizes) + ("," if len(sizes) == 1 else "")
            made = f"between = {kind}(({shape}), {dtype})"
            statement = program.statement(call)
            edits = (
                program.after(program.statement(held), made),
                program.replace(call.args[1], "between"),
                program.after(statement, f"T.copy(between, {name})"),
            )
            yield Site(edits, (call.lineno,), causes, f"{name} by way of {where}")


def _table_again(program: Program) -> Iterator[Site]:
    """Fill in each iteration a table that a loop does not change."""
    causes = ("redundant-arithmetic", "slow-arithmetic", "redundant-traffic", "late-warps",
              "shallow-pipeline")  # fmt: skip
    tiles = set(_buffers(program, *_ALLOC))
    for loop, _ in program.loops(*_LOOPS):
        changed = set().union(*map(_written, loop.body))
        for table in program.siblings(loop):
            if table.lineno >= loop.lineno or not isinstance(table, ast.For):
                continue
            made = _written(table)
            plain = all(isinstance(each, ast.Assign) for each in table.body)
            if not plain or not made <= tiles or made & _loaded(table):
                continue
            if made & changed or _loaded(table) & changed or not made & _read(loop):
                continue
            if dotted(loop.target) in _stored_names([table]):
                continue  # a loop's variable would be changed in it
            edit = program.before(loop.body[0], _lines_of(program, table))
            yield Site((edit,), (loop.lineno,), causes, f"{', '.join(sorted(made))} again")


def _loaded(node: ast.AST) -> set[str]:
    """Return names of which a statement reads elements."""
    return {
        dotted(each.value) for each in walk(node)
        if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Load)
    }  # fmt: skip


# -- launches


def _second_launch(program: Program) -> Iterator[Site]:
    """Leave what a kernel does at its end to a second one."""
    causes = ("needless-pass", "redundant-traffic", "many-launches")
    launch = _launch(program)
    if launch is None:
        return
    body, results = launch.node.body, _results(program)
    last = body[-1:]
    if isinstance(body[-1], ast.Expr) and len(body) > 1 and isinstance(body[-2], ast.For):
        last = body[-2:]
    fragments = _buffers(program, "T.alloc_fragment")
    used = set().union(*map(_read, last)) | set().union(*map(_loaded, last))
    moved = [fragments[name] for name in sorted(used & set(fragments))]
    stored = set().union(*map(_written, last)) & results
    inner = _stored_names(body) - _stored_names(last) - {each.name for each in moved}
    if not 1 <= len(moved) <= 3 or not stored or used & inner or not _parallel(last[0]):
        return
    grid = ", ".join(map(program.segment, launch.grid))
    variables = launch.node.items[0].optional_vars
    assert variables is not None
    above, before, first = [], [], []
    for held in moved:
        sizes, name = ", ".join(held.sizes), f"{held.name}_kept"
        place = f"{name}[{', '.join((*launch.axes, *':' * len(held.sizes)))}]"
        comma = "," if len(held.sizes) == 1 else ""
        above.append(f"{name} = T.alloc_global(({grid}, {sizes}), {held.dtype})")
        before.append(f"T.copy({held.name}, {place})")
        first.append(f"    {held.name} = T.alloc_fragment(({sizes}{comma}), {held.dtype})")
        first.append(f"    T.copy({place}, {held.name})")
    head = f"with {program.segment(launch.call)} as {program.segment(variables)}:"
    rest = [f"    {line}" for each in last for line in _lines_of(program, each).split("\n")]
    start, end = program.span(last[0])[0], program.span(last[-1])[1]
    kept = f"\n{' ' * last[0].col_offset}".join(before)
    text = f"\n{' ' * launch.node.col_offset}".join((kept, head, *first, *rest))
    edits = (program.before(launch.node, "\n".join(above)), Edit(start, end, text))
    names = ", ".join(each.name for each in moved)
    yield Site(edits, (), causes, f"{names} finished by a second launch")


def _parallel(node: ast.stmt) -> bool:
    """Whether a statement is a loop over points."""
    call = node.iter if isinstance(node, ast.For) else None
    return isinstance(call, ast.Call) and dotted(call.func) == "T.Parallel"


def _stored_names(statements: list[ast.stmt]) -> set[str]:
    """Return names that statements bind, as tiles and scalars inside of a launch."""
    return {
        each.id for statement in statements for each in walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }  # fmt: skip


def _cleared(program: Program) -> Iterator[Site]:
    """Fill a result with zeros by a launch of its own, before all of it is written."""
    causes = ("redundant-traffic", "needless-pass")
    launch, results = _launch(program), _results(program)
    if launch is None or len(results) != 1:
        return
    (name,) = results
    (made,) = (call for call in program.calls("T.empty"))
    if not isinstance(made.args[0], ast.Tuple) or not 1 <= len(made.args[0].elts) <= 3:
        return
    *outer, last = map(program.segment, made.args[0].elts)
    axes = ["p", "q"][: len(outer)]
    # The last but one goes to the grid's first axis, which has room for any number of rows.
    grid = (*outer[-1:], f"T.ceildiv({last}, 1024)", *outer[:-1])
    names = ", ".join((*axes[-1:], "o", *axes[:-1]))
    names = f"({names})" if axes else names
    text = "\n".join((
        f"with T.Kernel({', '.join(grid)}, threads=128) as {names}:",
        "    for i in T.Parallel(1024):",
        f"        {name}[{', '.join((*axes, 'o * 1024 + i'))}] = 0",
    ))  # fmt: skip
    yield Site((program.before(launch.node, text),), (), causes, f"{name} cleared before",
               counts=grid[1:])  # fmt: skip


def read_by_element(
    program: Program, launch: _Launch
) -> Iterator[tuple[str, list[str], list[ast.Subscript]]]:
    """Yield tensors that a launch only reads, an element at each point of a parallel loop: name,
    extents, and the reads, none of which is in the index of another one."""
    for name, extents in _tensors(program).items():
        uses = [node for each in launch.node.body for node in walk(each)
                if isinstance(node, ast.Name) and node.id == name]  # fmt: skip
        above = [program.parents[each] for each in uses]
        spots = [
            spot for spot in above
            if isinstance(spot, ast.Subscript) and isinstance(spot.ctx, ast.Load)
            and program.turns(spot, "T.Parallel")
            and not any(isinstance(each, ast.Slice) for each in _index(spot))
        ]  # fmt: skip
        nested = any(other in spots for spot in spots for other in program.around(spot))
        if spots and len(spots) == len(above) and not nested:
            yield name, extents, spots


def _turned_input(program: Program) -> Iterator[Site]:
    """Transpose an input by a launch of its own, and read it by columns."""
    causes = ("scattered-access", "needless-pass", "redundant-traffic", "narrow-access")
    launch = _launch(program)
    if launch is None:
        return
    for name, extents, spots in read_by_element(program, launch):
        if len(extents) != 2 or any(len(_index(spot)) != 2 for spot in spots):
            continue
        rows, columns = extents
        grid = (f"T.ceildiv({rows}, 64)", f"T.ceildiv({columns}, 64)")
        text = "\n".join((
            f"{name}_turned = T.alloc_global(({columns}, {rows}), {_dtype(program, name)})",
            f"with T.Kernel({', '.join(grid)}, threads=256) as (o, p):",
            "    for i, j in T.Parallel(64, 64):",
            f"        {name}_turned[p * 64 + i, o * 64 + j] = {name}[o * 64 + j, p * 64 + i]",
        ))  # fmt: skip
        edits = [program.before(launch.node, text)]
        for spot in spots:
            one, other = map(program.segment, _index(spot))
            edits.append(program.replace(spot, f"{name}_turned[{other}, {one}]"))
        yield Site(tuple(edits), (), causes, f"{name} turned before",
                   counts=grid[1:])  # fmt: skip


# -- loops


def _meeting(program: Program) -> Iterator[Site]:
    """Let all threads meet in each iteration once more."""
    causes = ("late-warps", "serial-work", "shallow-pipeline", "synchronous-copy")
    for loop, _ in program.loops(*_LOOPS):
        if program.turns(loop, "T.Parallel") is None:
            edit = program.after(loop.body[-1], "T.sync_threads()")
            yield Site((edit,), (loop.lineno,), causes, "a barrier in each iteration")


def longest_row(program: Program) -> Iterator[Site]:
    """Let each row's loop go on to the end of the longest row."""
    causes = ("masked-work", "redundant-traffic", "redundant-arithmetic")
    tensors = _tensors(program)
    for loop, call in program.loops(*_LOOPS):
        counts = [node for node in walk(call.args[0]) if isinstance(node, ast.Subscript)
                  and dotted(node.value) in tensors]  # fmt: skip
        if len(counts) != 1:
            continue
        count, turn = program.segment(counts[0]), dotted(loop.target)
        axes = [
            tensors[dotted(spot.value)][at]
            for each in program.calls("T.copy", inside=loop)
            for spot in each.args[:1]
            if isinstance(spot, ast.Subscript) and dotted(spot.value) in tensors
            for at, place in enumerate(_index(spot))
            if turn in {n.id for n in walk(place) if isinstance(n, ast.Name)}
        ]
        masked = any(count in program.segment(each) for each in loop.body)
        if axes and masked:
            yield Site((program.replace(counts[0], axes[0]),), (loop.lineno,), causes,
                       f"up to {axes[0]}")  # fmt: skip


# -- arithmetic


def _powers(program: Program) -> Iterator[Site]:
    """Square by a power."""
    for node in walk(program.body):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        one, other = program.segment(node.left), program.segment(node.right)
        inside = any(isinstance(each, ast.Subscript) for each in program.around(node))
        if one == other and not inside and not isinstance(node.left, ast.Constant):
            edit = program.replace(node, f"T.pow({one}, 2.0)")
            yield Site((edit,), (node.lineno,), ("slow-arithmetic",), f"{one} to the power of two")


def atomic_each(program: Program) -> Iterator[Site]:
    """Add each element to a sum in shared memory, where a reduction would do."""
    causes = ("atomic-traffic", "bank-conflict", "serial-work", "late-warps", "low-occupancy")
    tiles = _buffers(program, *_ALLOC)
    for call, source, target, cleared in _reductions(program):
        held = tiles.get(target)
        if dotted(call.func) != "T.reduce_sum" or not cleared or held is None:
            continue
        rows, columns = source.sizes
        lines = ("T.clear(met)", f"for p, q in T.Parallel({rows}, {columns}):",
                 f"    T.atomic_add(met[p], {source.name}[p, q])",
                 f"T.copy(met, {target})")  # fmt: skip
        statement = program.statement(call)
        pad = " " * statement.col_offset
        edits = (
            program.after(program.statement(held.call),
                          f"met = T.alloc_shared(({rows},), {held.dtype})"),
            program.replace(statement, f"\n{pad}".join(lines)),
        )  # fmt: skip
        yield Site(edits, (call.lineno,), causes, f"{target} element by element")


# -- what costs nothing


def _true_condition(program: Program) -> Iterator[Site]:
    """Ask in a loop whether its variable is below its end."""
    for loop, call in program.loops("T.Parallel"):
        head = program.text[slice(*program.span(loop))].split("\n")[0]
        names = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
        if head.endswith(":") and not call.keywords:
            condition = f"if {dotted(names[0])} < {program.segment(call.args[0])}:"
            yield Site(tuple(program.deeper(loop, (head, condition))), program.lines(loop),
                       ("masked-work", "idle-lanes"), "a condition that always holds")  # fmt: skip


def _branched(program: Program) -> Iterator[Site]:
    """Choose by a branch what was chosen by a select."""
    for loop, _ in program.loops("T.Parallel"):
        for node in loop.body:
            value = node.value if isinstance(node, ast.Assign) else None
            if (
                isinstance(node, ast.Assign)
                and isinstance(value, ast.Call)
                and dotted(value.func) == "T.if_then_else"
                and isinstance(node.targets[0], ast.Subscript)
            ):
                target = program.segment(node.targets[0])
                condition, one, other = map(program.segment, value.args)
                pad = " " * node.col_offset
                lines = (f"if {condition}:", f"    {target} = {one}",
                         "else:", f"    {target} = {other}")  # fmt: skip
                edit = program.replace(node, f"\n{pad}".join(lines))
                yield Site((edit,), (node.lineno,), ("masked-work", "late-warps", "idle-lanes"),
                           "a branch in place of a select")  # fmt: skip


_TILE = frozenset(("tile",))
OPERATORS: tuple[Operator, ...] = (
    Operator("copy-by-row", "defect", _TILE, _row_by_row, "A request for each row."),
    Operator("copy-in-two", "defect", _TILE, _in_two, "A tile is written and read once more."),
    Operator("sink-table", "defect", _TILE, _table_again, "What was known is computed again."),
    Operator("split-epilogue", "defect", _TILE, _second_launch, "Results go to memory and back."),
    Operator("clear-launch", "defect", _TILE, _cleared, "Bytes that are written twice."),
    Operator("turn-input", "defect", _TILE, _turned_input, "A sector for each element."),
    Operator("sync-each", "defect", _TILE, _meeting, "Warps wait for each other."),
    Operator("power-square", "defect", _TILE, _powers, "Some 60 instructions."),
)  # fmt: skip
DECOYS: tuple[Operator, ...] = (
    Operator("true-condition", "decoy", _TILE, _true_condition, "The compiler takes it out."),
    Operator("branch-select", "decoy", _TILE, _branched, "Compiled to a select again."),
)  # fmt: skip
