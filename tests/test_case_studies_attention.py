"""The kernels of attention and what goes with it: right at boundary lengths on the processor, and
on an H200 products by warp groups, tiles by TMA, nothing spilled, nothing run one by one."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.studies import study
from tests.cuda.compiled_kernels import function
from tileprof import ir
from tileprof.compiler.cuda.build import disassemble
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.remarks.copies import TmaLoad
from tileprof.remarks.launches import MulticastLoad
from tileprof.remarks.loops import HandsOver, KeepsOrder, MaskPeeled, TakeTurns
from tileprof.remarks.products import GemmInstruction, IssuedBehind, RunsWhile

MOST_CALLS = 620_000
"""Functions that lowering attention calls, Python's own and built-in ones."""


def difference(found: Any, expected: Any) -> float:
    """Relative, in the Frobenius norm."""
    found, expected = (np.asarray(x, np.float64) for x in (found, expected))
    assert found.shape == expected.shape
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


LIMIT = 5e-3
"""Rounding results and weights to bfloat16 gives 2e-3 to 3e-3."""


# -- right results


@pytest.mark.parametrize(
    ("length", "keys", "heads", "groups", "dim", "causal"),
    [(129, 129, 4, 2, 64, True), (1, 257, 2, 1, 64, False)],
)  # fmt: skip
def test_attention(length: int, keys: int, heads: int, groups: int, dim: int, causal: bool) -> None:
    """As many queries as keys, one query alone, one more than a tile."""
    made = study("attention")
    given = made.inputs(1, length, keys, heads, groups, dim)
    block_n = 64 if dim == 256 else 128
    out, lse = made.attention(*given, causal=causal, block_N=block_n)
    expected, expected_lse = made.reference(*given, causal)
    assert difference(out, expected) < LIMIT
    assert np.abs(lse - expected_lse).max() < 1e-4


def test_window() -> None:
    """Results of sequences shorter than a tile, with fewer queries than keys."""
    made = study("attention")
    given = made.inputs(1, 130, 200, 2, 1, 64)
    out, lse = made.attention(*given, causal=True, window=100)
    expected, expected_lse = made.reference(*given, True, 100)
    assert difference(out, expected) < LIMIT
    assert np.abs(lse - expected_lse).max() < 1e-4


@pytest.mark.parametrize(
    ("lengths", "key_lengths"),
    [((1, 128, 129), (1, 128, 300)), ((60, 0, 3), (60, 10, 2))],
)
def test_sequences(lengths: tuple[int, ...], key_lengths: tuple[int, ...]) -> None:
    """Of one row, of none, and with fewer keys than queries: rows that see nothing are 0."""
    made = study("attention_varlen")
    given = made.inputs(lengths, key_lengths, 4, 2, 64)
    out = made.attention_varlen(*given, longest=200, causal=True)
    assert difference(out, made.reference(*given, True)) < LIMIT


def test_backward() -> None:
    """Gradients from what forward kept; heads of queries that share keys are added up."""
    forward, made = study("attention"), study("attention_backward")
    given = forward.inputs(1, 65, 130, 2, 1, 64)
    d_out = forward.inputs(1, 65, 130, 2, 1, 64, seed=1)[0]
    out, lse = forward.attention(*given, causal=True)
    found = made.gradients(*given, out, lse, d_out, True)
    for each, expected in zip(found, made.reference(*given, d_out, True), strict=True):
        assert difference(each, expected) < LIMIT


def test_mla_decode() -> None:
    """Parts with nothing in them too."""
    made = study("mla_decode")
    given = made.inputs(2, 64, 200)
    assert difference(made.mla_decode(*given, splits=7), made.reference(*given)) < LIMIT


@pytest.mark.parametrize("splits", [1, 4])
def test_paged_attention(splits: int) -> None:
    """Sequences that end anywhere in a page or are empty, and more parts than some have pages."""
    made = study("paged_attention")
    given = made.inputs((1, 64, 65, 300, 0), 16, 2, 64)
    assert difference(made.paged_attention(*given, splits=splits), made.reference(*given)) < LIMIT


def test_paged_attention_whole() -> None:
    """Masks of heads and of ends, in parts of pages."""
    made = study("paged_attention")
    given = made.inputs((1, 64, 65, 300, 0), 16, 2, 64)
    expected = made.reference(*given)
    given[1:3] = (x.reshape(len(x), -1, 64) for x in given[1:3])
    found = made.paged_attention_whole(*given, groups=2, splits=4, rows=64)
    assert difference(found, expected) < LIMIT


def test_sparse_attention() -> None:
    """Rows of tiles that look at nothing are 0."""
    made = study("sparse_attention")
    q, k, v, mask = made.inputs(1, 300, 4, 2, 64, 0.3)
    out = made.sparse_attention(q, k, v, *made.lists(mask))
    assert difference(out, made.reference(q, k, v, mask)) < LIMIT


def test_chunk_scan() -> None:
    """Several parts of a chunk."""
    made = study("chunk_scan")
    given = made.inputs(2, 2, 256, 2, 4, 64, 128)
    assert difference(made.chunk_scan(*given), made.reference(*given)) < LIMIT


def test_fp8_matmul() -> None:
    """Rows beyond the tiles on both sides."""
    made = study("fp8_matmul")
    given = made.inputs(257, 129, 256)
    assert difference(made.fp8_matmul(*given), made.reference(*given)) < LIMIT


def test_block_scaled_gemm() -> None:
    """Rows beyond the tiles on both sides, and the last block of B with fewer rows; the only
    rounding is that of the result."""
    made = study("block_scaled_gemm")
    given = made.inputs(193, 129, 256)
    assert difference(made.block_scaled_gemm(*given), made.reference(*given)) < 2.5e-3


@pytest.mark.parametrize(
    ("length", "keys", "heads", "groups", "dim", "causal"),
    [(144, 144, 4, 2, 64, True), (1, 257, 2, 1, 64, False)],
)
def test_fp8_attention(
    length: int, keys: int, heads: int, groups: int, dim: int, causal: bool
) -> None:
    """With scales of heads; what weights lose in float8 is all that is lost."""
    made = study("fp8_attention")
    given = made.inputs(1, length, keys, heads, groups, dim)
    found, expected = made.fp8_attention(*given, causal=causal), made.reference(*given, causal)
    assert difference(found, expected) < made.LIMIT
    # Weights of a row that sees one key are 1, which float8 has.
    if causal and length == keys:
        assert difference(found[:, :1], expected[:, :1]) < LIMIT


def test_exponentials_by_sums() -> None:
    """Exponentials of multiply-adds are as exact as weights of float8 need."""
    made = study("fp8_attention")
    given = made.inputs(1, 70, 144, 2, 1, 64)
    found, expected = (made.fp8_attention(*given, causal=True, sums=n) for n in (4, 0))
    assert 0 < difference(found, expected) < 1e-2


def test_exponentials_in_halves() -> None:
    """A tile whose halves follow each other has the same weights and the same sums."""
    made = study("fp8_attention")
    given = made.inputs(1, 70, 144, 2, 1, 64)
    found, expected = (made.fp8_attention(*given, causal=True, halves=h) for h in (True, False))
    np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("sizes", [(0, 0, 5), (1, 129, 0, 128)])
def test_grouped_matmul(sizes: tuple[int, ...]) -> None:
    """Experts without rows, with one, with less and more than a tile."""
    made = study("grouped_matmul")
    given = made.inputs(sizes, 264, 136)
    assert difference(made.grouped_matmul(*given), made.reference(*given)) < LIMIT


# -- code for an H200


LONG = {"batch": 4, "length": 4096, "heads": 16, "keys": 4096, "groups": 16}
SCAN = {"batch": 8, "chunks": 16, "groups": 1, "size": 256, "length": 4096, "heads": 80}
SHAPES: dict[str, Callable[[], Any]] = {
    "attention 64": lambda: study("attention").attention.compile(**LONG, dim=64),
    "attention 128": lambda: study("attention").attention.compile(**LONG, dim=128),
    "attention 128 causal": lambda: study("attention").attention.compile(
        **LONG, dim=128, causal=True
    ),
    "attention 128 in a window": lambda: study("attention").attention.compile(
        **LONG, dim=128, causal=True, window=1024
    ),
    "attention 256": lambda: study("attention").attention.compile(**LONG, dim=256, block_N=64),
    "attention 128 by 160": lambda: study("attention").attention.compile(
        **LONG, dim=128, block_N=160, stages=2
    ),
    "attention_varlen causal": lambda: study("attention_varlen").attention_varlen.compile(
        heads=16, groups=16, dim=128, ends=9, longest=4096, block_N=128, stages=2, causal=True
    ),
    "attention_backward causal": lambda: study("attention_backward").attention_backward.compile(
        **LONG, dim=128, stages=2, causal=True
    ),
    "mla_decode": lambda: study("mla_decode").mla_decode.compile(
        batch=132, heads=128, keys=8192, rank=512, rope=64, splits=1
    ),
    "paged_attention": lambda: study("paged_attention").paged_attention.compile(
        batch=64, heads=32, groups=4, dim=128, pages=8192, size=64, most=128
    ),
    "paged_attention whole": lambda: study("paged_attention").paged_attention_whole.compile(
        batch=64,
        heads=32,
        groups=4,
        dim=128,
        pages=8192,
        size=256,
        most=128,
        splits=2,
        stages=2,
        rows=64,
        keep="evict_first",
    ),
    "sparse_attention": lambda: study("sparse_attention").sparse_attention.compile(
        **LONG, dim=128, rows=32, most=32
    ),
    "chunk_scan": lambda: study("chunk_scan").chunk_scan.compile(
        **SCAN, width=64, state=128, near=8, block_K=64
    ),
    "fp8_matmul": lambda: study("fp8_matmul").fp8_matmul.compile(M=8192, N=8192, K=8192),
    "fp8_attention causal": lambda: study("fp8_attention").fp8_attention.compile(
        **LONG, dim=128, causal=True
    ),
    "fp8_attention by sums": lambda: study("fp8_attention").fp8_attention.compile(
        **LONG, dim=128, sums=2
    ),
    "block_scaled_gemm": lambda: study("block_scaled_gemm").block_scaled_gemm.compile(
        M=8192, N=8192, K=8192
    ),
    "grouped_matmul": lambda: study("grouped_matmul").grouped_matmul.compile(
        rows=8192, experts=8, K=4096, N=4096, block_N=128, stages=5
    ),
}
"""At the sizes that are measured, with the options of their pages where they have one: pages and
tests then share what is compiled."""


@cache
def lowered(name: str) -> CudaProgram:
    """The program for an H200."""
    return compile_cuda(SHAPES[name]().program.kernel, find_target("sm_90a"))


@pytest.mark.spread(
    "attention 64", "attention 128 in a window", "attention_backward causal", "mla_decode",
    "chunk_scan", "fp8_attention by sums", "block_scaled_gemm", "grouped_matmul"
)  # fmt: skip
@pytest.mark.parametrize("name", SHAPES)
def test_products_and_loads(name: str) -> None:
    """Every product by warp groups, every load in their loops by TMA."""
    said = lowered(name).remarks
    products = [r.decision for r in said if isinstance(r.decision, GemmInstruction)]
    assert {each.instruction for each in products} == {"wgmma"}
    loads = [r for r in said if re.fullmatch(r"copy \w+ → \w+_shared", r.subject)]
    assert loads
    assert all(isinstance(r.decision, TmaLoad | MulticastLoad) for r in loads)


@pytest.mark.spread(
    "attention 128 in a window", "mla_decode", "chunk_scan", "fp8_attention by sums",
    "block_scaled_gemm", "grouped_matmul"
)  # fmt: skip
@pytest.mark.parametrize(
    "name",
    # Forms with fewer live registers than another one are left out.
    [each for each in SHAPES if each not in ("attention 64", "attention 128", "paged_attention",
                                             "attention 128 causal", "attention_varlen causal")],
)  # fmt: skip
def test_machine_code(name: str) -> None:
    """Machine code has no spills, and no product that waits for the one before it."""
    pytest.importorskip("cuda.bindings.nvrtc")
    program = lowered(name)
    assert not [r for r in program.all_remarks if r.op == "ptxas"]
    ptx = program.cubin.ptx
    assert "ex2.approx.f32" not in ptx
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor" in ptx
    spilled = ((r.spill_stores, r.spill_loads) for r in program.cubin.resources.values())
    assert {*spilled} == {(0, 0)}


MASKS = {
    "attention 128": [False, False, False],
    "attention 128 causal": [True, False, False],
    "attention 128 in a window": [True, False, True, False],
    "attention_varlen causal": [True, True, False, False],
    "paged_attention": [True, False, True, False],
    "chunk_scan": [False, True],
}
"""Of each loop of the consumers that waits for tiles, whether it compares elements.  Where products
run under the next iteration's arithmetic, the first is of one, and the last of the end of one."""


@pytest.mark.parametrize("name", MASKS)
def test_steady_loops_have_no_mask(name: str) -> None:
    """The author's one loop is several, of which one has no mask, and all fill the same rings."""
    program = lowered(name)
    (roles,) = (o for o in program.kernel.ops() if isinstance(o, ir.Roles))
    inside = [o for o in ir.walk(roles.consumer) if isinstance(o, ir.For)]
    loops = [o for o in inside if _waits(o) and not any(map(_waits, _loops_in(o)))]
    assert [_compares(o) for o in loops] == MASKS[name]
    rings = [{o.ring for o in ir.walk(each.body) if isinstance(o, ir.RingWait)} for each in loops]
    assert all(r <= rings[1] for r in rings)


FLOAT8_LOOPS = {
    "block_scaled_gemm": (4, {"FFMA": 64, "LDG": 1, "LDS": 2, "LDSM": 0}, 150),
    "fp8_attention causal": (8, {"SHFL": 4, "FSETP": 0, "MUFU": 66, "F2FP": 32, "STS": 0}, 460),
    "fp8_attention by sums": (8, {"SHFL": 4, "FSETP": 0, "MUFU": 34, "F2FP": 32, "STS": 0}, 660),
}
"""Products of the steady loop, how often it has some instructions, and how many it has at most."""


@pytest.mark.spread(without=["fp8_attention causal"])
@pytest.mark.parametrize("name", FLOAT8_LOOPS)
def test_steady_loops_of_float8(name: str) -> None:
    """A multiply-add for each sum of 128 products, whose scales are in shared memory before it is
    done, one conversion for two weights, and shuffles for the largest scores alone: nothing is
    compared or corrected."""
    pytest.importorskip("cuda.bindings.nvrtc")
    products, counts, most = FLOAT8_LOOPS[name]
    whole = function(lowered(name))
    loops = [list(whole.inside(loop)) for loop in whole.loops]
    steady = [each for each in loops if sum(i.name == "QGMMA" for i in each) == products]
    loop = min(steady, key=len)
    names = Counter(each.name for each in loop)
    assert {each: names[each] for each in counts} == counts
    assert len(loop) <= most


def _loops_in(loop: ir.For) -> list[ir.For]:
    return [o for o in ir.walk(loop.body) if isinstance(o, ir.For)]


def _waits(loop: ir.For) -> bool:
    return any(isinstance(o, ir.RingWait) for o in ir.walk(loop.body))


def _compares(loop: ir.For) -> bool:
    return any(isinstance(o, ir.Compare) for o in ir.walk(loop.body))


def test_backward_masks_behind_a_branch() -> None:
    """Its fragments fill the registers: the loops over elements without and with the mask stand in
    one loop."""
    program = lowered("attention_backward causal")
    said = [r.decision for r in program.remarks if isinstance(r.decision, MaskPeeled)]
    assert [(e.where, len(e.lines), e.by_branch) for e in said] == [("first", 1, True)]


def test_softmax_runs_under_a_product() -> None:
    """In loops over tiles after the first, with a mask or without, all exponentials stand between
    the wait for scores and that for values, and the remarks say so."""
    program = lowered("attention 128 in a window")
    said = [r.decision for r in program.remarks if isinstance(r.decision, RunsWhile)]
    assert said == [RunsWhile("total")]
    pytest.importorskip("cuda.bindings.nvrtc")
    lines = disassemble(program.cubin).split("\n")
    waits = [at for at, line in enumerate(lines) if "DEPBAR.LE gsb0" in line]
    between = [
        sum("MUFU.EX2" in line for line in lines[first:second])
        for first, second in pairwise(waits)
        if "gsb0, 0x1" in lines[first] and "gsb0, 0x0" in lines[second]
    ]
    assert [count >= 64 for count in between] == [True] * 2


@pytest.mark.parametrize(
    ("name", "alone"), [("fp8_attention causal", True), ("attention 64", False)]
)
def test_exponentials_run_beside_products(name: str, alone: bool) -> None:
    """Where products of 8 bits take no longer than exponentials, an iteration keeps its order and
    groups hand the tensor cores over; in 16 bits products run beside a group's own exponentials."""
    said = lowered(name).remarks
    assert any(isinstance(r.decision, TakeTurns) for r in said)
    assert any(isinstance(r.decision, IssuedBehind) for r in said) != alone
    reasons = [each.reason for r in said for each in r.rejected]
    kept = [each.why for each in reasons if isinstance(each, KeepsOrder)]
    assert any(isinstance(each, HandsOver) for each in kept) == alone


def test_lowering_calls_few_functions(calls: Callable[[Callable[[], object]], int]) -> None:
    """Tracing and all passes of attention forward; seconds are in `benchmarks/costs.py`."""

    def lower() -> None:
        kernel = study("attention").attention.compile(**LONG, dim=128, causal=True)
        assert compile_cuda(kernel.program.kernel, find_target("sm_90a")).source.text

    assert calls(lower) < MOST_CALLS


@pytest.mark.parametrize(
    "name",
    ["attention", "attention_varlen", "attention_backward", "mla_decode",
     "paged_attention", "sparse_attention", "chunk_scan", "fp8_matmul", "block_scaled_gemm",
     "fp8_attention", "grouped_matmul"],
)  # fmt: skip
def test_kernels_are_short(name: str) -> None:
    """80 lines at most."""
    tree = ast.parse(Path(study(name).__file__).read_text())
    kernels = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    assert kernels
    assert all((k.end_lineno or 0) - k.lineno < 80 for k in kernels)
