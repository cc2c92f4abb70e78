"""Operators on Triton kernels that came after the third test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They pass lists of wide or needless
indices, check and keep what nobody asks for, let programs that share data run far apart, hide from
the compiler what is aligned, and multiply, divide and add in costlier ways.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from plant.generated.later.triton_operators import (
    _inputs,
    _launch,
    _program_ids,
    _results,
    _size,
)
from plant.generated.operators import Operator, Site
from plant.generated.programs import Edit, Program, dotted, walk
from plant.generated.triton_orders import _argument, _indices, _lines, _names

__all__ = ["DECOYS", "OPERATORS", "atomic_each", "longest_row"]

_RANGE = ("range", "tl.range")
_ACCESSES = ("tl.load", "tl.store", "tl.atomic_add")


def _appended(program: Program, parameter: str, given: str) -> tuple[Edit, ...]:
    """Give the kernel one more argument, which its launch passes last."""
    held = _launch(program)
    assert held is not None
    place = program.span(program.body.args.args[-1])[1]
    behind = program.span(held[0].args[-1])[1]
    return Edit(place, place, f", {parameter}"), Edit(behind, behind, f", {given}")


def _free(program: Program, *names: str) -> bool:
    """Whether a program launches once and has none of these names."""
    taken = _names(program.tree) | {each.arg for each in program.body.args.args}
    held = _launch(program)
    return held is not None and bool(held[0].args) and not taken & set(names)


def _assignments(program: Program) -> Iterator[tuple[str, ast.Assign]]:
    """Yield assignments of the kernel to one name."""
    for node in walk(program.body):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node


def _bound_in(node: ast.AST) -> set[str]:
    return {
        each.id for each in walk(node)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }  # fmt: skip


def _reads(program: Program, name: str) -> tuple[int, ...]:
    """Return lines that load by a pointer."""
    return tuple(call.lineno for call in program.calls("tl.load") if name in _names(call.args[0]))


# -- around the kernel


def _long_indices(program: Program) -> Iterator[Site]:
    """Pass indices as whole numbers of 64 bits."""
    causes = ("redundant-traffic", "needless-pass", "wide-arithmetic")
    used = {name for call in program.calls(*_ACCESSES) for name in _names(call.args[0])}
    for given, pointer in _inputs(program):
        held = {
            name for name, node in _assignments(program)
            if isinstance(node.value, ast.Call) and dotted(node.value.func) == "tl.load"
            and pointer in _names(node.value.args[0])
        }  # fmt: skip
        held |= {
            name for loop, call in program.loops(*_RANGE) if held & _names(call)
            for name in _names(loop.target)
        }  # fmt: skip
        if held & used:
            edit = program.replace(given, f"{program.segment(given)}.long()")
            yield Site((edit,), _reads(program, pointer), causes, f"{pointer} of 64 bits")


def _checked(program: Program) -> Iterator[Site]:
    """Look for numbers that are none before each launch, as a check that was left in."""
    causes = ("redundant-traffic", "needless-pass", "many-launches")
    if "import torch" not in program.text:
        return
    first = program.function(program.entry).body[0]
    for given, pointer in list(_inputs(program))[:2]:
        edit = program.before(first, f"assert not torch.isnan({program.segment(given)}).any()")
        yield Site((edit,), _reads(program, pointer), causes, f"{pointer} checked before")


def _unaligned(program: Program) -> Iterator[Site]:
    """Let a result begin one element behind where memory begins."""
    causes = ("narrow-access", "scattered-access", "redundant-traffic")
    for made, _ in _results(program):
        if dotted(made.func) == "torch.empty_like":
            like = program.segment(made.args[0])
            text = f"torch.empty({like}.numel() + 1, device={like}.device, dtype={like}.dtype)"
            shape = f"{like}.shape"
        elif isinstance(made.args[0], ast.Tuple):
            shape = program.segment(made.args[0])
            count = " * ".join(f"({program.segment(each)})" for each in made.args[0].elts)
            more = "".join(f", {program.segment(each)}" for each in made.keywords)
            text = f"torch.empty({count} + 1{more})"
        else:
            continue
        edit = program.replace(made, f"{text}[1:].view({shape})")
        stores = tuple(call.lineno for call in program.calls("tl.store"))
        yield Site((edit,), stores, causes, "a result that is not aligned")


def _kept(program: Program) -> Iterator[Site]:
    """Write what was loaded to memory that nobody reads, as when a kernel was debugged."""
    causes = ("redundant-traffic", "long-end", "narrow-access")
    if not _free(program, "kept", "kept_ptr") or "import torch" not in program.text:
        return
    given = {pointer: place for place, pointer in _inputs(program)}
    launch = _launch(program)
    assert launch is not None
    for name, node in _assignments(program):
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            call = call.func.value if call.func.attr == "to" else call
        if not isinstance(call, ast.Call) or dotted(call.func) != "tl.load":
            continue
        (pointer, *others) = sorted(_names(call.args[0]) & set(given)) or [""]
        if not pointer or others or pointer in _bound_in(program.body):
            continue
        place = re.sub(rf"\b{pointer}\b", "kept_ptr", program.segment(call.args[0]))
        mask = _argument(call, "mask")
        more = f", mask={program.segment(mask)}" if mask is not None else ""
        like = program.segment(given[pointer])
        edits = (
            program.after(node, f"tl.store({place}, {name}{more})"),
            program.before(program.statement(launch[0]), f"kept = torch.empty_like({like})"),
            *_appended(program, "kept_ptr", "kept"),
        )
        yield Site(edits, (node.lineno,), causes, f"{name} kept in memory")


# -- which program does what


def _by_list(program: Program) -> Iterator[Site]:
    """Take a program's elements from a list of all of them, which is in order."""
    causes = ("scattered-access", "narrow-access", "redundant-traffic", "needless-pass",
              "synchronous-copy", "shallow-pipeline")  # fmt: skip
    held = _launch(program)
    if not _free(program, "order_ptr") or "import torch" not in program.text:
        return
    assert held is not None
    launch, grid = held
    passed = {
        each.arg: program.segment(value)
        for each, value in zip(program.body.args.args, launch.args)
    }  # fmt: skip
    if not isinstance(launch.args[0], ast.Name):
        return
    for name, node in _assignments(program):
        found = re.fullmatch(r"tl\.program_id\((\d)\) \* (\w+) \+ tl\.arange\(0, (\w+)\)",
                             program.segment(node.value))  # fmt: skip
        if found is None or found[2] != found[3] or int(found[1]) >= len(grid.elts):
            continue
        size = passed.get(found[2], found[2])
        count = f"({program.segment(grid.elts[int(found[1])])}) * {size}"
        given = (f"torch.arange({count}, device={launch.args[0].id}.device, "
                 "dtype=torch.int32)")  # fmt: skip
        edits = (
            program.after(node, f"{name} = tl.load(order_ptr + {name})"),
            *_appended(program, "order_ptr", given),
        )
        yield Site(edits, (*program.uses(name), node.lineno), causes, f"{name} from a list")


def _far_apart(program: Program) -> Iterator[Site]:
    """Let programs that run at a time be those that share least: every sixteenth of the axis."""
    causes = ("block-order", "redundant-traffic")
    held, calls = _launch(program), _program_ids(program)
    shares = held is not None and (len(held[1].elts) > 1 or bool(list(program.calls("tl.dot"))))
    if not shares or not calls or list(program.calls("tl.num_programs")):
        return
    if not _free(program, "program", "sixteenth"):
        return
    lines = (
        "program = tl.program_id(0)",
        "sixteenth = tl.num_programs(0) // 16",
        "if tl.num_programs(0) % 16 == 0:",
        "    program = program % 16 * sixteenth + program // 16",
    )
    edits = (
        program.before(program.body.body[0], "\n".join(lines)),
        *(program.replace(call, "program") for call in calls),
    )
    yield Site(edits, _lines(program), causes, "programs far apart")


def longest_row(program: Program) -> Iterator[Site]:
    """Let each row's loop go on as long as that of the longest row."""
    causes = ("masked-work", "redundant-traffic", "redundant-arithmetic")
    if not _free(program, "longest"):
        return
    loads = {
        name: node.value for name, node in _assignments(program)
        if isinstance(node.value, ast.Call) and dotted(node.value.func) == "tl.load"
    }  # fmt: skip
    given = {pointer: program.segment(place) for place, pointer in _inputs(program)}
    for loop, call in program.loops(*_RANGE):
        if len(call.args) != 3 or not isinstance(call.args[1], ast.Name):
            continue
        first, end = call.args[0], loads.get(call.args[1].id)
        pointer = next(iter(_names(end.args[0]) & set(given)), "") if end else ""
        if end is None or not pointer or not _ends_by_mask(program, loop, call.args[1].id):
            continue
        begin = loads.get(dotted(first))
        if program.segment(first) == "0":
            most, limit = f"int({given[pointer]}.max())", "longest"
        elif begin and program.segment(end) == f"{program.segment(begin)[:-1]} + 1)":
            ends = given[pointer]
            most = f"int(({ends}[1:] - {ends}[:-1]).max())"
            limit = f"{program.segment(first)} + longest"
        else:
            continue
        edits = (program.replace(call.args[1], limit), *_appended(program, "longest", most))
        yield Site(edits, (loop.lineno,), causes, f"line {loop.lineno} as long as any")


def _ends_by_mask(program: Program, loop: ast.For, end: str) -> bool:
    """Whether all that a loop loads and stores is masked by its end."""
    known = {end}
    for name, node in _assignments(program):
        if node.lineno > loop.lineno and end in _names(node.value):
            known.add(name)
    masks = [_argument(call, "mask") for call in program.calls(*_ACCESSES, inside=loop)]
    return bool(masks) and all(mask is not None and _names(mask) & known for mask in masks)


# -- loads and stores


def _turned_store(program: Program) -> Iterator[Site]:
    """Transpose a tile, and store the transpose of its transpose."""
    causes = ("layout-change", "bank-conflict", "scattered-access", "narrow-access", "long-end")
    square = {name for name, node in _assignments(program)
              if "[:, None]" in program.segment(node.value)
              or "[None, :]" in program.segment(node.value)}  # fmt: skip
    for call in program.calls("tl.store"):
        place, value = map(program.segment, call.args[:2])
        mask = _argument(call, "mask")
        known = _names(call.args[0]) | (_names(mask) if mask is not None else set())
        if "[:, None]" not in place or "[None, :]" not in place or known & square:
            continue
        more = f", mask={_swapped(program.segment(mask))}" if mask is not None else ""
        text = f"tl.store({_swapped(place)}, tl.trans({value}){more})"
        yield Site((program.replace(call, text),), (call.lineno,), causes, "a tile stored turned")


def _swapped(text: str) -> str:
    """Return an expression with its two axes exchanged."""
    return (
        text.replace("[:, None]", "[=]")
        .replace("[None, :]", "[:, None]")
        .replace("[=]", "[None, :]")
    )


def _inclusive(program: Program) -> Iterator[Site]:
    """Compare with the last index, of which no compiler knows that it ends a vector."""
    causes = ("narrow-access", "synchronous-copy", "shallow-pipeline", "scattered-access")
    extents = {
        each.arg for each in program.body.args.args
        if each.arg.isupper() and each.annotation is None
    }  # fmt: skip
    indices = _indices(program)
    edits = []
    for node in walk(program.body):
        if (
            isinstance(node, ast.Compare)
            and len(node.ops) == 1
            and isinstance(node.ops[0], ast.Lt)
            and dotted(node.comparators[0]) in extents
            and _names(node.left) & indices
        ):
            text = f"{program.segment(node.left)} <= {dotted(node.comparators[0])} - 1"
            edits.append(program.replace(node, text))
    if edits:
        lines = tuple(call.lineno for call in program.calls(*_ACCESSES))
        yield Site(tuple(edits), lines, causes, "up to the last index")


# -- arithmetic


def _wide_product(program: Program) -> Iterator[Site]:
    """Multiply float32, though what was loaded has 16 bits."""
    causes = ("wide-arithmetic", "no-tensor-core", "layout-change", "bank-conflict", "spill",
              "low-occupancy", "shallow-pipeline", "synchronous-copy",
              "serial-products")  # fmt: skip
    if any("int32" in program.segment(call) for call in program.calls("tl.zeros")):
        return
    for call in program.calls("tl.dot"):
        if len(call.args) >= 2 and not call.keywords:
            edits = tuple(
                program.replace(each, f"({program.segment(each)}).to(tl.float32)")
                for each in call.args[:2]
            )
            yield Site(edits, (call.lineno,), causes, "a product of float32 by tf32")


def _precise(program: Program) -> Iterator[Site]:
    """Divide with the last bit right, element by element."""
    for node in walk(program.body):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        parts = program.segment(node.left), program.segment(node.right)
        statement = program.statement(node)
        scalar = isinstance(statement, ast.Assign) and "tl.sum" in program.segment(node.right)
        if isinstance(node.right, ast.Constant) or (scalar and parts[0][:1].isdigit()):
            continue
        edit = program.replace(node, f"tl.div_rn({parts[0]}, {parts[1]})")
        yield Site((edit,), (node.lineno,), ("slow-arithmetic",), "a precise division")


def atomic_each(program: Program) -> Iterator[Site]:
    """Add each element to memory, where the sum of all would do."""
    causes = ("atomic-traffic", "redundant-traffic", "long-end", "serial-work")
    size, indices = _size(program), _indices(program)
    sums = {
        name: node.value.args[0] for name, node in _assignments(program)
        if isinstance(node.value, ast.Call) and dotted(node.value.func) == "tl.sum"
        and program.segment(node.value).endswith(", 0)")
    }  # fmt: skip
    results = _results(program)
    for call in program.calls("tl.atomic_add", "tl.store"):
        name = dotted(call.args[1])
        known = _names(call.args[0]) & indices
        if size is None or name not in sums or known or call.keywords or "[:," in program.text:
            continue
        edits = []
        if dotted(call.func) == "tl.store":
            if len(results) != 1 or "float32" not in program.segment(results[0][0]):
                continue
            made = results[0][0]
            edits.append(program.replace(made.func, dotted(made.func).replace("empty", "zeros")))
        place = f"{program.segment(call.args[0])} + tl.zeros(({size},), dtype=tl.int32)"
        text = f"tl.atomic_add({place}, {program.segment(sums[name])})"
        edits.append(program.replace(call, text))
        yield Site(tuple(edits), (call.lineno,), causes, f"{name} element by element")


# -- what costs nothing


def _hoisted(program: Program) -> Iterator[Site]:
    """Compute in each iteration what the compiler takes out of the loop again."""
    for name, node in _assignments(program):
        text, block = program.segment(node), program.siblings(node)
        calls = [dotted(each.func) for each in walk(node.value) if isinstance(each, ast.Call)]
        if any(each in (*_ACCESSES, "tl.program_id") for each in calls) or "\n" in text:
            continue
        for loop in block[block.index(node) + 1 :]:
            if isinstance(loop, ast.For) and name in _names(loop):
                changed = _bound_in(loop)
                if name not in changed and not _names(node.value) & changed:
                    yield Site((program.before(loop.body[0], text),), (loop.lineno,),
                               ("redundant-arithmetic", "slow-arithmetic"),
                               f"{name} in each iteration")  # fmt: skip
                break


def _cast_again(program: Program) -> Iterator[Site]:
    """Convert what was loaded to float32 a second time."""
    for call in program.calls("tl.load"):
        around = program.parents[program.parents[call]]
        if isinstance(around, ast.Call) and program.segment(around).endswith(".to(tl.float32)"):
            edit = program.replace(around, f"{program.segment(around)}.to(tl.float32)")
            yield Site((edit,), (call.lineno,), ("redundant-arithmetic", "wide-arithmetic",
                       "slow-arithmetic"), "a conversion of float32")  # fmt: skip


def _dead_load(program: Program) -> Iterator[Site]:
    """Load what nobody uses; no compiler keeps such a load."""
    for name, node in _assignments(program):
        if isinstance(node.value, ast.Call) and dotted(node.value.func) == "tl.load":
            if "\n" in program.segment(node):
                continue
            edit = program.after(node, f"unused_{name} = {program.segment(node.value)}")
            yield Site((edit,), (node.lineno,), ("redundant-traffic",), f"{name} for nobody")


_TRITON = frozenset(("triton",))
OPERATORS: tuple[Operator, ...] = (
    Operator("long-list", "defect", _TRITON, _long_indices, "Indices of twice the bytes."),
    Operator("check-input", "defect", _TRITON, _checked, "All is read before it is used."),
    Operator("unaligned-result", "defect", _TRITON, _unaligned, "Stores of single elements."),
    Operator("debug-store", "defect", _TRITON, _kept, "Bytes that nobody reads."),
    Operator("gather-identity", "defect", _TRITON, _by_list, "Addresses that wait for a list."),
    Operator("scatter-programs", "defect", _TRITON, _far_apart, "Programs at a time share less."),
    Operator("turn-store", "defect", _TRITON, _turned_store, "A conversion before the store."),
    Operator("inclusive-mask", "defect", _TRITON, _inclusive, "Accesses of single elements."),
    Operator("widen-product", "defect", _TRITON, _wide_product, "Half the rate, twice the bytes."),
    Operator("precise-division", "defect", _TRITON, _precise, "A subroutine for each element."),
)  # fmt: skip
DECOYS: tuple[Operator, ...] = (
    Operator("sink-arithmetic", "decoy", _TRITON, _hoisted, "The compiler takes it out again."),
    Operator("cast-again", "decoy", _TRITON, _cast_again, "No instruction is left of it."),
    Operator("dead-load", "decoy", _TRITON, _dead_load, "Compiled to nothing."),
)  # fmt: skip
