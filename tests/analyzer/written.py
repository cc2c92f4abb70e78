"""Tile programs whose statements are done again, or that write products as loops."""

from __future__ import annotations

KERNEL = """\
kernel @kernel(%A: global<256, 512, float16>, %B: global<512, 256, float16>, %S: global<4, int32>, %C: out global<256, 256, float32>) {
  %c2 = constant 2 : index
  launch [%c2, %c2] {threads = [256]} body(%bx: index, %by: index) {
    %a = alloc shared {shape = [128, 64]} : shared<128, 64, float16>
    %b = alloc shared {shape = [64, 128]} : shared<64, 128, float16>
    %x = alloc fragment {shape = [128, 128]} : fragment<128, 128, float32>
    %s = alloc fragment {shape = [128, 128]} : fragment<128, 128, float32>
    %0 = constant 0.0 : float32
    fill %s, %0
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c8 = constant 8 : index
    %c64 = constant 64 : index
    %c128 = constant 128 : index
    %1 = mul %by, %c128 : index
    %2 = mul %bx, %c128 : index
    %first = view %A, [%1, %c0] {sizes = [128, 64], in_bounds = true} : global<128, 64, float16>
    %C_tile = view %C, [%1, %2] {sizes = [128, 128], in_bounds = true} : global<128, 128, float32>
    for pipelined %c0, %c8, %c1 {num_stages = 2} body(%k: index) {
      %3 = mul %k, %c64 : index
      %A_tile = view %A, [%1, %3] {sizes = [128, 64], in_bounds = true} : global<128, 64, float16>
      %B_tile = view %B, [%3, %2] {sizes = [64, 128], in_bounds = true} : global<64, 128, float16>
      copy %A_tile, %a
      copy %B_tile, %b
      BODY
    }
    copy %s, %C_tile
  }
}
"""  # noqa: E501
"""A loop over tiles of A and B; `BODY` is what is done with them."""
GEMM = "gemm %a, %b, %s"
BY_HAND = """\
for serial %c0, %c64, %c1 body(%d: index) {
        parallel [%c128, %c128] body(%r: index, %c: index) {
          %4 = load %s, [%r, %c] {in_bounds = true} : float32
          %5 = load %a, [%r, %d] {in_bounds = true} : float16
          %6 = cast %5 : float32
          %7 = load %b, [%d, %c] {in_bounds = true} : float16
          %8 = cast %7 : float32
          %9 = mul %6, %8 : float32
          %10 = add %4, %9 : float32
          store %10, %s, [%r, %c] {in_bounds = true}
        }
      }"""
"""The product of a turn, as loops."""
SQUARES = """\
parallel [%c128, %c64] body(%i: index, %j: index) {
          %11 = load %a, [%i, %j] {in_bounds = true} : float16
          %12 = mul %11, %11 : float16
          store %12, %x, [%i, %j] {in_bounds = true}
        }"""
"""Of what was loaded; nothing that it writes is read."""


def kernel(*body: str) -> str:
    """The text of a kernel with these statements."""
    return KERNEL.replace("BODY", "\n      ".join(body))


def four_times(statement: str) -> str:
    """A loop around a statement."""
    return (
        f"%c4 = constant 4 : index\n for serial %c0, %c4, %c1 body(%z: index) {{\n {statement}\n }}"
    )


EACH = """\
kernel @naive(%A: global<4096, 4096, bfloat16>, %B: global<4096, 4096, bfloat16>, %C: out global<4096, 4096, bfloat16>) {
  %c128 = constant 128 : index
  %c512 = constant 512 : index
  launch [%c128, %c512] {threads = [256]} body(%bx: index, %by: index) {
    %c8 = constant 8 : index
    %c32 = constant 32 : index
    parallel [%c8, %c32] body(%i: index, %j: index) {
      %0 = mul %by, %c8 : index
      %row = add %0, %i : index
      %1 = mul %bx, %c32 : index
      %column = add %1, %j : index
      %2 = constant 0.0 : float32
      %total = alloc local {shape = []} : local<float32>
      store %2, %total, []
      %c0 = constant 0 : index
      %c4096 = constant 4096 : index
      %c1 = constant 1 : index
      for serial %c0, %c4096, %c1 body(%k: index) {
        %3 = load %A, [%row, %k] {in_bounds = true} : bfloat16
        %4 = cast %3 : float32
        %5 = load %B, [%k, %column] {in_bounds = true} : bfloat16
        %6 = cast %5 : float32
        %7 = mul %4, %6 : float32
        %total_1 = load %total, [] : float32
        %8 = add %total_1, %7 : float32
        store %8, %total, []
      }
      %total_2 = load %total, [] : float32
      %9 = cast %total_2 : bfloat16
      store %9, %C, [%row, %column] {in_bounds = true}
    }
  }
}
"""  # noqa: E501
"""An element of a product for each thread, from global memory."""
