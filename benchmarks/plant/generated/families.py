"""Kernels that mutants are made of: where they stand, what they run on, what comes out.

In: nothing.  Out: a `Family` for each kernel: those of the case studies, tile and Triton kernels
written for this benchmark on problems that public examples and tutorials have, and the kernels of
the older splits, which are known to development and only used there.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from plant.twins import KERNELS

from .eighth import extents as eighth
from .fifth import extents as fifth
from .fresh import extents as fresh
from .later import extents
from .programs import Program, dotted
from .seventh import extents as seventh
from .sixth import extents as sixth

__all__ = ["FAMILIES", "FAULTS", "Family"]

HERE = Path(__file__).parent
CASE_STUDIES = HERE.parents[2] / "case_studies"
_OWN = ("seventh", "eighth")
"""Folders of splits that hold kernels of their own."""
FAULTS: Mapping[str, str] = {
    "triton-cosine_matrix": "on an H200, Triton 3.6 makes a pipeline of it whose results differ "
    "from run to run by up to 12 % of the greatest; without the pipeline they are right",
}
"""Why no later split draws a family, though it is in one that has run, and so stays as it is."""


@dataclass(frozen=True)
class Family:
    """A kernel and its problem."""

    name: str
    language: Literal["tile", "triton"]
    path: Path
    shape: Mapping[str, int]
    """Extents on a GPU."""
    small: Mapping[str, int]
    """Extents that a processor is done with at once."""
    flops: str = "0"
    """Floating-point operations of the matrix unit, an expression of extents."""
    touched: str = ""
    """Bytes that must move, an expression of extents; of all inputs and results where empty."""
    origin: Literal["case study", "example", "tutorial", "older"] = "example"

    @property
    def problem(self) -> str:
        """Name under which `problems` has inputs and results."""
        return self.name

    @cached_property
    def text(self) -> str:
        """The source."""
        return self.path.read_text()

    @cached_property
    def entry(self) -> str:
        """Function that is called: the tile kernel, or what launches a Triton kernel."""
        return self.path.stem if self.language == "tile" else "run"

    @cached_property
    def kernel(self) -> str:
        """Function with the device code."""
        if self.language == "tile":
            return self.path.stem
        # Other functions of Triton's may stand above the one that is launched.
        return next(
            dotted(node.func.value) for node in ast.walk(ast.parse(self.text))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Subscript)
            and dotted(node.func.value)
        )  # fmt: skip

    @cached_property
    def program(self) -> Program:
        """The source with its syntax tree."""
        return Program(self.text, self.kernel, self.entry)

    @property
    def facts(self) -> tuple[Any, ...]:
        """Settings of its runs, beside sources and extents."""
        return self.language, self.flops, self.touched, sorted(self.small.items())


def _extents(**extents: int) -> dict[str, int]:
    return extents


def _case(name: str, shape: dict[str, int], small: dict[str, int], **more: Any) -> Family:
    path = CASE_STUDIES / f"{name}.py"
    return Family(f"case-{name}", "tile", path, shape, small, origin="case study", **more)


def _path(name: str, *folders: Path) -> Path:
    return next(each for folder in folders for each in folder.rglob(f"{name}.py"))


def _tile(name: str, shape: dict[str, int], small: dict[str, int], **more: Any) -> Family:
    path = _path(name, HERE / "tile_kernels", *(HERE / e / "tile" for e in _OWN))
    return Family(f"tile-{name}", "tile", path, shape, small, **more)


def _triton(name: str, shape: dict[str, int], small: dict[str, int], **more: Any) -> Family:
    path = _path(name, HERE / "triton_kernels", *(HERE / e / "triton" for e in _OWN))
    return Family(f"triton-{name}", "triton", path, shape, small, origin="tutorial", **more)


_PRODUCT = "2 * M * N * K"
_SMALL_PRODUCT = _extents(M=256, N=128, K=192)
_SMALL_512 = _extents(M=512, N=512, K=512)

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
    _tile("box_overlap", _extents(M=8192, N=16384), _extents(M=20, N=70)),
    _tile("chunk_attention", _extents(heads=128, length=4096, dim=128),
          _extents(heads=1, length=256, dim=32), flops="4 * heads * length * 128 * dim"),
    _tile("cost_volume", _extents(lines=544, wide=1024, padded=1088, C=64),
          _extents(lines=2, wide=64, padded=128, C=32), flops="2 * lines * wide * 128 * C"),
    _tile("deconv", _extents(lines=1024, wide=128, C=256, F=128),
          _extents(lines=1, wide=10, C=64, F=40), flops="8 * lines * wide * C * F"),
    _tile("depthwise_conv", _extents(batch=32, high=114, wide=114, C=256),
          _extents(batch=2, high=4, wide=5, C=64)),
    _tile("dot_interaction", _extents(batch=32768, features=32, dim=128),
          _extents(batch=2, features=32, dim=32)),
    _tile("ema_scan", _extents(batch=32, length=1024, C=2048), _extents(batch=2, length=40, C=32)),
    _tile("glu_backward", _extents(M=8192, N=8192), _extents(M=3, N=40)),
    _tile("gram", _extents(N=8192, K=4096), _extents(N=136, K=40), flops="N * (N + 128) * K",
          touched="2 * N * K + 2 * N * N"),
    _tile("haar", _extents(M=16384, N=8192), _extents(M=6, N=40)),
    _tile("hadamard", _extents(M=32768, N=4096), _extents(M=40, N=256),
          flops="2 * M * N * 128"),
    _tile("instance_norm", _extents(planes=16384, N=4096, C=256), _extents(planes=5, N=256, C=3)),
    _tile("l1_distance", _extents(M=4096, N=4096, K=256), _extents(M=20, N=70, K=24)),
    _tile("lora", _extents(M=4096, N=4096, K=4096), _extents(M=40, N=72, K=136),
          flops=f"{_PRODUCT} + 32 * M * K"),
    _tile("loss_backward", _extents(M=8192, V=32768), _extents(M=5, V=300)),
    _tile("lstm_cell", _extents(M=32768, H=1024), _extents(M=3, H=40)),
    _tile("max_pool", _extents(batch=128, high=113, wide=113, C=64),
          _extents(batch=2, high=5, wide=7, C=16)),
    _tile("moving_average", _extents(M=32768, N=2048), _extents(M=3, N=256)),
    _tile("nearest_code", _extents(M=65536, N=8192, dim=128), _extents(M=40, N=256, dim=32),
          flops="2 * M * N * dim"),
    _tile("nf4_product", _extents(M=2048, N=4096, K=4096, bytes=2048, groups=64),
          _extents(M=40, N=24, K=128, bytes=64, groups=2), flops=_PRODUCT),
    _tile("norm_backward", _extents(M=32768, N=2048), _extents(M=3, N=256)),
    _tile("patch_embed", _extents(lines=3584, across=14, F=768), _extents(lines=4, across=3, F=40),
          flops="2048 * lines * across * F"),
    _tile("rope_cache", _extents(tokens=131072, heads=8, dim=128, half=64, places=8192),
          _extents(tokens=11, heads=2, dim=16, half=8, places=20)),
    _tile("token_fp8", _extents(M=32768, N=4096), _extents(M=3, N=256)),
    _tile("top2_gate", _extents(M=1 << 20, E=64), _extents(M=40, E=16)),
    _tile("upsample", _extents(batch=16, high=64, wide=64, C=512),
          _extents(batch=1, high=3, wide=4, C=40)),
    _tile("vocab_logsumexp", _extents(M=16896, V=16384, K=1024), _extents(M=20, V=256, K=72),
          flops="2 * M * V * K"),
    _tile("volume_render", _extents(R=131072, S=128), _extents(R=20, S=32)),
    _tile("winograd_input", _extents(batch=32, high=58, wide=58, C=256),
          _extents(batch=2, high=6, wide=8, C=16)),
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
    _triton("biased_attention", _extents(heads=32, N=2048, dim=64),
            _extents(heads=1, N=512, dim=64), flops="4 * heads * N * N * dim"),
    _triton("block_dequantise", _extents(M=16384, N=16384), _extents(M=128, N=256)),
    _triton("box_overlap", _extents(M=16384, N=16384), _extents(M=33, N=300)),
    _triton("cache_write", _extents(T=32768, heads=32, dim=128, P=4096, page=16),
            _extents(T=5, heads=10, dim=128, P=2, page=16),
            touched="4 * T * (heads * dim + 1)"),
    _triton("channel_product", _extents(M=4096, N=8192, K=4096), _SMALL_512,
            flops=_PRODUCT),
    _triton("complex_product", _extents(M=16384, N=8192), _extents(M=2, N=1300)),
    _triton("cosine_matrix", _extents(M=8192, N=8192, K=1024), _SMALL_512,
            flops=_PRODUCT),
    _triton("depthwise", _extents(B=32, H=56, W=56, C=384), _extents(B=1, H=6, W=9, C=80)),
    _triton("factored_update", _extents(M=8192, N=8192), _extents(M=12, N=300)),
    _triton("focal_loss", _extents(M=16384, N=8192), _extents(M=3, N=4100)),
    _triton("gate_experts", _extents(M=262144, E=128), _extents(M=40, E=64)),
    _triton("instance_norm", _extents(B=64, P=4096, C=512), _extents(B=1, P=150, C=100)),
    _triton("int4_product", _extents(M=2048, N=8192, K=4096, words=512),
            _extents(M=200, N=512, K=512, words=64), flops=_PRODUCT),
    _triton("jagged_mean", _extents(R=1 << 20, N=256, ends=16385),
            _extents(R=60, N=300, ends=4)),
    _triton("layer_norm_grad", _extents(M=32768, N=4096), _extents(M=3, N=250)),
    _triton("linear_attention", _extents(heads=256, L=4096, dim=64),
            _extents(heads=1, L=512, dim=64), flops="4 * heads * L * dim * dim"),
    _triton("linear_gelu", _extents(M=8192, N=4096, K=2048), _SMALL_512,
            flops=_PRODUCT),
    _triton("linear_scan", _extents(B=8, L=4096, D=2048), _extents(B=1, L=256, D=64)),
    _triton("lion", _extents(N=1 << 26), _extents(N=2500)),
    _triton("low_rank_product", _extents(M=8192, N=4096, K=4096, R=32),
            _extents(M=512, N=512, K=512, R=16), flops=f"{_PRODUCT} + 2 * M * (N + K) * R"),
    _triton("max_pool", _extents(B=128, H=112, W=112, C=128), _extents(B=1, H=8, W=10, C=70)),
    _triton("nearest_code", _extents(M=65536, N=8192, K=128), _extents(M=512, N=512, K=128),
            flops=_PRODUCT),
    _triton("paged_decode",
            _extents(B=64, heads=128, dim=128, P=16384, page=16, groups=8, T=256),
            _extents(B=2, heads=32, dim=64, P=12, page=16, groups=2, T=6),
            flops="4 * B * heads * T * page * dim"),
    _triton("patches", _extents(B=1024, C=3, H=224, W=224), _extents(B=1, C=3, H=32, W=48)),
    _triton("resize", _extents(B=32, H=64, W=64, C=256), _extents(B=1, H=4, W=5, C=130)),
    _triton("sampled_product", _extents(M=8192, K=2048, T=1024, edge=64),
            _extents(M=256, K=512, T=2, edge=2), flops="32768 * T * K"),
    _triton("scatter_add", _extents(M=65536, N=1024, V=16384), _extents(M=6, N=600, V=4)),
    _triton("selective_scan", _extents(B=16, L=1024, D=4096, S=16),
            _extents(B=1, L=12, D=100, S=16)),
    _triton("smooth_loss_grad", _extents(M=8192, N=32768), _extents(M=2, N=4100)),
    _triton("wave_step", _extents(H=8192, W=8192), _extents(H=20, W=300)),
    _triton("weight_grad", _extents(M=32768, N=2048, K=2048), _extents(M=1000, N=512, K=512),
            flops=_PRODUCT),
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
    for case in (*CASES, *VALID, *FIRST, *SECOND, *THIRD, *TEST):
        name = f"older-{case.kernel}"
        if name not in found:
            path = KERNELS / f"{case.kernel}.py"
            found[name] = Family(name, "tile", path, dict(case.shape), {}, origin="older")
    return tuple(found.values())


_LATER = (
    *(_tile(row.name, row.shape, row.small, **row.more) for row in extents.TILES),
    *(_triton(row.name, row.shape, row.small, **row.more) for row in extents.TRITONS),
    *(_tile(row.name, row.shape, row.small, **row.more) for row in fresh.TILES),
    *(_triton(row.name, row.shape, row.small, **row.more) for row in fresh.TRITONS),
    *(_tile(row.name, row.shape, row.small, **row.more) for row in fifth.TILES),
    *(_triton(row.name, row.shape, row.small, **row.more) for row in fifth.TRITONS),
    *(_tile(row.name, row.shape, row.small, **row.more) for row in sixth.TILES),
    *(_triton(row.name, row.shape, row.small, **row.more) for row in sixth.TRITONS),
    *(_tile(row.name, row.shape, row.small, **row.more) for row in seventh.TILES),
    *(_triton(row.name, row.shape, row.small, **row.more) for row in seventh.TRITONS),
    *(_tile(row.name, row.shape, row.small, **row.more) for row in eighth.TILES),
    *(_triton(row.name, row.shape, row.small, **row.more) for row in eighth.TRITONS),
)
FAMILIES: Mapping[str, Family] = {
    each.name: each for each in (*_CASES, *_TILES, *_TRITONS, *_LATER, *_older())
}
