"""Tile kernels of the second test split: extents on a GPU and on a processor.

In: nothing.  Out: `FAMILIES`; `tile_problems` has inputs and results for each of them.
"""

from __future__ import annotations

from .family import Family, extents, tile

__all__ = ["FAMILIES"]

_PRODUCT = "2 * M * N * K"

FAMILIES: tuple[Family, ...] = (
    tile("box_overlap", extents(M=8192, N=16384), extents(M=20, N=70)),
    tile("chunk_attention", extents(heads=128, length=4096, dim=128),
         extents(heads=1, length=256, dim=32), flops="4 * heads * length * 128 * dim"),
    tile("cost_volume", extents(lines=544, wide=1024, padded=1088, C=64),
         extents(lines=2, wide=64, padded=128, C=32), flops="2 * lines * wide * 128 * C"),
    tile("deconv", extents(lines=1024, wide=128, C=256, F=128),
         extents(lines=1, wide=10, C=64, F=40), flops="8 * lines * wide * C * F"),
    tile("depthwise_conv", extents(batch=32, high=114, wide=114, C=256),
         extents(batch=2, high=4, wide=5, C=64)),
    tile("dot_interaction", extents(batch=32768, features=32, dim=128),
         extents(batch=2, features=32, dim=32)),
    tile("ema_scan", extents(batch=32, length=1024, C=2048), extents(batch=2, length=40, C=32)),
    tile("glu_backward", extents(M=8192, N=8192), extents(M=3, N=40)),
    tile("gram", extents(N=8192, K=4096), extents(N=136, K=40), flops="N * (N + 128) * K",
         touched="2 * N * K + 2 * N * N"),
    tile("haar", extents(M=16384, N=8192), extents(M=6, N=40)),
    tile("hadamard", extents(M=32768, N=4096), extents(M=40, N=256),
         flops="2 * M * N * 128"),
    tile("instance_norm", extents(planes=16384, N=4096, C=256), extents(planes=5, N=256, C=3)),
    tile("l1_distance", extents(M=4096, N=4096, K=256), extents(M=20, N=70, K=24)),
    tile("lora", extents(M=4096, N=4096, K=4096), extents(M=40, N=72, K=136),
         flops=f"{_PRODUCT} + 32 * M * K"),
    tile("loss_backward", extents(M=8192, V=32768), extents(M=5, V=300)),
    tile("lstm_cell", extents(M=32768, H=1024), extents(M=3, H=40)),
    tile("max_pool", extents(batch=128, high=113, wide=113, C=64),
         extents(batch=2, high=5, wide=7, C=16)),
    tile("moving_average", extents(M=32768, N=2048), extents(M=3, N=256)),
    tile("nearest_code", extents(M=65536, N=8192, dim=128), extents(M=40, N=256, dim=32),
         flops="2 * M * N * dim"),
    tile("nf4_product", extents(M=2048, N=4096, K=4096, bytes=2048, groups=64),
         extents(M=40, N=24, K=128, bytes=64, groups=2), flops=_PRODUCT),
    tile("norm_backward", extents(M=32768, N=2048), extents(M=3, N=256)),
    tile("patch_embed", extents(lines=3584, across=14, F=768), extents(lines=4, across=3, F=40),
         flops="2048 * lines * across * F"),
    tile("rope_cache", extents(tokens=131072, heads=8, dim=128, half=64, places=8192),
         extents(tokens=11, heads=2, dim=16, half=8, places=20)),
    tile("token_fp8", extents(M=32768, N=4096), extents(M=3, N=256)),
    tile("top2_gate", extents(M=1 << 20, E=64), extents(M=40, E=16)),
    tile("upsample", extents(batch=16, high=64, wide=64, C=512),
         extents(batch=1, high=3, wide=4, C=40)),
    tile("vocab_logsumexp", extents(M=16896, V=16384, K=1024), extents(M=20, V=256, K=72),
         flops="2 * M * V * K"),
    tile("volume_render", extents(R=131072, S=128), extents(R=20, S=32)),
    tile("winograd_input", extents(batch=32, high=58, wide=58, C=256),
         extents(batch=2, high=6, wide=8, C=16)),
)  # fmt: skip
