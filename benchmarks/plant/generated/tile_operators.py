"""Operators on tile kernels: types, copies, loops, layouts, products."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .operators import Operator, Site, launch_lines
from .programs import Program, dotted, once, walk

__all__ = ["TILE"]

_NARROW = ("T.bfloat16", "T.float16", "T.int8", "T.uint8", "T.float8_e4m3")
_ALLOC = ("T.alloc_shared", "T.alloc_fragment")
_LOOPS = ("T.Pipelined", "T.serial")


def _buffers(program: Program) -> Iterator[tuple[str, ast.Call]]:
    """Yield the names of buffers with the calls that allocate them."""
    for call in program.calls(*_ALLOC):
        parent = program.parents[call]
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            yield parent.targets[0].id, call


@once
def _tensors(program: Program) -> set[str]:
    """Return names of tensors in global memory: annotated ones, and results."""
    found = set()
    for node in walk(program.body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and dotted(node.value.func) == "T.empty"
            and isinstance(node.targets[0], ast.Name)
        ):
            found.add(node.targets[0].id)
    return found


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _accesses(program: Program, loop: ast.AST) -> list[int]:
    """Return lines in a loop that index tensors in global memory."""
    tensors = _tensors(program)
    return sorted({
        node.lineno for node in walk(loop)
        if isinstance(node, ast.Subscript) and dotted(node.value) in tensors
    })  # fmt: skip


def _widened(program: Program) -> Iterator[Site]:
    operands = {
        name for call in program.calls("T.gemm") for arg in call.args for name in _names(arg)
    }
    causes = ("low-occupancy", "synchronous-copy", "layout-change", "bank-conflict", "spill",
              "redundant-traffic", "shallow-pipeline")  # fmt: skip
    for name, call in _buffers(program):
        if name in operands or len(call.args) < 2 or dotted(call.args[1]) not in _NARROW:
            continue
        edit = program.replace(call.args[1], "T.float32")
        yield Site((edit,), tuple(program.uses(name)), causes, f"{name} of float32")


def _narrowed(program: Program) -> Iterator[Site]:
    for loop, call in program.loops("T.Parallel"):
        lines = _accesses(program, loop)
        if lines and not call.keywords:
            end = program.span(call)[1] - 1
            edit = program.replace(
                call, f"{program.text[program.span(call)[0] : end]}, coalesced_width=1)"
            )
            yield Site((edit,), tuple(lines), ("narrow-access",), "an element at a time")


def _synchronous(program: Program) -> Iterator[Site]:
    causes = ("synchronous-copy", "shallow-pipeline")
    for call in program.calls("T.copy"):
        if program.turns(call, *_LOOPS) and _loads(program, call) and not call.keywords:
            edit = program.replace(
                call, f'{program.segment(call)[:-1]}, prefer_instruction="sync")'
            )
            yield Site((edit,), (), causes, f"{program.segment(call.args[1])} by loads and stores")


def _loads(program: Program, call: ast.Call) -> bool:
    """Whether a copy reads global memory."""
    return bool(_names(call.args[0]) & _tensors(program)) and len(call.args) == 2


def _stores(program: Program, call: ast.Call) -> bool:
    return len(call.args) == 2 and dotted_base(call.args[1]) in _tensors(program)


def dotted_base(node: ast.expr) -> str:
    """Return the name of what is indexed."""
    return dotted(node.value) if isinstance(node, ast.Subscript) else dotted(node)


def _double(program: Program) -> Iterator[Site]:
    """Take one factor of a product in float64."""
    for loop, call in program.loops("T.Parallel"):
        others = list(program.calls("T.Parallel"))[1:]
        if others and len(call.args) == 1 and not program.turns(loop, *_LOOPS):
            continue  # once a row: a decoy
        for node in walk(loop):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
                for side in (node.left, node.right):
                    if isinstance(side, ast.Subscript):
                        edit = program.replace(side, f"T.cast({program.segment(side)}, T.float64)")
                        yield Site((edit,), (), ("slow-arithmetic",), "a factor of float64")


def _power(program: Program) -> Iterator[Site]:
    for call in program.calls("T.exp2", "T.__exp2", "T.exp"):
        base = "2.0" if dotted(call.func) != "T.exp" else "2.718281828459045"
        edit = program.replace(call, f"T.pow({base}, {program.segment(call.args[0])})")
        yield Site((edit,), (), ("slow-arithmetic",), "a power in place of an exponential")


def _again(program: Program) -> Iterator[Site]:
    causes = ("redundant-traffic", "shallow-pipeline", "synchronous-copy")
    for call in program.calls("T.copy"):
        if _loads(program, call):
            statement = program.statement(call)
            edit = program.after(statement, program.segment(statement))
            yield Site((edit,), (call.lineno,), causes, f"{program.segment(call.args[1])} twice")


def _sunk(program: Program) -> Iterator[Site]:
    """Copy in each iteration what a loop does not change."""
    causes = ("redundant-traffic", "synchronous-copy", "shallow-pipeline", "redundant-arithmetic")
    for loop, _ in program.loops(*_LOOPS):
        for statement in program.siblings(loop):
            if statement.lineno >= loop.lineno or not isinstance(statement, ast.Expr):
                continue
            call = statement.value
            if (
                isinstance(call, ast.Call)
                and dotted(call.func) == "T.copy"
                and _loads(program, call)
            ):
                edit = program.before(loop.body[0], program.segment(statement))
                yield Site((edit,), (loop.lineno,), causes, f"{program.segment(call.args[1])} "
                           "in each iteration")  # fmt: skip


def _serial(program: Program) -> Iterator[Site]:
    """Let one axis of a parallel loop be walked one after the other."""
    causes = ("idle-lanes", "serial-work", "late-warps", "narrow-access", "scattered-access",
              "masked-work", "shallow-pipeline", "layout-change")  # fmt: skip
    for loop, call in program.loops("T.Parallel"):
        if len(call.args) != 2 or not isinstance(loop.target, ast.Tuple) or call.keywords:
            continue
        (one, other), (a, b) = (
            map(program.segment, loop.target.elts),
            map(program.segment, call.args),
        )
        for heads in (
            (f"for {one} in T.serial({a}):", f"for {other} in T.Parallel({b}):"),
            (f"for {other} in T.serial({b}):", f"for {one} in T.Parallel({a}):"),
        ):
            yield Site(tuple(program.deeper(loop, heads)), program.lines(loop), causes,
                       f"{heads[0].split()[1]} in series")  # fmt: skip


def _turned(program: Program) -> Iterator[Site]:
    """Let neighbouring threads walk the other axis."""
    causes = ("scattered-access", "narrow-access", "bank-conflict", "layout-change",
              "redundant-traffic")  # fmt: skip
    for loop, call in program.loops("T.Parallel"):
        if len(call.args) == 2 and isinstance(loop.target, ast.Tuple):
            one, other = loop.target.elts
            edits = (
                program.replace(one, program.segment(other)),
                program.replace(other, program.segment(one)),
                program.replace(call.args[0], program.segment(call.args[1])),
                program.replace(call.args[1], program.segment(call.args[0])),
            )
            body = tuple(each.lineno for each in loop.body)
            yield Site(edits, body, causes, "axes of a loop exchanged")


def _by_hand(program: Program) -> Iterator[Site]:
    """Write a product as loops."""
    shapes = {
        name: list(map(program.segment, call.args[0].elts)) for name, call in _buffers(program)
        if isinstance(call.args[0], ast.Tuple)
    }  # fmt: skip
    for call in program.calls("T.gemm"):
        flags = {each.arg: dotted(each.value) or program.segment(each.value)
                 for each in call.keywords if each.arg}  # fmt: skip
        names = [dotted(arg) for arg in call.args[:3]]
        if len(names) != 3 or not set(names) <= set(shapes) or set(flags) - {
            "transpose_A", "transpose_B", "clear_accum", "policy"
        }:  # fmt: skip
            continue
        a, b, c = names
        if len(shapes[c]) != 2 or len(shapes[a]) != 2:
            continue
        (rows, columns), depth = (
            shapes[c],
            shapes[a][0 if flags.get("transpose_A") == "True" else 1],
        )
        left = f"{a}[d, r]" if flags.get("transpose_A") == "True" else f"{a}[r, d]"
        right = f"{b}[c, d]" if flags.get("transpose_B") == "True" else f"{b}[d, c]"
        kind = "T.int32" if any(
            n == c and dotted(k.args[1]) == "T.int32" for n, k in _buffers(program)
        ) else "T.float32"  # fmt: skip
        lines = [f"T.clear({c})"] if flags.get("clear_accum") == "True" else []
        lines += [
            f"for d in T.serial({depth}):",
            f"    for r, c in T.Parallel({rows}, {columns}):",
            f"        {c}[r, c] += T.cast({left}, {kind}) * T.cast({right}, {kind})",
        ]
        pad = " " * program.statement(call).col_offset
        edit = program.replace(call, f"\n{pad}".join(lines))
        yield Site(
            (edit,), (call.lineno,), ("no-tensor-core", "redundant-arithmetic"), f"{c} by hand"
        )


def _unrolled(program: Program) -> Iterator[Site]:
    for _loop, call in program.loops("T.serial"):
        edit = program.replace(call.func, "T.unroll")
        yield Site((edit,), (call.lineno,), ("bulky-code", "spill", "low-occupancy"), "unrolled")


def _flat(program: Program) -> Iterator[Site]:
    """Lay a shared tile in rows, where the compiler would pad or swizzle it."""
    causes = ("bank-conflict", "synchronous-copy", "layout-change", "no-tensor-core")
    for name, call in _buffers(program):
        if dotted(call.func) == "T.alloc_shared" and isinstance(call.args[0], ast.Tuple):
            sizes = [program.segment(each) for each in call.args[0].elts]
            if len(sizes) == 2 and len(call.args) == 2:
                flat = " * ".join(f"({each})" for each in sizes)
                made = f"T.alloc_shared(({flat},), {program.segment(call.args[1])})"
                edit = program.replace(call, f"T.reshape({made}, ({', '.join(sizes)}))")
                yield Site((edit,), tuple(program.uses(name)), causes, f"{name} in rows")


def _stored(program: Program) -> Iterator[Site]:
    """Write a result in each iteration, of which the last one is right."""
    causes = ("redundant-traffic", "long-end", "shallow-pipeline", "serial-work")
    for loop, _ in program.loops(*_LOOPS):
        for statement in program.siblings(loop):
            if statement.lineno <= loop.lineno or not isinstance(statement, ast.Expr):
                continue
            call = statement.value
            if (
                isinstance(call, ast.Call)
                and dotted(call.func) == "T.copy"
                and _stores(program, call)
            ):
                edit = program.after(loop.body[-1], program.segment(statement))
                yield Site((edit,), (loop.lineno,), causes, "stored in each iteration")


def _repeated(program: Program) -> Iterator[Site]:
    """Do what a loop does several times; only loops that read nothing that they write."""
    causes = ("redundant-arithmetic", "slow-arithmetic", "redundant-traffic", "serial-work")
    for loop, _ in program.loops("T.Parallel"):
        targets, read = set(), set()
        plain = all(isinstance(each, ast.Assign) for each in loop.body)
        for each in loop.body:
            if isinstance(each, ast.Assign):
                read |= _names(each.value)
                if isinstance(each.targets[0], ast.Subscript):
                    targets.add(dotted(each.targets[0].value))
        if plain and targets and not targets & read:
            head = program.text[slice(*program.span(loop))].split("\n")[0]
            if head.endswith(":"):
                edits = program.deeper(loop, ("for _ in T.serial(4):", head))
                yield Site(tuple(edits), program.lines(loop), causes, "four times over")


def _unpipelined(program: Program) -> Iterator[Site]:
    """Load and compute one after the other."""
    causes = ("shallow-pipeline", "synchronous-copy", "serial-products")
    for _loop, call in program.loops("T.Pipelined"):
        edit = program.replace(call, f"T.serial({program.segment(call.args[0])})")
        yield Site((edit,), launch_lines(program), causes, "a serial loop")


_TILE = frozenset(("tile",))
TILE: tuple[Operator, ...] = (
    Operator("widen-buffer", "defect", _TILE, _widened, "More bytes, and conversions."),
    Operator("narrow-access", "defect", _TILE, _narrowed, "Many small requests."),
    Operator("copy-in-step", "defect", _TILE, _synchronous, "Warps wait for each copy."),
    Operator("double-factor", "defect", _TILE, _double, "Conversions and products of float64."),
    Operator("slow-power", "defect", _TILE, _power, "Some 60 instructions."),
    Operator("read-twice", "defect", _TILE, _again, "The same bytes again."),
    Operator("sink-copy", "defect", _TILE, _sunk, "The same bytes in each iteration."),
    Operator("serialise-axis", "defect", _TILE, _serial, "Threads without work."),
    Operator("turn-loop", "defect", _TILE, _turned, "A sector for each element."),
    Operator("hand-product", "defect", _TILE, _by_hand, "No matrix unit."),
    Operator("unroll-loop", "defect", _TILE, _unrolled, "Code that caches do not hold."),
    Operator("flatten-buffer", "defect", _TILE, _flat, "Threads meet in a bank."),
    Operator("sink-store", "defect", _TILE, _stored, "Results that nobody reads."),
    Operator("repeat-loop", "defect", _TILE, _repeated, "Arithmetic that was done."),
    Operator("drop-pipeline", "defect", _TILE, _unpipelined, "Loads are waited for."),
)  # fmt: skip
