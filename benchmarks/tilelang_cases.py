"""Which of TileLang's examples are run, how, and what its documentation's fragments stand in.

An example runs its own `main` or test at small sizes; where that compares with a reference, the
comparison is the example's own.  `code` is run in the example's module after `constants` replaced
the values of names that it sets at the top.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Case:
    """How to run one example."""

    code: str = ""
    """Statements; empty where the module itself does it."""
    constants: dict[str, Any] = field(default_factory=dict)
    label: str = ""
    asserts: bool = False
    """Whether it compares with a reference by an `assert` of its own."""
    guesses: dict[str, Any] = field(default_factory=dict)
    """Arguments for compiling its kernels, beside `GUESSES`."""
    outside: str = ""
    """Why it cannot work here whatever is done; it is not tried."""


EXAMPLES: dict[str, tuple[Case, ...]] = {
    "quickstart.py": (Case(constants={"M": 256, "N": 256, "K": 128}),),
    "elementwise/example_elementwise_add.py": (Case("main(128, 160)"),),
    "norm/rms_norm.py": (
        Case("test_rms_norm(M=64, N=256, blk_m=1)", label="rms_norm"),
        Case(
            "k = rms_norm_splitk.compile(M=64, N=512, blk_m=4, blk_k=128)\n"
            "k.get_profiler().assert_allclose(ref_program, rtol=0.01, atol=0.01)",
            label="rms_norm_splitk",
        ),
    ),
    "norm/layernorm.py": (
        Case(
            "N, D = 64, 256\n"
            "x, g, b = (torch.randn(*s, dtype=torch.bfloat16, requires_grad=True)"
            " for s in ((N, D), (D,), (D,)))\n"
            "dy = torch.randn(N, D, dtype=torch.bfloat16)\n"
            "y = layer_norm(x, g, b, 1e-5)\n"
            "torch.testing.assert_close(y, ref_program(x, g, b, 1e-5), rtol=1e-2, atol=1e-2)\n"
            "y.backward(dy)\n"
            "dx = x.grad\n"
            "x.grad = g.grad = b.grad = None\n"
            "ref_program(x, g, b, 1e-5).backward(dy)\n"
            "torch.testing.assert_close(dx, x.grad, rtol=1e-2, atol=1e-2)",
        ),
    ),
    "online_softmax/online_softmax.py": (Case(constants={"M": 16}),),
    "gemm/example_gemm.py": (Case("main()"),),
    "gemm/example_gemm_persistent.py": (Case("main(512, 768, 256)"),),
    "gemm/example_gemm_intrinsics.py": (Case("main(M=256, N=256, K=256)"),),
    "gemm/example_gemm_autotune.py": (
        Case(
            "a, b = (torch.randn(256, 256, dtype=torch.float16) for _ in 'ab')\n"
            "c = matmul(256, 256, 256, 128, 128, 32, 2, 128, False)(a, b)\n"
            "torch.testing.assert_close(c, a @ b.T, rtol=1e-2, atol=1e-2)",
        ),
    ),
    "gemm_splitk/example_tilelang_gemm_splitk.py": (Case("main()"),),
    "gemm_splitk/example_tilelang_gemm_splitk_vectorize_atomicadd.py": (Case("main()"),),
    "gemm_streamk/example_tilelang_gemm_streamk.py": (Case("main()"),),
    "gemm_fp8/example_tilelang_gemm_fp8.py": (
        Case("test_gemm_fp8(256, 256, 128, T.float8_e4m3fn)", label="e4m3", asserts=True),
        Case("test_gemm_fp8(256, 256, 128, T.float8_e5m2)", label="e5m2", asserts=True),
    ),
    "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py": (
        Case("test_gemm_fp8(256, 256, 256, T.float8_e4m3fn)", asserts=True),
    ),
    "grouped_gemm/example_grouped_gemm_fwd.py": (
        Case("run_tilelang_grouped_gemm([63, 40], 128, 128, 64, 64, 64, False)"),
    ),
    "dynamic_shape/example_dynamic.py": (Case("main(200, 136, 96)"),),
    "cast/example_per_token_cast_to_fp8.py": (Case("main(64, 512, 8)"),),
    "cast/example_group_per_split_token_cast_to_fp8.py": (
        Case("main(256, 256, 2, 8, [100, 156])"),
    ),
    "convolution/example_convolution.py": (
        Case(
            'main(["--n=2", "--c=32", "--h=12", "--w=12", "--f=32"])',
        ),
    ),
    "blocksparse_gemm/example_blocksparse_gemm.py": (Case("main()"),),
    "flash_attention/example_mha_fwd_bshd.py": (
        Case("main(1, 2, 256, 64, False)", label="full"),
        Case("main(1, 2, 256, 64, True)", label="causal"),
    ),
    "flash_attention/example_mha_fwd_bhsd.py": (
        Case("main(1, 2, 256, 256, 64, False)", label="full"),
        Case("main(1, 2, 256, 512, 64, True)", label="causal"),
    ),
    "flash_attention/example_gqa_fwd_bshd.py": (
        Case("main(1, 4, 256, 64, False, 2)", label="full"),
        Case("main(1, 4, 256, 64, True, 2)", label="causal"),
    ),
    "flash_attention/example_mha_bwd_bshd.py": (
        Case("main(1, 2, 256, 64, False)", label="full"),
        Case("main(1, 2, 256, 64, True)", label="causal"),
    ),
    "flash_attention/example_mha_bwd_bhsd.py": (Case("main(1, 2, 256, 64, False)"),),
    "flash_attention/example_gqa_bwd.py": (Case("main(1, 4, 256, 64, 64, 2, False)"),),
    "flash_attention/example_mha_fwd_varlen.py": (Case("main(2, 2, 256, 64)"),),
    "flash_attention/example_gqa_fwd_varlen.py": (Case("main(2, 4, 256, 256, 64, 2)"),),
    "linear_attention/example_linear_attn_fwd.py": (
        Case(
            "torch.manual_seed(0)\n"
            "q, k, v = (torch.randn(1, 256, 2, 128).half() for _ in range(3))\n"
            "q, k = (x / x.float().norm(dim=-1, keepdim=True).half() for x in (q, k))\n"
            "o, h = tl_fused_chunk_fwd(q, k, v)\n"
            "want_o, want_h = ref_program(q, k, v)\n"
            "assert torch.allclose(o, want_o, atol=1e-2, rtol=1e-2)\n"
            "assert torch.allclose(h, want_h, atol=1e-2, rtol=1e-2)",
        ),
    ),
    "linear_attention/example_retention_fwd.py": (
        Case(
            "torch.manual_seed(0)\n"
            "q, k, v = (torch.randn(1, 128, 2, 128).half() for _ in range(3))\n"
            "got = postprocess(chunk_retention_fwd_kernel(1, 128, 2, 128, 128)(q, k, v)).float()\n"
            "steps = torch.arange(128)\n"
            "decay = torch.log2(1 - torch.exp2(-5.0 - torch.arange(2.0)))\n"
            "gap = (steps[:, None] - steps[None, :]).float()\n"
            "mask = torch.where(gap >= 0, torch.exp2(gap * decay[:, None, None]), 0.0)\n"
            "scores = torch.einsum('bqhd,bkhd->bhqk', q.float(), k.float()) * 128**-0.5 * mask\n"
            "want = torch.einsum('bhqk,bkhd->bqhd', scores, v.float())\n"
            "torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)",
        ),
    ),
    "topk/example_topk.py": (Case('main(["--M=100", "--N=64", "--topk=3"])'),),
    "dequantize_gemm/example_dequant_gemm_w4a8.py": (Case("main(128, 128, 128)"),),
    "dequantize_gemm/example_dequant_gemm_fp4_hopper.py": (Case("main(128, 128, 128)"),),
    "dequantize_gemm/example_dequant_gemm_bf16_fp4_hopper.py": (
        Case("main(256, 256, 256, False)", label="fast_dequant=False"),
        Case(outside="`T.call_extern`", label="fast_dequant=True"),
    ),
    "dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py": (
        Case("main(256, 256, 256, scale_size=32, fast_dequant=False)", label="fast_dequant=False"),
        Case(outside="`T.call_extern`", label="fast_dequant=True"),
    ),
    "dequantize_gemm/example_dequant_gemv_fp16xint4.py": (
        Case(
            "half = (T.float16, T.float16, T.float32)\n"
            "kernel = dequantize_gemv(1, 256, 1024, *half, 4, T.int8, 'uint', 4, 32, False)\n"
            "A = torch.rand(1, 1024).half()\n"
            "B = torch.randint(0, 127, (256, 512)).to(torch.int8)\n"
            "C = torch.zeros(1, 256).half()\n"
            "kernel(A, B, C)\n"
            "signed = torch.stack((B << 4 >> 4, B >> 4), dim=-1).reshape(256, 1024)\n"
            "torch.testing.assert_close(C, A @ signed.half().T, rtol=1e-2, atol=1.0)",
            label="fast_decoding=False",
        ),
        Case(
            "whole = (T.int8, T.int32, T.int32)\n"
            "kernel = dequantize_gemv(1, 256, 1024, *whole, 4, T.int8, 'uint', 4, 32, False)\n"
            "A = torch.randint(-9, 9, (1, 1024)).to(torch.int8)\n"
            "B = torch.randint(0, 127, (256, 512)).to(torch.int8)\n"
            "C = torch.zeros(1, 256).int()\n"
            "kernel(A, B, C)\n"
            "signed = torch.stack((B << 4 >> 4, B >> 4), dim=-1).reshape(256, 1024)\n"
            "assert (C == A.int() @ signed.int().T).all()",
            label="T.dp4a",
            asserts=True,
        ),
        Case(outside="`T.call_extern`", label="fast_decoding=True"),
    ),
    "dsa_hisa/fp8_block_mean_pooling.py": (Case("test_fp8_block_mean_pooling(640, 128, 128)"),),
    "hadamard_transform/example_hadamard.py": (
        Case(
            "for n, kind in ((8, T.float32), (512, T.float16), (2048, T.float32)):\n"
            "    x = torch.randn(2, n).to(kind.as_torch())\n"
            "    y, want = hadamard(x, n, kind).float(), ref_program(x.float())\n"
            "    torch.testing.assert_close(y, want, atol=1e-1, rtol=1e-2)",
        ),
    ),
    "warp_specialize/example_warp_specialize_gemm_barrierpipe_stage2.py": (
        Case("main(256, 256, 320)"),
    ),
    "warp_specialize/example_warp_specialize_gemm_copy_0_gemm_1.py": (Case("main(256, 128, 192)"),),
    "warp_specialize/example_warp_specialize_gemm_copy_1_gemm_0.py": (Case("main(256, 128, 192)"),),
    "warp_specialize/example_warp_specialize_gemm_copy_gemm_0_1.py": (Case("main()"),),
    "warp_specialize/example_warp_specialize_gemm_softpipe_stage2.py": (
        Case("main(256, 128, 192)"),
    ),
    "deepseek_v32/sparse_mla_bwd.py": (
        Case("test_sparse_mla_bwd(S=64, SKV=64, H=64, topk=64)", asserts=True),
    ),
    "dequantize_gemm/example_dequant_gemm_fine_grained.py": (
        Case(
            "run_gemm(128, 128, 128, *(T.float16, T.float16, T.float32), 64, 64, 32, 2)",
            label="matmul",
        ),
    ),
    "attention_sink/example_mha_sink_fwd_bhsd.py": (
        Case("main(1, 2, 256, 256, 64)", label="full"),
        Case("main(1, 2, 256, 256, 64, window_size=128)", label="window"),
    ),
    "attention_sink/example_mha_sink_bwd_bhsd.py": (
        Case("main(1, 128, 128, 64)", label="with 128 heads: a fragment of fewer is overrun"),
    ),
    "attention_sink/example_gqa_sink_bwd_bhsd.py": (
        Case("main(1, 128, 128, 64, 64)", label="with 128 heads: a fragment of fewer is overrun"),
    ),
    "autodd/tilelang_buggy.py": (Case(outside="meant to be wrong: shapes of `T.gemm`"),),
    "autodd/tilelang_minimized_expected.py": (
        Case(outside="meant to be wrong: an empty `T.Kernel()`"),
    ),
    "blocksparse_attention/example_tilelang_block_sparse_attn.py": (Case("main()"),),
    "block_causal_attention/block_causal_attention_varlen.py": (
        Case("test_block_causal_attention_varlen()"),
    ),
    "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py": (
        Case(
            "kinds = (T.float8_e4m3fn, T.bfloat16, T.float32)\n"
            "assert_tl_gemm_correctness(256, 256, 256, 128, *kinds)",
            asserts=True,
        ),
    ),
    "deepseek_nsa/example_tilelang_nsa_fwd.py": (Case("main()"),),
    "deepseek_nsa/example_tilelang_nsa_decode.py": (Case("main()"),),
    "deepseek_v4/act_quant.py": (
        Case(
            "x = torch.randn(64, 512).bfloat16()\n"
            "for got, want in zip(fp8_act_quant(x, 128, True), fp8_act_quant_ref(x, 128, True)):\n"
            "    torch.testing.assert_close(got.float(), want.float(), rtol=0, atol=0)",
            label="fp8, scales are powers of 2",
        ),
        Case(outside="buffers of `float4_e2m1fn`", label="fp4"),
    ),
    "deepseek_v4/fp8_fp4_gemm_1d1d_sm100.py": (Case(outside="`T.alloc_tmem`"),),
    "deepseek_v4/sparse_attn_fwd_sm90.py": (Case("test_correctness()"),),
    "grouped_gemm/example_grouped_gemm_bwd.py": (
        Case("run_tilelang_grouped_gemm([5, 9, 13], 64, 96, 64, 64, 32, False)"),
    ),
    "linear_attention/example_linear_attn_bwd.py": (
        Case(
            "norm = torch.nn.functional.normalize\n"
            "l2norm_fwd = lambda x: (norm(x.detach().float(), dim=-1).half(),)\n"
            "fused_chunk_linear_attn = lambda q, k, v, **rest: ref_program(q, k, v)\n"
            "torch.manual_seed(0)\n"
            "main(1, 128, 2, 64)",
        ),
    ),
    "block_causal_attention/block_causal_attention.py": (
        Case("_run_fixed_case(1, 128, 2, 64, _SUPPORTED_DLLM_BLOCKS[0])"),
    ),
    "deepseek_mhc/example_mhc_post.py": (Case("test(16, 1280)"),),
    "deepseek_mhc/example_mhc_pre.py": (Case("test(16, 1280, 4)"),),
    "gemv/example_gemv.py": (
        Case(
            "for kernel, sizes in (\n"
            "    (naive_gemv, {'BLOCK_N': 128, 'BLOCK_K': 128}),\n"
            "    (naive_splitk_gemv, {'BLOCK_N': 32, 'BLOCK_K': 32}),\n"
            "    (splitk_gemv, {'BLOCK_N': 32, 'BLOCK_K': 32, 'reduce_threads': 32}),\n"
            "    (splitk_gemv_vectorized, {'BLOCK_N': 2, 'reduce_threads': 32}),\n"
            "    (splitk_gemv_vectorized_tvm, {'BLOCK_N': 2, 'reduce_threads': 32}),\n"
            "):\n"
            "    made = kernel.compile(N=512, K=512, **sizes)\n"
            "    check_correctness_and_bench(made, 512, 512, False)",
        ),
    ),
    "deepseek_v32/topk_selector.py": (
        Case(
            "x = torch.randn(2, 5000)\n"
            "s = torch.zeros(2, dtype=torch.int32)\n"
            "i = tl_topk(x, s, s + 5000, 512).long().sort(-1)[0]\n"
            "assert (i == torch.topk(x, 512, dim=-1)[1].sort(-1)[0]).all()",
            asserts=True,
        ),
    ),
    "dsa_hisa/clean_and_maintain_logits.py": (
        Case("test_clean_and_maintain_logits(256, 512, 2)", asserts=True),
    ),
    "deepseek_v32/sparse_mla_fwd.py": (
        Case(
            "test_sparse_mla_fwd(S=64, SKV=128, H=16, topk=64)",
            asserts=True,
        ),
    ),
    "flash_decoding/example_mha_inference.py": (Case("main(1, 2, 128, 256, 64, False)"),),
    "flash_attention/example_gqa_bwd_tma_reduce.py": (Case("main(1, 4, 128, 64, 64, 2)"),),
    "attention_sink/example_gqa_sink_fwd_varlen.py": (
        Case("main(1, 128, 128, 128, 64, 64)", label="with 128 heads"),
    ),
    "blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_indice.py": (
        Case("main(2, 8, 2, 256, 64, 64)"),
    ),
    "blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_mask.py": (
        Case("main(2, 8, 2, 256, 64, 64)"),
    ),
    "kda/chunk_bwd_intra.py": (
        Case(guesses={"input_dtype": "float32", "output_dtype": "float32"}),
    ),
    "seer_attention/block_sparse_attn_tilelang.py": (Case("main()"),),
    "gemm_tcgen05/gemm_mma.py": (Case(),),
}


GUESSES: dict[str, Any] = {
    "batch": 1, "B": 1, "b": 1, "batch_size": 1, "heads": 4, "H": 4, "h": 4, "head_kv": 2,
    "seq_len": 128, "S": 128, "seqlen": 128, "seq_q": 128, "seq_kv": 128, "seq_len_kv": 128,
    "dim": 64, "dim_qk": 64, "dim_v": 64, "D": 64, "DK": 64, "DV": 64, "d": 64, "dv": 64,
    "groups": 2, "M": 128, "N": 128, "K": 128, "m": 128, "n": 128, "k": 128,
    "block_M": 64, "block_N": 64, "block_K": 32, "threads": 128, "num_stages": 2,
    "dtype": "float16", "in_dtype": "float16", "out_dtype": "float16", "accum_dtype": "float32",
    "input_dtype": "bfloat16", "output_dtype": "bfloat16", "gate_dtype": "float32",
    "state_dtype": "float32", "do_dtype": "bfloat16", "is_causal": False, "chunk_size": 64,
    "block_S": 64, "block_DK": 64, "block_DV": 64, "sm_scale": 0.125, "scale": 0.125,
    "softmax_scale": 0.125, "trans_A": False, "trans_B": False, "transpose_B": False,
    "num_split": 2, "split_k": 2, "window_size": None, "topk": 64, "thread_num": 128,
    "enable_rasteration": False, "enable_rasterization": False, "N_CTX": 128, "selected_blocks": 2,
    "max_seq_len": 128, "block_size": 64, "use_g": True, "use_gk": True, "use_initial_state": True,
    "store_final_state": True, "save_new_value": True, "num_bits": 4, "page_block_size": 64,
    "block_H": 16, "C": 32, "W": 16, "F": 32, "gemm_type": "ss", "da_dtype": "float32",
    "seqlen_kv": 256, "num_threads": 128, "k_pack": 1, "downsample_len": 2,
}  # fmt: skip
"""Arguments for kernels that are compiled and not run."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """The kernel that a fence without one stands in."""

    tensors: str
    """`name: shape` separated by `;`, element type float16 unless named after a `/`."""
    before: str = ""
    """Statements of the kernel before it."""
    launched: bool = True
    """Whether it stands inside of `T.Kernel`."""

    def around(self, body: str) -> str:
        """A program with the fence as part of a kernel."""
        params = []
        for each in self.tensors.split(";"):
            name, _, rest = each.partition(":")
            shape, _, kind = rest.partition("/")
            params.append(f"{name.strip()}: T.Tensor(({shape.strip()},), '{kind or 'float16'}')")
        lines = [
            "@T.prim_func",
            f"def fragment({', '.join(params)}):",
            "    with T.Kernel(4, 4) as (bx, by):" if self.launched else "    if True:",
            *(f"        {line}" for line in self.before.splitlines()),
            *(f"        {line}" for line in body.splitlines()),
        ]
        return "\n".join(lines) + "\n"


_TILES = (
    "A_s = A_shared = T.alloc_shared((BM, BK), 'float16')\n"
    "B_s = B_shared = T.alloc_shared((BK, BN), 'float16')\n"
    "C_f = C_local = T.alloc_fragment((BM, BN), 'float32')\n"
    "T.clear(C_f)\n"
)
_COUNTER = "ko = bx\n"
_ELEMENT = "i = bx\nj = by\n"
_BLOCKS = "block_M, block_N, block_K = 32, 32, 32\n"
_ROW = "A_shared = T.alloc_shared((BK,), 'float16')\ntx = by\nnum_tiles = 4\nko = bx\n"
_PIPES = (
    "A_shared = T.alloc_shared((BM, BK), 'float16')\n"
    "B_shared = T.alloc_shared((BK, BN), 'float16')\n"
    "C_local = T.alloc_fragment((BM, BN), 'float32')\n"
    "T.clear(C_local)\n"
    "T.clear(B_shared)\n"
    "num_tiles = 4\n"
    "tx = by\n"
)
_BASICS = "docs/programming_guides/language_basics.md"
_FLOW = "docs/programming_guides/control_flow.md"
_PIPELINE = "docs/programming_guides/software_pipeline.md"
_INSTRUCTIONS = "docs/programming_guides/instructions.md"
_GEMM = "docs/deeplearning_operators/matmul.md"
_LET = "docs/compiler_internals/letstmt_inline.md"
_MATMUL = "A: M, K; B: K, N; C: M, N"
_SQUARE = "A: M, N; B: M, N; C: M, N"
_LINE = "A: M; B: M; C: M"

FRAGMENTS: dict[tuple[str, int], Fragment] = {
    (_BASICS, 88): Fragment(_SQUARE, "grid_x, grid_y = 4, 4", launched=False),
    (_BASICS, 105): Fragment(_SQUARE, "N, K = 128, 128"),
    (_BASICS, 129): Fragment(_MATMUL),
    (_BASICS, 141): Fragment(_MATMUL, _TILES + _COUNTER),
    (_BASICS, 232): Fragment("C: M", _TILES + "T.clear(A_s)\n"),
    (_FLOW, 37): Fragment(_SQUARE, _ELEMENT),
    (_FLOW, 54): Fragment(_LINE),
    (_FLOW, 66): Fragment(
        _LINE,
        "K_TILE = 4\na, b = (T.alloc_local((4,), 'float32') for _ in range(2))\n"
        "acc = T.alloc_var('float32', 0.0)\nT.fill(a, 1)\nT.fill(b, 1)\n",
    ),
    (_FLOW, 79): Fragment(_SQUARE),
    (_FLOW, 96): Fragment(_MATMUL, _TILES),
    (_FLOW, 118): Fragment(_LINE, "done = bx > 1\nN = A.shape[0] + bx\n"),
    (_FLOW, 138): Fragment(_SQUARE),
    (_FLOW, 151): Fragment(_LINE, "i = bx\n"),
    (_PIPELINE, 8): Fragment(_MATMUL, _TILES),
    (_PIPELINE, 37): Fragment(_LINE, _ROW),
    (_PIPELINE, 55): Fragment("A: 512, BM, BK; B: 512, BK, BN", _PIPES),
    (_PIPELINE, 94): Fragment("A: 512, BM, BK", _PIPES),
    (_PIPELINE, 121): Fragment("A: 512, BK", _PIPES),
    (_PIPELINE, 142): Fragment(_LINE, _ROW),
    (_PIPELINE, 172): Fragment("A: M; B: M; Ids: M/int32", _ROW),
    (_PIPELINE, 185): Fragment(
        "A: M; B: M; Ids: M/int32", _ROW + "idx_shared = T.alloc_shared((BK,), 'int32')\n"
    ),
    (_PIPELINE, 198): Fragment(_LINE, _ROW),
    (_PIPELINE, 215): Fragment(_LINE, _ROW),
    (_PIPELINE, 237): Fragment(_LINE, _ROW),
    (_PIPELINE, 267): Fragment(_LINE, _ROW),
    (_INSTRUCTIONS, 21): Fragment(_MATMUL, _TILES + _COUNTER),
    (_INSTRUCTIONS, 69): Fragment(_MATMUL, _TILES + _COUNTER),
    ("docs/compiler_internals/metal_tilelang_development.md", 47): Fragment(
        _MATMUL, _BLOCKS, launched=False
    ),
    (_GEMM, 143): Fragment(_MATMUL, _BLOCKS, launched=False),
    (_GEMM, 159): Fragment(_MATMUL, _BLOCKS),
    (_GEMM, 170): Fragment(_MATMUL, _BLOCKS),
    (_GEMM, 186): Fragment(_MATMUL, _TILES + _BLOCKS + _COUNTER),
    (_GEMM, 196): Fragment(_MATMUL, _TILES + "T.clear(A_s)\nT.clear(B_s)\n"),
    (_GEMM, 205): Fragment(_MATMUL, _TILES + _BLOCKS),
    (_LET, 104): Fragment("A: M/float32; B: M/float32", "block_N = 32\n"),
    (_LET, 120): Fragment("A: M/float32; B: M/float32", "block_N = 32\n"),
}
"""By page and line of the fence's first line."""

CONTINUED: dict[str, int] = {
    "docs/deeplearning_operators/elementwise.md:46": 27,
    "docs/deeplearning_operators/elementwise.md:92": 27,
}
"""Fences that use what an earlier one of their page defines, and that one's line."""

_ADD = """
a, b = torch.randn(2, 1000).bfloat16()
kernel = tilelang.compile(elementwise_add(1000), out_idx=-1)
torch.testing.assert_close(kernel(a, b), a + b)
"""
_PRODUCT = """
a, b = torch.randn(128, 128).half(), torch.randn(128, 128).half()
c = torch.zeros(128, 128).half()
tilelang.compile({name})(a, b, c)
torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-2)
"""
_ELEMENTWISE = "docs/deeplearning_operators/elementwise.md"

PAGES: dict[str, str] = {
    f"{_ELEMENTWISE}:27": _ADD,
    f"{_ELEMENTWISE}:46": """
a, b = torch.randn(2, 1024).bfloat16()
torch.testing.assert_close(kernel(a, b), a + b)
""",
    f"{_ELEMENTWISE}:92": """
for n in (1, 256, 1000):
    a, b = torch.randn(2, n).bfloat16()
    torch.testing.assert_close(kernel(a, b), a + b)
""",
    f"{_ELEMENTWISE}:105": _ADD,
    f"{_ELEMENTWISE}:179": _ADD,
    f"{_ELEMENTWISE}:215": _ADD,
    f"{_ELEMENTWISE}:58": """
a, b = torch.randn(2, 100, 70)
kernel = tilelang.compile(elementwise_add(100, 70, 32, 32, "float32", "float32", 128), out_idx=-1)
torch.testing.assert_close(kernel(a, b), a + b)
""",
    f"{_BASICS}:206": _PRODUCT.format(name="gemm"),
    f"{_INSTRUCTIONS}:118": _PRODUCT.format(name="gemm"),
}
"""What is done with the program that a fence defines."""

FENCES_OUTSIDE: dict[str, str] = {
    "docs/compiler_internals/tensor_checks.md:186": "`get_host_source`",
    "docs/compiler_internals/tensor_checks.md:370": "the page calls a program without compiling it",
    "docs/programming_guides/autotuning.md:21": "the page passes the output that `out_idx` makes",
    "docs/programming_guides/autotuning.md:232": "`par_compile`",
    "docs/programming_guides/control_flow.md:23": "the page uses a loop's index after the loop",
}
"""Fences that are not tried, and why."""
