# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
"""Comparisons in masks of fragments, solved for a point's index."""

import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tileprof
import tileprof.lang as T
from tests.spread import examples
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.lowering import Lowering, Remarks
from tileprof.compiler.cuda.passes.masks import narrow_masks
from tileprof.compiler.cuda.target import TARGETS
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.runtime.interpreter import InterpreterExecutable

KINDS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}
ROWS, COLUMNS = 8, 16


def masked(kind, left, right, space="fragment"):
    """1 where `left KIND right` holds, else 0: both are functions of n, i and j."""

    @T.prim_func
    def main(n: T.int32, Out: T.Tensor((ROWS, COLUMNS), T.float32)):
        with T.Kernel(1, threads=32):
            tile = (T.alloc_fragment if space == "fragment" else T.alloc_shared)(
                (ROWS, COLUMNS), T.float32
            )
            for i, j in T.Parallel(ROWS, COLUMNS):
                holds = KINDS[kind](left(n, i, j), right(n, i, j))
                tile[i, j] = T.if_then_else(holds, 1.0, 0.0)
            T.copy(tile, Out)

    return prove_bounds(simplify(tileprof.compile(main).traced))


def narrowed(kernel):
    """The kernel after the pass."""
    return narrow_masks(kernel, Lowering(TARGETS["sm_90a"], Controls(), Remarks()))


def result(kernel, n):
    """What it writes."""
    out = np.full((ROWS, COLUMNS), np.nan, np.float32)
    InterpreterExecutable(kernel).run([n, out], [])
    return out


def comparisons(kernel):
    """Pairs of what is compared: a point's index, a number, or something else."""
    return [o for o in kernel.ops() if isinstance(o, ir.Compare)]


sides = st.tuples(
    st.sampled_from([0, 0, 1, -1, 3]),  # n
    st.sampled_from([0, 0, 1, -1, 2]),  # i
    st.sampled_from([0, 1, 1, -1, 2]),  # j
    st.integers(-20, 20),
)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(sorted(KINDS)), sides, sides, st.integers(-40, 40))
def test_the_same_elements(kind, left, right, n):
    """Whatever stands on the two sides, and however far the limit is beyond the tile."""

    def side(a, b, c, d):
        return lambda n, i, j: n * a + i * b + j * c + d

    kernel = masked(kind, side(*left), side(*right))
    np.testing.assert_array_equal(result(narrowed(kernel), n), result(kernel, n))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda n, i, j: n * 64 + j, lambda n, i, j: T.min(i + 5, n)),
        (lambda n, i, j: i - n, lambda n, i, j: j + 3),
        (lambda n, i, j: n - j, lambda n, i, j: n + i),
    ],
)
def test_a_point_against_a_number(left, right):
    """One side is the index of the last axis, the other is between -1 and its extent."""
    kernel = narrowed(masked("le", left, right))
    (compare,) = comparisons(kernel)
    (loop,) = [o for o in kernel.ops() if isinstance(o, ir.Parallel) and compare in o.body.ops]
    assert compare.left is loop.body.args[1]
    limit = compare.right.owner
    assert (limit.kind, limit.right.owner.value) == ("min", COLUMNS)
    assert (limit.left.owner.kind, limit.left.owner.right.owner.value) == ("max", -1)


@pytest.mark.parametrize(
    ("left", "right", "space"),
    [
        (lambda n, i, j: n + j * 2, lambda n, i, j: i, "fragment"),  # every other column
        (lambda n, i, j: j, lambda n, i, j: n + i, "fragment"),  # as it is wanted
        (lambda n, i, j: n + j, lambda n, i, j: i, "shared"),  # its guards are looked at elsewhere
        (lambda n, i, j: j * j + n, lambda n, i, j: j, "fragment"),
    ],
)
def test_what_stays(left, right, space):
    """Loops that cannot be solved, or need not."""
    kernel = masked("lt", left, right, space)
    assert ir.print_kernel(narrowed(kernel)) == ir.print_kernel(kernel)
