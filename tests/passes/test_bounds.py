"""Which accesses `prove_bounds` proves, and that each proof holds for every index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprof import ir
from tileprof.compiler.passes import prove_bounds, simplify

CASES = {
    # name: (grid, extent of x, index of the load as ops ending in %r, whether it is proved)
    "whole tiles": ("%c4", "256", "%o = mul %bx, %c64 : index\n%r = add %o, %i : index", True),
    "one too few": ("%c4", "255", "%o = mul %bx, %c64 : index\n%r = add %o, %i : index", False),
    "m // 64 blocks": (
        "%whole",
        "m",
        "%o = mul %bx, %c64 : index\n%r = add %o, %i : index",
        True,
    ),
    "ceildiv(m, 64) blocks": (
        "%ceil",
        "m",
        "%o = mul %bx, %c64 : index\n%r = add %o, %i : index",
        False,
    ),
    "m blocks": ("%m", "m", "%r = add %bx, %zero : index", True),
    "below": ("%m", "m", "%one = constant 1 : index\n%r = sub %bx, %one : index", False),
    "swizzled": ("%c4", "64", "%r = xor %i, %bx : index", True),
    "quotient and remainder": (
        "%c4",
        "64",
        "%c8 = constant 8 : index\n%q = floordiv %i, %c8 : index\n%p = mul %q, %c8 : index\n"
        "%s = floormod %i, %c8 : index\n%r = add %p, %s : index",
        True,
    ),
    "clamped": (
        "%ceil",
        "m",
        "%o = mul %bx, %c64 : index\n%t = add %o, %i : index\n%one = constant 1 : index\n"
        "%last = sub %m, %one : index\n%u = min %t, %last : index\n%r = max %u, %zero : index",
        False,
    ),
    "clamped to a number": (
        "%ceil",
        "64",
        "%o = mul %bx, %c64 : index\n%t = add %o, %i : index\n%c63 = constant 63 : index\n"
        "%r = min %t, %c63 : index",
        True,
    ),
    "loaded": (
        "%c4",
        "64",
        "%l = load %y, [%i] : int32\n%r = cast %l : index",
        False,
    ),
    "loaded, then masked": (
        "%c4",
        "64",
        "%l = load %y, [%i] : int32\n%w = cast %l : index\n%c63 = constant 63 : index\n"
        "%r = and %w, %c63 : index",
        True,
    ),
    "narrow arithmetic that may wrap around": (
        "%c4",
        "256",
        "%a = cast %i : int8\n%k = constant 4 : int8\n%b = mul %a, %k : int8\n%r = cast %b : index",
        False,
    ),
}


def _kernel(grid: str, extent: str, index: str) -> ir.Kernel:
    return ir.parse(f"""
kernel @k(
  %x: global<{extent}, float32>, %y: global<64, int32>, %z: global<m, float32>
) symbols(%m) {{
  %zero = constant 0 : index
  %c4 = constant 4 : index
  %c63 = constant 63 : index
  %c64 = constant 64 : index
  %whole = floordiv %m, %c64 : index
  %up = add %m, %c63 : index
  %ceil = floordiv %up, %c64 : index
  launch [{grid}] {{threads = [64]}} body(%bx: index) {{
    parallel [%c64] body(%i: index) {{
      {index}
      %v = load %x, [%r] : float32
      print v %v
    }}
  }}
}}
""")


def _proved(kernel: ir.Kernel, kind: type[ir.Load | ir.View] = ir.Load) -> list[bool]:
    """`in_bounds` of the accesses of floats, in order."""
    ir.verify(kernel)
    return [
        op.in_bounds for op in kernel.ops() if isinstance(op, kind) and op.results[0].dtype.is_float
    ]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_index(case: tuple[str, str, str, bool]) -> None:
    """An index of a launch over blocks of 64 is proved or not."""
    grid, extent, index, expected = case
    kernel = prove_bounds(simplify(_kernel(grid, extent, index)))
    assert _proved(kernel) == [expected]


TEXTS = """
kernel @k(%x: global<m, 64, float32>, %y: global<130, float32>, %n: int32) symbols(%m) {
  %zero = constant 0 : index
  %one = constant 1 : index
  %c32 = constant 32 : index
  %c63 = constant 63 : index
  %c64 = constant 64 : index
  %c128 = constant 128 : index
  %up = add %m, %c63 : index
  %ceil = floordiv %up, %c64 : index
  launch [%ceil] {threads = [64]} body(%bx: index) {
    %row = mul %bx, %c64 : index
    %tile = view %x, [%row, %zero] {sizes = [64, 64]} : global<64, 64, float32>
    %line = view %x, [%bx, %zero] {sizes = [1, 64]} : global<1, 64, float32>
    %s = alloc shared {shape = [64, 64]} : shared<64, 64, float32>
    copy %tile, %s
    for serial %zero, %c128, %c32 body(%k: index) {
      %part = view %y, [%k] {sizes = [32]} : global<32, float32>
      %next = view %y, [%k] {sizes = [35]} : global<35, float32>
      print part %part
      print next %next
    }
    parallel [%c64] body(%i: index) {
      %r = add %row, %i : index
      %inside = lt %r, %m : bool
      if %inside then {
        %a = load %x, [%r, %i] : float32
        print a %a
      } otherwise {
        %b = load %x, [%r, %i] : float32
        print b %b
      }
      %w = cast %n : index
      %positive = ge %w, %zero : bool
      %small = lt %w, %c64 : bool
      %both = and %positive, %small : bool
      if %both then {
        %c = load %s, [%w, %i] : float32
        print c %c
      } otherwise {
      }
    }
    print line %line
  }
}
"""


def test_views_loops_and_branches(golden: Callable[[str], None]) -> None:
    """A tile at the edge is not proved, a row is, and so is what stands behind a test."""
    golden(ir.print_kernel(prove_bounds(ir.parse(TEXTS))))


def test_nothing_proved_is_nothing_changed() -> None:
    """A kernel without a proof is given back as it is."""
    kernel = _kernel("%c4", "m", "%r = add %bx, %zero : index")
    assert prove_bounds(kernel) is kernel


# -- every index of small kernels, by brute force

SYMBOL = "m"
KINDS = ["add", "sub", "mul", "floordiv", "floormod", "min", "max", "truncdiv", "and", "xor", "shl"]


@st.composite
def _kernels(draw: st.DrawFn) -> ir.Kernel:
    """A launch, a loop, a parallel and a branch around loads whose index is any expression."""
    type_ = ir.BufferType(
        (draw(st.sampled_from([SYMBOL, 4, 8, 9])),), ir.dtype("float32"), "global"
    )
    symbol = ir.BufferType((SYMBOL,), ir.dtype("float32"), "global")
    params = (ir.Param("x", type_), ir.Param("y", symbol))
    body = ir.Block([ir.Value(p.type, p.name) for p in params] + [ir.Value(ir.dtype("index"), "m")])
    builder = ir.Builder(body)
    values = [body.args[2], *(builder.constant(n) for n in (0, 1, 2, 3, 4))]

    def expression() -> ir.Value:
        kind: Any = draw(st.sampled_from(KINDS))
        left, right = draw(st.sampled_from(values)), draw(st.sampled_from(values))
        if kind in ("floordiv", "floormod", "truncdiv", "shl"):
            right = draw(st.sampled_from(values[2:6]))
        return builder.emit(ir.Binary(kind, left, right)).result

    def grow(most: int) -> None:
        for _ in range(draw(st.integers(0, most))):
            values.append(expression())

    def load() -> None:
        index = draw(st.sampled_from(values))
        builder.emit(ir.Print("v", builder.emit(ir.Load(body.args[0], [index])).result))

    grow(2)
    launch = ir.Block([ir.Value(ir.dtype("index"), "bx")])
    builder.emit(ir.Launch([draw(st.sampled_from(values))], (32,), launch))
    with builder.inside(launch):
        values += launch.args
        grow(2)
        inner = ir.Block([ir.Value(ir.dtype("index"), "i")])
        loop: ir.OpBase
        if draw(st.booleans()):
            loop = ir.Parallel([draw(st.sampled_from(values))], inner)
        else:
            step = builder.constant(draw(st.sampled_from([1, 2, 3, -1, -2])))
            ends = [draw(st.sampled_from(values)) for _ in range(2)]
            loop = ir.For("serial", ends[0], ends[1], step, inner)
        builder.emit(loop)
        with builder.inside(inner):
            values += inner.args
            grow(4)
            load()
            kind: Any = draw(st.sampled_from(["lt", "le", "ge", "eq", "ne"]))
            ends = [draw(st.sampled_from(values)) for _ in range(2)]
            condition = builder.emit(ir.Compare(kind, *ends)).result
            then, otherwise = ir.Block(), ir.Block()
            builder.emit(ir.If(condition, then, otherwise))
            for each in (then, otherwise):
                with builder.inside(each):
                    load()
    return ir.Kernel("k", params, (SYMBOL,), body)


def _accesses(kernel: ir.Kernel, m: int) -> Iterator[tuple[ir.Load, int]]:
    """Every load that runs, with its index."""
    held: dict[ir.Value, Any] = {kernel.body.args[2]: m}
    yield from _run(kernel.body, held)


def _run(block: ir.Block, held: dict[ir.Value, Any]) -> Iterator[tuple[ir.Load, int]]:
    for op in block.ops:
        numbers: list[Any] = [held.get(v) for v in op.operand_values()]
        match op:
            case ir.Constant(value=value):
                held[op.result] = value
            case ir.Binary(kind=kind) | ir.Compare(kind=kind):
                held[op.result] = MEANING[kind](*numbers)
            case ir.Load(indices=[index]):
                yield op, held[index]
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                yield from _run(then if held[condition] else otherwise, held)
            case ir.Launch(body=body) | ir.Parallel(body=body) | ir.For(body=body):
                for at in range(*map(int, numbers)):
                    held[body.args[0]] = at
                    yield from _run(body, held)


MEANING: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "floormod": lambda a, b: a % b,
    "truncdiv": lambda a, b: int(a / b),
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@given(_kernels())
@settings(max_examples=250, deadline=None)
def test_what_is_proved_is_so_for_every_index(kernel: ir.Kernel) -> None:
    """For all small extents, each load that is marked reads an element that is there."""
    ir.verify(kernel)
    marked = prove_bounds(kernel)
    extent = marked.params[0].type.shape[0]  # type: ignore[union-attr]
    for m in range(10):
        size = m if extent == SYMBOL else extent
        wrong = [i for op, i in _accesses(marked, m) if op.in_bounds and not 0 <= i < int(size)]
        assert not wrong, (m, wrong, ir.print_kernel(marked))
