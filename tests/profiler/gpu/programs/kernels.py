"""Kernels whose work is known: products of PyTorch, a kernel of ours, a compiled function."""

from __future__ import annotations

import importlib
import json
import sys

import torch

import tileprof


def products(size: int) -> None:
    a = torch.randn(size, size, device="cuda")
    with tileprof.scope("products"):
        for _ in range(3):
            a @ a
        with tileprof.scope("told", flops=1000):
            torch.neg(a)


def ours(size: int) -> None:
    study = importlib.import_module("case_studies.matmul")
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    study.matmul(a, b)
    torch.cuda.synchronize()
    with tileprof.scope("ours"):
        for _ in range(4):
            study.matmul(a, b)
        torch.cuda.synchronize()


def compiled(size: int) -> None:
    @torch.compile
    def fused(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() + 1).relu() * 2

    x = torch.randn(size, size, device="cuda")
    fused(x)
    torch.cuda.synchronize()
    with tileprof.scope("compiled"):
        for _ in range(5):
            fused(x)
        torch.cuda.synchronize()


if __name__ == "__main__":
    size = 256
    {"products": products, "ours": ours, "compiled": compiled}[sys.argv[1]](size)
    torch.cuda.synchronize()
    print(json.dumps({"size": size}))
