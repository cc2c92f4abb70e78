"""Families of the eighth test split: names, extents on a GPU and on a processor, formulas.

In: nothing.  Out: rows that `families` makes families of. Small extents have several blocks along
each axis of a grid, and edges where kernels have any: one block hides mistakes that many show.
"""

from __future__ import annotations

from plant.generated.later.extents import Row

__all__ = ["TILES", "TRITONS"]


def _x(**extents: int) -> dict[str, int]:
    return extents


TILES: tuple[Row, ...] = (
    Row("adaln_modulate", _x(B=32, L=1024, N=2048), _x(B=2, L=7, N=256)),
    Row("alibi_attention", _x(heads=32, length=4096, dim=128), _x(heads=2, length=192, dim=64),
        {"flops": "2 * heads * length * (length + 64) * dim"}),
    Row("back_projection", _x(angles=256, bins=1536, W=1024, H=1024),
        _x(angles=5, bins=64, W=40, H=24)),
    Row("bm25_scores", _x(V=256, N=1 << 20, Q=16), _x(V=12, N=1500, Q=3)),
    Row("coil_combine", _x(coils=16, N=1 << 20), _x(coils=4, N=700)),
    Row("coulomb_grid", _x(N=512, W=128, H=128, D=64), _x(N=70, W=140, H=6, D=2)),
    Row("deblock_edges", _x(H=16384, W=8192), _x(H=6, W=320)),
    Row("lif_neurons", _x(steps=256, N=1 << 19), _x(steps=12, N=1500)),
    Row("lomb_scargle", _x(N=8192, F=16384), _x(N=128, F=70)),
    Row("motion_search", _x(H=2176, W=3840), _x(H=32, W=160)),
    Row("outer_mean", _x(S=1024, M=4096, N=4096), _x(S=100, M=200, N=136),
        {"flops": "2 * S * M * N"}),
    Row("ring_transform", _x(M=32768), _x(M=3)),
    Row("sha_rounds", _x(N=1 << 20), _x(N=200)),
    Row("spectral_angle", _x(M=1 << 19, F=64, K=128), _x(M=200, F=64, K=64),
        {"flops": "2 * M * F * K"}),
    Row("ssd_chunk", _x(heads=64, length=8192, dim=64), _x(heads=2, length=192, dim=64),
        {"flops": "4 * heads * length * 64 * dim"}),
    Row("tick_bars", _x(B=1 << 19), _x(B=100)),
    Row("tiny_mlp", _x(M=1 << 20), _x(M=200), {"flops": "24576 * M"}),
    Row("value_iteration", _x(Z=16, A=4096), _x(Z=2, A=100)),
)  # fmt: skip
TRITONS: tuple[Row, ...] = (
    Row("clahe_map", _x(H=8192, W=8192), _x(H=20, W=1100)),
    Row("cosine_attention", _x(windows=32768, length=64, dim=32, heads=8),
        _x(windows=5, length=64, dim=32, heads=3),
        {"flops": "4 * windows * length * length * dim"}),
    Row("crc_records", _x(N=1 << 21), _x(N=700)),
    Row("dedisperse", _x(channels=256, T=17408, trials=128), _x(channels=6, T=1724, trials=3)),
    Row("distil_top", _x(M=8192, V=32768, top=32), _x(M=3, V=5000, top=32)),
    Row("field_horner", _x(N=1 << 21, K=64), _x(N=700, K=9)),
    Row("flow_directions", _x(H=8192, W=8192), _x(H=9, W=1100)),
    Row("frame_covariance", _x(F=8192, A=2048), _x(F=3, A=700)),
    Row("info_nce", _x(N=16384, dim=128), _x(N=300, dim=64), {"flops": "2 * N * N * dim"}),
    Row("label_spread", _x(V=1 << 20, near=16), _x(V=300, near=16)),
    Row("minhash_signs", _x(docs=16384, L=256, hashes=128), _x(docs=3, L=70, hashes=64)),
    Row("pq_distances", _x(N=1 << 23), _x(N=700)),
    Row("quote_masks", _x(N=1 << 27), _x(N=9600)),
    Row("route_lookup", _x(N=1 << 25, blocks=4096), _x(N=2500, blocks=5)),
    Row("rulebook_product", _x(V=131072, taps=27, C=64, F=64), _x(V=300, taps=3, C=64, F=64),
        {"flops": "2 * taps * V * C * F"}),
    Row("sobol_normal", _x(dims=64, bits=20, N=1 << 18), _x(dims=3, bits=11, N=1500)),
    Row("tree_histogram", _x(features=16, N=1 << 19), _x(features=3, N=5000)),
    Row("tree_predict", _x(features=32, N=1 << 18, trees=64), _x(features=5, N=600, trees=3)),
)  # fmt: skip
