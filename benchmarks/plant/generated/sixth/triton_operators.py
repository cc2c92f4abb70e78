"""Operators on Triton kernels that came after the fifth test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They add up with a correction that nobody
needs, count for statistics, take numbers from a counter, find tensors through a table of addresses,
check blocks that are never empty, and forget to leave loops.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from plant.generated.fresh.triton_operators import _appended, _assignments, _bound_in, _free, _reads
from plant.generated.later.triton_operators import _inputs, _launch
from plant.generated.operators import Operator, Site
from plant.generated.programs import Edit, Program, dotted
from plant.generated.triton_orders import _argument, _lines, _names

__all__ = ["OPERATORS", "compensated", "counted"]

_RANGE = ("range", "tl.range")
_REDUCTIONS = ("tl.sum", "tl.max")


def _on_device(program: Program) -> str:
    """Return the text of the device that a launch's first argument is on, or nothing."""
    held = _launch(program)
    known = held is not None and "import torch" in program.text
    first = held[0].args[0] if held is not None and held[0].args else None
    return f"{first.id}.device" if known and isinstance(first, ast.Name) else ""


# -- both languages


def compensated(program: Program) -> Iterator[Site]:
    """Add up by Kahan's summation."""
    causes = ("redundant-arithmetic", "slow-arithmetic", "spill", "low-occupancy")
    for name, node in _assignments(program):
        zeros = program.segment(node.value)
        if not isinstance(node.value, ast.Call) or dotted(node.value.func) != "tl.zeros":
            continue
        if "float32" not in zeros:
            continue
        for loop, _ in program.loops(*_RANGE):
            for each in loop.body:
                added = isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add)
                if not added or dotted(each.target) != name:  # type: ignore[attr-defined]
                    continue
                assert isinstance(each, ast.AugAssign)
                lost, term, more = f"{name}_lost", f"{name}_term", f"{name}_next"
                lines = (
                    f"{term} = ({program.segment(each.value)}) - {lost}",
                    f"{more} = {name} + {term}",
                    f"{lost} = ({more} - {name}) - {term}",
                    f"{name} = {more}",
                )
                pad = "\n" + " " * each.col_offset
                edits = (program.after(node, f"{lost} = {zeros}"),
                         program.replace(each, pad.join(lines)))  # fmt: skip
                yield Site(edits, (each.lineno,), causes, f"{name} with a correction")


def counted(program: Program) -> Iterator[Site]:
    """Count the iterations of all programs in one number."""
    causes = ("atomic-traffic", "serial-work", "late-warps", "long-end", "shallow-pipeline")
    device = _on_device(program)
    if not device or not _free(program, "visit_ptr"):
        return
    loops: list[ast.For | ast.While] = [loop for loop, _ in program.loops(*_RANGE)]
    loops += [node for node in ast.walk(program.body) if isinstance(node, ast.While)]
    for loop in loops:
        given = f"torch.zeros((1,), device={device}, dtype=torch.int32)"
        edits = (program.before(loop.body[0], "tl.atomic_add(visit_ptr, 1)"),
                 *_appended(program, "visit_ptr", given))  # fmt: skip
        yield Site(edits, (loop.lineno,), causes, "iterations counted")


# -- launches


def _by_ticket(program: Program) -> Iterator[Site]:
    """Let each program take its number from a counter in memory."""
    causes = ("atomic-traffic", "serial-work", "late-warps", "long-end")
    device, held = _on_device(program), _launch(program)
    if not device or not _free(program, "ticket", "ticket_ptr"):
        return
    assert held is not None
    count, edits = len(held[1].elts), []
    if count > 2:
        return
    texts = ["ticket"] if count == 1 else ["ticket % tl.num_programs(0)",
                                           "ticket // tl.num_programs(0)"]  # fmt: skip
    for call in program.calls("tl.program_id"):
        axis = call.args[0] if call.args else _argument(call, "axis")
        if not isinstance(axis, ast.Constant) or axis.value not in (0, 1)[:count]:
            return
        edits.append(program.replace(call, f"({texts[1 if axis.value else 0]})"))
    if edits:
        first = program.body.body[0]
        given = f"torch.zeros((1,), device={device}, dtype=torch.int32)"
        edits += [program.before(first, "ticket = tl.atomic_add(ticket_ptr, 1)"),
                  *_appended(program, "ticket_ptr", given)]  # fmt: skip
        yield Site(tuple(edits), _lines(program)[:1], causes, "numbers of programs by a counter")


def _by_address(program: Program) -> Iterator[Site]:
    """Load where a tensor begins from a table, as kernels for groups of tensors do."""
    causes = ("narrow-access", "scattered-access", "synchronous-copy", "shallow-pipeline",
              "redundant-traffic")  # fmt: skip
    if not _free(program, "table_ptr") or "import torch" not in program.text:
        return
    for given, pointer in _inputs(program):
        if pointer in _bound_in(program.body):
            continue
        text = program.segment(given)
        table = (f"torch.full((1,), {text}.data_ptr(), device={text}.device, "
                 "dtype=torch.int64)")  # fmt: skip
        first = program.body.body[0]
        load = f"{pointer} = tl.load(table_ptr).to({pointer}.dtype)"
        edits = (program.before(first, load), *_appended(program, "table_ptr", table))
        yield Site(edits, _reads(program, pointer), causes, f"{pointer} from a table")


# -- loops


def _never_left(program: Program) -> Iterator[Site]:
    """Let a loop go on where nothing is left to do."""
    causes = ("masked-work", "redundant-arithmetic", "redundant-traffic", "serial-work")
    for node in ast.walk(program.body):
        if not isinstance(node, ast.While) or not isinstance(node.test, ast.BinOp):
            continue
        sides = (node.test.left, node.test.right)
        for kept, dropped in (sides, sides[::-1]):
            asks = [call for call in program.calls(*_REDUCTIONS, inside=dropped)]
            if isinstance(kept, ast.Compare) and asks and isinstance(node.test.op, ast.BitAnd):
                edit = program.replace(node.test, program.segment(kept))
                yield Site((edit,), (node.lineno,), causes, "a loop that is never left early")
                break


def _checked(program: Program) -> Iterator[Site]:
    """Ask of each block in a loop whether any of its elements are there."""
    causes = ("shallow-pipeline", "synchronous-copy", "early-reduction", "late-warps",
              "redundant-arithmetic", "serial-work")  # fmt: skip
    for loop, _ in program.loops(*_RANGE):
        bound = {name: (at, each) for at, each in enumerate(loop.body)
                 for name in _bound_in(each) if isinstance(each, ast.Assign)}  # fmt: skip
        for call in program.calls("tl.load", inside=loop):
            mask = _argument(call, "mask")
            if mask is None or program.statement(call) not in loop.body:
                continue
            if not _of_places(program, mask, loop):
                continue
            begin = max((bound[name][0] + 1 for name in _names(mask) if name in bound), default=0)
            if loop.body.index(program.statement(call)) < begin:
                continue
            head = f"if tl.max(({program.segment(mask)}).to(tl.int32)) > 0:"
            yield Site(_wrapped(program, loop.body[begin:], head), (loop.lineno, call.lineno),
                       causes, "blocks checked")  # fmt: skip
            break


def _of_places(program: Program, mask: ast.expr, loop: ast.For) -> bool:
    """Whether a mask compares places with extents, as those of which every block has some."""
    known = dict(_assignments(program))
    held, parts = [mask], []
    while held:
        node = held.pop()
        parts.append(node)
        if len(parts) > 40:
            return False
        held += [known[name].value for name in _names(node) if name in known
                 and isinstance(known[name].value, ast.Compare | ast.BinOp)]  # fmt: skip
    text = " ".join(map(program.segment, parts))
    calls = {dotted(each.func) for part in parts for each in ast.walk(part)
             if isinstance(each, ast.Call)}  # fmt: skip
    return "<" in text and calls <= {"tl.arange", "tl.program_id"}


def _wrapped(program: Program, block: list[ast.stmt], head: str) -> tuple[Edit, ...]:
    """Put statements that follow each other below a head, one step further in."""
    text, edits = program.text, []
    pad = " " * block[0].col_offset
    start, end = program.span(block[0])[0] - len(pad), program.span(block[-1])[1]
    at = start
    while at < end:
        edits.append(Edit(at, at, f"{pad}{head}\n    " if at == start else "    "))
        at = text.index("\n", at) + 1
    return tuple(edits)


_TRITON = frozenset(("triton",))
OPERATORS: tuple[Operator, ...] = (
    Operator("take-ticket", "defect", _TRITON, _by_ticket, "Programs wait for one counter."),
    Operator("address-table", "defect", _TRITON, _by_address, "Accesses of single elements."),
    Operator("forget-exit", "defect", _TRITON, _never_left, "Iterations without work."),
    Operator("check-block", "defect", _TRITON, _checked, "Loads wait for a branch."),
)  # fmt: skip
