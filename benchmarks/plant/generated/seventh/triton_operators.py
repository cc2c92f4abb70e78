"""Operators on Triton kernels that came after the sixth test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They keep means in place of sums, watch
the greatest number, cut loops into short ones, clean or ask about operands in each iteration, split
exponentials, store results turned, walk backwards, look for a program's place, and ask whether to
stop.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from plant.generated.fifth.triton_operators import _passed, _places, _span
from plant.generated.fresh.triton_operators import _appended, _assignments, _bound_in, _free
from plant.generated.later.triton_operators import _launch, _program_ids, _results
from plant.generated.operators import Operator, Site
from plant.generated.programs import Edit, Program, dotted, once, walk
from plant.generated.sixth.triton_operators import _on_device, _wrapped
from plant.generated.triton_orders import _argument, _lines, _names

__all__ = ["OPERATORS", "averaged", "chopped", "cleaned", "skipped", "split", "watched"]

_RANGE = ("range", "tl.range")
_SCALARS = ("tl.sum", "tl.max", "tl.min", "tl.program_id", "tl.num_programs")
_BY_PLACE = ("tl.argmax", "tl.argmin", "tl.cumsum", "tl.associative_scan", "tl.reshape", "tl.sort",
             "tl.split", "tl.gather", "tl.flip")  # fmt: skip
"""Functions whose result depends on where in a vector an element is."""


@once
def _vectors(program: Program) -> set[str]:
    """Return names of what has more than one element, as far as assignments show it."""
    found: set[str] = set()
    for _ in range(4):
        for name, node in _assignments(program):
            value = node.value
            if isinstance(value, ast.Call) and dotted(value.func) in _SCALARS:
                continue
            calls = {dotted(each.func) for each in walk(value) if isinstance(each, ast.Call)}
            if "tl.arange" in calls or _names(value) & found:
                found.add(name)
    return found


def _loads(program: Program) -> Iterator[tuple[str, ast.Assign, ast.Call]]:
    """Yield assignments of vectors that are loaded, as they are or converted."""
    for name, node in _assignments(program):
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            call = call.func.value if call.func.attr == "to" else call
        if not isinstance(call, ast.Call) or dotted(call.func) != "tl.load":
            continue
        inside = any(isinstance(each, ast.Call) and dotted(each.func) == "tl.arange"
                     for each in walk(call.args[0]))  # fmt: skip
        if inside or _names(call.args[0]) & _vectors(program):
            yield name, node, call


def _loops(program: Program) -> Iterator[tuple[ast.For, str, str, str]]:
    """Yield loops that begin at 0: the loop, its end, its step, and the number of an iteration."""
    for loop, call in program.loops(*_RANGE):
        given = list(map(program.segment, call.args))
        if not isinstance(loop.target, ast.Name) or call.keywords:
            continue
        begin, end, step = {1: ("0", *given, "1"), 2: (*given, "1"), 3: tuple(given)}[len(given)]
        if begin == "0":
            name = loop.target.id
            yield loop, end, step, name if step == "1" else f"{name} // ({step})"


# -- both languages: loops


def averaged(program: Program) -> Iterator[Site]:
    """Keep the mean of what a loop has added up so far, and multiply it by the count at the end."""
    causes = ("slow-arithmetic", "redundant-arithmetic", "serial-products", "spill",
              "low-occupancy")  # fmt: skip
    zeros = {name for name, node in _assignments(program)
             if isinstance(node.value, ast.Call) and dotted(node.value.func) == "tl.zeros"
             and "float32" in program.segment(node.value)}  # fmt: skip
    for loop, end, step, number in _loops(program):
        for node in loop.body:
            name, added = _addition(program, node)
            uses = [each for each in walk(loop) if isinstance(each, ast.Name) and each.id == name]
            product = isinstance(node, ast.Assign)
            if name not in zeros or len(uses) != (2 if product else 1):
                continue
            text = f"{name} += (({added}) - {name}) / ({number} + 1)"
            count = end if step == "1" else f"tl.cdiv({end}, {step})"
            edits = (program.replace(node, text),
                     program.after(loop, f"{name} = {name} * ({count})"))  # fmt: skip
            yield Site(edits, (node.lineno,), causes, f"{name} as a mean")


def _addition(program: Program, node: ast.stmt) -> tuple[str, str]:
    """Return which name a statement adds to, and what, or nothing: a product may add as well."""
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        return dotted(node.target), program.segment(node.value)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        call, name = node.value, dotted(node.targets[0])
        if dotted(call.func) == "tl.dot" and len(call.args) == 3 and not call.keywords:
            a, b, c = map(program.segment, call.args)
            return (name, f"tl.dot({a}, {b})") if c == name else ("", "")
    return "", ""


def chopped(program: Program) -> Iterator[Site]:
    """Cut a loop into parts of four iterations, at whose ends nothing is loaded ahead."""
    causes = ("shallow-pipeline", "synchronous-copy", "serial-products", "serial-work")
    for loop, end, step, _ in _loops(program):
        assert isinstance(loop.target, ast.Name)
        if not list(program.calls("tl.load", inside=loop)):
            continue
        name, four = loop.target.id, "4" if step == "1" else f"4 * ({step})"
        by = "" if step == "1" else f", {step}"
        heads = (
            f"for {name}_part in range(0, {end}, {four}):",
            f"for {name} in range({name}_part, tl.minimum({name}_part + {four}, {end}){by}):",
        )
        yield Site(tuple(program.deeper(loop, heads)), (loop.lineno,), causes, f"{name} in parts")


def _asked(program: Program) -> Iterator[Site]:
    """Ask in each iteration whether the host wants the kernel to stop."""
    causes = ("shallow-pipeline", "synchronous-copy", "late-warps", "serial-work", "narrow-access",
              "redundant-traffic")  # fmt: skip
    device = _on_device(program)
    if not device or not _free(program, "stop_ptr"):
        return
    given = f"torch.zeros((1,), device={device}, dtype=torch.int32)"
    loops: list[ast.For | ast.While] = [loop for loop, _ in program.loops(*_RANGE)]
    for loop in loops:
        body, last = loop.body, loop.end_lineno or 0
        bound = set().union(*map(_bound_in, body))
        before = {each.id for each in walk(program.body) if isinstance(each, ast.Name)
                  and isinstance(each.ctx, ast.Store) and each.lineno < loop.lineno}  # fmt: skip
        later = {each.id for each in walk(program.body) if isinstance(each, ast.Name)
                 and isinstance(each.ctx, ast.Load) and each.lineno > last}  # fmt: skip
        if bound & later - before or any(isinstance(each, ast.For | ast.While) for each in body):
            continue
        head = "if tl.load(stop_ptr, volatile=True) == 0:"
        edits = (*_wrapped(program, body, head), *_appended(program, "stop_ptr", given))
        yield Site(edits, (loop.lineno,), causes, "asks whether to stop")


# -- both languages: operands


def watched(program: Program) -> Iterator[Site]:
    """Note the greatest number of what is loaded or stored, as scales of a later run need it."""
    causes = ("early-reduction", "late-warps", "atomic-traffic", "long-end", "serial-work",
              "redundant-arithmetic", "layout-change", "shallow-pipeline")  # fmt: skip
    device = _on_device(program)
    if not device or not _free(program, "amax_ptr"):
        return
    given = f"torch.zeros((1,), device={device}, dtype=torch.int32)"
    found = [
        (name, program.after(node, _top(name)), node) for name, node, _ in _loads(program)
        if program.turns(node, *_RANGE)
    ]  # fmt: skip
    for call in program.calls("tl.store"):
        if isinstance(call.args[1], ast.Name) and call.args[1].id in _vectors(program):
            name, statement = call.args[1].id, program.statement(call)
            found.append((name, program.before(statement, _top(name)), statement))
    for name, edit, statement in found:
        edits = (edit, *_appended(program, "amax_ptr", given))
        yield Site(edits, (statement.lineno,), causes, f"greatest number of {name} kept")


def _top(name: str) -> str:
    """Return a statement that notes the greatest size in a vector; sizes are ordered as bits."""
    most = f"tl.max(tl.abs({name}.to(tl.float32)))"
    return f"tl.atomic_max(amax_ptr, {most}.to(tl.int32, bitcast=True))"


def cleaned(program: Program) -> Iterator[Site]:
    """Put zeros in the place of what is no number, in each block that is loaded."""
    causes = ("redundant-arithmetic", "synchronous-copy", "shallow-pipeline", "bank-conflict",
              "late-warps", "layout-change", "serial-products")  # fmt: skip
    for name, node, call in _loads(program):
        rest = _argument(call, "other")
        whole = isinstance(rest, ast.Constant) and isinstance(rest.value, int)
        if whole or not program.turns(node, *_RANGE):
            continue
        line = f"{name} = tl.where({name} == {name}, {name}, tl.zeros_like({name}))"
        yield Site((program.after(node, line),), (node.lineno,), causes,
                   f"{name} without what is no number")  # fmt: skip


def skipped(program: Program) -> Iterator[Site]:
    """Add a product only where a factor has another number than zero, which all have."""
    causes = ("early-reduction", "late-warps", "shallow-pipeline", "synchronous-copy",
              "serial-products", "redundant-arithmetic", "layout-change",
              "serial-work")  # fmt: skip
    for loop, *_ in _loops(program):
        loaded = {name for name, node, _ in _loads(program) if node in loop.body}
        for node in loop.body:
            name, _ = _addition(program, node)
            if not name or not isinstance(node, ast.Assign | ast.AugAssign):
                continue
            for factor in _factors(node.value):
                held = dotted(factor.value if isinstance(factor, ast.Subscript) else factor)
                if held in loaded:
                    head = f"if tl.max(tl.abs({held}.to(tl.float32))) > 0:"
                    yield Site(_wrapped(program, [node], head), (node.lineno,), causes,
                               f"zeros of {held} looked for")  # fmt: skip


def _factors(node: ast.expr) -> list[ast.expr]:
    """Return what a product multiplies, that of the matrix unit included."""
    if isinstance(node, ast.Call) and dotted(node.func) == "tl.dot":
        return list(node.args[:2])
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]


# -- both languages: arithmetic


def split(program: Program) -> Iterator[Site]:
    """Take the exponential of the whole part and of the rest, as where one table is too short."""
    for call in program.calls("tl.exp", "tl.exp2"):
        name, text = dotted(call.func), program.segment(call.args[0])
        whole = f"tl.floor({text})"
        edit = program.replace(call, f"({name}({whole}) * {name}(({text}) - {whole}))")
        yield Site((edit,), (call.lineno,), ("slow-arithmetic", "redundant-arithmetic"),
                   "an exponential of two parts")  # fmt: skip


# -- places


def _turned(program: Program) -> Iterator[Site]:
    """Store a result by columns, and turn it after the launch."""
    causes = ("scattered-access", "narrow-access", "redundant-traffic", "needless-pass")
    if not _free(program, "turned_rows") or "import torch" not in program.text:
        return
    passed = _passed(program)
    for _, last in _results(program):
        assert last.value is not None
        name = program.segment(last.value)
        pointer = {text: one for one, text in passed.items()}.get(name, "")
        places = _places(program, pointer, "tl.load", "tl.store", "tl.atomic_add")
        if places is None:
            continue
        plain = {each.arg for each in program.body.args.args if each.annotation is None}
        widths = [{_width(term, plain) for term in terms} - {""} for terms in places]
        every = set().union(*widths)
        if len(every) != 1:
            continue
        (width,) = every
        edits: list[Edit] = []
        for terms in places:
            rows = [term for term in terms if _width(term, plain)]
            columns = [term for term in terms if term not in rows]
            if len(rows) > 1 or not columns or any(width in _names(term) for term in columns):
                break
            row = _row(program, rows[0], width) if rows else "0"
            column = " + ".join(map(program.segment, columns))
            edits.append(Edit(*_span(program, terms), f"({column}) * turned_rows + ({row})"))
        else:
            count = f"{name}.numel() // ({passed[width]})"
            back = f"{name}.view({passed[width]}, -1).t().reshape({name}.shape)"
            all_edits = (*edits, program.replace(last.value, back),
                         *_appended(program, "turned_rows", count))  # fmt: skip
            lines = tuple(call.lineno for call in program.calls("tl.store"))
            yield Site(all_edits, lines, causes, "a result turned afterwards")


def _width(term: ast.expr, known: set[str]) -> str:
    """Return the argument by which a term of an address counts rows, or nothing."""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        term = term.right
    name = dotted(term)
    return name if name in known and not name.endswith("_ptr") else ""


def _row(program: Program, term: ast.expr, width: str) -> str:
    """Return the row that a term of an address stands for."""
    if isinstance(term, ast.BinOp) and dotted(term.right) == width:
        return program.segment(term.left)
    return "1"


def _backwards(program: Program) -> Iterator[Site]:
    """Let a program's first lane have its last element."""
    causes = ("narrow-access", "scattered-access", "synchronous-copy", "shallow-pipeline",
              "layout-change")  # fmt: skip
    if list(program.calls(*_BY_PLACE)):
        return
    for call in program.calls("tl.arange"):
        statement = program.statement(call)
        if len(call.args) != 2 or program.segment(call.args[0]) != "0":
            continue
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            size, name = program.segment(call.args[1]), statement.targets[0].id
            size = size if size.isidentifier() else f"({size})"
            edit = program.replace(call, f"({size} - 1 - {program.segment(call)})")
            lines = (*program.uses(name), call.lineno)
            yield Site((edit,), lines, causes, f"{name} backwards")


def _looked_up(program: Program) -> Iterator[Site]:
    """Look for the part of a table that a program is in, one part after the other."""
    causes = ("serial-work", "late-warps", "redundant-arithmetic", "narrow-access",
              "scattered-access", "shallow-pipeline", "needless-pass", "many-launches")  # fmt: skip
    device, calls = _on_device(program), _program_ids(program)
    if not device or not _free(program, "part_ptr", "part", "each", "program") or not calls:
        return
    held = _launch(program)
    if held is None or list(program.calls("tl.num_programs")):
        return
    size = f"triton.cdiv({program.segment(held[1].elts[0])}, 64)"
    given = f"torch.arange(65, device={device}, dtype=torch.int32) * {size}"
    lines = (
        "part = 0",
        "for each in range(1, 65):",
        "    part += (tl.load(part_ptr + each) <= tl.program_id(0)).to(tl.int32)",
        "program = tl.program_id(0) - part * tl.cdiv(tl.num_programs(0), 64)",
        "program += tl.load(part_ptr + part)",
    )
    edits = (
        program.before(program.body.body[0], "\n".join(lines)),
        *(program.replace(call, "program") for call in calls),
        *_appended(program, "part_ptr", given),
    )
    yield Site(edits, _lines(program)[:1], causes, "a program's place from a table")


_TRITON = frozenset(("triton",))
OPERATORS: tuple[Operator, ...] = (
    Operator("turn-result", "defect", _TRITON, _turned, "A sector for each element, and a pass."),
    Operator("descend-index", "defect", _TRITON, _backwards, "Accesses of single elements."),
    Operator("search-place", "defect", _TRITON, _looked_up, "A loop before any work."),
    Operator("poll-stop", "defect", _TRITON, _asked, "Each iteration waits for memory."),
)  # fmt: skip
