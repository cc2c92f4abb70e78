# mypy: ignore-errors
# ruff: noqa: ANN001, ANN002, ANN202, ANN201
"""Iterations that a mask does not change run without it: which these are, what is left of the mask,
and where it stays in all of them."""

import ast
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.cuda.emulated import Joined
from tests.spread import examples
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.peel.peel import peel
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.ir.schedule import LoopSchedule
from tileprof.remarks import Rejection
from tileprof.remarks.loops import ConditionNumber, WithoutMask
from tileprof.runtime.interpreter import InterpreterExecutable

ROWS, COLUMNS = 64, 16


def masked(keys=200, seen=None, begin=0, columns=COLUMNS, twice=False, added=False):
    """Sums of the products of 64 rows with those keys that `seen` allows, a tile in each iteration;
    it is told the block's first row, the row in the block, the key and the iteration, a number of
    the block and numbers of the iterations.  `twice`: summed from another fragment.
    `added`: products are added to what the mask gives."""

    @T.prim_func
    def main(
        Q: T.Tensor((128, 64), T.bfloat16),
        K: T.Tensor((keys, 64), T.bfloat16),
        Last: T.Tensor((2,), T.int32),
        Tiles: T.Tensor((64,), T.int32),
        Out: T.Tensor((128,), T.float32),
    ):
        with T.Kernel(2, threads=128) as bx:
            q = T.alloc_shared((ROWS, 64), T.bfloat16)
            tile = T.alloc_shared((columns, 64), T.bfloat16)
            s = T.alloc_fragment((ROWS, columns), T.float32)
            other = T.alloc_fragment((ROWS, columns), T.float32)
            total = T.alloc_fragment((ROWS,), T.float32)
            T.copy(Q[bx * ROWS, 0], q)
            T.clear(total)
            for k in T.Pipelined(begin, T.ceildiv(keys, columns), num_stages=2):
                T.copy(K[k * columns, 0], tile)
                if not added:
                    T.gemm(q, tile, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(ROWS, columns):
                    at = k * columns + j
                    kept = seen(bx * ROWS, i, at, k, Last[bx], Tiles)
                    s[i, j] = T.if_then_else(kept, 0 if added else s[i, j], -20_000.0)
                if added:
                    T.gemm(q, tile, s, transpose_B=True)
                if twice:
                    T.copy(s, other)
                T.reduce_sum(other if twice else s, total, dim=1, clear=False)
            T.copy(total, Out[bx * ROWS])

    return main


def lowered(function, target="sm_90a", controls=None):
    """The kernel, its form after `peel`, and what the compiler makes of it."""
    kernel = prove_bounds(simplify(tileprof.compile(function).traced))
    steps = {}
    program = compile_cuda(
        kernel, TARGETS[target], controls, observe=lambda n, k: steps.update({n: k})
    )
    ir.verify(steps["peel"])
    return kernel, steps["peel"], program


def has_mask(block):
    """Whether a choice is made in a block."""
    return any(isinstance(o, ir.If | ir.Select | ir.Compare) for o in ir.walk(block))


def loops(kernel):
    """Of each pipelined loop whether it has a mask."""
    found = [o for o in kernel.ops() if isinstance(o, ir.For) and o.kind == "pipelined"]
    return [has_mask(o.body) for o in found]


def said(program):
    """The remarks about loops."""
    return [
        (str(r.decision), *((str(e.candidate), str(e.reason)) for e in r.rejected))
        for r in program.remarks
        if r.op == "loop"
    ]


def causal(first, i, at, k, last, tiles):
    """As many keys as rows before it."""
    return at <= first + i


def window(first, i, at, k, last, tiles):
    """The last 100 of them."""
    return T.all_of(at <= first + i, at > first + i - 100)


def tail(first, i, at, k, last, tiles):
    """As many keys as there are."""
    return at < 200


def told(first, i, at, k, last, tiles):
    """As many as the tensor of the block says."""
    return at < last


def apart(first, i, at, k, last, tiles):
    """All but one: two ranges of iterations, one of which is taken."""
    return at != last


def listed(first, i, at, k, last, tiles):
    """By a number that each iteration reads."""
    return tiles[k] * COLUMNS + at % COLUMNS < 200


def modular(first, i, at, k, last, tiles):
    """Every other key, in each iteration."""
    return at % 2 == 0


def by_row(first, i, at, k, last, tiles):
    """All keys of some rows."""
    return first + i < last


CASES = {
    "causal": (causal, {"keys": 128}, [False, True]),
    "tail": (tail, {}, [False, True]),
    "no tail": (tail, {"keys": 192}, [False]),
    "window": (window, {"keys": 128}, [True, False, True]),
    "started later": (causal, {"keys": 128, "begin": 1}, [False, True]),
    "told": (told, {"keys": 128}, [False, True]),
    "apart": (apart, {"keys": 128}, [True, False]),
    "added": (causal, {"keys": 128, "added": True}, [False, True]),
    "by row": (by_row, {"keys": 128}, [False, True]),
}


def test_loops():
    """Which loops there are, and that they give what the one gives: waits, rings and all."""
    made = []
    for name, (seen, form, expected) in CASES.items():
        kernel, peeled, program = lowered(masked(seen=seen, **form))
        assert loops(peeled) == expected, name
        made.append((kernel, program))
    check(*made)


@pytest.mark.parametrize(("registers", "several"), [(88, True), (72, False)])
def test_several_loops_need_registers_beside_fragments(registers, several):
    """Each loop keeps addresses: with a few registers left, one loop has a branch."""
    _, peeled, _ = lowered(
        masked(keys=500, seen=causal, columns=64, twice=True),
        controls=Controls(registers=registers),
    )
    count = sum(isinstance(o, ir.For) for o in peeled.ops())
    assert (count > 1) == several


def test_branch():
    """Where fragments fill the registers, one loop has the loop over elements twice."""
    made = []
    for seen in (causal, by_row, tail):
        kernel, peeled, program = lowered(
            masked(keys=500, seen=seen, columns=64, twice=True), controls=Controls(registers=40)
        )
        (loop,) = (o for o in peeled.ops() if isinstance(o, ir.For))
        (branch,) = (o for o in loop.body.ops if isinstance(o, ir.If))
        assert (has_mask(branch.then), has_mask(branch.otherwise)) == (False, True)
        ((chosen, rejected),) = said(program)
        assert chosen.endswith("without it, by a branch")
        assert rejected == ("loops in turn", "fragments need all registers of a thread")
        made.append((kernel, program))
    check(*made)


def check(*made):
    """Emulated programs give what the interpreter gives before they were lowered."""
    joined = Joined(program.source for _, program in made)
    for number, (kernel, program) in enumerate(made):
        rng = np.random.default_rng(0)
        shapes = [p.type.shape for p in kernel.params]
        q, k = (rng.integers(-2, 3, s).astype(ml_dtypes.bfloat16) for s in shapes[:2])
        last, tiles = np.array([30, 77], np.int32), np.zeros(64, np.int32)
        whole = np.zeros(128, np.float32)
        InterpreterExecutable(kernel).run([q, k, last, tiles, whole], [])
        for seed in range(2):
            out = np.full(128, np.nan, np.float32)
            joined.emulate(program.source, program.kernel, [q, k, last, tiles, out], seed=seed)
            np.testing.assert_array_equal(out, whole, err_msg=str(number))


def test_form(golden):
    """The loops, and the ops that say where they meet."""
    _, peeled, _ = lowered(masked(keys=128, seen=window))
    golden(ir.print_kernel(peeled))


def test_nothing_of_the_mask_is_left():
    """Neither the loop over elements nor what only its condition needed."""
    _, peeled, _ = lowered(masked(keys=128, seen=causal))
    first, second = (o.body for o in peeled.ops() if isinstance(o, ir.For))
    assert sum(isinstance(o, ir.Parallel) for o in first.ops) == 0
    assert sum(isinstance(o, ir.Parallel) for o in second.ops) == 1
    used = {v for o in ir.walk(first) for v in o.operand_values()}
    pure = [o for o in ir.walk(first) if isinstance(o, ir.Binary | ir.Constant | ir.Load)]
    assert all(o.result in used for o in pure)


def test_remarks():
    """Each says which iterations, and the line of the mask."""
    line = masked.__code__.co_firstlineno + 29
    cases = (
        (causal, f"the last iterations have the mask of line {line}, the others run without it"),
        (tail, f"iterations from 12 on have the mask of line {line}, those before without it"),
        (window, f"the first and last iterations have the mask of line {line}, the others run"
         " without it"),
    )  # fmt: skip
    for seen, expected in cases:
        assert said(lowered(masked(seen=seen))[2]) == [(expected,)]
    again = said(lowered(masked(keys=192, seen=tail))[2])
    assert again == [(f"no iteration needs the mask of line {line}",)]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"seen": listed}, "a number in its condition is not known before the loop"),
        ({"seen": modular}, "it changes elements in every iteration"),
        ({"seen": told, "keys": 16}, "the loop has one iteration at most"),
        ({"seen": told, "keys": 32}, "the loop has 2 iterations, and the text would be longer"),
    ],
)
def test_refused(given, reason):
    """The mask stays in every iteration, and the remark has the reason."""
    _, peeled, program = lowered(masked(**given))
    assert loops(peeled) == [True]
    ((chosen, rejected),) = said(program)
    assert chosen.startswith("every iteration has the mask of line")
    assert rejected == ("iterations without", reason)


def test_numbers_that_the_kernel_writes():
    """They may be others when the loop is reached by another thread."""
    kernel = simplify(with_condition("k < p", 0, False))

    def rule(op, builder):
        if not isinstance(op, ir.Load) or op.buffer.name != "Numbers":
            return None
        builder.emit(op)
        builder.emit(ir.Store(op.result, op.buffer, op.indices, True))
        return op.results

    lowering = Lowering(TARGETS["sm_90a"], Controls())
    assert loops(peel(ir.rewrite(kernel, rule), lowering)) == [True]
    (remark,) = lowering.remarks.all()
    assert remark.rejected == (Rejection(WithoutMask(), ConditionNumber()),)
    assert loops(peel(kernel, lowering)) == [False, True]
    assert loops(peel(kernel, replace(lowering, aliased=True))) == [True]


def test_choices_by_value_are_no_masks():
    """Nothing is said about them."""
    relu = masked(seen=lambda first, i, at, k, last, tiles: T.float32(at) > 3.5)
    _, peeled, program = lowered(relu)
    assert loops(peeled) == [True]
    assert said(program) == []


def test_loops_of_cp_async_stay_whole():
    """Their copies run ahead within one loop; a mask that changes nothing goes all the same."""
    _, peeled, program = lowered(masked(seen=tail), "sm_80")
    assert loops(peeled) == [True]
    assert ("iterations without", "its copies by cp.async run ahead in one loop only") in (
        r for remark in said(program) for r in remark[1:]
    )
    assert loops(lowered(masked(keys=192, seen=tail), "sm_80")[1]) == [False]


def test_control_and_hint():
    """Both leave the loop as it is."""
    _, peeled, program = lowered(masked(seen=tail), controls=Controls(peel=False))
    assert loops(peeled) == [True]
    assert said(program) == []
    hinted = ir.rewrite(peeled, _with_hint)
    lowering = Lowering(TARGETS["sm_90a"], Controls())
    assert loops(peel(hinted, lowering)) == [True]
    assert loops(peel(peeled, lowering)) == [False, True]


def _with_hint(op, builder):
    if not isinstance(op, ir.For):
        return None
    return builder.emit(replace(op, schedule=LoopSchedule(whole=True))).results


# -- which iterations, for any condition


@dataclass(frozen=True)
class Number:
    """A number or a condition: its text in Python, of `k`, `i`, `j`, `b`, `p` and `n`, and whether
    it is linear, or all that it compares."""

    text: str
    linear: bool = True


def combined(parts):
    """Sums, multiples, minima and quotients of numbers."""
    small = st.integers(-9, 9)
    return st.one_of(
        st.builds(
            lambda a, b: Number(f"({a.text} + {b.text})", a.linear and b.linear), parts, parts
        ),
        st.builds(
            lambda a, b: Number(f"({a.text} - {b.text})", a.linear and b.linear), parts, parts
        ),
        st.builds(lambda a, c: Number(f"({a.text} * {c})", a.linear), parts, small),
        st.builds(lambda a, b: Number(f"min({a.text}, {b.text})", False), parts, parts),
        st.builds(lambda a, b: Number(f"max({a.text}, {b.text})", False), parts, parts),
        st.builds(lambda a, c: Number(f"({a.text} // {c})", False), parts, st.integers(1, 9)),
    )


NUMBERS = st.recursive(
    st.one_of(
        st.sampled_from("kkkijbpn").map(Number),
        st.integers(-40, 40).map(lambda c: Number(f"({c})")),
    ),
    combined,
    max_leaves=6,
)
COMPARED = st.builds(
    lambda a, kind, b: Number(
        f"({a.text} {kind} {b.text})", a.linear and b.linear and kind != "!="
    ),
    NUMBERS,
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    NUMBERS,
)
CONDITIONS = st.recursive(
    COMPARED,
    lambda parts: st.one_of(
        st.builds(
            lambda a, b: Number(f"({a.text} & {b.text})", a.linear and b.linear), parts, parts
        ),
        st.builds(lambda a, b: Number(f"({a.text} | {b.text})", False), parts, parts),
        st.builds(lambda a: Number(f"(not {a.text})", False), parts),
    ),
    max_leaves=3,
)
"""What is linear and joined by `and` holds in a range of iterations."""

BOX = (5, 3)
INDEX = ir.dtype("index")
BINARY = {
    "Add": "add", "Sub": "sub", "Mult": "mul", "FloorDiv": "floordiv", "BitAnd": "and",
    "BitOr": "or", "min": "min", "max": "max",
}  # fmt: skip
COMPARE = {"Lt": "lt", "LtE": "le", "Gt": "gt", "GtE": "ge", "Eq": "eq", "NotEq": "ne"}


def emitted(node, names, builder):
    """An expression of Python as ops."""

    def sub(inner):
        return emitted(inner, names, builder)

    match node:
        case ast.Name(id=name):
            return names[name]
        case ast.Constant(value=value):
            return builder.constant(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return builder.emit(ir.Unary("neg", sub(operand))).result
        case ast.UnaryOp(operand=operand):
            return builder.emit(ir.Unary("not", sub(operand))).result
        case ast.BinOp(op=kind, left=left, right=right):
            kind = BINARY[type(kind).__name__]
            return builder.emit(ir.Binary(kind, sub(left), sub(right))).result
        case ast.Call(func=ast.Name(id=kind), args=[left, right]):
            return builder.emit(ir.Binary(BINARY[kind], sub(left), sub(right))).result
        case ast.Compare(left=left, ops=[kind], comparators=[right]):
            kind = COMPARE[type(kind).__name__]
            return builder.emit(ir.Compare(kind, sub(left), sub(right))).result


def with_condition(text, first, by_select):
    """Blocks of a grid of 2 that write, for all iterations from `first` to n - 1, elements with
    their numbers, where the condition holds, and -1 elsewhere."""
    numbers = ir.BufferType((2,), ir.dtype("int32"), "global")
    out = ir.BufferType((2, 16, *BOX), ir.dtype("float32"), "global")
    params = (ir.Param("Numbers", numbers), ir.Param("Out", out))
    top = ir.Builder(ir.Block([ir.Value(numbers, "Numbers"), ir.Value(out, "Out")]))
    body = ir.Block([ir.Value(INDEX, "b")])
    grid = top.constant(2)
    top.emit(ir.Launch([grid], (128,), body))
    made = ir.Builder(body)
    names = {"b": body.args[0]}
    for at, name in enumerate("pn"):
        load = made.emit(ir.Load(top.block.args[0], [made.constant(at)], True)).result
        names[name] = made.emit(ir.Cast(load, INDEX)).result
    tile = made.emit(ir.Alloc("fragment", BOX, ir.dtype("float32"), hint="s")).result
    square = ir.dtype("float16")
    a, c = (made.emit(ir.Alloc(space, (16, 16), square)).result for space in ("shared", "fragment"))
    for each in (a, c):
        made.emit(ir.Fill(each, made.constant(0.0, square)))
    loop = ir.Block([ir.Value(INDEX, "k")])
    start, step = made.constant(first), made.constant(1)
    made.emit(ir.For("pipelined", start, names["n"], step, loop, 2))
    inside = ir.Builder(loop)
    inside.emit(ir.Gemm(a, a, c))
    names["k"] = loop.args[0]
    _fill(inside, tile, names)
    _mask(inside, tile, names, ast.parse(text, mode="eval").body, by_select)
    _give(inside, tile, names, top.block.args[1])
    return ir.Kernel("conditions", params, (), top.block)


def _points(builder):
    extents = [builder.constant(n) for n in BOX]
    body = ir.Block([ir.Value(INDEX, "i"), ir.Value(INDEX, "j")])
    builder.emit(ir.Parallel(extents, body))
    return ir.Builder(body), body.args


def _fill(builder, tile, names):
    inner, at = _points(builder)
    number = inner.emit(ir.Binary("mul", names["k"], inner.constant(100))).result
    for index, factor in zip(at, (10, 1), strict=True):
        part = inner.emit(ir.Binary("mul", index, inner.constant(factor))).result
        number = inner.emit(ir.Binary("add", number, part)).result
    value = inner.emit(ir.Cast(number, ir.dtype("float32"))).result
    inner.emit(ir.Store(value, tile, at, True))


def _mask(builder, tile, names, condition, by_select):
    inner, at = _points(builder)
    holds = emitted(condition, {**names, "i": at[0], "j": at[1]}, inner)
    no = inner.constant(-1.0, ir.dtype("float32"))
    if by_select:
        held = inner.emit(ir.Load(tile, at, True)).result
        kept = inner.emit(ir.Select(holds, held, no)).result
        inner.emit(ir.Store(kept, tile, at, True))
    else:
        inner.emit(ir.If(holds, ir.Block(), ir.Block([], [ir.Store(no, tile, at, True)])))


def _give(builder, tile, names, out):
    inner, at = _points(builder)
    held = inner.emit(ir.Load(tile, at, True)).result
    inner.emit(ir.Store(held, out, [names["b"], names["k"], *at], True))


def iterations(kernel, numbers):
    """What the kernel writes; and of each block the iterations without a mask, where a number is
    added to every element."""
    marks = ir.dtype("float32")

    def rule(op, builder):
        if isinstance(op, ir.For) and op.kind == "pipelined" and not has_mask(op.body):
            inner = next(o for o in op.body.ops[::-1] if isinstance(o, ir.Parallel)).body
            store = inner.ops.pop()
            at = ir.Builder(inner)
            more = at.constant(10_000.0, marks)
            value = at.emit(ir.Binary("add", store.value, more)).result
            at.emit(ir.Store(value, store.buffer, store.indices, True))
        return None

    out = np.full((2, 16, *BOX), -7, np.float32)
    InterpreterExecutable(ir.rewrite(kernel, rule)).run([np.array(numbers, np.int32), out], [])
    bare = (out >= 9_000).all(axis=(2, 3))
    return np.where(bare[..., None, None], out - 10_000, out), bare


@settings(max_examples=examples(40), deadline=None)
@given(
    condition=CONDITIONS,
    first=st.integers(0, 3),
    p=st.integers(-30, 60),
    n=st.integers(0, 16),
    by_select=st.booleans(),
)
def test_iterations(condition, first, p, n, by_select):
    """No element that a mask changes is left as it was; and of conditions that hold in a range of
    iterations each iteration in which all do is without."""
    kernel = simplify(with_condition(condition.text, first, by_select))
    assume(has_mask(kernel.body))
    peeled = peel(kernel, Lowering(TARGETS["sm_90a"], Controls()))
    ir.verify(peeled)
    expected, _ = iterations(kernel, [p, n])
    found, bare = iterations(peeled, [p, n])
    np.testing.assert_array_equal(found, expected)
    code = compile(condition.text, "condition", "eval")
    for b, k in np.ndindex(2, 16):
        names = {"k": k, "b": b, "p": p, "n": n, "min": min, "max": max}
        points = [{**names, "i": i, "j": j} for i, j in np.ndindex(BOX)]
        holds = first <= k < n and all(eval(code, names) for names in points)
        assert holds or not bare[b, k]
        assert bare[b, k] or not (condition.linear and holds)
