"""Cases of the other examples: norms, casts, top-k, indexers, elementwise work."""

from __future__ import annotations

from .form import Example, codes, sizes

OTHERS: tuple[Example, ...] = (
    Example(
        "elementwise/example_elementwise_add.py",
        codes("main({}, {})", (1024, 1024), (4096, 4096), (8192, 16384)),
    ),
    Example(
        "norm/rms_norm.py",
        codes(
            "rms_norm.compile(M={}, N={}, blk_m=1).get_profiler()"
            ".assert_allclose(ref_program, rtol=0.01, atol=0.01)",
            (8192, 8192), (32768, 4096), (16384, 2048),
        ),
        "rms_norm",
    ),
    Example(
        "norm/rms_norm.py",
        codes(
            "rms_norm_splitk.compile(M={}, N={}, blk_m=1, blk_k=512).get_profiler()"
            ".assert_allclose(ref_program, rtol=0.01, atol=0.01)",
            (8192, 8192), (32768, 4096), (16384, 2048),
        ),
        "rms_norm_splitk",
    ),
    Example(
        "norm/layernorm.py",
        codes(
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
        sizes("", "M N", (8192, 8192), (32768, 8192), (4096, 32768)),
    ),
    Example(
        "cast/example_per_token_cast_to_fp8.py",
        codes("main({}, {}, 8)", (8192, 8192), (32768, 4096), (4096, 16384)),
    ),
    Example(
        "cast/example_group_per_split_token_cast_to_fp8.py",
        codes("main({}, {}, 2, 8, {})", (8192, 8192, [2048, 6144]), (8192, 4096, [1024, 7168]),
               (16384, 4096, [8192, 8192])),
    ),
    Example(
        "topk/example_topk.py",
        codes("main(['--M={}', '--N={}', '--topk={}'])", (320, 128, 6), (8192, 128, 8),
               (16384, 256, 8)),
    ),
    Example(
        "deepseek_mhc/example_mhc_post.py",
        codes("test({}, {})", (4096, 2560), (4096, 7168), (16384, 1280)),
    ),
    Example(
        "deepseek_mhc/example_mhc_bwd.py",
        codes(
            "m = torch.rand({}, 16, 16, device='cuda') * 4\n"
            "r, _ = sinkhorn_forward(m, 20)\n"
            "sinkhorn_bwd_implicit_cg.compile(n_stream=16)(r, torch.randn_like(r))",
            65536, 16384, 131072,
        ),
    ),
    Example(
        "deepseek_mhc/example_mhc_pre.py",
        codes("test({}, {}, 4)", (4096, 2560), (4096, 7168), (16384, 1280)),
    ),
    Example(
        "deepseek_v32/topk_selector.py",
        codes(
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
        codes(
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
        codes("test_fp8_block_mean_pooling({}, 128, 128, {})", (16384, 1), (131072, 16),
               (1048576, 16)),
    ),
    Example(
        "deepseek_v32/fp8_lighting_indexer.py",
        codes("test_fp8_lighting_indexer({}, {}, {})", (4096, 8192, 32), (2048, 8192, 64),
               (8192, 8192, 32)),
    ),
    Example(
        "dsa_hisa/clean_and_maintain_logits.py",
        codes("test_clean_and_maintain_logits({}, {}, {})", (4096, 4096, 1), (4096, 4096, 4),
               (16384, 16384, 8)),
    ),
    Example(
        "deepseek_v32/inference/kernel.py",
        codes(
            "act_quant(torch.randn({}, {}, device='cuda', dtype=torch.bfloat16))",
            (4096, 7168), (16384, 4096), (128, 7168),
        ),
        "act_quant",
    ),
    Example(
        "deepseek_v32/inference/kernel.py",
        codes(
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
        codes(
            "q, k = (torch.randn(s, device='cuda').to(torch.float8_e4m3fn)"
            " for s in ((1, {0}, 64, 128), (1, {1}, 128)))\n"
            "q_s, k_s = (torch.rand(s, device='cuda') for s in ((1, {0}, 64), (1, {1})))\n"
            "fp8_index(q, q_s, k, k_s)",
            (1024, 8192), (128, 32768), (2048, 2048),
        ),
        "fp8_index",
    ),
)  # fmt: skip
