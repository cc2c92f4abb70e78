"""8×8 matrices between registers and shared memory: ldmatrix, stmatrix, or elements one by one.

A warp moves up to four matrices of eight 16-byte rows at once: lane i gives the address of row
i mod 8 of matrix i / 8, and the rows are dealt out so that each lane has one 32-bit word of each
matrix.  A register layout that deals words out in this way (or, with `trans`, columns of 16-bit
elements) can be moved so; its other register digits say which matrices there are.
In: a register layout, a tile in shared memory.  Out: loops over words `w[0], w[1], …`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, plus, times
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, SharedBuffer
from tileprof.compiler.cuda.emit.context import Context, Tile
from tileprof.compiler.cuda.emit.loops.digit_runs import Run, runs_of
from tileprof.compiler.cuda.layouts import Digit, RegisterLayout
from tileprof.compiler.cuda.layouts.registers import unit, weighted
from tileprof.compiler.cuda.passes.choice.copies import multiple
from tileprof.compiler.cuda.target import WORD
from tileprof.errors import InternalError

ROW = 16
"""Bytes of a row of a matrix."""


@dataclass(frozen=True, slots=True)
class SharedTile:
    """An operand in shared memory."""

    buffer: SharedBuffer
    offsets: tuple[Extent, ...]
    aligned: bool
    """Whether all rows of matrices are at addresses that ldmatrix takes."""

    def address(self, coordinates: Sequence[Extent]) -> str:
        """A pointer to an element."""
        return self.buffer.address([plus(o, c) for o, c in zip(self.offsets, coordinates)])


def shared_tile(ctx: Context, value: ir.Value) -> SharedTile:
    """A buffer in shared memory, or a view of one."""
    tile: Tile = ctx.tile(value)
    assert isinstance(tile.buffer, SharedBuffer), tile.buffer
    size, layout = tile.buffer.dtype.bytes, tile.buffer.layout
    view = value.owner
    start = multiple(view.offsets[-1]) * size if isinstance(view, ir.View) else 0
    pitch = layout.swizzle or layout.panel * size
    aligned = start % ROW == 0 and pitch % ROW == 0
    aligned &= all(stride % ROW == 0 for stride in layout.lead_strides())
    return SharedTile(tile.buffer, tile.offsets, aligned)


@dataclass(frozen=True, slots=True)
class Matrices:
    """A register layout as matrices."""

    at_once: int
    """1, 2 or 4: matrices of one instruction."""
    trans: bool
    lanes: RegisterLayout
    """Begin of the row of which a lane gives the address, for the first matrices."""
    runs: tuple[Run, ...]
    """Loops over instructions, innermost first."""

    @property
    def suffix(self) -> str:
        """End of the names of the instructions."""
        return f"{'_trans' if self.trans else ''}_x{self.at_once}"


def find_matrices(layout: RegisterLayout, dtype: ir.DType) -> Matrices | None:
    """The layout as matrices whose rows run along the last dimension; None if it is no such."""
    if layout.is_padded:
        return None
    e = WORD // dtype.bytes if dtype.bytes <= WORD else 0
    last = layout.rank - 1
    for trans in (False, True) if e == 2 else (False,) if e else ():
        for other in range(last):
            word, row = (other, last) if trans else (last, other)
            found = _matrices(layout, e, word, row, trans)
            if found is not None:
                return found
    return None


def _matrices(layout: RegisterLayout, e: int, word: int, row: int, trans: bool) -> Matrices | None:
    step = partial(unit, layout.rank)
    bits = e.bit_length() - 1
    inner = tuple(Digit(2, step(word, 1 << i)) for i in range(bits))
    lanes = tuple(Digit(2, step(word, e << i)) for i in range(2))
    lanes += tuple(Digit(2, step(row, 1 << i)) for i in range(3))
    if layout.registers[:bits] != inner or layout.lanes != lanes:
        return None
    rest = list(layout.registers[bits:])
    if any(digit.step[-1] % (4 * e) for digit in rest):
        return None
    # Two more bits of the register's number choose among the four matrices of one instruction.
    chosen: list[Digit] = []
    while rest and rest[0].radix % 2 == 0 and len(chosen) < 2:
        radix, by = rest.pop(0)
        chosen.append(Digit(2, by))
        if radix > 2:
            rest.insert(0, Digit(radix // 2, tuple(2 * s for s in by)))
    # Rows of the memory: along the word where it is transposed.
    down = tuple(Digit(2, step(word if trans else row, 1 << i)) for i in range(3))
    spare = Digit(4 >> len(chosen), (0,) * layout.rank)
    addresses = RegisterLayout.make(layout.shape, (), (*down, *chosen, spare), layout.warps)
    runs = [(digit, (weight,)) for digit, weight in weighted(rest, 1 << len(chosen))]
    return Matrices(1 << len(chosen), trans, addresses, tuple(runs_of(runs)))


# -- loops over registers


@contextmanager
def loops(ctx: Context, runs: Sequence[Run]) -> Iterator[tuple[Extent, list[Extent]]]:
    """Unrolled loops over register digits; gives the number of the register and what it adds to
    the coordinates."""
    number: Extent = 0
    steps: list[Extent] = []
    with ExitStack() as stack:
        stack.enter_context(ctx.scope())
        for run in reversed(runs):
            if run.count == 1:
                continue
            name = ctx.names.fresh("i")
            ctx.writer.line("TP_UNROLL_ALL")
            stack.enter_context(
                ctx.writer.braces(f"for (int {name} = 0; {name} < {run.count}; ++{name})")
            )
            number = plus(number, times(name, run.weights[0]))
            steps = [plus(s, times(name, by)) for s, by in zip(steps or [0] * 9, run.step)]
        yield number, steps


def _sums(*parts: Sequence[Extent]) -> list[Extent]:
    return [plus(*terms) for terms in zip(*(p for p in parts if p))]


# -- moving words


def load_matrices(
    ctx: Context, found: Matrices, tile: SharedTile, words: str, start: Sequence[Extent]
) -> None:
    """Fill the array `words`; `start` are the coordinates of the lane's first row."""
    ctx.headers.add("matrix.cuh")
    with loops(ctx, found.runs) as (number, steps):
        address = tile.address(_sums(start, steps))
        ctx.writer.line(f"tp_ldmatrix{found.suffix}({at(words, number)}, {address});")


def gather_words(
    ctx: Context,
    layout: RegisterLayout,
    tile: SharedTile,
    words: str,
    start: Sequence[Extent],
) -> None:
    """Fill the array `words` element by element: for layouts and types that ldmatrix has not;
    `start` are the coordinates of the thread's first element.  Elements of 8 bytes are words."""
    size = tile.buffer.dtype.bytes
    e = max(WORD // size, 1)
    bits = e.bit_length() - 1
    digits = [(digit, (weight,)) for digit, weight in weighted(layout.registers[bits:])]
    within = layout.registers[0].step if bits else (0,) * layout.rank
    with loops(ctx, runs_of(digits)) as (number, steps):
        place = _sums(start, steps)
        parts = []
        for element in range(e):
            address = tile.address(_sums(place, [element * s for s in within]))
            read = f"*(const uint{8 * size}_t *){address}" if size <= WORD else f"*{address}"
            shift = 8 * size * element
            parts.append(f"(uint32_t){read} << {shift}" if shift else read)
        ctx.writer.line(f"{words}[{number}] = {' | '.join(parts)};")


def at(array: str, number: Extent) -> str:
    """A pointer to an element of an array by its number."""
    return array if number == 0 else f"{array} + {number}"


# -- fragments as operands


def registers_of(ctx: Context, value: ir.Value, expected: RegisterLayout) -> str:
    """The first register of an operand in a fragment, as a pointer.

    The operand, a part of the fragment perhaps, has to lie there as `expected`: InternalError.
    """
    tile = ctx.tile(value)
    assert isinstance(tile.buffer, FragmentBuffer), tile.buffer
    layout = tile.buffer.layout
    if layout == expected:
        return tile.buffer.array
    offset = _register_offset(layout, tile.offsets, expected)
    if offset is None:
        raise InternalError(
            f"fragment {tile.buffer.name} lies as {layout}, a product needs {expected}"
        )
    return at(tile.buffer.array, offset)


def _register_offset(
    layout: RegisterLayout, offsets: Sequence[Extent], expected: RegisterLayout
) -> int | None:
    """Registers between the start of a fragment and a part of it; None if it is not together."""
    if not all(isinstance(o, int) for o in offsets) or layout.threads != expected.threads:
        return None
    held, wanted = layout.table(), expected.table() + [int(o) for o in offsets]
    count = prod(d.radix for d in expected.registers)
    for start in range(layout.registers_per_thread - count + 1):
        if (held[:, start : start + count] == wanted).all():
            return start
    return None
