"""The kernels that have a page in docs/case-studies/kernels, and how each is called at its size.

In: sizes, as `tileprof compile --set` takes them, and a device.  Out: a call that takes the options
of the kernel. The sizes are those of `gpu_attention.py`, `gpu_int4.py` and `gpu_products.py`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

if TYPE_CHECKING:
    import torch

__all__ = ["KERNELS", "ROOT", "Kernel", "Options", "Sizes", "module_of"]

Sizes: TypeAlias = Mapping[str, int]
Options: TypeAlias = Mapping[str, int | str]
Call: TypeAlias = Callable[..., Any]


@dataclass(frozen=True)
class Kernel:
    """One page."""

    name: str
    """Of its file."""
    title: str
    module: str
    """Of `case_studies`."""
    sizes: Sizes
    made: Callable[[Sizes, str], Call]
    """From sizes and a device to a call with options."""
    ways: tuple[Options, ...] = ({},)
    """Options that are tried; the fastest are profiled."""
    row: str = ""
    """Its row in `results/attention.json`, where it has one."""
    function: str = ""
    """The kernel in its module, where it has another name."""

    @property
    def source(self) -> str:
        """As `tileprof compile` takes it."""
        return f"case_studies/{self.module}.py:{self.function or self.module}"

    def command(self, options: Options) -> list[str]:
        """Arguments of `tileprof` that print its remarks."""
        values = [
            part for name, value in {**self.sizes, **options}.items()
            for part in ("--set", f"{name}={value}")
        ]  # fmt: skip
        return ["compile", self.source, "--target", "sm_90a", *values, "--emit", "remarks"]


def module_of(kernel: Kernel) -> Any:
    """Its module."""
    return importlib.import_module(f"case_studies.{kernel.module}")


def normal(device: str, *shape: int) -> torch.Tensor:
    """Random normal numbers in bfloat16."""
    import torch

    return torch.randn(*shape, device=device, dtype=torch.bfloat16)


def picked(sizes: Sizes, names: str) -> list[int]:
    """Sizes by their names."""
    return [sizes[name] for name in names.split()]


# -- attention


def heads_of(n: Sizes, device: str) -> list[torch.Tensor]:
    """Queries, keys and values."""
    q = normal(device, *picked(n, "batch length heads dim"))
    shape = picked(n, "batch keys groups dim")
    return [q, normal(device, *shape), normal(device, *shape)]


def forward(n: Sizes, device: str) -> Call:
    """Full, or causal."""
    from case_studies.attention import attention

    return partial(attention, *heads_of(n, device), causal=bool(n.get("causal", False)))


def backward(n: Sizes, device: str) -> Call:
    """All three kernels of a backward pass."""
    import torch

    from case_studies import attention_backward
    from case_studies.attention import attention

    given, causal = heads_of(n, device), bool(n["causal"])
    d_out = normal(device, *given[0].shape)
    out, lse = attention(*given, causal=causal)
    sums = torch.empty(given[0].shape, device=device, dtype=torch.float32)

    def run(**options: Any) -> Any:
        delta = attention_backward.row_dots(out, d_out, sums)
        made = attention_backward.attention_backward(
            *given, d_out, lse, delta, sums, causal=causal, **options
        )
        return (*made, attention_backward.rounded(sums.view(-1, n["dim"])))

    return run


def varlen(n: Sizes, device: str) -> Call:
    """Sequences of which each is longer than the one before, by as much."""
    import torch

    from case_studies.attention_varlen import attention_varlen

    count, longest = n["ends"] - 1, n["longest"]
    lengths = torch.tensor([longest * (b + 1) // count for b in range(count)])
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(device, torch.int32)
    rows = int(lengths.sum())
    q = normal(device, rows, n["heads"], n["dim"])
    k, v = (normal(device, rows, n["groups"], n["dim"]) for _ in range(2))
    causal = bool(n["causal"])
    return partial(attention_varlen, q, k, v, starts, starts, longest=longest, causal=causal)


def sparse(n: Sizes, device: str) -> Call:
    """Each tile of queries looks at half of the tiles of keys, those drawn by lot."""
    import torch

    from case_studies.sparse_attention import lists, sparse_attention

    drawn = torch.Generator().manual_seed(0)
    mask = torch.rand(picked(n, "batch heads rows most"), generator=drawn) < 0.5
    tiles = [torch.from_numpy(each).to(device) for each in lists(mask.numpy())]
    return partial(sparse_attention, *heads_of(n, device), *tiles)


def latent(n: Sizes, device: str) -> Call:
    """Decoding with compressed keys."""
    from case_studies.mla_decode import mla_decode

    shapes = ("batch heads rank", "batch heads rope", "batch keys rank", "batch keys rope")
    return partial(mla_decode, *(normal(device, *picked(n, each)) for each in shapes))


def paged(n: Sizes, device: str) -> Call:
    """Sequences that fill their pages, which lie one behind the other."""
    import torch

    from case_studies.paged_attention import paged_attention_whole

    q = normal(device, *picked(n, "batch heads dim"))
    shape = picked(n, "pages size dim")
    k, v = (normal(device, *shape) for _ in range(2))
    table = torch.arange(n["pages"], device=device, dtype=torch.int32).view(n["batch"], n["most"])
    count = n["most"] * n["size"] // n["groups"]
    keys = torch.full((n["batch"],), count, device=device, dtype=torch.int32)
    return partial(paged_attention_whole, q, k, v, table, keys, groups=n["groups"])


def scan(n: Sizes, device: str) -> Call:
    """Of Mamba-2."""
    import torch

    from case_studies.chunk_scan import chunk_scan

    dt = torch.rand(picked(n, "batch heads chunks size"), device=device) * 0.1
    cb = normal(device, *picked(n, "batch chunks groups size size"))
    x = normal(device, *picked(n, "batch length heads width"))
    c = normal(device, *picked(n, "batch length groups state"))
    states = normal(device, *picked(n, "batch chunks heads width state"))
    d = torch.randn(n["heads"], device=device)
    return partial(chunk_scan, cb, x, dt, torch.cumsum(-dt, -1), c, states, d)


def forward_float8(n: Sizes, device: str) -> Call:
    """With a scale for each head of queries, keys and values, which lie with keys last."""
    import torch

    from case_studies.fp8_attention import fp8_attention

    q, k, v = (x.to(torch.float8_e4m3fn) for x in heads_of(n, device))
    shapes = ("batch heads", *["batch groups"] * 2)
    scales = [torch.rand(*picked(n, each), device=device) + 0.5 for each in shapes]
    return partial(fp8_attention, q, k, v.permute(0, 2, 3, 1).contiguous(), *scales)


# -- products


def int4(n: Sizes, device: str) -> Call:
    """Packed weights, scales in groups."""
    import torch

    from case_studies.int4_matmul import GROUP, int4_matmul

    packed = torch.randint(0, 256, (n["N"], n["K"] // 2), device=device, dtype=torch.uint8)
    scales = torch.rand(n["N"], n["K"] // GROUP, device=device) + 0.5
    return partial(int4_matmul, normal(device, n["M"], n["K"]), packed, scales)


def fp8(n: Sizes, device: str) -> Call:
    """Weights of 8 bits, scales in groups."""
    import torch

    from case_studies.fp8_matmul import GROUP, fp8_matmul

    weights = normal(device, n["N"], n["K"]).to(torch.float8_e4m3fn)
    scales = torch.rand(n["K"] // GROUP, n["N"], device=device) + 0.5
    return partial(fp8_matmul, normal(device, n["M"], n["K"]), weights, scales)


def block_scaled(n: Sizes, device: str) -> Call:
    """Both of 8 bits, with scales of blocks."""
    import torch

    from case_studies.block_scaled_gemm import BLOCK, block_scaled_gemm

    a, b = (normal(device, *picked(n, each)).to(torch.float8_e4m3fn) for each in ("M K", "N K"))
    sizes = (n["K"] // BLOCK, n["M"]), (-(-n["N"] // BLOCK), n["K"] // BLOCK)
    scales = [torch.rand(*each, device=device) + 0.5 for each in sizes]
    return partial(block_scaled_gemm, a, b, *scales)


def grouped(n: Sizes, device: str) -> Call:
    """As many rows for each expert."""
    import torch

    from case_studies.grouped_matmul import grouped_matmul

    a, b = normal(device, n["rows"], n["K"]), normal(device, *picked(n, "experts K N"))
    each = n["rows"] // n["experts"]
    ends = torch.arange(1, n["experts"] + 1, device=device, dtype=torch.int32) * each
    return partial(grouped_matmul, a, b, ends)


_HEADS = {"batch": 4, "length": 4096, "heads": 16, "dim": 128, "keys": 4096, "groups": 16}
_CAUSAL = {**_HEADS, "causal": True}
_WIDE: tuple[Options, ...] = tuple({"block_N": n, "stages": 2} for n in (128, 160, 176))
_SQUARE = {"M": 8192, "N": 8192, "K": 8192}

KERNELS: tuple[Kernel, ...] = (
    Kernel("attention", "Attention forward, full", "attention", _HEADS, forward, _WIDE,
           "attention d128 4096 full"),
    Kernel("attention-causal", "Attention forward, causal", "attention", _CAUSAL, forward, _WIDE,
           "attention d128 4096 causal"),
    Kernel("fp8-attention", "Attention forward in float8, full", "fp8_attention", _HEADS,
           forward_float8, ({}, {"block_N": 192}), "attention fp8 d128 4096 full"),
    Kernel("attention-varlen", "Attention of sequences of different lengths", "attention_varlen",
           {"heads": 16, "dim": 128, "groups": 16, "ends": 9, "longest": 4096, "causal": True},
           varlen, _WIDE[:2]),
    Kernel("attention-backward", "Attention backward, causal", "attention_backward", _CAUSAL,
           backward, ({"stages": 2}, {"stages": 1}), "attention backward 4096 causal"),
    Kernel("sparse-attention", "Block-sparse attention", "sparse_attention",
           {**_HEADS, "rows": 32, "most": 32}, sparse),
    Kernel("mla-decode", "Decoding with latent attention", "mla_decode",
           {"batch": 132, "heads": 128, "keys": 8192, "rank": 512, "rope": 64}, latent,
           ({"splits": 1}, {"splits": 2}), "MLA decode 132×128×8192"),
    Kernel("paged-attention", "Decoding over a paged cache", "paged_attention",
           {"batch": 64, "heads": 32, "dim": 128, "pages": 8192, "size": 256, "groups": 4,
            "most": 128}, paged,
           tuple({"splits": s, "stages": 2, "rows": 64, "keep": "evict_first"} for s in (2, 4)),
           "decode 64×32/4×8192", "paged_attention_whole"),
    Kernel("chunk-scan", "Mamba-2's scan over chunks", "chunk_scan",
           {"batch": 8, "chunks": 16, "groups": 1, "size": 256, "length": 4096, "heads": 80,
            "width": 64, "state": 128}, scan,
           ({"near": 8}, {"near": 4}, {"near": 8, "block_K": 64}), "chunk scan 8×4096×80"),
    Kernel("int4-matmul", "bfloat16 times int4 weights", "int4_matmul", _SQUARE, int4,
           ({}, {"block_M": 128, "block_N": 128})),
    Kernel("fp8-matmul", "bfloat16 times float8 weights", "fp8_matmul", _SQUARE, fp8),
    Kernel("block-scaled-gemm", "float8 with scales of blocks", "block_scaled_gemm", _SQUARE,
           block_scaled, ({}, {"block_M": 128, "threads": 256, "stages": 5})),
    Kernel("grouped-matmul", "Grouped product", "grouped_matmul",
           {"rows": 8192, "K": 4096, "experts": 8, "N": 4096}, grouped,
           ({"block_N": 256, "stages": 3}, {"block_N": 128, "stages": 5}),
           "grouped 8 × 1024×4096×4096"),
)  # fmt: skip
