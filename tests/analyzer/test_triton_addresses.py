"""Addresses, loops, atomics and corrected sums of Triton kernels, by their TTGIR."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import FILE, Made, found
from tileprof.analyzer import Finding
from tileprof.analyzer.machine.corrected_sums import correction_lines
from tileprof.analyzer.machine.triton.met_each_time import met_each_time
from tileprof.analyzer.machine.triton.scalar_loops import scalar_loops
from tileprof.analyzer.machine.triton.stored_values import loaded_again
from tileprof.analyzer.machine.triton_addresses import loaded_pointers, ticket_line
from tileprof.profile import PcText

F, P, N = "tensor<64xf32, #b>", "tensor<64x!tt.ptr<f32>, #b>", "tensor<64xi32, #b>"
MODULE = f"""\
module {{
  tt.func public @kernel(%x: !tt.ptr<f32> loc("x"(#loc)), %table: !tt.ptr<i64> loc("t"(#loc))) {{
    %c1 = arith.constant 1 : i32 loc(#loc)
    %c2 = arith.constant 2 : i32 loc(#loc)
    %true = arith.constant true loc(#loc)
    %zero = arith.constant dense<0.000000e+00> : {F} loc(#loc)
    %r = tt.make_range {{end = 64 : i32, start = 0 : i32}} : {N} loc(#loc)
    BODY
    tt.return loc(#loc)
  }} loc(#loc)
}} loc(#loc)
#loc = loc("{FILE}":5:1)
#loc2 = loc("{FILE}":8:3)
#loc3 = loc("{FILE}":9:3)
"""
POINTER = f"""%n = tt.load %table : !tt.ptr<i64> loc(#loc2)
    %p = tt.int_to_ptr %n : i64 -> !tt.ptr<f32> loc(#loc2)
    %q = tt.splat %p : !tt.ptr<f32> -> {P} loc(#loc2)
    %at = tt.addptr %q, %r : {P}, {N} loc(#loc2)
    %v = tt.load %at : {P} loc(#loc3)"""


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("", "", (9,)),
        ("!tt.ptr<f32> loc(#loc2)", "!tt.ptr<f32> {tt.divisibility = 16 : i32} loc(#loc2)", ()),
        ("tt.int_to_ptr %n : i64", "tt.bitcast %x : !tt.ptr<f32>", ()),
        ("%q, %r", "%q, %n", ()),
    ],
    ids=["unknown", "a multiple", "an argument", "a loaded place"],
)
def test_pointers_that_are_loaded_as_numbers(old: str, new: str, lines: tuple[int, ...]) -> None:
    """Accesses behind them have no known alignment, unless the kernel states it."""
    assert loaded_pointers(MODULE.replace("BODY", POINTER.replace(old, new, 1))) == lines


TICKET = f"""%i = tt.atomic_rmw add, acq_rel, gpu, %k, %c1, %true : (!tt.ptr<i32>, i32, i1) -> i32 loc(#loc2)
    %s = tt.splat %i : i32 -> {N} loc(#loc3)"""  # noqa: E501


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (TICKET, 8),
        (TICKET.replace("%c1", "%c2"), 0),
        (TICKET.replace("%i :", "%c1 :"), 0),
        (TICKET + "\n    %j = tt.atomic_cas acq_rel, gpu, %k, %c1, %c2 : i32", 0),
        (f"tt.store %a, %zero : {P} loc(#loc2)\n    {TICKET}", 0),
        (f"scf.for %j = %c1 to %c2 step %c1 : i32 {{\n{TICKET}\n}}", 0),
    ],
    ids=["a number", "steps of two", "unused", "another one waits", "who is last", "in a loop"],
)
def test_numbers_that_programs_take_from_a_counter(text: str, line: int) -> None:
    """Each program takes one, and no program can wait for another."""
    assert ticket_line(MODULE.replace("BODY", text)) == line


SUM = f"""%n = arith.addf %zero, %t : {F} loc(#loc2)
    %g = arith.subf %n, %zero : {F} loc(#loc3)
    %l = arith.subf %g, %t : {F} loc(#loc3)"""


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("", "", (9,)),
        ("%zero, %t", "%t, %zero", (9,)),
        ("%n, %zero", "%n, %t", ()),
        ("%g, %t", "%g, %zero", ()),
        ("addf", "mulf", ()),
    ],
)
def test_corrections_of_sums(old: str, new: str, lines: tuple[int, ...]) -> None:
    """A sum without both of its addends is nothing but the rounding."""
    assert correction_lines(MODULE.replace("BODY", SUM.replace(old, new, 1))) == lines


SEARCH = """%n = scf.for %j = %c1 to %c2 step %c1 iter_args(%s = %c1) -> (i32) : i32 {
      %p = tt.addptr %k, %j : !tt.ptr<i32>, i32 loc(#loc2)
      %e = tt.load %p : !tt.ptr<i32> loc(#loc2)
      %t = arith.addi %s, %e : i32 loc(#loc3)
      scf.yield %t : i32 loc(#loc)
    } loc(#loc)"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", [{8, 9}]),
        ("tt.load %p :", "tt.atomic_rmw add, acq_rel, gpu, %p, %c1 :", []),
        ("arith.addi %s, %e : i32", f"tt.splat %e : i32 -> {N}", []),
        ("tt.load %p :", "arith.addi %j, %j :", []),
    ],
    ids=["numbers", "an atomic", "a tensor", "no load"],
)
def test_loops_over_single_numbers(old: str, new: str, found: list[set[int]]) -> None:
    """One that loads numbers, and does nothing with tensors or for other programs."""
    text = SEARCH.replace(old, new, 1) if old else SEARCH
    assert list(scalar_loops(MODULE.replace("BODY", text))) == found


BACK = f"""%a = tt.splat %x : !tt.ptr<f32> -> {P} loc(#loc)
    %b = tt.splat %x : !tt.ptr<f32> -> {P.replace("#b", "#c")} loc(#loc)
    tt.store %a, %zero : {P} loc(#loc2)
    gpu.barrier loc(#loc)
    %v = tt.load %b : {P.replace("#b", "#c")} loc(#loc3)"""


@pytest.mark.parametrize(
    ("old", "new", "pairs"),
    [
        ("", "", ((8, 9),)),
        ("%b = tt.splat %x", "%b = tt.splat %y", ()),
        ("tt.load %b", "tt.load %b {isVolatile = true}", ()),
        ("gpu.barrier", "%o = tt.atomic_rmw add, acq_rel, gpu, %k, %c1, %true : i32", ()),
    ],
    ids=["another layout", "another tensor", "volatile", "handed over"],
)
def test_values_that_are_stored_and_loaded_again(
    old: str, new: str, pairs: tuple[tuple[int, int], ...]
) -> None:
    """The same pointers in another layout, with nobody in between whom they are stored for."""
    text = BACK.replace(old, new, 1) if old else BACK
    assert loaded_again(MODULE.replace("BODY", text)) == pairs


def test_values_made_of_a_value_twice_take_no_more_room() -> None:
    """Each of 200 numbers is the sum of the one before and itself."""
    sums = "\n".join(
        f"    %s{n} = arith.addi %s{n - 1}, %s{n - 1} : i32 loc(#loc)" for n in range(1, 201)
    )
    text = f"%s0 = arith.constant 1 : i32 loc(#loc)\n{sums}\n    {BACK}"
    assert loaded_again(MODULE.replace("BODY", text)) == loaded_again(MODULE.replace("BODY", BACK))


MOST = f"""scf.for %j = %c1 to %c2 step %c1 : i32 {{
      %m = "tt.reduce"(%zero) <{{axis = 0 : i32}}> ({{
      ^bb0(%u: f32 loc(#loc), %w: f32 loc(#loc)):
        tt.reduce.return %u : f32 loc(#loc)
      }}) : ({F}) -> f32 loc(#loc2)
      %i = tt.bitcast %m : f32 -> i32 loc(#loc2)
      %o = tt.atomic_rmw max, acq_rel, gpu, %k, %i, %true : (!tt.ptr<i32>, i32, i1) -> i32 loc(#loc2)
    }} loc(#loc)"""  # noqa: E501


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        ("", "", [8]),
        ("max,", "exch,", []),
        ("gpu, %k, %i", "gpu, %k, %c1", []),
        ("gpu, %k, %i", "gpu, %j, %i", []),
        ("    } loc(#loc)", "      %s = arith.addi %o, %c1 : i32 loc(#loc)\n    } loc(#loc)", []),
    ],
    ids=["a maximum", "an exchange", "no reduction", "another place each time", "used"],
)
def test_reductions_for_an_atomic_in_each_iteration(old: str, new: str, lines: list[int]) -> None:
    """Each iteration joins what it reduced with one number, and nothing uses what was there."""
    text = MOST.replace(old, new, 1) if old else MOST
    assert [each.line for each in met_each_time(MODULE.replace("BODY", text))] == lines


CODE = [
    ("S2R R0, SR_TID.X", {"selected": 6000}, 0, 5),
    ("ATOMG.E.ADD R3, desc[UR4][R2.64], R5", {"selected": 100}, 1, 8),
    ("IADD3 R4, R3, R0, RZ", {"long_scoreboard": 2000}, 1, 8),
    ("@P0 BRA 0x10", {"selected": 20}, 1, 7),
    ("LDG.E.U16 R6, desc[UR4][R4.64]", {"long_scoreboard": 1000}, 0, 9),
    ("FADD R7, R6, R7", {"selected": 900}, 0, 9),
    ("EXIT", {}, 0, 10),
]


def told(rule: str, text: str) -> list[Finding]:
    """Suggestions of a rule for a kernel with such a module."""
    profile = on_h200(Made(attributes=launch(4096, 8), code=CODE))
    pc = profile.tables.pc
    functions = tuple(replace(each, module="f" * 64) for each in pc.functions)
    texts = {("f" * 64, "ttgir"): PcText.of(MODULE.replace("BODY", text))}
    kept = replace(pc, functions=functions, texts=texts)
    profile = replace(profile, tables=replace(profile.tables, pc=kept))
    return [each for each in found(profile, rule) if each.severity == "suggestion"]


@pytest.mark.parametrize(
    ("rule", "text", "title", "line"),
    [
        ("atomic-traffic", TICKET, "programs take their number from a counter", 8),
        ("narrow-access", POINTER, "a pointer is loaded as a number", 9),
        ("redundant-work", SUM, "a sum is corrected for its rounding", 9),
        ("redundant-work", SEARCH, "each program goes through memory number by number", 8),
        ("early-reduction", MOST, "a loop reduces a tile to one number for an atomic", 8),
    ],
)
def test_findings_on_such_kernels(rule: str, text: str, title: str, line: int) -> None:
    """Each has a gain and names its line; without the cause nothing is said."""
    (said,) = told(rule, text)
    assert said.title.startswith(title)
    assert said.place.location is not None
    assert said.place.location.line == line
    assert said.kernel_gain is not None
    assert said.kernel_gain.mid > 1.03
    assert not told(rule, "")
