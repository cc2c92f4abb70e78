"""Families of the fourth test split: names, extents on a GPU and on a processor, formulas.

In: nothing.  Out: rows that `families` makes families of. Small extents have several blocks along
each axis of a grid, and edges where kernels have any: one block hides mistakes that many show.
"""

from __future__ import annotations

from plant.generated.later.extents import Row

__all__ = ["TILES", "TRITONS"]


def _x(**extents: int) -> dict[str, int]:
    return extents


_PRODUCT = "2 * M * N * K"

TILES: tuple[Row, ...] = (
    Row("american_put", _x(N=65536), _x(N=2)),
    Row("binary_product", _x(M=8192, N=8192, words=128), _x(M=70, N=72, words=24)),
    Row("compact_rows", _x(M=65536, N=1024), _x(M=5, N=256)),
    Row("dct_blocks", _x(H=8192, W=8192), _x(H=24, W=136)),
    Row("digit_counts", _x(N=1 << 27), _x(N=9000)),
    Row("graph_attention", _x(V=131072, M=131072, E=16, N=256), _x(V=30, M=9, E=8, N=136),
        {"touched": "2 * V * N + 2 * M * N + 4 * V + 4 * M + 4 * M * E"}),
    Row("ising", _x(H=16384, W=16384), _x(H=6, W=300)),
    Row("kalman", _x(L=512, N=131072), _x(L=9, N=300)),
    Row("lamb_rows", _x(M=16384, N=4096), _x(M=3, N=264)),
    Row("lower_bound", _x(V=1 << 16, N=1 << 25), _x(V=300, N=2500)),
    Row("mx_quantise", _x(M=32768, N=4096), _x(M=3, N=4096)),
    Row("mxfp4_product", _x(M=4096, N=4096, K=4096, bytes=2048, blocks=128),
        _x(M=140, N=136, K=128, bytes=64, blocks=4), {"flops": _PRODUCT}),
    Row("permute_tokens", _x(tokens=32768, M=131072, N=2048), _x(tokens=9, M=20, N=1100),
        {"touched": "2 * (tokens + M) * N + 8 * M"}),
    Row("ragged_decode", _x(batch=128, groups=8, length=4096, dim=128),
        _x(batch=2, groups=2, length=256, dim=64),
        {"touched": "18 * batch * groups * length * dim // 8"}),
    Row("requantise_product", _x(M=8192, N=8192, K=4096), _x(M=140, N=136, K=160),
        {"flops": _PRODUCT}),
    Row("small_fft", _x(M=262144), _x(M=9)),
    Row("sobel", _x(H=16386, W=16384), _x(H=13, W=600)),
    Row("ssim", _x(H=8192, W=8192), _x(H=40, W=1040)),
    Row("state_step", _x(batch=512, S=16, D=8192), _x(batch=2, S=4, D=300)),
    Row("time_warp", _x(batch=16384, length=256), _x(batch=3, length=24)),
    Row("tree_attention", _x(batch=16, heads=32, length=8192, dim=128),
        _x(batch=2, heads=2, length=256, dim=64),
        {"flops": "256 * batch * heads * length * dim"}),
    Row("wavenet_gate", _x(batch=16, length=8200, C=512, F=512),
        _x(batch=2, length=108, C=64, F=136),
        {"flops": "8 * batch * (length - 8) * C * F"}),
    Row("yee_step", _x(H=8192, W=8192), _x(H=20, W=300)),
)  # fmt: skip
TRITONS: tuple[Row, ...] = (
    Row("adapter_rows", _x(M=32768, K=4096, N=4096, A=16, R=64, tiles=2048),
        _x(M=48, K=256, N=256, A=3, R=16, tiles=3),
        {"flops": "2 * M * (K + N) * R"}),
    Row("axial_rope", _x(batch=32, L=4096, heads=16, wide=64, dim=64, half=32),
        _x(batch=2, L=12, heads=2, wide=4, dim=16, half=8)),
    Row("banded_product", _x(M=1 << 20, N=128), _x(M=70, N=100)),
    Row("bucket_bias", _x(heads=64, N=2048), _x(heads=2, N=60)),
    Row("byte_decode", _x(groups=1024, heads=16, N=4096, dim=128),
        _x(groups=3, heads=16, N=192, dim=64)),
    Row("conv_update", _x(batch=4096, D=8192), _x(batch=3, D=700),
        {"touched": "18 * batch * D + 16 * D"}),
    Row("differential_attention", _x(heads=32, N=4096, both=128), _x(heads=2, N=192, both=64),
        {"flops": "3 * heads * N * N * both"}),
    Row("grid_sample", _x(batch=16, H=128, W=128, C=128, points=65536),
        _x(batch=2, H=5, W=6, C=40, points=30)),
    Row("group_gate", _x(M=131072, E=256), _x(M=10, E=64)),
    Row("mixture_density", _x(N=1 << 21, dim=32, parts=64), _x(N=300, dim=8, parts=5)),
    Row("nucleus_cut", _x(M=8192, N=32768), _x(M=3, N=700)),
    Row("overlap_add", _x(batch=128, F=2048), _x(batch=2, F=9)),
    Row("padded_attention", _x(batch=16, heads=16, N=2048, dim=64),
        _x(batch=2, heads=2, N=256, dim=32),
        {"flops": "9 * batch * heads * N * N * dim // 4"}),
    Row("pinball_loss", _x(Q=9, N=1 << 25), _x(Q=3, N=140_000)),
    Row("prune_pairs", _x(M=8192, N=8192), _x(M=3, N=500)),
    Row("quaternion_turn", _x(N=1 << 25), _x(N=2500)),
    Row("row_ranks", _x(M=8192, N=1024), _x(M=3, N=300)),
    Row("segment_scan", _x(M=16384, N=8192), _x(M=3, N=2500)),
    Row("segment_softmax", _x(ends=131073, E=1 << 25), _x(ends=6, E=2000)),
    Row("spline_layer", _x(M=16384, N=4096), _x(M=9, N=300),
        {"touched": "4 * M * N + 56 * N"}),
    Row("voxel_sums", _x(N=1 << 25), _x(N=3000)),
    Row("weighted_bag", _x(V=262144, N=256, E=1 << 20, ends=32769), _x(V=40, N=200, E=60, ends=5),
        {"touched": "2 * N * V + 8 * E + 4 * N * ends"}),
    Row("zigzag_delta", _x(M=8192, N=16384), _x(M=3, N=2500)),
)  # fmt: skip
