"""Operators on Triton kernels that came after the second test split: detours, calls around them.

In: a program.  Out: sites, as other operators have them. They let PyTorch copy, widen or clear what
need not be, launch in parts or twice, hide from the compiler which elements are neighbours, and
reduce and multiply by detours.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from plant.generated.operators import Operator, Site
from plant.generated.programs import Edit, Program, applied, dotted, once, walk
from plant.generated.triton_orders import _argument, _indices, _innermost, _lines, _names

__all__ = ["DECOYS", "OPERATORS", "clamped", "copied_result", "double_sums"]

_RANGE = ("range", "tl.range")
_MADE = ("torch.empty", "torch.empty_like")


@once
def _launch(program: Program) -> tuple[ast.Call, ast.Tuple] | None:
    """Return the only call that launches the kernel, and its grid."""
    found = [
        node for node in walk(program.function(program.entry))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
        and dotted(node.func.value) == program.kernel
    ]  # fmt: skip
    if len(found) != 1 or not isinstance(found[0].func, ast.Subscript):
        return None
    grid = found[0].func.slice
    return (found[0], grid) if isinstance(grid, ast.Tuple) else None


def _pointers(program: Program, *calls: str) -> set[str]:
    """Return the kernel's arguments that some calls take addresses from."""
    known = {each.arg for each in program.body.args.args}
    return {
        name for call in program.calls(*calls) for name in _names(call.args[0]) & known
        if name.endswith("_ptr")
    }  # fmt: skip


def _inputs(program: Program) -> Iterator[tuple[ast.expr, str]]:
    """Yield what a launch is given to load from, with the name that the kernel has for it."""
    held = _launch(program)
    if held is None:
        return
    written = _pointers(program, "tl.store", "tl.atomic_add")
    loaded = _pointers(program, "tl.load") - written
    for given, parameter in zip(held[0].args, program.body.args.args):
        if isinstance(given, ast.Name) and parameter.arg in loaded:
            yield given, parameter.arg


@once
def _results(program: Program) -> list[tuple[ast.Call, ast.Return]]:
    """Return the calls that make a result, each with the statement that returns it."""
    found: list[tuple[ast.Call, ast.Return]] = []
    entry = program.function(program.entry)
    last = entry.body[-1]
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Name):
        return found
    for node in walk(entry):
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts))
        for one, made in pairs:
            if (
                dotted(one) == last.value.id
                and isinstance(made, ast.Call)
                and dotted(made.func) in _MADE
            ):
                found.append((made, last))
    return found


# -- around the kernel


def _cloned(program: Program) -> Iterator[Site]:
    """Copy an input before the kernel reads it."""
    causes = ("redundant-traffic", "needless-pass")
    for given, name in list(_inputs(program))[:2]:
        edit = program.replace(given, f"{program.segment(given)}.clone()")
        lines = [c.lineno for c in program.calls("tl.load") if name in _names(c)]
        yield Site((edit,), tuple(lines), causes, f"{name} copied before")


def _widened(program: Program) -> Iterator[Site]:
    """Convert an input to float32 before the kernel, which does so itself."""
    causes = ("redundant-traffic", "needless-pass")
    if list(program.calls("tl.dot")):
        return
    for given, name in _inputs(program):
        loads = [call for call in program.calls("tl.load") if name in _names(call.args[0])]
        wide = [program.parents[call] for call in loads]
        if all(isinstance(each, ast.Attribute) and each.attr == "to" for each in wide):
            edit = program.replace(given, f"{program.segment(given)}.float()")
            yield Site((edit,), tuple(call.lineno for call in loads), causes,
                       f"{name} made wide before")  # fmt: skip


def _wide_result(program: Program) -> Iterator[Site]:
    """Store float32, and let PyTorch make sixteen bits of it."""
    causes = ("redundant-traffic", "needless-pass")
    stores = list(program.calls("tl.store"))
    if not stores or not all("bfloat16" in program.segment(call) for call in stores):
        return
    for made, last in _results(program):
        dtype = _argument(made, "dtype")
        if dtype is not None:
            edit = program.replace(dtype, "torch.float32")
        elif dotted(made.func) == "torch.empty_like":
            text = program.segment(made)[:-1]
            edit = program.replace(made, f"{text}, dtype=torch.float32)")
        else:
            continue
        assert last.value is not None
        name = program.segment(last.value)
        edits = (edit, program.replace(last.value, f"{name}.to(torch.bfloat16)"))
        yield Site(edits, tuple(call.lineno for call in stores), causes, "narrowed afterwards")


def _cleared(program: Program) -> Iterator[Site]:
    """Fill with zeros what the kernel writes."""
    causes = ("redundant-traffic", "needless-pass")
    for made, _ in _results(program):
        name = dotted(made.func).replace("empty", "zeros")
        edit = program.replace(made.func, name)
        stores = tuple(call.lineno for call in program.calls("tl.store"))
        yield Site((edit,), stores, causes, "zeros before")


def copied_result(program: Program) -> Iterator[Site]:
    """Give back a copy of the result."""
    causes = ("redundant-traffic", "needless-pass")
    for _, last in _results(program):
        assert last.value is not None
        edit = program.replace(last.value, f"{program.segment(last.value)}.clone()")
        stores = tuple(call.lineno for call in program.calls("tl.store"))
        yield Site((edit,), stores, causes, "a copy of the result")


def _in_parts(program: Program) -> Iterator[Site]:
    """Launch an eighth of the first axis at a time, where it divides by eight."""
    causes = ("many-launches", "small-grid", "tail-wave")
    held = _launch(program)
    taken = _names(program.tree) | {each.arg for each in program.body.args.args}
    if held is None or list(program.calls("tl.num_programs")) or taken & {"part", "parts"}:
        return
    launch, grid = held
    calls = _program_ids(program)
    statement = program.statement(launch)
    arguments = program.body.args.args
    if not calls or not launch.args or not isinstance(statement, ast.Expr):
        return
    axis = program.segment(grid.elts[0])
    start, end = program.span(statement)
    behind = program.span(launch.args[-1])[1]
    inner = [
        program.replace(grid.elts[0], f"{axis} // parts"),
        Edit(behind, behind, ", part"),
    ]
    moved = [Edit(each.start - start, each.end - start, each.text) for each in inner]
    text = applied(program.text[start:end], moved).replace("\n", "\n    ")
    pad = " " * statement.col_offset
    place = program.span(arguments[-1])[1]
    edits = (
        Edit(start, end, f"parts = 8 if {axis} % 8 == 0 else 1\n{pad}for part in range(parts):\n"
                         f"{pad}    {text}"),
        Edit(place, place, ", part"),
        *(program.replace(call, "(tl.program_id(0) + part * tl.num_programs(0))")
          for call in calls),
    )  # fmt: skip
    yield Site(edits, _lines(program), causes, "eight launches")


def _program_ids(program: Program) -> list[ast.Call]:
    """Return the calls that ask for a program's place along the first axis."""
    return [e for e in program.calls("tl.program_id") if program.segment(e.args[0]) == "0"]


def _twice_each(program: Program) -> Iterator[Site]:
    """Let two programs do the same, and store the same."""
    causes = ("redundant-traffic", "redundant-arithmetic")
    held = _launch(program)
    both = _pointers(program, "tl.store") & _pointers(program, "tl.load")
    other = list(program.calls("tl.num_programs", "tl.atomic_add"))
    calls = _program_ids(program)
    if held is None or both or other or not calls:
        return
    axis = held[1].elts[0]
    edits = (
        program.replace(axis, f"2 * ({program.segment(axis)})"),
        *(program.replace(call, "(tl.program_id(0) // 2)") for call in calls),
    )
    yield Site(edits, _lines(program), causes, "two programs for each block")


# -- loads


def clamped(program: Program) -> Iterator[Site]:
    """Cut indices off at a number that none of them reaches; neighbours are not known as such."""
    causes = ("narrow-access", "scattered-access", "synchronous-copy", "shallow-pipeline")
    for call in program.calls("tl.arange"):
        statement = program.statement(call)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            edit = program.after(statement, f"{name} = tl.minimum({name}, 1073741823)")
            yield Site((edit,), (*program.uses(name), call.lineno), causes, f"{name} cut off")


def _half_loads(program: Program) -> Iterator[Site]:
    """Load even elements, then odd ones."""
    causes = ("redundant-traffic", "narrow-access", "scattered-access", "masked-work",
              "synchronous-copy", "shallow-pipeline")  # fmt: skip
    indices = _indices(program)
    for call in program.calls("tl.load"):
        inner = _innermost(program, call.args[0], indices)
        if inner is None or len(call.args) != 1:
            continue
        place = program.segment(call.args[0])
        mask, rest = _argument(call, "mask"), _argument(call, "other")
        more = f" & ({program.segment(mask)})" if mask is not None else ""
        last = f", other={program.segment(rest)}" if rest is not None else ""
        even, odd = (f"tl.load({place}, mask=({inner} % 2 == {at}){more}{last})" for at in (0, 1))
        edit = program.replace(call, f"tl.where({inner} % 2 == 0, {even}, {odd})")
        yield Site((edit,), (call.lineno,), causes, f"line {call.lineno} even, then odd")


def _spread(program: Program) -> Iterator[Site]:
    """Load a vector again for every row that uses it."""
    causes = ("redundant-traffic", "narrow-access", "scattered-access")
    indices = _indices(program)
    for call in program.calls("tl.load"):
        statement = program.statement(call)
        held = [e for e in walk(call.args[0]) if isinstance(e, ast.Name) and e.id in indices]
        if (
            not isinstance(statement, ast.Assign)
            or statement.value is not call
            or len({each.id for each in held}) != 1
            or any(isinstance(program.parents[each], ast.Subscript) for each in held)
        ):
            continue
        name, place = dotted(statement.targets[0]), program.segment(call.args[0])
        mask, rest = _argument(call, "mask"), _argument(call, "other")
        for axes in ("[:, None]", "[None, :]"):
            spots = [
                node for node in walk(program.body) if isinstance(node, ast.Subscript)
                and program.segment(node) == f"{name}{axes}"
            ]  # fmt: skip
            others = sorted(indices - {held[0].id})
            if not spots or not others:
                continue
            more = f", mask=({program.segment(mask)}){axes}" if mask is not None else ""
            more += f", other={program.segment(rest)}" if rest is not None else ""
            edits = [program.replace(spot, f"tl.load(({place}){axes}{more})") for spot in spots]
            yield Site(tuple(edits), (call.lineno,), causes, f"{name} where it is used")


# -- arithmetic


def _size(program: Program) -> str | None:
    """Return the length of all vectors of indices, where they are of one length."""
    sizes = {program.segment(call.args[1]) for call in program.calls("tl.arange")}
    return next(iter(sizes)) if len(sizes) == 1 else None


def _scanned(program: Program) -> Iterator[Site]:
    """Take the last of all sums so far, where the sum is wanted."""
    causes = ("redundant-arithmetic", "late-warps", "layout-change")
    size = _size(program)
    for call in program.calls("tl.sum"):
        along = program.segment(call.args[1]) if len(call.args) == 2 else ""
        if size is None or along != "0" or "[:," in program.text:
            continue
        sums = f"tl.cumsum({program.segment(call.args[0])}, 0)"
        text = f"tl.sum(tl.where(tl.arange(0, {size}) == {size} - 1, {sums}, 0.0), 0)"
        yield Site((program.replace(call, text),), (call.lineno,), causes, "a sum from a scan")


def _sorted(program: Program) -> Iterator[Site]:
    """Sort before the greatest is taken."""
    causes = ("redundant-arithmetic", "late-warps", "layout-change", "bank-conflict")
    for call in program.calls("tl.max"):
        along = program.segment(call.args[1]) if len(call.args) == 2 else ""
        vector = along == "0" and "[:," not in program.text
        if vector and not program.turns(call, *_RANGE):
            edit = program.replace(call.args[0], f"tl.sort({program.segment(call.args[0])})")
            yield Site((edit,), (call.lineno,), causes, "sorted for the greatest")


def _turned_product(program: Program) -> Iterator[Site]:
    """Multiply transposes in the other order, and transpose what comes out."""
    causes = ("layout-change", "bank-conflict", "serial-products", "spill", "low-occupancy")
    for call in program.calls("tl.dot"):
        if len(call.args) >= 2 and not call.keywords:
            a, b, *more = map(program.segment, call.args)
            held = "".join(f"{each} + " for each in more)
            text = f"({held}tl.trans(tl.dot(tl.trans({b}), tl.trans({a}))))"
            yield Site((program.replace(call, text),), (call.lineno,), causes, "turned twice")


def double_sums(program: Program) -> Iterator[Site]:
    """Add up in float64."""
    causes = ("slow-arithmetic", "wide-arithmetic", "spill", "low-occupancy")
    added = {dotted(node.target) for node in walk(program.body)
             if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add)}  # fmt: skip
    for call in program.calls("tl.zeros"):
        statement, dtype = program.statement(call), _argument(call, "dtype")
        if isinstance(statement, ast.Assign) and dotted(statement.targets[0]) in added and dtype:
            name = dotted(statement.targets[0])
            edit = program.replace(dtype, "tl.float64")
            yield Site((edit,), tuple(program.uses(name)), causes, f"{name} of float64")


# -- what costs nothing


def _added_outside(program: Program) -> Iterator[Site]:
    """Add a product to its sum by a plus, which the compiler makes part of the product."""
    for call in program.calls("tl.dot"):
        if len(call.args) == 3 and not call.keywords:
            a, b, held = map(program.segment, call.args)
            if isinstance(call.args[2], ast.Name):
                edit = program.replace(call, f"{held} + tl.dot({a}, {b})")
                yield Site((edit,), (call.lineno,), ("serial-products", "redundant-arithmetic",
                           "spill"), "a sum outside")  # fmt: skip


def _branch_once(program: Program) -> Iterator[Site]:
    """Leave a program whose place is below zero, which none is."""
    first = program.body.body[0]
    edit = program.before(first, "if tl.program_id(0) < 0:\n    return")
    yield Site((edit,), (first.lineno,), ("masked-work", "late-warps"), "a branch, once")


def _asserted(program: Program) -> Iterator[Site]:
    """Assert what holds; nothing of it is compiled without a switch."""
    for call in program.calls("tl.load"):
        statement = program.statement(call)
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name = statement.targets[0].id
            edit = program.after(statement, f"tl.device_assert({name} == {name})")
            yield Site((edit,), (call.lineno,), ("redundant-arithmetic", "masked-work",
                       "late-warps"), f"{name} is a number")  # fmt: skip


_TRITON = frozenset(("triton",))
OPERATORS: tuple[Operator, ...] = (
    Operator("clone-argument", "defect", _TRITON, _cloned, "The same bytes by a launch before."),
    Operator("widen-argument", "defect", _TRITON, _widened, "Twice the bytes, and a launch."),
    Operator("widen-result", "defect", _TRITON, _wide_result, "Twice the bytes, and a launch."),
    Operator("clear-result", "defect", _TRITON, _cleared, "Bytes that are written twice."),
    Operator("split-launch", "defect", _TRITON, _in_parts, "Launches that do not fill the device."),
    Operator("repeat-programs", "defect", _TRITON, _twice_each, "All that was done, again."),
    Operator("halve-load", "defect", _TRITON, _half_loads, "Sectors that are half used, twice."),
    Operator("spread-load", "defect", _TRITON, _spread, "A vector, once for each row."),
    Operator("sum-by-scan", "defect", _TRITON, _scanned, "All sums, of which one is used."),
    Operator("sort-first", "defect", _TRITON, _sorted, "An order that nobody needs."),
    Operator("turn-product", "defect", _TRITON, _turned_product, "Sums that change their layout."),
)  # fmt: skip
DECOYS: tuple[Operator, ...] = (
    Operator("add-outside", "decoy", _TRITON, _added_outside, "The compiler puts it back."),
    Operator("branch-once", "decoy", _TRITON, _branch_once, "One comparison a program."),
    Operator("assert-off", "decoy", _TRITON, _asserted, "Compiled to nothing."),
)  # fmt: skip
