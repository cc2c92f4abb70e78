"""Bank conflicts and sectors, counted without a GPU, against figures worked out by hand.

A request of shared memory is served a warp at a time up to 4 bytes a lane, half a warp at a time
for 8 and a quarter for 16; each part takes as many wavefronts as the fullest of 32 banks has words.
"""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cuda.elementwise_support import HOPPER, launch
from tests.verified import parse
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.layouts import SharedLayout, parse_shared
from tileprof.compiler.cuda.layouts.cost import Accesses, sectors, wavefronts
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.layout import cost as layout_cost
from tileprof.compiler.cuda.passes.layout.access_costs import count_accesses
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.common import InLayout
from tileprof.remarks.layouts import GlobalAccess, LosingConflicts, SharedAccess

Array = npt.NDArray[np.int64]
LANES: Array = np.arange(32, dtype=np.int64)
HALF, FLOAT = ir.dtype("bfloat16"), ir.dtype("float32")


def places(layout: SharedLayout, rows: Array, columns: Array) -> Array:
    """Bytes at which lanes read an element each."""
    return layout.address(np.stack(np.broadcast_arrays(rows, columns), axis=-1))


# -- shared memory, one word a lane


@given(st.integers(1, 200))
def test_a_stride_of_words_has_as_many_conflicts_as_it_shares_with_32(stride: int) -> None:
    """Odd strides visit all banks, 32 stays in one."""
    assert wavefronts(LANES * 4 * stride, 4) == (gcd(stride, 32), 1)


@pytest.mark.parametrize(
    ("dtype", "shape", "layout", "expected"),
    [
        # Rows of 128 bytes: a column lies in one bank; one word more a row, and it lies in all.
        (FLOAT, (64, 32), "rows", 32),
        (FLOAT, (64, 32), "pad=1", 1),
        # 4 words more a row: rows 8 apart share a bank.
        (FLOAT, (64, 32), "pad=4", 4),
        # Chunks of a row go to 8 places, so 4 of 32 rows share one.
        (FLOAT, (64, 32), "swizzle=128", 4),
        # Rows of 64 bytes: rows 2 apart share a bank; the swizzle exchanges 4 chunks of every 2
        # rows, which leaves 8 places again.
        (FLOAT, (64, 16), "rows", 16),
        (FLOAT, (64, 16), "swizzle=64", 4),
        # A transposed tile of 16-bit elements: 2 bytes more a row put two rows into one bank, at
        # different words; 4 bytes more are one word.
        (HALF, (64, 64), "rows", 32),
        (HALF, (64, 64), "pad=1", 2),
        (HALF, (64, 64), "pad=2", 1),
        (HALF, (64, 64), "pad=8", 4),
        (HALF, (64, 64), "swizzle=128", 4),
        # Rows of 8 words, 4 of which fill the banks.
        (HALF, (64, 16), "swizzle=32", 4),
        (HALF, (64, 16), "rows", 8),
    ],
)
def test_a_column(dtype: ir.DType, shape: tuple[int, ...], layout: str, expected: int) -> None:
    """32 lanes read column 1, a row each."""
    at = places(parse_shared(layout, shape, dtype), LANES, np.array(1))
    assert wavefronts(at, dtype.bytes) == (expected, 1)


def test_lanes_that_read_one_word_share_it() -> None:
    """A broadcast, a broadcast to each quarter, and two 16-bit elements of a word."""
    assert wavefronts(np.full(32, 400), 4) == (1, 1)
    assert wavefronts(LANES // 8 * 4, 4) == (1, 1)
    assert wavefronts(LANES // 8 * 128, 4) == (4, 1)
    assert wavefronts(LANES * 2, 2) == (1, 1)
    # Each row of 128 bytes is read by two lanes at the same word, by two more at another.
    assert wavefronts(LANES // 4 * 128 + LANES % 4 * 2, 2) == (8, 1)


# -- shared memory, 8 and 16 bytes a lane


@pytest.mark.parametrize(
    ("width", "stride", "expected"),
    [
        (8, 8, (2, 2)),  # 16 lanes fill the banks: each half of the warp takes one wavefront
        (8, 16, (4, 2)),  # lanes 0 and 8 of a half share banks
        (8, 128, (32, 2)),  # every lane of a half starts in bank 0
        (8, 136, (2, 2)),  # two words further with each lane
        (16, 16, (4, 4)),  # 8 lanes fill the banks: each quarter takes one
        (16, 32, (8, 4)),
        (16, 128, (32, 4)),
        (16, 144, (4, 4)),  # four words further with each lane
    ],
)
def test_wide_accesses_are_served_in_parts(
    width: int, stride: int, expected: tuple[int, int]
) -> None:
    """Lanes of another part do not conflict: the banks are theirs in another wavefront."""
    assert wavefronts(LANES * stride, width) == expected


def test_only_lanes_that_take_part_are_served() -> None:
    """A half or a quarter of a warp without any takes no wavefront."""
    assert wavefronts(np.where(LANES < 16, LANES * 8, -1), 8) == (1, 1)
    # Two lanes of different halves, without neighbours, are served together: 16 bytes, one bank.
    assert wavefronts(np.where(LANES % 16 == 0, LANES * 128, -1), 8) == (2, 1)
    assert wavefronts(np.where(LANES < 8, LANES * 128, -1), 16) == (8, 1)


@pytest.mark.parametrize(
    ("columns", "layout", "a_matrix"),
    [
        (64, "rows", 8),
        (64, "swizzle=128", 1),
        (64, "pad=8", 1),
        (128, "swizzle=128", 1),
        (32, "rows", 4),
        (32, "swizzle=64", 1),
        (32, "pad=8", 1),
        (16, "rows", 2),
        (16, "swizzle=32", 1),
        # 64 of the 128 bytes of a row are exchanged: two places for every chunk of 8 rows.
        (64, "swizzle=64", 1),
    ],
)
def test_eight_rows_of_a_matrix(columns: int, layout: str, a_matrix: int) -> None:
    """ldmatrix reads 8 rows of 16 bytes for each of four matrices: a wavefront each at best,
    whichever chunk and whichever group of 8 rows."""
    held = parse_shared(layout, (64, columns), HALF)
    for chunk in range(columns // 8):
        at = places(held, LANES, np.array(chunk * 8))
        assert wavefronts(at, 16) == (4 * a_matrix, 4)


def test_transposed_matrices_share_the_pattern() -> None:
    """The 8 rows of one matrix and the chunks of its neighbours: as `ldmatrix.x4.trans` has it."""
    held = parse_shared("swizzle=128", (64, 64), HALF)
    at = places(held, LANES % 16, LANES // 16 * 8 + 32)
    assert wavefronts(at, 16) == (4, 4)


# -- global memory


@pytest.mark.parametrize(
    ("stride", "expected"), [(1, 4), (2, 8), (3, 12), (5, 20), (7, 28), (8, 32), (33, 32)]
)
def test_strides_in_global_memory(stride: int, expected: int) -> None:
    """32 floats touch 4 sectors for each element of the stride, up to one a lane."""
    assert sectors(LANES * 4 * stride, 4) == (expected, 4)


@pytest.mark.parametrize(
    ("addresses", "width", "expected"),
    [
        (LANES * 0, 4, (1, 1)),  # one number for all
        (LANES // 8 * 4096, 4, (4, 1)),  # four rows, one number each: 16 bytes are needed
        (LANES * 2, 2, (2, 2)),
        (LANES * 8, 8, (8, 8)),
        (LANES * 8 + 16, 8, (9, 8)),  # half a sector too far
        (LANES * 32, 16, (32, 16)),  # every other 16 bytes
        (LANES // 8 * 4096 + LANES % 8 * 16, 16, (16, 16)),  # four rows of 128 bytes
        (np.where(LANES < 4, LANES * 16, -1), 16, (2, 2)),
        (np.full(32, -1), 16, (0, 0)),
    ],
)
def test_sectors(addresses: Array, width: int, expected: tuple[int, int]) -> None:
    """32 bytes each, those of several lanes once."""
    assert sectors(addresses, width) == expected


def test_ways() -> None:
    """Transactions for each one needed; nothing at all is no conflict."""
    assert Accesses(1, 8, 4).ways == 2
    assert Accesses(1, 0, 0).ways == 0


# -- the same figures elsewhere


@given(
    st.sampled_from([1, 2, 4, 8, 16]),
    st.lists(st.integers(0, 400), min_size=5, max_size=5),
    st.integers(0, 9),
)
def test_the_search_for_layouts_counts_alike(width: int, steps: list[int], start: int) -> None:
    """The quick count that compares layouts, for lanes whose bits move the address.

    It serves parts of a warp one after the other also where neighbours ask for the same.
    """
    at = [o * width + start * width for o in layout_cost.lane_offsets(steps)]
    addresses = np.array(at, np.int64)
    quick, exact = layout_cost._wavefronts(at, width), wavefronts(addresses, width)[0]
    assert quick == exact or (0 in steps[:2] and quick > exact)
    assert layout_cost._sectors(at, width) == sectors(addresses, width)[0]


WIDE = "regs (0,1) (0,2) | lanes (1,0) (2,0) (4,0) (8,0) (16,0) | warps (32,0) (0,4)"
"""64 × 8: a lane has four elements of a row."""


def told(params: str, body: str, controls: Controls | None = None) -> dict[str, Remark]:
    """Remarks of a loop by access."""
    lowering = Lowering(HOPPER, controls or Controls())
    count_accesses(parse(launch(params, body)), lowering)
    return {r.subject: r for r in lowering.remarks.all()}


def rows_of_a_lane(layout: str) -> str:
    """`y[i, j] = s[i, j]`, a row of 32 floats a lane."""
    return f"""
    %s = alloc shared {{shape = [64, 32], layout = "{layout}"}} : shared<64, 32, float32>
    parallel [%c64, %c8] {{layout = "{WIDE}"}} body(%i: index, %j: index) {{
      %v = load %s, [%i, %j] {{in_bounds = true}} : float32
      store %v, %y, [%j, %i] {{in_bounds = true}}
    }}"""


@pytest.mark.parametrize(
    ("layout", "width", "count", "needed"),
    [
        # Chunks of 16 bytes: one wavefront for 8 lanes with a swizzle, 8 without.
        ("rows", 16, 32, 4),
        ("swizzle=128", 16, 4, 4),
        ("pad=4", 16, 4, 4),
        # Rows that are no multiple of 16 bytes apart allow less: one word at a time.
        ("pad=1", 4, 1, 1),
        ("pad=2", 8, 2, 2),
    ],
)
def test_vectors_of_a_loop(layout: str, width: int, count: int, needed: int) -> None:
    """The count is for the width that the emission takes under the layout."""
    found = told("%y: global<8, 64, float32>", rows_of_a_lane(layout))
    assert found["load s"].decision == SharedAccess(width, count, needed)
    # Neighbouring lanes store neighbouring elements.
    assert found["store y"].decision == GlobalAccess(4, 4, 4)


def test_one_element_at_a_time() -> None:
    """Without vectors a column of rows of 128 bytes is a conflict of all lanes."""
    found = told("%y: global<8, 64, float32>", rows_of_a_lane("rows"), Controls(vectorize=False))
    assert found["load s"].decision == SharedAccess(4, 32, 1)
    assert found["load s"].severity == "missed"
    (rejected,) = found["load s"].rejected
    assert rejected == Rejection(InLayout("pad=1"), LosingConflicts(32, "rows", 1))


def test_no_layout_is_named_that_is_forbidden() -> None:
    """A swizzle would be as good as padding for vectors; where swizzles are off, it is not told."""
    body = rows_of_a_lane("rows")
    for controls, candidate in (
        (Controls(), "swizzle=128"),
        (Controls(swizzle=False), "pad=4"),
    ):
        (found,) = told("%y: global<8, 64, float32>", body, controls)["load s"].rejected
        assert found.candidate == InLayout(candidate)
