"""Operators on tile kernels that came after the first test split: detours, orders, launches.

In: a program.  Out: sites, as other operators have them. They take values through memory that need
not leave registers, reduce by hand or along the other axis, add to zeros in place of storing, start
more blocks or launches than there is work for, and let blocks and threads walk in other orders.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .operators import Operator, Site, launch_lines
from .programs import Edit, Program, dotted, once, walk
from .tile_operators import TILE as FIRST
from .tile_operators import dotted_base

__all__ = ["REWRITES", "TILE"]

_LOOPS = ("T.Pipelined", "T.serial")
_REDUCTIONS = {
    "T.reduce_sum": ("0.0", "{d} += {s}"),
    "T.reduce_max": ("-T.infinity(T.float32)", "{d} = T.max({d}, {s})"),
    "T.reduce_min": ("T.infinity(T.float32)", "{d} = T.min({d}, {s})"),
    "T.reduce_absmax": ("0.0", "{d} = T.max({d}, T.abs({s}))"),
}
"""First value of each reduction, and the statement that adds an element `s` to a result `d`."""
_PARTS = 16
"""Launches that a grid's second axis is cut into."""


@dataclass(frozen=True)
class _Launch:
    """The only launch of a kernel."""

    node: ast.With
    call: ast.Call
    axes: tuple[str, ...]
    """Names of the block's place along each axis."""

    @property
    def grid(self) -> list[ast.expr]:
        """Extents of the grid."""
        return self.call.args


@once
def _launch(program: Program) -> _Launch | None:
    """Return the launch of a kernel, or nothing where it has several or another form."""
    found = [node for node in walk(program.body) if isinstance(node, ast.With)
             and isinstance(node.items[0].context_expr, ast.Call)
             and dotted(node.items[0].context_expr.func) == "T.Kernel"]  # fmt: skip
    if len(found) != 1:
        return None
    item = found[0].items[0]
    held = item.optional_vars
    names = [dotted(e) for e in (held.elts if isinstance(held, ast.Tuple) else [held]) if e]
    call = item.context_expr
    assert isinstance(call, ast.Call)
    return _Launch(found[0], call, tuple(names)) if len(names) == len(call.args) else None


@dataclass(frozen=True)
class _Buffer:
    """A tile on the chip."""

    name: str
    call: ast.Call
    sizes: tuple[str, ...]
    dtype: str


def _buffers(program: Program, *kinds: str) -> dict[str, _Buffer]:
    """Return tiles whose shapes are written out, by name."""
    found = {}
    for call in program.calls(*kinds):
        parent = program.parents[call]
        shape = call.args[0]
        if isinstance(parent, ast.Assign) and isinstance(shape, ast.Tuple) and len(call.args) == 2:
            name = dotted(parent.targets[0])
            sizes = tuple(map(program.segment, shape.elts))
            found[name] = _Buffer(name, call, sizes, program.segment(call.args[1]))
    return found


@once
def _tensors(program: Program) -> dict[str, list[str]]:
    """Return extents of tensors in global memory that are annotated, by name."""
    found = {}
    for node in walk(program.body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Call):
            shape = node.annotation.args[0]
            if isinstance(shape, ast.Tuple):
                found[dotted(node.target)] = list(map(program.segment, shape.elts))
    return found


@once
def _results(program: Program) -> set[str]:
    """Return names of tensors that a launch makes."""
    found = set()
    for call in walk(program.body):
        if isinstance(call, ast.Call) and dotted(call.func) == "T.empty":
            parent = program.parents[call]
            if isinstance(parent, ast.Assign):
                found.add(dotted(parent.targets[0]))
    return found


def _written(node: ast.AST) -> set[str]:
    """Return names of tiles and tensors that a statement writes."""
    found = set()
    for each in walk(node):
        if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store):
            found.add(dotted(each.value))
        if isinstance(each, ast.Call) and each.args:
            name = dotted(each.func)
            if name in ("T.clear", "T.fill", "T.cumsum", "T.atomic_add"):
                found.add(dotted_base(each.args[0]))
            elif (name == "T.copy" or name in _REDUCTIONS) and len(each.args) > 1:
                found.add(dotted_base(each.args[1]))
            elif name == "T.gemm":
                found.add(dotted_base(each.args[2]))
    return found


def _read(node: ast.AST) -> set[str]:
    """Return names that a statement uses, those that it writes as a whole left out."""
    targets = {
        id(each.value) for each in walk(node)
        if isinstance(each, ast.Subscript) and isinstance(each.ctx, ast.Store)
        and not isinstance(node, ast.AugAssign)
    }  # fmt: skip
    return {
        each.id for each in walk(node) if isinstance(each, ast.Name) and id(each) not in targets
    }


def _at(program: Program, target: ast.expr, names: Sequence[str]) -> str | None:
    """Return a region's element at `names`, from the index of the region or its first element."""
    if not isinstance(target, ast.Subscript):
        return f"{dotted(target)}[{', '.join(names)}]"
    held = target.slice
    index = list(held.elts) if isinstance(held, ast.Tuple) else [held]
    slices = [at for at, each in enumerate(index) if isinstance(each, ast.Slice)]
    if not slices:
        slices = list(range(len(index) - len(names), len(index)))
    if len(slices) != len(names) or (slices and slices[0] < 0):
        return None
    made = list(map(program.segment, index))
    for at, name in zip(slices, names):
        each = index[at]
        lower = each.lower if isinstance(each, ast.Slice) else each
        made[at] = f"{program.segment(lower)} + {name}" if lower else name
    return f"{dotted(target.value)}[{', '.join(made)}]"


def _points(program: Program, call: ast.Call, sizes: Sequence[str]) -> tuple[str, str, str] | None:
    """Return a loop over a stored tile: its head, an element of the result, one of the tile."""
    names = ("p", "q", "o")[: len(sizes)]
    place = _at(program, call.args[1], names)
    if place is None:
        return None
    head = f"for {', '.join(names)} in T.Parallel({', '.join(sizes)}):"
    return head, place, f"{dotted(call.args[0])}[{', '.join(names)}]"


# -- detours


def _detours(program: Program) -> Iterator[tuple[ast.stmt, _Buffer]]:
    """Yield statements after which a fragment could leave registers: written, and read later."""
    launch = _launch(program)
    if launch is None:
        return
    fragments = _buffers(program, "T.alloc_fragment")
    for at, statement in enumerate(launch.node.body):
        later = launch.node.body[at + 1 :]
        if isinstance(statement, ast.For):
            for name in sorted(_written(statement) & set(fragments)):
                if any(name in _read(each) for each in later):
                    yield statement, fragments[name]


def _by_global(program: Program) -> Iterator[Site]:
    """Store a fragment to global memory and load it again."""
    launch = _launch(program)
    causes = ("redundant-traffic", "long-end", "layout-change", "narrow-access")
    for statement, held in _detours(program):
        assert launch is not None
        if len(held.sizes) != 2:
            continue
        grid = ", ".join(map(program.segment, launch.grid))
        place = f"Kept[{', '.join(launch.axes)}, :, :]"
        sizes = ", ".join(held.sizes)
        edits = (
            *_above(program, launch, f"Kept = T.alloc_global(({grid}, {sizes}), {held.dtype})"),
            program.after(statement, f"T.copy({held.name}, {place})\nT.copy({place}, {held.name})"),
        )
        yield Site(edits, (statement.lineno,), causes, f"{held.name} by way of global memory")


def _above(program: Program, launch: _Launch, text: str) -> tuple[Edit, ...]:
    """Put lines above a launch; sizes that its shapes need are bound before it."""
    return (program.before(launch.node, text),)


def _by_shared(program: Program) -> Iterator[Site]:
    """Put a fragment into shared memory and take it back."""
    causes = ("layout-change", "bank-conflict", "low-occupancy", "redundant-arithmetic")
    for statement, held in _detours(program):
        if len(held.sizes) == 2:
            made = f"kept = T.alloc_shared(({', '.join(held.sizes)}), {held.dtype})"
            edits = (
                program.after(program.statement(held.call), made),
                program.after(statement, f"T.copy({held.name}, kept)\nT.copy(kept, {held.name})"),
            )
            yield Site(edits, (statement.lineno,), causes, f"{held.name} by way of shared memory")


def _cloned(program: Program) -> Iterator[Site]:
    """Copy an input by a launch of its own, and read the copy."""
    launch = _launch(program)
    if launch is None:
        return
    causes = ("redundant-traffic", "needless-pass")
    for name, extents in _tensors(program).items():
        uses = [node for each in launch.node.body for node in walk(each)
                if isinstance(node, ast.Name) and node.id == name]  # fmt: skip
        if not 2 <= len(extents) <= 3 or name in _written(launch.node) or not uses:
            continue
        dtype = _dtype(program, name)
        axes = ("p", "q")[: len(extents) - 1]
        place = f"{', '.join(axes)}, o * 1024 + i"
        grid = ", ".join((f"T.ceildiv({extents[-1]}, 1024)", *extents[:-1][::-1]))
        pad = " " * 4
        text = "\n".join((
            f"{name}_copied = T.alloc_global(({', '.join(extents)}), {dtype})",
            f"with T.Kernel({grid}, threads=128) as (o, {', '.join(axes[::-1])}):",
            f"{pad}for i in T.Parallel(1024):",
            f"{pad * 2}{name}_copied[{place}] = {name}[{place}]",
        ))  # fmt: skip
        edits = (program.before(launch.node, text),
                 *(program.replace(node, f"{name}_copied") for node in uses))  # fmt: skip
        yield Site(edits, (), causes, f"{name} copied before", counts=tuple(extents[:-1]))


def _dtype(program: Program, name: str) -> str:
    for node in walk(program.body):
        if isinstance(node, ast.AnnAssign) and dotted(node.target) == name:
            assert isinstance(node.annotation, ast.Call)
            return program.segment(node.annotation.args[1])
    raise KeyError(name)


# -- reductions


def _reductions(program: Program) -> Iterator[tuple[ast.Call, _Buffer, str, bool]]:
    """Yield reductions of rows of a fragment: the source, the target, and whether it is cleared."""
    fragments = _buffers(program, "T.alloc_fragment", "T.alloc_shared")
    for call in program.calls(*_REDUCTIONS):
        said = {each.arg: program.segment(each.value) for each in call.keywords}
        source = fragments.get(dotted(call.args[0])) if len(call.args) == 2 else None
        if source and len(source.sizes) == 2 and said.get("dim") == "1":
            yield call, source, dotted(call.args[1]), said.get("clear") != "False"


def _by_columns(program: Program) -> Iterator[Site]:
    """Let one thread of a row add up all its columns."""
    causes = ("serial-work", "idle-lanes", "late-warps", "layout-change", "bank-conflict",
              "low-occupancy", "spill")  # fmt: skip
    for call, source, target, cleared in _reductions(program):
        begin, step = _REDUCTIONS[dotted(call.func)]
        rows, columns = source.sizes
        taken = step.format(d=f"{target}[p]", s=f"{source.name}[p, q]")
        lines = [f"T.fill({target}, {begin})"] if cleared else []
        lines += [f"for q in T.serial({columns}):", f"    for p in T.Parallel({rows}):",
                  f"        {taken}"]  # fmt: skip
        statement = program.statement(call)
        pad = " " * statement.col_offset
        edit = program.replace(statement, f"\n{pad}".join(lines))
        yield Site((edit,), (call.lineno,), causes, f"{target} column by column")


def _other_axis(program: Program) -> Iterator[Site]:
    """Exchange rows and columns, then reduce the first axis."""
    causes = ("layout-change", "bank-conflict", "low-occupancy", "spill", "redundant-arithmetic")
    for call, source, _, _ in _reductions(program):
        rows, columns = source.sizes
        made = f"turned = T.alloc_fragment(({columns}, {rows}), {source.dtype})"
        loop = f"for p, q in T.Parallel({rows}, {columns}):"
        move = f"    turned[q, p] = {source.name}[p, q]"
        dim = next(each for each in call.keywords if each.arg == "dim")
        edits = (
            program.after(program.statement(source.call), made),
            program.before(program.statement(call), f"{loop}\n{move}"),
            program.replace(call.args[0], "turned"), program.replace(dim.value, "0"),
        )  # fmt: skip
        yield Site(edits, (call.lineno,), causes, f"{source.name} turned before it is reduced")


def _inlined(program: Program) -> Iterator[Site]:
    """Compute what belongs to a row again for each of its elements."""
    causes = ("redundant-arithmetic", "slow-arithmetic")
    for loop, call in program.loops("T.Parallel"):
        if len(call.args) != 1 or len(loop.body) != 1 or not isinstance(loop.body[0], ast.Assign):
            continue
        target, value = loop.body[0].targets[0], loop.body[0].value
        if not isinstance(target, ast.Subscript) or dotted(target.slice) != dotted(loop.target):
            continue
        name, block = dotted(target.value), program.siblings(loop)
        later = block[block.index(loop) + 1 :]
        uses = [node for each in later for node in walk(each)
                if isinstance(node, ast.Name) and node.id == name]  # fmt: skip
        if not uses or not all(_is_row_element(program, each) for each in uses):
            continue
        spots = [program.parents[each] for each in uses]
        index = {program.segment(each.slice) for each in spots}  # type: ignore[attr-defined]
        if index == {dotted(loop.target)} and not (_written_of(later) & _read(value)):
            text = f"({program.segment(value)})"
            edits = (program.replace(loop, "pass"),
                     *(program.replace(each, text) for each in spots))  # fmt: skip
            yield Site(edits, (), causes, f"{name} for each element")


def _written_of(statements: Sequence[ast.stmt]) -> set[str]:
    return set().union(*map(_written, statements)) if statements else set()


def _is_row_element(program: Program, node: ast.Name) -> bool:
    """Whether a name is read by one index, in a loop over two axes."""
    spot = program.parents[node]
    loop = program.turns(node, "T.Parallel")
    return (
        isinstance(spot, ast.Subscript) and isinstance(spot.ctx, ast.Load)
        and not isinstance(spot.slice, ast.Tuple)
        and loop is not None and isinstance(loop.target, ast.Tuple)
    )  # fmt: skip


# -- stores


def _added(program: Program) -> Iterator[Site]:
    """Store zeros and add to them, where nobody else adds."""
    causes = ("atomic-traffic", "redundant-traffic", "narrow-access", "long-end",
              "scattered-access")  # fmt: skip
    results = _results(program)
    for loop, _ in program.loops("T.Parallel"):
        stores = [each for each in loop.body if isinstance(each, ast.Assign)
                  and isinstance(each.targets[0], ast.Subscript)
                  and dotted_base(each.targets[0]) in results]  # fmt: skip
        if stores:
            edits = tuple(
                program.replace(each, f"{place} = 0\n{' ' * each.col_offset}T.atomic_add({place}, "
                                      f"{program.segment(each.value)})")
                for each in stores for place in (program.segment(each.targets[0]),)
            )  # fmt: skip
            yield Site(edits, (), causes, "zeros, and sums added to them")
    fragments = _buffers(program, "T.alloc_fragment")
    for call in program.calls("T.copy"):
        source = fragments.get(dotted(call.args[0]))
        if source and dotted_base(call.args[1]) in results:
            points = _points(program, call, source.sizes)
            if points:
                head, place, element = points
                pad = " " * program.statement(call).col_offset
                lines = (head, f"    {place} = 0", f"    T.atomic_add({place}, {element})")
                edit = program.replace(call, f"\n{pad}".join(lines))
                yield Site((edit,), (call.lineno,), causes, "zeros, and sums added to them")


def _zeroed(program: Program) -> Iterator[Site]:
    """Fill with zeros what is stored afterwards."""
    causes = ("redundant-traffic", "long-end", "narrow-access")
    results = _results(program)
    tiles = _buffers(program, "T.alloc_fragment", "T.alloc_shared")
    for call in program.calls("T.copy"):
        source = tiles.get(dotted(call.args[0]))
        if source and dotted_base(call.args[1]) in results:
            points = _points(program, call, source.sizes)
            if points:
                text = f"{points[0]}\n    {points[1]} = 0"
                edit = program.before(program.statement(call), text)
                yield Site((edit,), (call.lineno,), causes, "zeros before")
    for loop, call in program.loops("T.Parallel"):
        stores = [each for each in loop.body if isinstance(each, ast.Assign)
                  and isinstance(each.targets[0], ast.Subscript)]  # fmt: skip
        outside = bool(stores) and {dotted_base(each.targets[0]) for each in stores} <= results
        if outside and all(isinstance(each, ast.Assign) for each in loop.body):
            names = {each.id for store in stores for each in walk(store.targets[0])
                     if isinstance(each, ast.Name)}  # fmt: skip
            bound = [each for each in loop.body if each not in stores and names & _bound(each)]
            lines = [f"for {program.segment(loop.target)} in {program.segment(call)}:"]
            lines += [f"    {program.segment(each)}" for each in bound]
            lines += [f"    {program.segment(each.targets[0])} = 0" for each in stores]
            yield Site((program.before(loop, "\n".join(lines)),), (), causes, "zeros before")


def _bound(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    names = (each for each in walk(node) if isinstance(each, ast.Name))
    return {each.id for each in names if isinstance(each.ctx, ast.Store)}


# -- launches and orders


def _overshot(program: Program) -> Iterator[Site]:
    """Start twice as many blocks along an axis as there is work for."""
    causes = ("masked-work", "redundant-arithmetic", "redundant-traffic")
    launch = _launch(program)
    for axis in launch.grid if launch else ():
        if isinstance(axis, ast.Call) and dotted(axis.func) == "T.ceildiv":
            text = program.segment(axis)
            yield Site((program.replace(axis, f"2 * {text}"),), launch_lines(program), causes,
                       f"twice {text} blocks")  # fmt: skip


def _cut(program: Program) -> Iterator[Site]:
    """Cut an axis of the grid into launches."""
    causes = ("small-grid", "tail-wave", "many-launches", "masked-work")
    launch = _launch(program)
    if launch is None:
        return
    for number, (axis, name) in enumerate(zip(launch.grid, launch.axes)):
        if not (isinstance(axis, ast.Call) and dotted(axis.func) == "T.ceildiv"):
            continue
        part = f"T.ceildiv({program.segment(axis)}, {_PARTS})"
        grid = [part if at == number else program.segment(e) for at, e in enumerate(launch.grid)]
        said = [f"{each.arg}={program.segment(each.value)}" for each in launch.call.keywords]
        axes = [f"{each}_part" if each == name else each for each in launch.axes]
        names = f"({', '.join(axes)})" if len(axes) > 1 else axes[0]
        heads = (f"for part in list(range({_PARTS})):",
                 f"with T.Kernel({', '.join((*grid, *said))}) as {names}:",
                 f"{name} = part * {part} + {name}_part")  # fmt: skip
        yield Site(_wrapped(program, launch.node, heads), (), causes, f"{_PARTS} launches")


def _wrapped(program: Program, node: ast.With, heads: tuple[str, str, str]) -> tuple[Edit, ...]:
    """Put a launch below a loop: new heads, and its body four columns to the right."""
    start = program.span(node)[0]
    first, last = node.body[0], node.body[-1]
    assert last.end_lineno is not None
    pad = " " * node.col_offset
    lines = program.text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    head = f"{heads[0]}\n{pad}    {heads[1]}\n{pad}        {heads[2]}\n"
    edits = [Edit(start, starts[first.lineno - 1], head)]
    for line in range(first.lineno, last.end_lineno + 1):
        if lines[line - 1].strip():
            edits.append(Edit(starts[line - 1], starts[line - 1], "    "))
    return tuple(edits)


def _scattered(program: Program) -> Iterator[Site]:
    """Let blocks that run at a time be an eighth of the grid apart."""
    causes = ("block-order", "redundant-traffic")
    launch = _launch(program)
    if launch is None or len(launch.axes) < 2:
        return
    for axis, name in zip(launch.grid, launch.axes):
        count = program.segment(axis)
        apart = f"{name}_now % 8 * ({count} // 8) + {name}_now // 8"
        held = launch.node.items[0].optional_vars
        assert isinstance(held, ast.Tuple)
        spot = next(each for each in held.elts if dotted(each) == name)
        edits = (
            program.replace(spot, f"{name}_now"),
            program.before(launch.node.body[0],
                           f"{name} = {apart} if {count} % 8 == 0 else {name}_now"),
        )  # fmt: skip
        yield Site(edits, launch_lines(program), causes, f"{name} an eighth of the grid apart")


def _interleaved(program: Program) -> Iterator[Site]:
    """Let a block take every so many columns, and not columns that lie together."""
    causes = ("scattered-access", "narrow-access", "redundant-traffic")
    launch = _launch(program)
    if launch is None:
        return
    for axis, name in zip(launch.grid, launch.axes):
        uses = [node for each in launch.node.body for node in walk(each)
                if isinstance(node, ast.Name) and node.id == name]  # fmt: skip
        spots = [_place(program, each) for each in uses]
        loops = {program.turns(each, "T.Parallel") for each in uses}
        if not spots or None in spots or None in loops:
            continue
        count = program.segment(axis)
        if all(program.segment(spot.left.right) in count for spot in spots if spot):  # type: ignore[attr-defined]
            edits = tuple(
                program.replace(spot, f"{program.segment(spot.right)} * {count} + {name}")
                for spot in spots if spot
            )  # fmt: skip
            lines = {spot.lineno for spot in spots if spot}
            accesses = {each.lineno for loop in loops if loop for each in loop.body}
            yield Site(edits, tuple(sorted(lines | accesses)), causes, f"every {count}th by {name}")


def _place(program: Program, node: ast.Name) -> ast.BinOp | None:
    """Return `bx * columns + j` around `bx`."""
    product = program.parents[node]
    whole = program.parents[product]
    if (
        isinstance(product, ast.BinOp) and isinstance(product.op, ast.Mult)
        and product.left is node and isinstance(product.right, ast.Name)
        and isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Add)
        and whole.left is product and isinstance(whole.right, ast.Name)
    ):  # fmt: skip
        return whole
    return None


def _flattened(program: Program) -> Iterator[Site]:
    """Count points of a loop by one number, from which rows and columns are divided out."""
    causes = ("layout-change", "bank-conflict", "narrow-access", "scattered-access",
              "redundant-arithmetic", "slow-arithmetic", "low-occupancy")  # fmt: skip
    for loop, call in program.loops("T.Parallel"):
        if len(call.args) == 2 and isinstance(loop.target, ast.Tuple) and not call.keywords:
            (one, other), (a, b) = (
                map(program.segment, loop.target.elts), map(program.segment, call.args)
            )  # fmt: skip
            edits = (
                program.replace(loop.target, "flat"),
                Edit(*_arguments(program, call), f"({a}) * ({b})"),
                program.before(loop.body[0], f"{one}, {other} = flat // ({b}), flat % ({b})"),
            )
            yield Site(edits, program.lines(loop), causes, "one number for two axes")


def _arguments(program: Program, call: ast.Call) -> tuple[int, int]:
    return program.span(call.args[0])[0], program.span(call.args[-1])[1]


def _odd_pitch(program: Program) -> Iterator[Site]:
    """Make rows of a shared tile one element longer."""
    causes = ("bank-conflict", "narrow-access", "synchronous-copy", "layout-change",
              "no-tensor-core", "shallow-pipeline")  # fmt: skip
    launch = _launch(program)
    for name, held in _buffers(program, "T.alloc_shared").items():
        if len(held.sizes) != 2 or launch is None:
            continue
        rows, columns = held.sizes
        whole = [node for each in launch.node.body for node in walk(each)
                 if isinstance(node, ast.Name) and node.id == name
                 and isinstance(node.ctx, ast.Load)
                 and isinstance(program.parents[node], ast.Call)]  # fmt: skip
        shape = held.call.args[0]
        edits = (
            program.replace(shape, f"({rows}, {columns} + 1)"),
            *(program.replace(node, f"{name}[0:{rows}, 0:{columns}]") for node in whole),
        )
        yield Site(edits, tuple(program.uses(name)), causes, f"rows of {name} one longer")


_TILE = frozenset(("tile",))
REWRITES: tuple[Operator, ...] = (
    Operator("through-global", "defect", _TILE, _by_global, "A tile goes to memory and back."),
    Operator("through-shared", "defect", _TILE, _by_shared, "A tile leaves registers and returns."),
    Operator("clone-input", "defect", _TILE, _cloned, "The same bytes by a launch of its own."),
    Operator("hand-reduction", "defect", _TILE, _by_columns, "A thread for each row."),
    Operator("turn-reduction", "defect", _TILE, _other_axis, "Threads exchange all elements."),
    Operator("inline-row", "defect", _TILE, _inlined, "Once an element, not once a row."),
    Operator("add-to-zero", "defect", _TILE, _added, "Atomics where a store would do."),
    Operator("zero-first", "defect", _TILE, _zeroed, "Bytes that are written twice."),
    Operator("overshoot-grid", "defect", _TILE, _overshot, "Blocks without work."),
    Operator("cut-launch", "defect", _TILE, _cut, "Launches that do not fill the device."),
    Operator("scatter-blocks", "defect", _TILE, _scattered, "Blocks at a time share less."),
    Operator("interleave-blocks", "defect", _TILE, _interleaved, "A sector for each element."),
    Operator("flatten-loop", "defect", _TILE, _flattened, "Rows and columns are divided out."),
    Operator("odd-pitch", "defect", _TILE, _odd_pitch, "Rows that are not aligned."),
)  # fmt: skip
TILE: tuple[Operator, ...] = (*FIRST, *REWRITES)
"""All operators on tile kernels; those of earlier splits first, so that their sites stay theirs."""
