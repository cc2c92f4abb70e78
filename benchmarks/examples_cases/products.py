"""Cases of examples whose work is a matrix product: dense, quantised, sparse, grouped."""

from __future__ import annotations

from .form import Example, Run, codes, sizes

_SQUARES = ((4096, 4096, 4096), (8192, 8192, 8192))
_GEMM = ((1024, 1024, 1024), *_SQUARES)
_RANDOM = "a, b = (torch.randn(*s, device='cuda').half() for s in (({0}, {2}), ({2}, {1})))\n"
_RANDOM_T = "a, b = (torch.randn(*s, device='cuda').half() for s in (({0}, {2}), ({1}, {2})))\n"
_CLOSE = "torch.testing.assert_close(c, a @ b, rtol=1e-2, atol=1e-2)"
_CLOSE_T = "torch.testing.assert_close(c, a @ b.T, rtol=1e-2, atol=1e-2)"

PRODUCTS: tuple[Example, ...] = (
    Example(
        "convolution/example_convolution.py",
        codes(
            "main(['--n={}', '--c={}', '--h={}', '--w={}', '--f={}'])",
            (128, 128, 64, 64, 128), (32, 256, 56, 56, 256), (64, 64, 112, 112, 128),
        ),
    ),
    Example("quickstart.py", sizes("", "M N K", *_GEMM)),
    Example(
        "gemm/example_gemm.py",
        codes(
            _RANDOM + "c = matmul(a, b, 128, 128, 32)\n" + _CLOSE,
            *_GEMM,
        ),
    ),
    Example(
        "gemm/example_gemm_persistent.py",
        codes("main({}, {}, {})", (8192, 8192, 8192), (4096, 4096, 4096), (8192, 4096, 2048)),
    ),
    Example(
        "gemm/example_gemm_autotune.py",
        codes(
            "main({}, {}, {}, False, False)",
            (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 2048),
        ),
    ),
    Example(
        "gemm/example_gemm_advanced_autotune.py",
        codes("main({}, {}, {})", (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 2048)),
    ),
    Example(
        "gemm/example_gemm_autotune_early_stop.py",
        codes(
            _RANDOM_T + "c = matmul_early_stop({0}, {1}, {2})(a, b)\n" + _CLOSE_T,
            (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 2048),
        ),
    ),
    Example(
        "gemm/example_gemm_autotune_pass_configs.py",
        codes(
            _RANDOM_T + "c = matmul_decorator({0}, {1}, {2})(a, b)\n" + _CLOSE_T,
            (4096, 4096, 4096), (8192, 8192, 8192), (8192, 4096, 2048),
        ),
    ),
    Example(
        "gemm_splitk/example_tilelang_gemm_splitk.py",
        sizes("main()", "M N K", *_GEMM),
    ),
    Example(
        "gemm_splitk/example_tilelang_gemm_splitk_vectorize_atomicadd.py",
        sizes("main()", "M N K", *_GEMM),
    ),
    Example(
        "gemm_streamk/example_tilelang_gemm_streamk.py",
        sizes("main()", "m n k", (256, 1024, 512), (512, 4096, 4096), (2048, 4096, 4096)),
    ),
    Example(
        "gemm_fp8/example_tilelang_gemm_fp8.py",
        codes("test_gemm_fp8({}, {}, {}, T.float8_e4m3fn)", *_GEMM),
        "e4m3",
        asserts=True,
    ),
    Example(
        "gemm_fp8/example_tilelang_gemm_fp8.py",
        codes("test_gemm_fp8({}, {}, {}, T.float8_e5m2)", *_GEMM),
        "e5m2",
        asserts=True,
    ),
    Example(
        "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py",
        codes("test_gemm_fp8({}, {}, {}, T.float8_e4m3fn)", *_GEMM),
        asserts=True,
    ),
    Example(
        "gemm_tcgen05/gemm_mma.py",
        sizes("", "M N K", (128, 128, 32), *_SQUARES),
    ),
    Example(
        "gemv/example_gemv.py",
        codes(
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
            codes(
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
        codes(
            "run_tilelang_grouped_gemm({}, {}, {}, 64, 128, 64, False, 2, 256)",
            ([64, 128], 8192, 8192), ([1024] * 8, 4096, 4096), ([100, 900, 512, 2048], 4096, 2048),
        ),
    ),
    Example(
        "grouped_gemm/example_grouped_gemm_bwd.py",
        codes(
            "run_tilelang_grouped_gemm({}, {}, {}, 64, 128, 64, False, 2, 256)",
            ([64, 128], 8192, 8192), ([1024] * 8, 4096, 4096), ([100, 900, 512, 2048], 4096, 2048),
        ),
    ),
    Example(
        "dynamic_shape/example_dynamic.py",
        codes("main({}, {}, {})", (16384, 16384, 16384), (4096, 4096, 4096), (8192, 4096, 2048)),
    ),
    Example(
        "blocksparse_gemm/example_blocksparse_gemm.py",
        codes(
            "import sys; sys.argv[1:] = ['--m={}', '--n={}', '--k={}']\nmain()",
            (1024, 1024, 1024), *_SQUARES,
        ),
    ),
    Example(
        "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py",
        codes(
            "assert_tl_gemm_correctness({}, {}, {}, 128, T.float8_e4m3fn, T.bfloat16, T.float32)",
            (1024, 1024, 8192), (4096, 4096, 4096), (8192, 4096, 7168),
        ),
        asserts=True,
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_barrierpipe_stage2.py",
        codes("main({}, {}, {})", (16384, 16384, 16384), *_SQUARES),
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_copy_0_gemm_1.py",
        codes("main({}, {}, {})", *_GEMM),
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_copy_1_gemm_0.py",
        codes("main({}, {}, {})", (16384, 16384, 16384), *_SQUARES),
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_softpipe_stage2.py",
        codes("main({}, {}, {})", (16384, 16384, 16384), *_SQUARES),
    ),
    Example(
        "warp_specialize/example_warp_specialize_gemm_copy_gemm_0_1.py",
        (Run("main()"), *codes(
            _RANDOM + "c = matmul_warp_specialize_copy_gemm_0_1(a, b, 128, 128, 64)\n" + _CLOSE,
            *_SQUARES,
        )),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_bf16_fp4_hopper.py",
        codes("main({}, {}, {}, False)", (256, 256, 256), (4096, 4096, 4096), (256, 8192, 8192)),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py",
        codes("main({}, {}, {}, 32, fast_dequant=False)", (256, 256, 256), (4096, 4096, 4096),
               (256, 8192, 8192)),
        "without bias",
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py",
        codes("main({}, {}, {}, 32, fast_dequant=False, with_bias=True)", (256, 256, 256),
               (4096, 4096, 4096), (256, 8192, 8192)),
        "with bias",
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_fine_grained.py",
        codes(
            "run_gemm({}, {}, {}, T.float16, T.float16, T.float32, 128, 128, 32, num_threads=128)",
            (256, 256, 256), (4096, 4096, 4096), (256, 8192, 8192),
        ),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemv_fp16xint4.py",
        codes(
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
        codes("main({}, {}, {})", (512, 512, 512), (4096, 4096, 4096), (1024, 8192, 8192)),
    ),
    Example(
        "dequantize_gemm/example_dequant_gemm_fp4_hopper.py",
        codes("main({}, {}, {})", (256, 256, 256), (4096, 4096, 4096), (1024, 8192, 8192)),
    ),
    Example(
        "fusedmoe/example_fusedmoe_tilelang.py",
        codes(
            "main(d_hidden={}, d_expert={}, seq_len={})",
            (7168, 2048, 8192), (4096, 1536, 4096), (2048, 1024, 8192),
        ),
    ),
)  # fmt: skip
