"""The kernels of attention on the emulated GPU: their rings, waits and orders of products, with
data that comes late."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from benchmarks.studies import study
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate

LIMIT = 5e-3
"""Rounding results and weights to bfloat16 gives 2e-3 to 3e-3."""


def run(kernel: Any, given: Sequence[Any], **extents: int) -> dict[str, Any]:
    """All tensors of a kernel by name, after one launch."""
    held: ir.Kernel = kernel.program.kernel
    arrays = arguments(held, given, extents)
    source = compile_cuda(held, find_target("sm_90a")).source
    emulate(source, held, arrays, extents, seed=1)
    return dict(zip([p.name for p in held.params], arrays, strict=True))


def arguments(held: ir.Kernel, given: Sequence[Any], extents: dict[str, int]) -> list[Any]:
    """What is given, and zeros for results."""
    arrays = list(given)
    for param in held.params[len(given) :]:
        assert isinstance(param.type, ir.BufferType)
        name = param.type.dtype.name
        shape = [extents.get(str(d), d) for d in param.type.shape]
        dtype = ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)
        arrays.append(np.zeros(shape, dtype))
    return arrays


def forward(causal: bool, window: int = 0) -> tuple[Any, Any]:
    """Attention with boundaries in both lengths."""
    made = study("attention")
    given = made.inputs(1, 130, 300, 1, 1, 64)
    shape = {"batch": 1, "length": 130, "heads": 1, "dim": 64, "keys": 300, "groups": 1}
    found = run(made.attention.compile(**shape, causal=causal, window=window), given)
    return found["Out"], made.reference(*given, causal, window)[0]


def several() -> tuple[Any, Any]:
    """Sequences of different lengths, one of them empty."""
    made = study("attention_varlen")
    given = made.inputs((130, 1, 0, 5), (130, 70, 3, 3), 2, 1, 64)
    shape = {"heads": 2, "dim": 64, "groups": 1, "ends": 5, "longest": 130}
    kernel = made.attention_varlen.compile(**shape, causal=True)
    found = run(kernel, given, total_rows=136, total_keys=206)
    return found["Out"], made.reference(*given, True)


def backward() -> tuple[Any, Any]:
    """dQ, whose parts meet in memory, beside the others."""
    made, whole = study("attention_backward"), study("attention")
    given = whole.inputs(1, 100, 128, 1, 1, 64)
    d_out = whole.inputs(1, 100, 128, 1, 1, 64, seed=1)[0]
    out, lse = whole.attention(*given, causal=True)
    sums = np.zeros(given[0].shape, np.float32)
    delta = made.row_dots(out, d_out, sums)
    shape = {"batch": 1, "length": 100, "heads": 1, "dim": 64, "keys": 128, "groups": 1}
    kernel = made.attention_backward.compile(**shape, causal=True)
    found = run(kernel, [*given, d_out, lse, delta, sums])
    gradients = [found["dQ_sums"] * 64**-0.5, found["dK"], found["dV"]]
    expected = made.reference(*given, d_out, True)
    return tuple(
        np.concatenate([np.asarray(x, np.float64).ravel() for x in each])
        for each in (gradients, expected)
    )  # type: ignore[return-value]


def latent() -> tuple[Any, Any]:
    """MLA decoding; parts are combined."""
    made = study("mla_decode")
    given = made.inputs(1, 64, 200)
    shape = {"batch": 1, "heads": 64, "keys": 200, "rank": 512, "rope": 64}
    found = run(made.mla_decode.compile(**shape, splits=3), given)
    return found["Out"], made.reference(*given)


def paged() -> tuple[Any, Any]:
    """Pages in random order, a sequence of one key and one of none; parts are combined."""
    made = study("paged_attention")
    given = made.inputs((130, 64, 1, 0), 16, 2, 64)
    shape = {"batch": 4, "heads": 16, "groups": 2, "dim": 64, "pages": 12, "size": 64, "most": 3}
    found = run(made.paged_attention.compile(**shape, splits=2, stages=2), given)
    return found["Out"], made.reference(*given)


def whole() -> tuple[Any, Any]:
    """All heads of keys in one block; a part of a page at a time."""
    made = study("paged_attention")
    given = made.inputs((130, 64, 1), 16, 2, 64)
    expected = made.reference(*given)
    for at in (1, 2):
        given[at] = given[at].reshape(9, 128, 64)
    shape = {"batch": 3, "heads": 16, "dim": 64, "pages": 9, "size": 128, "most": 3}
    kernel = made.paged_attention_whole.compile(
        **shape, groups=2, splits=2, rows=64, keep="evict_first"
    )
    return run(kernel, given)["Out"], expected


def sparse() -> tuple[Any, Any]:
    """A random half of the tiles."""
    made = study("sparse_attention")
    q, k, v, mask = made.inputs(1, 300, 2, 1, 64)
    shape = {"batch": 1, "length": 300, "heads": 2, "dim": 64, "keys": 300, "groups": 1}
    kernel = made.sparse_attention.compile(**shape, rows=3, most=3)
    return run(kernel, [q, k, v, *made.lists(mask)])["Out"], made.reference(q, k, v, mask)


def scan() -> tuple[Any, Any]:
    """Two chunks."""
    made = study("chunk_scan")
    given = made.inputs(1, 2, 256, 1, 2, 64, 128)
    shape = {"batch": 1, "chunks": 2, "groups": 1, "size": 256, "length": 512}
    kernel = made.chunk_scan.compile(**shape, heads=2, width=64, state=128)
    return run(kernel, given)["Y"], made.reference(*given)


def float8() -> tuple[Any, Any]:
    """Attention in float8, as the CPU computes it with the same rounding of weights."""
    made = study("fp8_attention")
    given = made.inputs(1, 100, 144, 2, 1, 64)
    shape = {"batch": 1, "length": 100, "heads": 2, "dim": 64, "keys": 144, "groups": 1}
    kernel = made.fp8_attention.compile(**shape, causal=True)
    return run(kernel, given)["Out"], made.fp8_attention(*given, causal=True)


def block_scales() -> tuple[Any, Any]:
    """Both of float8, with scales of blocks and rows beyond the tiles."""
    made = study("block_scaled_gemm")
    given = made.inputs(200, 136, 384)
    kernel = made.block_scaled_gemm.compile(M=200, N=136, K=384)
    return run(kernel, given)["C"], made.reference(*given)


def experts() -> tuple[Any, Any]:
    """Experts with none, one and more rows than a tile."""
    made = study("grouped_matmul")
    given = made.inputs((130, 0, 1, 127), 256, 128)
    kernel = made.grouped_matmul.compile(rows=258, K=128, experts=4, N=256)
    return run(kernel, given)["C"], made.reference(*given)


RUNS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "full": lambda: forward(False),
    "window": lambda: forward(True, window=50),
    "several": several,
    "backward": backward,
    "latent": latent,
    "paged": paged,
    "paged whole": whole,
    "sparse": sparse,
    "scan": scan,
    "float8": float8,
    "scales of blocks": block_scales,
    "experts": experts,
}


@pytest.mark.spread("several", "latent", "paged", "scan", "scales of blocks", "experts")
@pytest.mark.parametrize("name", RUNS)
def test_results(name: str) -> None:
    """As the reference in float64."""
    found, expected = (np.asarray(x, np.float64) for x in RUNS[name]())
    assert found.shape == expected.shape
    assert np.linalg.norm(found - expected) < LIMIT * np.linalg.norm(expected)


PERSISTENT = {
    "several": "static", "backward": "dynamic", "paged": "dynamic", "experts": "static",
}  # fmt: skip
"""One of each kind of loop around tiles, with the order in which blocks take tiles."""


@pytest.mark.spread("paged-dynamic", "experts-static")
@pytest.mark.parametrize(("name", "order"), PERSISTENT.items())
def test_persistent_results(name: str, order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same of blocks that loop over tiles."""
    controls = Controls(persistent=True, tile_order=order)
    made = partial(compile_cuda, controls=controls)
    monkeypatch.setattr(sys.modules[__name__], "compile_cuda", made)
    test_results(name)
