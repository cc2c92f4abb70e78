"""The text of a kernel's IR as ops; values of indices, and turns of loops."""

from __future__ import annotations

from itertools import chain

import pytest

from tests.analyzer.rotated import kernel_of, read_kernel
from tileprof import ir
from tileprof.analyzer.tiles.values import turns_of, values_of
from tileprof.kernel_ir import Parameter, Type
from tileprof.profile.storage.ir_text import read

TEXT = """kernel @k(%X: global<m, 64, bfloat16> safe(1.0), \
%Y: out global<8, float32, strides = [2]>, %n: int32) symbols(%m) {
  %c8 = constant 8 : index
  launch [%c8, %m] {threads = [128], hints = [[swizzle, 4], [order, row]]} body(%bx: index, \
%by: index) {
    %tile = view %X, [%bx, %by] {sizes = [1, 64], in_bounds = true} : global<1, 64, bfloat16>
    %top = constant -1.5e+30 : float32
    %0 = if %c : index then {
      scope "a {strange} %name" body {
        reduce max %tile, %Y {dim = 1, clear = false}
      }
    } otherwise {
      wait wgmma [%a, %b], [] {reason = "reduce uses \\"Y\\", %tile"}
      yield [%c8]
    }
  }
}
"""


def test_what_a_line_says() -> None:
    """Parameters, results, words, operands, lists, attributes, types."""
    kernel = read(TEXT)
    assert kernel.parameters == {
        "%X": Parameter(Type("bfloat16", "global", ("m", "64")), out=False),
        "%Y": Parameter(Type("float32", "global", ("8",)), out=True),
        "%n": Parameter(Type("int32"), out=False),
    }
    assert dict(kernel.extents) == {"%Y": (8,)}
    launch, view, top, _, _, reduced, wait, _ = (op for op, _ in kernel.nested[1:])
    assert (launch.listed, launch.arguments) == (("%c8", "%m"), ("%bx", "%by"))
    assert (launch.numbers("threads"), launch.numbers("hints")) == ((128,), ())
    assert (view.result, view.source, view.listed) == ("%tile", "%X", ("%bx", "%by"))
    assert (view.numbers("sizes"), view.says("in_bounds"), view.type.bits) == ((1, 64), True, 16)
    assert (top.word, top.type) == ("-1.5e+30", Type("float32"))
    assert (reduced.word, reduced.number("dim"), reduced.says("clear")) == ("max", 1, False)
    assert wait.lists == (("%a", "%b"), ())


def test_blocks() -> None:
    """An `if` has two; what is inside knows what is around."""
    found = {op.name: (op, around) for op, around in read(TEXT).nested}
    branch, _ = found["if"]
    assert [each.name for each in branch.blocks] == ["then", "otherwise"]
    assert [each.name for each in found["reduce"][1]] == ["launch", "if", "scope"]
    assert [each.name for each in found["yield"][1]] == ["launch", "if"]


@pytest.mark.parametrize("end", range(0, len(TEXT), 7))
def test_text_that_is_cut_off(end: int) -> None:
    """It has the ops that are there, and is no error."""
    whole = [op.name for op, _ in read(TEXT).nested]
    found = [op.name for op, _ in read(TEXT[:end]).nested]
    assert found[:-1] == whole[: max(len(found) - 1, 0)]


@pytest.mark.parametrize("passes", [False, True])
@pytest.mark.parametrize("name", ["attention", "rotated"])
def test_it_agrees_with_the_parser(name: str, passes: bool) -> None:
    """Op for op: names, results with their types, operands, blocks."""
    text = ir.print_kernel(kernel_of(name, passes, causal=True))
    ops, parsed = read(text).nested, [*ir.walk(ir.parse(text).body)]
    assert [op.name for op, _ in ops] == [each.mnemonic for each in parsed]
    for (mine, _), theirs in zip(ops, parsed):
        values = [each for each in (*mine.operands, *chain(*mine.lists)) if each != "_"]
        assert len(values) == len([*theirs.operand_values()])
        assert len(mine.results) == len(theirs.results)
        assert len(mine.blocks) == len(theirs.SPEC.regions)
        if theirs.results:
            assert mine.type == shown(theirs.results[0].type)


def shown(type: ir.Type) -> Type:
    """A type as a text has it."""
    if isinstance(type, ir.BufferType):
        return Type(type.dtype.name, type.space, tuple(map(str, type.shape)))
    return Type(str(type))


LOOPS = """kernel @k(%n: index) {
  %c4 = constant 4 : index
  %c1 = constant 1 : index
  %c0 = constant 0 : index
  launch [%c4] {threads = [128]} body(%bx: index) {
    %0 = add %bx, %c1 : index
    for serial %c0, %0, %c1 body(%k: index) {
      %1 = min %c4, %c1 : index
      for serial %1, %c4, %c4 body(%j: index) {
      }
      for serial %c0, %k, %c1 body(%i: index) {
      }
    }
    for serial %c0, %n, %c1 body(%l: index) {
    }
  }
}
"""


def test_turns_of_loops() -> None:
    """By block; of a part of a step; not known where they go with a loop, or a parameter."""
    kernel = read(LOOPS)
    values, loops = values_of(kernel), [*kernel.named("for")]
    assert values.turns["%k"].tolist() == [1, 2, 3, 4]
    assert [values.mean_turns(each) for each in loops] == [2.5, 1.0, None, None]
    assert turns_of(values, loops) == 2.5
    assert (values.number("%1"), values.number("%bx"), values.number("%j")) == (1, None, None)


def test_turns_of_the_diagonal() -> None:
    """Of 32 rows of tiles, 1 to 32 tiles are seen."""
    kernel = read_kernel("attention", causal=True)
    values = values_of(kernel)
    assert [values.mean_turns(each) for each in kernel.named("for")] == [16.5]
