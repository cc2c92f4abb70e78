# ruff: noqa: ANN001, ANN201, D103
"""A layer for sound: two taps eight steps apart, and one product gates the other."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def wavenet_gate(X, Filter, Gate):
    batch, length, C, F = T.const("batch, length, C, F")
    X: T.Tensor((batch, length, C), T.float16)
    Filter: T.Tensor((2, C, F), T.float16)
    Gate: T.Tensor((2, C, F), T.float16)
    Out = T.empty((batch, length - 8, F), T.float16)
    rows, columns, depth = 64, 128, 64
    slices = C // depth

    with T.Kernel(
        T.ceildiv(F, columns), T.ceildiv(length - 8, rows), batch, threads=256
    ) as (bx, by, b):  # fmt: skip
        x = T.alloc_shared((rows, depth), T.float16)
        filter_ = T.alloc_shared((depth, columns), T.float16)
        gate = T.alloc_shared((depth, columns), T.float16)
        sums = T.alloc_fragment((rows, columns), T.float32)
        gates = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        T.clear(gates)
        for k in T.Pipelined(2 * slices, num_stages=3):
            first = by * rows + k // slices * 8
            at = k % slices * depth
            T.copy(X[b, first : first + rows, at : at + depth], x)
            T.copy(Filter[k // slices, at : at + depth, bx * columns : (bx + 1) * columns], filter_)
            T.copy(Gate[k // slices, at : at + depth, bx * columns : (bx + 1) * columns], gate)
            T.gemm(x, filter_, sums)
            T.gemm(x, gate, gates)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] = T.tanh(sums[i, j]) * T.sigmoid(gates[i, j])
        T.copy(sums, Out[b, by * rows : (by + 1) * rows, bx * columns : (bx + 1) * columns])
    return Out
