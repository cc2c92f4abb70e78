"""Families of the third test split: names, extents on a GPU and on a processor, formulas.

In: nothing.  Out: rows that `families` makes families of. Small extents have several blocks along
each axis of a grid, and edges where kernels have any: one block hides mistakes that many show.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["TILES", "TRITONS", "Row"]


@dataclass(frozen=True)
class Row:
    """A family's extents and formulas, by the name of its file."""

    name: str
    shape: dict[str, int]
    small: dict[str, int]
    more: dict[str, str] = field(default_factory=dict)
    """Formulas, as `flops` or `touched`."""


def _x(**extents: int) -> dict[str, int]:
    return extents


_PRODUCT = "2 * M * N * K"

TILES: tuple[Row, ...] = (
    Row("advantages", _x(steps=256, N=65536), _x(steps=7, N=600)),
    Row("attention_delta", _x(M=524288, dim=128), _x(M=150, dim=64)),
    Row("bilateral", _x(H=4100, W=4100), _x(H=21, W=150)),
    Row("black_scholes", _x(N=1 << 25), _x(N=2500)),
    Row("byte_momentum", _x(blocks=131072), _x(blocks=20)),
    Row("capped_attention", _x(heads=32, length=4096, dim=128), _x(heads=2, length=256, dim=64),
        {"flops": "4 * heads * length * length * dim"}),
    Row("chamfer", _x(M=16384, N=16384), _x(M=100, N=192)),
    Row("cluster_sums", _x(M=262144, dim=256, codes=256), _x(M=2100, dim=136, codes=140),
        {"flops": "2 * M * dim * codes"}),
    Row("complex_gemm", _x(M=4096, N=2048, K=2048), _x(M=140, N=136, K=136),
        {"flops": "8 * M * N * K"}),
    Row("conv1d_stem", _x(batch=32, length=3001, C=512, F=512),
        _x(batch=1, length=301, C=64, F=136),
        {"flops": "3 * batch * (length - 1) * C * F"}),
    Row("delta_rule", _x(heads=512, length=512, dim=64), _x(heads=2, length=32, dim=32)),
    Row("ell_product", _x(M=1 << 20, E=32, V=1 << 20), _x(M=150, E=8, V=90)),
    Row("fir", _x(M=256, N=65599), _x(M=3, N=1500)),
    Row("frame_product", _x(batch=64, samples=262528, waves=512),
        _x(batch=2, samples=20096, waves=136),
        {"flops": "1024 * batch * ((samples - 512) // 128 + 1) * waves"}),
    Row("hash_encode", _x(N=1 << 20, levels=8, size=1 << 16), _x(N=300, levels=3, size=256)),
    Row("heat3d", _x(D=258, H=514, W=514), _x(D=5, H=20, W=150)),
    Row("latent_decode", _x(batch=132, heads=64, length=2048, dim=256),
        _x(batch=2, heads=128, length=128, dim=64),
        {"flops": "2 * batch * heads * length * (2 * dim + 64)"}),
    Row("lattice_bgk", _x(N=1 << 23), _x(N=1300)),
    Row("median_filter", _x(H=8194, W=8194), _x(H=13, W=300)),
    Row("nbody", _x(N=16384), _x(N=300)),
    Row("norm_add_relu", _x(M=200704, C=512), _x(M=20, C=264)),
    Row("pair_loss", _x(M=16896, N=8192, K=512), _x(M=200, N=256, K=72), {"flops": _PRODUCT}),
    Row("pixel_shuffle", _x(batch=16, high=128, wide=128, C=512),
        _x(batch=2, high=3, wide=11, C=72)),
    Row("pool_keys", _x(heads=128, length=16384, dim=128), _x(heads=2, length=512, dim=40)),
    Row("row_sort", _x(M=32768, N=1024), _x(M=3, N=64)),
    Row("shift_windows", _x(batch=32, side=128, C=256), _x(batch=2, side=16, C=136)),
    Row("sinkhorn_rows", _x(M=8192, N=16384), _x(M=10, N=3072)),
    Row("triangle_product", _x(C=128, N=512, K=512), _x(C=2, N=136, K=72),
        {"flops": "2 * C * N * N * K"}),
    Row("two_bit_product", _x(M=4096, N=4096, K=4096, words=256),
        _x(M=140, N=136, K=384, words=24), {"flops": _PRODUCT}),
    Row("viterbi", _x(batch=1024, length=512, states=32), _x(batch=2, length=64, states=8)),
)  # fmt: skip

TRITONS: tuple[Row, ...] = (
    Row("advect", _x(H=8192, W=8192), _x(H=9, W=1100)),
    Row("attention_kv_grad", _x(heads=32, N=4096, dim=64), _x(heads=2, N=512, dim=64),
        {"flops": "8 * heads * N * N * dim"}),
    Row("biquad", _x(L=512, N=65536), _x(L=9, N=300)),
    Row("bsr_product", _x(R=128, kept=16, edge=64, C=128, deep=8192, N=4096),
        _x(R=3, kept=2, edge=64, C=5, deep=320, N=200),
        {"flops": "2 * R * kept * edge * edge * N",
         "touched": "2 * (R * kept * edge * edge + deep * N + R * edge * N)"}),
    Row("butterfly", _x(M=4096, N=4096), _x(M=3, N=1300)),
    Row("byte_matvec", _x(M=32768, K=16384), _x(M=20, K=4096)),
    Row("clip_rows", _x(M=32768, N=1024), _x(M=5, N=256)),
    Row("csr_product", _x(ends=65537, E=1 << 21, V=65536, N=128), _x(ends=9, E=60, V=30, N=200),
        {"touched": "8 * E + 4 * N * (V + ends)"}),
    Row("eight_bit_weight", _x(M=2048, N=8192, K=4096), _x(M=300, N=384, K=256),
        {"flops": _PRODUCT}),
    Row("gated_norm", _x(M=32768, N=4096), _x(M=5, N=500)),
    Row("geglu_grad", _x(M=16384, N=8192), _x(M=3, N=1500)),
    Row("jagged_attention", _x(R=32768, heads=16, dim=64, ends=65),
        _x(R=700, heads=2, dim=64, ends=4),
        {"flops": "4 * heads * dim * R * R // (ends - 1)"}),
    Row("jagged_to_padded", _x(R=131072, N=2048, ends=257), _x(R=30, N=1100, ends=4)),
    Row("jsd_loss", _x(M=8192, N=16384), _x(M=3, N=4500)),
    Row("kernel_regression", _x(M=65536, N=8192, dim=64), _x(M=300, N=256, dim=64),
        {"flops": "2 * M * N * dim"}),
    Row("masked_softmax", _x(heads=64, N=2048), _x(heads=2, N=60)),
    Row("merge_parts", _x(parts=16, R=65536, dim=128), _x(parts=3, R=70, dim=64)),
    Row("newton_schulz", _x(N=4096), _x(N=512), {"flops": "2 * N * N * N"}),
    Row("noisy_top", _x(M=4096, N=32768), _x(M=3, N=3500)),
    Row("pack_nibbles", _x(M=16384, N=8192), _x(M=3, N=4096)),
    Row("pair_forces", _x(N=262144, E=64), _x(N=150, E=64)),
    Row("peak_filter", _x(H=8192, W=8192), _x(H=21, W=300)),
    Row("qk_norm_rope", _x(tokens=16384, heads=32, dim=128, half=64),
        _x(tokens=7, heads=6, dim=64, half=32)),
    Row("random_rounding", _x(N=1 << 27), _x(N=3000)),
    Row("routed_product", _x(T=8192, E=16, M=16384, N=2048, K=2048),
        _x(T=90, E=3, M=512, N=256, K=256), {"flops": _PRODUCT}),
    Row("row_entropy", _x(M=8192, N=32768), _x(M=3, N=2500)),
    Row("shallow_water", _x(H=8192, W=4096), _x(H=7, W=1100)),
    Row("silu_attention", _x(heads=64, N=4096, dim=64), _x(heads=2, N=512, dim=64),
        {"flops": "2 * heads * N * N * dim"}),
    Row("skinny_product", _x(M=16, N=16384, K=8192), _x(M=12, N=256, K=2048),
        {"flops": _PRODUCT}),
    Row("snake", _x(B=8, C=512, N=16384), _x(B=2, C=3, N=1300)),
    Row("sparse_adagrad", _x(V=262144, N=256, M=131072), _x(V=20, N=300, M=9),
        {"touched": "4 * M * (4 * N + 1)"}),
    Row("split_qkv", _x(B=8, L=4096, heads=16, dim=128), _x(B=2, L=70, heads=3, dim=64)),
    Row("square_norm", _x(N=1 << 28), _x(N=9000)),
    Row("token_shift", _x(B=8, L=8192, N=2048), _x(B=2, L=5, N=1500)),
    Row("tridiagonal", _x(L=256, N=65536), _x(L=6, N=300)),
    Row("wkv", _x(heads=512, L=256, dim=64), _x(heads=2, L=12, dim=64)),
)  # fmt: skip
