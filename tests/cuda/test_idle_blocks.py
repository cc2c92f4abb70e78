"""Loops of blocks that store nothing: skipped where an element says so, kept everywhere else."""

# mypy: disable-error-code="valid-type"
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import numpy as np
import pytest

import tileprof
import tileprof.lang as T
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.lowering import Lowering, Remarks
from tileprof.compiler.cuda.passes.idle_blocks import skip_idle
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import TARGETS
from tileprof.emulator import emulate
from tileprof.remarks.copies import TmaLoad
from tileprof.remarks.loops import SkipsIdle

SIZES = (64, 20, 0, 100)
ROWS = sum(SIZES)
BLOCKS = 6
"""Each group has a block more than its rows fill, as where rows are rounded up with one to spare;
the last block is behind all groups."""
STARTS = np.cumsum([0, *SIZES[:-1]]).astype(np.int32)
PADDED = np.cumsum([0, *((s // 64 + 1) * 64 for s in SIZES[:-1])]).astype(np.int32)


def grouped() -> ir.Kernel:
    """Products of groups of rows with matrices of their own; each block looks for its group."""

    @T.prim_func
    def grouped(
        A: T.Tensor((ROWS, 64), "float16"),
        B: T.Tensor((len(SIZES), 64, 64), "float16"),
        starts: T.Tensor((len(SIZES),), "int32"),
        padded: T.Tensor((len(SIZES),), "int32"),
        sizes: T.Tensor((len(SIZES),), "int32"),
        C: T.Tensor((ROWS, 64), "float32"),
        most: T.Tensor((ROWS,), "float32"),
    ) -> None:
        with T.Kernel(BLOCKS, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            largest = T.alloc_fragment((64,), "float32")
            group = T.alloc_var("int32")
            group = 0
            for i in range(len(SIZES)):
                group = T.if_then_else(bx * 64 >= padded[i], i, group)
            first = bx * 64 - padded[group] + starts[group]
            rows = T.max(0, T.min(64, sizes[group] + padded[group] - bx * 64))
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[first, k * 32], a)
                T.copy(B[group, k * 32, 0], b)
                T.gemm(a, b, c)
            T.reduce_max(c, largest, dim=1)
            for i in T.Parallel(64):
                if i < rows:
                    most[first + i] = largest[i]
            for i, j in T.Parallel(64, 64):
                if i < rows:
                    C[first + i, j] = c[i, j]

    held: ir.Kernel = tileprof.compile(grouped).program.kernel
    return held


@pytest.mark.spread("controls0")
@pytest.mark.parametrize("controls", [
    Controls(), Controls(persistent=True), Controls(warp_specialization=False),
])  # fmt: skip
def test_blocks_behind_the_end_of_a_group_store_nothing_and_multiply_nothing(
    controls: Controls,
) -> None:
    """Both results are right, a producer still loads, and the loop asks before it runs."""
    program = compile_cuda(grouped(), TARGETS["sm_90a"], controls)
    assert any(isinstance(r.decision, SkipsIdle) for r in program.remarks)
    loads = sum(isinstance(r.decision, TmaLoad) for r in program.remarks)
    assert loads == (2 if controls.warp_specialization else 0)
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float16) for s in ((ROWS, 64), (len(SIZES), 64, 64)))
    c, most = np.zeros((ROWS, 64), np.float32), np.zeros(ROWS, np.float32)
    given = [a, b, STARTS, PADDED, np.array(SIZES, np.int32), c, most]
    emulate(program.source, program.kernel, given, seed=1, resident=2)
    ends = [*STARTS[1:], ROWS]
    want = [a[s:e].astype(np.float32) @ b[g] for g, (s, e) in enumerate(zip(STARTS, ends))]
    np.testing.assert_allclose(c, np.concatenate(want), atol=1e-2)
    np.testing.assert_allclose(most, c.max(1))


# -- which loops ask

KERNEL = """
kernel @k(%X: global<256, 64, float32>, %lengths: global<4, int32>, %Y: global<256, 64, float32>, %counts: global<4, int32>) {
  %c4 = constant 4 : index
  %c64 = constant 64 : index
  launch [%c4] {threads = [128]} body(%bx: index) {
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c3 = constant 3 : index
    %tile = alloc shared {shape = [64, 64]} : shared<64, 64, float32>
    %sums = alloc fragment {shape = [64, 64]} : fragment<64, 64, float32>
    %kept = alloc shared {shape = [64, 64]} : shared<64, 64, float32>
    %variable = alloc local {shape = []} : local<int32>
    %one = constant 1 : int32
    %loaded = load %lengths, [%bx] {in_bounds = true} : int32
    store %loaded, %variable, []
    %n = cast %loaded : index
    %any = gt %n, %c0 : bool
    %first = mul %bx, %c64 : index
    %to = view %Y, [%first, %c0] {sizes = [64, 64]} : global<64, 64, float32>
    for serial %c0, %c3, %c1 body(%k: index) {
      %row = mul %k, %c64 : index
      %from = view %X, [%row, %c0] {sizes = [64, 64]} : global<64, 64, float32>
      copy %from, %tile
      INSIDE
      parallel [%c64, %c64] body(%i: index, %j: index) {
        %x = load %tile, [%i, %j] {in_bounds = true} : float32
        %s = load %sums, [%i, %j] {in_bounds = true} : float32
        %t = add %x, %s : float32
        store %t, %sums, [%i, %j] {in_bounds = true}
      }
    }
    BEHIND
  }
}
"""  # noqa: E501
POINTS = """
    parallel [%c64, %c64] body(%i: index, %j: index) {{
      %y = add %first, %i : index
      {condition}
      if %asked then {{
        %x = load {tile}, [%i, %j] {{in_bounds = true}} : float32
        {store}
      }} otherwise {{
        {otherwise}
      }}
    }}"""


def points(
    condition: str, tile: str = "%sums", store: str = "store %x, %Y, [%y, %j]", otherwise: str = ""
) -> str:
    """Return the text of a loop that stores where a condition holds."""
    return POINTS.format(condition=condition, tile=tile, store=store, otherwise=otherwise)


BELOW = points("%asked = lt %i, %n : bool")
SKIPPED = {
    "below a length": BELOW,
    "from an offset": points("%asked = gt %n, %y : bool"),
    "up to a place from the end": points("%m = sub %i, %n : index\n %asked = lt %m, %c0 : bool"),
    "both of two": points(
        "%a = lt %j, %c3 : bool\n %b = le %i, %n : bool\n %asked = and %b, %a : bool"
    ),
    "by a variable": points(
        "%v = load %variable, [] : int32\n %w = cast %v : index\n %asked = lt %i, %w : bool"
    ),
    "in a branch": "if %any then {\n copy %sums, %to\n } otherwise {\n }",
    "through another tile": "copy %sums, %kept" + points("%asked = lt %i, %n : bool", "%kept"),
    "two loops": BELOW + BELOW,
    "added": points(
        "%asked = lt %i, %n : bool", store="%o = atomic add %x, %Y, [%y, %j] : float32"
    ),
}
STAYING = {
    "all of it": "copy %sums, %to",
    "by the grid": points("%asked = lt %y, %c64 : bool"),
    "otherwise too": points("%asked = lt %i, %n : bool", otherwise="store %one, %counts, [%bx]")
    .replace("store %one", "%z = load %sums, [%i, %j] {in_bounds = true} : float32\n store %one"),
    "one that is not asked": BELOW + "\n copy %sums, %to",
    "equal": points("%asked = eq %i, %n : bool"),
    "from below": points("%asked = ge %n, %loaded_index : bool").replace(
        "%asked", "%q = load %sums, [%i, %j] {in_bounds = true} : float32\n"
        "%loaded_index = cast %q : index\n %asked", 1
    ),
    "as an index": points(
        "%asked = lt %i, %n : bool", store="%q = cast %x : index\n store %x, %Y, [%q, %j]"
    ),
    "printed": 'print "sums" %sums' + BELOW,
    "nothing": "",
    "a variable that changes": "store %one, %variable, []" + points(
        "%v = load %variable, [] : int32\n %w = cast %v : index\n %asked = lt %i, %w : bool"
    ),
}  # fmt: skip
REPORTS = "%far = load %lengths, [%row] : int32"


def is_skipped(behind: str, inside: str = "") -> bool:
    """Return whether the loop asks after the pass, and says so."""
    kernel = ir.parse(KERNEL.replace("INSIDE", inside).replace("BEHIND", behind))
    ir.verify(kernel)
    lowering = Lowering(TARGETS["sm_90a"], Controls(), Remarks())
    made = skip_idle(kernel, lowering)
    ir.verify(made)
    (loop,) = (o for o in made.ops() if isinstance(o, ir.For))
    told = any(isinstance(r.decision, SkipsIdle) for r in lowering.remarks.all())
    assert told == isinstance(loop.stop.owner, ir.Select)
    return told


@pytest.mark.parametrize("name", SKIPPED)
def test_a_loop_asks_what_its_stores_ask(name: str) -> None:
    """Each of these stores something of the loop only where an element of a tensor says so."""
    assert is_skipped(SKIPPED[name])


@pytest.mark.parametrize("name", STAYING)
def test_a_loop_stays_where_something_of_it_shows(name: str) -> None:
    """Each of these shows something of the loop, or says nothing that is known before it."""
    assert not is_skipped(STAYING[name])


def test_a_loop_that_may_report_an_index_stays() -> None:
    """A row that is out of bounds is reported also by a block that stores nothing."""
    assert not is_skipped(BELOW, REPORTS)
