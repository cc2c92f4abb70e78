"""Launches of kernels whose counters are known beforehand, each in a scope of its own.

counted.py KERNEL…     copy, conflicts, gather, spill, full, quarter, gemm, graph
"""

from __future__ import annotations

import ctypes as C
import sys

import known_kernels
import torch
from known_kernels import GIB, Kernels

import tileprof


def copy(kernels, sms):
    source = torch.ones(GIB // 4, dtype=torch.int32, device="cuda")
    target = torch.empty_like(source)
    with tileprof.scope("copy"):
        kernels.launch("copy_all", GIB // 16 // 256, 256, source, target)


def conflicts(kernels, sms):
    out = torch.zeros(4, dtype=torch.int32, device="cuda")
    for ways in (1, 8):
        with tileprof.scope(f"ways {ways}"):
            kernels.launch("conflicts", sms, 32, out, ways)


def gather(kernels, sms):
    source = torch.ones(1 << 24, dtype=torch.int32, device="cuda")
    for stride in (1, 8):
        with tileprof.scope(f"stride {stride}"):
            kernels.launch("gather", 1024, 256, source, source, stride)


def spill(kernels, sms):
    out = torch.zeros(4, dtype=torch.int32, device="cuda")
    with tileprof.scope("spill"):
        kernels.launch("spill", sms, 128, out, 3)


def full(kernels, sms):
    out = torch.zeros(4, dtype=torch.int32, device="cuda")
    with tileprof.scope("full"):
        kernels.launch("spin", 2 * sms, 1024, out, C.c_longlong(2_000_000))


def quarter(kernels, sms):
    """One block of 512 threads an SM: a fourth of 2048."""
    out = torch.zeros(4, dtype=torch.int32, device="cuda")
    with tileprof.scope("quarter"):
        kernels.launch("spin", sms, 512, out, C.c_longlong(2_000_000), shared=120 * 1024)


def gemm(kernels, sms):
    a, b = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    with tileprof.scope("gemm"):
        torch.matmul(a, b)


def graph(kernels, sms):
    x = torch.ones(1 << 20, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(3):
            x = x * 2
    with tileprof.scope("before"):
        kernels.launch("spin", sms, 64, x, C.c_longlong(100_000))
    with tileprof.scope("graph"):
        graph.replay()
    with tileprof.scope("after"):
        kernels.launch("spin", sms, 64, x, C.c_longlong(100_000))


def main() -> None:
    kernels = Kernels()
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    for name in sys.argv[1:]:
        globals()[name](kernels, sms)
    torch.cuda.synchronize()
    assert known_kernels.driver is not None


main()
