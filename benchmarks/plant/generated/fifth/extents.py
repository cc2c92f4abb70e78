"""Families of the fifth test split: names, extents on a GPU and on a processor, formulas.

In: nothing.  Out: rows that `families` makes families of. Small extents have several blocks along
each axis of a grid, and edges where kernels have any: one block hides mistakes that many show.
"""

from __future__ import annotations

from plant.generated.later.extents import Row

__all__ = ["TILES", "TRITONS"]


def _x(**extents: int) -> dict[str, int]:
    return extents


TILES: tuple[Row, ...] = (
    Row("beamform", _x(mics=32, length=(1 << 20) + 128, beams=64),
        _x(mics=3, length=2228, beams=2), {"touched": "4 * (mics + beams) * length"}),
    Row("bit_unpack", _x(W=3 << 25), _x(W=1539)),
    Row("cross_product_layer", _x(M=16384, N=2048), _x(M=140, N=136),
        {"flops": "2 * M * N * N"}),
    Row("demosaic", _x(H=8192, W=8192), _x(H=20, W=520)),
    Row("double_pendulum", _x(N=1 << 20), _x(N=600)),
    Row("eikonal", _x(H=8192, W=8192), _x(H=20, W=300)),
    Row("factorisation", _x(V=65536, D=64, M=262144, F=32), _x(V=40, D=32, M=40, F=5),
        {"touched": "2 * V * D + 4 * M * F + 4 * M"}),
    Row("gray_scott", _x(H=8192, W=8192), _x(H=20, W=300)),
    Row("hash_probe", _x(buckets=1 << 20, N=1 << 25), _x(buckets=64, N=1100),
        {"touched": "32 * buckets + 8 * N"}),
    Row("heston_paths", _x(steps=64, paths=1 << 20), _x(steps=5, paths=1100)),
    Row("hmm_forward", _x(symbols=32, length=256, batch=16384),
        _x(symbols=4, length=6, batch=128), {"flops": "8192 * length * batch"}),
    Row("late_interaction", _x(documents=32768, words=128, dim=128),
        _x(documents=8, words=64, dim=64), {"flops": "64 * documents * words * dim"}),
    Row("linkage", _x(N=8192, K=4096), _x(N=140, K=160), {"flops": "2 * N * N * K"}),
    Row("mahalanobis", _x(M=1 << 20), _x(M=1024), {"flops": "32768 * M"}),
    Row("maxout", _x(M=8192, N=4096, K=2048), _x(M=140, N=136, K=160),
        {"flops": "4 * M * N * K"}),
    Row("minimizers", _x(N=(1 << 27) + 32), _x(N=5000)),
    Row("motif_scan", _x(N=(1 << 26) + 16), _x(N=5008)),
    Row("pair_histogram", _x(N=16384), _x(N=1100)),
    Row("polyphase", _x(batch=64, length=(1 << 18) + 16), _x(batch=2, length=700)),
    Row("ray_boxes", _x(R=1 << 18, B=512), _x(R=300, B=512)),
    Row("relu_attention", _x(heads=32, length=4096, dim=128), _x(heads=2, length=256, dim=64),
        {"flops": "4 * heads * length * length * dim"}),
    Row("smith_waterman", _x(batch=4096, length=256), _x(batch=3, length=24)),
    Row("splat_pixels", _x(V=131072, tiles=16384, L=128), _x(V=30, tiles=3, L=128),
        {"touched": "32 * V + 4 * tiles * L + 3072 * tiles"}),
    Row("structure_factor", _x(N=65536, K=4096), _x(N=1100, K=300)),
    Row("su3_links", _x(N=1 << 22), _x(N=1100)),
    Row("tone_map", _x(N=1 << 26), _x(N=5000)),
    Row("zone_map", _x(Z=65536, N=4096), _x(Z=20, N=1024)),
)  # fmt: skip
TRITONS: tuple[Row, ...] = (
    Row("autocorrelate", _x(M=8192, N=2048), _x(M=3, N=200)),
    Row("bit_edits", _x(L=128, M=1 << 20), _x(L=40, M=300)),
    Row("bloom_probe", _x(words=1 << 22, N=1 << 24), _x(words=64, N=700),
        {"touched": "4 * words + 5 * N"}),
    Row("bootstrap_means", _x(N=4096, draws=65536), _x(N=1500, draws=5)),
    Row("boris_push", _x(N=1 << 24), _x(N=2500)),
    Row("census", _x(H=8192, W=8192), _x(H=7, W=1300)),
    Row("civil_dates", _x(N=1 << 27), _x(N=2500)),
    Row("cross_layer", _x(M=65536, N=1024), _x(M=5, N=300)),
    Row("factor_step", _x(M=16384, N=16384, dim=64), _x(M=128, N=192, dim=32),
        {"flops": "4 * M * N * dim"}),
    Row("garch", _x(L=512, M=1 << 17), _x(L=9, M=300)),
    Row("goertzel", _x(L=512, M=1 << 17), _x(L=20, M=300)),
    Row("group_by_sums", _x(N=1 << 26), _x(N=40000)),
    Row("implied_vol", _x(N=1 << 23), _x(N=1200)),
    Row("interest_pool", _x(users=65536, most=64, dim=64), _x(users=5, most=40, dim=32),
        {"touched": "9 * users * most * dim // 8 + 6 * users * dim"}),
    Row("kendall", _x(M=2048, N=512), _x(M=3, N=300)),
    Row("logit_penalties", _x(M=1024, N=131072), _x(M=3, N=2500)),
    Row("mu_law", _x(N=1 << 27), _x(N=5000)),
    Row("outline_distance", _x(N=1 << 21, pieces=256), _x(N=1200, pieces=7)),
    Row("over_layers", _x(layers=8, N=1 << 23), _x(layers=3, N=2500)),
    Row("qubit_gate", _x(N=1 << 26), _x(N=16384)),
    Row("rank_update", _x(M=8192, N=8192, K=512), _x(M=140, N=200, K=128),
        {"flops": "2 * M * N * K"}),
    Row("rbf_matrix", _x(M=8192, N=8192, K=256), _x(M=256, N=256, K=128),
        {"flops": "2 * M * N * K"}),
    Row("red_black", _x(H=8192, W=16384), _x(H=7, W=1300)),
    Row("retention", _x(heads=32, N=4096, dim=64), _x(heads=2, N=256, dim=32),
        {"flops": "2 * heads * N * N * dim"}),
    Row("rolling_corr", _x(M=1024, N=16384), _x(M=3, N=700)),
    Row("sh_colours", _x(N=1 << 22), _x(N=1200)),
    Row("tanimoto", _x(words=32, M=4096, N=4096), _x(words=4, M=70, N=100)),
    Row("yuv_frames", _x(frames=64, H=1088, W=1920, half=544, across=960),
        _x(frames=2, H=4, W=60, half=2, across=30)),
)  # fmt: skip
