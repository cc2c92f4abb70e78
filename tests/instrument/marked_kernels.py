# mypy: ignore-errors
# ruff: noqa: ANN201
"""Kernels with scopes in every place where control flow makes marks difficult."""

import tileprof.lang as T


@T.prim_func
def product(
    A: T.Tensor((128, 256), T.bfloat16),
    B: T.Tensor((256, 64), T.bfloat16),
    C: T.Tensor((128, 64), T.bfloat16),
):
    """A matrix product whose scopes lie around and inside of its loop."""
    with T.Kernel(2, threads=128) as by:
        As = T.alloc_shared((64, 64), T.bfloat16)
        Bs = T.alloc_shared((64, 64), T.bfloat16)
        acc = T.alloc_fragment((64, 64), T.float32)
        T.clear(acc)
        with T.scope("main loop"):
            for k in T.Pipelined(4, num_stages=3):
                with T.scope("load"):
                    T.copy(A[by * 64, k * 64], As)
                    T.copy(B[k * 64, 0], Bs)
                with T.scope("multiply"):
                    T.gemm(As, Bs, acc)
        with T.scope("write back"):
            T.copy(acc, C[by * 64, 0])


@T.prim_func
def branches(X: T.Tensor((64,), T.float32), N: T.Tensor((4,), T.int32)):
    """Scopes in branches, in loops that are left early, in loops that need not run."""
    with T.Kernel(4, threads=64) as bx:
        x = T.alloc_fragment((64,), T.float32)
        n = N[bx]
        with T.scope("outer"):
            T.copy(X, x)
            for i in T.serial(n):
                with T.scope("even"):
                    if i % 2 == 0:
                        with T.scope("double"):
                            for j in T.Parallel(64):
                                x[j] = x[j] * 2.0
                if i == 5:
                    break
                if n > 2:
                    with T.scope("more"):
                        for j in T.Parallel(64):
                            x[j] = x[j] + 1.0
                    if i == 3:
                        continue
                for j in T.Parallel(64):
                    x[j] = x[j] - 1.0
        with T.scope("again"):
            for _ in T.serial(n):
                with T.scope("again"):
                    for j in T.Parallel(64):
                        x[j] = x[j] * 3.0
        T.copy(x, X)


@T.prim_func
def whole_turn(X: T.Tensor((64,), T.float32), Y: T.Tensor((64,), T.float32)):
    """A scope that is all of a loop's body, and one around a loop whose body has none."""
    with T.Kernel(1, threads=64):
        x = T.alloc_fragment((64,), T.float32)
        T.copy(X, x)
        for _ in T.serial(3):
            with T.scope("turn"):
                for j in T.Parallel(64):
                    x[j] = T.exp(x[j])
        with T.scope("all turns"):
            for _ in T.serial(3):
                for j in T.Parallel(64):
                    x[j] = x[j] + 1.0
        T.copy(x, Y)
