"""Register and shared layouts: what their text says, what they select, what they cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spread import examples
from tileprof import ir
from tileprof.compiler.cuda.layouts.candidates import candidates, distributed
from tileprof.compiler.cuda.layouts.cost import sectors, wavefronts
from tileprof.compiler.cuda.layouts.registers import RegisterLayout, blocked, parse_layout
from tileprof.compiler.cuda.layouts.shared import SharedLayout, Swizzle, parse_shared
from tileprof.compiler.cuda.passes.layout.flow import down, up
from tileprof.errors import InternalError

HALF, FLOAT = ir.dtype("float16"), ir.dtype("float32")
EXTENTS = st.sampled_from([1, 2, 3, 4, 8, 12, 16, 33, 64, 100])
SHAPES = st.lists(EXTENTS, min_size=1, max_size=3).map(tuple).filter(lambda s: math.prod(s) < 2000)
QUICK = settings(max_examples=examples(40), deadline=None)
THREADS = st.sampled_from([32, 64, 96, 128, 256])


@st.composite
def layouts(draw: st.DrawFn, threads: int = 0) -> RegisterLayout:
    """Layouts as the compiler makes them when nothing fixes one; `threads`: of so many."""
    shape = draw(SHAPES)
    order = draw(st.permutations(range(len(shape))))
    warps = draw(st.permutations(range(len(shape))))
    vector = draw(st.sampled_from([v for v in (1, 2, 4, 8) if shape[order[0]] % v == 0]))
    return distributed(
        shape, threads or draw(THREADS), vector, order, warps, draw(st.sampled_from([8, 32]))
    )


def holders(layout: RegisterLayout) -> dict[tuple[int, ...], set[tuple[int, int]]]:
    """The threads and registers that hold each element of the shape."""
    found: dict[tuple[int, ...], set[tuple[int, int]]] = {}
    for thread, registers in enumerate(layout.table().tolist()):
        for number, at in enumerate(registers):
            if all(a < e for a, e in zip(at, layout.shape)):
                found.setdefault(tuple(at), set()).add((thread, number))
    return found


@QUICK
@given(layouts())
def test_every_element_has_a_place(layout: RegisterLayout) -> None:
    """All elements are held, by all copies in the same register, and nothing twice by a thread."""
    held = holders(layout)
    assert set(held) == set(itertools.product(*(range(e) for e in layout.shape)))
    for places in held.values():
        threads = [t for t, _ in places]
        assert len(threads) == len(set(threads))
        assert len({r for _, r in places}) == 1
    table = layout.table()
    assert table.shape[:2] == (layout.threads, layout.registers_per_thread)
    assert tuple(table.reshape(-1, layout.rank).max(axis=0) + 1) == layout.covered


@given(layouts())
def test_text_says_it_all(layout: RegisterLayout) -> None:
    """A layout is the one that its text gives."""
    assert parse_layout(str(layout), layout.shape) == layout


@given(SHAPES, THREADS)
def test_blocked_gives_neighbours_to_neighbours(shape: tuple[int, ...], threads: int) -> None:
    """Thread t + 1 of a warp holds what follows on thread t, along the last dimension."""
    layout = blocked(shape, threads, 2 if shape[-1] % 2 == 0 else 1)
    first = layout.table()[:, 0, :]
    width = layout.vector() if shape[-1] % 2 == 0 else 1
    if shape[-1] >= 64:
        assert first[1][-1] == min(width, 2)
    assert layout.threads == threads


def test_bad_counts_are_refused() -> None:
    """Warps have 32 lanes."""
    with pytest.raises(InternalError, match="16 lanes"):
        RegisterLayout.make((16,), (), parse_layout("regs | lanes (1) (2) (4) (8) | warps",
                                                    (16,)).lanes, ())  # fmt: skip
    with pytest.raises(InternalError, match="over 48 threads"):
        blocked((16,), 48)


@QUICK
@given(layouts(), st.data())
def test_selection_and_weights_are_those_of_the_table(
    layout: RegisterLayout, data: st.DataObject
) -> None:
    """For a fragment that a loop indexes by some of its variables, each point finds its element in
    the register that the weights say, in its own thread."""
    dims = data.draw(st.permutations(range(layout.rank)))
    dims = dims[: data.draw(st.integers(1, layout.rank))]
    shape = [layout.shape[d] for d in dims]
    fragment = layout.select(dims, shape)
    weights = layout.register_weights(dims, fragment)
    assert weights is not None
    numbers = _numbers(layout, weights)
    held = fragment.table()
    for thread, registers in enumerate(layout.table()):
        for point, number in zip(registers, numbers):
            assert tuple(held[thread, number]) == tuple(point[list(dims)])


def _numbers(layout: RegisterLayout, weights: Sequence[int]) -> list[int]:
    """The fragment's register for each register number of the loop."""
    numbers = [0]
    for digit, weight in zip(layout.registers, weights, strict=True):
        numbers = [n + k * weight for k in range(digit.radix) for n in numbers]
    return numbers


@QUICK
@given(layouts(), st.data())
def test_weights_exist_only_where_threads_agree(a: RegisterLayout, data: st.DataObject) -> None:
    """For two layouts of one shape: weights, or an element that is in another thread."""
    b = data.draw(layouts(a.threads))
    assert a.threads == b.threads
    b = RegisterLayout(a.shape, b.registers, b.lanes, b.warps) if a.rank == b.rank else a
    weights = a.register_weights(tuple(range(a.rank)), b)
    if weights is not None:
        held = b.table()
        for thread, registers in enumerate(a.table()):
            for point, number in zip(registers, _numbers(a, weights)):
                assert tuple(held[thread, number]) == tuple(point)


@QUICK
@given(layouts(), st.data())
def test_a_loop_from_a_fragment_finds_it(layout: RegisterLayout, data: st.DataObject) -> None:
    """Up and down again: the loop numbers the registers of the fragment that it came from, covers
    all its points, and puts vectors first."""
    extra = data.draw(st.sampled_from([(), (8,), (64,)]))
    shape = (*layout.shape, *extra)
    dims = tuple(range(layout.rank))
    loop = up(layout, dims, shape, 4 if extra else 1)
    assert loop is not None
    assert loop.register_weights(dims, layout) is not None
    assert set(holders(loop)) == set(itertools.product(*(range(e) for e in shape)))
    again = down(loop, dims, layout.shape)
    assert (again.lanes, again.warps) == (layout.lanes, layout.warps)
    if extra:
        assert loop.vector() >= 4


def test_a_dimension_indexed_by_numbers_lies_in_registers() -> None:
    """Where lanes step along it, there is no such loop."""
    spread = blocked((4, 64), 32)
    assert up(spread, (0, None), (4,)) is None
    inside = distributed((4, 64), 32, 1, (0, 1), (0, 1))
    assert up(inside, (None, 1), (64,)) is None
    whole = distributed((32, 4), 32, 1, (0, 1), (0, 1))
    loop = up(whole, (0, None), (32,))
    assert loop is not None
    assert loop.register_weights((0, None), whole) is not None
    assert down(loop, (0, None), (32, 4)) == whole


@QUICK
@given(SHAPES, THREADS)
def test_candidates_are_layouts_of_the_shape(shape: tuple[int, ...], threads: int) -> None:
    """All different, of all threads; the first has the widest vectors."""
    made = list(candidates(shape, threads, 8, [len(shape) - 1]))
    assert len(made) == len(set(made)) > 0
    assert all(m.shape == shape and m.threads == threads for m in made)
    width = next(v for v in (8, 4, 2, 1) if shape[-1] % v == 0)
    assert made[0].vector() >= width


@pytest.mark.parametrize("columns", [192, 96, 320])
def test_rows_of_an_odd_number_of_parts_are_read_in_full_vectors(columns: int) -> None:
    """Some candidate has the widest vectors and no lane without work."""
    made = list(candidates((64, columns), 128, 8, [1]))
    spread = [m for m in made if not any(d.is_copy for d in (*m.lanes, *m.warps))]
    assert any(m.vector() == 8 and not m.is_padded for m in spread)


# -- shared memory


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((16, 64), HALF), ((8, 128), HALF), ((4, 256), FLOAT), ((2, 8, 32), FLOAT),
     ((3, 5, 128), ir.dtype("int8"))],
)  # fmt: skip
def test_a_swizzle_moves_every_element_to_a_place_of_its_own(
    shape: tuple[int, ...], dtype: ir.DType, swizzle: Swizzle
) -> None:
    """And keeps 16 bytes together; the text says it."""
    layout = SharedLayout(shape, dtype, swizzle)
    assert parse_shared(str(layout), shape, dtype) == layout
    at = layout.address(np.moveaxis(np.indices(shape), 0, -1).astype(np.int64))
    assert len(np.unique(at)) == at.size
    assert at.max() < layout.bytes
    assert not (at % dtype.bytes).any()
    chunks = at.reshape(-1, 16 // dtype.bytes)
    assert (np.diff(chunks, axis=1) == dtype.bytes).all()
    assert not (chunks[:, 0] % 16).any()


def test_the_pattern_goes_by_addresses() -> None:
    """Bits 4 to 6 of an address are exchanged by bits 7 to 9, also where panels are short."""
    layout = SharedLayout((4, 128), HALF, 128)
    plain = np.arange(4 * 128 * 2).reshape(2, 4, 64, 2)[..., 0]  # panel, row, column
    expected = plain ^ ((plain >> 7 & 7) << 4)
    at = layout.address(np.moveaxis(np.indices((4, 128)), 0, -1).astype(np.int64))
    np.testing.assert_array_equal(at.reshape(4, 2, 64).transpose(1, 0, 2), expected)


def _rows(layout: SharedLayout, column: int = 0) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Addresses of lanes that take one row each."""
    at = np.stack([np.arange(32) % layout.rows, np.full(32, column)], axis=-1)
    return layout.address(at.astype(np.int64))


def test_conflicts_of_rows_of_matrices() -> None:
    """16 bytes of each of 8 rows that are 128 bytes apart: all in the same four banks without a
    swizzle, eight wavefronts for a quarter of a warp instead of one."""
    shape = (32, 64)
    assert wavefronts(_rows(SharedLayout(shape, HALF)), 16) == (32, 4)
    assert wavefronts(_rows(SharedLayout(shape, HALF, 128)), 16) == (4, 4)
    assert wavefronts(_rows(SharedLayout(shape, HALF, 64)), 16) == (4, 4)
    assert wavefronts(_rows(SharedLayout(shape, HALF, pad=8)), 16) == (4, 4)


def test_conflicts_of_columns() -> None:
    """One word of each of 32 rows: padding by a word is free of conflicts, a swizzle spreads over
    eight chunks."""
    shape = (32, 32)
    assert wavefronts(_rows(SharedLayout(shape, FLOAT), 5), 4) == (32, 1)
    assert wavefronts(_rows(SharedLayout(shape, FLOAT, pad=1), 5), 4) == (1, 1)
    assert wavefronts(_rows(SharedLayout(shape, FLOAT, 128), 5), 4) == (4, 1)


def test_one_word_for_all_lanes_is_no_conflict() -> None:
    """A broadcast; lanes that take no part count for nothing."""
    assert wavefronts(np.zeros(32, np.int64), 4) == (1, 1)
    assert wavefronts(np.full(32, -1), 4) == (0, 0)
    assert wavefronts(np.where(np.arange(32) < 2, np.arange(32) * 128, -1), 4) == (2, 1)


def test_sectors_of_global_memory() -> None:
    """32 lanes side by side need 128 bytes; a column needs a sector a lane."""
    lanes = np.arange(32, dtype=np.int64)
    assert sectors(lanes * 4, 4) == (4, 4)
    assert sectors(lanes * 16, 16) == (16, 16)
    assert sectors(lanes * 4096, 4) == (32, 4)
    assert sectors(lanes * 4 + 16, 4) == (5, 4)
