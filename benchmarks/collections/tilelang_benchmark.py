"""Tests of the kernels of tile-ai/tilelang-benchmark, at sizes that a processor can run.

Where a file has a reference it is used; the others are compared with the same computation in
PyTorch.  Files for AMD are left out.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import tilelang
import torch

ROOT = Path(__file__).resolve().parents[1] / "hopper_benchmark"
MHA = "flashattention/{}/benchmark_{}_mha.py"
BSA = "blocksparse_attention/{}/benchmark_{}_bsa.py"


def load(path: str) -> Any:
    """Return a module of the checkout."""
    spec = importlib.util.spec_from_file_location("held", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", [MHA.format("1.tilelang_benchmark", "tilelang"),
                                  MHA.format("0.torch_benchmark", "torch")])  # fmt: skip
@pytest.mark.parametrize(
    ("queries", "keys", "is_causal"), [(256, 256, False), (256, 256, True), (128, 384, False)]
)
def test_attention(path: str, queries: int, keys: int, is_causal: bool) -> None:
    """Attention.  A causal one has as many queries as keys: with fewer, the file's kernel leaves
    out keys that its mask lets through."""
    module = load(path)
    program = module.flashattn(1, 2, queries, keys, 64, is_causal)(128, 128, 2, 256)
    kernel = tilelang.compile(program, out_idx=[3])
    q = torch.randn(1, 2, queries, 64, dtype=torch.float16)
    k, v = (torch.randn(1, 2, keys, 64, dtype=torch.float16) for _ in range(2))
    want = module.ref_program(q.float(), k.float(), v.float(), is_causal)
    torch.testing.assert_close(kernel(q, k, v).float(), want, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("path", [BSA.format("1.tilelang-benchmark", "tilelang"),
                                  BSA.format("2.torch-becnhmark", "torch")])  # fmt: skip
@pytest.mark.parametrize("is_causal", [False, True])
def test_block_sparse_attention(path: str, is_causal: bool) -> None:
    """Attention over the blocks that its own function chooses."""
    module = load(path)
    length, block, blocks = 512, 64, 8
    program = module.blocksparse_flashattn(1, 2, length, 64, blocks, block, is_causal)
    kernel = tilelang.compile(program, out_idx=[4])
    q, k, v = (torch.randn(1, 2, length, 64, dtype=torch.float16) for _ in range(3))
    chosen = torch.randn(1, 2, blocks, blocks)
    chosen[..., 0] = 100
    mask = module.get_sparse_attn_mask_from_topk(chosen, topk=4)
    seen = mask.repeat_interleave(block, 2).repeat_interleave(block, 3)
    if is_causal:
        seen = seen & torch.ones(length, length, dtype=torch.bool).tril()
    scores = torch.einsum("bhqd,bhkd->bhqk", q.float(), k.float()) / 8
    scores = scores.masked_fill(~seen, float("-inf"))
    want = torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v.float())
    torch.testing.assert_close(kernel(q, k, v, mask).float(), want, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("at", [0, 5, 31, 60, 100, 107, 131])
def test_int8_product(at: int) -> None:
    """A @ B.T of integers, with some of the configurations that the file tries."""
    module = load("dense_matmul/3.tilelang-benchmark/benchmark_tilelang_matmul.py")
    kernel = _configured(module, at, 512, 512, 512)
    a, b = (torch.randint(-9, 9, (512, 512), dtype=torch.int8) for _ in range(2))
    assert torch.equal(kernel(a, b), a.int() @ b.int().T)


@pytest.mark.parametrize("at", [0, 21, 60, 100, 150])
def test_int2_product(at: int) -> None:
    """B @ A.T where B holds four numbers of two bits in a byte."""
    module = load("dequantize_matmul/3.tilelang-benchmark/benchmark_tilelang_matmul_fp16xfp4.py")
    kernel = _configured(module, at, 256, 256, 512)
    a = torch.randint(-2, 3, (256, 512), dtype=torch.int8)
    b = torch.randint(0, 256, (256, 128), dtype=torch.uint8)
    parts = torch.stack([b >> shift & 3 for shift in (0, 2, 4, 6)], dim=-1).reshape(256, 512)
    # The result is cut to eight bits, as the file has it.
    assert torch.equal(kernel(a, b), (parts.int() @ a.int().T).to(torch.int8))


def _configured(module: Any, at: int, m: int, n: int, k: int) -> Any:
    """Return the kernel for one of the configurations; the file's tuner would time them all."""
    configs = module.get_configs(m, n, k)
    module.get_configs = lambda *sizes: [configs[at % len(configs)]]
    return module.matmul(m, n, k, False)


@pytest.mark.parametrize("is_fast", [False, True])
def test_int4_vector(is_fast: bool) -> None:
    """A row times a matrix of four-bit numbers; decoding by CUDA text is not possible here."""
    if is_fast:
        pytest.skip("fast_decoding=True calls CUDA C++ text (T.call_extern)")
    module = load("dequantize_matmul/3.tilelang-benchmark/benchmark_tilelang_matmul_fp16xint4.py")
    half = ("float16", "float16", "float16")
    kernel = tilelang.compile(module.dequantize_gemv(1, 256, 1024, *half, reduce_thread=32))
    a = torch.rand(1, 1024).half()
    b = torch.randint(0, 127, (256, 512)).to(torch.int8)
    c = torch.zeros(1, 256).half()
    kernel(a, b, c)
    parts = torch.stack((b << 4 >> 4, b >> 4), dim=-1).reshape(256, 1024)
    want = a.float() @ parts.float().T
    torch.testing.assert_close(c.float(), want, rtol=2e-2, atol=1.0)
