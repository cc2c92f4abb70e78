"""Flops and bytes of launches, against formulas and against counting one access after another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings

from tests.passes.index_kernels import SYMBOL, accesses, index_kernels
from tileprof import ir
from tileprof.compiler.work import Work, estimate

MATMUL = """
kernel @matmul(%A: global<m, k, float16>, %B: global<k, n, float16>,
  %C: out global<m, n, float16>) symbols(%m, %n, %k) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c32 = constant 32 : index
  %c31 = constant 31 : index
  %c63 = constant 63 : index
  %c64 = constant 64 : index
  %um = add %m, %c63 : index
  %gm = floordiv %um, %c64 : index
  %un = add %n, %c63 : index
  %gn = floordiv %un, %c64 : index
  %uk = add %k, %c31 : index
  %gk = floordiv %uk, %c32 : index
  launch [%gn, %gm] {threads = [128]} body(%bx: index, %by: index) {
    %a = alloc shared {shape = [64, 32]} : shared<64, 32, float16>
    %b = alloc shared {shape = [32, 64]} : shared<32, 64, float16>
    %acc = alloc fragment {shape = [64, 64]} : fragment<64, 64, float32>
    %r = mul %by, %c64 : index
    %c = mul %bx, %c64 : index
    for pipelined %c0, %gk, %c1 body(%ko: index) {
      %kk = mul %ko, %c32 : index
      %va = view %A, [%r, %kk] {sizes = [64, 32]} : global<64, 32, float16>
      copy %va, %a
      %vb = view %B, [%kk, %c] {sizes = [32, 64]} : global<32, 64, float16>
      copy %vb, %b
      gemm %a, %b, %acc
    }
    %vc = view %C, [%r, %c] {sizes = [64, 64]} : global<64, 64, float16>
    copy %acc, %vc
  }
}
"""


@pytest.mark.parametrize(("m", "n", "k"), [(1000, 100, 77), (8192, 8192, 8192), (0, 64, 64)])
def test_matmul(m: int, n: int, k: int) -> None:
    """Whole tiles are computed, elements inside the tensors are moved."""
    down, across, steps = -(-m // 64), -(-n // 64), -(-k // 32)
    flops = 2 * down * across * steps * 64 * 64 * 32
    moved = 2 * (m * k * across + k * n * down + m * n)
    found = estimate(ir.parse(MATMUL)).evaluate({}, {"m": m, "n": n, "k": k})
    assert found == Work(flops, moved, True, "")


CAUSAL = """
kernel @causal(%K: global<s, 64, float32>, %n: int32) symbols(%s) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c64 = constant 64 : index
  %g = floordiv %s, %c64 : index
  launch [%g] {threads = [128]} body(%bx: index) {
    %t = alloc shared {shape = [64, 64]} : shared<64, 64, float32>
    %end = add %bx, %c1 : index
    for serial %c0, %end, %c1 body(%kv: index) {
      %row = mul %kv, %c64 : index
      %v = view %K, [%row, %c0] {sizes = [64, 64]} : global<64, 64, float32>
      copy %v, %t
      gemm %t, %t, %t
    }
  }
}
"""


def test_trips_that_depend_on_the_block() -> None:
    """A triangle of tiles is summed exactly."""
    tiles = 32 * 33 // 2
    found = estimate(ir.parse(CAUSAL)).evaluate({}, {"s": 2048})
    assert found == Work(tiles * 2 * 64**3, tiles * 64 * 64 * 4, True, "")


ELEMENTWISE = """
kernel @elementwise(%x: global<n, float32>, %y: out global<n, float32>, %p: int32) symbols(%n) {
  %c127 = constant 127 : index
  %c128 = constant 128 : index
  %up = add %n, %c127 : index
  %g = floordiv %up, %c128 : index
  launch [%g] {threads = [128]} body(%bx: index) {
    %o = mul %bx, %c128 : index
    parallel [%c128] body(%i: index) {
      %at = add %o, %i : index
      %v = load %x, [%at] : float32
      %e = exp %v : float32
      %m = fma %e, %v, %v : float32
      %z = max %m, %v : float32
      store %z, %y, [%at]
      %zero = constant 0 : int32
      %positive = gt %p, %zero : bool
      if %positive then {
        %old = atomic add %z, %y, [%at] : float32
      } otherwise {
      }
    }
  }
}
"""


@pytest.mark.parametrize(("p", "extra"), [(0, 0), (1, 1)])
def test_elementwise(p: int, extra: int) -> None:
    """exp is 1 flop, fma 2, max none; the branch is taken where the scalar says."""
    found = estimate(ir.parse(ELEMENTWISE)).evaluate({"p": p}, {"n": 1000})
    assert found == Work(8 * 128 * (3 + extra), 1000 * (8 + 8 * extra), True, "")


def test_a_scalar_that_is_not_given_is_unknown() -> None:
    """The branch with more work counts, and the reason is said."""
    found = estimate(ir.parse(ELEMENTWISE)).evaluate({}, {"n": 1000})
    reason = "the data decides which branch runs"
    assert found == Work(8 * 128 * 4, 1000 * 16, False, reason)


DATA = """
kernel @data(%lengths: global<8, int32>, %x: global<64, float32>, %y: global<64, float32>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c8 = constant 8 : index
  launch [%c8] {threads = [128]} body(%bx: index) {
    %length = load %lengths, [%bx] {in_bounds = true} : int32
    %stop = cast %length : index
    for serial %c0, %stop, %c1 body(%i: index) {
      %v = load %x, [%i] : float32
      store %v, %y, [%stop]
    }
  }
}
"""


def test_loops_over_data_count_one_turn() -> None:
    """A loop whose end is loaded is not exact: one turn, every index inside."""
    found = estimate(ir.parse(DATA)).evaluate({}, {})
    assert found == Work(
        *(0, 8 * 4 + 8 * 8, False),
        "the data decides how often the loop runs; "
        "the data decides which elements are inside the buffer",
    )


@given(index_kernels())
@settings(max_examples=150, deadline=None)
def test_bytes_equal_counting_each_access(kernel: ir.Kernel) -> None:
    """For any index, loop and branch, the sum over arrays is the count of loads inside."""
    extent = kernel.params[0].type.shape[0]  # type: ignore[union-attr]
    model = estimate(kernel)
    for m in (0, 1, 5):
        size = m if extent == SYMBOL else int(extent)
        inside = sum(0 <= index < size for _, index in accesses(kernel, m))
        assert model.evaluate({}, {"m": m}) == Work(0, 4 * inside, True, "")


def test_evaluation_does_not_grow_with_the_size(
    calls: Callable[[Callable[[], object]], int],
) -> None:
    """A matmul of 16,384 blocks and 256 steps is worked out as a small one is."""
    model = estimate(ir.parse(MATMUL))
    small, large = (dict.fromkeys("mnk", size) for size in (256, 8192))
    assert calls(lambda: model.evaluate({}, large)) <= 1.1 * calls(
        lambda: model.evaluate({}, small)
    )


def test_a_view_of_a_view_ends_at_the_edge_of_the_buffer() -> None:
    """Offsets add up: of the second tile of 64, its upper 32 have 4 elements inside 100."""
    text = """
kernel @k(%x: global<100, float32>) {
  %c32 = constant 32 : index
  %c64 = constant 64 : index
  %c2 = constant 2 : index
  launch [%c2] {threads = [32]} body(%bx: index) {
    %o = mul %bx, %c64 : index
    %tile = view %x, [%o] {sizes = [64]} : global<64, float32>
    %high = view %tile, [%c32] {sizes = [32]} : global<32, float32>
    %s = alloc shared {shape = [32]} : shared<32, float32>
    copy %high, %s
  }
}
"""
    assert estimate(ir.parse(text)).evaluate({}, {}) == Work(0, (32 + 4) * 4, True, "")
