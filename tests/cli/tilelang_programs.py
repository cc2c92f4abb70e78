"""Texts of kernels in the style of TileLang's users."""

FACTORY = """
import argparse
import tilelang
import tilelang.language as T
import tilelang.testing
from einops import rearrange
from tilelang.autotuner import *
from tvm import tir


def configs():
    return [{"block_M": 32, "block_N": 32, "stages": 2}]


@tilelang.jit(
    out_idx=[-1], pass_configs={tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True}
)
def product(M, N, K, block_M=32, block_N=32, block_K=32, dtype="float16", accum_dtype="float"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((K, N), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(tilelang.cdiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


@autotune(configs=configs(), warmup=3, rep=20)
@tilelang.jit(out_idx=[-1])
def tuned(M, N, block_M=None, block_N=None, stages=None):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                B[by * block_M + i, bx * block_N + j] = A[by * block_M + i, bx * block_N + j] * 2

    return main


def built(N, block=128):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] + 1

    return tilelang.compile(main, out_idx=[1])


def doubled(N, block=128):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            for i in T.Parallel(block):
                B[bx * block + i] = A[bx * block + i] * 2

    return main


@tilelang.testing.requires_cuda_compute_version_ge(9, 0)
def test_product():
    kernel = product(1024, 1024, 1024)
    kernel.get_profiler().assert_allclose(lambda a, b: a @ b)


if __name__ == "__main__":
    tilelang.testing.main()
"""
BOTH = """
import tilelang
import tileprof
"""
HELPERS = """
def load():
    import tilelang
    import tilelang.language as T
    return tilelang, T
"""
PACKAGED = """
from functools import lru_cache
from .helpers import load


@lru_cache(maxsize=8)
def compiled(n: int, block: int = 128):
    tilelang, T = load()

    @tilelang.jit
    def factory(N, block_size):
        @T.prim_func
        def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(T.ceildiv(N, block_size), threads=128) as bx:
                for i in T.Parallel(block_size):
                    if bx * block_size + i < N:
                        B[bx * block_size + i] = A[bx * block_size + i] * 2

        return kernel

    return factory(n, block)
"""
MISSPELLED = """
import tilelang
import tilelang.language as T


def misspelled(N):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = T.sigmod(A[bx * 128 + i])

    return main
"""
