"""Elements that are written for nothing, launches that could be one, and copies there and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only, program, remark
from tileprof.analyzer.tiles.launches.cut_launches import cut_launches
from tileprof.analyzer.tiles.launches.launch_pairs import splits
from tileprof.analyzer.tiles.launches.needless_writes import needless_bytes, needless_writes
from tileprof.analyzer.tiles.round_trips import round_trips, spreads
from tileprof.profile.storage.ir_text import read
from tileprof.remarks.layouts import GlobalAccess

PEAKS = {"hbm_read": 4.7e12, "hbm_copy": 4.1e12, "hbm_write": 4.4e12}
SIZE = 4096 * 1024 * 4
"""Bytes of a tensor of the kernels here."""
HEAD = """\
kernel @k(%X: global<4096, 1024, float32>, %Y: out global<4096, 1024, float32>, \
%T: out global<4096, 1024, float32>) {
  %c0 = constant 0 : index
  %c8 = constant 8 : index
  %c512 = constant 512 : index
  %c1024 = constant 1024 : index
  %z = constant 0.0 : float32
"""
COPY = """\
  launch [%c512] {threads = [128]} body(%p: index) {
    parallel [%c8, %c1024] body(%i: index, %j: index) {
      %r = mul %p, %c8 : index
      %row = add %r, %i : index
      %v = load %X, [%row, %j] {in_bounds = true} : float32
      store %v, %T, [%row, %j] {in_bounds = true}
    }
  }
"""
LAUNCH = """\
  launch [%c512] {{threads = [128]}} body(%b: index) {{
    %first = mul %b, %c8 : index
    %held = alloc fragment {{shape = [8, 1024]}} : fragment<8, 1024, float32>
    %kept = alloc shared {{shape = [8, 1024]}} : shared<8, 1024, float32>
    %X_tile = view %X, [%first, %c0] {{sizes = [8, 1024], in_bounds = true}} : \
global<8, 1024, float32>
    %T_tile = view %T, [%first, %c0] {{sizes = [8, 1024], in_bounds = true}} : \
global<8, 1024, float32>
    %Y_tile = view %Y, [%first, %c0] {{sizes = [8, 1024], in_bounds = true}} : \
global<8, 1024, float32>
    {body}
  }}
"""
ZERO = """\
parallel [%c8, %c1024] body(%q: index, %s: index) {
      %at = add %q, %first : index
      store %z, %Y, [%at, %s] {in_bounds = true}
    }"""
ADD = """\
parallel [%c8, %c1024] body(%u: index, %w: index) {
      %to = add %first, %u : index
      %n = load %held, [%u, %w] {in_bounds = true} : float32
      %o = atomic add %n, %Y, [%to, %w] {in_bounds = true} : float32
    }"""
IN_LOOP = ADD.replace(
    "%o = atomic", "for serial %c0, %c8, %c1024 body(%e: index) {\n %o = atomic"
).replace("    }", "    } }")
IN, OUT = "copy %X_tile, %held", "copy %held, %Y_tile"
AWAY, BACK = "copy %held, %T_tile", "copy %T_tile, %held"


ZEROS = COPY.replace("%v = load %X, [%row, %j] {in_bounds = true} : float32\n", "").replace(
    "store %v, %T", "store %z, %Y"
)


def kernel(*body: str, before: str = "", after: str = "") -> str:
    """A kernel of one launch with these statements, maybe after or before another one."""
    return HEAD + before + LAUNCH.format(body="\n    ".join(body)) + after + "}\n"


PASS_ON = COPY.replace("load %X", "load %T").replace("store %v, %T", "store %v, %Y")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (kernel(IN, OUT), []),
        (kernel(BACK, OUT, before=COPY), [("copied", "%T")]),
        (kernel(BACK, OUT, before=COPY.replace("[%row, %j] {in_bounds = true} : float32",
                                               "[%j, %row] : float32")), []),  # transposed
        (kernel(BACK, "copy %held, %T_tile", before=COPY.replace("%X,", "%Y,")), []),  # no input
        (kernel(IN, AWAY, after=PASS_ON), [("passed on", "%T")]),
        (kernel(IN, AWAY, BACK, after=PASS_ON), []),  # read elsewhere
        (kernel(IN, AWAY, OUT, after=PASS_ON), []),  # written elsewhere
        (kernel(IN, OUT, after=PASS_ON), [("overwritten", "%Y")]),
        (kernel(IN, AWAY, BACK, OUT), [("kept", "%T")]),
        (kernel(IN, AWAY, BACK, OUT, BACK), []),  # read twice
        (kernel(IN, AWAY, BACK.replace("%T_tile", "%T_next"), OUT).replace(
            "    copy %X_tile", "    %T_next = view %T, [%b, %c0] {sizes = [8, 1024]} :"
            " global<8, 1024, float32>\n    copy %X_tile"), []),  # another place
        (kernel(IN, ZERO, OUT), [("overwritten", "%Y")]),
        (kernel("if %yes then {", IN, AWAY, BACK, OUT, "} otherwise {", "}"), [("kept", "%T")]),
        (kernel(IN, OUT, before=ZEROS), [("overwritten", "%Y")]),
        (kernel(IN, ADD, before=ZEROS), [("added to", "%Y")]),
        (kernel(IN, OUT.replace("%Y_tile", "%Y_part"), before=ZEROS).replace(
            "    copy %X_tile", "    %Y_part = view %Y, [%first, %c0] {sizes = [8, 512]} :"
            " global<8, 512, float32>\n    copy %X_tile"), []),  # a half keeps its zeros
        (kernel(IN, ZERO, "copy %Y_tile, %held", OUT), []),  # read between
        (kernel(IN, ZERO, ADD), [("added to", "%Y")]),
        (kernel(IN, ZERO.replace("store %z", "store %one").replace(
            "%at =", "%one = constant 1.0 : float32\n %at ="), ADD), []),  # not of zeros
        (kernel(IN, ZERO, ADD.replace("[%to, %w]", "[%to, %c0]")), []),  # a sum of a row
        (kernel(IN, ZERO, IN_LOOP), []),  # a sum of eight
    ],
)  # fmt: skip
def test_what_is_written_for_nothing(text: str, found: list[tuple[str, str]]) -> None:
    """Which tensor, and all of it."""
    held = needless_writes(read(text))
    assert [(each.how, each.tensor) for each in held] == found
    assert all(each.written == SIZE for each in held)
    gone = any(how in ("copied", "passed on", "kept") for how, _ in found) or splits(read(text))
    assert needless_bytes(read(text)) == SIZE * bool(gone)


@pytest.mark.parametrize(
    ("extents", "count"),
    [("4096, 1025", 1), ("4096, 1028", 1), ("4096, 1023", 0), ("4097, 1024", 1)],
)
def test_a_copy_with_longer_rows(extents: str, count: int) -> None:
    """Rows of the input begin at multiples of 16 bytes anyway, and the copy has all of them."""
    text = kernel(BACK, OUT, before=COPY).replace(
        "%T: out global<4096, 1024", f"%T: out global<{extents}"
    )
    assert [each.how for each in needless_writes(read(text))] == ["copied"] * count


def test_a_copy_whose_rows_are_aligned() -> None:
    """Rows of 1,021 floats are padded for wider accesses: that copy may be worth its time."""
    text = kernel(BACK, OUT, before=COPY).replace("%X: global<4096, 1024", "%X: global<4096, 1021")
    assert not needless_writes(read(text))
    assert needless_writes(
        read(text.replace("%T: out global<4096, 1024", "%T: out global<4096, 1022"))
    )


GUARDED = (
    ZERO.replace("%s]", "%s]")
    .replace("      store", "      %low = lt %at, %n : bool\n      if %low then {\n      store")
    .replace("    }", "      } otherwise {\n      }\n    }")
)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("lt %at, %c4096", ["overwritten"]),
        ("lt %at, %c1024", []),  # rows are left out
        ("lt %s, %c4096", ["overwritten"]),  # and columns are fewer
        ("gt %at, %c1024", []),
    ],
)
def test_zeros_below_a_guard_of_the_tensors_ends(condition: str, found: list[str]) -> None:
    """Zeros are all written over: a guard leaves out only indices outside of the tensor."""
    text = kernel(IN, GUARDED.replace("lt %at, %n", condition), before=ZEROS)
    text = text.replace("  %c1024 =", "  %c4096 = constant 4096 : index\n  %c1024 =")
    # Blocks that are numbered in another way, so that their places are not the same.
    text = text.replace("mul %b, %c8", "mul %back, %c8").replace(
        "    %first =",
        "    %c511 = constant 511 : index\n    %back = sub %c511, %b : index\n    %first =",
    )
    assert [each.how for each in needless_writes(read(text)) if each.alone] == found


TURN = """\
  launch [%c512] {threads = [128]} body(%p: index) {
    parallel [%c8, %c1024] body(%i: index, %j: index) {
      %r = mul %p, %c8 : index
      %row = add %r, %i : index
      %v = load %X, [%row, %j] : float32
      store %v, %T, [%j, %row]
    }
  }
"""
ACROSS = """\
parallel [%c8, %c1024] body(%u: index, %w: index) {
      %to = add %first, %u : index
      %n = load %T, [%w, %to] : float32
      store %n, %Y, [%to, %w]
    }"""
ALONG = ACROSS.replace("[%to, %w]", "[%w, %to]").replace("%T, [%w, %to]", "%T, [%to, %w]")


@pytest.mark.parametrize(("reads", "count"), [(ACROSS, 1), (ALONG, 0), ("", 0)])
def test_an_input_with_its_axes_exchanged(reads: str, count: int) -> None:
    """Only where that makes the reads go across rows, and only where something reads it."""
    text = kernel(IN, reads, before=TURN)
    text = text.replace("%T: out global<4096, 1024,", "%T: out global<1024, 4096,")
    held = needless_writes(read(text.replace("%T_tile = view %T", "%T_tile = view %X")))
    assert [each.how for each in held] == ["turned"] * count
    assert all(each.instead == "%X" and each.alone for each in held)


def test_a_tile_that_goes_to_memory_and_back() -> None:
    """By its bytes: 17 MB of 20 µs."""
    made = Made(time=20_000, ir=kernel(IN, AWAY, BACK, OUT), attributes=launch(512))
    finding = only(on_h200(made, PEAKS), "redundant-traffic")
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    part = SIZE / PEAKS["hbm_copy"] * 1e9 / 20_000
    assert finding.kernel_gain.low < 1 / (1 - part) < finding.kernel_gain.high
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 1.15 * part), rel=0.01)


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ((IN, "copy %held, %kept", "copy %kept, %held", OUT), 1),
        ((IN, "copy %held, %kept", "fill %held, %z", "copy %kept, %held", OUT), 0),
        ((IN, "copy %held, %kept", "copy %kept, %held", "copy %kept, %Y_tile"), 0),
    ],
)
def test_copies_there_and_back(body: tuple[str, ...], count: int) -> None:
    """Only where nothing else uses what was copied, or changes what it came from."""
    assert len(round_trips(read(kernel(*body)))) == count


SPREAD = """\
kernel @k(%X: global<64, 512, float32>, %At: global<64, int32>, %Y: out global<64, 512, float32>) {
  %c64 = constant 64 : index
  %c512 = constant 512 : index
  launch [%c64] {threads = [128]} body(%b: index) {
    %wide = alloc shared {shape = [64, 512]} : shared<64, 512, int32>
    %near = alloc fragment {shape = [64]} : fragment<64, int32>
    parallel [%c64, %c512] body(%i: index, %j: index) {
      %n = load %At, [%i] {in_bounds = true} : int32
      store %n, %wide, [%i, %j] {in_bounds = true}
    }
    parallel [%c64, %c512] body(%k: index, %l: index) {
      %row = load %wide, [%k, %l] {in_bounds = true} : int32
      %v = load %X, [%row, %l] {in_bounds = true} : float32
      store %v, %Y, [%k, %l] {in_bounds = true}
    }
  }
}
"""
"""A number for each row, in a tile of as many elements as the rows have."""


@pytest.mark.parametrize(
    ("old", "new", "times"),
    [
        ("", "", [512]),
        ("load %At, [%i]", "load %At, [%j]", [64]),
        ("%n = load %At, [%i] {in_bounds = true}", "%n = cast %j", []),  # from no buffer
        ("store %n, %wide", "%o = add %n, %j : int32\n      store %o, %wide", []),  # all differ
        ("    parallel [%c64, %c512] body(%k", "    copy %wide, %Y\n"
         "    parallel [%c64, %c512] body(%k", []),  # needed as a tile
        ("    parallel [%c64, %c512] body(%k", "    fill %wide, %c64\n"
         "    parallel [%c64, %c512] body(%k", []),  # has other values
    ],
)  # fmt: skip
def test_tiles_whose_rows_are_one_value(old: str, new: str, times: list[int]) -> None:
    """Only where elements are read one by one, and the value depends on fewer indices."""
    tiles = read(SPREAD.replace(old, new) if old else SPREAD)
    assert [each.times for each in spreads(tiles)] == times


def test_rows_that_a_tile_of_equal_numbers_chooses() -> None:
    """A compiler loads them element by element: of 10,000 samples 6,000 are at such loads, or wait
    for them, and that is the tile's doing and not that of its lanes' order."""
    code = [
        ("LDG.E R4, desc[UR6][R4.64]", {"lg_throttle": 2000, "selected": 500}, 0, 0),
        ("STG.E desc[UR6][R6.64], R4", {"long_scoreboard": 3500, "selected": 4000}, 0, 0),
    ]
    said = remark("load X", 0, GlobalAccess(4, 31, 4))
    made = Made(ir=SPREAD, code=code, blames=[(1, "long_scoreboard", 0)], remarks=[said])
    assert not found(program(made), "uncoalesced-global")
    finding = only(program(made), "redundant-work")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid > 1.8
    straight = replace(made, ir=SPREAD.replace("load %wide, [%k, %l]", "load %near, [%k]"))
    assert found(program(straight), "uncoalesced-global")


GATHERED = """\
kernel @k(%X: global<4096, 64, float32>, %At: global<4096, int32>, %Y: global<9000, 64, float32>) {
  %c64 = constant 64 : index
  %z = constant 0.0 : float32
  launch [%c64] {threads = [128]} body(%p: index) {
    %first = mul %p, %c64 : index
    parallel [%c64, %c64] body(%i: index, %j: index) {
      %row = add %first, %i : index
      %to = load %At, [%row] : int32
      store %z, %Y, [%to, %j]
    }
  }
  launch [%c64] {threads = [128]} body(%q: index) {
    %begin = mul %q, %c64 : index
    parallel [%c64, %c64] body(%k: index, %l: index) {
      %at = add %begin, %k : index
      %by = load %At, [%at] : int32
      %v = load %X, [%at, %l] : float32
      store %v, %Y, [%by, %l]
    }
  }
}
"""
"""Rows that data place are set to zero before they are written."""


@pytest.mark.parametrize(
    ("old", "new", "tensors"),
    [
        ("", "", ["%Y"]),
        ("load %At, [%at]", "load %At, [%k]", []),  # other rows
        ("store %v, %Y", "store %by, %At, [%at]\n store %v, %Y", []),  # rows may have changed
    ],
)
def test_zeros_where_data_say(old: str, new: str, tensors: list[str]) -> None:
    """The same numbers, loaded from the same place of what nothing writes, are the same rows."""
    assert [each.tensor for each in needless_writes(read(GATHERED.replace(old, new)))] == tensors


def parts(count: int, read_from: str = "%X") -> str:
    """A copy in so many launches, of which the first has no sum."""
    text = HEAD
    for number in range(count):
        grid = f"%p{number}"
        row = (
            f"%c{number}_1 = constant {64 * number} : index\n%g = add {grid}, %c{number}_1 : index"
        )
        one = COPY.replace("body(%p: index) {", f"body({grid}: index) {{\n{row if number else ''}")
        one = one.replace("mul %p,", f"mul {'%g' if number else grid},").replace("%X", read_from)
        for name in ("%i", "%j", "%r", "%row", "%v", "%g"):
            one = one.replace(f"{name}:", f"{name}_{number}:").replace(
                f"{name},", f"{name}_{number},"
            )
            one = one.replace(f"{name} ", f"{name}_{number} ").replace(
                f"{name}]", f"{name}_{number}]"
            )
        text += one
    return text + "}\n"


def test_launches_that_could_be_one() -> None:
    """Unless one reads what another one writes."""
    (cut,) = cut_launches(read(parts(4)))
    assert (cut.number, cut.count) == (0, 4)
    assert not cut_launches(read(parts(1)))
    assert not cut_launches(read(parts(4, "%T")))
    made = Made(time=60_000, ir=parts(4), attributes=launch(512))
    finding = only(on_h200(made, PEAKS), "small-kernels")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(
        1 / (1 - 3 * (1000 + 0.35 * 15_000 / 4) / 60_000)
    )
