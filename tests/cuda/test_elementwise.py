"""Parallel loops as CUDA text: results on the emulated machine, and how wide accesses are."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cuda.elementwise_support import (
    HOPPER,
    compare,
    compare_together,
    launch,
    numbers,
    source,
)
from tests.verified import parse
from tileprof.compiler.cuda.build import compile_cubin, disassemble
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.layouts import blocked, parse_layout
from tileprof.emulator import emulate

ROWS = "regs (0,1) (0,2) (0,4) (8,0) (16,0)"
TILE = f"{ROWS} | lanes (0,8) (0,16) (0,32) (1,0) (2,0) | warps (4,0) (32,0)"
"""64 × 64, vectors of 8, over 128 threads."""
MMA_REGISTERS = "regs (0,1) (8,0) (0,8) (0,16) (0,32)"
MMA = f"{MMA_REGISTERS} | lanes (0,2) (0,4) (1,0) (2,0) (4,0) | warps (16,0) (32,0)"
"""64 × 64 as the accumulators of mma have it."""

ROW = "regs (8) | lanes (0) (0) (1) (2) (4) | warps (16) (32)"
"""64, as the rows of `MMA`."""

ADD = launch(
    "%x: global<m, 64, bfloat16>, %y: global<m, 64, float32>, %z: global<m, 64, bfloat16>",
    f"""
    %o = mul %bx, %c64 : index
    parallel [%c64, %c64] {{layout = "{TILE}"}} body(%i: index, %j: index) {{
      %r = add %o, %i : index
      %a = load %x, [%r, %j] : bfloat16
      %b = load %y, [%r, %j] : float32
      %f = cast %a {{dtype = float32}} : float32
      %s = add %f, %b : float32
      %t = cast %s {{dtype = bfloat16}} : bfloat16
      store %t, %z, [%r, %j]
    }}""",
    symbols="%m",
    before="  %m1 = add %m, %c63 : index\n  %grid = floordiv %m1, %c64 : index",
    grid="%grid",
)


@pytest.mark.parametrize("rows", [64, 128, 100, 1])
def test_rows_beyond_the_edge_are_left_out(rows: int) -> None:
    """Whole tiles take the fast form, the last one the guarded one."""
    arrays = [numbers("bfloat16", rows, 64), numbers("float32", rows, 64, seed=1)]
    compare(ADD, [*arrays, numbers("bfloat16", rows, 64, seed=2)], (rows,))


def test_vectors_of_16_bytes_move_in_front_and_behind() -> None:
    """Which accesses the text makes, and in what order."""
    text = source(ADD).text
    fast, slow = text.split("} else {", 1)
    assert "tp_get_global<8>(x_in + r * 8" in fast
    assert "tp_get_global<8>(y_in + r * 8" in fast
    assert "tp_put_values_global<8>(z + " in fast
    # The loads of the whole tile come before the first point.
    assert fast.index("tp_get_global<8>(y_in") < fast.index("tp_widen_vector")
    # A row is inside or outside as a whole, so guards keep the width.
    assert re.search(r"if \(r_1 < m\) x_from = x", slow)
    assert "tp_get_global_where<8>(x_in" in slow


def test_without_vectorisation_accesses_are_single() -> None:
    """The control takes effect."""
    text = source(ADD, Controls(vectorize=False)).text
    assert "tp_get" not in text
    assert "tp_put" not in text


# -- fragments


FRAGMENTS = launch(
    "%x: global<64, 64, float32>, %s: global<64, float32>, %y: global<64, 64, bfloat16>",
    f"""
    %acc = alloc fragment {{shape = [64, 64], layout = "{MMA}"}} : fragment<64, 64, float32>
    %half = alloc fragment {{shape = [64, 64], layout = "{MMA}"}} : fragment<64, 64, bfloat16>
    %scale = alloc fragment {{shape = [64], layout = "{ROW}"}} : fragment<64, float32>
    parallel [%c64] {{layout = "{ROW}"}} body(%i: index) {{
      %v = load %s, [%i] {{in_bounds = true}} : float32
      store %v, %scale, [%i] {{in_bounds = true}}
    }}
    parallel [%c64, %c64] {{layout = "{MMA}"}} body(%i: index, %j: index) {{
      %v = load %x, [%i, %j] {{in_bounds = true}} : float32
      store %v, %acc, [%i, %j] {{in_bounds = true}}
    }}
    parallel [%c64, %c64] {{layout = "{MMA}"}} body(%i: index, %j: index) {{
      %a = load %acc, [%i, %j] : float32
      %b = load %scale, [%i] : float32
      %p = mul %a, %b : float32
      %h = cast %p {{dtype = bfloat16}} : bfloat16
      store %h, %half, [%i, %j]
    }}
    parallel [%c64, %c64] {{layout = "{MMA}"}} body(%i: index, %j: index) {{
      %v = load %half, [%i, %j] : bfloat16
      store %v, %y, [%i, %j] {{in_bounds = true}}
    }}""",
)


def test_fragments_are_indexed_by_register() -> None:
    """Accumulators, a vector of scales for their rows, and a conversion."""
    arrays = [numbers("float32", 64, 64), numbers("float32", 64, seed=1)]
    made = compare(FRAGMENTS, [*arrays, numbers("bfloat16", 64, 64, seed=2)])
    # A row's scale is in one of two registers, whatever the column.
    assert re.search(r"b = scale\[r\w*\];", made.text)
    # Two neighbours are converted and stored together, and not converted again to be written.
    assert "tp_narrow_vector<2>(half + " in made.text
    assert "tp_put_global<2>(y + " in made.text
    assert re.search(r"y_out\[e\] = half\[", made.text)


SERIAL = (
    launch(
        "%x: global<128, 4, float32>, %y: global<128, float32>",
        """
    %f = alloc fragment {shape = [128, 4], layout = "FOUR"} : fragment<128, 4, float32>
    parallel [%c128, %c4] {layout = "FOUR"} body(%i: index, %j: index) {
      %v = load %x, [%i, %j] {in_bounds = true} : float32
      store %v, %f, [%i, %j]
    }
    parallel [%c128] {layout = "ONE"} body(%i: index) {
      %sum = alloc local {shape = []} : local<float32>
      %first = load %f, [%i, %c0] : float32
      store %first, %sum, []
      for serial %c1, %c4, %c1 body(%k: index) {
        %a = load %sum, [] : float32
        %b = load %f, [%i, %k] : float32
        %s = add %a, %b : float32
        store %s, %sum, []
      }
      %total = load %sum, [] : float32
      store %total, %y, [%i] {in_bounds = true}
    }""",
    )
    .replace(
        "FOUR", "regs (0,1) (0,2) | lanes (1,0) (2,0) (4,0) (8,0) (16,0) | warps (32,0) (64,0)"
    )
    .replace("ONE", "regs | lanes (1) (2) (4) (8) (16) | warps (32) (64)")
)
"""A row of four in the registers of each thread."""


def test_a_loop_may_count_registers() -> None:
    """A loop inside of a point that goes over registers is unrolled."""
    made = compare(SERIAL, [numbers("float32", 128, 4), numbers("float32", 128, seed=1)])
    assert re.search(r"#pragma unroll\n *for \(int k = 1; k < 4; ", made.text)


# -- shared memory


def shared(layout: str, width: int, dtype: str = "bfloat16") -> str:
    """A tile into shared memory along rows, and out of it along columns."""
    held = f"shared<64, 64, {dtype}>"
    down = blocked((64, 64), 128, width, (0, 1))
    return launch(
        f"%x: global<64, 64, {dtype}>, %y: global<64, 64, {dtype}>",
        f"""
    %s = alloc shared {{shape = [64, 64], layout = "{layout}", offset = 1024}} : {held}
    parallel [%c64, %c64] {{layout = "{TILE}"}} body(%i: index, %j: index) {{
      %v = load %x, [%i, %j] {{in_bounds = true}} : {dtype}
      store %v, %s, [%i, %j] {{in_bounds = true}}
    }}
    barrier
    parallel [%c64, %c64] {{layout = "{down}"}} body(%i: index, %j: index) {{
      %v = load %s, [%j, %i] {{in_bounds = true}} : {dtype}
      store %v, %y, [%i, %j] {{in_bounds = true}}
    }}""",
    ).replace("threads = [128]", "threads = [128], schedule = [[shared, 32768]]")


def test_shared_layouts() -> None:
    """Every layout gives the same, in accesses as wide as the vectors."""
    forms = [
        (layout, dtype, vector)
        for layout in ("rows", "pad=16", "swizzle=128", "swizzle=64", "swizzle=32")
        for dtype, vector in (("bfloat16", 8), ("float32", 4), ("int8", 8))
        if (layout, dtype) != ("swizzle=128", "int8")  # wider than a row
    ]
    texts = compare_together([
        (shared(layout, 4, dtype), [numbers(dtype, 64, 64, seed=seed) for seed in (0, 1)], ())
        for layout, dtype, _ in forms
    ])  # fmt: skip
    for (_, _, vector), text in zip(forms, texts):
        assert f"tp_put_shared<{vector}>" in text  # along rows
        assert "tp_get_shared<4>" in text  # the other loop's vectors go down the columns of y


def test_padding_that_breaks_alignment_leaves_narrower_accesses() -> None:
    """No access is wider than its address allows."""
    text = source(shared("pad=2", 4)).text
    # Rows of 66 elements of 2 bytes: every second one begins 4 bytes off.
    assert "tp_put_shared<2>" in text
    assert "tp_put_shared<8>" not in text


# -- points that a thread runs, or not


def test_points_beyond_the_extent_are_left_out() -> None:
    """Registers that are padding touch nothing; the interpreter would run all points."""
    layout = "regs 3x(0,16) (64,0) | lanes (0,1) (0,2) (0,4) (0,8) (1,0) | warps 3x(2,0) (8,0)"
    # 70 rows of 44: rows 0 … 1 + 2·2 + 8 + 64 and 48 columns are reached, most rows not at all.
    assert parse_layout(layout, (70, 44)).is_padded
    text = launch(
        "%x: global<70, 44, int32>",
        f"""
    parallel [%c70, %c44] {{layout = "{layout}"}} body(%i: index, %j: index) {{
      %old = atomic add %one, %x, [%i, %j] {{in_bounds = true}} : int32
    }}""",
        before="  %one = constant 1 : int32",
        threads=192,
    )
    array = np.zeros((70, 44), np.int32)
    emulate(source(text), parse(text), [array])
    reached = {
        r + w * 2 + v * 8 + g * 64 for r in (0, 1) for w in range(3) for v in (0, 1) for g in (0, 1)
    }
    expected = np.zeros_like(array)
    expected[sorted(r for r in reached if r < 70)] = 1
    np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    "layout",
    [
        "regs | lanes (1) (2) (4) (0) (0) | warps (0) (0)",
        "regs | lanes (0) (0) (1) (2) (4) | warps 3x(0)",
    ],
)
def test_copies_of_a_point_change_memory_once(layout: str) -> None:
    """Threads that hold the same point agree on one that acts."""
    text = launch(
        "%x: global<8, int32>, %y: global<8, int32>",
        f"""
    parallel [%c8] {{layout = "{layout}"}} body(%i: index) {{
      %v = load %y, [%i] : int32
      %old = atomic add %v, %x, [%i] : int32
    }}""",
        threads=96 if "3x" in layout else 128,
    )
    compare(text, [numbers("int32", 8), numbers("int32", 8, seed=1)])


BRANCHES = (
    launch(
        "%x: global<64, 64, float32>, %y: global<64, 64, float32>, %z: global<64, int32>",
        f"""
    %t = alloc local {{shape = []}} : local<float32>
    store %half, %t, []
    parallel [%c64, %c64] {{layout = "{TILE}"}} body(%i: index, %j: index) {{
      %skip = lt %j, %i
      if %skip then {{
        continue
      }} otherwise {{
      }}
      %v = load %x, [%i, %j] : float32
      %low = lt %v, %zero
      if %low then {{
        store %v, %t, []
      }} otherwise {{
        %n = load %z, [%j] : int32
        %f = cast %n {{dtype = float32}} : float32
        store %f, %y, [%j, %i]
      }}
      %w = load %t, [] : float32
      store %w, %y, [%i, %j]
    }}""",
        before="  %half = constant 0.5 : float32\n  %zero = constant 0.0 : float32",
    )
    .replace("= lt %j, %i", "= lt %j, %i : bool")
    .replace("= lt %v, %zero", "= lt %v, %zero : bool")
)


def test_branches_continue_and_private_variables() -> None:
    """Control flow inside of points."""
    arrays = [numbers("float32", 64, 64), numbers("float32", 64, 64, seed=1)]
    # y[j, i] lies below the diagonal, where no point writes y[i, j]; the diagonal is written twice
    # by one point.
    compare(BRANCHES, [*arrays, numbers("int32", 64, seed=2)])


GATHER = launch(
    "%x: global<n, 64, bfloat16>, %rows: global<64, int32>, %y: global<64, 64, bfloat16>",
    f"""
    parallel [%c64, %c64] {{layout = "{TILE}"}} body(%i: index, %j: index) {{
      %r = load %rows, [%i] : int32
      %at = cast %r {{dtype = index}} : index
      %v = load %x, [%at, %j] : bfloat16
      store %v, %y, [%i, %j]
    }}""",
    symbols="%n",
)


def test_rows_that_are_looked_up_are_read_in_vectors() -> None:
    """An index may be loaded, as long as the vector does not move it."""
    rows = np.random.default_rng(0).integers(0, 40, 64).astype(np.int32)
    arrays = [numbers("bfloat16", 32, 64), rows, numbers("bfloat16", 64, 64, seed=1)]
    made = compare(GATHER, arrays, (32,))
    # Which rows there are is known only when they have been read: guards at each vector.
    assert re.search(r"if \((\w+) >= 0 && \1 < n\) x_from = x", made.text)
    assert "tp_get_global_where<8>(x_in" in made.text
    assert "tp_put_global<8>(y" in made.text


SYMBOLIC = launch(
    "%x: global<m, n, float16>, %y: global<m, n, float16>",
    f"""
    parallel [%c64, %c64] {{layout = "{TILE}"}} body(%i: index, %j: index) {{
      %v = load %x, [%i, %j] : float16
      %w = add %v, %v : float16
      store %w, %y, [%i, %j]
    }}""",
    symbols="%m, %n",
)


@pytest.mark.parametrize("shape", [(64, 64), (64, 72), (65, 67), (3, 64), (64, 5)])
def test_alignment_that_is_known_at_launch_only(shape: tuple[int, int]) -> None:
    """Strides that are symbols are asked for at run time."""
    made = compare(
        SYMBOLIC, [numbers("float16", *shape), numbers("float16", *shape, seed=1)], shape
    )
    assert "if (63 < m && 63 < n && n % 8 == 0) {" in made.text
    fast, slow = made.text.split("} else {")
    assert "tp_get_global<8>" in fast
    assert "tp_get" not in slow


ORDER = launch(
    "%x: global<64, 64, float32>, %y: global<64, 64, float32>",
    f"""
    parallel [%c64, %c64] {{layout = "{TILE}"}} body(%i: index, %j: index) {{
      %v = load %x, [%i, %j] : float32
      %w = add %v, %one : float32
      store %w, %x, [%i, %j]
      %a = load %x, [%i, %j] : float32
      %b = mul %a, %a : float32
      store %b, %y, [%i, %j]
    }}""",
    before="  %one = constant 1.0 : float32",
)


def test_what_a_point_wrote_is_what_it_reads() -> None:
    """No load moves over a store to its memory."""
    made = compare(ORDER, [numbers("float32", 64, 64), numbers("float32", 64, 64, seed=1)])
    assert "x_out" not in made.text  # the first store stays in its place
    assert "y_out" in made.text


# -- loops without a layout


STRIDED = launch(
    "%x: global<m, n, float32>, %y: global<n, m, float32>",
    """
    parallel [%m, %n] body(%i: index, %j: index) {
      %v = load %x, [%i, %j] : float32
      store %v, %y, [%j, %i]
    }""",
    symbols="%m, %n",
)


@pytest.mark.parametrize("shape", [(5, 7), (128, 1), (1, 300)])
def test_loops_of_unknown_extent(shape: tuple[int, int]) -> None:
    """Threads stride over all points."""
    m, n = shape
    compare(STRIDED, [numbers("float32", m, n), numbers("float32", n, m, seed=1)], shape)


# -- outside of loops


OUTSIDE = launch(
    "%x: global<8, int32>, %y: global<8, int32>",
    """
    %s = alloc shared {shape = [4], offset = 0} : shared<4, int32>
    store %seven, %s, [%c2] {in_bounds = true}
    barrier
    %v = load %s, [%c2] {in_bounds = true} : int32
    %old = atomic add %v, %x, [%c1] {in_bounds = true} : int32
    %t = add %old, %v : int32
    parallel [%c8] body(%i: index) {
      store %t, %y, [%i] {in_bounds = true}
    }""",
    before="  %seven = constant 7 : int32",
).replace("threads = [128]", "threads = [128], schedule = [[shared, 1024]]")


def test_one_thread_writes_and_all_know_the_result() -> None:
    """Scalars outside of loops belong to all threads."""
    compare(OUTSIDE, [numbers("int32", 8), numbers("int32", 8, seed=1)], seeds=8)


# -- any layout


@st.composite
def loops(draw: st.DrawFn) -> tuple[str, tuple[int, int], bool]:
    """A kernel that moves a tile through shared memory under drawn layouts, and its extents."""
    shape = draw(st.sampled_from([(64, 64), (16, 128), (24, 40), (7, 96)]))
    warps = draw(st.sampled_from([1, 2, 3, 4]))
    dtype = draw(st.sampled_from(["bfloat16", "float32", "int8", "float16"]))
    buffer = draw(st.sampled_from(["rows", "pad=8", "pad=1"]))
    one, two = (
        blocked(
            shape,
            32 * warps,
            draw(st.sampled_from([1, 2, 4, 8])),
            draw(st.sampled_from([(0, 1), (1, 0)])),
        )
        for _ in range(2)
    )
    rows, columns = shape
    held = f"shared<{rows}, {columns}, {dtype}>"
    text = launch(
        f"%x: global<m, {columns}, {dtype}>, %y: global<m, {columns}, {dtype}>",
        f"""
    %s = alloc shared {{shape = [{rows}, {columns}], layout = "{buffer}", offset = 0}} : {held}
    parallel [%c{rows}, %c{columns}] {{layout = "{one}"}} body(%i: index, %j: index) {{
      %v = load %x, [%i, %j] : {dtype}
      %w = add %v, %v : {dtype}
      store %w, %s, [%i, %j] {{in_bounds = true}}
    }}
    barrier
    parallel [%c{rows}, %c{columns}] {{layout = "{two}"}} body(%i: index, %j: index) {{
      %v = load %s, [%i, %j] {{in_bounds = true}} : {dtype}
      %w = neg %v : {dtype}
      store %w, %y, [%i, %j]
    }}""",
        symbols="%m",
        threads=32 * warps,
    ).replace("threads = [", "schedule = [[shared, 65536]], threads = [")
    return text, shape, draw(st.booleans())


@given(drawn=st.lists(loops(), min_size=6, max_size=6))
@settings(max_examples=2, deadline=None)
def test_any_layout_gives_the_same(drawn: list[tuple[str, tuple[int, int], bool]]) -> None:
    """Drawn layouts, types, paddings and edges."""
    cases = []
    for text, (rows, columns), whole in drawn:
        held = rows if whole else rows - 3
        dtype = re.findall(r"global<m, \d+, (\w+)>", text)[0]
        cases.append((text, [numbers(dtype, held, columns, seed=s) for s in (0, 1)], (held,)))
    compare_together(cases)


# -- as machine code


def test_instructions_are_as_wide_as_the_text_says() -> None:
    """SASS has no narrower access, and the loads come first."""
    listing = disassemble(compile_cubin(source(ADD), HOPPER, Controls()))
    # Two forms of a tile of 32 elements a thread: 4 × 16 bytes of x and of z, 8 of y.
    assert listing.count("LDG.E.128") == 2 * (4 + 8)
    assert listing.count("STG.E.128") == 2 * 4
    assert not re.search(r"(LDG|STG)\.E(?!\.128)", listing)
    assert "F2FP.BF16.F32.PACK_AB" in listing
    # Loads of the whole tile come before the first store.
    fast = listing[: listing.index("STG.E.128")]
    assert fast.count("LDG.E.128") >= 4 + 8


@pytest.mark.sweep
def test_shared_memory_is_accessed_in_16_bytes() -> None:
    """SASS of a copy through swizzled memory."""
    text = shared("swizzle=128", 8)
    listing = disassemble(compile_cubin(source(text), HOPPER, Controls()))
    assert listing.count("STS.128") == 4
    assert listing.count("LDS.128") == 4
    assert "F2F" not in listing  # nothing is converted on the way


@pytest.mark.spread("branches", "gather", "symbolic")
@pytest.mark.parametrize(
    "text", [FRAGMENTS, SERIAL, BRANCHES, GATHER, SYMBOLIC, ORDER, STRIDED, OUTSIDE],
    ids=["fragments", "serial", "branches", "gather", "symbolic", "order", "strided", "outside"],
)  # fmt: skip
def test_the_assembler_takes_it_without_local_memory(text: str) -> None:
    """Register numbers are constants after unrolling."""
    cubin = compile_cubin(source(text), HOPPER, Controls())
    assert "0 bytes stack frame, 0 bytes spill stores" in cubin.log
    assert "warning" not in cubin.log
