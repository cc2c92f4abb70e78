"""Cases of examples of attention: dense, with sinks, sparse, paged, and for decoding."""

from __future__ import annotations

from .form import Example, codes, masks, sizes

_MHA = "flash_attention/example_mha_"
_GQA = "flash_attention/example_gqa_"
_SINK = "attention_sink/example_"
_SPARSE = "blocksparse_attention/example_tilelang_"

ATTENTION: tuple[Example, ...] = (
    *masks(
        f"{_MHA}fwd_bshd.py", "main({}, {}, {}, {}, %s)",
        (8, 32, 4096, 128), (1, 16, 8192, 128), (4, 32, 2048, 64),
    ),
    *masks(
        f"{_MHA}fwd_bhsd.py", "main({}, {}, {}, {}, {}, %s)",
        (1, 1, 256, 256, 64), (4, 32, 2048, 2048, 128), (1, 16, 8192, 8192, 64),
    ),
    *masks(
        f"{_GQA}fwd_bshd.py", "main({}, {}, {}, {}, %s, {})",
        (1, 64, 4096, 128, 16), (4, 32, 2048, 128, 8), (1, 32, 8192, 64, 4),
    ),
    *masks(
        f"{_MHA}bwd_bshd.py", "main({}, {}, {}, {}, %s)",
        (8, 32, 1024, 64), (4, 16, 2048, 128), (1, 16, 4096, 64),
    ),
    Example(
        f"{_MHA}bwd_bhsd.py",
        codes("main({}, {}, {}, {}, False)", (8, 32, 1024, 64), (4, 16, 2048, 128),
               (1, 16, 4096, 64)),
    ),
    Example(
        f"{_GQA}bwd.py",
        codes("main({}, {}, {}, {}, {}, {}, False)", (8, 32, 1024, 192, 128, 16),
               (2, 32, 2048, 128, 128, 8), (1, 16, 4096, 64, 64, 4)),
        "atomic",
    ),
    Example(
        f"{_GQA}bwd.py",
        codes("main({}, {}, {}, {}, {}, {}, False, False)", (8, 32, 1024, 192, 128, 16),
               (2, 32, 2048, 128, 128, 8), (1, 16, 4096, 64, 64, 4)),
        "split",
    ),
    Example(
        f"{_GQA}bwd_tma_reduce.py",
        codes("main({}, {}, {}, {}, {}, {}, False)", (8, 32, 1024, 192, 128, 16),
               (2, 32, 2048, 128, 128, 8), (1, 16, 4096, 64, 64, 4)),
    ),
    Example(
        f"{_GQA}bwd_tma_reduce_varlen.py",
        codes("main({}, {}, {}, {}, {}, {}, True)", (8, 32, 1024, 192, 128, 16),
               (2, 32, 2048, 128, 128, 8), (1, 16, 4096, 64, 64, 4)),
    ),
    Example(
        f"{_MHA}fwd_varlen.py",
        codes("main({}, {}, {}, {}, {})", (8, 64, 2048, 128, False), (4, 16, 4096, 128, False),
               (8, 16, 1024, 64, False)),
    ),
    Example(
        f"{_GQA}fwd_varlen.py",
        codes("main({}, {}, {}, {}, {}, {})", (8, 64, 2048, 2048, 128, 16),
               (4, 32, 4096, 4096, 128, 8), (8, 16, 1024, 1024, 64, 4)),
    ),
    Example(
        f"{_SINK}mha_sink_fwd_bhsd.py",
        codes("main({}, {}, {}, {}, {})", (8, 32, 4096, 4096, 128), (1, 16, 8192, 8192, 128),
               (4, 32, 2048, 2048, 64)),
        "full",
    ),
    Example(
        f"{_SINK}mha_sink_fwd_bhsd.py",
        codes("main({}, {}, {}, {}, {}, window_size={})", (8, 32, 4096, 4096, 128, 128),
               (1, 16, 8192, 8192, 128, 1024), (4, 32, 2048, 2048, 64, 256)),
        "window",
    ),
    Example(
        f"{_SINK}mha_sink_bwd_bhsd.py",
        codes("main({}, {}, {}, {})", (1, 64, 4096, 128), (2, 32, 2048, 128), (1, 16, 4096, 64)),
    ),
    Example(
        f"{_SINK}gqa_sink_bwd_bhsd.py",
        codes("main({}, {}, {}, {}, {}, {})", (1, 64, 4096, 128, 8, 128),
               (2, 32, 2048, 128, 8, None), (1, 64, 2048, 64, 4, 256)),
    ),
    Example(
        f"{_SINK}gqa_sink_fwd_varlen.py",
        codes("main({}, {}, {}, {}, {}, {}, {})", (8, 64, 2048, 2048, 128, 16, False),
               (4, 32, 2048, 2048, 128, 8, True), (8, 64, 1024, 1024, 64, 8, True)),
    ),
    Example(
        f"{_SINK}gqa_sink_bwd_varlen.py",
        codes("main({}, {}, {}, {}, {}, {}, {})", (8, 64, 2048, 2048, 128, 16, False),
               (4, 32, 2048, 2048, 128, 8, True), (8, 64, 1024, 1024, 64, 8, True)),
    ),
    Example(
        f"{_SPARSE}block_sparse_attn.py",
        sizes("main()", "BATCH N_HEADS SEQ_LEN D_HEAD TOPK", (1, 1, 256, 64, 2),
               (2, 16, 4096, 64, 16), (1, 16, 8192, 128, 16)),
    ),
    Example(
        "seer_attention/block_sparse_attn_tilelang.py",
        sizes("test_topk_sparse_attention()", "BATCH N_HEADS SEQ_LEN D_HEAD TOPK",
               (4, 2, 256, 64, 2), (2, 16, 4096, 64, 16), (1, 16, 8192, 128, 16)),
    ),
    Example(
        f"{_SPARSE}sparse_gqa_decode_varlen_indice.py",
        codes("main({}, {}, {}, {}, {}, {})", (8, 32, 8, 8192, 128, 128),
               (32, 32, 8, 8192, 128, 128), (16, 64, 8, 16384, 128, 128)),
    ),
    Example(
        f"{_SPARSE}sparse_gqa_decode_varlen_mask.py",
        codes("main({}, {}, {}, {}, {}, {})", (8, 32, 8, 8192, 128, 128),
               (32, 32, 8, 8192, 128, 128), (16, 64, 8, 16384, 128, 128)),
    ),
    Example(
        f"{_SPARSE}sparse_gqa_decode_paged.py",
        codes(
            "import argparse\n"
            "main(argparse.Namespace(batch={}, heads=32, heads_kv=8, max_cache_seqlen={}, dim=128,"
            " dim_v=128, sparse_ratio={}, block_N=64, page_block_size=256, num_pages={}))",
            (8, 8192, 0.0, 1024), (16, 8192, 0.5, 1024), (8, 16384, 0.8, 1024),
        ),
    ),
    Example(
        "block_causal_attention/block_causal_attention.py",
        codes("_run_fixed_case({}, {}, {}, {}, _SUPPORTED_DLLM_BLOCKS[0])", (2, 256, 2, 64),
               (2, 4096, 16, 64), (1, 4096, 16, 128)),
    ),
    Example(
        "block_causal_attention/block_causal_attention_varlen.py",
        codes("_run_varlen_case({}, heads={}, dim={}, dllm_block=_SUPPORTED_DLLM_BLOCKS[0])",
               ([128, 256, 384], 2, 64), ([2048, 1024, 4096], 16, 64), ([2048, 1024], 16, 128)),
    ),
    Example(
        "flash_decoding/example_gqa_decode.py",
        codes("main({}, {}, {}, {}, {})", (1, 32, 8, 8192, 128), (16, 32, 8, 8192, 128),
               (8, 64, 8, 16384, 128)),
    ),
    Example(
        "flash_decoding/example_mha_inference.py",
        codes("main({}, {}, {}, {}, {}, False)", (1, 32, 128, 8192, 128), (4, 32, 128, 8192, 128),
               (8, 16, 256, 4096, 64)),
    ),
    Example(
        "flash_decoding/example_gqa_decode_varlen_logits.py",
        codes(
            "import argparse\n"
            "test_varlen_decode_main(argparse.Namespace(batch_size={}, q_heads=32, kv_heads=8,"
            " k_seqlen={}, head_size=128, block_size=128, dtype=T.float16, test_sink=True,"
            " test_varlen=True, num_split=1))",
            (1, 8192), (16, 8192), (32, 4096),
        ),
    ),
    Example(
        "deepseek_mla/example_mla_decode.py",
        codes("main(batch={}, kv_ctx={})", (132, 8192), (32, 4096), (128, 2048)),
    ),
    Example(
        "deepseek_mla/example_mla_decode_persistent.py",
        codes("import sys; sys.argv[1:] = ['--batch={}', '--kv_ctx={}']\nmain()",
               (128, 8192), (32, 4096), (128, 2048)),
    ),
    Example(
        "deepseek_mla/example_mla_decode_paged.py",
        codes(
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
        codes(
            "flashattn({}, 128, 1, {}, 512, 64, 64, 64).get_profiler()"
            ".assert_allclose(ref_program, rtol=1e-2, atol=1e-2)",
            (128, 8192), (32, 4096), (128, 2048),
        ),
    ),
    Example(
        "deepseek_nsa/example_tilelang_nsa_fwd.py",
        sizes("main()", "B SEQ_LEN H HQ D S block_size",
               (2, 64, 1, 16, 32, 1, 32), (1, 1024, 1, 16, 64, 8, 32),
               (1, 2048, 1, 16, 128, 8, 64)),
    ),
    Example(
        "deepseek_nsa/example_tilelang_nsa_decode.py",
        sizes("main()", "B SEQ_LEN H HQ D S block_size",
               (2, 64, 1, 16, 16, 1, 32), (64, 4096, 1, 16, 64, 16, 32),
               (128, 8192, 1, 16, 128, 16, 64)),
    ),
    Example(
        "deepseek_v32/sparse_mla_fwd.py",
        codes("test_sparse_mla_fwd(S={}, SKV={}, H=128, topk={})",
               (4096, 4096, 2048), (1024, 8192, 2048), (2048, 2048, 512)),
        asserts=True,
    ),
    Example(
        "deepseek_v4/sparse_attn_fwd_sm90.py",
        codes("test_correctness({}, {}, {}, {}, {}, {})", (1, 8, 512, 1024, 128, 256),
               (1, 64, 2048, 4096, 128, 512), (1, 128, 1024, 4096, 512, 512)),
    ),
    Example(
        "dsa_sparse_finetune/sparse_mla_fwd.py",
        codes("test_sparse_mla_fwd(S={}, H={}, topk={}, block_I=64, num_stages=2, threads=256)",
               (4096, 128, 1024), (2048, 128, 512), (4096, 64, 512)),
        asserts=True,
    ),
    Example(
        "dsa_sparse_finetune/sparse_mla_bwd.py",
        codes("test_sparse_mla_bwd(S={}, H={}, topk={})",
               (2048, 64, 512), (1024, 128, 512), (4096, 64, 256)),
        asserts=True,
    ),
    Example(
        "dsa_sparse_finetune/sparse_mla_topk_reducesum.py",
        codes("test_kernel(S={}, H={}, topk={})", (2048, 16, 128), (2048, 64, 256),
               (4096, 16, 64)),
        asserts=True,
    ),
    Example(
        "dsa_sparse_finetune/indexer_bwd.py",
        codes("test_kernel(S={}, H={}, topk={})", (2048, 16, 64), (2048, 64, 128), (4096, 16, 64)),
        asserts=True,
    ),
    Example(
        "dsa_sparse_finetune/indexer_topk_reducesum.py",
        codes("test_kernel(S={}, H={}, topk={})", (2048, 64, 64), (2048, 64, 128), (4096, 16, 64)),
        asserts=True,
    ),
    Example(
        "dsa_hisa/block_sparse_mqa_fp8.py",
        codes("test_fp8_block_sparse_mqa({}, 64, 128, {}, {}, {})", (1024, 128, 64, 1),
               (4096, 128, 16, 1), (2048, 64, 32, 4)),
        asserts=True,
    ),
    Example(
        "dsa_hisa/pool_mqa_fp8.py",
        codes("test_pool_mqa_fp8({}, 64, 128, 128, 256, {})", (32768, 1), (32768, 4), (65536, 8)),
        asserts=True,
    ),
)  # fmt: skip
