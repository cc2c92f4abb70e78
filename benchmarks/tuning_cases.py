"""Kernels and shapes on which `benchmarks.tuning` compares the tuner with an exhaustive search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks import gpu_kernels, tuned_kernels
from case_studies import attention, grouped_matmul
from tileprof.lang.jit_function import JitFunction

Shape = Mapping[str, int]
Tensors = Callable[[Shape], Mapping[str, tuple[tuple[int, ...], str]]]
"""Shapes and element types of a kernel's tensors, by name."""


@dataclass(frozen=True)
class Case:
    """A kernel with its shapes."""

    name: str
    function: JitFunction
    tensors: Tensors
    shapes: tuple[Shape, ...]
    small: Shape
    """A shape for a look on any machine."""
    development: bool = False
    """Whether the model's constants were chosen by times or registers of it."""
    static: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that are not tuned."""
    fill: Callable[[dict[str, Any], Shape], None] = lambda arrays, shape: None
    """Writes what a kernel needs into arrays that must not be random."""


def _square(*sizes: int) -> tuple[Shape, ...]:
    return tuple({"M": n, "N": n, "K": n} for n in sizes)


def _gemm(a: str, b: str) -> Tensors:
    """Tensors of a product, by the extents of its operands: `MK`, `NK`."""
    return lambda s: {
        "A": (tuple(s[n] for n in a), "bfloat16"), "B": (tuple(s[n] for n in b), "bfloat16")
    }  # fmt: skip


def _rows(dtype: str) -> Tensors:
    return lambda s: {"X": ((s["M"], s["N"]), dtype)}


def _attention(s: Shape) -> Mapping[str, tuple[tuple[int, ...], str]]:
    shape = (s["batch"], s["length"], s["heads"], s["dim"])
    return {name: (shape, "bfloat16") for name in "QKV"}


def _int4(s: Shape) -> Mapping[str, tuple[tuple[int, ...], str]]:
    return {
        "A": ((s["M"], s["K"]), "bfloat16"), "Packed": ((s["N"], s["K"] // 2), "uint8"),
        "Scales": ((s["N"],), "float32"),
    }  # fmt: skip


def _grouped(s: Shape) -> Mapping[str, tuple[tuple[int, ...], str]]:
    return {
        "A": ((s["rows"], s["K"]), "bfloat16"),
        "B": ((s["experts"], s["K"], s["N"]), "bfloat16"), "Ends": ((s["experts"],), "int32"),
    }  # fmt: skip


def _fill_grouped(arrays: dict[str, Any], s: Shape) -> None:
    """Give every expert a share of the rows that a seed draws."""
    shares = np.random.default_rng(0).dirichlet(np.full(s["experts"], 4.0))
    ends = np.round(np.cumsum(shares) * s["rows"]).astype(np.int32)
    ends[-1] = s["rows"]
    held = arrays["Ends"]
    if isinstance(held, np.ndarray):
        held[:] = ends
    else:
        import torch

        held.copy_(torch.from_numpy(ends))


_TALL = ({"M": 8192, "N": 8192}, {"M": 32768, "N": 1024}, {"M": 1024, "N": 32768},
         {"M": 4096, "N": 4096}, {"M": 65536, "N": 2048})  # fmt: skip
_TOKENS = tuple({"M": m, "N": 8192, "K": 8192} for m in (16, 64, 128, 32, 256))
_HEADS = (
    {"batch": 4, "length": 4096, "heads": 16, "dim": 128},
    {"batch": 16, "length": 1024, "heads": 16, "dim": 64},
    {"batch": 1, "length": 8192, "heads": 32, "dim": 128},
    {"batch": 32, "length": 512, "heads": 8, "dim": 128},
    {"batch": 2, "length": 2048, "heads": 32, "dim": 64},
)  # fmt: skip

CASES = (
    Case("gemm-nt", gpu_kernels.matmul_nt, _gemm("MK", "NK"),
         _square(8192, 4096, 2048, 1024, 6144), {"M": 256, "N": 256, "K": 256},
         development=True, static={"dtype": "bfloat16"}),
    Case("attention", attention.attention, _attention, _HEADS,
         {"batch": 1, "length": 128, "heads": 2, "dim": 64}, development=True),
    Case("softmax", tuned_kernels.softmax, _rows("bfloat16"), _TALL, {"M": 64, "N": 512},
         development=True),
    Case("gemm-nn", gpu_kernels.matmul, _gemm("MK", "KN"),
         ({"M": 4096, "N": 4096, "K": 4096}, {"M": 8192, "N": 2048, "K": 2048},
          {"M": 2048, "N": 8192, "K": 1024}, {"M": 512, "N": 4096, "K": 4096},
          {"M": 3072, "N": 3072, "K": 12288}), {"M": 256, "N": 256, "K": 128}),
    Case("gemm-skinny", gpu_kernels.matmul_skinny, _gemm("MK", "NK"), _TOKENS,
         {"M": 16, "N": 256, "K": 512}, static={"shift": 1}),
    Case("int4", gpu_kernels.matmul_int4, _int4,
         ({"M": 4096, "N": 4096, "K": 4096}, {"M": 512, "N": 8192, "K": 8192},
          {"M": 2048, "N": 8192, "K": 2048}, {"M": 8192, "N": 8192, "K": 8192},
          {"M": 1024, "N": 1024, "K": 4096}), {"M": 128, "N": 128, "K": 128}),
    Case("grouped", grouped_matmul.grouped_matmul, _grouped,
         ({"rows": 8192, "experts": 16, "N": 4096, "K": 2048},
          {"rows": 4096, "experts": 64, "N": 2048, "K": 2048},
          {"rows": 16384, "experts": 8, "N": 2048, "K": 4096},
          {"rows": 2048, "experts": 32, "N": 4096, "K": 1024},
          {"rows": 32768, "experts": 8, "N": 1024, "K": 4096}),
         {"rows": 256, "experts": 3, "N": 256, "K": 128}, fill=_fill_grouped),
    Case("rms-norm", tuned_kernels.rms_norm,
         lambda s: {"X": ((s["M"], s["N"]), "bfloat16"), "W": ((s["N"],), "bfloat16")}, _TALL,
         {"M": 64, "N": 512}),
    Case("transpose", gpu_kernels.transpose, _rows("bfloat16"), _TALL, {"M": 256, "N": 256}),
    Case("row-sums", tuned_kernels.row_sums, _rows("bfloat16"), _TALL, {"M": 64, "N": 1024}),
    Case("row-scan", tuned_kernels.row_scan, _rows("float32"), _TALL, {"M": 64, "N": 1024}),
)  # fmt: skip
