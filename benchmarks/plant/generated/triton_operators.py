"""Operators on Triton kernels: loads, indices, products, barriers, launch options."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .operators import Operator, Site, launch_lines
from .programs import Program, dotted, walk

__all__ = ["TRITON"]

_RANGE = ("range", "tl.range")


def _load_lines(program: Program) -> tuple[int, ...]:
    return tuple(sorted({call.lineno for call in program.calls("tl.load", "tl.store")}))


def _loads(program: Program) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """Yield statements that do nothing but load."""
    for call in program.calls("tl.load"):
        parent = program.parents[call]
        if isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Name):
            yield parent, call


def _with(program: Program, call: ast.Call, keyword: str) -> str:
    """Return a call's text with one argument more."""
    held = program.segment(call)[:-1].rstrip()
    return f"{held.removesuffix(',')}, {keyword})"


def _again(program: Program) -> Iterator[Site]:
    causes = ("redundant-traffic", "narrow-access", "shallow-pipeline", "synchronous-copy")
    for statement, call in _loads(program):
        name = program.segment(statement.targets[0])
        again = _with(program, call, "volatile=True")
        edit = program.after(statement, f"{name} = tl.where({name} > 0, {name}, {again})")
        yield Site((edit,), (call.lineno,), causes, f"{name} twice")


def _uncached(program: Program) -> Iterator[Site]:
    causes = ("redundant-traffic", "narrow-access", "shallow-pipeline", "synchronous-copy",
              "scattered-access")  # fmt: skip
    for call in program.calls("tl.load"):
        edit = program.replace(call, _with(program, call, "volatile=True"))
        yield Site((edit,), (), causes, f"line {call.lineno} volatile")


def _unknown(program: Program) -> Iterator[Site]:
    """Keep from the compiler that numbers divide by 16."""
    causes = ("narrow-access", "synchronous-copy", "shallow-pipeline", "scattered-access")
    arguments = [
        each.arg for each in program.body.args.args
        if each.annotation is None and each.arg.isupper()
    ]  # fmt: skip
    head = program.body.decorator_list[0]
    if arguments and dotted(head) == "triton.jit":
        edit = program.replace(head, f"triton.jit(do_not_specialize={arguments!r})")
        yield Site((edit,), (*_load_lines(program), program.body.lineno), causes, "any extent")


def _divided(program: Program) -> Iterator[Site]:
    """Take an index apart and put it together by a number that only the launch knows."""
    causes = ("slow-arithmetic", "narrow-access", "scattered-access", "synchronous-copy",
              "shallow-pipeline")  # fmt: skip
    numbers = [each.arg for each in program.body.args.args if each.arg.isupper()
               and each.annotation is None]  # fmt: skip
    for call in program.calls("tl.arange"):
        statement = program.statement(call)
        if (
            numbers
            and isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
        ):
            name, by = statement.targets[0].id, numbers[0]
            edit = program.after(statement, f"{name} = {name} // {by} * {by} + {name} % {by}")
            yield Site((edit,), (*program.uses(name), call.lineno), causes, f"{name} by {by}")


def _ieee(program: Program) -> Iterator[Site]:
    for call in program.calls("tl.dot"):
        if len(call.args) >= 2 and not call.keywords:
            a, b, *more = map(program.segment, call.args)
            held = "".join(f", {each}" for each in more)
            edit = program.replace(
                call,
                f'tl.dot({a}.to(tl.float32), {b}.to(tl.float32){held}, input_precision="ieee")',
            )
            yield Site((edit,), (), ("no-tensor-core", "spill"), "a product of float32")


def _by_hand(program: Program) -> Iterator[Site]:
    for call in program.calls("tl.dot"):
        if len(call.args) >= 2 and not call.keywords:
            a, b, *more = map(program.segment, call.args)
            held = "".join(f"{each} + " for each in more)
            product = f"{a}.to(tl.float32)[:, :, None] * {b}.to(tl.float32)[None, :, :]"
            edit = program.replace(call, f"{held}tl.sum({product}, 1)")
            yield Site((edit,), (), ("no-tensor-core", "spill", "redundant-arithmetic",
                       "layout-change"), "a product by hand")  # fmt: skip


def _double(program: Program) -> Iterator[Site]:
    for call in program.calls("tl.exp", "tl.exp2", "tl.sqrt", "tl.rsqrt", "tl.log"):
        if "sum" in program.segment(call.args[0]) and not program.turns(call, *_RANGE):
            continue  # once a row: a decoy
        made = (
            f"{dotted(call.func)}(({program.segment(call.args[0])}).to(tl.float64)).to(tl.float32)"
        )
        yield Site(
            (program.replace(call, made),), (), ("slow-arithmetic",), "a function of float64"
        )


def _double_factor(program: Program) -> Iterator[Site]:
    for node in walk(program.body):
        if not isinstance(node, ast.Assign | ast.AugAssign):
            continue
        value = node.value
        if (
            isinstance(value, ast.BinOp)
            and isinstance(value.op, ast.Mult | ast.Div)
            and isinstance(value.left, ast.Name)
            and not value.left.id.isupper()
        ):
            edit = program.replace(
                value, f"({value.left.id}.to(tl.float64) {_SIGN[type(value.op)]} "
                f"({program.segment(value.right)})).to(tl.float32)",
            )  # fmt: skip
            yield Site((edit,), (), ("slow-arithmetic",), "a factor of float64")


_SIGN: dict[type[ast.operator], str] = {ast.Mult: "*", ast.Div: "/"}


def _exchanged(program: Program) -> Iterator[Site]:
    """Write by atomic exchanges, whose result is the same."""
    causes = ("atomic-traffic", "narrow-access", "long-end", "serial-work", "redundant-traffic")
    for call in program.calls("tl.store"):
        if any(kind in program.segment(call) for kind in ("16", "int8")):
            continue  # atomics are of 32 bits and more
        edit = program.replace(call.func, "tl.atomic_xchg")
        yield Site((edit,), (), causes, "stored by exchanges")


def _barriers(program: Program) -> Iterator[Site]:
    causes = ("serial-work", "late-warps", "shallow-pipeline", "synchronous-copy")
    for loop, _ in program.loops(*_RANGE):
        edit = program.after(loop.body[-1], "tl.debug_barrier()")
        yield Site((edit,), (loop.lineno,), causes, "a barrier in each iteration")


def _unrolled(program: Program) -> Iterator[Site]:
    known = {
        each.arg for each in program.body.args.args
        if each.annotation is not None and dotted(each.annotation) == "tl.constexpr"
    }  # fmt: skip
    for loop, call in program.loops("range"):
        names = {each.id for arg in call.args for each in walk(arg)
                 if isinstance(each, ast.Name)}  # fmt: skip
        if not names <= known:
            continue
        edit = program.replace(call.func, "tl.static_range")
        yield Site((edit,), (loop.lineno, *launch_lines(program)),
                   ("bulky-code", "spill", "shallow-pipeline"), "unrolled")  # fmt: skip


def _squeezed(program: Program) -> Iterator[Site]:
    for node in walk(program.function(program.entry)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript):
            # A product of a warp group needs 90.
            for most in (96, 112, 128) if list(program.calls("tl.dot")) else (24, 32, 40):
                edit = program.replace(node, _with(program, node, f"maxnreg={most}"))
                yield Site((edit,), (*launch_lines(program), *_load_lines(program)),
                           ("spill",), f"{most} registers")  # fmt: skip


def _turned(program: Program) -> Iterator[Site]:
    """Load the transpose of a tile, and transpose it."""
    causes = ("layout-change", "bank-conflict", "synchronous-copy", "shallow-pipeline",
              "scattered-access", "narrow-access")  # fmt: skip
    for call in program.calls("tl.load"):
        text = program.segment(call)
        if "[:, None]" in text and "[None, :]" in text:
            turned = text.replace("[:, None]", "[=]").replace("[None, :]", "[:, None]")
            made = f"tl.trans({turned.replace('[=]', '[None, :]')})"
            yield Site((program.replace(call, made),), (), causes, "a tile loaded turned")


def _sunk(program: Program) -> Iterator[Site]:
    """Load in each iteration what a loop does not change."""
    causes = ("redundant-traffic", "shallow-pipeline", "synchronous-copy", "narrow-access")
    for statement, call in _loads(program):
        for each in program.siblings(statement):
            if isinstance(each, ast.For) and each.lineno > statement.lineno:
                name = program.segment(statement.targets[0])
                made = f"{name} = {_with(program, call, 'volatile=True')}"
                edit = program.before(each.body[0], made)
                yield Site((edit,), (each.lineno,), causes, f"line {statement.lineno} in the loop")
                break


def _stored(program: Program) -> Iterator[Site]:
    """Write a result in each iteration, of which the last one is right.

    Where the result is made after the loop, what makes it goes into the loop, too; the sites that
    left it out are faults, whose numbers are in a split that has run.
    """
    causes = ("redundant-traffic", "long-end", "shallow-pipeline", "serial-work", "layout-change")
    held = []
    for call in program.calls("tl.store"):
        statement = program.statement(call)
        block = program.siblings(statement)
        for each in block:
            if isinstance(each, ast.For) and each.lineno < statement.lineno:
                between = block[block.index(each) + 1 : block.index(statement)]
                held.append((statement, each, between))
                break
    late = []
    for statement, loop, between in held:
        known = {
            each.id for each in walk(program.body) if isinstance(each, ast.Name)
            and isinstance(each.ctx, ast.Store) and each.lineno <= (loop.end_lineno or 0)
        }  # fmt: skip
        made = [each for each in between if (_assigned(each) - known) & _names(statement)]
        fault = f"{', '.join(sorted(set().union(*map(_assigned, made))))} after the loop"
        edit = program.after(loop.body[-1], program.segment(statement))
        yield Site((edit,), (loop.lineno,), causes, "stored in each iteration",
                   fault=fault if made else "")  # fmt: skip
        if made and all(isinstance(each, ast.Assign) for each in between):
            late.append((statement, loop, between))
    for statement, loop, between in late:
        carried = _names(loop)
        if any(_assigned(each) & carried for each in between):
            continue  # what the loop goes on with would be changed
        lines = "\n".join(program.segment(each) for each in (*between, statement))
        yield Site((program.after(loop.body[-1], lines),), (loop.lineno,), causes,
                   "made and stored in each iteration")  # fmt: skip


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _assigned(node: ast.stmt) -> set[str]:
    """Return the names that a statement assigns."""
    held = (each for each in walk(node) if isinstance(each, ast.Name))
    return {each.id for each in held if isinstance(each.ctx, ast.Store)}


def _passed_twice(program: Program) -> Iterator[Site]:
    """Run a loop over memory a second time, with the same sums at its end."""
    causes = ("redundant-traffic", "redundant-arithmetic")
    for loop, _ in program.loops(*_RANGE):
        sums = [each for each in program.siblings(loop) if each.lineno < loop.lineno
                and isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)
                and dotted(each.value.func) in ("tl.zeros", "tl.full")]  # fmt: skip
        head = program.text[slice(*program.span(loop))].split("\n")[0]
        if sums and head.endswith(":") and isinstance(program.parents[loop], ast.FunctionDef):
            again = [program.segment(each) for each in sums]
            edits = program.deeper(loop, ("for _again in range(2):", *again, head))
            yield Site(tuple(edits), program.lines(loop), causes, "a second pass")


_TRITON = frozenset(("triton",))
TRITON: tuple[Operator, ...] = (
    Operator("load-twice", "defect", _TRITON, _again, "The same bytes again."),
    Operator("volatile-load", "defect", _TRITON, _uncached, "No cache, no cp.async."),
    Operator("hide-divisor", "defect", _TRITON, _unknown, "Loads of single elements."),
    Operator("divide-index", "defect", _TRITON, _divided, "Divisions, and unknown strides."),
    Operator("ieee-product", "defect", _TRITON, _ieee, "No matrix unit."),
    Operator("sum-product", "defect", _TRITON, _by_hand, "No matrix unit, many registers."),
    Operator("double-function", "defect", _TRITON, _double, "Functions of float64."),
    Operator("double-term", "defect", _TRITON, _double_factor, "Arithmetic of float64."),
    Operator("exchange-store", "defect", _TRITON, _exchanged, "An atomic for each element."),
    Operator("barrier-each", "defect", _TRITON, _barriers, "Warps wait for each other."),
    Operator("unroll-range", "defect", _TRITON, _unrolled, "Code that caches do not hold."),
    Operator("squeeze-registers", "defect", _TRITON, _squeezed, "Spills."),
    Operator("turn-tile", "defect", _TRITON, _turned, "A conversion through shared memory."),
    Operator("sink-load", "defect", _TRITON, _sunk, "The same bytes in each iteration."),
    Operator("sink-result", "defect", _TRITON, _stored, "Results that nobody reads."),
    Operator("second-pass", "defect", _TRITON, _passed_twice, "The same bytes again."),
)  # fmt: skip
