"""Operators on Triton kernels that came after the fourth test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They lock stores that nobody else makes,
lay data out as pairs or by columns, load masks that were known, keep sums in memory, and square by
logarithms.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from plant.generated.fresh.triton_operators import _appended, _assignments, _free, _reads
from plant.generated.later.triton_operators import _inputs, _launch, _results
from plant.generated.operators import Operator, Site
from plant.generated.programs import Edit, Program, dotted
from plant.generated.triton_orders import _indices, _names

__all__ = ["OPERATORS", "paired"]

_RANGE = ("range", "tl.range", "tl.static_range")
_ACCESSES = ("tl.load", "tl.store", "tl.atomic_add")


def _passed(program: Program) -> dict[str, str]:
    """Return the text that a launch gives for each argument of the kernel."""
    held = _launch(program)
    assert held is not None
    return {
        each.arg: program.segment(value)
        for each, value in zip(program.body.args.args, held[0].args)
    }  # fmt: skip


def _terms(node: ast.expr) -> list[ast.expr]:
    """Return what a sum adds up."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [*_terms(node.left), *_terms(node.right)]
    return [node]


def _places(program: Program, pointer: str, *calls: str) -> list[list[ast.expr]] | None:
    """Return the terms of each address that begins with a pointer, without the pointer itself.

    None where the pointer is used in another way, or no address has a vector of indices.
    """
    found = []
    for call in program.calls(*calls):
        first, *others = _terms(call.args[0])
        if dotted(first) == pointer and others:
            found.append(others)
    uses = [
        node for node in ast.walk(program.body)
        if isinstance(node, ast.Name) and node.id == pointer
    ]  # fmt: skip
    indices = _indices(program)
    vectors = any(_names(term) & indices for terms in found for term in terms)
    return found if vectors and len(found) == len(uses) else None


def _span(program: Program, terms: list[ast.expr]) -> tuple[int, int]:
    """Return where the text of a sum's terms begins and ends, brackets around them included."""
    node: ast.AST = terms[0]
    inside = program.parents[node]
    start, end = program.span(terms[0])[0], program.span(terms[-1])[1]
    while isinstance(inside, ast.BinOp):
        end = max(end, program.span(inside)[1])
        inside = program.parents[inside]
    return start, end


# -- data beside data


def paired(program: Program) -> Iterator[Site]:
    """Put each element of an input beside one that nobody needs, as structures of two have them."""
    causes = ("scattered-access", "narrow-access", "redundant-traffic", "needless-pass")
    if "import torch" not in program.text:
        return
    for given, pointer in _inputs(program):
        places = _places(program, pointer, "tl.load")
        if places is None:
            continue
        edits = [program.replace(given, "torch.stack(({0}, {0}), -1)".format(
            program.segment(given)))]  # fmt: skip
        for terms in places:
            start, end = _span(program, terms)
            edits.append(Edit(start, end, f"({program.text[start:end]}) * 2"))
        yield Site(tuple(edits), _reads(program, pointer), causes, f"{pointer} as pairs")


def _paired_result(program: Program) -> Iterator[Site]:
    """Store each element beside one that nobody needs, and copy the result out of the pairs."""
    causes = ("scattered-access", "narrow-access", "redundant-traffic", "needless-pass")
    if _launch(program) is None:
        return
    for made, last in _results(program):
        assert last.value is not None
        name = program.segment(last.value)
        pointer = {text: one for one, text in _passed(program).items()}.get(name, "")
        places = _places(program, pointer, *_ACCESSES)
        if places is None:
            continue
        if dotted(made.func) == "torch.empty_like":
            like = program.segment(made.args[0])
            text = f"torch.empty((*{like}.shape, 2), device={like}.device, dtype={like}.dtype)"
        elif isinstance(made.args[0], ast.Tuple):
            shape = ", ".join(map(program.segment, made.args[0].elts))
            more = "".join(f", {program.segment(each)}" for each in made.keywords)
            text = f"torch.empty(({shape}, 2){more})"
        else:
            continue
        edits = [program.replace(made, text),
                 program.replace(last.value, f"{name}[..., 0].contiguous()")]  # fmt: skip
        for terms in places:
            start, end = _span(program, terms)
            edits.append(Edit(start, end, f"({program.text[start:end]}) * 2"))
        lines = tuple(call.lineno for call in program.calls("tl.store"))
        yield Site(tuple(edits), lines, causes, "a result as pairs")


def _turned_operand(program: Program) -> Iterator[Site]:
    """Transpose an input before the launch, and read it by columns."""
    causes = ("scattered-access", "needless-pass", "redundant-traffic", "narrow-access")
    if not _free(program, "turned_rows"):
        return
    known = {each.arg for each in program.body.args.args if each.annotation is None}
    passed = _passed(program)
    for given, pointer in _inputs(program):
        places = _places(program, pointer, "tl.load")
        if places is None:
            continue
        widths = {width for terms in places for term in terms if (width := _width(term, known))}
        if len(widths) != 1:
            continue
        (width,) = widths
        edits = []
        for terms in places:
            rows = [term for term in terms if _width(term, known)]
            columns = [term for term in terms if term not in rows]
            if len(rows) > 1 or not columns or any(width in _names(term) for term in columns):
                break
            row = "0"
            if rows:
                factor = rows[0].left if isinstance(rows[0], ast.BinOp) else None
                row = program.segment(factor) if factor is not None else "1"
            column = " + ".join(map(program.segment, columns))
            edits.append(Edit(*_span(program, terms), f"({column}) * turned_rows + ({row})"))
        else:
            text = program.segment(given)
            turned = f"{text}.reshape(-1, {passed[width]}).t().contiguous()"
            count = f"{text}.numel() // ({passed[width]})"
            all_edits = (program.replace(given, turned), *edits,
                         *_appended(program, "turned_rows", count))  # fmt: skip
            yield Site(all_edits, _reads(program, pointer), causes, f"{pointer} turned before")


def _width(term: ast.expr, known: set[str]) -> str:
    """Return the argument by which a term of an address counts rows, or nothing."""
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        term = term.right
    name = dotted(term)
    return name if name in known and name.isupper() else ""


def _masks(program: Program) -> Iterator[Site]:
    """Load from memory which elements there are."""
    causes = ("redundant-traffic", "needless-pass", "synchronous-copy", "shallow-pipeline",
              "narrow-access", "scattered-access")  # fmt: skip
    held = _launch(program)
    if not _free(program, "real_ptr") or "import torch" not in program.text:
        return
    assert held is not None
    launch, grid = held
    passed, first = _passed(program), launch.args[0]
    if not isinstance(first, ast.Name):
        return
    for name, node in _assignments(program):
        terms = _terms(node.value)
        shape = [program.segment(term) for term in terms]
        if len(terms) != 2 or not isinstance(terms[0], ast.BinOp):
            continue
        axis = next((at for at in range(len(grid.elts))
                     if shape[0].startswith(f"tl.program_id({at}) * ")), None)  # fmt: skip
        size = shape[0].rpartition(" * ")[2]
        if axis is None or shape[1] != f"tl.arange(0, {size})":
            continue
        tests = [
            each for each in ast.walk(program.body)
            if isinstance(each, ast.Compare) and isinstance(each.ops[0], ast.Lt)
            and program.segment(each.left) in (name, f"{name}[:, None]", f"{name}[None, :]")
        ]  # fmt: skip
        limits = {program.segment(each.comparators[0]) for each in tests}
        if len(limits) != 1 or not limits <= set(passed):
            continue
        count = f"({program.segment(grid.elts[axis])}) * {passed.get(size, size)}"
        given = (f"(torch.arange({count}, device={first.id}.device) < {passed[limits.pop()]})"
                 ".to(torch.int8)")  # fmt: skip
        edits = [
            program.replace(each, f"(tl.load(real_ptr + {program.segment(each.left)}) != 0)")
            for each in tests
        ]
        lines = tuple(sorted({each.lineno for each in tests}))
        yield Site((*edits, *_appended(program, "real_ptr", given)), lines, causes,
                   f"{name} by a mask in memory")  # fmt: skip


# -- sums and stores


def _in_memory(program: Program) -> Iterator[Site]:
    """Keep a sum in memory from one iteration to the next."""
    causes = ("redundant-traffic", "serial-work", "late-warps", "shallow-pipeline",
              "synchronous-copy", "layout-change", "long-end")  # fmt: skip
    held = _launch(program)
    if not _free(program, "kept_ptr", "kept", "place_of") or "import torch" not in program.text:
        return
    assert held is not None
    launch, grid = held
    passed, first = _passed(program), launch.args[0]
    if not isinstance(first, ast.Name) or len(grid.elts) > 2:
        return
    program_id = "tl.program_id(0)"
    if len(grid.elts) == 2:
        program_id = "(tl.program_id(1) * tl.num_programs(0) + tl.program_id(0))"
    blocks = " * ".join(f"({program.segment(each)})" for each in grid.elts)
    for name, node in _assignments(program):
        call = node.value
        if not isinstance(call, ast.Call) or dotted(call.func) != "tl.zeros":
            continue
        if "float32" not in program.segment(call) or not isinstance(call.args[0], ast.Tuple):
            continue
        sizes = list(map(program.segment, call.args[0].elts))
        added = [each for loop, _ in program.loops("range", "tl.range") for each in loop.body
                 if _adds(program, each, name)]  # fmt: skip
        if len(added) != 1 or len(sizes) > 2:
            continue
        place = f"tl.arange(0, {sizes[-1]})"
        if len(sizes) == 2:
            place = (f"tl.arange(0, {sizes[0]})[:, None] * {sizes[1]} + "
                     f"tl.arange(0, {sizes[1]})[None, :]")  # fmt: skip
        of_program = f"{program_id}.to(tl.int64) * ({' * '.join(sizes)})"
        text = f"tl.store(place_of, {name})\ntl.debug_barrier()\n{name} = tl.load(place_of)"
        count = " * ".join((blocks, *(f"({passed.get(each, each)})" for each in sizes)))
        kept = f"torch.empty(({count},), device={first.id}.device, dtype=torch.float32)"
        edits = (
            program.after(node, f"place_of = kept_ptr + {of_program} + {place}"),
            program.after(added[0], text),
            *_appended(program, "kept_ptr", kept),
        )
        yield Site(edits, (added[0].lineno,), causes, f"{name} kept in memory")


def _adds(program: Program, node: ast.stmt, name: str) -> bool:
    """Whether a statement adds to a sum."""
    if isinstance(node, ast.AugAssign):
        return dotted(node.target) == name
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        last = node.value.args[-1:]
        plain = dotted(node.targets[0]) == name and dotted(node.value.func) == "tl.dot"
        return plain and [program.segment(each) for each in last] == [name]
    return False


def _locked(program: Program) -> Iterator[Site]:
    """Take one of 64 locks for a store that no other program makes."""
    causes = ("atomic-traffic", "serial-work", "late-warps", "long-end")
    held = _launch(program)
    if not _free(program, "lock_ptr", "lock") or "import torch" not in program.text:
        return
    assert held is not None
    first = held[0].args[0]
    if not isinstance(first, ast.Name):
        return
    for call in program.calls("tl.store"):
        statement = program.statement(call)
        if program.turns(call, *_RANGE) or program.parents[statement] is not program.body:
            continue
        lines = ("lock = lock_ptr + tl.program_id(0) % 64",
                 "while tl.atomic_cas(lock, 0, 1) == 1:", "    pass")  # fmt: skip
        edits = (
            program.before(statement, "\n".join(lines)),
            program.after(statement, "tl.debug_barrier()\ntl.atomic_xchg(lock, 0)"),
            *_appended(program, "lock_ptr",
                       f"torch.zeros((64,), device={first.id}.device, dtype=torch.int32)"),
        )  # fmt: skip
        yield Site(edits, (call.lineno,), causes, "a store under a lock")


# -- arithmetic


def _by_logarithm(program: Program) -> Iterator[Site]:
    """Square by a logarithm and an exponential, as powers are written where there are none."""
    indices = _indices(program)
    addresses = [call.args[0] for call in program.calls(*_ACCESSES)]
    for node in ast.walk(program.body):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        one, other = program.segment(node.left), program.segment(node.right)
        inside = any(each in addresses for each in program.around(node))
        if one != other or inside or isinstance(node.left, ast.Constant):
            continue
        if not _names(node.left) & indices:
            edit = program.replace(node, f"tl.exp2(2.0 * tl.log2(tl.abs({one})))")
            yield Site((edit,), (node.lineno,), ("slow-arithmetic", "redundant-arithmetic"),
                       f"{one} squared by a logarithm")  # fmt: skip


_TRITON = frozenset(("triton",))
OPERATORS: tuple[Operator, ...] = (
    Operator("pair-result", "defect", _TRITON, _paired_result, "Sectors that are half written."),
    Operator("turn-operand", "defect", _TRITON, _turned_operand, "A sector for each element."),
    Operator("mask-tensor", "defect", _TRITON, _masks, "Accesses that wait for a mask."),
    Operator("sum-in-memory", "defect", _TRITON, _in_memory, "A sum leaves registers each time."),
    Operator("lock-store", "defect", _TRITON, _locked, "Programs wait for each other's stores."),
    Operator("log-square", "defect", _TRITON, _by_logarithm, "Two functions for a product."),
)  # fmt: skip
