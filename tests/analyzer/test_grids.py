"""Grids that do work twice, launches that are parts of one, and blocks that walk their tiles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only
from tileprof.analyzer.machine.program_ids import programs_alike
from tileprof.analyzer.program.split_launches import Split, split_launch, splits
from tileprof.analyzer.tiles.masked_loops import masked_loops
from tileprof.analyzer.tiles.walks import walk_of
from tileprof.errors import Location
from tileprof.profile import LaunchVariant, NumberArgument, PcText, Profile, TensorArgument
from tileprof.profile.storage.ir_text import read

# -- programs of a Triton grid

TTGIR = """\
module attributes {{"ttg.num-ctas" = 1 : i32}} {{
  tt.func public @add(%x: !tt.ptr<f32> loc("x"(#loc)), %n: i32 loc("n"(#loc))) {{
    %c2_i32 = arith.constant 2 : i32 loc(#loc1)
    %c-1_i32 = arith.constant -1 : i32 loc(#loc1)
    %c64_i32 = arith.constant 64 : i32 loc(#loc1)
    %pid = tt.get_program_id x : i32 loc(#loc2)
    %row = tt.get_program_id y : i32 loc(#loc2)
    {}
    %at = tt.splat %first : i32 -> tensor<64xi32, #blocked> loc(#loc4)
    %p = tt.addptr %x, {} : !tt.ptr<f32>, i32 loc(#loc5)
    tt.store %p, %at : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc6)
  }}
}}
"""
HALF = (
    "%half = arith.divsi %pid, %c2_i32 : i32 loc(#loc3)\n"
    "    %first = arith.muli %half, %c64_i32 : i32 loc(#loc3)"
)


@pytest.mark.parametrize(
    ("text", "row", "alike"),
    [
        (HALF, "%row", 2),
        (HALF, "%x", 16),  # 2 of each row, and 8 rows, of which nothing asks for the number
        (HALF, "%pid", 8),
        (HALF.replace("divsi", "remsi"), "%row", 4),
        (HALF.replace("divsi", "muli"), "%row", 1),
        (HALF.replace("%pid, %c2_i32", "%pid, %n"), "%row", 1),  # known at launch only
        ("%first = arith.maxsi %pid, %c2_i32 : i32 loc(#loc3)", "%row", 8 / 6),
        ("%s = arith.cmpi slt, %pid, %c2_i32 : i32\n"
         "    %first = arith.select %s, %c2_i32, %c64_i32 : i32", "%row", 4),
        ("%m = arith.subi %pid, %c64_i32 : i32\n"
         "    %first = arith.divsi %m, %c-1_i32 : i32", "%row", 1),
    ],
)  # fmt: skip
def test_programs_that_agree_in_all_that_is_used(text: str, row: str, alike: float) -> None:
    """Programs of a grid of 8 by 8 are alike in each axis whose number the kernel does not use."""
    assert programs_alike(TTGIR.format(text, row), (8, 8, 1)) == pytest.approx(alike)


def test_programs_whose_number_counts_otherwise() -> None:
    """Atomic operations count each program; a loop's bound, and another function, may use it."""
    text = TTGIR.format(HALF, "%row")
    assert programs_alike(text.replace("tt.store", "tt.atomic_rmw"), (8, 8)) == 1
    assert programs_alike(text.replace("tt.store %p", "tt.store %pid"), (8, 8)) == 1
    assert programs_alike(text + text, (8, 8)) == 1
    assert programs_alike(text, (1, 1)) == 1


def with_ttgir(blocks: int, text: str, held: int = 8, **samples: int) -> Profile:
    """A kernel of an H200 whose module has this text."""
    code = [("FFMA R0, R0, R1, R2", samples or {"wait": 1000}, 0, 5)]
    made = Made(attributes=launch(blocks, held), code=code, metrics={"bytes": 1e6})
    profile = on_h200(made, {"hbm_copy": 4e12})
    pc = profile.tables.pc
    functions = tuple(replace(each, module="f" * 64) for each in pc.functions)
    kept = replace(pc, functions=functions, texts={("f" * 64, "ttgir"): PcText.of(text)})
    return replace(profile, tables=replace(profile.tables, pc=kept))


def test_programs_whose_atomics_change_nothing_the_second_time() -> None:
    """A maximum is the same when it is joined twice; a sum is not, nor what an atomic gave back."""
    text = TTGIR.format(HALF, "%row")
    atomic = "%old = tt.atomic_rmw max, acq_rel, gpu, %p, %at, %m"
    joined = text.replace("tt.store %p, %at", atomic)
    assert programs_alike(joined, (8, 8)) == 2
    assert programs_alike(joined.replace("rmw max", "rmw add"), (8, 8)) == 1
    assert programs_alike(joined.replace("  }", "    tt.store %p, %old : f\n  }"), (8, 8)) == 1


def test_gain_of_programs_that_do_the_same() -> None:
    """Nearly half of many waves goes; where the rest runs at once, less is likely."""
    text = TTGIR.format(HALF, "%x")
    many, few = (only(with_ttgir(n, text), "redundant-work") for n in (132 * 8 * 20, 132 * 8))
    assert many.kernel_gain is not None
    assert few.kernel_gain is not None
    assert many.kernel_gain.mid == pytest.approx(1 / (1 - 0.9 / 2))
    assert few.kernel_gain.mid < 1.4
    # Where schedulers set the time of what runs at once, they have half as much to issue.
    busy = {"selected": 1000, "wait": 1000, "wait_not_issued": 50}
    full = only(with_ttgir(132 * 8, text, **busy), "redundant-work")
    assert full.kernel_gain is not None
    assert full.kernel_gain.mid == pytest.approx(2, rel=0.05)
    assert "2 programs" in many.title
    assert not found(with_ttgir(4096, text.replace("divsi", "addi")), "redundant-work")


# -- launches in a loop

LAUNCHES = """\
@triton.jit
def scale(x_ptr, out_ptr, rows, part, block: tl.constexpr):
    row = tl.program_id(0) + part * tl.num_programs(0)
    at = x_ptr + row * block
    held = tl.load(at + tl.arange(0, block))
    tl.store(out_ptr + row * block + tl.arange(0, block), held * 2)

def run(x, out, rows):
    parts = 8 if rows % 8 == 0 else 1
    for part in range(parts):
        scale[(rows // parts,)](x, out, rows, part, 128)
"""
CALL = "(x, out, rows, part, 128)"


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 8),
        ("range(parts)", "range(4)", 4),
        ("range(parts)", "range(rows // 32)", 0),
        (CALL, "(x[part], out[part], rows, 0, 128)", 8),
        (CALL, "(x, out, rows, part=part, block=128)", 8),
    ],
)
def test_launches_that_a_loop_cuts(old: str, new: str, count: int) -> None:
    """However the part is given; the text may not say how many there are."""
    found = split_launch(LAUNCHES.replace(old, new), "scale")
    parameter = "" if "x[part]" in new else "part"
    assert found == Split(11, 11, "part", count, "range(parts)" not in old, parameter)


@pytest.mark.parametrize(
    ("head", "body", "count"),
    [
        ("one, other in zip(x.chunk(8), out.chunk(8))", ["CALL(one, other, rows, 0, 128)"], 8),
        ("n, one in enumerate(torch.split(x, 64))", ["CALL(one, out[n], rows, 0, 128)"], 0),
        ("first in range(0, rows, 64)",
         ["last = min(first + 64, rows)", "one, other = x[first:last], out.narrow(0, first, 64)",
          "with torch.cuda.device(x.device):", "    CALL(one, other.view(-1), rows, 0, 128)"], 0),
    ],
    ids=["chunks", "numbered parts", "slices"],
)  # fmt: skip
def test_launches_on_parts_that_have_names(head: str, body: list[str], count: int) -> None:
    """Chunks, and slices between numbers that the loop works out; not a part of one tensor that
    another launch stores to."""
    lines = [each.replace("CALL", "scale[(rows // 8,)]") for each in (f"for {head}:", *body)]
    before = LAUNCHES.partition("    parts =")[0]
    text = before + "\n".join([f"    {lines[0]}", *(f"        {each}" for each in lines[1:])])
    found = split_launch(text, "scale")
    assert found is not None
    assert found.count == count
    assert split_launch(text.replace("out", "x"), "scale") is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CALL, "(x, x, rows, part, 128)"),  # it may load what an earlier launch stored
        (CALL, "(x, out, rows, 0, 128)"),  # the same again, as a benchmark does
        (CALL, "(x, out, part, 0, 128)"),  # another number, and the same places
        (CALL, "(*both, rows, part, 128)"),
        ("        scale", "        x = later(x)\n        scale"),
        ("in range(parts)", "in (x, out)"),
        ("held * 2)", "held * 2)\n    tl.atomic_cas(out_ptr, 0, 1)"),
        ("@triton.jit\n", ""),
    ],
)
def test_launches_that_stay_apart(old: str, new: str) -> None:
    """Nothing is said."""
    assert split_launch(LAUNCHES.replace(old, new), "scale") is None
    assert split_launch("def (", "scale") is None


@pytest.mark.parametrize(
    ("blocks", "lost"),
    [(132 * 8 * 8, 1000 + 0.35 * 10_000 / 8), (33, 10_000 * (1 - 2**0.5 / 8))],
)
def test_gain_of_launches_that_could_be_one(blocks: int, lost: float) -> None:
    """A launch loses a part of a wave's time; where its blocks fill a quarter of the device, eight
    of them together take between the time of one and of two."""
    made = Made(name="scale", time=80_000, launches=8, attributes=launch(blocks, 8))
    profile = on_h200(made)
    profile = replace(profile, tables=replace(profile.tables, sources={"run.py": LAUNCHES}))
    finding = only(profile, "small-kernels")
    assert finding.kernel_gain is not None
    assert finding.place.location is not None
    most = 1 / (1 - (7 / 8 if blocks > 132 else 1) * lost / 10_000)
    assert finding.kernel_gain.mid == pytest.approx(most)
    assert (finding.title[:2], finding.place.location.line) == ("8 ", 11)


def test_a_loop_that_may_have_run_once() -> None:
    """Triton compiles a function of its own for part 1: without one, there was one launch."""
    code = [("FFMA R0, R0, R1, R2", {"wait": 1000}, 0, 5)]
    profile = on_h200(Made(name="scale", attributes=launch(132 * 8), code=code))
    told = []
    for text in (LAUNCHES, LAUNCHES.replace("range(parts)", "range(8)")):
        tables = replace(profile.tables, sources={"run.py": text})
        told.append(bool(found(replace(profile, tables=tables), "small-kernels")))
    assert told == [False, True]


def scaled(x: int, out: int, first: float, last: float, looked_at: int = 4) -> LaunchVariant:
    """Launches of `scale` that were seen: numbers of its tensors' memory, and its parts."""
    memories = {"x_ptr": x, "out_ptr": out}
    tensors = (TensorArgument(name, "float32", 64, 4, at) for name, at in memories.items())
    part = NumberArgument("part", first, last)
    return LaunchVariant("scale", Location("run.py", 11), looked_at, 0, (*tensors, part))


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        ((), (0, False)),
        ((scaled(0, 1, 0, 2), scaled(0, 1, 3, 6)), (7, False)),
        ((scaled(0, 0, 0, 6),), None),
        ((scaled(0, 1, 5, 5),), None),
        ((scaled(0, 1, 0, 0, looked_at=1),), (0, False)),
        ((replace(scaled(0, 0, 0, 6), others=1),), (0, False)),
        ((replace(scaled(0, 0, 0, 6), kernel="other"),), (0, False)),
    ],
    ids=["none", "ranges together", "one memory", "one part", "one launch", "not all", "other"],
)
def test_loops_whose_launches_were_seen(
    seen: tuple[LaunchVariant, ...], expected: tuple[int, bool] | None
) -> None:
    """They say how many parts there are, and which loops stay: those over one memory or part."""
    text = LAUNCHES.replace("range(parts)", "range(rows // 32)")
    told = [(each.count, each.may_be_one) for _, each in splits({"run.py": text}, seen, "scale")]
    assert told == ([expected] if expected else [])


# -- loops and blocks of tile kernels

WALK = """\
kernel @walk(%X: global<{rows}, 256, float32>, %Y: out global<{rows}, 256, float32>) {{
  %c4 = constant 4 : index
  launch [%c4] {{threads = [256]}} body(%b: index) {{
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c16 = constant 16 : index
    %c256 = constant 256 : index
    %c512 = constant 512 : index
    %kept = alloc fragment {{shape = [256]}} : fragment<256, float32>
    for serial %c0, %c16, %c1 body(%i: index) {{
      %0 = mul %b, %c16 : index
      %y = add %0, %i : index
      parallel [%c512] body(%j: index) {{
        %in = lt %j, %c256 : bool
        if %in then {{
          %2 = load %X, [%y, %j] : float32
          store %2, %Y, [%y, %j]
        }} otherwise {{
        }}
      }}
    }}
  }}
}}
"""


def test_blocks_that_walk_independent_tiles() -> None:
    """16 iterations each; 64 in all, of which a tensor of 16 rows has a quarter."""
    walk = walk_of(read(WALK.format(rows=64)))
    assert walk is not None
    assert (walk.turns, walk.outside) == (16, 0)
    walk = walk_of(read(WALK.format(rows=16)))
    assert walk is not None
    assert walk.outside == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("load %X, [%y, %j]", "load %Y, [%y, %j]"),
        ("store %2, %Y, [%y, %j]", "%3 = load %kept, [%j] : float32\n          %4 = add %2, %3 :"
         " float32\n          store %4, %kept, [%j]\n          store %4, %Y, [%y, %j]"),
        ("for serial", "for pipelined"),
        ("%c16 = constant 16", "%c16 = constant 1"),
        ("      parallel", "      %z = constant 0.0 : float32\n      parallel"),
    ],
)  # fmt: skip
def test_iterations_that_need_one_another(old: str, new: str) -> None:
    """Iterations stay in one block if one reads what an earlier one wrote; a buffer that each sets
    up anew does not keep them there."""
    walk = walk_of(read(WALK.format(rows=64).replace(old, new)))
    assert (walk is not None) == new.startswith("      %z")


def test_gain_of_a_block_for_each_tile() -> None:
    """A quarter of a block's time in three waves; tiles outside go as well, and are told once."""
    code = [("FFMA R0, R0, R1, R2", {"wait": 1000}, 1, 10)]
    gains = []
    for rows in (64, 16):
        made = Made(ir=WALK.format(rows=rows), attributes=launch(132 * 6, 2), code=code)
        finding = only(on_h200(made), "tail-wave")
        assert finding.kernel_gain is not None
        gains.append(finding.kernel_gain.mid)
    assert not any("outside" in each.title for each in found(on_h200(made), "wasted-lanes"))
    assert 1.05 < gains[0] < 1.15
    assert gains[1] > 3


@pytest.mark.parametrize(("issued", "least", "most"), [(300, 1.9, 2.1), (990, 1.0, 1.01)])
def test_gain_of_blocks_for_tiles_where_half_of_the_places_are_free(
    issued: int, least: float, most: float
) -> None:
    """Gain at most the cycles in which no warp issues, where twice as many warps are there."""
    waits = {"wait": 1000 - issued, "wait_not_issued": 1000 - issued, "selected": issued}
    code = [("FFMA R0, R0, R1, R2", waits, 1, 10)]
    made = Made(ir=WALK.format(rows=64), attributes=launch(132 * 4, 8), code=code)
    gains = [each.kernel_gain.mid for each in found(on_h200(made), "tail-wave") if each.kernel_gain]
    assert least <= max(gains, default=1.0) <= most


def test_elements_that_a_condition_leaves_out() -> None:
    """Half of 512, of either half; none where something else is done for them, or all pass."""
    text = WALK.format(rows=64)
    (loop,) = masked_loops(read(text))
    assert (loop.extents, loop.inside, loop.part) == ((512,), (256,), 0.5)
    assert not masked_loops(read(text.replace("%j, %c256", "%j, %c512")))
    (upper,) = masked_loops(read(text.replace("%j, %c256", "%c256, %j")))
    assert upper.inside == (255,)
    other = "otherwise {\n          store %z, %Y, [%y, %j]\n"
    other = text.replace("otherwise {\n", other).replace(
        "    %c0 =", "    %z = constant 0.0 : float32\n    %c0 ="
    )
    assert not masked_loops(read(other))


def test_gain_of_a_loop_without_elements_to_leave_out() -> None:
    """A loop that leaves elements out gains its share of issued instructions where blocks wait in
    turn, and all of its time where all run at once."""
    code = [("FFMA R0, R0, R1, R2", {"wait": 500, "wait_not_issued": 500, "selected": 500}, 1, 1)]
    gains = []
    for blocks in (132 * 64, 132):
        text = WALK.format(rows=64).replace("64, 256", "64, 512")  # columns of the tensors
        made = Made(ir=text, attributes=launch(blocks, 8), code=code)
        told = [e for e in found(on_h200(made), "wasted-lanes") if "condition" in e.title]
        gains += [each.kernel_gain.mid if each.kernel_gain else 1.0 for each in told]
    assert len(gains) == 2
    assert gains[0] <= gains[1]
