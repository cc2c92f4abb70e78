"""Reductions, scans and changes of layout on the emulated machine, for hand-made and drawn layouts.

Threads read and write their registers by number; NumPy says from the table of the layout which
elements these are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cuda.emulated import Joined
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

    def source(self) -> CudaSource:
        """The lines written so far as a kernel."""
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
        return CudaSource("k", text, texts, (spec,), ())

    def kernel(self, source: CudaSource) -> ir.Kernel:
        """The kernel whose parameters are the arrays."""
        types = [ir.BufferType(a.shape, ir.dtype(a.dtype.name), "global") for a in self.arrays]
        owner = source.launches[0].grid[0].owner
        assert owner is not None
        block = ir.Block([ir.Value(t) for t in types], [owner])
        return ir.Kernel("k", tuple(ir.Param(f"p{i}", t) for i, t in enumerate(types)), (), block)


Case = Generator[Machine, None, str]
"""Writes the lines of a machine, yields it, compares when it has run, and returns its lines."""


def run(*cases: Case) -> list[str]:
    """Run all machines as one text, each as often as it is yielded; return what cases return."""
    machines = [next(case) for case in cases]
    sources = [machine.source() for machine in machines]
    joined, texts = Joined(sources), []
    for case, machine, source in zip(cases, machines, sources):
        kernel = machine.kernel(source)
        for seed in itertools.count():
            joined.emulate(source, kernel, machine.arrays, seed=seed)
            try:
                next(case)
            except StopIteration as done:
                texts.append(done.value)
                break
    return texts


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
    return random.integers(-6, 5, tuple(shape)).astype(ir.dtype(dtype).to_numpy())


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
) -> Case:  # fmt: skip
    """One reduction."""
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
    yield machine
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


def test_kinds_of_floats() -> None:
    """Within warps, in types that need rounding."""
    layout = distributed((4, 64), 128, 2, (1, 0), (0, 1))
    run(*(
        reduced(kind, layout, 1, "bfloat16", "bfloat16", clear=clear)
        for kind in ("sum", "max", "min", "abssum", "absmax")
        for clear in (True, False)
    ))  # fmt: skip


def test_kinds_of_whole_numbers() -> None:
    """Across warps."""
    layout = distributed((3, 256), 128, 2, (1, 0), (1, 0))
    run(*(reduced(kind, layout, 1, "int32", "int32", clear=False) for kind in KINDS))


TYPES = (
    ("float16", "float32"), ("float32", "float16"), ("int8", "int32"), ("float32", "float64"),
    ("int8", "int8"), ("int32", "float32"), ("uint8", "uint8"), ("float64", "float64"),
)  # fmt: skip


def test_types() -> None:
    """Elements are combined in the wider type."""
    layout = blocked((2, 128), 64)
    run(*(reduced("sum", layout, 1, source, target) for source, target in TYPES))


def test_padding_counts_for_nothing() -> None:
    """What lies beyond the edge has 99 in every register."""
    run(*(
        reduced(kind, layout, dim, "float32", "float32")
        for kind in ("sum", "max", "min")
        for layout, dim in ((blocked((3, 100), 64, 4), 1), (blocked((3, 5), 64), 0))
    ))  # fmt: skip


def test_three_warp_groups() -> None:
    """A digit of the warp number with three values."""
    text = "regs (0,1) | lanes (0,2) (0,4) (0,8) (0,16) (1,0) | warps (2,0) 3x(0,32)"
    layout = parse_layout(text, (4, 96))
    first, _ = run(*(reduced(kind, layout, dim, "float32", "float32")
                     for kind, dim in (("sum", 1), ("max", 0))))  # fmt: skip
    assert "% 3" in first


def test_copies_add_nothing() -> None:
    """Threads that hold copies give the sum once."""
    run(
        reduced("sum", blocked((16,), 128), 0, "float32", "float32", keep=True),
        reduced("sum", blocked((2, 8), 256), 0, "float32", "float32"),
        reduced("sum", blocked((2, 8), 256), 1, "float32", "float32"),
    )


def test_a_row_of_a_thread_needs_nobody() -> None:
    """Registers only: no shuffle."""
    layout = distributed((64, 16), 64, 1, (0, 1), (0, 1))
    (text,) = run(reduced("sum", layout, 1, "float32", "float32"))
    assert "shuffle" not in text


def test_accumulators_take_two_shuffles() -> None:
    """The layout of a matrix product: four lanes hold a row."""
    layout = parse_layout(
        "regs (0,1) (8,0) (0,8) (0,16) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0) (32,0)",
        (64, 32),
    )
    (text,) = run(reduced("max", layout, 1, "float32", "float32", clear=False))
    assert text.count("tp_shuffle_xor") == 2


def summed_in_parts(layout: RegisterLayout, dim: int, dtype: str, *, keep: bool = False) -> Case:
    """A tile that is added up twice in each thread, then across threads."""
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
    yield machine
    found = gathered(out, result, left)
    np.testing.assert_array_equal(found, 2 * tile.sum(dim).reshape(left))
    return "\n".join(line.text for line in machine.ctx.writer.lines)


def test_parts_in_lanes() -> None:
    """The layout of a matrix product: two shuffles in all."""
    layout = parse_layout(
        "regs (0,1) (8,0) (0,8) (0,16) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0) (32,0)",
        (64, 32),
    )
    (made,) = run(summed_in_parts(layout, 1, "float32"))
    assert made.count("tp_shuffle_xor") == 2


def test_parts_in_three_warp_groups() -> None:
    """A digit of the warp number with three values."""
    text = "regs (0,1) | lanes (0,2) (0,4) (0,8) (0,16) (1,0) | warps (2,0) 3x(0,32)"
    (made,) = run(summed_in_parts(parse_layout(text, (4, 96)), 1, "float32"))
    assert "% 3" in made


def test_copies_are_no_parts() -> None:
    """What several threads hold is added once."""
    run(
        summed_in_parts(blocked((16,), 128), 0, "float32", keep=True),
        summed_in_parts(blocked((2, 8), 256), 0, "float32"),
        summed_in_parts(blocked((2, 8), 256), 1, "float64"),
    )


SHAPES = st.sampled_from([(8, 32), (5, 12), (64, 4), (3, 4, 16), (48,), (2, 96)])


@st.composite
def layouts(draw: st.DrawFn) -> RegisterLayout:
    """A layout of the kind that the compiler tries."""
    shape = draw(SHAPES)
    threads = draw(st.sampled_from([32, 64, 96, 128]))
    dims = draw(st.permutations(range(len(shape))))
    return draw(st.sampled_from(list(candidates(shape, threads, 4, dims))))


@st.composite
def sums(draw: st.DrawFn) -> list[Case]:
    """Sums of one layout, along one of its dimensions, at once and in parts."""
    layout = draw(layouts())
    dim, keep = draw(st.integers(0, len(layout.shape) - 1)), len(layout.shape) == 1
    return [
        reduced("sum", layout, dim, "int32", "int32", keep=keep),
        summed_in_parts(layout, dim, "int32", keep=keep),
    ]


@settings(max_examples=2, deadline=None)
@given(st.lists(sums(), min_size=6, max_size=6))
def test_any_layout_reduces(drawn: list[list[Case]]) -> None:
    """Sums along each dimension."""
    run(*(case for cases in drawn for case in cases))


# -- changes of layout


def converted(before: RegisterLayout, after: RegisterLayout, dtype: str) -> Case:
    """One change of layout."""
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
    yield machine
    np.testing.assert_array_equal(gathered(out, after, before.shape), tile)
    return text


def test_registers_are_renamed() -> None:
    """Two layouts that differ in the order of registers: no memory."""
    before = parse_layout("regs (0,1) (8,0) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps", (16, 8))
    after = parse_layout("regs (8,0) (0,1) | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps", (16, 8))
    (text,) = run(converted(before, after, "float16"))
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


def test_lanes_exchange_by_shuffles() -> None:
    """Without memory where elements stay in their warps, either way."""
    one = parse_layout(ACCUMULATOR, (32, 32))
    ways = [
        (name, dtype, before, after)
        for name, text in EXCHANGES.items()
        for other in (parse_layout(text, (32, 32)),)
        for before, after in ((one, other), (other, one))
        for dtype in ("float32", "bfloat16", "int8")
    ]
    texts = run(*(converted(before, after, dtype) for _, dtype, before, after in ways))
    for (name, dtype, before, after), text in zip(ways, texts):
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
    (text,) = run(converted(held, moved, "int8"))
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
        (text,) = run(converted(held, made, "int8"))
        assert "tp_shuffle_index" in text
        assert " r < " not in text


def test_digits_of_three_have_bits() -> None:
    """Tiles of 96 columns: six registers are one bit, which takes part, and three."""
    shape, rest = (32, 96), "| lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0)"
    held = parse_layout(f"regs (0,1) (8,0) 12x(0,8) {rest}", shape)
    moved = parse_layout(
        "regs (0,1) (0,2) (8,0) 6x(0,16) | lanes (0,4) (0,8) (1,0) (2,0) (4,0) | warps (16,0)",
        shape,
    )
    for text in run(*(converted(held, moved, dtype) for dtype in ("float32", "int8"))):
        assert "tp_shuffle_index" in text


ELEMENTS = st.sampled_from(["float32", "float16", "int8"])


@st.composite
def moves(draw: st.DrawFn) -> Case:
    """A change of a matrix product's layout to one with its digits of registers and lanes in any
    order."""
    digits = parse_layout(ACCUMULATOR, (32, 32))
    held = draw(st.permutations([*digits.registers, *digits.lanes]))
    after = RegisterLayout.make((32, 32), held[:4], held[4:], digits.warps)
    return converted(digits, after, draw(ELEMENTS))


@settings(max_examples=2, deadline=None)
@given(st.lists(moves(), min_size=6, max_size=6))
def test_any_digits_change_places(drawn: list[Case]) -> None:
    """Digits of registers and lanes in any order."""
    run(*drawn)


def test_vectors_through_memory() -> None:
    """Both sides move 16 bytes at once where their layouts have them."""
    before, after = blocked((32, 64), 128, 8), distributed((32, 64), 128, 8, (1, 0), (1, 0), 4)
    (text,) = run(converted(before, after, "float16"))
    assert "tp_store_vector<8>" in text
    assert "tp_load_vector<8>" in text


@st.composite
def changes(draw: st.DrawFn) -> Case:
    """A change of any layout to any other."""
    before = draw(layouts())
    dims = draw(st.permutations(range(len(before.shape))))
    others = list(candidates(before.shape, before.threads, 4, dims))
    return converted(before, draw(st.sampled_from(others)), draw(ELEMENTS))


@settings(max_examples=2, deadline=None)
@given(st.lists(changes(), min_size=6, max_size=6))
def test_any_layout_becomes_any_other(drawn: list[Case]) -> None:
    """Every element arrives, in each thread that holds it."""
    run(*drawn)


# -- scans

SCANS: dict[Any, Callable[..., Any]] = {"sum": np.cumsum, "max": np.maximum.accumulate}


SCANNED = (
    ((2, 100), 1, "float32", "rows"),
    ((2, 64), 1, "bfloat16", "swizzle=128"),
    ((64, 33), 1, "int32", "pad=1"),
    ((40, 64), 0, "float32", "swizzle=64"),
    ((100,), 0, "int32", "rows"),
    ((3, 40, 2), 1, "int32", "rows"),
    ((300, 5), 1, "float16", "rows"),
)


def test_scans() -> None:
    """Sums and largest elements, in place and into another tile."""
    run(*(
        scanned(shape, dim, dtype, layout, reverse)
        for shape, dim, dtype, layout in SCANNED
        for reverse in (False, True)
    ))  # fmt: skip


def scanned(shape: tuple[int, ...], dim: int, dtype: str, layout: str, reverse: bool) -> Case:
    """All scans of a tile in shared memory."""
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
    yield machine
    whole = np.flip(tile, dim) if reverse else tile
    exact = np.float64 if tile.dtype.kind not in "iu" else tile.dtype
    for kind, out in results:
        want = SCANS[kind](whole.astype(exact), axis=dim)
        want = np.flip(want, dim) if reverse else want
        np.testing.assert_array_equal(out.astype(np.float64), want.astype(np.float64))
    return ""


LONG = (
    ((1024,), "float32", "float32"), ((3, 1000), "float16", "float16"),
    ((2, 520), "int32", "int32"), ((5, 600), "float32", "float64"),
)  # fmt: skip


def test_warps_share_long_lines() -> None:
    """Parts that are whole, that end early and that are empty; parts of one line and of the next
    are kept apart."""
    run(*(
        shared_lines(shape, dtype, target, reverse)
        for shape, dtype, target in LONG
        for reverse in (False, True)
    ))  # fmt: skip


def shared_lines(shape: tuple[int, ...], dtype: str, target: str, reverse: bool) -> Case:
    """All scans of lines that are longer than a warp takes."""
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
    for _ in range(3):
        yield machine
        for kind, out in results.items():
            want = SCANS[kind](whole, axis=dim)
            want = np.flip(want, dim) if reverse else want
            np.testing.assert_array_equal(out.astype(np.float64), want)
            out[:] = 0
    return ""


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
