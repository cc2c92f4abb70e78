"""Loops of Triton kernels that go on without work, or ask threads what numbers tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import FILE, Made, found
from tileprof.analyzer import Finding
from tileprof.analyzer.machine.idle_iterations import IdleLoop, idle_loops
from tileprof.analyzer.machine.place_checks import place_checks, wide_axes
from tileprof.analyzer.program.triton.kernels import triton_kernels
from tileprof.errors import Location
from tileprof.profile import LaunchVariant, NumberArgument, PcText

T, B = "tensor<64xi32, #b>", "tensor<64xi1, #b>"
WHILE = f"""\
module {{
  tt.func public @find(%x: !tt.ptr<i32> loc("x"(#loc)), %n: i32 loc("n"(#loc))) {{
    %zero = arith.constant dense<0> : {T} loc(#loc)
    %one = arith.constant dense<1> : {T} loc(#loc)
    %true = arith.constant dense<true> : {B} loc(#loc)
    %c0 = arith.constant 0 : i32 loc(#loc)
    %c1 = arith.constant 1 : i32 loc(#loc)
    %at = tt.make_range {{end = 64 : i32, start = 0 : i32}} : {T} loc(#loc)
    %far = tt.splat %n : i32 -> {T} loc(#loc)
    %real = arith.cmpi slt, %at, %far : {B} loc(#loc)
    %p = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #b> loc(#loc)
    %k:3 = scf.while (%g = %real, %sum = %zero, %i = %c0) : ({B}, {T}, i32) -> ({B}, {T}, i32) {{
      %few = arith.cmpi slt, %i, %n : i32 loc(#loc2)
      ASKS
      scf.condition(%go) %g, %sum, %i : {B}, {T}, i32 loc(#loc2)
    }} do {{
    ^bb0(%g: {B} loc("k"(#loc4)), %sum: {T} loc("k"(#loc4)), %i: i32 loc("k"(#loc4))):
      %q = tt.addptr %p, %at : tensor<64x!tt.ptr<i32>, #b>, {T} loc(#loc3)
      %v = tt.load %q, %g, %zero : tensor<64x!tt.ptr<i32>, #b> loc(#loc3)
      %more = arith.cmpi sgt, %v, %zero : {B} loc(#loc3)
      NEXT
      ADDS
      %j = arith.addi %i, %c1 : i32 loc(#loc3)
      scf.yield %g2, %sum2, %j : {B}, {T}, i32 loc(#loc3)
    }} loc(#loc6)
    tt.store %p, %k#1, %real : tensor<64x!tt.ptr<i32>, #b> loc(#loc)
    tt.return loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc = loc("{FILE}":5:1)
#loc2 = loc("{FILE}":9:3)
#loc3 = loc("v"(#loc5))
#loc4 = loc("{FILE}":10:3)
#loc5 = loc("{FILE}":11:3)
#loc6 = loc("k"(#loc2))
"""
ALONE = "%go = arith.andi %few, %few : i1"
ASKED = f"""%w = arith.extui %g : {B} to {T}
      %any = "tt.reduce"(%w) <{{axis = 0 : i32}}> ({{
      ^bb0(%a: i32 loc(callsite(#loc2 at #loc2)), %b: i32 loc(callsite(#loc2 at #loc2))):
        %m = arith.maxsi %a, %b : i32 loc(#loc2)
        tt.reduce.return %m : i32 loc(#loc2)
      }}) : ({T}) -> i32 loc(#loc2)
      %some = arith.cmpi sgt, %any, %c0 : i32 loc(#loc2)
      %go = arith.andi %few, %some : i1 loc(#loc2)"""
LOSES = f"%g2 = arith.andi %g, %more : {B}"
COUNTS = f"%e = arith.extui %g2 : {B} to {T}\n      %sum2 = arith.addi %sum, %e : {T}"
CHOSEN = f"%sum2 = arith.select %g2, %v, %sum : {B}, {T}"


def loop(asks: str = ALONE, next_: str = LOSES, adds: str = COUNTS) -> str:
    """A module with a loop that carries a mask, a result and a counter."""
    return WHILE.replace("ASKS", asks).replace("NEXT", next_).replace("ADDS", adds)


@pytest.mark.parametrize(
    ("text", "idle"),
    [
        (loop(), True),
        (loop(adds=CHOSEN), True),
        (loop(ASKED), False),
        (loop(next_=f"%g2 = arith.ori %g, %real : {B}"), False),
        (loop(next_=f"%g2 = arith.xori %more, %true : {B}"), False),
        (loop(adds=f"%sum2 = arith.addi %sum, %one : {T}"), False),  # counts all iterations
        (loop(adds=COUNTS + "\n      tt.store %q, %v, %g2 : tensor<64x!tt.ptr<i32>, #b>"), True),
        (loop(adds=COUNTS + "\n      tt.store %q, %v, %real : tensor<64x!tt.ptr<i32>, #b>"), False),
        (loop(adds=COUNTS + "\n      %a = tt.atomic_rmw add, acq_rel, gpu, %q, %v, %g2 : i32"),
         False),
    ],
    ids=["counted", "chosen", "asked", "comes back", "anew", "all", "masked", "stores", "adds"],
)  # fmt: skip
def test_loops_that_go_on_without_work(text: str, idle: bool) -> None:
    """An empty mask stays empty, and no result changes; the loop asks for it, or not."""
    assert idle_loops(text) == ((IdleLoop(9, 11),) if idle else ())


def test_flag_that_says_what_is_done() -> None:
    """A mask that only gains elements, the complement of which is what there is to do."""
    text = loop(
        next_=f"%g2 = arith.ori %g, %more : {B}",
        adds=f"%r = arith.xori %g2, %true : {B}\n      %e = arith.extui %r : {B} to {T}\n"
        f"      %sum2 = arith.addi %sum, %e : {T}",
    )
    assert len(idle_loops(text)) == 1


FOR = f"""\
module {{
  tt.func public @add(%x: !tt.ptr<i32> loc("x"(#loc)), %n: i32 loc("n"(#loc))) {{
    %zero = arith.constant dense<0> : {T} loc(#loc)
    %c0 = arith.constant 0 : i32 loc(#loc)
    %c64 = arith.constant 64 : i32 loc(#loc)
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : {T} loc(#loc)
    %far = tt.splat %n : i32 -> {T} loc(#loc)
    %p = tt.splat %x : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>, #b> loc(#loc)
    %all = scf.for %i = %c0 to %n step %c64 iter_args(%sum = %zero) -> ({T})  : i32 {{
      %s = tt.splat %i : i32 -> {T} loc(#loc2)
      %at = arith.addi %s, %r : {T} loc(#loc2)
      %q = tt.addptr %p, %at : tensor<64x!tt.ptr<i32>, #b>, {T} loc(#loc2)
      %ok = arith.cmpi slt, ASKED, %far : {B} loc(#loc2)
      %w = arith.extui %ok : {B} to {T}
      %any = "tt.reduce"(%w) <{{axis = 0 : i32}}> ({{
      ^bb0(%a: i32 loc(callsite(#loc2 at #loc2)), %b: i32 loc(callsite(#loc2 at #loc2))):
        %m = arith.maxsi %a, %b : i32 loc(#loc2)
        tt.reduce.return %m : i32 loc(#loc2)
      }}) : ({T}) -> i32 loc(#loc2)
      %some = arith.cmpi sgt, %any, %c0 : i32 loc(#loc2)
      %new = scf.if %some -> ({T}) {{
        %v = tt.load %q, %ok, %zero : tensor<64x!tt.ptr<i32>, #b> loc(#loc3)
        %t = arith.addi %sum, %v : {T} loc(#loc3)
        scf.yield %t : {T} loc(#loc3)
      }} else {{
        scf.yield %sum : {T} loc(#loc3)
      }} loc(#loc2)
      scf.yield %new : {T} loc(#loc3)
    }} loc(#loc3)
    tt.store %p, %all, MASK : tensor<64x!tt.ptr<i32>, #b> loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc = loc("{FILE}":5:1)
#loc2 = loc("{FILE}":9:3)
#loc3 = loc("{FILE}":10:3)
"""


@pytest.mark.parametrize(
    ("asked", "lines"), [("%at", (9,)), ("%sum", ())], ids=["places", "what was loaded"]
)
def test_branches_that_places_decide(asked: str, lines: tuple[int, ...]) -> None:
    """A reduction asks threads what the loop's counter tells; not where data are asked."""
    assert place_checks(FOR.replace("ASKED", asked).replace("MASK", "%ok")) == lines


ROWS = f"""\
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : {T} loc(#loc)
    %far = tt.splat %n : i32 -> {T} loc(#loc)
    %ok = arith.cmpi slt, %r, %far : {B} loc(#loc)
    %v = tt.load %p, %ok, %zero : tensor<64x!tt.ptr<i32>, #b> loc(#loc)
    tt.store %p, %v, %ok : tensor<64x!tt.ptr<i32>, #b> loc(#loc)
#loc = loc("{FILE}":5:1)
"""


@pytest.mark.parametrize(
    ("n", "needed"), [(32, 32), (17, 32), (33, None), (64, None), (3, 4), (0, None)]
)
def test_axes_that_reach_too_far(n: int, needed: int | None) -> None:
    """Half of a tile's power of two is enough, or it is not."""
    found_ = [each.needed for each in wide_axes(ROWS, {"n": n} if n else {})]
    assert found_ == ([] if needed is None else [needed])


def test_axis_that_few_accesses_are_masked_by() -> None:
    """Other accesses have all elements of their tiles."""
    more = "    tt.store %p, %v : tensor<64x!tt.ptr<i32>, #b> loc(#loc)\n" * 2
    assert not wide_axes(more + ROWS, {"n": 32})


CODE = [
    ("S2R R0, SR_TID.X", {"selected": 1000}, 0, 5),
    ("REDUX.MAX.S32 UR4, R0", {"selected": 1000}, 1, 9),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", {"barrier": 1000}, 1, 9),
    ("@P0 BRA 0x60", {"selected": 1000}, 1, 9),
    ("LDG.E R4, desc[UR4][R2.64]", {"selected": 1000}, 1, 10),
    ("IADD3 R5, R4, R5, RZ", {"long_scoreboard": 4000}, 1, 10),
    ("@P1 BRA 0x10", {"selected": 1000}, 1, 10),
    ("EXIT", {}, 0, 11),
]


def told(rule: str, text: str, n: float = 64.0) -> list[Finding]:
    """Return the findings of a rule for a kernel with this TTGIR, launched with a number."""
    profile = on_h200(
        Made(attributes=launch(4096, 8), code=CODE, blames=[(5, "long_scoreboard", 4)])
    )
    pc = profile.tables.pc
    functions = tuple(replace(each, module="f" * 64) for each in pc.functions)
    kept = replace(pc, functions=functions, texts={("f" * 64, "ttgir"): PcText.of(text)})
    seen = LaunchVariant("kernel", Location(FILE, 1), 4, 0, (NumberArgument("n", n, n),))
    return found(replace(profile, tables=replace(profile.tables, pc=kept, launches=(seen,))), rule)


def test_findings_on_such_kernels() -> None:
    """Each names its line, and has a gain."""
    lines = {}
    cases = (
        ("wasted-lanes", loop(), 64.0),
        ("early-reduction", FOR.replace("ASKED", "%at").replace("MASK", "%ok"), 64.0),
        ("wasted-lanes", ROWS, 32.0),
    )
    for rule, text, n in cases:
        (said,) = told(rule, text, n)
        assert said.severity == "suggestion"
        assert said.kernel_gain is not None
        assert said.kernel_gain.mid > 1.05
        assert said.place.location is not None
        lines[said.title] = said.place.location.line
    assert lines == {
        "a loop goes on after the condition of all that it does is false": 9,
        "a loop reduces a mask across threads in each iteration to learn what its bounds say": 9,
        "50 % of the lanes work on elements that a guard excludes": 5,
    }
    assert not told("wasted-lanes", loop(ASKED))
    assert not told("wasted-lanes", ROWS, 64.0)


KERNEL = """\
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, rows, out, n, block: tl.constexpr):
    at = tl.arange(0, block)
    wanted = tl.load(rows + at)
    {}
    tl.store(out + at, held, mask=at < n)
"""


@pytest.mark.parametrize(
    ("body", "partly"),
    [
        ("held = tl.load(x + at, mask=at < n)", set()),
        ("held = tl.load(x + at, mask=wanted > 0)", {"x"}),
        ("held = tl.load(x + at, mask=wanted > 0) + tl.load(x + n + at)", set()),
        ("held = wanted\n    while tl.max(held, 0) > 0:\n        held = tl.load(x + at)", {"x"}),
        ("held = wanted\n    for i in range(n):\n        held += tl.load(x + at + i)", set()),
        ("held = wanted\n    for i in range(tl.load(y)):\n        held += tl.load(x + at + i)",
         {"x"}),
    ],
    ids=["bound", "mask", "both", "while", "for", "length"],
)  # fmt: skip
def test_tensors_that_data_leave_a_part_of(body: str, partly: set[str]) -> None:
    """Masks and loops that depend on loaded values decide how much of a tensor is read."""
    (kernel,) = triton_kernels(KERNEL.format(body))
    assert set(kernel.partly) == partly
