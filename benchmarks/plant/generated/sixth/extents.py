"""Families of the sixth test split: names, extents on a GPU and on a processor, formulas.

In: nothing.  Out: rows that `families` makes families of. Small extents have several blocks along
each axis of a grid, and edges where kernels have any: one block hides mistakes that many show.
"""

from __future__ import annotations

from plant.generated.later.extents import Row

__all__ = ["TILES", "TRITONS"]


def _x(**extents: int) -> dict[str, int]:
    return extents


TILES: tuple[Row, ...] = (
    Row("arc_margin", _x(B=8192, C=16384, D=512), _x(B=132, C=136, D=72),
        {"flops": "2 * B * C * D"}),
    Row("arm_poses", _x(joints=7, N=1 << 22), _x(joints=7, N=600)),
    Row("chacha_words", _x(N=1 << 22), _x(N=300)),
    Row("ctc_alpha", _x(batch=1024, frames=512, symbols=128, letters=60),
        _x(batch=3, frames=12, symbols=20, letters=5)),
    Row("drawdowns", _x(paths=65536, length=2048), _x(paths=20, length=300)),
    Row("edge_messages", _x(V=65536, near=32, dim=128), _x(V=20, near=32, dim=64),
        {"flops": "128 * V * near * dim"}),
    Row("farthest_points", _x(clouds=1024, N=4096), _x(clouds=2, N=200)),
    Row("gorilla_bits", _x(series=64, N=1 << 20), _x(series=2, N=3072)),
    Row("majority_votes", _x(workers=15, N=1 << 23), _x(workers=15, N=2500)),
    Row("mel_energies", _x(frames=1 << 18, bins=512, mels=80), _x(frames=100, bins=160, mels=80),
        {"flops": "2 * frames * bins * mels"}),
    Row("mppi_costs", _x(horizon=64, samples=1 << 18, circles=16),
        _x(horizon=20, samples=600, circles=3)),
    Row("outlier_product", _x(M=4096, N=8192, K=4096, O=64), _x(M=130, N=132, K=144, O=64),
        {"flops": "2 * M * N * (K + 2 * O)"}),
    Row("quotient_rows", _x(Q=65536, R=1024, D=64, N=1 << 20),
        _x(Q=12, R=8, D=32, N=100), {"touched": "N * (4 + 2 * D)"}),
    Row("ransac_planes", _x(H=16896, N=65536), _x(H=100, N=1300)),
    Row("tet_strain", _x(V=1 << 20, E=1 << 22), _x(V=50, E=600)),
    Row("triangle_counts", _x(V=16384, W=512, E=1 << 18), _x(V=30, W=300, E=20),
        {"touched": "4 * V * W + 12 * E"}),
    Row("weno_flux", _x(lines=8192, N=8192), _x(lines=3, N=1500)),
)  # fmt: skip
TRITONS: tuple[Row, ...] = (
    Row("biaffine_scores", _x(batch=256, L=512, D=128), _x(batch=2, L=100, D=64),
        {"flops": "2 * batch * L * D * (L + D)"}),
    Row("bpr_gradients", _x(users=1 << 20, items=1 << 18, N=1 << 20, D=64),
        _x(users=50, items=40, N=100, D=32), {"touched": "N * (12 + 10 * D)"}),
    Row("chosen_blocks", _x(tokens=4096, heads=16, dim=128, keys=8192, chosen=16),
        _x(tokens=5, heads=16, dim=64, keys=512, chosen=3),
        {"flops": "256 * tokens * heads * dim * chosen"}),
    Row("codebook_matvec", _x(M=65536, G=1024, K=8192), _x(M=50, G=80, K=640)),
    Row("genotype_calls", _x(depth=32, sites=1 << 22), _x(depth=9, sites=2500)),
    Row("hard_triplets", _x(B=16896, D=256, classes=2048), _x(B=200, D=64, classes=40),
        {"flops": "2 * B * B * D"}),
    Row("icp_sums", _x(N=1 << 23), _x(N=5000)),
    Row("lambda_gradients", _x(queries=16384, documents=256), _x(queries=3, documents=100)),
    Row("ldpc_checks", _x(bits=16384, words=1024, checks=8192, degree=8),
        _x(bits=40, words=300, checks=5, degree=8)),
    Row("lidar_ranges", _x(edge=4096, beams=1 << 20), _x(edge=600, beams=600)),
    Row("match_lengths", _x(N=1 << 24), _x(N=1300)),
    Row("nlms_filter", _x(padded=543, length=512, channels=32768),
        _x(padded=41, length=10, channels=150)),
    Row("parent_search", _x(degree=32, V=1 << 21, words=1 << 16), _x(degree=8, V=1280, words=40)),
    Row("parity_bytes", _x(disks=8, N=1 << 23), _x(disks=8, N=2500)),
    Row("random_walks", _x(starts=(1 << 20) + 1, edges=1 << 24, nodes=1 << 20, walks=1 << 20,
                           steps=16),
        _x(starts=101, edges=1600, nodes=100, walks=600, steps=4)),
    Row("residual_chance", _x(M=16384, N=8192), _x(M=3, N=500)),
    Row("roi_align", _x(B=8, H=100, W=104, C=256, boxes=4096), _x(B=2, H=12, W=14, C=40, boxes=3)),
    Row("select_kth", _x(M=32768, N=4096), _x(M=3, N=300)),
)  # fmt: skip
