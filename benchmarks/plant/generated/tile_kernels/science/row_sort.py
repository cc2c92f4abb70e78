# ruff: noqa: ANN001, ANN201, D103
"""Rows in rising order, by pairs that are compared at spans of powers of two."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def row_sort(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    bits = N.bit_length() - 1

    with T.Kernel(M, threads=256) as row:
        held = T.alloc_shared((N,), T.float32)

        T.copy(X[row, 0:N], held)
        for k in T.serial(bits):
            for turn in T.serial(k + 1):
                for p in T.Parallel(N // 2):
                    span = k - turn
                    low = ((p >> span) << (span + 1)) + (p & ((1 << span) - 1))
                    high = low + (1 << span)
                    less = T.min(held[low], held[high])
                    more = T.max(held[low], held[high])
                    rising = (low >> (k + 1)) % 2 == 0
                    held[low] = T.if_then_else(rising, less, more)
                    held[high] = T.if_then_else(rising, more, less)
        T.copy(held, Y[row, 0:N])
    return Y
