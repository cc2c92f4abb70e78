"""Launches of both kinds of kernels on a GPU, which are timed with and without a change."""

import importlib.util

import torch

from benchmarks.bisecting.kernels_ours import gemm, softmax


def products(*sizes):
    for size in sizes:
        gemm(*(torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2)))


def softmaxes(*shapes):
    for rows, columns in shapes:
        softmax(torch.randn(rows, columns, device="cuda"))


def few():
    """Launch a few kernels of tileprof, which options slow down."""
    products(2048, 4096)
    softmaxes((4096, 1024), (16384, 2048))


def same():
    """Launch kernels of tileprof at many sizes, from a few µs to a few hundred, and of Triton where
    it is installed."""
    products(256, 512, 768, 1024, 1536, 2048, 3072, 4096)
    softmaxes((256, 512), (1024, 512), (4096, 512), (512, 1024), (4096, 1024), (8192, 1024),
              (1024, 2048), (4096, 2048), (16384, 2048))  # fmt: skip
    if importlib.util.find_spec("triton") is None:
        return
    from benchmarks.bisecting import kernels_triton

    for rows, columns in ((1024, 512), (4096, 1024), (16384, 2048)):
        x = torch.randn(rows, columns, device="cuda")
        y = torch.empty_like(x)
        kernels_triton.softmax[(rows,)](x, y, columns, columns, BLOCK=columns)
    for size in (1024, 4096):
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        c = torch.empty(size, size, device="cuda", dtype=torch.bfloat16)
        grid = (size // 128, size // 128)
        kernels_triton.gemm[grid](a, b, c, size, size, size, size, size, size, BLOCK_M=128,
                                  BLOCK_N=128, BLOCK_K=64, num_warps=8)  # fmt: skip
