"""Tile ops become loops that do the same: their texts, and results before and after the pass."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.cuda.elementwise_support import HOPPER, launch, numbers
from tests.verified import parse
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.expand import expand
from tileprof.errors import KernelError
from tileprof.runtime.interpreter import InterpreterExecutable

COPIES = """
    %A = alloc shared {shape = [64, 32]} : shared<64, 32, bfloat16>
    %F = alloc fragment {shape = [64, 32]} : fragment<64, 32, float32>
    %row = alloc fragment {shape = [32]} : fragment<32, float32>
    %o = mul %bx, %c64 : index
    %tile = view %x, [%c1, %o, %c0] {sizes = [1, 64, 32]} : global<1, 64, 32, bfloat16>
    copy %tile, %A
    copy %A, %F
    fill %row, %zero
    %part = view %F, [%c3, %c0] {sizes = [1, 32], in_bounds = true} : fragment<1, 32, float32>
    copy %part, %row
    %out = view %y, [%o, %c0] {sizes = [64, 32], in_bounds = true} : global<64, 32, float32>
    tile_atomic add %F, %out
    %last = view %y, [%c5, %c0] {sizes = [1, 32], in_bounds = true} : global<1, 32, float32>
    copy %row, %last"""

REDUCTIONS = """
    %S = alloc shared {shape = [16, 32]} : shared<16, 32, float32>
    %F = alloc fragment {shape = [16, 32]} : fragment<16, 32, float32>
    %sums = alloc fragment {shape = [16]} : fragment<16, float32>
    %held = alloc shared {shape = [32]} : shared<32, float32>
    %tile = view %x, [%c0, %c0] {sizes = [16, 32], in_bounds = true} : global<16, 32, float32>
    copy %tile, %S
    copy %tile, %F
    reduce sum %F, %sums {dim = 1}
    reduce sum %S, %sums {dim = 1, clear = false}
    reduce max %tile, %held {dim = 0}
    %row = view %y, [%c0] {sizes = [16], in_bounds = true} : global<16, float32>
    copy %sums, %row
    %rest = view %y, [%c16] {sizes = [32], in_bounds = true} : global<32, float32>
    copy %held, %rest
    scan sum %S, %S {dim = 1}
    scan max %F, %F {dim = 0, reverse = true}
    scan sum %tile, %F {dim = 0}
    %back = view %z, [%c0, %c0] {sizes = [16, 32], in_bounds = true} : global<16, 32, float32>
    tile_atomic max %S, %back
    tile_atomic add %F, %back"""

KERNELS = {
    "copies": (
        launch(
            "%x: global<2, m, 32, bfloat16> safe(3.0), %y: global<128, 32, float32>",
            COPIES,
            symbols="%m",
            before="  %zero = constant 0.0 : float32",
        ),
        (50,),
    ),
    "reductions": (
        launch(
            "%x: global<16, 32, float32>, %y: global<48, float32>, %z: global<16, 32, float32>",
            REDUCTIONS,
        ),
        (),
    ),
}


def expanded(text: str) -> ir.Kernel:
    """The kernel after the pass, which the verifier accepts."""
    made = expand(parse(text), Lowering(HOPPER, Controls()))
    ir.verify(made)
    return made


@pytest.mark.parametrize("name", KERNELS)
def test_text(name: str, golden: Callable[..., None]) -> None:
    """What the pass makes of tile ops."""
    golden(ir.print_kernel(expanded(KERNELS[name][0])))


@pytest.mark.parametrize("name", KERNELS)
def test_results_stay(name: str) -> None:
    """Before and after, the interpreter gives the same."""
    text, symbols = KERNELS[name]
    kernel = parse(text)
    shapes = [
        tuple(d if isinstance(d, int) else symbols[0] for d in p.type.shape)
        for p in kernel.params
        if isinstance(p.type, ir.BufferType)
    ]
    arrays = [
        numbers(v.dtype.name, *shape, seed=at)
        for at, (v, shape) in enumerate(zip(kernel.param_values(), shapes, strict=True))
    ]
    before, after = [a.copy() for a in arrays], [a.copy() for a in arrays]
    InterpreterExecutable(kernel).run(before, symbols)
    InterpreterExecutable(expanded(text)).run(after, symbols)
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64))
    assert any((a != b).any() for a, b in zip(arrays, after, strict=True))


def test_only_ops_that_have_an_instruction_stay() -> None:
    """No fill, no atomic of a tile, no copy without an instruction; reductions of fragments, scans
    of shared memory."""
    for text, _ in KERNELS.values():
        for op in expanded(text).ops():
            assert not isinstance(op, ir.Fill | ir.TileAtomic)
            if isinstance(op, ir.Copy):
                assert op.lowering
            if isinstance(op, ir.Reduce | ir.Scan):
                space = "fragment" if isinstance(op, ir.Reduce) else "shared"
                assert {op.source.buffer.space, op.target.buffer.space} == {space}
                assert not isinstance(op.source.owner, ir.View)


def test_chosen_copies_stay() -> None:
    """What `choose` gave an instruction is not taken apart."""
    text = KERNELS["copies"][0].replace("copy %tile, %A", 'copy %tile, %A {lowering = "tma"}')
    copies = [o for o in expanded(text).ops() if isinstance(o, ir.Copy)]
    assert [str(o.lowering) for o in copies] == ["tma", "matrix"]


def test_whole_tensors_and_local_buffers() -> None:
    """A tensor of unknown extents is a loop over symbols; a `local` buffer belongs to each thread,
    so each fills its own."""
    text = launch(
        "%x: global<m, 4, float32>",
        """
    fill %x, %one
    %l = alloc local {shape = [3]} : local<3, float32>
    fill %l, %one""",
        symbols="%m",
        before="  %one = constant 1.0 : float32",
    )
    made = expanded(text)
    loops = [o for o in made.ops() if isinstance(o, ir.Parallel)]
    assert [loop.extents[0] for loop in loops] == [made.symbol_values()["m"]]
    assert len([o for o in made.ops() if isinstance(o, ir.For)]) == 1
    array = numbers("float32", 5, 4)
    InterpreterExecutable(made).run([array], (5,))
    assert (array == 1).all()


def test_a_reduction_of_a_tensor_of_unknown_size_is_refused() -> None:
    """Registers have a fixed number."""
    text = launch(
        "%x: global<m, 4, float32>, %y: global<4, float32>",
        "    reduce sum %x, %y {dim = 0}",
        symbols="%m",
    )
    with pytest.raises(KernelError, match="extents are known at launch only"):
        expanded(text)


def test_long_lines_get_memory_for_the_parts_of_warps() -> None:
    """Scans of few long lines, and no others."""
    text = launch(
        "%x: global<64, float32>",
        """
    %S = alloc shared {shape = [2, 1024]} : shared<2, 1024, float32>
    %T = alloc shared {shape = [64, 1024]} : shared<64, 1024, float32>
    scan sum %S, %S {dim = 1}
    scan sum %T, %T {dim = 1}""",
    )
    scans = [o for o in expanded(text).ops() if isinstance(o, ir.Scan)]
    assert [o.scratch is not None for o in scans] == [True, False]
