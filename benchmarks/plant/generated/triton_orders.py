"""Operators on Triton kernels: by whom, in which order and how often work is done.

Those of `triton_operators` change what a statement says; those here change where it stands, which
elements a program has, and which way data take through memory.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .operators import Operator, Site, launch_lines
from .programs import Edit, Program, dotted, walk

__all__ = ["ORDERS"]

_ACCESSES = ("tl.load", "tl.store", "tl.atomic_add")
_BY_PLACE = ("tl.reshape", "tl.split", "tl.cumsum", "tl.associative_scan")
"""Functions whose result depends on where in a vector an element is."""


def _lines(program: Program) -> tuple[int, ...]:
    """Return lines that a choice for a whole launch may be seen at."""
    found = {call.lineno for call in program.calls(*_ACCESSES)}
    return tuple(sorted({*launch_lines(program), *found}))


def _names(node: ast.AST) -> set[str]:
    """Return the names in a node."""
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _argument(call: ast.Call, name: str) -> ast.expr | None:
    """Return an argument that is given by keyword."""
    return next((each.value for each in call.keywords if each.arg == name), None)


# -- memory


def _reloaded(program: Program) -> Iterator[Site]:
    """Write a result, read it again, and write what was read."""
    causes = ("redundant-traffic", "long-end", "serial-work", "late-warps")
    for call in program.calls("tl.store"):
        place = program.segment(call.args[0])
        mask = _argument(call, "mask")
        more = f", mask={program.segment(mask)}" if mask is not None else ""
        text = f"tl.debug_barrier()\ntl.store({place}, tl.load({place}{more}){more})"
        edit = program.after(program.statement(call), text)
        yield Site((edit,), (call.lineno,), causes, "a result read and written again")


def _early_eviction(program: Program) -> Iterator[Site]:
    """Let caches drop first what a product's programs read again."""
    causes = ("cache-policy", "redundant-traffic", "shallow-pipeline")
    if not list(program.calls("tl.dot")):
        return  # what is read once is best dropped
    for call in program.calls("tl.load"):
        if program.turns(call, "range"):
            held = program.segment(call)[:-1].rstrip().removesuffix(",")
            edit = program.replace(call, f'{held}, eviction_policy="evict_first")')
            yield Site((edit,), (), causes, f"line {call.lineno} dropped first")


def _half_stores(program: Program) -> Iterator[Site]:
    """Write even elements, then odd ones."""
    causes = ("narrow-access", "scattered-access", "masked-work", "redundant-traffic")
    indices = _indices(program)
    for call in program.calls("tl.store"):
        inner = _innermost(program, call.args[0], indices)
        if inner is None or len(call.args) != 2:
            continue
        place, value = map(program.segment, call.args)
        mask = _argument(call, "mask")
        more = f" & ({program.segment(mask)})" if mask is not None else ""
        halves = [f"tl.store({place}, {value}, mask=({inner} % 2 == {at}){more})" for at in (0, 1)]
        statement = program.statement(call)
        pad = " " * statement.col_offset
        yield Site((program.replace(call, f"\n{pad}".join(halves)),), (call.lineno,), causes,
                   f"{inner} even, then odd")  # fmt: skip


def _indices(program: Program) -> set[str]:
    """Return names of vectors of indices."""
    found = set()
    for call in program.calls("tl.arange"):
        statement = program.statement(call)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            found.add(statement.targets[0].id)
    return found


def _innermost(program: Program, place: ast.expr, indices: set[str]) -> str | None:
    """Return the text of the last index of an address, with axes that are put before or behind."""
    held = [
        node for node in walk(place) if isinstance(node, ast.Name) and node.id in indices
    ]  # fmt: skip
    if not held:
        return None
    last = max(held, key=lambda node: (node.lineno, node.col_offset))
    parent = program.parents[last]
    return program.segment(parent if isinstance(parent, ast.Subscript) else last)


# -- indices


def _wide(program: Program) -> Iterator[Site]:
    """Reckon every address in 64 bits."""
    causes = ("wide-arithmetic", "slow-arithmetic", "redundant-arithmetic", "spill",
              "low-occupancy")  # fmt: skip
    held = list(program.calls("tl.arange"))
    edits = tuple(
        program.replace(call, f"{program.segment(call)}.to(tl.int64)") for call in held
    )  # fmt: skip
    if edits:
        yield Site(edits, _lines(program), causes, "all indices of 64 bits")


def _interleaved(program: Program) -> Iterator[Site]:
    """Give a program every n-th element or row instead of neighbours, where n programs are."""
    causes = ("scattered-access", "narrow-access", "redundant-traffic", "block-order",
              "synchronous-copy", "shallow-pipeline")  # fmt: skip
    if list(program.calls(*_BY_PLACE)):
        return
    for call in program.calls("tl.arange"):
        whole = program.parents[call]
        if not isinstance(whole, ast.BinOp) or whole.right is not call:
            continue
        start, count = whole.left, program.segment(call.args[1])
        if (
            isinstance(start, ast.BinOp)
            and isinstance(start.op, ast.Mult)
            and isinstance(start.left, ast.Call)
            and dotted(start.left.func) == "tl.program_id"
            and program.segment(start.right) == count
        ):
            axis = program.segment(start.left.args[0])
            spread = f"{program.segment(call)} * tl.num_programs({axis})"
            edit = program.replace(whole, f"{program.segment(start.left)} + {spread}")
            statement = program.statement(call)
            names = _names(statement.targets[0]) if isinstance(statement, ast.Assign) else set()
            at = {line for name in names for line in program.uses(name)} | set(_lines(program))
            others = [
                each.lineno for each in program.calls("tl.program_id")
                if program.segment(each.args[0]) == axis and each is not start.left
            ]  # fmt: skip
            fault = f"neighbours are meant at line {others[0]}" if others else ""
            note = f"programs of axis {axis} interleaved"
            yield Site((edit,), tuple(sorted(at)), causes, note, fault=fault)


def _padded(program: Program) -> Iterator[Site]:
    """Make a row's block larger than the next power of two."""
    causes = ("masked-work", "idle-lanes", "low-occupancy", "spill")
    for call in program.calls("triton.next_power_of_2", inside=program.function(program.entry)):
        for factor in (2, 4):
            edit = program.replace(call, f"{factor} * {program.segment(call)}")
            yield Site((edit,), _lines(program), causes, f"a block {factor} times as large")


# -- loops


def _reduced_early(program: Program) -> Iterator[Site]:
    """Add up a tile in each iteration, where only the sum of all of them is needed."""
    causes = ("early-reduction", "late-warps", "serial-work", "redundant-arithmetic",
              "shallow-pipeline")  # fmt: skip
    for loop, _ in program.loops("range"):
        for added in loop.body:
            if not isinstance(added, ast.AugAssign) or not isinstance(added.op, ast.Add):
                continue
            if not isinstance(added.target, ast.Name):
                continue
            name = added.target.id
            start = _start(program, loop, name)
            sums = [call for call in program.calls("tl.sum") if dotted(call.args[0]) == name]
            reads = [
                node for node in walk(program.body) if isinstance(node, ast.Name)
                and node.id == name and isinstance(node.ctx, ast.Load)
            ]  # fmt: skip
            if start is None or len(sums) != 1 or len(reads) != 1:
                continue
            extents, axis = start.args[0], program.segment(sums[0].args[1])
            assert isinstance(extents, ast.Tuple)
            left = [
                program.segment(each) for at, each in enumerate(extents.elts) if str(at) != axis
            ]  # fmt: skip
            shape = f"({left[0]},)" if left else ""
            edits = (
                program.replace(start, f"tl.zeros({shape}, dtype=tl.float32)" if left else "0.0"),
                program.replace(added.value, f"tl.sum({program.segment(added.value)}, {axis})"),
                program.replace(sums[0], name),
            )
            yield Site(edits, (added.lineno, loop.lineno), causes, f"{name} added up each time")


def _start(program: Program, loop: ast.For, name: str) -> ast.Call | None:
    """Return the call that makes a sum of float32 before a loop."""
    for each in program.siblings(loop):
        if (
            each.lineno < loop.lineno
            and isinstance(each, ast.Assign)
            and dotted(each.targets[0]) == name
            and isinstance(each.value, ast.Call)
            and dotted(each.value.func) == "tl.zeros"
            and "float32" in program.segment(each.value)
            and isinstance(each.value.args[0], ast.Tuple)
        ):
            return each.value
    return None


def _staggered(program: Program) -> Iterator[Site]:
    """Let each program of a product begin at another place of its depth."""
    causes = ("block-order", "redundant-traffic")
    for loop, call in program.loops("range"):
        products = list(program.calls("tl.dot", inside=loop))
        first = call.args[0]
        if (
            not products
            or len(call.args) < 2
            or not (isinstance(first, ast.Constant) and first.value == 0)
            or not isinstance(loop.target, ast.Name)
            or not _any_order(loop)
        ):
            continue
        name, end = loop.target.id, program.segment(call.args[1])
        step = program.segment(call.args[2]) if len(call.args) == 3 else "1"
        whole = f"tl.cdiv({end}, {step}) * {step}" if step != "1" else f"({end})"
        moved = f"{name} = ({name}_turn + tl.program_id(0) * {step}) % ({whole})"
        edits = (
            program.replace(loop.target, f"{name}_turn"), program.before(loop.body[0], moved)
        )  # fmt: skip
        loads = {each.lineno for each in program.calls("tl.load", inside=loop)}
        lines = {loop.lineno, *loads, *(each.lineno for each in products)}
        yield Site(edits, tuple(sorted(lines)), causes, f"{name} begins elsewhere")


def _any_order(loop: ast.For) -> bool:
    """Whether iterations share nothing but sums of products, and terms that are added."""
    known: set[str] = set()
    assigned = {
        name for node in walk(loop) if isinstance(node, ast.Assign)
        for target in node.targets for name in _names(target)
    }  # fmt: skip
    for each in loop.body:
        if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add):
            continue
        if not isinstance(each, ast.Assign) or not isinstance(each.targets[0], ast.Name):
            return False
        name, value = each.targets[0].id, each.value
        carried = (_names(value) & assigned) - known
        product = isinstance(value, ast.Call) and dotted(value.func) == "tl.dot"
        summed = product and len(value.args) == 3 and dotted(value.args[2]) == name  # type: ignore[attr-defined]
        if carried - ({name} if summed else set()):
            return False
        known.add(name)
    return True


def _while(program: Program) -> Iterator[Site]:
    """Write a loop in a form that is not pipelined."""
    causes = ("shallow-pipeline", "synchronous-copy")
    for loop, call in program.loops("range"):
        loads = list(program.calls("tl.load", inside=loop))
        if not loads or len(call.args) < 2 or not isinstance(loop.target, ast.Name):
            continue
        name = loop.target.id
        first, end, *step = map(program.segment, call.args)
        start = program.span(loop)[0]
        colon = program.text.index(":", program.span(call)[1]) + 1
        pad = " " * loop.col_offset
        edits = (
            Edit(start, colon, f"{name} = {first}\n{pad}while {name} < {end}:"),
            program.after(loop.body[-1], f"{name} += {step[0] if step else '1'}"),
        )
        lines = {loop.lineno, *(each.lineno for each in loads), *launch_lines(program)}
        yield Site(edits, tuple(sorted(lines)), causes, f"a while loop over {name}")


# -- programs


def _few(program: Program) -> Iterator[Site]:
    """Let a few programs do all blocks one after the other, fewer than multiprocessors are."""
    causes = ("small-grid", "serial-work", "tail-wave")
    held = _launch(program)
    if held is None:
        return
    launch, grid = held
    arguments = program.body.args.args
    first, last = program.body.body[0], program.body.body[-1]
    start, end = program.span(first)[0] - first.col_offset, program.span(last)[1]
    head = "    for each in range(tl.program_id(0), blocks, tl.num_programs(0)):\n    "
    taken = _names(program.body) | {each.arg for each in arguments}
    calls = [
        call for call in program.calls("tl.program_id") if program.segment(call.args[0]) == "0"
    ]  # fmt: skip
    if taken & {"each", "blocks"} or not calls:
        return
    edits = [Edit(start, start, head), *(program.replace(call, "each") for call in calls)]
    for at in range(start, end):
        if program.text[at] == "\n" and program.text[at + 1] != "\n":
            edits.append(Edit(at + 1, at + 1, "    "))
    before = program.span(arguments[0])[0]
    edits.append(Edit(before, before, "blocks, "))
    before = program.span(launch.args[0])[0]
    edits.append(Edit(before, before, f"{program.segment(grid)}, "))
    for count in (33, 66):
        yield Site((*edits, program.replace(grid, str(count))), _lines(program), causes,
                   f"{count} programs")  # fmt: skip


def _launch(program: Program) -> tuple[ast.Call, ast.expr] | None:
    """Return the call that launches a grid of one axis, and the number of its programs."""
    entry = program.function(program.entry)
    named = {
        node.targets[0].id: node.value for node in walk(entry)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }  # fmt: skip
    for node in walk(entry):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Subscript)
            and dotted(node.func.value) == program.kernel
        ):
            grid = node.func.slice
            if isinstance(grid, ast.Name):
                grid = named.get(grid.id, grid)
            if isinstance(grid, ast.Tuple) and len(grid.elts) == 1:
                return node, grid.elts[0]
    return None


_TRITON = frozenset(("triton",))
ORDERS: tuple[Operator, ...] = (
    Operator("reload-result", "defect", _TRITON, _reloaded, "Results that are moved again."),
    Operator("evict-first", "defect", _TRITON, _early_eviction, "Operands come from far again."),
    Operator("halve-store", "defect", _TRITON, _half_stores, "Sectors that are half written."),
    Operator("widen-index", "defect", _TRITON, _wide, "Twice the arithmetic and registers."),
    Operator("interleave", "defect", _TRITON, _interleaved, "A sector for each element."),
    Operator("pad-block", "defect", _TRITON, _padded, "Lanes and registers without work."),
    Operator("reduce-each", "defect", _TRITON, _reduced_early, "Warps meet in each iteration."),
    Operator("stagger-loop", "defect", _TRITON, _staggered, "Blocks at a time share nothing."),
    Operator("while-loop", "defect", _TRITON, _while, "Loads do not run ahead."),
    Operator("few-programs", "defect", _TRITON, _few, "Most multiprocessors without work."),
)  # fmt: skip
