"""Where records go in, what sites are called, and that nothing is left after `strip`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tileprof import ir
from tileprof.instrument import Mode, insert, strip

MATMUL = """
kernel @matmul(%A: global<64, 64, float16>, %B: global<64, 64, float16>,
  %C: out global<64, 64, float32>) {
  %one = constant 1 : index
  launch [%one] {threads = [128]} body(%bx: index) {
    %zero = constant 0 : index
    %two = constant 2 : index
    %tile = constant 32 : index
    %a = alloc shared {shape = [64, 32]} : shared<64, 32, float16>
    %b = alloc shared {shape = [32, 64]} : shared<32, 64, float16>
    %acc = alloc fragment {shape = [64, 64]} : fragment<64, 64, float32>
    %f0 = constant 0.0 : float32
    fill %acc, %f0
    for pipelined %zero, %two, %one {num_stages = 2} body(%ko: index) {
      %k = mul %ko, %tile : index
      %va = view %A, [%zero, %k] {sizes = [64, 32]} : global<64, 32, float16>
      copy %va, %a
      %vb = view %B, [%k, %zero] {sizes = [32, 64]} : global<32, 64, float16>
      copy %vb, %b
      gemm %a, %b, %acc
    }
    scope "write back" body {
      copy %acc, %C
    }
  }
}
"""

LEAVING = """
kernel @leaving(%X: global<8, int32>, %n: int32) {
  %c8 = constant 8 : index
  launch [%c8] {threads = [32]} body(%bx: index) {
    %zero = constant 0 : index
    %one = constant 1 : index
    %x = load %X, [%bx] : int32
    %big = gt %x, %n : bool
    scope outer body {
      for serial %zero, %c8, %one body(%i: index) {
        scope a body {
          scope b body {
            if %big then {
              break
            } otherwise {
            }
          }
          continue
        }
      }
    }
  }
}
"""

IN_PARALLEL = """
kernel @in_parallel(%X: out global<8, int32>) {
  %c8 = constant 8 : index
  launch [%c8] {threads = [32]} body(%bx: index) {
    %one = constant 1 : int32
    parallel [%c8] body(%i: index) {
      scope point body {
        store %one, %X, [%i]
      }
    }
  }
}
"""

MODES: tuple[Mode, ...] = ("off", "scopes", "stages", "ops")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "text", [MATMUL, LEAVING, IN_PARALLEL], ids=["matmul", "leaving", "points"]
)
def test_strip_takes_everything_out(text: str, mode: Mode) -> None:
    """`strip(insert(k)) == k` to the letter, sites included, and what is inserted is valid."""
    kernel = ir.parse(text)
    inserted = insert(kernel, mode)
    ir.verify(inserted)
    assert ir.print_kernel(strip(inserted)) == ir.print_kernel(kernel)


@pytest.mark.parametrize("mode", ["scopes", "stages", "ops"])
def test_matmul(golden: Callable[[str], None], mode: Mode) -> None:
    """The sites of a pipelined matmul in each mode."""
    golden(ir.print_kernel(insert(ir.parse(MATMUL), mode)))


def test_leaving_a_loop_ends_its_open_sites(golden: Callable[[str], None]) -> None:
    """`break` and `continue` end the scopes inside the loop, innermost first, not those around."""
    golden(ir.print_kernel(insert(ir.parse(LEAVING), "scopes")))


@pytest.mark.parametrize("mode", ["off", "scopes"])
def test_a_kernel_without_sites_stays_as_it_is(mode: Mode) -> None:
    """The points of a `parallel` have no time of their own: no site, no record."""
    kernel = ir.parse(IN_PARALLEL)
    assert insert(kernel, mode) is kernel


def test_another_mode_replaces_the_sites() -> None:
    """Inserting into an instrumented kernel starts from the bare one."""
    kernel = ir.parse(MATMUL)
    again = insert(insert(kernel, "ops"), "scopes")
    assert ir.print_kernel(again) == ir.print_kernel(insert(kernel, "scopes"))


UNROLLED = """
kernel @unrolled() {
  %one = constant 1 : index
  launch [%one] {threads = [32]} body(%bx: index) {
    scope step loc("k.py":3:4-3:20 "f") body {
      print a _
    }
    scope step loc("k.py":3:4-3:20 "f") body {
      print a _
    }
    scope step loc("k.py":5:4-5:20 "f") body {
      print a _
    }
  }
}
"""


def test_copies_of_one_place_are_one_site() -> None:
    """A loop that Python unrolled visits one site twice; another line is another site."""
    inserted = insert(ir.parse(UNROLLED), "scopes")
    assert [(s.id, s.location and s.location.line) for s in inserted.sites] == [(0, 3), (1, 5)]
    records = [(op.edge, op.site) for op in inserted.ops() if isinstance(op, ir.Record)]
    assert records == [("begin", 0), ("end", 0), ("begin", 0), ("end", 0), ("begin", 1), ("end", 1)]
