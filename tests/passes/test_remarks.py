"""What the compiler says about its decisions for the cpu device."""

from __future__ import annotations

from collections.abc import Callable

from tileprof import ir
from tileprof.compiler.passes import prove_bounds, simplify
from tileprof.compiler.remarks import collect

KERNEL = """
kernel @k(%x: global<m, 60, float16>, %y: global<8, int32>, %z: global<100, float16>) symbols(%m) {
  %zero = constant 0 : index
  %one = constant 1 : index
  %c64 = constant 64 : index
  %blocks = floordiv %m, %c64 : index
  launch [%blocks] {threads = [128]} body(%bx: index) {
    annotate use_swizzle _ {hints = [[panel_size, 10]]}
    %s = alloc shared {shape = [64, 64], layout = swizzled} : shared<64, 64, float16>
    %acc = alloc fragment {shape = [64, 64]} : fragment<64, 64, float16>
    %row = mul %bx, %c64 : index
    %next = add %row, %one : index
    for pipelined %zero, %c64, %one {num_stages = 3} body(%ko: index) {
      %a = view %x, [%row, %zero] {sizes = [64, 64]} : global<64, 64, float16>
      copy %a, %s
      %b = view %x, [%next, %zero] {sizes = [64, 60]} : global<64, 60, float16>
      print b %b
      gemm %s, %s, %acc {policy = full_row}
    }
    parallel [%c64] body(%i: index) {
      %l = load %y, [%zero] : int32
      %at = cast %l : index
      %v = load %z, [%at] : float16
      %clipped = max %at, %zero : index
      scope point body {
        store %v, %z, [%clipped]
      }
      %w = load %s, [%at, %i] : float16
      print w %w
    }
  }
}
"""


def test_remarks(golden: Callable[[str], None]) -> None:
    """Guards with their reason, hints without effect, and a scope that cannot be measured."""
    remarks = collect(prove_bounds(simplify(ir.parse(KERNEL))))
    golden("".join(f"[{r.severity}] {r}\n" for r in remarks))
