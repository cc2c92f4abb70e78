"""Which layouts kernels get: goldens of small ones, conversions, moves to shared memory, remarks;
and that lowered kernels do what the interpreter does, on the emulated machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.cuda.elementwise_support import HOPPER, launch, numbers
from tests.verified import parse
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.layouts.registers import parse_layout
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.choice.choose import choose
from tileprof.compiler.cuda.passes.expand import expand
from tileprof.compiler.cuda.passes.layout.layouts import infer_layouts
from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.emulator import emulate
from tileprof.remarks import Rejection
from tileprof.remarks.common import Asked, RegisterCandidate
from tileprof.remarks.layouts import Converted, IndexNotVariable
from tileprof.runtime.interpreter import InterpreterExecutable

TWO = "%x: global<8, 256, float32>, %y: global<8, 256, float32>"

SOFTMAX = launch(
    TWO,
    """
    %f = alloc fragment {shape = [4, 256]} : fragment<4, 256, float32>
    %m = alloc fragment {shape = [4]} : fragment<4, float32>
    %o = mul %bx, %c4 : index
    %in = view %x, [%o, %c0] {sizes = [4, 256], in_bounds = true} : global<4, 256, float32>
    %out = view %y, [%o, %c0] {sizes = [4, 256], in_bounds = true} : global<4, 256, float32>
    copy %in, %f
    reduce max %f, %m {dim = 1}
    parallel [%c4, %c256] body(%i: index, %j: index) {
      %a = load %f, [%i, %j] : float32
      %s = load %m, [%i] : float32
      %d = sub %a, %s : float32
      store %d, %f, [%i, %j]
    }
    copy %f, %out""",
    grid="%c2",
)

TRANSPOSE = launch(
    "%x: global<64, 64, float32>, %y: global<64, 64, float32>",
    """
    %s = alloc shared {shape = [64, 64]} : shared<64, 64, float32>
    parallel [%c64, %c64] body(%i: index, %j: index) {
      %a = load %x, [%i, %j] {in_bounds = true} : float32
      store %a, %s, [%i, %j]
    }
    parallel [%c64, %c64] body(%j: index, %i: index) {
      %a = load %s, [%i, %j] : float32
      store %a, %y, [%j, %i] {in_bounds = true}
    }""",
)

IN_BOTH_ORDERS = launch(
    "%x: global<32, 32, float32>, %y: global<32, 32, float32>",
    """
    %f = alloc fragment {shape = [32, 32]} : fragment<32, 32, float32>
    %g = alloc fragment {shape = [32, 32]} : fragment<32, 32, float32>
    %in = view %x, [%c0, %c0] {sizes = [32, 32], in_bounds = true} : global<32, 32, float32>
    %out = view %y, [%c0, %c0] {sizes = [32, 32], in_bounds = true} : global<32, 32, float32>
    copy %in, %f
    parallel [%c32, %c32] body(%i: index, %j: index) {
      %a = load %f, [%i, %j] : float32
      %b = load %f, [%j, %i] : float32
      %d = sub %a, %b : float32
      store %d, %g, [%i, %j]
    }
    copy %g, %out""",
)

GATHER = launch(
    TWO,
    """
    %f = alloc fragment {shape = [8, 256]} : fragment<8, 256, float32>
    %in = view %x, [%c0, %c0] {sizes = [8, 256], in_bounds = true} : global<8, 256, float32>
    copy %in, %f
    parallel [%c8, %c256] body(%i: index, %j: index) {
      %t = mul %j, %c3 : index
      %k = floormod %t, %c256 : index
      %a = load %f, [%i, %k] : float32
      store %a, %y, [%i, %j] {in_bounds = true}
    }""",
)

HALVES = launch(
    "%x: global<32, 64, float16>, %y: global<32, 32, float16>",
    """
    %f = alloc fragment {shape = [32, 2, 32]} : fragment<32, 2, 32, float16>
    parallel [%c32, %c2, %c32] body(%i: index, %h: index, %j: index) {
      %t = mul %h, %c32 : index
      %k = add %t, %j : index
      %a = load %x, [%i, %k] {in_bounds = true} : float16
      store %a, %f, [%i, %h, %j]
    }
    parallel [%c32, %c32] body(%i: index, %j: index) {
      %a = load %f, [%i, %c0, %j] : float16
      %b = load %f, [%i, %c1, %j] : float16
      %d = sub %a, %b : float16
      store %d, %y, [%i, %j] {in_bounds = true}
    }""",
)

COLUMNS = launch(
    "%x: global<64, 96, float16>, %y: global<96, float32>",
    """
    %f = alloc fragment {shape = [64, 96]} : fragment<64, 96, float16>
    %r = alloc fragment {shape = [96]} : fragment<96, float32>
    %in = view %x, [%c0, %c0] {sizes = [64, 96], in_bounds = true} : global<64, 96, float16>
    copy %in, %f
    reduce sum %f, %r {dim = 0}
    %out = view %y, [%c0] {sizes = [96], in_bounds = true} : global<96, float32>
    copy %r, %out""",
    threads=96,
)

PRODUCT = launch(
    "%x: global<128, 64, float16>, %w: global<64, 128, float16>, %z: global<128, float32>, "
    "%y: global<128, 128, float32>",
    """
    %a = alloc shared {shape = [128, 64]} : shared<128, 64, float16>
    %b = alloc shared {shape = [64, 128]} : shared<64, 128, float16>
    %c = alloc fragment {shape = [128, 128]} : fragment<128, 128, float32>
    %m = alloc fragment {shape = [128]} : fragment<128, float32>
    copy %x, %a
    copy %w, %b
    gemm %a, %b, %c {clear = true}
    copy %z, %m
    parallel [%c128, %c128] body(%i: index, %j: index) {
      %v = load %c, [%i, %j] : float32
      %s = load %m, [%j] : float32
      %d = add %v, %s : float32
      store %d, %c, [%i, %j]
    }
    copy %c, %y""",
)

KERNELS = {
    "softmax": SOFTMAX,
    "transpose": TRANSPOSE,
    "in_both_orders": IN_BOTH_ORDERS,
    "gather": GATHER,
    "halves": HALVES,
    "columns": COLUMNS,
    "product": PRODUCT,
}


def lowered(text: str, controls: Controls | None = None) -> tuple[ir.Kernel, Lowering]:
    """The kernel up to its layouts, and what was noted."""
    lowering = Lowering(HOPPER, controls or Controls())
    kernel = infer_layouts(expand(choose(parse(text), lowering), lowering), lowering)
    ir.verify(kernel)
    return kernel, lowering


@pytest.mark.parametrize("name", KERNELS)
def test_layouts(name: str, golden: Callable[[str], None]) -> None:
    """What has a layout, and the remarks about it."""
    kernel, lowering = lowered(KERNELS[name])
    words = ("alloc", "parallel", "reduce", "gemm", "convert_layout", "copy")
    lines = [line for line in ir.print_kernel(kernel).splitlines() if any(w in line for w in words)]
    remarks = [str(r) for r in lowering.remarks.all() if r.op.startswith("buffer")]
    golden("\n".join([*lines, *remarks]) + "\n")


@pytest.mark.parametrize("name", KERNELS)
def test_loops_find_their_fragments(name: str) -> None:
    """Each access of a fragment has a register number that the layouts give."""
    kernel, _ = lowered(KERNELS[name])
    seen = 0
    for loop in kernel.ops():
        if not isinstance(loop, ir.Parallel):
            continue
        extents = tuple(
            int(e.owner.value) for e in loop.extents if isinstance(e.owner, ir.Constant)
        )
        layout = parse_layout(loop.layout, extents)
        for op in ir.walk(loop.body):
            if isinstance(op, ir.Load | ir.Store) and op.buffer.buffer.space == "fragment":
                alloc = op.buffer.owner
                assert isinstance(alloc, ir.Alloc)
                variables = loop.body.args
                dims = [variables.index(i) if i in variables else None for i in op.indices]
                held = parse_layout(alloc.layout, alloc.shape)
                assert layout.register_weights(dims, held) is not None
                seen += 1
    assert seen or name in ("transpose", "gather")


@pytest.mark.parametrize("name", [n for n in KERNELS if n != "product"])
def test_results_are_those_of_the_interpreter(name: str) -> None:
    """Lowered as a whole and run for several orders of threads."""
    kernel = parse(KERNELS[name])
    arrays = []
    for param in kernel.params:
        assert isinstance(param.type, ir.BufferType)
        arrays.append(numbers(param.type.dtype.name, *param.type.static_shape))
    expected = [a.copy() for a in arrays]
    InterpreterExecutable(kernel).run(expected, ())
    program = compile_cuda(kernel, HOPPER)
    for seed in range(3):
        found = [a.copy() for a in arrays]
        emulate(program.source, program.kernel, found, {}, seed=seed)
        for one, other in zip(found, expected):
            np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64))


def test_blocks_that_are_no_whole_warps_are_filled_up() -> None:
    """48 threads run as 64: lanes of the second warp would wait for ones that are not there."""
    kernel = parse(SOFTMAX.replace("threads = [128]", "threads = [48]"))
    program = compile_cuda(kernel, HOPPER)
    assert program.source.launches[0].threads == 64
    x = numbers("float32", 8, 256)
    y = np.zeros_like(x)
    emulate(program.source, program.kernel, [x, y], {}, seed=1)
    np.testing.assert_array_equal(y, x - x.max(1, keepdims=True))


def test_a_conflict_is_converted_and_told() -> None:
    """Rows and columns of one fragment in one loop: one of them is converted."""
    kernel, lowering = lowered(IN_BOTH_ORDERS)
    (convert,) = [op for op in kernel.ops() if isinstance(op, ir.ConvertLayout)]
    assert convert.scratch is not None
    (remark,) = [r for r in lowering.remarks.all() if r.severity == "missed"]
    assert remark.subject == "buffer f"
    assert isinstance(remark.decision, Converted)
    assert remark.decision.layout.startswith("regs")


def test_what_has_no_register_number_moves_to_shared_memory() -> None:
    """A mixed index, with the reason."""
    kernel, lowering = lowered(GATHER)
    assert not any(isinstance(op, ir.Alloc) and op.space == "fragment" for op in kernel.ops())
    (remark,) = [r for r in lowering.remarks.all() if r.severity == "missed"]
    assert remark.subject == "buffer f"
    assert remark.rejected == (Rejection(RegisterCandidate(), IndexNotVariable(1)),)


def test_without_swizzles_rows_are_padded() -> None:
    """A control; a matrix instruction that needs a swizzle keeps it."""
    for text in (TRANSPOSE, PRODUCT):
        kernel, _ = lowered(text, Controls(swizzle=False, wgmma=False, tma=False))
        layouts = [
            o.layout for o in kernel.ops() if isinstance(o, ir.Alloc) and o.space == "shared"
        ]
        assert layouts
        assert not any("swizzle" in layout for layout in layouts)


def test_a_wish_that_is_not_met_is_told() -> None:
    """Rows of a transpose are padded, though a swizzle was asked for."""
    wish = "    annotate annotate_layout %s {hints = [[layout, swizzled]]}\n    parallel"
    kernel, lowering = lowered(TRANSPOSE.replace("    parallel", wish, 1))
    (alloc,) = [op for op in kernel.ops() if isinstance(op, ir.Alloc)]
    assert alloc.layout.startswith("pad")
    told = [r for r in lowering.remarks.all() if r.severity == "missed"]
    assert [r.rejected[0].candidate for r in told] == [Asked("swizzled")]


def test_wishes_about_registers_are_answered() -> None:
    """For a fragment and for a loop."""
    wish = "    annotate annotate_layout %f {hints = [[layout, custom]]}\n    reduce"
    text = SOFTMAX.replace("    reduce", wish).replace(
        "parallel [%c4, %c256]", "parallel [%c4, %c256] {hints = [[loop_layout, mine]]}"
    )
    _, lowering = lowered(text)
    told = [(r.subject, r.rejected[0].candidate) for r in lowering.remarks.all() if r.rejected]
    assert ("buffer f", Asked("custom")) in told
    assert ("parallel", Asked("mine")) in told


def test_one_element_at_a_time_if_asked() -> None:
    """Without vectors, neighbours are in neighbouring lanes."""
    kernel, _ = lowered(SOFTMAX, Controls(vectorize=False))
    (layout,) = {o.layout for o in kernel.ops() if isinstance(o, ir.Parallel)}
    assert "| lanes (0,1) (0,2) (0,4)" in layout


def test_rows_of_a_warp_need_no_barrier() -> None:
    """Four rows, four warps: the reduction has no scratch memory."""
    kernel, _ = lowered(SOFTMAX)
    (reduce,) = [op for op in kernel.ops() if isinstance(op, ir.Reduce)]
    assert reduce.scratch is None


def test_it_calls_few_functions(calls: Callable[[Callable[[], object]], int]) -> None:
    """Compile time is part of the product; seconds are in `benchmarks/costs.py`."""
    lowering = Lowering(HOPPER, Controls())
    kernel = expand(choose(parse(SOFTMAX), lowering), lowering)
    assert calls(lambda: infer_layouts(kernel, lowering)) < 20_000
