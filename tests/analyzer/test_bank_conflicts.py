"""Bank conflicts: by the layout, by counts, or only waits for shared memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import FILE, Made, found, only, program, remark, report_of, stored
from tileprof.errors import Location
from tileprof.remarks.layouts import GlobalAccess, KeptConflicts, NoConflicts, SharedAccess

RULE = "bank-conflict"
HOT = [
    ("LDS R0, [R1]", {"mio_throttle": 3000}, 1, 5),
    ("FFMA R2, R0, R3, R4", {"short_scoreboard": 1000, "selected": 4000}, 1, 6),
    ("LDS R5, [R6]", {"mio_throttle": 1000, "selected": 1000}, 1, 7),
]
WAITS = [(1, "short_scoreboard", 0)]
PASSES = {"shared_wavefronts": [80, 0, 20], "shared_wavefronts_ideal": [10, 0, 20]}
TOLD = (remark("load S", 5, SharedAccess(4, 8, 1), (NoConflicts(), KeptConflicts(8))),)


def test_a_kernel_of_a_gpu_with_samples_alone() -> None:
    """The one that was written so: its lanes are eight words apart."""
    findings = [each for each in report_of("h200-stalls").findings if each.rule == RULE]
    costly = [each for each in findings if each.severity != "ignore"]
    assert [(f.place.kernel, f.severity) for f in costly] == [("bank_conflict", "suggestion")]
    assert costly[0].title == "8-way bank conflicts"
    assert costly[0].kernel_gain is not None
    assert 1.5 < costly[0].kernel_gain.mid <= costly[0].kernel_gain.high <= 8
    assert not found(stored("h200-gemm"), RULE)


def test_waits_for_shared_memory_without_a_cause() -> None:
    """Addresses that are not known; none are told where they are, and are right."""
    finding = only(program(Made(code=HOT, blames=WAITS)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("symptom", None)
    begin = [("S2R R0, SR_TID.X", {"selected": 1}, 0, 4), ("SHF.L.U32 R1, R0, 0x2, RZ", {}, 0, 4)]
    right = Made(code=[*begin, *HOT], attributes={"block": "64×1×1"})
    assert not found(program(right), RULE)
    begin[1] = ("SHF.L.U32 R1, R0, 0x6, RZ", {}, 0, 4)
    wrong = Made(code=[*begin, *HOT], attributes={"block": "64×1×1"})
    assert only(program(wrong), RULE).title == "16-way bank conflicts"


def test_conflicts_in_a_library_function_are_told_at_the_line_before_it() -> None:
    """Triton's line tables do not say where a sum was called; the kernel's own text says whose file
    is the user's."""
    begin = [("S2R R0, SR_TID.X", {"selected": 1}, 0, 4), ("SHF.L.U32 R1, R0, 0x6, RZ", {}, 0, 4)]
    held = program(Made(code=[*begin, *HOT], attributes={"block": "64×1×1"}))
    (function,) = held.tables.pc.functions
    library = Location("standard.py", 293)
    code = tuple(
        each if each.place and each.place.line == 4 else replace(each, place=library)
        for each in function.code
    )
    pc = replace(held.tables.pc, functions=(replace(function, code=code),))
    infos = tuple(replace(each, source_file="") for each in held.tables.kernels)
    tables = replace(held.tables, pc=pc, kernels=infos, sources={FILE: "a kernel"})
    place = only(replace(held, tables=tables), RULE).place
    assert place.location == Location(FILE, 4)


def test_at_the_roof_of_memory_conflicts_are_to_be_left() -> None:
    """They are hidden behind it."""
    made = Made(code=HOT, blames=WAITS, remarks=TOLD, metrics={"dram_bytes": 900_000})
    finding = only(program(made, peaks={"hbm_copy": 1e9}), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)
    assert only(program(made, peaks={"hbm_copy": 2e9}), RULE).severity == "suggestion"


def test_what_stands_behind_conflicts_waits_for_them_too() -> None:
    """Seven of nine passes of one access, beside two of another: 7 in 11 of all that waits."""
    behind = [*HOT, ("SHFL.IDX PT, R0, R2, RZ, 0x1f", {"mio_throttle": 2000}, 1, 8)]
    behind[0] = (HOT[0][0], {"mio_throttle": 3000, "selected": 1000}, 1, 5)
    finding = only(program(Made(code=behind, blames=WAITS, remarks=TOLD)), RULE)
    assert finding.kernel_gain is not None
    waits = 7 / 11 * (3000 + 1000 + 2000 + 1000)
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - waits / 13000))


@pytest.mark.parametrize("moved", [1e5, 8e5])
def test_passes_are_told_as_they_are(moved: float) -> None:
    """7 in 11 of 7,000 waits go, whatever else there is to gain, and no more than work leaves."""
    behind = [*HOT, ("SHFL.IDX PT, R0, R2, RZ, 0x1f", {"mio_throttle": 2000}, 1, 8)]
    behind[0] = (HOT[0][0], {"mio_throttle": 3000, "selected": 1000}, 1, 5)
    made = Made(code=behind, blames=WAITS, remarks=TOLD, metrics={"dram_bytes": moved})
    finding = only(program(made, peaks={"hbm_copy": 1e9}), RULE)
    assert finding.kernel_gain is not None
    share = min(7 / 11 * 7000 / 13000, 1 - moved / 1e6 / 0.97)
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - share))


def test_what_is_padded_by_a_word_moves_by_words() -> None:
    """Each store of 16 bytes, 5 passes, becomes four of a word, 8: of 16 passes 7 go, 3 come."""
    store = ("STS.128 [R8], R12", {"mio_throttle": 2000, "selected": 1000}, 1, 8)
    code = [(HOT[0][0], {"mio_throttle": 3000, "selected": 1000}, 1, 5), *HOT[1:], store]
    finding = only(program(Made(code=code, blames=WAITS, remarks=TOLD)), RULE)
    assert finding.kernel_gain is not None
    waits = (7 - 3) / (9 + 2 + 5) * (3000 + 1000 + 2000 + 1000)
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - waits / 14000))


def test_counts_of_instructions() -> None:
    """Seven of nine passes, so of what is at the first access and waits for it; the second is
    right."""
    finding = only(program(Made(code=HOT, blames=WAITS, counts=PASSES)), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 7 / 9 * 0.4))
    assert finding.place.location is not None
    assert finding.place.location.line == 5
    assert "8.0 passes" in finding.evidence[0].text


def test_what_the_compiler_derived_is_of_its_line() -> None:
    """The other access is in another line."""
    finding = only(program(Made(code=HOT, blames=WAITS, remarks=TOLD)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 7 / 9 * 0.4))
    assert (finding.place.op, finding.static[0].tier) == ("load S", "static")


@pytest.mark.parametrize(("counted", "times"), [("store S", 1), ("load S", 0)])
def test_addresses_tell_of_accesses_that_the_compiler_did_not_count(
    counted: str, times: int
) -> None:
    """Lanes are 128 bytes apart, in a line of which the compiler counted another access alone."""
    code = [
        ("S2R R0, SR_TID.X", {"selected": 500}, 0, 4),
        ("IMAD.SHL.U32 R1, R0, 0x80, RZ", {"selected": 500}, 0, 4),
        ("LDS R2, [R1]", {"mio_throttle": 3000, "selected": 500}, 1, 5),
        ("FFMA R4, R2, R3, R4", {"short_scoreboard": 1000, "selected": 4000}, 1, 6),
    ]
    made = Made(
        code=code, remarks=[remark(counted, 5, SharedAccess(4, 1, 1))],
        attributes={"grid": "64×1×1", "block": "128×1×1"},
    )  # fmt: skip
    assert [each.title for each in found(program(made), RULE)] == ["32-way bank conflicts"] * times


def test_the_op_of_the_line_that_is_about_shared_memory() -> None:
    """A tile is filled in the line that loads it from global memory."""
    load = remark("load X", 5, GlobalAccess(16, 16, 16))
    store = remark(
        "store tile", 5, SharedAccess(4, 8, 1), (NoConflicts(), KeptConflicts(8)),
    )  # fmt: skip
    finding = only(program(Made(code=HOT, blames=WAITS, remarks=[load, store])), RULE)
    assert finding.place.op == "store tile"


def test_counters_of_launches() -> None:
    """Seven conflicts a load: all loads have them."""
    counters = {"shared_load_conflicts": 700, "shared_loads": 100}
    finding = only(program(Made(code=HOT, blames=WAITS, metrics=counters)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 7 / 9 * 0.5))


def test_counts_overrule_what_the_compiler_derived() -> None:
    """No conflict was counted where it feared one."""
    right = {"shared_wavefronts": [10, 0, 20], "shared_wavefronts_ideal": [10, 0, 20]}
    assert not found(program(Made(code=HOT, blames=WAITS, remarks=TOLD, counts=right)), RULE)


def test_cold_conflicts_are_to_be_ignored() -> None:
    """A prologue."""
    cold = [("LDS R0, [R1]", {"mio_throttle": 5}, 0, 5), *HOT[1:2]]
    finding = only(program(Made(code=cold, remarks=TOLD)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("ignore", None)


def test_without_samples_there_is_no_number() -> None:
    """The compiler alone."""
    finding = only(program(Made(remarks=TOLD)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)


def test_a_kernel_without_conflicts() -> None:
    """A few waits, nothing said."""
    few = [("LDS R0, [R1]", {"mio_throttle": 3000, "selected": 7000}, 1, 5)]
    assert not found(program(Made(code=few)), RULE)
