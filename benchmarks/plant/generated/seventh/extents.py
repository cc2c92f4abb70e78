"""Families of the seventh test split: names, extents on a GPU and on a processor, formulas.

In: nothing.  Out: rows that `families` makes families of. Small extents have several blocks along
each axis of a grid, and edges where kernels have any: one block hides mistakes that many show.
"""

from __future__ import annotations

from plant.generated.later.extents import Row

__all__ = ["TILES", "TRITONS"]


def _x(**extents: int) -> dict[str, int]:
    return extents


TILES: tuple[Row, ...] = (
    Row("cfar_detect", _x(pulses=16384, N=4096), _x(pulses=3, N=700)),
    Row("coarse_grid", _x(D=512, H=512, W=512), _x(D=8, H=10, W=300)),
    Row("contact_counts", _x(frames=512, R=2048), _x(frames=5, R=80)),
    Row("cube_cases", _x(D=512, H=512, W=512), _x(D=4, H=12, W=140)),
    Row("dora_norms", _x(N=8192, K=8192, R=32), _x(N=100, K=200, R=32),
        {"flops": "2 * N * K * R"}),
    Row("expert_slots", _x(M=1 << 22), _x(M=300)),
    Row("gptq_columns", _x(N=65536), _x(N=100)),
    Row("guided_step", _x(B=2048, N=16384), _x(B=3, N=2048)),
    Row("hough_lines", _x(N=1 << 18, angles=1024), _x(N=1500, angles=5)),
    Row("life_words", _x(H=65536, W=1024), _x(H=10, W=300)),
    Row("min_plus_product", _x(M=2048, N=2048, K=2048), _x(M=100, N=200, K=32)),
    Row("nonlocal_means", _x(H=2048, W=2048), _x(H=40, W=70)),
    Row("png_filters", _x(lines=16384, N=8192), _x(lines=5, N=1500)),
    Row("portfolio_losses", _x(paths=131072, names=4096, F=64), _x(paths=200, names=150, F=64),
        {"flops": "2 * paths * names * F"}),
    Row("radiation_columns", _x(levels=64, N=1 << 18), _x(levels=6, N=200)),
    Row("random_features", _x(M=65536, D=128, F=1024), _x(M=200, D=96, F=200),
        {"flops": "2 * M * D * F"}),
    Row("sage_attention", _x(heads=32, length=4096, dim=128, blocks=64),
        _x(heads=2, length=192, dim=64, blocks=3),
        {"flops": "4 * heads * length * length * dim"}),
    Row("small_cholesky", _x(count=32768), _x(count=3)),
)  # fmt: skip
TRITONS: tuple[Row, ...] = (
    Row("bond_prices", _x(N=1 << 20), _x(N=700)),
    Row("cg_step", _x(N=1 << 25), _x(N=5000)),
    Row("colour_cube", _x(N=1 << 23), _x(N=700)),
    Row("draft_accept", _x(seqs=1024, drafts=4, rows=4096, V=32768),
        _x(seqs=5, drafts=3, rows=15, V=5000)),
    Row("edge_relax", _x(V=1 << 20, E=1 << 24), _x(V=50, E=2500)),
    Row("fm_search", _x(words=(1 << 20) + 1, reads=1 << 20, length=12),
        _x(words=41, reads=300, length=4)),
    Row("grpo_loss", _x(B=16384, L=4096), _x(B=3, L=1500)),
    Row("indexer_scores", _x(tokens=1024, heads=16, dim=128, S=8192),
        _x(tokens=128, heads=4, dim=64, S=300), {"flops": "2 * tokens * heads * dim * S"}),
    Row("kuramoto_pull", _x(N=16384), _x(N=150)),
    Row("mesh_distances", _x(N=1 << 17, F=512), _x(N=300, F=20)),
    Row("ngram_lookup", _x(B=8192, L=8192), _x(B=5, L=2500)),
    Row("page_scores", _x(heads=512, pages=1024, dim=128), _x(heads=3, pages=150, dim=64)),
    Row("rans_encode", _x(length=128, lanes=1 << 18), _x(length=20, lanes=600)),
    Row("sea_density", _x(N=1 << 26), _x(N=2500)),
    Row("soft_demap", _x(N=1 << 20), _x(N=300)),
    Row("tensor_eigen", _x(N=1 << 22), _x(N=1200)),
    Row("toeplitz_mix", _x(B=8, L=2048, heads=16, dim=64), _x(B=2, L=200, heads=2, dim=64),
        {"flops": "B * heads * L * (L + 128) * dim"}),
    Row("utf8_points", _x(N=1 << 26), _x(N=2500)),
    Row("winding_numbers", _x(N=1 << 20, E=256), _x(N=1200, E=20)),
)  # fmt: skip
