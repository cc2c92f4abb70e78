"""Samples of a kernel's code, against sums made by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analyzer.made import Made, program, stored
from tileprof.analyzer import analyze
from tileprof.analyzer.cases import Program
from tileprof.analyzer.machine.code import KernelCode, opcode_of
from tileprof.analyzer.machine.repeats import parsed

Code = list[tuple[str, dict[str, int], int, int]]
REASONS = ("selected", "wait", "long_scoreboard")
instructions = st.tuples(
    st.sampled_from(["LDG.E R0, [R2]", "@!P0 BRA 0x40", "FFMA R0, R1, R2, R3"]),
    st.dictionaries(st.sampled_from(REASONS), st.integers(1, 1000)),
    st.integers(0, 2),
    st.integers(1, 9),
)
codes = st.lists(instructions, min_size=1, max_size=8).filter(
    lambda code: any(samples for _, samples, _, _ in code)
)


def code_of(made: Made) -> KernelCode:
    """The code of a program's one kernel."""
    (case,) = Program(program(made)).kernels
    assert case.code is not None
    return case.code


@pytest.mark.parametrize(
    ("text", "opcode"),
    [
        ("LDS.128 R0, [R1]", "LDS.128"),
        ("@!P0 BRA 0x40", "BRA"),
        ("@UP1 UIADD3 UR4, UR4, 0x1, URZ", "UIADD3"),
        ("@P3 STG.E desc[UR6][R2.64], R7", "STG.E"),
        ("EXIT", "EXIT"),
    ],
)
def test_opcodes(text: str, opcode: str) -> None:
    """Without the predicate, with modifiers."""
    assert opcode_of(text) == opcode


@given(codes, st.sets(st.integers(0, 7)), st.sets(st.sampled_from(REASONS)))
def test_sums(code: Code, where: set[int], reasons: set[str]) -> None:
    """Of chosen instructions and reasons."""
    held = code_of(Made(code=code))
    where &= set(range(len(code)))
    chosen = [(i, r, n) for i, (_, samples, _, _) in enumerate(code) for r, n in samples.items()]
    assert held.whole == sum(n for _, _, n in chosen)
    assert held.issued == sum(n for _, r, n in chosen if r == "selected")
    assert held.n(where, reasons) == sum(n for i, r, n in chosen if i in where and r in reasons)
    assert held.n(where) == sum(held.by_reason(where).values())
    assert held.taken(held.rows(where)).sum() == held.n(where)


def test_who_waits_for_several_has_a_part_of_each() -> None:
    """300 samples of waiting for two loads, one of which is asked about."""
    loads: Code = [("LDG.E R0, [R2]", {}, 1, 1), ("LDG.E R1, [R3]", {}, 1, 2)]
    use = ("FFMA R0, R0, R1, R3", {"long_scoreboard": 300, "selected": 50}, 1, 3)
    waits = [(2, "long_scoreboard", 0), (2, "long_scoreboard", 1)]
    code = code_of(Made(code=[*loads, use], blames=waits))
    assert code.waiting_for([0]).sum() == 150
    assert code.waiting_for([0, 1]).sum() == 300
    assert code.waiting_for([0, 1], ["wait"]).sum() == 0


@pytest.mark.parametrize(("between", "waits"), [(5, 300), (20, 0)])
def test_a_wait_at_a_barrier_belongs_to_the_one_before(between: int, waits: int) -> None:
    """A recorder looks a few instructions back, but a wait may stand where data are first read."""
    bar: Code = [("BAR.SYNC.DEFER_BLOCKING 0x0", {}, 1, 1)]
    more: Code = [("FFMA R0, R0, R1, R3", {"selected": 9}, 1, 2)] * between
    code = code_of(Made(code=[*bar, *more, ("LDS R0, [R2]", {"barrier": 300}, 1, 3)]))
    assert code.waiting_for([0], ["barrier"]).sum() == waits


def test_what_nobody_issued_is_a_part() -> None:
    """It is in no sum, and is what can be hidden."""
    samples = {"wait": 100, "wait_not_issued": 60}
    code = code_of(Made(code=[("FFMA R0, R1, R2, R3", samples, 0, 1)]))
    assert (code.whole, code.n(reasons=["wait"])) == (100, 100)
    assert code.n(reasons=["wait"], idle=True) == 60


def test_counts_of_instructions() -> None:
    """None where they were not asked for."""
    loads = [("LDG.E R0, [R2]", {"wait": 1}, 1, 1), ("LDG.E R1, [R3]", {"wait": 1}, 1, 2)]
    code = code_of(Made(code=loads, counts={"executions": [5, 7]}))
    assert code.executed([0, 1]) == 12
    assert code.executed([1], "global_sectors") is None


def test_code_without_texts_is_not_known() -> None:
    """A profile lists the sampled offsets alone where a disassembler failed."""
    made = Made(code=[("", {"wait": 3}, 0, 1), ("", {"selected": 1}, 0, 2)])
    code = code_of(made)
    assert (code.instructions, parsed(code)) == ((), ())
    assert (code.whole, code.at.tolist()) == (4, [-1, -1])
    assert analyze(program(made)).kernels[0].case.sampled is not None


def test_a_real_kernel() -> None:
    """All samples of the GEMM are at an instruction; half of them wait for products."""
    (case,) = Program(stored("h200-gemm")).kernels
    code = case.code
    assert code is not None
    assert code.n(range(len(code.instructions))) == code.whole == 626_717
    products = code.named("HGMMA")
    assert 0.4 < code.waiting_for(products, ["barrier"]).sum() / code.whole < 0.6
    hot = code.hottest(range(len(code.instructions)))
    assert hot is not None
    assert hot.opcode == "WARPGROUP.DEPBAR.LE"
