"""TileLang's example kernels that are timed, and the shapes at which they are.

An example is run by its own `main` or test where that takes sizes; otherwise by a line of code that
calls its kernel.  The first run of each has the sizes that the example has when its file is
executed.  Nothing of a kernel is here, and no tile size that the example does not pass itself.

Names that code may use beside the example's own: `torch`, `T`, `tilelang`, `supply` (random
arguments for a compiled kernel), `call` (run a kernel on such arguments, and compare it `against` a
reference), `l2norm`, and what `examples_references.py` has.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["CASES", "Example", "Run", "Verdict"]


class Verdict(enum.StrEnum):
    """Result of comparing the results of tileprof or of TileLang with the example's reference."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """There is none, or the example ended before it."""


@dataclass(frozen=True, slots=True)
class Run:
    """One way to run an example."""

    code: str = ""
    """Statements, executed in the example's module; empty where importing it runs the kernel."""
    constants: Mapping[str, Any] = field(default_factory=dict)
    """New values of sizes that the example sets as literals, outside of its kernels."""

    def __str__(self) -> str:
        sizes = ", ".join(f"{n}={v}" for n, v in self.constants.items())
        return "; ".join(x for x in (sizes, self.code.strip().replace("\n", "; ")) if x)


@dataclass(frozen=True, slots=True)
class Example:
    """An example, or a part of it, at several shapes."""

    path: str
    """File below the folder of examples."""
    runs: tuple[Run, ...]
    label: str = ""
    asserts: bool = False
    """Whether it compares with a reference by an `assert` of its own."""
    shown: str = "%"
    """Shapes for the table, `%` the code."""

    @property
    def name(self) -> str:
        """Unique name."""
        return f"{self.path} ({self.label})" if self.label else self.path


def _codes(template: str, *shapes: object) -> tuple[Run, ...]:
    return tuple(
        Run(template.format(*(shape if isinstance(shape, tuple) else (shape,)))) for shape in shapes
    )


def _masks(path: str, template: str, *shapes: object) -> tuple[Example, Example]:
    """Return an example without and with the causal mask, whose flag stands at `%s`."""
    full, causal = (_codes(template % flag, *shapes) for flag in (False, True))
    return Example(path, full, "full"), Example(path, causal, "causal")


def _sizes(code: str, names: str, *shapes: tuple[Any, ...]) -> tuple[Run, ...]:
    return tuple(Run(code, dict(zip(names.split(), shape))) for shape in shapes)


_SQUARES = ((4096, 4096, 4096), (8192, 8192, 8192))
_GEMM = ((1024, 1024, 1024), *_SQUARES)
_RANDOM = "a, b = (torch.randn(*s, device='cuda').half() for s in (({0}, {2}), ({2}, {1})))\n"
_RANDOM_T = "a, b = (torch.randn(*s, device='cuda').half() for s in (({0}, {2}), ({1}, {2})))\n"
_CLOSE = "torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-2)"
_CLOSE_T = "torch.testing.assert_close(c, a @ b.T, rtol=1e-2, atol=1e-2)"

_PRODUCTS = (
    Example(
        "convolution/example_convolution.py",
        _codes(
            "main(['--n={}', '--c={}', '--h={}', '--w={}', '--f={}'])",
            (128, 128, 64, 64, 128), (32, 256, 56, 56, 256), (64, 64, 112, 112, 128),
        ),
    ),
    Example("quickstart.py", _sizes("", "M N K", *_GEMM)),
    Example(
        "gemm/example_gemm.py",
        _codes(
            _RANDOM + "c = matmul(a, b, 128, 128, 32)\n" + _CLOSE,
            *_GEMM,
        ),
    ),
    Example(
        "gemm/example_gemm_persistent.py",
        _codes("main({}, {}, {})", (8192, 8192, 8192), (4096, 4096, 4096), (8192, 4096, 2048)),
    ),
    Example(
        "gemm/example_gemm_autotune.py",
        _codes(
            "main({}, {}, {}, False, False)",
            (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 2048),
        ),
    ),
    Example(
        "gemm/example_gemm_advanced_autotune.py",
        _codes("main({}, {}, {})", (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 2048)),
    ),
    Example(
        "gemm/example_gemm_autotune_early_stop.py",
        _codes(
            _RANDOM_T + "c = matmul_early_stop({0}, {1}, {2})(a, b)\n" + _CLOSE_T,
            (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 2048),
        ),
    ),
    Example(
        "gemm/example_gemm_autotune_pass_configs.py",
        _codes(
            _RANDOM_T + "c = matmul_decorator({0}, {1}, {2})(a, b)\n" + _CLOSE_T,
            (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 2048),
        ),
    ),
    Example(
        "gemm_splitk/example_tilelang_gemm_splitk.py",
        _sizes("main()", "M N K", *_GEMM),
    ),
    Example(
        "gemm_splitk/example_tilelang_gemm_splitk_vectorize_atomicadd.py",
        _sizes("main()", "M N K", *_GEMM),
    ),
    Example(
        "gemm_streamk/example_tilelang_gemm_streamk.py",
        _sizes("main()", "m n k", (256, 1024, 512), (512, 4096, 4096), (2048, 4096, 4096)),
    ),
    Example(
        "gemm_fp8/example_tilelang_gemm_fp8.py",
        _codes("test_gemm_fp8({}, {}, {}, T.float8_e4m3fn)", *_GEMM),
        "e4m3",
        asserts=True,
    ),
    Example(
        "gemm_fp8/example_tilelang_gemm_fp8.py",
        _codes("test_gemm_fp8({}, {}, {}, T.float8_e5m2)", *_GEMM),
        "e5m2",
        asserts=True,
    ),
    Example(
        "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py",
        _codes("test_gemm_fp8({}, {}, {}, T.float8_e4m3fn)", *_GEMM),
        asserts=True,
    ),
    Example(
        "gemm_tcgen05/gemm_mma.py",
        _sizes("", "M N K", (128, 128, 32), *_SQUARES),
    ),
    Example(
        "gemv/example_gemv.py",
        _codes(
            "a, x = (torch.randn(s, device='cuda').half() for s in (({0}, {1}), ({1},)))\n"
            "c = gemv_alloc_reducer(a, x)\n"
            "torch.testing.assert_close(c, a @ x, rtol=1e-2, atol=1e-1)",
            (1024, 1024), (8192, 8192), (16384, 8192),
        ),
        "gemv_alloc_reducer",
    ),
    *(
        Example(
            "gemv/example_gemv.py",
            _codes(
                "a, b = (torch.randn(s, device='cuda').half() for s in (({1},), ({0}, {1})))\n"
                f"c = {kernel}(a, b, {sizes})\n"
                "torch.testing.assert_close(c, b @ a, rtol=1e-2, atol=1e-1)",
                (1024, 1024), (4096, 4096), (16384, 8192),
            ),
            kernel,
        )
        for kernel, sizes in (
            ("naive_gemv", "BLOCK_N=128, BLOCK_K=128"),
            ("naive_splitk_gemv", "BLOCK_N=32, BLOCK_K=32"),
            ("splitk_gemv", "BLOCK_N=32, BLOCK_K=32, reduce_threads=32"),
            ("splitk_gemv_vectorized", "BLOCK_N=2, reduce_threads=32"),
            ("splitk_gemv_vectorized_tvm", "BLOCK_N=2, reduce_threads=32"),
        )
    ),
    Example(
        "grouped_gemm/example_grouped_gemm_fwd.py",
        _codes(
            "run_tilelang_grouped_gemm({}, {}, {}, 64, 128, 64, False, 2, 256)",
            ([64, 128], 8192, 8192), ([1024] * 8, 4096, 4096), ([100, 900, 512, 2048], 4096, 2048),
        ),
    ),
    Example(
        "grouped_gemm/example_grouped_gemm_bwd.py",
        _codes(
            "run_tilelang_grouped_gemm({}, {}, {}, 64, 128, 64, False, 2, 256)",
            ([64, 128], 8192, 8192), ([1024] * 8, 4096, 4096), ([100, 900, 512, 2048], 4096, 2048),
        ),
    ),
    Example(
        "dynamic_shape/example_dynamic.py",
        _codes("main({}, {}, {})", (16384, 16384, 16384), (4096, 4096, 4096), (8192, 4096, 2048)),
    ),
    Example(
        "blocksparse_gemm/example_blocksparse_gemm.py",
        _codes(
            "import sys; sys.argv[1:] = ['--m={}', '--n={}', '--k={}']\nmain()",
            (1024, 1024, 1024), *_SQUARES,
        ),
    ),
    Example(
        "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py",
        _codes(
            "assert_tl_gemm_correctness({}, {}, {}, 128, T.float8_e4m3fn, T.bfloat16, T.float32)",
            (1024, 1024, 8192), (4096, 4096, 4096), (8192, 4096, 7168),
        ),
        asserts=True,
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_barrierpipe_stage2.py",
        _codes("main({}, {}, {})", (16384, 16384, 16384), *_SQUARES),
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_copy_0_gemm_1.py",
        _codes("main({}, {}, {})", *_GEMM),
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_copy_1_gemm_0.py",
        _codes("main({}, {}, {})", (16384, 16384, 16384), *_SQUARES),
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_softpipe_stage2.py",
        _codes("main({}, {}, {})", (16384, 16384, 16384), *_SQUARES),
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_copy_gemm_0_1.py",
        (Run("main()"), *_codes(
            _RANDOM + "c = matmul_warp_specialize_copy_gemm_0_1(a, b, 128, 128, 64)\n" + _CLOSE,
            *_SQUARES,
        )),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_bf16_fp4_hopper.py",
        _codes("main({}, {}, {}, False)", (256, 256, 256), (4096, 4096, 4096), (256, 8192, 8192)),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py",
        _codes("main({}, {}, {}, 32, fast_dequant=False)", (256, 256, 256), (4096, 4096, 4096),
               (256, 8192, 8192)),
        "without bias",
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py",
        _codes("main({}, {}, {}, 32, fast_dequant=False, with_bias=True)", (256, 256, 256),
               (4096, 4096, 4096), (256, 8192, 8192)),
        "with bias",
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_fine_grained.py",
        _codes(
            "run_gemm({}, {}, {}, T.float16, T.float16, T.float32, 128, 128, 32, num_threads=128)",
            (256, 256, 256), (4096, 4096, 4096), (256, 8192, 8192),
        ),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemv_fp16xint4.py",
        _codes(
            "n, k = {}, {}\n"
            "kinds = (T.float16, T.float16, T.float32)\n"
            "kernel = dequantize_gemv(1, n, k, *kinds, 4, T.int8, 'uint', 4, 32, False)\n"
            "a = torch.rand(1, k, device='cuda').half()\n"
            "b = torch.randint(0, 127, (n, k // 2), device='cuda').to(torch.int8)\n"
            "c = torch.zeros(1, n, device='cuda').half()\n"
            "kernel(a, b, c)\n"
            "signed = torch.stack((b << 4 >> 4, b >> 4), dim=-1).reshape(n, k).half()\n"
            "torch.testing.assert_close(c, a @ signed.T, rtol=1e-2, atol=1.0)",
            (1024, 1024), (8192, 8192), (28672, 8192),
        ),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_w4a8.py",
        _codes("main({}, {}, {})", (512, 512, 512), (4096, 4096, 4096), (1024, 8192, 8192)),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_fp4_hopper.py",
        _codes("main({}, {}, {})", (256, 256, 256), (4096, 4096, 4096), (1024, 8192, 8192)),
    ),
    Example(
        "fusedmoe/example_fusedmoe_tilelang.py",
        _codes(
            "main(d_hidden={}, d_expert={}, seq_len={})",
            (7168, 2048, 8192), (4096, 1536, 4096), (2048, 1024, 8192),
        ),
    ),
)  # fmt: skip

_MHA = "flash_attention/example_mha_"
_GQA = "flash_attention/example_gqa_"
_SINK = "attention_sink/example_"
_SPARSE = "blocksparse_attention/example_tilelang_"

_ATTENTION = (
    *_masks(
        f"{_MHA}fwd_bshd.py", "main({}, {}, {}, {}, %s)",
        (8, 32, 4096, 128), (1, 16, 8192, 128), (4, 32, 2048, 64),
    ),
    *_masks(
        f"{_MHA}fwd_bhsd.py", "main({}, {}, {}, {}, {}, %s)",
        (1, 1, 256, 256, 64), (4, 32, 2048, 2048, 128), (1, 16, 8192, 8192, 64),
    ),
    *_masks(
        f"{_GQA}fwd_bshd.py", "main({}, {}, {}, {}, %s, {})",
        (1, 64, 4096, 128, 16), (4, 32, 2048, 128, 8), (1, 32, 8192, 64, 4),
    ),
    *_masks(
        f"{_MHA}bwd_bshd.py", "main({}, {}, {}, {}, %s)",
        (8, 32, 1024, 64), (4, 16, 2048, 128), (1, 16, 4096, 64),
    ),
    Example(
        f"{_MHA}bwd_bhsd.py",
        _codes("main({}, {}, {}, {}, False)", (8, 32, 1024, 64), (4, 16, 2048, 128),
               (1, 16, 4096, 64)),
    ),
    Example(
        f"{_GQA}bwd.py",
        _codes("main({}, {}, {}, {}, {}, {}, False)", (8, 32, 1024, 192, 128, 16),
               (2, 32, 2048, 128, 128, 8), (1, 16, 4096, 64, 64, 4)),
        "atomic",
    ),
    Example(
        f"{_GQA}bwd.py",
        _codes("main({}, {}, {}, {}, {}, {}, False, False)", (8, 32, 1024, 192, 128, 16),
               (2, 32, 2048, 128, 128, 8), (1, 16, 4096, 64, 64, 4)),
        "split",
    ),
    Example(
        f"{_GQA}bwd_tma_reduce.py",
        _codes("main({}, {}, {}, {}, {}, {}, False)", (8, 32, 1024, 192, 128, 16),
               (2, 32, 2048, 128, 128, 8), (1, 16, 4096, 64, 64, 4)),
    ),
    Example(
        f"{_GQA}bwd_tma_reduce_varlen.py",
        _codes("main({}, {}, {}, {}, {}, {}, True)", (8, 32, 1024, 192, 128, 16),
               (2, 32, 2048, 128, 128, 8), (1, 16, 4096, 64, 64, 4)),
    ),
    Example(
        f"{_MHA}fwd_varlen.py",
        _codes("main({}, {}, {}, {}, {})", (8, 64, 2048, 128, False), (4, 16, 4096, 128, False),
               (8, 16, 1024, 64, False)),
    ),
    Example(
        f"{_GQA}fwd_varlen.py",
        _codes("main({}, {}, {}, {}, {}, {})", (8, 64, 2048, 2048, 128, 16),
               (4, 32, 4096, 4096, 128, 8), (8, 16, 1024, 1024, 64, 4)),
    ),
    Example(
        f"{_SINK}mha_sink_fwd_bhsd.py",
        _codes("main({}, {}, {}, {}, {})", (8, 32, 4096, 4096, 128), (1, 16, 8192, 8192, 128),
               (4, 32, 2048, 2048, 64)),
        "full",
    ),
    Example(
        f"{_SINK}mha_sink_fwd_bhsd.py",
        _codes("main({}, {}, {}, {}, {}, window_size={})", (8, 32, 4096, 4096, 128, 128),
               (1, 16, 8192, 8192, 128, 1024), (4, 32, 2048, 2048, 64, 256)),
        "window",
    ),
    Example(
        f"{_SINK}mha_sink_bwd_bhsd.py",
        _codes("main({}, {}, {}, {})", (1, 64, 4096, 128), (2, 32, 2048, 128), (1, 16, 4096, 64)),
    ),
    Example(
        f"{_SINK}gqa_sink_bwd_bhsd.py",
        _codes("main({}, {}, {}, {}, {}, {})", (1, 64, 4096, 128, 8, 128),
               (2, 32, 2048, 128, 8, None), (1, 64, 2048, 64, 4, 256)),
    ),
    Example(
        f"{_SINK}gqa_sink_fwd_varlen.py",
        _codes("main({}, {}, {}, {}, {}, {}, {})", (8, 64, 2048, 2048, 128, 16, False),
               (4, 32, 2048, 2048, 128, 8, True), (8, 64, 1024, 1024, 64, 8, True)),
    ),
    Example(
        f"{_SINK}gqa_sink_bwd_varlen.py",
        _codes("main({}, {}, {}, {}, {}, {}, {})", (8, 64, 2048, 2048, 128, 16, False),
               (4, 32, 2048, 2048, 128, 8, True), (8, 64, 1024, 1024, 64, 8, True)),
    ),
    Example(
        f"{_SPARSE}block_sparse_attn.py",
        _sizes("main()", "BATCH N_HEADS SEQ_LEN D_HEAD TOPK", (1, 1, 256, 64, 2),
               (2, 16, 4096, 64, 16), (1, 16, 8192, 128, 16)),
    ),
    Example(
        "seer_attention/block_sparse_attn_tilelang.py",
        _sizes("test_topk_sparse_attention()", "BATCH N_HEADS SEQ_LEN D_HEAD TOPK",
               (4, 2, 256, 64, 2), (2, 16, 4096, 64, 16), (1, 16, 8192, 128, 16)),
    ),
    Example(
        f"{_SPARSE}sparse_gqa_decode_varlen_indice.py",
        _codes("main({}, {}, {}, {}, {}, {})", (8, 32, 8, 8192, 128, 128),
               (32, 32, 8, 8192, 128, 128), (16, 64, 8, 16384, 128, 128)),
    ),
    Example(
        f"{_SPARSE}sparse_gqa_decode_varlen_mask.py",
        _codes("main({}, {}, {}, {}, {}, {})", (8, 32, 8, 8192, 128, 128),
               (32, 32, 8, 8192, 128, 128), (16, 64, 8, 16384, 128, 128)),
    ),
    Example(
        f"{_SPARSE}sparse_gqa_decode_paged.py",
        _codes(
            "import argparse\n"
            "main(argparse.Namespace(batch={}, heads=32, heads_kv=8, max_cache_seqlen={}, dim=128,"
            " dim_v=128, sparse_ratio={}, block_N=64, page_block_size=256, num_pages={}))",
            (8, 8192, 0.0, 1024), (16, 8192, 0.5, 1024), (8, 16384, 0.8, 1024),
        ),
    ),
    Example(
        "block_causal_attention/block_causal_attention.py",
        _codes("_run_fixed_case({}, {}, {}, {}, _SUPPORTED_DLLM_BLOCKS[0])", (2, 256, 2, 64),
               (2, 4096, 16, 64), (1, 4096, 16, 128)),
    ),
    Example(
        "block_causal_attention/block_causal_attention_varlen.py",
        _codes("_run_varlen_case({}, heads={}, dim={}, dllm_block=_SUPPORTED_DLLM_BLOCKS[0])",
               ([128, 256, 384], 2, 64), ([2048, 1024, 4096], 16, 64), ([2048, 1024], 16, 128)),
    ),
    Example(
        "flash_decoding/example_gqa_decode.py",
        _codes("main({}, {}, {}, {}, {})", (1, 32, 8, 8192, 128), (16, 32, 8, 8192, 128),
               (8, 64, 8, 16384, 128)),
    ),
    Example(
        "flash_decoding/example_mha_inference.py",
        _codes("main({}, {}, {}, {}, {}, False)", (1, 32, 128, 8192, 128), (4, 32, 128, 8192, 128),
               (8, 16, 256, 4096, 64)),
    ),
    Example(
        "flash_decoding/example_gqa_decode_varlen_logits.py",
        _codes(
            "import argparse\n"
            "test_varlen_decode_main(argparse.Namespace(batch_size={}, q_heads=32, kv_heads=8,"
            " k_seqlen={}, head_size=128, block_size=128, dtype=T.float16, test_sink=True,"
            " test_varlen=True, num_split=1))",
            (1, 8192), (16, 8192), (32, 4096),
        ),
    ),
    Example(
        "deepseek_mla/example_mla_decode.py",
        _codes("main(batch={}, kv_ctx={})", (132, 8192), (32, 4096), (128, 2048)),
    ),
    Example(
        "deepseek_mla/example_mla_decode_persistent.py",
        _codes("import sys; sys.argv[1:] = ['--batch={}', '--kv_ctx={}']\nmain()",
               (128, 8192), (32, 4096), (128, 2048)),
    ),
    Example(
        "deepseek_mla/example_mla_decode_paged.py",
        _codes(
            "b, length, h, d, dv, page = {}, {}, 128, 576, 512, 64\n"
            "lengths = torch.tensor([length + 2 * i for i in range(b)], dtype=torch.int32,"
            " device='cuda')\n"
            "most = -(-(length + 2 * (b - 1)) // 256) * 256\n"
            "q = torch.randn(b, 1, h, d, dtype=torch.float16, device='cuda')\n"
            "table = torch.arange(b * most // page, dtype=torch.int32, device='cuda')"
            ".view(b, most // page)\n"
            "k = torch.randn(table.numel(), page, 1, d, dtype=torch.float16, device='cuda')\n"
            "run_tilelang_mla(q, table, k, most, page, b, 1, lengths, h, 1, d, dv, True,"
            " torch.float16)",
            (128, 8192), (32, 4096), (128, 2048),
        ),
    ),
    Example(
        "deepseek_mla/experimental/example_mla_decode_kv_fp8.py",
        _codes(
            "flashattn({}, 128, 1, {}, 512, 64, 64, 64).get_profiler()"
            ".assert_allclose(ref_program, rtol=1e-2, atol=1e-2)",
            (128, 8192), (32, 4096), (128, 2048),
        ),
    ),
    Example(
        "deepseek_nsa/example_tilelang_nsa_fwd.py",
        _sizes("main()", "B SEQ_LEN H HQ D S block_size",
               (2, 64, 1, 16, 32, 1, 32), (1, 1024, 1, 16, 64, 8, 32),
               (1, 2048, 1, 16, 128, 8, 64)),
    ),
    Example(
        "deepseek_nsa/example_tilelang_nsa_decode.py",
        _sizes("main()", "B SEQ_LEN H HQ D S block_size",
               (2, 64, 1, 16, 16, 1, 32), (64, 4096, 1, 16, 64, 16, 32),
               (128, 8192, 1, 16, 128, 16, 64)),
    ),
    Example(
        "deepseek_v32/sparse_mla_fwd.py",
        _codes("test_sparse_mla_fwd(S={}, SKV={}, H=128, topk={})",
               (4096, 4096, 2048), (1024, 8192, 2048), (2048, 2048, 512)),
        asserts=True,
    ),
    Example(
        "deepseek_v4/sparse_attn_fwd_sm90.py",
        _codes("test_correctness({}, {}, {}, {}, {}, {})", (1, 8, 512, 1024, 128, 256),
               (1, 64, 2048, 4096, 128, 512), (1, 128, 1024, 4096, 512, 512)),
    ),
    Example(
        "dsa_sparse_finetune/sparse_mla_fwd.py",
        _codes("test_sparse_mla_fwd(S={}, H={}, topk={}, block_I=64, num_stages=2, threads=256)",
               (4096, 128, 1024), (2048, 128, 512), (4096, 64, 512)),
        asserts=True,
    ),
    Example(
        "dsa_sparse_finetune/sparse_mla_bwd.py",
        _codes("test_sparse_mla_bwd(S={}, H={}, topk={})",
               (2048, 64, 512), (1024, 128, 512), (4096, 64, 256)),
        asserts=True,
    ),
    Example(
        "dsa_sparse_finetune/sparse_mla_topk_reducesum.py",
        _codes("test_kernel(S={}, H={}, topk={})", (2048, 16, 128), (2048, 64, 256),
               (4096, 16, 64)),
        asserts=True,
    ),
    Example(
        "dsa_sparse_finetune/indexer_bwd.py",
        _codes("test_kernel(S={}, H={}, topk={})", (2048, 16, 64), (2048, 64, 128), (4096, 16, 64)),
        asserts=True,
    ),
    Example(
        "dsa_sparse_finetune/indexer_topk_reducesum.py",
        _codes("test_kernel(S={}, H={}, topk={})", (2048, 64, 64), (2048, 64, 128), (4096, 16, 64)),
        asserts=True,
    ),
    Example(
        "dsa_hisa/block_sparse_mqa_fp8.py",
        _codes("test_fp8_block_sparse_mqa({}, 64, 128, {}, {}, {})", (1024, 128, 64, 1),
               (4096, 128, 16, 1), (2048, 64, 32, 4)),
        asserts=True,
    ),
    Example(
        "dsa_hisa/pool_mqa_fp8.py",
        _codes("test_pool_mqa_fp8({}, 64, 128, 128, 256, {})", (32768, 1), (32768, 4), (65536, 8)),
        asserts=True,
    ),
)  # fmt: skip

_FLA = (
    "l2norm_fwd = l2norm\nfused_chunk_linear_attn = lambda q, k, v, **rest: ref_program(q, k, v)\n"
)
"""Functions of a package that may not be there."""
_UNIT = (
    "normal = lambda *a: torch.randn(*a, device='cuda').bfloat16()\n"
    "unit = lambda *a: F.normalize(torch.randn(*a, device='cuda'), dim=-1).bfloat16()\n"
)
"""Numbers as these examples draw them.  With rows of `W` that are not of length 1 too, states grow
from chunk to chunk: some overflow, and others amplify what was rounded."""
_GDN = "'bfloat16', 'bfloat16', 'float32', 'float32'"
_CHUNKS = ((1, 32768, 32), (1, 8192, 32), (4, 4096, 16))
_CHUNKS_8 = ((1, 32768, 8), (1, 8192, 32), (4, 4096, 16))
_KDA = ((1, 8192, 64), (1, 4096, 32), (4, 4096, 16))

_SCANS = (
    Example(
        "linear_attention/example_linear_attn_fwd.py",
        _codes(_FLA + "main({}, {}, {}, {})", (8, 1024, 32, 128), (1, 512, 16, 128),
               (4, 4096, 16, 128)),
        asserts=True,
    ),
    Example(
        "linear_attention/example_linear_attn_bwd.py",
        _codes(_FLA + "main({}, {}, {}, {})", (8, 1024, 32, 128), (1, 1024, 16, 128),
               (4, 4096, 16, 128)),
        asserts=True,
    ),
    Example(
        "linear_attention/example_retention_fwd.py",
        _codes("call(chunk_retention_fwd_kernel({0}, {1}, {2}, {3}, {3}))", (8, 4096, 32, 128),
               (1, 4096, 16, 128), (8, 2048, 16, 128)),
    ),
    Example(
        "linear_attention/example_mamba_chunk_scan.py",
        _codes(
            "k = chunk_scan_fwd.compile(batch={}, seqlen={}, chunk_size=256, ngroups=1, nheads={},"
            " headdim=64, dstate=128, block_M=64, block_N=64, block_K=64, block_Dstate=128,"
            " num_stages=2, threads=128)\n"
            "call(k, dA_cumsum=lambda *a: -torch.rand(*a, device='cuda').cumsum(-1).half() / 8,"
            " dt=lambda *a: torch.rand(*a, device='cuda').half())",
            (8, 4096, 80), (2, 2048, 80), (8, 2048, 32),
        ),
    ),
    Example(
        "linear_attention/example_mamba_chunk_state.py",
        _codes(
            "k = chunk_state_fwd.compile(batch={}, seqlen={}, chunk_size=256, ngroups=1, nheads={},"
            " headdim=64, dstate=128, block_M=64, block_N=128, block_K=64, num_stages=4,"
            " threads=128)\n"
            "call(k, dA_cumsum=lambda *a: -torch.rand(*a, device='cuda').cumsum(-1).half() / 8,"
            " dt=lambda *a: torch.rand(*a, device='cuda').half())",
            (8, 4096, 80), (2, 2048, 80), (8, 2048, 32),
        ),
    ),
    Example(
        "gdn/example_chunk_delta_h.py",
        _codes(
            # Inputs are drawn as the example draws them, with a first state: without one the kernel
            # reads shared memory that it has never written.
            _UNIT + "call(tilelang_chunk_gated_delta_rule_fwd_h({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, True, True, True, True, block_DK=32, block_DV=32, threads=128,"
            " num_stages=2), delta_states, K=unit, W=unit, U=unit, G=chunk_gates,"
            " initial_state=normal)", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_chunk_o.py",
        _codes(
            "call(tilelang_chunk_fwd_o({}, {}, {}, 128, 128, " + _GDN +
            ", 64, 128**-0.5, True, 64, 128, 128, 128, 1))", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_chunk_o_bwd.py",
        _codes(
            "call(tilelang_chunk_o_bwd_dqkwg({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 128**-0.5, True, True, 64, 64, 128, 0))", *_CHUNKS_8,
        ),
    ),
    Example(
        "gdn/example_chunk_scaled_dot_kkt.py",
        _codes(
            "call(tilelang_chunk_scaled_dot_kkt_fwd({}, {}, {}, 128, 64, 'bfloat16', 'bfloat16',"
            " 'float32', True, 64, 64, 128, 2))", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_cumsum.py",
        _codes(
            "call(tilelang_chunk_local_cumsum_scalar({}, {}, {}, 64, False, False, True, 'float32',"
            " 'float32', 64, 256, False))", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_wy_fast.py",
        _codes(
            "call(tilelang_recompute_w_u_fwd({}, {}, {}, 128, 128, 'bfloat16', 'bfloat16',"
            " 'float32', 'float32', 64, 64, 64, 32, 128, 3))", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_wy_fast_bwd_split.py",
        _codes(
            "call(tilelang_wy_fast_bwd({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 32, 32, 128, 0))", *_CHUNKS_8,
        ),
        "whole",
    ),
    Example(
        "gdn/example_wy_fast_bwd_split.py",
        _codes(
            "call(tilelang_wy_fast_bwd_split({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 32, 32, 128, 0))", *_CHUNKS_8,
        ),
        "split",
    ),
    Example(
        "gdn/example_chunk_delta_bwd.py",
        _codes(
            _UNIT + "call(tilelang_chunk_gated_delta_rule_bwd_dhu({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 128**-0.5, True, True, True, 32, 128, 1), delta_gradients, K=unit,"
            " W=unit, G=chunk_gates, dht=normal, dO=normal, dv=normal, Q=normal)", *_CHUNKS_8,
        ),
    ),
    Example(
        "kda/chunk_bwd_dqkwg.py",
        _codes(
            "call(chunk_bwd_dqkwg({}, {}, {}, 128, 128, 1.0, 64, 'float32', 'float32', 32, 32, 128,"
            " 2))", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_bwd_dv.py",
        _codes(
            "call(tilelang_chunk_bwd_kernel_dv_local({}, {}, {}, 128, 'bfloat16', 'bfloat16',"
            " 'float32', 64, 128, 128, 1))", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_bwd_gla_dA.py",
        _codes(
            "call(tilelang_chunk_bwd_kernel_dv_local({}, {}, {}, 128, 1.0, 'bfloat16', 'float32',"
            " 'bfloat16', 64, 128, 128, 1))", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_bwd_intra.py",
        _codes(
            "call(tilelang_chunk_bwd_intra({}, {}, {}, 128, 'float32', 'float32', 'float32',"
            " 'float32', 'float32', 64, 64))", (1, 8192, 8), (1, 4096, 32), (4, 4096, 8),
        ),
    ),
    Example(
        "kda/chunk_delta_bwd.py",
        _codes(
            _UNIT + "call(tilelang_chunk_gated_delta_rule_bwd_dhu({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 128**-0.5, True, True, True, 32, 128, 1), delta_gradients_keys,"
            " K=unit, W=unit, GK=chunk_gates, dht=normal, dv=normal,"
            " Q=lambda *a: normal(*a) * 0.01, dO=lambda *a: normal(*a) * 0.01)", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_delta_h_fwd.py",
        _codes(
            _UNIT.replace("bfloat16", "half") +
            "call(tilelang_chunk_gated_delta_rule_fwd_h({}, {}, {}, 128, 128, 'float16', 'float16',"
            " 'float32', 'float32', 'float32', 64, True, True, True, True, 32, 32, 128, 2),"
            " delta_states_keys, K=unit, W=unit, U=unit, GK=chunk_gates, initial_state=normal)",
            *_KDA,
        ),
    ),
    Example(
        "kda/chunk_inter_solve_fused.py",
        _codes(
            "call(tilelang_chunk_kda_fwd_inter_fused({}, {}, {}, 128, " + _GDN + ", 64, 16, 1.0))",
            *_KDA,
        ),
    ),
    Example(
        "kda/chunk_intra_token_parallel.py",
        _codes(
            "call(tilelang_chunk_kda_fwd_intra_token_parallel({}, {}, {}, 128, " + _GDN +
            ", 64, 16))", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_o.py",
        _codes(
            "call(tilelang_chunk_fwd_o({}, {}, {}, 128, 128, " + _GDN +
            ", 64, 128**-0.5, 64, 32, 32, 128, 1))", *_KDA,
        ),
    ),
    Example(
        "kda/wy_fast.py",
        _codes(
            "call(tilelang_recompute_w_u_fwd({}, {}, {}, 128, 128, 'bfloat16', 'bfloat16',"
            " 'float32', 'float32', 64, False, True, block_S=64, block_DK=64, block_DV=32,"
            " threads=128, num_stages=3))", *_KDA,
        ),
    ),
    Example(
        "kda/wy_fast_bwd.py",
        _codes(
            "call(tilelang_wy_fast_bwd({}, {}, {}, 128, 128, 'float32', 'float32', 'float32',"
            " 'float32', 'float32', 64, 32, 32, 128, 0))", *_CHUNKS_8,
        ),
    ),
)  # fmt: skip

_REST = (
    Example(
        "elementwise/example_elementwise_add.py",
        _codes("main({}, {})", (1024, 1024), (4096, 4096), (8192, 16384)),
    ),
    Example(
        "norm/rms_norm.py",
        _codes(
            "rms_norm.compile(M={}, N={}, blk_m=1).get_profiler()"
            ".assert_allclose(ref_program, rtol=0.01, atol=0.01)",
            (8192, 8192), (32768, 4096), (16384, 2048),
        ),
        "rms_norm",
    ),
    Example(
        "norm/rms_norm.py",
        _codes(
            "rms_norm_splitk.compile(M={}, N={}, blk_m=1, blk_k=512).get_profiler()"
            ".assert_allclose(ref_program, rtol=0.01, atol=0.01)",
            (8192, 8192), (32768, 4096), (16384, 2048),
        ),
        "rms_norm_splitk",
    ),
    Example(
        "norm/layernorm.py",
        _codes(
            "N, D = {}, {}\n"
            "x, g, b = (torch.randn(*s, dtype=torch.bfloat16, device='cuda', requires_grad=True)"
            " for s in ((N, D), (D,), (D,)))\n"
            "dy = torch.randn(N, D, dtype=torch.bfloat16, device='cuda')\n"
            "y = layer_norm(x, g, b, 1e-5)\n"
            "torch.testing.assert_close(y, ref_program(x, g, b, 1e-5), rtol=1e-2, atol=1e-2)\n"
            "y.backward(dy)\n"
            "dx = x.grad\n"
            "x.grad = g.grad = b.grad = None\n"
            "ref_program(x, g, b, 1e-5).backward(dy)\n"
            "torch.testing.assert_close(dx, x.grad, rtol=1e-2, atol=1e-2)",
            (4096, 8192), (16384, 4096), (32768, 2048),
        ),
    ),
    Example(
        "online_softmax/online_softmax.py",
        _sizes("", "M N", (8192, 8192), (32768, 8192), (4096, 32768)),
    ),
    Example(
        "cast/example_per_token_cast_to_fp8.py",
        _codes("main({}, {}, 8)", (8192, 8192), (32768, 4096), (4096, 16384)),
    ),
    Example(
        "cast/example_group_per_split_token_cast_to_fp8.py",
        _codes("main({}, {}, 2, 8, {})", (8192, 8192, [2048, 6144]), (8192, 4096, [1024, 7168]),
               (16384, 4096, [8192, 8192])),
    ),
    Example(
        "topk/example_topk.py",
        _codes("main(['--M={}', '--N={}', '--topk={}'])", (320, 128, 6), (8192, 128, 8),
               (16384, 256, 8)),
    ),
    Example(
        "deepseek_mhc/example_mhc_post.py",
        _codes("test({}, {})", (4096, 2560), (4096, 7168), (16384, 1280)),
    ),
    Example(
        "deepseek_mhc/example_mhc_bwd.py",
        _codes(
            "m = torch.rand({}, 16, 16, device='cuda') * 4\n"
            "r, _ = sinkhorn_forward(m, 20)\n"
            "sinkhorn_bwd_implicit_cg.compile(n_stream=16)(r, torch.randn_like(r))",
            65536, 16384, 131072,
        ),
    ),
    Example(
        "deepseek_mhc/example_mhc_pre.py",
        _codes("test({}, {}, 4)", (4096, 2560), (4096, 7168), (16384, 1280)),
    ),
    Example(
        "deepseek_v32/topk_selector.py",
        _codes(
            "x = torch.randn({0}, {1}, device='cuda')\n"
            "s = torch.zeros({0}, device='cuda', dtype=torch.int32)\n"
            "i = tl_topk(x, s, s + {1}, {2}).long().sort(-1)[0]\n"
            "assert (i == torch.topk(x, {2}, dim=-1)[1].sort(-1)[0]).all()",
            (64, 32768, 2048), (128, 16384, 1024), (16, 65536, 2048),
        ),
        asserts=True,
    ),
    Example(
        "hadamard_transform/example_hadamard.py",
        _codes(
            "b, n = {}, {}\n"
            "x = torch.randn(b, n, device='cuda')\n"
            "y, z = hadamard(x, n, T.float32), x\n"
            "for half in (1 << bit for bit in range(n.bit_length() - 1)):\n"
            "    p, q = z.view(b, -1, 2, half).unbind(2)\n"
            "    z = torch.stack((p + q, p - q), 2)\n"
            "torch.testing.assert_close(y, z.reshape(b, n), atol=1e-2, rtol=1e-2)",
            (64, 8192), (4096, 4096), (65536, 512),
        ),
    ),
    Example(
        "dsa_hisa/fp8_block_mean_pooling.py",
        _codes("test_fp8_block_mean_pooling({}, 128, 128, {})", (16384, 1), (131072, 16),
               (1048576, 16)),
    ),
    Example(
        "deepseek_v32/fp8_lighting_indexer.py",
        _codes("test_fp8_lighting_indexer({}, {}, {})", (4096, 8192, 32), (2048, 8192, 64),
               (8192, 8192, 32)),
    ),
    Example(
        "dsa_hisa/clean_and_maintain_logits.py",
        _codes("test_clean_and_maintain_logits({}, {}, {})", (4096, 4096, 1), (4096, 4096, 4),
               (16384, 16384, 8)),
    ),
    Example(
        "deepseek_v32/inference/kernel.py",
        _codes(
            "act_quant(torch.randn({}, {}, device='cuda', dtype=torch.bfloat16))",
            (4096, 7168), (16384, 4096), (128, 7168),
        ),
        "act_quant",
    ),
    Example(
        "deepseek_v32/inference/kernel.py",
        _codes(
            "torch.set_default_dtype(torch.bfloat16)\n"
            "a, b = (torch.randn(s, device='cuda').to(torch.float8_e4m3fn)"
            " for s in (({0}, {2}), ({1}, {2})))\n"
            "a_s, b_s = (torch.rand(s, device='cuda', dtype=torch.float32)"
            " for s in (({0}, {2} // 128), ({1} // 128, {2} // 128)))\n"
            "fp8_gemm(a, a_s, b, b_s)",
            (4096, 7168, 2048), (8192, 4096, 7168), (128, 7168, 2048),
        ),
        "fp8_gemm",
    ),
    Example(
        "deepseek_v32/inference/kernel.py",
        _codes(
            "q, k = (torch.randn(s, device='cuda').to(torch.float8_e4m3fn)"
            " for s in ((1, {0}, 64, 128), (1, {1}, 128)))\n"
            "q_s, k_s = (torch.rand(s, device='cuda') for s in ((1, {0}, 64), (1, {1})))\n"
            "fp8_index(q, q_s, k, k_s)",
            (1024, 8192), (128, 32768), (2048, 2048),
        ),
        "fp8_index",
    ),
)  # fmt: skip

CASES: tuple[Example, ...] = (*_PRODUCTS, *_ATTENTION, *_SCANS, *_REST)
"""Every example that is timed."""
