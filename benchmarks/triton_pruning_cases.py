"""Kernels whose lists of configurations are pruned: shapes, arguments, and references.

Each kernel of `benchmarks.triton_tuned` is called with three shapes.  Arguments are made with data,
or without (`absent`) as far as Triton's compiler looks at them.  A reference is PyTorch's result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Shape = Mapping[str, int]
_SIZES = {"float16": 2, "bfloat16": 2, "float32": 4}


@dataclass(frozen=True)
class Tensor:
    """Tensor to be made: element type and extents."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """A kernel with what it is called with."""

    name: str
    kernel: str
    configurations: str
    shapes: tuple[Shape, ...]
    arguments: Callable[[Shape], dict[str, Any]]
    grid: Callable[[Shape], Callable[[Mapping[str, Any]], tuple[int, ...]]]


def _up(a: int, b: int) -> int:
    return -(-a // b)


def _matmul(s: Shape) -> dict[str, Any]:
    m, n, k = s["M"], s["N"], s["K"]
    return {
        "a": Tensor("float16", (m, k)), "b": Tensor("float16", (k, n)),
        "c": Tensor("float16", (m, n)), "M": m, "N": n, "K": k, "sam": k, "sak": 1, "sbk": n,
        "sbn": 1, "scm": n, "scn": 1,
    }  # fmt: skip


def _grouped(s: Shape) -> dict[str, Any]:
    g, m, n, k = s["groups"], s["M"], s["N"], s["K"]
    return {
        "a": Tensor("float16", (g, m, k)), "b": Tensor("float16", (g, k, n)),
        "c": Tensor("float16", (g, m, n)), "groups": g, "M": m, "N": n, "K": k,
    }  # fmt: skip


def _softmax(s: Shape) -> dict[str, Any]:
    held = Tensor("float16", (s["M"], s["N"]))
    return {
        "x": held, "y": held, "rows": s["M"], "columns": s["N"], "stride": s["N"],
        "BLOCK": 1 << (s["N"] - 1).bit_length(),
    }  # fmt: skip


def _norm(s: Shape) -> dict[str, Any]:
    held, row = Tensor("float16", (s["M"], s["N"])), Tensor("float32", (s["N"],))
    return {"x": held, "y": held, "w": row, "b": row, "columns": s["N"], "stride": s["N"],
            "eps": 1e-5}  # fmt: skip


def _attention(s: Shape) -> dict[str, Any]:
    held = Tensor("float16", (s["heads"], s["length"], s["dim"]))
    return {
        "q": held, "k": held, "v": held, "o": held, "scale": s["dim"] ** -0.5,
        "length": s["length"], "CAUSAL": bool(s["causal"]), "DIM": s["dim"],
    }  # fmt: skip


def _dropout(s: Shape) -> dict[str, Any]:
    held = Tensor("float16", (s["n"],))
    return {"x": held, "residual": held, "y": held, "n": s["n"], "p": 0.1, "seed": 7}


def _gelu(s: Shape) -> dict[str, Any]:
    held = Tensor("float16", (s["n"],))
    return {"x": held, "y": held, "n": s["n"]}


def _matvec(s: Shape) -> dict[str, Any]:
    m, k = s["M"], s["K"]
    return {"a": Tensor("float16", (m, k)), "x": Tensor("float16", (k,)),
            "y": Tensor("float16", (m,)), "M": m, "K": k}  # fmt: skip


CASES = (
    Case(
        "matmul", "matmul", "MATMUL",
        ({"M": 4096, "N": 4096, "K": 4096}, {"M": 1024, "N": 8192, "K": 2048},
         {"M": 512, "N": 1024, "K": 4096}),
        _matmul, lambda s: lambda c: (_up(s["M"], c["BM"]) * _up(s["N"], c["BN"]),),
    ),
    Case(
        "grouped matmul", "grouped_matmul", "GROUPED",
        ({"groups": 8, "M": 1024, "N": 4096, "K": 1024},
         {"groups": 16, "M": 256, "N": 2048, "K": 4096},
         {"groups": 4, "M": 2048, "N": 2048, "K": 2048}),
        _grouped, lambda s: lambda c: (c["PROGRAMS"],),
    ),
    Case(
        "softmax", "softmax", "SOFTMAX",
        ({"M": 8192, "N": 4096}, {"M": 32768, "N": 1000}, {"M": 2048, "N": 16384}),
        _softmax, lambda s: lambda c: (_up(s["M"], c["ROWS"]),),
    ),
    Case(
        "layer norm", "layer_norm", "LAYER_NORM",
        ({"M": 8192, "N": 4096}, {"M": 32768, "N": 1024}, {"M": 4096, "N": 12288}),
        _norm, lambda s: lambda c: (s["M"],),
    ),
    Case(
        "attention", "attention", "ATTENTION",
        ({"heads": 64, "length": 4096, "dim": 128, "causal": 0},
         {"heads": 64, "length": 4096, "dim": 64, "causal": 1},
         {"heads": 256, "length": 1024, "dim": 128, "causal": 1}),
        _attention, lambda s: lambda c: (_up(s["length"], c["BM"]), s["heads"]),
    ),
    Case(
        "dropout", "dropout", "DROPOUT",
        ({"n": 1 << 20}, {"n": 1 << 24}, {"n": 1 << 27}),
        _dropout, lambda s: lambda c: (_up(s["n"], c["BLOCK"]),),
    ),
    Case(
        "gelu", "gelu", "GELU",
        ({"n": 1 << 20}, {"n": 1 << 24}, {"n": 1 << 27}),
        _gelu, lambda s: lambda c: (_up(s["n"], c["BLOCK"]),),
    ),
    Case(
        "matvec", "matvec", "MATVEC",
        ({"M": 8192, "K": 8192}, {"M": 32768, "K": 2048}, {"M": 1024, "K": 16384}),
        _matvec, lambda s: lambda c: (_up(s["M"], c["BM"]),),
    ),
)  # fmt: skip


# -- arguments without a device


class Absent:
    """Tensor without data, as far as Triton's compiler looks at one."""

    def __init__(self, tensor: Tensor) -> None:
        self.dtype, self.shape = tensor.dtype, tensor.shape
        self.nbytes = math.prod(tensor.shape) * _SIZES[tensor.dtype]

    def data_ptr(self) -> int:
        """Return an aligned address."""
        return 1 << 12

    def is_contiguous(self) -> bool:
        """Return whether elements follow each other without gaps."""
        return True

    def stride(self) -> tuple[int, ...]:
        """Return the strides, in elements."""
        return tuple(math.prod(self.shape[at + 1 :]) for at in range(len(self.shape)))


def absent(case: Case, shape: Shape) -> dict[str, Any]:
    """Return arguments by name, with tensors that have no data, and the grid."""
    made = case.arguments(shape)
    held = {name: Absent(each) if isinstance(each, Tensor) else each for name, each in made.items()}
    return {**held, "grid": case.grid(shape)}


def present(case: Case, shape: Shape, device: str) -> dict[str, Any]:
    """Return arguments by name, with tensors of normal random numbers."""
    import torch

    torch.manual_seed(0)
    made: dict[str, Any] = {}
    for name, each in case.arguments(shape).items():
        if isinstance(each, Tensor):
            dtype = getattr(torch, each.dtype)
            made[name] = torch.randn(each.shape, dtype=dtype, device=device)
        else:
            made[name] = each
    return made


def kernel_of(case: Case) -> tuple[Any, list[Any]]:
    """Return a case's function and its configurations."""
    from benchmarks import triton_tuned

    return getattr(triton_tuned, case.kernel), list(getattr(triton_tuned, case.configurations))


def fault(case: Case, given: Mapping[str, Any]) -> str:
    """Compare what a kernel wrote with what PyTorch computes; '' where they agree."""
    import torch

    made = given[{"matmul": "c", "grouped matmul": "c", "attention": "o"}.get(case.name, "y")]
    if case.name == "dropout":
        # Which elements are dropped is the generator's business; how many, and what is kept, not.
        apart = made.float() - given["residual"].float()
        kept = given["x"].float() / (1 - given["p"])
        dropped = apart.abs() < 0.02
        right = (dropped | ((apart - kept).abs() < 0.02)).all()
        share = float((dropped & (kept.abs() > 0.1)).sum() / (kept.abs() > 0.1).sum())
        return "" if right and abs(share - given["p"]) < 0.02 else f"dropout: {share:.3f} dropped"
    expected = _expected(case, given)
    apart = (made.float() - expected.float()).abs()
    scale = expected.float().abs().mean()
    most = float((apart / (expected.float().abs() + scale)).max())
    del apart, expected
    torch.cuda.empty_cache()
    return "" if most < 0.02 else f"{case.name}: results differ by {most:.3f} of their size"


def _expected(case: Case, given: Mapping[str, Any]) -> Any:
    import torch
    from torch.nn import functional

    match case.name:
        case "matmul" | "grouped matmul":
            return given["a"] @ given["b"]
        case "softmax":
            return torch.softmax(given["x"].float(), dim=-1)
        case "layer norm":
            x = given["x"].float()
            return functional.layer_norm(x, x.shape[-1:], given["w"], given["b"], given["eps"])
        case "attention":
            q, k, v = (given[name][None] for name in "qkv")
            made = functional.scaled_dot_product_attention(q, k, v, is_causal=given["CAUSAL"])
            return made[0]
        case "gelu":
            return functional.gelu(given["x"].float())
        case "matvec":
            return given["a"] @ given["x"]
    raise AssertionError(f"no reference for {case.name}")
