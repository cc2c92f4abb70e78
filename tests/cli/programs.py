"""Texts of files with kernels, which commands are given."""

DOUBLE = """
    import tileprof
    import tileprof.lang as T

    @tileprof.jit
    def double(A):
        N = T.dynamic("N")
        A: T.Tensor((N,), T.float32)
        B = T.empty((N,), T.float32)
        with T.Kernel(T.ceildiv(N, 4), threads=32) as bx:
            for i in T.Parallel(4):
                B[bx * 4 + i] = A[bx * 4 + i] * 2.0
        return B
"""
