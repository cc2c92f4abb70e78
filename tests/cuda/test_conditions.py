"""Conditions that read memory: joined where every way loads the same, and as they are elsewhere."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.cuda.compiled_kernels import function
from tileprof import ir
from tileprof.compiler.codegen.ranges import interval
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.lowering import Lowering, Remarks
from tileprof.compiler.cuda.passes.conditions import join_conditions
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import TARGETS, find_target
from tileprof.emulator import emulate
from tileprof.runtime.interpreter import InterpreterExecutable

N, STEPS = 128, 7
BOOL = ir.dtype("bool")


def joined(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel after the pass."""
    return join_conditions(kernel, Lowering(TARGETS["sm_90a"], Controls(), Remarks()))


# -- a network that sorts


@T.prim_func
def sort(X: T.Tensor((N,), "float32"), At: T.Tensor((N,), "int32")) -> None:
    """Values in falling order, and where they stood."""
    with T.Kernel(1, threads=N):
        value = T.alloc_shared((N,), "float32")
        place = T.alloc_shared((N,), "int32")
        T.copy(X, value)
        T.copy(At, place)
        for i1 in T.serial(STEPS):
            for i2 in T.serial(i1 + 1):
                for i in T.Parallel(N):
                    up = (i & (1 << (i1 + 1))) != 0
                    j = i ^ (1 << (i1 - i2))
                    if i < j and ((up and value[i] > value[j]) or (not up and value[i] < value[j])):
                        held = value[i]
                        value[i] = value[j]
                        value[j] = held
                        was = place[i]
                        place[i] = place[j]
                        place[j] = was
        T.copy(value, X)
        T.copy(place, At)


@cache
def program() -> CudaProgram:
    """The network for a GPU."""
    return compile_cuda(tileprof.compile(sort).program.kernel, find_target("sm_90a"))


def test_a_network_sorts() -> None:
    """Both of its branches are one way; what is exchanged is loaded before it is stored."""
    x = np.random.default_rng(0).permutation(N).astype(np.float32)
    kept, at = x.copy(), np.arange(N, dtype=np.int32)
    emulate(program().source, program().kernel, [x, at])
    np.testing.assert_array_equal(x, np.sort(kept)[::-1])
    np.testing.assert_array_equal(kept[at], x)


def test_one_branch_inside_of_one() -> None:
    """On whether a point is the lower one of a pair, and then on their order."""
    made = joined(tileprof.compile(sort).program.kernel)
    branches = [op for op in made.ops() if isinstance(op, ir.If)]
    assert len(branches) == 2
    outer = next(b for b in branches if any(isinstance(o, ir.If) for o in b.then.ops))
    before = [type(o) for o in outer.then.ops]
    assert before.count(ir.Load) == 2
    inner = next(o for o in outer.then.ops if isinstance(o, ir.If))
    kinds = [type(o) for o in inner.then.ops]
    assert kinds == [ir.Load] * 4 + [ir.Store] * 4


def test_a_step_of_the_network_is_short() -> None:
    """Two values and two places are loaded once each, with numbers of 32 bits; a branch and a
    barrier are left.  Before, there were 10 loads, and lanes took two ways in turn."""
    names = [each.name for each in function(program()).instructions]
    assert names.count("LDS") <= 6
    assert names.count("BSSY") <= 2
    text = program().source.text
    step = text.partition("const bool up")[2].partition("const float")[0]
    assert "int64_t" not in step


# -- what stays


def guarded(inside: bool) -> Any:
    """Where a neighbour is larger; its element may not be there."""

    @T.prim_func
    def main(X: T.Tensor((100,), "float32"), Out: T.Tensor((100,), "int32")) -> None:
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((100,), "float32")
            T.copy(X, x)
            for i in T.Parallel(100):
                if inside:
                    Out[i] = T.if_then_else(i + 1 < 100 and x[i + 1] > x[i], 1, 0)
                else:
                    Out[i] = T.if_then_else(x[i] > 0.0 or x[99 - i] > x[i], 1, 0)

    return main


@pytest.mark.parametrize("inside", [True, False])
def test_what_some_ways_load_alone_stays_in_its_branch(inside: bool) -> None:
    """No thread reads what it would not have read: it may not be there, or be written meanwhile."""
    kernel = tileprof.compile(guarded(inside)).program.kernel

    def branched(kernel: ir.Kernel) -> int:
        branches = [op for op in kernel.ops() if isinstance(op, ir.If)]
        held = [o for b in branches for block in b.blocks() for o in ir.walk(block)]
        return sum(isinstance(o, ir.Load) for o in held)

    assert branched(joined(kernel)) == branched(kernel) > 0


# -- any formula

Tree = Any
"""`("a", n)`: condition n of the author; `("x", i, j)`: element i is larger than element j; `not`,
`and`, `or` of these, of which the right side is looked at only where the left does not decide."""
leaves = st.one_of(
    st.tuples(st.just("a"), st.integers(0, 2)),
    st.tuples(st.just("x"), st.integers(0, 2), st.integers(0, 2)),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)
    ),
    max_leaves=8,
)


def formula(tree: Tree) -> ir.Kernel:
    """A kernel that writes 1 to the element of each of 8 points where a formula holds, in which the
    author's conditions are the bits of the point."""
    float_, int_ = ir.dtype("float32"), ir.dtype("int32")

    @T.prim_func
    def main(X: T.Tensor((4,), float_.name), Out: T.Tensor((8,), int_.name)) -> None:
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((4,), float_.name)
            T.copy(X, x)
            for p in T.Parallel(8):
                conditions = [(p & (1 << n)) != 0 for n in range(3)]
                Out[p] = T.if_then_else(_traced(tree, conditions, x), 1, 0)

    held: ir.Kernel = tileprof.compile(main).program.kernel
    return held


@T.macro
def _traced(tree: Tree, conditions: list[Any], x: Any) -> Any:
    kind = tree[0]
    if kind == "a":
        return conditions[tree[1]]
    elif kind == "x":
        return x[tree[1]] > x[tree[2]]
    elif kind == "not":
        return not _traced(tree[1], conditions, x)
    elif kind == "and":
        return _traced(tree[1], conditions, x) and _traced(tree[2], conditions, x)
    else:
        return _traced(tree[1], conditions, x) or _traced(tree[2], conditions, x)


def _value(tree: Tree, bits: int, x: list[float]) -> bool:
    kind, *of = tree
    if kind == "a":
        return bool(bits >> of[0] & 1)
    if kind == "x":
        return bool(x[of[0]] > x[of[1]])
    values = [_value(each, bits, x) for each in of]
    return {"not": not values[0], "and": all(values), "or": any(values)}[str(kind)]


@given(trees, st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=4, max_size=4))
@settings(max_examples=40, deadline=None)
def test_any_formula_keeps_its_value(tree: Tree, x: list[float]) -> None:
    """Whatever is joined of it."""
    kernel = formula(tree)
    expected = [int(_value(tree, bits, x)) for bits in range(8)]
    made = joined(kernel)
    ir.verify(made)
    for each in (kernel, made):
        out = np.full(8, -1, np.int32)
        InterpreterExecutable(each).run([np.array(x, np.float32), out], [])
        assert out.tolist() == expected


# -- bounds of shifts and bits


@given(st.sampled_from(["shl", "shr", "and", "or", "xor"]), *[st.integers(0, 40)] * 4)
@settings(max_examples=80, deadline=None)
def test_bounds_of_bits(kind: Any, a: int, more: int, b: int, wider: int) -> None:
    """They hold for all numbers in the bounds of the operands; shifts by constants."""
    left, right = ir.Value(ir.index, "a"), ir.Value(ir.index, "b")
    wider = 0 if kind == "shr" else wider
    known = {left: (a, a + more), right: (b - 5 if kind == "shl" else b, b + wider)}
    low, high = interval(ir.Binary(kind, left, right).result, known, {})
    assert low is not None
    assert high is not None or kind == "shl"
    of = {"and": int.__and__, "or": int.__or__, "xor": int.__xor__, "shr": int.__rshift__}
    for x in range(a, a + more + 1):
        for y in {known[right][0], b, b + wider}:
            value = (x << y if y >= 0 else 0) if kind == "shl" else of[kind](x, y)
            assert low <= value
            assert high is None or value <= high


@pytest.mark.parametrize(
    ("kind", "number", "expected"),
    [
        ("shr", 5, (-(1 << 26), (1 << 26) - 1)),
        ("floordiv", 32, (-(1 << 26), (1 << 26) - 1)),
        ("floormod", 64, (0, 63)),
        ("and", 7, (0, 7)),
        ("add", 1, (-(1 << 31), (1 << 31) - 1)),
    ],
)
def test_bounds_of_a_number_of_32_bits(kind: Any, number: int, expected: tuple[int, int]) -> None:
    """What is loaded may be anything; where it may wrap around, so may a sum."""
    int_ = ir.dtype("int32")
    loaded = ir.Value(int_, "n")
    op = ir.Binary(kind, loaded, ir.Constant(number, int_).result)
    assert interval(ir.Cast(op.result, ir.index).result, {}, {}) == expected
