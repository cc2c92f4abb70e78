"""Kernels that mutants are made of: where they stand, what they run on, what comes out.

In: nothing.  Out: a `Family` for each kernel: those of the case studies, tile and Triton kernels
written for this benchmark on problems that public examples and tutorials have, and the kernels of
the older splits, which are known to development and only used there. Families of later splits stand
in modules of their own, `…_families.py` with their `FAMILIES`, which are found by their names, as
are `…_problems.py` by `problems`.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from plant.twins import KERNELS

from .family import Family
from .family import case as _case
from .family import extents as _extents
from .family import tile as _tile
from .family import triton as _triton

__all__ = ["FAMILIES", "LATER", "Family"]

_PRODUCT = "2 * M * N * K"
_SMALL_PRODUCT = _extents(M=256, N=128, K=192)

_CASES = (
    _case("vector_add", _extents(N=1 << 26), _extents(N=1000)),
    _case("softmax", _extents(M=32768, N=2048), _extents(M=9, N=512)),
    _case("rms_norm", _extents(M=32768, N=2048), _extents(M=9, N=512)),
    _case("matmul", _extents(M=4096, N=4096, K=4096), _extents(M=100, N=130, K=70), flops=_PRODUCT),
    _case("int4_matmul", _extents(M=2048, N=4096, K=4096), _extents(M=70, N=96, K=128),
          flops=_PRODUCT),
    _case("fp8_matmul", _extents(M=2048, N=4096, K=4096), _extents(M=260, N=130, K=256),
          flops=_PRODUCT),
    _case("grouped_matmul", _extents(rows=8192, experts=8, N=4096, K=2048),
          _extents(rows=300, experts=3, N=264, K=128), flops="2 * rows * N * K"),
    _case("sparse_attention",
          _extents(batch=2, length=4096, keys=4096, heads=16, groups=4, dim=128, rows=32, most=32),
          _extents(batch=1, length=256, keys=256, heads=2, groups=1, dim=64, rows=2, most=2),
          flops="2 * batch * heads * length * length * dim"),
)  # fmt: skip

_TILES = (
    _tile("conv3x3", _extents(batch=32, H=58, Wd=58, C=256, F=256),
          _extents(batch=1, H=12, Wd=14, C=64, F=128),
          flops="18 * batch * (H - 2) * (Wd - 2) * C * F"),
    _tile("sparse_gemm", _extents(M=8192, N=4096, K=4096, tiles=64),
          _extents(M=256, N=128, K=256, tiles=4), flops="M * N * K"),
    _tile("group_quantise", _extents(M=32768, N=4096), _extents(M=40, N=256)),
    _tile("online_softmax", _extents(M=4096, N=32768), _extents(M=5, N=4096)),
    _tile("window_attention", _extents(heads=32, length=8192, dim=128),
          _extents(heads=1, length=256, dim=64), flops="4 * heads * length * 512 * dim"),
    _tile("distance", _extents(M=8192, N=8192, K=512), _SMALL_PRODUCT, flops=_PRODUCT),
    _tile("causal_conv", _extents(batch=8, length=4096, C=2048),
          _extents(batch=1, length=20, C=512)),
    _tile("combine_experts", _extents(R=32768, N=2048, M=16384, E=8),
          _extents(R=30, N=1024, M=6, E=3), touched="2 * M * E * N + 4 * M * N"),
    _tile("bias_gelu", _extents(M=16384, N=8192), _extents(M=9, N=1032)),
    _tile("stencil", _extents(M=16384, N=8192), _extents(M=40, N=300)),
    _tile("permute_heads", _extents(batch=8, length=4096, heads=32, dim=128),
          _extents(batch=1, length=40, heads=2, dim=128)),
    _tile("outer_state", _extents(heads=64, length=16384, dim=128),
          _extents(heads=1, length=1024, dim=64), flops="2 * heads * length * dim * dim"),
    _tile("divergence", _extents(M=8192, N=16384), _extents(M=10, N=1024)),
    _tile("channel_sums", _extents(M=65536, N=2048), _extents(M=1024, N=512)),
)  # fmt: skip

_TRITONS = (
    _triton("add", _extents(N=1 << 26), _extents(N=2048)),
    _triton("softmax", _extents(M=32768, N=4096), _extents(M=4, N=256)),
    _triton("product", _extents(M=4096, N=4096, K=4096), _SMALL_PRODUCT, flops=_PRODUCT),
    _triton("dropout", _extents(N=1 << 26), _extents(N=2048)),
    _triton("layer_norm", _extents(M=32768, N=4096), _extents(M=4, N=256)),
    _triton("grouped_gemm", _extents(G=8, M=2048, N=2048, K=2048),
            _extents(G=2, M=128, N=128, K=128), flops=f"{_PRODUCT} * G"),
    _triton("attention", _extents(heads=32, N=4096, dim=64), _extents(heads=1, N=128, dim=64),
            flops="4 * heads * N * N * dim"),
    _triton("scaled_product", _extents(M=4096, N=4096, K=4096), _extents(M=128, N=128, K=128),
            flops=_PRODUCT),
    _triton("cross_entropy", _extents(M=8192, N=32768), _extents(M=3, N=4096)),
    _triton("rope", _extents(heads=64, L=8192, dim=128, half=64),
            _extents(heads=2, L=64, dim=64, half=32)),
    _triton("rms_norm", _extents(M=16384, N=8192), _extents(M=3, N=4096)),
    _triton("swiglu", _extents(M=16384, both=16384), _extents(M=3, both=2048)),
    _triton("embedding", _extents(V=50304, N=4096, M=32768), _extents(V=20, N=2048, M=4),
            touched="4 * M * N"),
    _triton("segment_sum", _extents(V=65536, N=256, M=65536, E=32),
            _extents(V=16, N=256, M=4, E=8), touched="2 * V * N + 4 * M * N + 4 * M * E"),
    _triton("histogram", _extents(N=1 << 26), _extents(N=1 << 20)),
    _triton("conv2d", _extents(B=32, H=58, W=58, C=256, F=256),
            _extents(B=1, H=10, W=10, C=64, F=128),
            flops="18 * B * (H - 2) * (W - 2) * C * F"),
    _triton("running_sum", _extents(M=8192, N=16384), _extents(M=2, N=2048)),
    _triton("top_four", _extents(M=65536, N=1024), _extents(M=4, N=256)),
    _triton("quantise", _extents(M=32768, N=4096), _extents(M=4, N=256)),
    _triton("transpose", _extents(M=8192, N=16384), _extents(M=128, N=128)),
    _triton("batched_product", _extents(G=64, M=1024, N=1024, K=1024),
            _extents(G=1, M=128, N=128, K=128), flops=f"{_PRODUCT} * G"),
    _triton("adamw", _extents(N=1 << 26), _extents(N=2048)),
    _triton("column_mean", _extents(M=65536, N=2048), _extents(M=512, N=256)),
    _triton("group_norm", _extents(G=4096, N=32768), _extents(G=2, N=8192)),
    _triton("matvec", _extents(M=32768, N=8192), _extents(M=8, N=2048)),
)  # fmt: skip


def _older() -> tuple[Family, ...]:
    """Return the kernels of the older splits, at the extents of their first cases."""
    from plant.cases_dev import CASES
    from plant.cases_first_test import CASES as FIRST
    from plant.cases_second_test import CASES as SECOND
    from plant.cases_test import CASES as TEST
    from plant.cases_third_test import CASES as THIRD
    from plant.cases_valid import CASES as VALID

    found = {}
    for each in (*CASES, *VALID, *FIRST, *SECOND, *THIRD, *TEST):
        name = f"older-{each.kernel}"
        if name not in found:
            path = KERNELS / f"{each.kernel}.py"
            found[name] = Family(name, "tile", path, dict(each.shape), {}, origin="older")
    return tuple(found.values())


def _later() -> Iterator[Family]:
    """Yield the families of the modules beside this one whose names end in `_families`."""
    for path in sorted(Path(__file__).parent.glob("*_families.py")):
        yield from importlib.import_module(f"{__package__}.{path.stem}").FAMILIES


_LATER = tuple(_later())
FAMILIES: Mapping[str, Family] = {
    each.name: each for each in (*_CASES, *_TILES, *_TRITONS, *_LATER, *_older())
}
LATER = frozenset(each.name for each in _LATER)
"""Names of families that only splits without the families of earlier ones are drawn from."""
