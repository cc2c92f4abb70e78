"""Reductions, scans and changes of layout on the emulated machine, for hand-made and drawn layouts.

Threads read and write their registers by number; NumPy says from the table of the layout which
elements these are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileprof import ir
from tileprof.compiler.codegen.types import storage
from tileprof.compiler.codegen.writer import Names, Writer
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, SharedBuffer
from tileprof.compiler.cuda.emit.context import Context
from tileprof.compiler.cuda.emit.convert import emit_convert
from tileprof.compiler.cuda.emit.reduce import emit_all_reduce, emit_reduce
from tileprof.compiler.cuda.emit.scan import emit_scan
from tileprof.compiler.cuda.layouts.candidates import candidates, distributed
from tileprof.compiler.cuda.layouts.exchange import (
    convert_scratch,
    exchange_scratch,
    plan_all_reduce,
    plan_reduce,
    reduce_scratch,
    scan_scratch,
    unreduced,
    working_type,
)
from tileprof.compiler.cuda.layouts.registers import RegisterLayout, blocked, parse_layout
from tileprof.compiler.cuda.layouts.shared import SharedLayout, parse_shared
from tileprof.compiler.cuda.layouts.shuffles import Shuffles, Swap, plan_shuffles
from tileprof.compiler.cuda.passes.layout.flow import down
from tileprof.compiler.cuda.prelude import with_dependencies
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate

Array = np.ndarray[Any, Any]
SHARED = 64 * 1024


class Machine:
    """One block that loads registers or shared memory, runs ops and gives back the results."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        headers = {"base.cuh", "numbers.cuh", "functions.cuh", "barriers.cuh", "memory.cuh"}
        self.ctx = Context(
            Writer(), Names(), [], headers, {},
            target=find_target("sm_90a"), controls=Controls(), threads=threads,
        )  # fmt: skip
        self.lines: list[str] = []
        self.arrays: list[Array] = []

    def fragment(self, value: ir.Value, layout: RegisterLayout, name: str) -> None:
        """Declare a fragment."""
        self.ctx.buffers[value] = FragmentBuffer(name, value.dtype, layout, name)
        count = layout.registers_per_thread
        self.ctx.writer.line(f"{storage(value.dtype)} {name}[{count}];")

    def shared(self, value: ir.Value, layout: SharedLayout, offset: int) -> SharedBuffer:
        """Declare a shared buffer."""
        made = SharedBuffer(f"(tp_shared + {offset})", value.dtype, layout, "tile")
        self.ctx.buffers[value] = made
        return made

    def parameter(self, array: Array) -> str:
        """A global array of the element type."""
        self.arrays.append(array)
        return f"p{len(self.arrays) - 1}"

    def registers(self, name: str, layout: RegisterLayout, array: Array, *, store: bool) -> None:
        """Copy all registers of all threads from or to an array [threads, registers]."""
        at, count = self.parameter(array), layout.registers_per_thread
        own, other = f"{name}[r]", f"{at}[tp_thread * {count} + r]"
        text = f"{other} = {own}" if store else f"{own} = {other}"
        self.ctx.writer.line(f"for (int r = 0; r < {count}; ++r) {text};")

    @contextmanager
    def step(self) -> Iterator[None]:
        """Lines with names of their own, after which threads wait for each other."""
        self.ctx.writer.line("{")
        yield
        self.ctx.writer.line("}")
        self.ctx.writer.line("tp_barrier();")

    def run(self, seed: int = 0) -> None:
        """Run the lines written so far."""
        texts = with_dependencies(self.ctx.headers)
        params = ", ".join(
            f"{storage(ir.dtype(a.dtype.name))} *p{i}" for i, a in enumerate(self.arrays)
        )
        body = "\n".join(line.text for line in self.ctx.writer.lines)
        prologue = (
            "TP_SHARED_MEMORY(tp_shared);\nconst int tp_thread = threadIdx.x;\n"
            "const int tp_lane = tp_thread & 31;\nconst int tp_warp = tp_thread >> 5;\n"
        )
        text = "".join(f'#include "{name}"\n' for name, _ in texts)
        text += f'extern "C" __global__ void __launch_bounds__({self.threads}) k_0({params}) {{\n'
        text += f"{prologue}{body}\n}}\n"
        value = ir.Constant(1, ir.dtype("index")).result
        arguments = tuple(Argument("pointer", i) for i in range(len(self.arrays)))
        spec = LaunchSpec("k_0", arguments, (), (value,), self.threads, SHARED, 1)
        source = CudaSource("k", text, texts, (spec,), ())
        types = [ir.BufferType(a.shape, ir.dtype(a.dtype.name), "global") for a in self.arrays]
        assert value.owner is not None
        block = ir.Block([ir.Value(t) for t in types], [value.owner])
        kernel = ir.Kernel("k", tuple(ir.Param(f"p{i}", t) for i, t in enumerate(types)), (), block)
        emulate(source, kernel, self.arrays, seed=seed)


def buffer(shape: Sequence[int], dtype: str, space: ir.Space = "fragment") -> ir.Value:
    """A buffer value."""
    return ir.Value(ir.BufferType(tuple(shape), ir.dtype(dtype), space))


def spread(tile: Array, layout: RegisterLayout, padding: float) -> Array:
    """A tile as the threads hold it: [threads, registers]; `padding` beyond its edge."""
    table = layout.table()
    inside = np.all(table < np.array(tile.shape), axis=-1)
    clipped = np.minimum(table, np.array(tile.shape) - 1)
    held = tile[tuple(np.moveaxis(clipped, -1, 0))]
    return np.ascontiguousarray(np.where(inside, held, np.asarray(padding, tile.dtype)))


def gathered(held: Array, layout: RegisterLayout, shape: Sequence[int]) -> Array:
    """The tile that threads hold; every copy has to be the same."""
    tile = np.zeros(tuple(shape), held.dtype)
    table = layout.table()
    inside = np.all(table < np.array(shape), axis=-1)
    at = tuple(np.moveaxis(table[inside], -1, 0))
    tile[at] = held[inside]
    np.testing.assert_array_equal(tile[at], held[inside])
    return tile


def numbers(shape: Sequence[int], dtype: str) -> Array:
    """Numbers whose sums are exact."""
    random = np.random.default_rng(int(np.prod(shape)))
    return random.integers(-4, 5, tuple(shape)).astype(ir.dtype(dtype).to_numpy())


KINDS: dict[str, Callable[[Array, int], Array]] = {
    "sum": lambda x, d: x.sum(d),
    "max": lambda x, d: x.max(d),
    "min": lambda x, d: x.min(d),
    "abssum": lambda x, d: np.abs(x).sum(d),
    "absmax": lambda x, d: np.abs(x).max(d),
    "bitand": lambda x, d: np.bitwise_and.reduce(x, axis=d),
    "bitor": lambda x, d: np.bitwise_or.reduce(x, axis=d),
    "bitxor": lambda x, d: np.bitwise_xor.reduce(x, axis=d),
}


def reduced(
    kind: Any, layout: RegisterLayout, dim: int, dtype: str, to: str, *, clear: bool = True,
    keep: bool = False,
) -> str:  # fmt: skip
    """Run one reduction and compare; gives the text."""
    shape = layout.shape
    left = tuple(1 if d == dim else e for d, e in enumerate(shape) if d != dim or keep)
    source, target = buffer(shape, dtype), buffer(left, to)
    op = ir.Reduce(kind, source, target, dim, clear)
    result = down(layout.select(unreduced(op), left), tuple(range(len(left))), left)
    machine = Machine(layout.threads)
    needed = reduce_scratch(layout, dim, working_type(source.dtype, target.dtype))
    if needed:
        op.scratch = buffer((needed,), "uint8", "shared")
        machine.shared(op.scratch, SharedLayout((needed,), ir.dtype("uint8")), 0)
    machine.fragment(source, layout, "x")
    machine.fragment(target, result, "y")
    tile, before = numbers(shape, dtype), numbers(left, to)
    machine.registers("x", layout, spread(tile, layout, 99), store=False)
    machine.registers("y", result, spread(before, result, 99), store=False)
    start = len(machine.ctx.writer.lines)
    emit_reduce(machine.ctx, op)
    text = "\n".join(line.text for line in machine.ctx.writer.lines[start:])
    out = np.zeros((layout.threads, result.registers_per_thread), ir.dtype(to).to_numpy())
    machine.registers("y", result, out, store=True)
    machine.run()
    wide = tile.astype(np.float64) if tile.dtype.kind not in "iu" else tile
    want = KINDS[kind](wide, dim).reshape(left)
    if machine.arrays[-1].dtype.kind in "iu":
        want = want.astype(to)
    if not clear:
        both = np.stack([np.asarray(before, want.dtype), want])
        want = KINDS[kind.removeprefix("abs")](both, 0)
    found = gathered(out, result, left)
    np.testing.assert_array_equal(found.astype(np.float64), want.astype(np.float64))
    assert bool(needed) == ("tp_barrier" in text)
    return text


@pytest.mark.drawn(4)
@pytest.mark.parametrize("kind", ["sum", "max", "min", "abssum", "absmax"])
@pytest.mark.parametrize("clear", [True, False])
def test_kinds_of_floats(kind: str, clear: bool) -> None:
    """Within warps, in types that need rounding."""
    layout = distributed((4, 64), 128, 2, (1, 0), (0, 1))
    reduced(kind, layout, 1, "bfloat16", "bfloat16", clear=clear)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_whole_numbers(kind: str) -> None:
    """Across warps."""
    layout = distributed((3, 256), 128, 2, (1, 0), (1, 0))
    reduced(kind, layout, 1, "int32", "int32", clear=False)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("source", "target"),
    [("float16", "float32"), ("float32", "float16"), ("int8", "int32"), ("float32", "float64"),
     ("int8", "int8"), ("int32", "float32"), ("uint8", "uint8"), ("float64", "float64")],
)  # fmt: skip
def test_types(source: str, target: str) -> None:
    """Elements are combined in the wider type."""
    reduced("sum", blocked((2, 128), 64), 1, source, target)


def test_padding_counts_for_nothing() -> None:
    """What lies beyond the edge has 99 in every register."""
    for kind in ("sum", "max", "min"):
        reduced(kind, blocked((3, 100), 64, 4), 1, "float32", "float32")
        reduced(kind, blocked((3, 5), 64), 0, "float32", "float32")


def test_three_warp_groups() -> None:
    """A digit of the warp number with three values."""
    text = "regs (0,1) | lanes (0,2) (0,4) (0,8) (0,16) (1,0) | warps (2,0) 3x(0,32)"
    layout = parse_layout(text, (4, 96))
    assert "% 3" in reduced("sum", layout, 1, "float32", "float32")
    reduced("max", layout, 0, "float32", "float32")


def test_copies_add_nothing() -> None:
    """Threads that hold copies give the sum once."""
    reduced("sum", blocked((16,), 128), 0, "float32", "float32", keep=True)
    reduced("sum", blocked((2, 8), 256), 0, "float32", "float32")
    reduced("sum", blocked((2, 8), 256), 1, "float32", "float32")


def test_a_row_of_a_thread_needs_nobody() -> None:
    """Registers only: no shuffle."""
    text = reduced("sum", distributed((64, 16), 64, 1, (0, 1), (0, 1)), 1, "float32", "float32")
    assert "shuffle" not in text


def test_accumulators_take_two_shuffles() -> None:
    """The layout of a matrix product: four lanes hold a row."""
    layout = parse_layout(
        "regs (0,1) (8,0) (0,8) (0,16) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0) (32,0)",
        (64, 32),
    )
    text = reduced("max", layout, 1, "float32", "float32", clear=False)
    assert text.count("tp_shuffle_xor") == 2


def summed_in_parts(layout: RegisterLayout, dim: int, dtype: str, *, keep: bool = False) -> str:
    """Add up a tile twice in each thread, then across threads, and compare; gives the text."""
    shape = layout.shape
    left = tuple(1 if d == dim else e for d, e in enumerate(shape) if d != dim or keep)
    source, target = buffer(shape, dtype), buffer(left, dtype)
    parts = [ir.Reduce("sum", source, target, dim, clear, partial=True) for clear in (True, False)]
    result = down(layout.select(unreduced(parts[0]), left), tuple(range(len(left))), left)
    machine = Machine(layout.threads)
    plan = plan_reduce(layout, dim)
    end = ir.AllReduce("sum", target, plan.masks, plan.radices)
    whole = plan_all_reduce(result, end.lanes, end.warps)
    needed = exchange_scratch(whole, layout.threads, target.dtype)
    assert bool(needed) == bool(reduce_scratch(layout, dim, target.dtype))
    if needed:
        end.scratch = buffer((needed,), "uint8", "shared")
        machine.shared(end.scratch, SharedLayout((needed,), ir.dtype("uint8")), 0)
    machine.fragment(source, layout, "x")
    machine.fragment(target, result, "y")
    tile = numbers(shape, dtype)
    machine.registers("x", layout, spread(tile, layout, 99), store=False)
    for op in parts:
        emit_reduce(machine.ctx, op)
    text = "\n".join(line.text for line in machine.ctx.writer.lines)
    assert "shuffle" not in text
    assert "barrier" not in text
    emit_all_reduce(machine.ctx, end)
    out = np.zeros((layout.threads, result.registers_per_thread), tile.dtype)
    machine.registers("y", result, out, store=True)
    machine.run()
    found = gathered(out, result, left)
    np.testing.assert_array_equal(found, 2 * tile.sum(dim).reshape(left))
    return "\n".join(line.text for line in machine.ctx.writer.lines)


def test_parts_in_lanes() -> None:
    """The layout of a matrix product: two shuffles in all."""
    layout = parse_layout(
        "regs (0,1) (8,0) (0,8) (0,16) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0) (32,0)",
        (64, 32),
    )
    assert summed_in_parts(layout, 1, "float32").count("tp_shuffle_xor") == 2


def test_parts_in_three_warp_groups() -> None:
    """A digit of the warp number with three values."""
    text = "regs (0,1) | lanes (0,2) (0,4) (0,8) (0,16) (1,0) | warps (2,0) 3x(0,32)"
    assert "% 3" in summed_in_parts(parse_layout(text, (4, 96)), 1, "float32")


def test_copies_are_no_parts() -> None:
    """What several threads hold is added once."""
    summed_in_parts(blocked((16,), 128), 0, "float32", keep=True)
    summed_in_parts(blocked((2, 8), 256), 0, "float32")
    summed_in_parts(blocked((2, 8), 256), 1, "float64")


SHAPES = st.sampled_from([(8, 32), (5, 12), (64, 4), (3, 4, 16), (48,), (2, 96)])


@st.composite
def layouts(draw: st.DrawFn) -> RegisterLayout:
    """A layout of the kind that the compiler tries."""
    shape = draw(SHAPES)
    threads = draw(st.sampled_from([32, 64, 96, 128]))
    dims = draw(st.permutations(range(len(shape))))
    return draw(st.sampled_from(list(candidates(shape, threads, 4, dims))))


@settings(max_examples=12, deadline=None)
@given(layouts(), st.data())
def test_any_layout_reduces(layout: RegisterLayout, data: st.DataObject) -> None:
    """Sums along each dimension."""
    dim = data.draw(st.integers(0, len(layout.shape) - 1))
    reduced("sum", layout, dim, "int32", "int32", keep=len(layout.shape) == 1)


@settings(max_examples=12, deadline=None)
@given(layouts(), st.data())
def test_any_layout_is_summed_in_parts(layout: RegisterLayout, data: st.DataObject) -> None:
    """Along each dimension."""
    dim = data.draw(st.integers(0, len(layout.shape) - 1))
    summed_in_parts(layout, dim, "int32", keep=len(layout.shape) == 1)


# -- changes of layout


def converted(before: RegisterLayout, after: RegisterLayout, dtype: str, seed: int = 0) -> str:
    """Run one change of layout and compare; gives the text."""
    source, target = buffer(before.shape, dtype), buffer(before.shape, dtype)
    op = ir.ConvertLayout(source, target)
    machine = Machine(before.threads)
    needed = convert_scratch(before, after, source.dtype)
    if needed:
        op.scratch = buffer((needed,), "uint8", "shared")
        machine.shared(op.scratch, SharedLayout((needed,), ir.dtype("uint8")), 0)
    machine.fragment(source, before, "x")
    machine.fragment(target, after, "y")
    tile = numbers(before.shape, dtype)
    machine.registers("x", before, spread(tile, before, 99), store=False)
    start = len(machine.ctx.writer.lines)
    emit_convert(machine.ctx, op)
    text = "\n".join(line.text for line in machine.ctx.writer.lines[start:])
    out = np.zeros((before.threads, after.registers_per_thread), tile.dtype)
    machine.registers("y", after, out, store=True)
    machine.run(seed)
    np.testing.assert_array_equal(gathered(out, after, before.shape), tile)
    return text


def test_registers_are_renamed() -> None:
    """Two layouts that differ in the order of registers: no memory."""
    before = parse_layout("regs (0,1) (8,0) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps", (16, 8))
    after = parse_layout("regs (8,0) (0,1) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps", (16, 8))
    text = converted(before, after, "float16")
    assert "tp_barrier" not in text
    assert "shuffle" not in text


ACCUMULATOR = "regs (0,1) (8,0) (0,8) (0,16) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0)"
EXCHANGES = {
    # An operand of float8, of tf32; two digits at once; the other way round; with copies.
    "float8": "regs (0,1) (0,2) (8,0) (0,16) | lanes (0,4) (0,8) (1,0) (2,0) (4,0) | warps (16,0)",
    "tf32": "regs (8,0) (0,4) (0,8) (0,16) | lanes (0,1) (0,2) (1,0) (2,0) (4,0) | warps (16,0)",
    "rows": "regs (0,1) (0,2) (0,4) (0,8) | lanes (0,16) (8,0) (1,0) (2,0) (4,0) | warps (16,0)",
    "lanes": "regs (0,1) (8,0) (0,8) (0,16) | lanes (1,0) (2,0) (4,0) (0,2) (0,4) | warps (16,0)",
    "half": "regs (0,1) (8,0) (0,2) (0,16) | lanes (0,8) (0,4) (1,0) (2,0) (4,0) | warps (16,0)",
}


@pytest.mark.drawn(5)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("name", EXCHANGES)
def test_lanes_exchange_by_shuffles(name: str, dtype: str) -> None:
    """Without memory where elements stay in their warps, either way."""
    one, other = (parse_layout(t, (32, 32)) for t in (ACCUMULATOR, EXCHANGES[name]))
    for before, after in ((one, other), (other, one)):
        text = converted(before, after, dtype)
        plan = plan_shuffles(before, after, ir.dtype(dtype).bytes)
        assert (plan is not None) == ("tp_shuffle_index" in text) == ("tp_barrier" not in text)
        assert plan is not None or dtype == "int8"
        if name == "half" and plan is not None:
            # Half of the words stay where they are.
            assert plan.keeps_lanes


def test_shuffles_are_for_warps_alone() -> None:
    """Elements that leave their warp, copies that others make, and wide elements take memory."""
    held = parse_layout(ACCUMULATOR, (32, 32))
    across = ACCUMULATOR.replace("(16,0)", "(0,16)").replace("(0,16) |", "(16,0) |")
    assert plan_shuffles(held, parse_layout(across, (32, 32)), 4) is None
    row = parse_layout("regs (8) | lanes (0) (0) (1) (2) (4) | warps (16)", (32,))
    more = parse_layout("regs | lanes (8) (0) (1) (2) (4) | warps (16)", (32,))
    assert plan_shuffles(row, more, 4) is None
    moved = parse_layout(EXCHANGES["half"], (32, 32))
    assert plan_shuffles(held, moved, 8) is None
    assert plan_shuffles(held, moved, 2) == Shuffles(
        2, (0,), (Swap(2, 0, 0),), (0, 1, 2, 3, 4), ((2, 2), (2, 4), (2, 8))
    )


def test_bytes_go_four_to_a_word() -> None:
    """Also where two of them go elsewhere than the other two: half as many shuffles."""
    held, moved = (parse_layout(t, (32, 32)) for t in (ACCUMULATOR, EXCHANGES["float8"]))
    plan = plan_shuffles(held, moved, 1)
    assert plan is not None
    assert (plan.pack, plan.parts) == (4, (0, 4))
    text = converted(held, moved, "int8")
    assert "[4];" in text
    assert "tp_split_pair(" in text


def test_all_elements_of_a_thread_are_one_word_or_two() -> None:
    """Nothing is left to loop over."""
    for registers, moved, lanes in (
        ("(0,1) (8,0)", "(0,1) (8,0)", "(1,0) (0,4) (0,2) (2,0) (4,0)"),
        ("(0,1) (8,0) (16,0)", "(0,1) (4,0) (8,0)", "(0,2) (0,4) (1,0) (2,0) (16,0)"),
    ):
        shape = (8 << registers.count(",0"), 8)
        held = parse_layout(
            f"regs {registers} | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps", shape
        )
        made = parse_layout(f"regs {moved} | lanes {lanes} | warps", shape)
        text = converted(held, made, "int8")
        assert "tp_shuffle_index" in text
        assert " r < " not in text


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_digits_of_three_have_bits(dtype: str) -> None:
    """Tiles of 96 columns: six registers are one bit, which takes part, and three."""
    shape, rest = (32, 96), "| lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0)"
    held = parse_layout(f"regs (0,1) (8,0) 12x(0,8) {rest}", shape)
    moved = parse_layout(
        "regs (0,1) (0,2) (8,0) 6x(0,16) | lanes (0,4) (0,8) (1,0) (2,0) (4,0) | warps (16,0)",
        shape,
    )
    assert "tp_shuffle_index" in converted(held, moved, dtype)


@settings(max_examples=12, deadline=None)
@given(st.permutations(range(9)), st.sampled_from(["float32", "float16", "int8"]))
def test_any_digits_change_places(order: list[int], dtype: str) -> None:
    """Digits of registers and lanes in any order."""
    digits = parse_layout(ACCUMULATOR, (32, 32))
    held = [*digits.registers, *digits.lanes]
    moved = [held[at] for at in order]
    after = RegisterLayout.make((32, 32), moved[:4], moved[4:], digits.warps)
    converted(digits, after, dtype)


def test_vectors_through_memory() -> None:
    """Both sides move 16 bytes at once where their layouts have them."""
    before, after = blocked((32, 64), 128, 8), distributed((32, 64), 128, 8, (1, 0), (1, 0), 4)
    text = converted(before, after, "float16")
    assert "tp_store_vector<8>" in text
    assert "tp_load_vector<8>" in text


@settings(max_examples=12, deadline=None)
@given(layouts(), st.data())
def test_any_layout_becomes_any_other(before: RegisterLayout, data: st.DataObject) -> None:
    """Every element arrives, in each thread that holds it."""
    dims = data.draw(st.permutations(range(len(before.shape))))
    others = list(candidates(before.shape, before.threads, 4, dims))
    converted(before, data.draw(st.sampled_from(others)), data.draw(
        st.sampled_from(["float32", "float16", "int8"])))  # fmt: skip


# -- scans

SCANS: dict[Any, Callable[..., Any]] = {"sum": np.cumsum, "max": np.maximum.accumulate}


@pytest.mark.drawn(5)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim", "dtype", "layout"),
    [
        ((2, 100), 1, "float32", "rows"),
        ((2, 64), 1, "bfloat16", "swizzle=128"),
        ((64, 33), 1, "int32", "pad=1"),
        ((40, 64), 0, "float32", "swizzle=64"),
        ((100,), 0, "int32", "rows"),
        ((3, 40, 2), 1, "int32", "rows"),
        ((300, 5), 1, "float16", "rows"),
    ],
)
def test_scans(shape: tuple[int, ...], dim: int, dtype: str, layout: str, reverse: bool) -> None:
    """Sums and largest elements, in place and into another tile."""
    tile, machine = numbers(shape, dtype), Machine(64)
    source, target = buffer(shape, dtype, "shared"), buffer(shape, dtype, "shared")
    made = parse_shared(layout, shape, source.dtype)
    at = machine.shared(source, made, 0)
    machine.shared(target, made, SHARED // 2)
    results: list[tuple[str, Array]] = []
    for kind in SCANS:
        for to in (source, target):
            with machine.step():
                _tile(machine, at, tile, store=False)
            with machine.step():
                emit_scan(machine.ctx, ir.Scan(kind, source, to, dim, reverse))
            results.append((kind, np.zeros_like(tile)))
            with machine.step():
                _tile(machine, machine.ctx.shared(to), results[-1][1], store=True)
    machine.run()
    whole = np.flip(tile, dim) if reverse else tile
    exact = np.float64 if tile.dtype.kind not in "iu" else tile.dtype
    for kind, out in results:
        want = SCANS[kind](whole.astype(exact), axis=dim)
        want = np.flip(want, dim) if reverse else want
        np.testing.assert_array_equal(out.astype(np.float64), want.astype(np.float64))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "dtype", "target"),
    [((1024,), "float32", "float32"), ((3, 1000), "float16", "float16"),
     ((2, 520), "int32", "int32"), ((5, 600), "float32", "float64")],
)  # fmt: skip
def test_warps_share_long_lines(
    shape: tuple[int, ...], dtype: str, target: str, reverse: bool
) -> None:
    """Parts that are whole, that end early and that are empty; parts of one line and of the next
    are kept apart."""
    threads, dim = 256, len(shape) - 1
    tile, machine = numbers(shape, dtype), Machine(threads)
    source, to = buffer(shape, dtype, "shared"), buffer(shape, target, "shared")
    needed = scan_scratch(shape, dim, threads, source.dtype, to.dtype)
    assert needed
    at = machine.shared(source, parse_shared("rows", shape, source.dtype), 0)
    there = machine.shared(to, parse_shared("rows", shape, to.dtype), 16384)
    scratch = buffer((needed,), "uint8", "shared")
    machine.shared(scratch, SharedLayout((needed,), ir.dtype("uint8")), SHARED - 1024)
    results = {kind: np.zeros(shape, ir.dtype(target).to_numpy()) for kind in SCANS}
    with machine.step():
        _tile(machine, at, tile, store=False)
    for kind, out in results.items():
        with machine.step():
            emit_scan(machine.ctx, ir.Scan(kind, source, to, dim, reverse, scratch))
        with machine.step():
            _tile(machine, there, out, store=True)
    whole = (np.flip(tile, dim) if reverse else tile).astype("f8")
    for seed in range(3):
        machine.run(seed)
        for kind, out in results.items():
            want = SCANS[kind](whole, axis=dim)
            want = np.flip(want, dim) if reverse else want
            np.testing.assert_array_equal(out.astype(np.float64), want)
            out[:] = 0


def test_lines_are_shared_where_warps_would_be_idle() -> None:
    """Long lines, fewer than warps."""
    f32 = ir.dtype("float32")
    assert scan_scratch((1, 4096), 1, 256, f32, f32) == 2 * 8 * 4
    assert scan_scratch((9, 4096), 1, 256, f32, f32)
    assert not scan_scratch((8, 4096), 1, 256, f32, f32)
    assert not scan_scratch((1, 256), 1, 256, f32, f32)
    assert not scan_scratch((1, 4096), 1, 32, f32, f32)


def _tile(machine: Machine, at: SharedBuffer, array: Array, *, store: bool) -> None:
    """Copy a shared tile from or to an array of its shape, element by element."""
    name = machine.parameter(array)
    rest = "n"
    indices: list[int | str] = []
    for extent in reversed(array.shape):
        indices.insert(0, f"{rest} % {extent}")
        rest = f"({rest} / {extent})"
    own, other = at.element(indices), f"{name}[n]"
    text = f"{other} = {own}" if store else f"{own} = {other}"
    machine.ctx.writer.line(f"for (int n = tp_thread; n < {array.size}; n += 64) {text};")
