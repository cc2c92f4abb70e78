"""Operators on Triton kernels that came after the seventh test split: what code reviews find.

In: a program.  Out: sites, as other operators have them. They load ahead by hand, multiply what
rounding left of operands that have no rest, keep two sums for one, scale each term by one, drop out
nothing, choose among functions of which one is wanted, walk rings that begin at 0, let programs
overlap by half, add rows to inputs, and count with whole numbers of 64 bits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from plant.generated.fifth.triton_operators import _terms
from plant.generated.fresh.triton_operators import _appended, _assignments, _bound_in, _free, _reads
from plant.generated.later.triton_operators import _inputs, _launch, _program_ids
from plant.generated.operators import Operator, Site
from plant.generated.programs import Edit, Program, dotted, walk
from plant.generated.seventh.triton_operators import _addition, _loads, _loops, _vectors
from plant.generated.sixth.triton_operators import _on_device
from plant.generated.triton_orders import _any_order, _argument, _lines, _names

__all__ = ["OPERATORS", "alternated", "folded", "prefetched", "promoted", "residual", "upside_down"]

_RANGE = ("range", "tl.range")


def _sums(program: Program) -> Iterator[tuple[ast.For, str, ast.stmt, str, ast.Assign, str]]:
    """Yield what loops add up: the loop, the number of an iteration, the statement that adds, the
    sum's name, where the sum begins, and what is added."""
    zeros = {name: node for name, node in _assignments(program)
             if isinstance(node.value, ast.Call) and dotted(node.value.func) == "tl.zeros"
             and "float32" in program.segment(node.value)}  # fmt: skip
    for loop, _, _, number in _loops(program):
        for node in loop.body:
            name, added = _addition(program, node)
            uses = [each for each in walk(loop) if isinstance(each, ast.Name) and each.id == name]
            alone = len(uses) == (2 if isinstance(node, ast.Assign) else 1)
            if name in zeros and alone:
                yield loop, number, node, name, zeros[name], added


# -- both languages: loops


def prefetched(program: Program) -> Iterator[Site]:
    """Load what the next iteration needs by hand, while this one's is used."""
    causes = ("shallow-pipeline", "synchronous-copy", "spill", "low-occupancy", "serial-products",
              "layout-change", "bank-conflict", "redundant-arithmetic")  # fmt: skip
    for loop, end, step, _ in _loops(program):
        assert isinstance(loop.target, ast.Name)
        name, before = loop.target.id, set[str]()
        prefix: list[ast.Assign] = []
        carried = _bound_in(loop) - {name}
        for node in loop.body[:-1]:
            plain = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if not plain or _names(node.value) & (carried - before):  # type: ignore[attr-defined]
                break
            assert isinstance(node, ast.Assign)
            before.add(dotted(node.targets[0]))
            prefix.append(node)
        loaded = [n for n in prefix if list(program.calls("tl.load", inside=n.value))]
        direct = [n for n in loaded if any(n is node for _, node, _ in _loads(program))]
        if not direct or len(direct) != len(loaded):
            continue
        prefix = prefix[: prefix.index(loaded[-1]) + 1]
        bound = {dotted(node.targets[0]) for node in prefix}
        if not _free(program, *(f"{each}_next" for each in (*bound, name))):
            continue
        lines = [re.sub(rf"\b({'|'.join(sorted(bound))})\b", r"\1_next", program.segment(node))
                 for node in prefix]  # fmt: skip
        first = [re.sub(rf"\b{name}\b", "0", each) for each in lines]
        last = f"({end} - 1) // ({step}) * ({step})" if step != "1" else f"{end} - 1"
        again = [f"{name}_next = tl.minimum({name} + {step}, {last})"]
        again += [re.sub(rf"\b{name}\b", f"{name}_next", each) for each in lines]
        edits = [program.before(loop, "\n".join(first)),
                 program.after(prefix[-1], "\n".join(again))]  # fmt: skip
        for node in loaded:
            edits.append(program.replace(node.value, f"{dotted(node.targets[0])}_next"))
        yield Site(tuple(edits), (loop.lineno,), causes, f"{name} loaded ahead by hand")


def alternated(program: Program) -> Iterator[Site]:
    """Add up even and odd iterations apart, in two sums that change places."""
    causes = ("low-occupancy", "spill", "redundant-arithmetic", "serial-products", "layout-change",
              "shallow-pipeline")  # fmt: skip
    for loop, _, node, name, begin, _ in _sums(program):
        other = f"{name}_other"
        if _free(program, other):
            edits = (
                program.after(begin, f"{other} = {program.segment(begin.value)}"),
                program.after(node, f"{name}, {other} = {other}, {name}"),
                program.after(loop, f"{name} = {name} + {other}"),
            )
            yield Site(edits, (node.lineno,), causes, f"{name} and {other} in turns")


def promoted(program: Program) -> Iterator[Site]:
    """Scale what each iteration adds by a number from memory, which is one."""
    causes = ("redundant-arithmetic", "serial-products", "shallow-pipeline", "synchronous-copy",
              "low-occupancy", "spill", "redundant-traffic", "late-warps")  # fmt: skip
    device = _on_device(program)
    if not device or not _free(program, "unit_ptr"):
        return
    given = f"torch.ones((64,), device={device}, dtype=torch.float32)"
    for _, number, node, name, _, added in _sums(program):
        text = f"{name} += ({added}) * tl.load(unit_ptr + ({number}) % 64)"
        edits = (program.replace(node, text), *_appended(program, "unit_ptr", given))
        yield Site(edits, (node.lineno,), causes, f"{name} by scales that are one")


# -- both languages: products


def residual(program: Program) -> Iterator[Site]:
    """Multiply as well what rounding to a narrow type leaves of an operand, which is nothing."""
    causes = ("redundant-arithmetic", "serial-products", "shallow-pipeline", "synchronous-copy",
              "layout-change", "bank-conflict", "spill", "low-occupancy",
              "late-warps")  # fmt: skip
    if not _free(program, "whole", "rest") or "int32" in "".join(
        program.segment(call) for call in program.calls("tl.dot", "tl.zeros")
    ):
        return
    for call in program.calls("tl.dot"):
        if len(call.args) < 2 or call.keywords:
            continue
        a, b, *more = map(program.segment, call.args)
        lines = (f"whole = {a}",
                 "wide = whole.to(tl.float32)",
                 "rest = (wide - wide.to(whole.dtype).to(tl.float32)).to(whole.dtype)")  # fmt: skip
        text = f"tl.dot(rest, {b}, tl.dot({', '.join(('whole', b, *more))}))"
        edits = (program.before(program.statement(call), "\n".join(lines)),
                 program.replace(call, text))  # fmt: skip
        yield Site(edits, (call.lineno,), causes, f"what is left of {a} multiplied")


# -- values


def _dropped(program: Program) -> Iterator[Site]:
    """Drop elements out with a chance of 0, as a layer in training would with another."""
    causes = ("redundant-arithmetic", "slow-arithmetic", "shallow-pipeline", "spill",
              "low-occupancy", "bulky-code", "synchronous-copy")  # fmt: skip
    if not _free(program, "chance"):
        return
    floats = not re.search(r"tl\.int|other=0\)", program.segment(program.body))
    for name, node, call in _loads(program):
        rest = _argument(call, "other")
        float_ = isinstance(rest, ast.Constant) and isinstance(rest.value, float)
        first, *others = _terms(call.args[0])
        if (
            not (float_ or (rest is None and floats))
            or not dotted(first).endswith("_ptr")
            or not others
        ):
            continue
        place = " + ".join(map(program.segment, others))
        line = (f"{name} = tl.where(tl.rand(17, ({place}).to(tl.int32)) >= chance, {name}, "
                f"tl.zeros_like({name}))")  # fmt: skip
        edits = (program.after(node, line), *_appended(program, "chance", "0.0"))
        yield Site(edits, (node.lineno,), causes, f"none of {name} dropped out")


def _chosen(program: Program) -> Iterator[Site]:
    """Compute three activations of a result, of which a number chooses the one that is wanted."""
    causes = ("slow-arithmetic", "redundant-arithmetic", "bulky-code", "spill", "low-occupancy")
    if not _free(program, "mode", "plain", "held"):
        return
    vectors = _vectors(program)
    found: list[tuple[str, ast.stmt, bool]] = [
        (program.segment(call.args[1]), program.statement(call), False)
        for call in program.calls("tl.store")
        if _names(call.args[1]) & vectors
    ]
    found += [(name, node, True) for name, node, call in _loads(program)
              if program.turns(node, *_RANGE)]  # fmt: skip
    for text, node, behind in found:
        lines = (f"plain = {text}",
                 "held = plain.to(tl.float32)",
                 "bent = tl.where(mode == 1, tl.exp(held), tl.where(mode == 2, tl.sin(held), "
                 "tl.sqrt(tl.abs(held))))")  # fmt: skip
        made = "tl.where(mode == 0, plain, bent.to(plain.dtype))"
        if behind:
            edits = [program.after(node, "\n".join((*lines, f"{text} = {made}")))]
        else:
            assert isinstance(node, ast.Expr)
            assert isinstance(node.value, ast.Call)
            edits = [program.before(node, "\n".join(lines)),
                     program.replace(node.value.args[1], made)]  # fmt: skip
        yield Site((*edits, *_appended(program, "mode", "0")), (node.lineno,), causes,
                   "three activations of which none is wanted")  # fmt: skip


def _long(program: Program) -> Iterator[Site]:
    """Take whole numbers of 32 bits and less as ones of 64."""
    causes = ("wide-arithmetic", "redundant-arithmetic", "slow-arithmetic", "spill",
              "low-occupancy", "layout-change")  # fmt: skip
    sums = [call for call in program.calls("tl.zeros", "tl.full")
            if "int32" in program.segment(call)]  # fmt: skip
    looped = bool(list(program.loops(*_RANGE)))
    for name, node, call in _loads(program):
        rest = _argument(call, "other")
        whole = isinstance(rest, ast.Constant) and isinstance(rest.value, int)
        if not whole or program.turns(node, *_RANGE) or (sums and looped):
            continue
        edit = program.after(node, f"{name} = {name}.to(tl.int64)")
        yield Site((edit,), (node.lineno, *program.uses(name)), causes, f"{name} of 64 bits")


# -- places


def _ringed(program: Program) -> Iterator[Site]:
    """Read a tensor as a ring whose first element is where a number in memory says: at 0."""
    causes = ("slow-arithmetic", "redundant-arithmetic", "narrow-access", "scattered-access",
              "synchronous-copy", "shallow-pipeline", "wide-arithmetic")  # fmt: skip
    device = _on_device(program)
    if not device or not _free(program, "head_ptr", "head"):
        return
    given = f"torch.zeros((1,), device={device}, dtype=torch.int32)"
    arguments = {each.arg for each in program.body.args.args if each.annotation is None}
    ends = {dotted(node.left): dotted(node.comparators[0]) for node in walk(program.body)
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt)
            and dotted(node.comparators[0]) in arguments}  # fmt: skip
    for _, node, call in _loads(program):
        if _argument(call, "mask") is None:
            continue
        for term in _terms(call.args[0]):
            end = ends.get(dotted(term), "") if dotted(term) in _vectors(program) else ""
            if end:
                edits = (
                    program.before(program.body.body[0], "head = tl.load(head_ptr)"),
                    program.replace(term, f"(({dotted(term)} + head) % {end})"),
                    *_appended(program, "head_ptr", given),
                )
                yield Site(edits, (node.lineno,), causes, f"a ring of {end}")


def _overlapping(program: Program) -> Iterator[Site]:
    """Let each program begin in the middle of the one before it, and do half of that again."""
    causes = ("redundant-arithmetic", "redundant-traffic", "masked-work")
    held, calls = _launch(program), _program_ids(program)
    if held is None or len(calls) != 1 or list(program.calls("tl.atomic_add", "tl.num_programs")):
        return
    node = program.statement(calls[0])
    place = program.segment(node.value) if isinstance(node, ast.Assign) else ""
    found = re.fullmatch(r"tl\.program_id\(0\) \* (\w+) \+ tl\.arange\(0, (\w+)\)", place)
    grid = held[1].elts[0]
    if found is None or found[1] != found[2]:
        return
    count = re.fullmatch(rf"triton\.cdiv\((.+), {found[1]}\)", program.segment(grid))
    if count is not None:
        edits = (
            program.replace(program.parents[calls[0]],
                            f"tl.program_id(0) * ({found[1]} // 2)"),
            program.replace(grid, f"triton.cdiv({count[1]}, {found[1]} // 2)"),
        )  # fmt: skip
        yield Site(edits, _lines(program), causes, "programs overlap by half")


def _longer(program: Program) -> Iterator[Site]:
    """Add a row to an input before the launch, which nothing reads."""
    causes = ("needless-pass", "redundant-traffic", "many-launches")
    if "import torch" not in program.text:
        return
    for given, pointer in list(_inputs(program))[:2]:
        name = program.segment(given)
        edit = program.replace(given, f"torch.cat(({name}, {name}[:1]))")
        yield Site((edit,), _reads(program, pointer), causes, f"a row behind {name}")


# -- decoys


def upside_down(program: Program) -> Iterator[Site]:
    """Add up from the last iteration to the first."""
    causes = ("shallow-pipeline", "block-order", "scattered-access", "redundant-arithmetic")
    for loop, end, step, _ in _loops(program):
        assert isinstance(loop.target, ast.Name)
        name = loop.target.id
        if not _any_order(loop) or not _free(program, f"{name}_up"):
            continue
        last = f"({end} - 1) // ({step}) * ({step})" if step != "1" else f"{end} - 1"
        edits = (program.replace(loop.target, f"{name}_up"),
                 program.before(loop.body[0], f"{name} = {last} - {name}_up"))  # fmt: skip
        yield Site(edits, (loop.lineno,), causes, f"{name} downwards")


def folded(program: Program) -> Iterator[Site]:
    """Number the programs of a grid of two axes by one, from which both are divided out."""
    causes = ("slow-arithmetic", "redundant-arithmetic", "block-order")
    held = _launch(program)
    if held is None or len(held[1].elts) != 2 or not _free(program, "across"):
        return
    if list(program.calls("tl.num_programs")):
        return
    across, down = map(program.segment, held[1].elts)
    begin, end = program.span(held[1].elts[0])[0], program.span(held[1].elts[1])[1]
    edits = [Edit(begin, end, f"({across}) * ({down}),"), *_appended(program, "across", across)]
    for call in program.calls("tl.program_id"):
        sign = "%" if program.segment(call.args[0]) == "0" else "//"
        edits.append(program.replace(call, f"(tl.program_id(0) {sign} across)"))
    yield Site(tuple(edits), _lines(program), causes, "one number for two axes of the grid")


_TRITON = frozenset(("triton",))
OPERATORS: tuple[Operator, ...] = (
    Operator("leave-dropout", "defect", _TRITON, _dropped, "A random number for each element."),
    Operator("select-mode", "defect", _TRITON, _chosen, "Functions that nobody asks for."),
    Operator("widen-integers", "defect", _TRITON, _long, "Two instructions for one."),
    Operator("ring-buffer", "defect", _TRITON, _ringed, "A division for each address."),
    Operator("overlap-programs", "defect", _TRITON, _overlapping, "Half of the work again."),
    Operator("append-row", "defect", _TRITON, _longer, "An input is copied for a row."),
)
