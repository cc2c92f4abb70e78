"""Cases of examples that go through a sequence in chunks: linear attention, delta rules."""

from __future__ import annotations

from .form import Example, codes

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

RECURRENCES: tuple[Example, ...] = (
    Example(
        "linear_attention/example_linear_attn_fwd.py",
        codes(_FLA + "main({}, {}, {}, {})", (8, 1024, 32, 128), (1, 512, 16, 128),
               (4, 4096, 16, 128)),
        asserts=True,
    ),
    Example(
        "linear_attention/example_linear_attn_bwd.py",
        codes(_FLA + "main({}, {}, {}, {})", (8, 1024, 32, 128), (1, 1024, 16, 128),
               (4, 4096, 16, 128)),
        asserts=True,
    ),
    Example(
        "linear_attention/example_retention_fwd.py",
        codes("call(chunk_retention_fwd_kernel({0}, {1}, {2}, {3}, {3}))", (8, 4096, 32, 128),
               (1, 4096, 16, 128), (8, 2048, 16, 128)),
    ),
    Example(
        "linear_attention/example_mamba_chunk_scan.py",
        codes(
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
        codes(
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
        codes(
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
        codes(
            "call(tilelang_chunk_fwd_o({}, {}, {}, 128, 128, " + _GDN +
            ", 64, 128**-0.5, True, 64, 128, 128, 128, 1))", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_chunk_o_bwd.py",
        codes(
            "call(tilelang_chunk_o_bwd_dqkwg({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 128**-0.5, True, True, 64, 64, 128, 0))", *_CHUNKS_8,
        ),
    ),
    Example(
        "gdn/example_chunk_scaled_dot_kkt.py",
        codes(
            "call(tilelang_chunk_scaled_dot_kkt_fwd({}, {}, {}, 128, 64, 'bfloat16', 'bfloat16',"
            " 'float32', True, 64, 64, 128, 2))", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_cumsum.py",
        codes(
            "call(tilelang_chunk_local_cumsum_scalar({}, {}, {}, 64, False, False, True, 'float32',"
            " 'float32', 64, 256, False))", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_wy_fast.py",
        codes(
            "call(tilelang_recompute_w_u_fwd({}, {}, {}, 128, 128, 'bfloat16', 'bfloat16',"
            " 'float32', 'float32', 64, 64, 64, 32, 128, 3))", *_CHUNKS,
        ),
    ),
    Example(
        "gdn/example_wy_fast_bwd_split.py",
        codes(
            "call(tilelang_wy_fast_bwd({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 32, 32, 128, 0))", *_CHUNKS_8,
        ),
        "whole",
    ),
    Example(
        "gdn/example_wy_fast_bwd_split.py",
        codes(
            "call(tilelang_wy_fast_bwd_split({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 32, 32, 128, 0))", *_CHUNKS_8,
        ),
        "split",
    ),
    Example(
        "gdn/example_chunk_delta_bwd.py",
        codes(
            _UNIT + "call(tilelang_chunk_gated_delta_rule_bwd_dhu({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 128**-0.5, True, True, True, 32, 128, 1), delta_gradients, K=unit,"
            " W=unit, G=chunk_gates, dht=normal, dO=normal, dv=normal, Q=normal)", *_CHUNKS_8,
        ),
    ),
    Example(
        "kda/chunk_bwd_dqkwg.py",
        codes(
            "call(chunk_bwd_dqkwg({}, {}, {}, 128, 128, 1.0, 64, 'float32', 'float32', 32, 32, 128,"
            " 2))", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_bwd_dv.py",
        codes(
            "call(tilelang_chunk_bwd_kernel_dv_local({}, {}, {}, 128, 'bfloat16', 'bfloat16',"
            " 'float32', 64, 128, 128, 1))", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_bwd_gla_dA.py",
        codes(
            "call(tilelang_chunk_bwd_kernel_dv_local({}, {}, {}, 128, 1.0, 'bfloat16', 'float32',"
            " 'bfloat16', 64, 128, 128, 1))", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_bwd_intra.py",
        codes(
            "call(tilelang_chunk_bwd_intra({}, {}, {}, 128, 'float32', 'float32', 'float32',"
            " 'float32', 'float32', 64, 64))", (1, 8192, 8), (1, 4096, 32), (4, 4096, 8),
        ),
    ),
    Example(
        "kda/chunk_delta_bwd.py",
        codes(
            _UNIT + "call(tilelang_chunk_gated_delta_rule_bwd_dhu({}, {}, {}, 128, 128, " + _GDN +
            ", 'float32', 64, 128**-0.5, True, True, True, 32, 128, 1), delta_gradients_keys,"
            " K=unit, W=unit, GK=chunk_gates, dht=normal, dv=normal,"
            " Q=lambda *a: normal(*a) * 0.01, dO=lambda *a: normal(*a) * 0.01)", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_delta_h_fwd.py",
        codes(
            _UNIT.replace("bfloat16", "half") +
            "call(tilelang_chunk_gated_delta_rule_fwd_h({}, {}, {}, 128, 128, 'float16', 'float16',"
            " 'float32', 'float32', 'float32', 64, True, True, True, True, 32, 32, 128, 2),"
            " delta_states_keys, K=unit, W=unit, U=unit, GK=chunk_gates, initial_state=normal)",
            *_KDA,
        ),
    ),
    Example(
        "kda/chunk_inter_solve_fused.py",
        codes(
            "call(tilelang_chunk_kda_fwd_inter_fused({}, {}, {}, 128, " + _GDN + ", 64, 16, 1.0))",
            *_KDA,
        ),
    ),
    Example(
        "kda/chunk_intra_token_parallel.py",
        codes(
            "call(tilelang_chunk_kda_fwd_intra_token_parallel({}, {}, {}, 128, " + _GDN +
            ", 64, 16))", *_KDA,
        ),
    ),
    Example(
        "kda/chunk_o.py",
        codes(
            "call(tilelang_chunk_fwd_o({}, {}, {}, 128, 128, " + _GDN +
            ", 64, 128**-0.5, 64, 32, 32, 128, 1))", *_KDA,
        ),
    ),
    Example(
        "kda/wy_fast.py",
        codes(
            "call(tilelang_recompute_w_u_fwd({}, {}, {}, 128, 128, 'bfloat16', 'bfloat16',"
            " 'float32', 'float32', 64, False, True, block_S=64, block_DK=64, block_DV=32,"
            " threads=128, num_stages=3))", *_KDA,
        ),
    ),
    Example(
        "kda/wy_fast_bwd.py",
        codes(
            "call(tilelang_wy_fast_bwd({}, {}, {}, 128, 128, 'float32', 'float32', 'float32',"
            " 'float32', 'float32', 64, 32, 32, 128, 0))", *_CHUNKS_8,
        ),
    ),
)  # fmt: skip
