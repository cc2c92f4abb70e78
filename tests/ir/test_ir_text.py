"""The text form: what is printed parses back to the same kernel, and bad text says where."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, get_args

import pytest

from tileprof import ir
from tileprof.errors import KernelError
from tileprof.ir.instructions import (
    CopyInstruction,
    CpAsync,
    Fma,
    Matrices,
    Mma,
    ProductInstruction,
    Tma,
    Wgmma,
)
from tileprof.ir.schedule import (
    LaunchSchedule,
    LoopSchedule,
    decisions,
    launch_schedule,
    loop_schedule,
)

EVERY_OP = """\
kernel @every(%x: global<m, 128, float32, strides = [s0, 1]>, %y: out global<m, 128, float32> safe(-inf), %alpha: float32, %n: int32) symbols(%m, %s0) {
  site 0 scope "soft max" loc("a b.py":3:4-3:20 "f")
  site 1 op "gemm_inner" in 0
  %zero = constant 0 : index
  %one = constant 1 : index
  %width = constant 128 : index
  launch [%m, %one] {threads = [128, 2], hints = [[swizzle, 10], [order, "row major"]]} body(%bx: index, %by: index) {
    %t = alloc shared {shape = [64, 128], layout = "swizzle<128>"} : shared<64, 128, bfloat16>
    %acc = alloc fragment {shape = [64, 64]} : fragment<64, 64, float32>
    %v = alloc local {shape = []} : local<int32>
    %flat = reinterpret %t {shape = [8192]} : shared<8192, uint16>
    %tile = view %x, [%bx, %zero] {sizes = [1, 128]} : global<1, 128, float32>
    %row = view %t, [%zero, %zero] {sizes = [1, 128]} : shared<1, 128, bfloat16>
    copy %tile, %row {hints = [[disable_tma, true]]}
    gemm %t, %t, %acc {transpose_b = true, clear = true, policy = full_row}
    %sums = alloc fragment {shape = [64]} : fragment<64, float32>
    reduce sum %acc, %sums {dim = 1, clear = false}
    scan sum %acc, %acc {dim = 0, reverse = true}
    %0 = constant -1e-05 : float32
    fill %sums, %0
    for pipelined %zero, %m, %one {num_stages = 3} body(%k: index) {
      %1 = eq %k, %zero : bool
      if %1 then {
        continue
      } otherwise {
      }
    }
    while condition {
      %2 = load %v, [] : int32
      %3 = lt %2, %n : bool
      yield [%3]
    } body {
      break
    }
    parallel [%width] {hints = [[coalesced_width, 4]]} body(%i: index) {
      %4 = load %x, [%bx, %i] : float32 loc("a b.py":3:4-3:20 "f" <- "c.py":1:0-2:3 "g")
      %5 = exp2 %4 : float32
      %6 = isnan %5 : bool
      %7 = fma %4, %5, %alpha : float32
      %neg = sub %7, %5 : float32
      %8 = if %6 : float32 then {
        yield [%7]
      } otherwise {
        %9 = constant nan : float32
        yield [%9]
      }
      %10 = select %6, %8, %5 : float32
      store %10, %y, [%bx, %i] {in_bounds = true}
      %11 = cast %10 : bfloat16
      %12 = bitcast %11 : uint16
      %13 = atomic max %10, %y, [%bx, %i] : float32
      print "hi there" %12
    }
    scope softmax body {
      record begin {site = 0}
      print done _
      %14 = constant true : bool
      assert "must\\nhold" %14
      tile_atomic add %row, %row
      annotate safe %t {hints = [[value, 0.5]]}
      record end {site = 0}
    }
  }
}
"""  # noqa: E501


def test_every_op_is_printed_and_parsed_back() -> None:
    """A kernel with each op in it survives the way through text, locations included."""
    kernel = ir.parse(EVERY_OP)
    assert ir.print_kernel(kernel, locations=True) == EVERY_OP
    ir.verify(kernel)
    authors = set(ir.OPS.values()) - set(get_args(ir.DeviceOp))
    assert {op.SPEC.name for op in kernel.ops()} == {c.SPEC.name for c in authors}


def test_rewriting_with_no_rule_changes_nothing() -> None:
    """The rewriter's copy prints the same, and shares no value with the original."""
    kernel = ir.parse(EVERY_OP)
    copy = ir.rewrite(kernel, lambda op, builder: None)
    ir.verify(copy)
    assert ir.print_kernel(copy, locations=True) == ir.print_kernel(kernel, locations=True)
    assert not {v for op in kernel.ops() for v in op.results} & {
        v for op in copy.ops() for v in op.results
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%1 = foo %x : index", "<ir>:2: there is no op `foo`"),
        ("%1 = add %x, %q : index", "<ir>:2: %q is used before it is defined"),
        ("%1 = add %x, %x : float32", "<ir>:2: `add` gives index, the text says otherwise"),
        ("%1 = add %x ; %x", "<ir>:2: `;` is not part of the text form"),
        ("%1 = add %x, _ : index", "<ir>:2: expected a value, found `_`"),
        ("%1 = load _[%x] : float32", "<ir>:2: expected a value, found `_`"),
        ("%1 = load %x", "<ir>:3: expected `,`, found `}`"),
        ("copy %x, %x {colour = 3}", "<ir>:2: `copy` has no attribute `colour`"),
        ("copy %x, %x {lowering = 3}", "<ir>:2: `lowering`: `3` is not an instruction for a copy"),
        (
            "launch [%x] {schedule = [[colour, 3]]}",
            "<ir>:2: `schedule`: `('colour', 3)` is not a dec",
        ),
        ("launch [%x] {schedule = [[raster, true]]}", "<ir>:2: `schedule`: `('raster', True)` is"),
        ("launch [%x] {schedule = raster}", "<ir>:2: `schedule`: `'raster'` is not a decision"),
    ],
)
def test_bad_text_says_where(line: str, message: str) -> None:
    """Each mistake is one error with the line of the text."""
    with pytest.raises(KernelError) as caught:
        ir.parse(f"kernel @k(%x: index) {{\n  {line}\n}}\n")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    "instruction",
    [
        *(Tma(), Tma(multicast=2), Tma(reduce="add"), CpAsync(16), Matrices()),
        *(Wgmma(256, 16, True, 2, 1), Wgmma(8, 32, False, 1, 2), Mma(8, 2, 4), Fma(4, 8, 2, 4, 1)),
    ],
    ids=str,
)
def test_instructions_survive_the_text(instruction: CopyInstruction | ProductInstruction) -> None:
    """Every chosen instruction is read back as the value that was printed."""
    tile = ir.Alloc("shared", (16, 16), ir.dtype("float16"))
    held = tile.result
    match instruction:
        case Tma() | CpAsync() | Matrices():
            op: ir.OpBase = ir.Copy(held, held, (), instruction)
        case Wgmma() | Mma() | Fma():
            op = ir.Gemm(held, held, held, lowering=instruction)
    read = ir.parse(ir.print_kernel(ir.Kernel("k", (), (), ir.Block([], [tile, op]))))
    assert [o.lowering for o in read.ops() if isinstance(o, ir.Copy | ir.Gemm)] == [instruction]


@pytest.mark.parametrize("schedule", [LaunchSchedule, LoopSchedule])
def test_every_decision_survives_the_text(schedule: Any) -> None:
    """Each field of a schedule that differs from its default is read back with its type."""
    read = {LaunchSchedule: launch_schedule, LoopSchedule: loop_schedule}[schedule]
    for each in fields(schedule):
        made = schedule(**{each.name: True if each.default is False else 7})
        assert decisions(made) == ((each.name, getattr(made, each.name)),)
        assert read(decisions(made)) == made


@pytest.mark.parametrize("value", [0.1, -0.0, math.inf, 1e300, 5e-324, 3.0])
def test_floats_survive_exactly(value: float) -> None:
    """A float constant is printed with all its digits."""
    kernel = ir.parse(f"kernel @k() {{\n  %0 = constant {value!r} : float64\n}}\n")
    (op,) = kernel.ops()
    assert isinstance(op, ir.Constant)
    assert math.copysign(1, op.value) == math.copysign(1, value)
    assert op.value == value


def test_names_stay_unique(golden: Callable[..., None]) -> None:
    """Two values with one hint get different names, and reparsing keeps them."""
    block = ir.Block()
    builder = ir.Builder(block)
    for number in range(3):
        builder.emit(ir.Constant(number, ir.dtype("index"), hint="n"))
    kernel = ir.Kernel("k", (), (), block)
    text = ir.print_kernel(kernel)
    assert ir.print_kernel(ir.parse(text)) == text
    golden(text)
