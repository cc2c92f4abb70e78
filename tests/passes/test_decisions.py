"""Comparisons that are proved go, with the branches on them; others stay."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import tileprof
import tileprof.lang as T
from tests.passes.index_kernels import accesses, index_kernels
from tests.spread import examples
from tileprof import ir
from tileprof.compiler.passes import decide, simplify

KERNEL = """
kernel @k(%x: global<m, float32>) symbols(%m) {{
  %zero = constant 0 : index
  %c3 = constant 3 : index
  %c4 = constant 4 : index
  %c64 = constant 64 : index
  %c255 = constant 255 : index
  %c256 = constant 256 : index
  %none = constant -1 : index
  %whole = floordiv %m, %c64 : index
  launch [{grid}] {{threads = [64]}} body(%bx: index) {{
    parallel [%c64] body(%i: index) {{
      %o = mul %bx, %c64 : index
      %r = add %o, %i : index
      %c = {condition} : bool
      if %c then {{
        %v = load %x, [%r] : float32
        print in %v
      }} otherwise {{
        print out %r
      }}
    }}
  }}
}}
"""
CASES = [
    # grid, condition, what is left
    ("%c4", "lt %r, %c256", "in"),
    ("%c4", "lt %r, %c255", "both"),
    ("%c4", "ge %r, %zero", "in"),
    ("%c4", "ge %r, %c256", "out"),
    ("%c4", "eq %r, %none", "out"),
    ("%c4", "ne %r, %none", "in"),
    ("%c4", "ne %r, %c255", "both"),
    ("%c4", "le %bx, %c3", "in"),
    ("%whole", "lt %r, %m", "in"),
    ("%m", "lt %r, %m", "both"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]} of {case[0]}")
def test_comparison_is_decided_where_it_is_proved(case: tuple[str, str, str]) -> None:
    """A branch that is always or never taken goes, with extents known now or at launch."""
    grid, condition, left = case
    text = ir.print_kernel(
        decide(simplify(ir.parse(KERNEL.format(grid=grid, condition=condition))))
    )
    found = [name for name in ("in", "out") if f"print {name}" in text.replace('"', "")]
    assert found == (["in", "out"] if left == "both" else [left]), text
    assert ("if " in text) == (left == "both")


def test_condition_of_a_branch_decides_those_inside() -> None:
    """Inside `if r < 100`, `r < 128` holds; `r < 90` is still asked."""

    @T.prim_func
    def nested(A: T.Tensor((512,), "int32"), B: T.Tensor((512,), "int32")) -> None:
        with T.Kernel(4, threads=64) as bx:
            for i in T.Parallel(128):
                r = bx * 128 + i
                if r < 100:
                    B[r] = T.if_then_else(r < 128, A[r], -1)
                else:
                    B[r] = T.if_then_else(r < 90, A[r], -2)

    kernel = tileprof.compile(nested)
    assert ir.print_kernel(kernel.program.kernel).count("lt ") == 1
    a, b = np.arange(512, dtype=np.int32), np.zeros(512, np.int32)
    kernel(a, b)
    np.testing.assert_array_equal(b, np.where(a < 100, a, -2))


def test_mask_that_always_holds_leaves_no_loop() -> None:
    """`s[i, j] = if_then_else(j < 64, s[i, j], …)` of 64 columns changes nothing."""

    @T.prim_func
    def masked(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32")) -> None:
        with T.Kernel(1, threads=64):
            s = T.alloc_fragment((8, 64), "float32")
            T.copy(A, s)
            for i, j in T.Parallel(8, 64):
                s[i, j] = T.if_then_else(j < 64, s[i, j], -1.0)
            T.copy(s, B)

    kernel = tileprof.compile(masked).program.kernel
    assert not [op for op in kernel.ops() if isinstance(op, ir.Parallel)]


WRITTEN_BACK = """
kernel @k(%x: global<64, float32>) {{
  %zero = constant 0 : index
  %one = constant 1 : index
  %c64 = constant 64 : index
  launch [%one] {{threads = [64]}} body(%bx: index) {{
    for serial %zero, %c64, %one body(%i: index) {{
      %v = load %x, [%i] : float32
      {between}
      store %v, %x, [{place}]
    }}
  }}
}}
"""


@pytest.mark.parametrize(
    ("between", "place", "stays"),
    [
        ("", "%i", False),
        ("%w = load %x, [%zero] : float32", "%i", False),
        ("", "%zero", True),
        ("%w = load %x, [%zero] : float32\nstore %w, %x, [%one]", "%i", True),
        ("%w = atomic add %v, %x, [%zero] : float32", "%i", True),
    ],
)
def test_element_that_is_written_where_it_was_read(between: str, place: str, stays: bool) -> None:
    """Such a store goes, unless something may have been written in between."""
    kernel = simplify(ir.parse(WRITTEN_BACK.format(between=between, place=place)))
    loads = {op.result for op in kernel.ops() if isinstance(op, ir.Load) and op.result.name == "v"}
    assert stays == any(isinstance(op, ir.Store) and op.value in loads for op in kernel.ops())


def test_guards_of_a_divided_extent_leave_whole_vectors() -> None:
    """A histogram whose tensor is a multiple of the block loads without a condition."""

    def text(n: int, block: int = 256) -> str:
        @T.prim_func
        def histogram(X: T.Tensor((n,), "uint8"), H: T.Tensor((64,), "int32")) -> None:
            with T.Kernel(T.ceildiv(n, block), threads=64) as bx:
                for i in T.Parallel(block):
                    if bx * block + i < n:
                        T.atomic_add(H[X[bx * block + i] // 4], 1)

        return tileprof.compile(histogram).program.lowered("sm_90a").source.text

    assert "tp_get_global<4>" in text(4096)
    assert "tp_get_global_where<4>" in text(4000)


def test_nothing_decided_is_nothing_changed() -> None:
    """A kernel without such a comparison is given back as it is."""
    kernel = simplify(ir.parse(KERNEL.format(grid="%m", condition="lt %r, %m")))
    assert decide(kernel) is kernel


@given(index_kernels())
@settings(max_examples=examples(150), deadline=None)
def test_every_load_still_runs_at_its_index(kernel: ir.Kernel) -> None:
    """For all small extents, the same loads run in the same order."""
    decided = decide(kernel)
    ir.verify(decided)
    for m in range(10):
        before, after = ([i for _, i in accesses(each, m)] for each in (kernel, decided))
        assert after == before, (m, ir.print_kernel(kernel))
