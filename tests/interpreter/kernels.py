"""Kernels in the IR's text form that several tests and benchmarks run."""

from __future__ import annotations

VECTOR_ADD = """
kernel @vector_add(%a: global<n, float32>, %b: global<n, float32>, %c: out global<n, float32>)
    symbols(%n) {
  %c128 = constant 128 : index
  %c127 = constant 127 : index
  %sum = add %n, %c127 : index
  %blocks = floordiv %sum, %c128 : index
  launch [%blocks] {threads = [128]} body(%bx: index) {
    parallel [%c128] body(%i: index) {
      %base = mul %bx, %c128 : index
      %at = add %base, %i : index
      %x = load %a, [%at] : float32
      %y = load %b, [%at] : float32
      %z = add %x, %y : float32
      store %z, %c, [%at]
    }
  }
}
"""

MATMUL = """
kernel @matmul(%a: global<m, k, float32>, %b: global<k, n, float32>,
    %c: out global<m, n, float32>) symbols(%m, %n, %k) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c31 = constant 31 : index
  %c32 = constant 32 : index
  %c63 = constant 63 : index
  %c64 = constant 64 : index
  %n1 = add %n, %c63 : index
  %gx = floordiv %n1, %c64 : index
  %m1 = add %m, %c63 : index
  %gy = floordiv %m1, %c64 : index
  launch [%gx, %gy] {threads = [128]} body(%bx: index, %by: index) {
    %as = alloc shared {shape = [64, 32]} : shared<64, 32, float32>
    %bs = alloc shared {shape = [32, 64]} : shared<32, 64, float32>
    %acc = alloc fragment {shape = [64, 64]} : fragment<64, 64, float32>
    %zero = constant 0.0 : float32
    fill %acc, %zero
    %k1 = add %k, %c31 : index
    %steps = floordiv %k1, %c32 : index
    %row = mul %by, %c64 : index
    %column = mul %bx, %c64 : index
    for pipelined %c0, %steps, %c1 {num_stages = 2} body(%ko: index) {
      %at = mul %ko, %c32 : index
      %av = view %a, [%row, %at] {sizes = [64, 32]} : global<64, 32, float32>
      copy %av, %as
      %bv = view %b, [%at, %column] {sizes = [32, 64]} : global<32, 64, float32>
      copy %bv, %bs
      gemm %as, %bs, %acc
    }
    %cv = view %c, [%row, %column] {sizes = [64, 64]} : global<64, 64, float32>
    copy %acc, %cv
  }
}
"""

SOFTMAX = """
kernel @softmax(%x: global<m, n, float32> safe(-inf), %y: out global<m, n, float32>)
    symbols(%m, %n) {
  %c0 = constant 0 : index
  %c1024 = constant 1024 : index
  launch [%m] {threads = [128]} body(%bx: index) {
    %row = alloc fragment {shape = [1024]} : fragment<1024, float32>
    %top = alloc fragment {shape = [1]} : fragment<1, float32>
    %sum = alloc fragment {shape = [1]} : fragment<1, float32>
    %xv = view %x, [%bx, %c0] {sizes = [1, 1024]} : global<1, 1024, float32>
    copy %xv, %row
    reduce max %row, %top {dim = 0}
    parallel [%c1024] body(%i: index) {
      %v = load %row, [%i] : float32
      %t = load %top, [%c0] : float32
      %d = sub %v, %t : float32
      %e = exp %d : float32
      store %e, %row, [%i]
    }
    reduce sum %row, %sum {dim = 0}
    parallel [%c1024] body(%i: index) {
      %v = load %row, [%i] : float32
      %s = load %sum, [%c0] : float32
      %q = div %v, %s : float32
      store %q, %row, [%i]
    }
    %yv = view %y, [%bx, %c0] {sizes = [1, 1024]} : global<1, 1024, float32>
    copy %row, %yv
  }
}
"""
