"""Loops whose turns load, or store, what the turn before did, in machine code made for that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.made import Made, found, program
from tileprof.analyzer.cases import Program

_RULE = "redundant-traffic"
_BUSY = {"selected": 50, "long_scoreboard": 200}
_USE = {"selected": 50, "long_scoreboard": 400}


def _code(*lines: tuple[str, int, bool]) -> list[tuple[str, dict[str, int], int, int]]:
    return [(text, _USE if hot else _BUSY, depth, 10 + depth) for text, depth, hot in lines]


def _passes(again: str, carried: str = "CS2R R24, SRZ") -> Made:
    """A loop in a loop; `again` makes the inner one's first address, `carried` its first sum."""
    return Made(code=_code(
        ("S2R R0, SR_TID.X", 0, False),
        ("IMAD.WIDE.U32 R12, R0, 0x10, RZ", 0, False),
        (again, 1, False),
        (carried, 1, False),
        ("CS2R R8, SRZ", 1, False),
        ("LDG.E R4, desc[UR8][R2.64]", 2, False),
        ("FADD R24, R24, R4", 2, True),
        ("IADD3 R2, P0, R2, 0x800, RZ", 2, False),
        ("IADD3 R8, R8, 0x1, RZ", 2, False),
        ("ISETP.GE.AND P1, PT, R8, 0x20, PT", 2, False),
        ("@!P1 BRA 0x50", 2, False),
        ("IADD3 R9, R9, 0x1, RZ", 1, False),
        ("ISETP.GE.AND P2, PT, R9, 0x2, PT", 1, False),
        ("@!P2 BRA 0x20", 1, False),
        ("STG.E desc[UR8][R12.64], R24", 0, False),
        ("EXIT", 0, False),
    ))  # fmt: skip


def _said(made: Made) -> list[str]:
    return [each.title for each in found(program(made), _RULE)]


def test_a_second_pass_over_the_same_addresses() -> None:
    """An inner loop that begins anew at the same address."""
    (said,) = found(program(_passes("IMAD.MOV.U32 R2, RZ, RZ, R12")), _RULE)
    assert "the same as the one before" in said.title
    assert said.kernel_gain is not None
    assert 1.5 < said.kernel_gain.mid < 2.5


@pytest.mark.parametrize(
    ("again", "carried"),
    [
        ("IADD3 R2, P3, R2, 0x100, RZ", "CS2R R24, SRZ"),  # each turn loads further on
        ("IMAD R2, R9, 0x1000, R12", "CS2R R24, SRZ"),  # by the number of the turn
        ("IMAD.MOV.U32 R2, RZ, RZ, R12", "FMUL R24, R24, 0.5"),  # goes on from its own result
        ("LDS R2, [R0]", "CS2R R24, SRZ"),  # from shared memory, which may hold anything
    ],
)
def test_turns_that_differ_are_no_repetition(again: str, carried: str) -> None:
    """Other addresses, results of the turn before, and what shared memory says."""
    assert not _said(_passes(again, carried))


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (("LDS R20, [R0]", "FADD R20, R20, R24", "STS [R0], R20"), False),
        (("STS [R0], R24", "LDS R20, [R0]", "FADD R20, R20, R24"), True),
        (("LDS R20, [R0]", "FADD R21, R24, R24", "STS [R0], R21"), True),
    ],
)
def test_iterations_that_go_on_from_shared_memory(order: tuple[str, ...], said: bool) -> None:
    """A sum that is read from shared memory and stored back there is of the iteration before; one
    that is stored first, or is not made of what was read, is not."""
    made = _passes("IMAD.MOV.U32 R2, RZ, RZ, R12")
    after = 11
    code = [*made.code[:after], *_code(*((text, 1, False) for text in order)), *made.code[after:]]
    assert bool(_said(replace(made, code=code))) == said


def test_a_loop_over_tiles_of_results_is_no_repetition() -> None:
    """Each turn loads the same bytes for another tile, which it stores elsewhere."""
    made = _passes("IMAD.MOV.U32 R2, RZ, RZ, R12")
    *code, (store, samples, _, _), end = made.code
    code = [*code[:11], (store.replace("R12.64", "R16.64"), samples, 1, 11),
            ("IADD3 R16, P3, R16, 0x100, RZ", samples, 1, 11), *code[11:], end]  # fmt: skip
    assert "the same as the one before" not in str(_said(Made(code=code)))


def _loop(*inside: str) -> Made:
    return Made(code=_code(
        ("S2R R0, SR_TID.X", 0, False),
        ("IMAD.WIDE.U32 R12, R0, 0x10, RZ", 0, False),
        ("IMAD.WIDE.U32 R14, R0, 0x20, RZ", 0, False),
        *((text, 1, False) for text in inside),
        ("ISETP.GE.AND P1, PT, R8, 0x20, PT", 1, False),
        ("@!P1 BRA 0x30", 1, False),
        ("EXIT", 0, False),
    ), blames=[(5, "long_scoreboard", 4), (5, "long_scoreboard", 3)])  # fmt: skip


_STEP = ("IADD3 R12, P0, R12, 0x800, RZ", "IADD3 R8, R8, 0x1, RZ")
_LOAD = "LDG.E R4, desc[UR8][R12.64]"


@pytest.mark.parametrize(
    ("inside", "title"),
    [
        ((_LOAD, "FADD R6, R4, R6", "STG.E desc[UR8][R14.64], R6"), "stores the same bytes"),
        ((_LOAD, "LDG.E.STRONG.SYS R5, desc[UR8][R12.64]", "FFMA R6, R4, R5, R6"), "twice"),
        ((_LOAD, "@!P0 LDG.E.STRONG.SYS R5, desc[UR8][R12.64]", "FADD R6, R5, R6"), "twice"),
    ],
)
def test_accesses_that_are_repeated(inside: tuple[str, ...], title: str) -> None:
    """One access of an innermost loop, or a pair of loads."""
    (only,) = _said(_loop(*inside, *_STEP))
    assert title in only


def test_repeated_load_beside_another_one_gains_less() -> None:
    """Each turn waits for the other load as well, which comes from farther."""
    again = "LDG.E R5, desc[UR8][R14.64]"
    gains = []
    for inside in ((again, "MOV R7, R8", "FADD R6, R5, R6"), (_LOAD, again, "FADD R6, R5, R6")):
        made = _loop(*inside, *_STEP)
        code = list(made.code)
        code[5] = (code[5][0], {"selected": 50, "long_scoreboard": 1000}, *code[5][2:])
        blames = [(5, "long_scoreboard", 3 + inside.index(again))]
        made = replace(made, code=code, blames=blames)
        (only,) = found(program(made), _RULE)
        assert "loads the same bytes" in only.title
        assert only.kernel_gain is not None
        gains.append(only.kernel_gain)
    alone, beside = gains
    assert 1 < beside.mid < 0.5 + 0.5 * alone.mid
    assert beside.low <= 1.05 < beside.high


def test_repeated_load_that_decides_an_iteration_is_waited_for_alone() -> None:
    """Nothing else is asked for before it has come, so all of its wait goes; where the other load
    is under way as well, less than half of that is likely."""
    again, check = "LDG.E.STRONG.SYS R5, desc[UR8][R14.64]", "ISETP.NE.AND P2, PT, R5, RZ, PT"
    skip, use = "@P2 BRA 0x80", "FADD R6, R4, R6"
    gains = []
    for inside in ((again, check, skip, _LOAD, use), (_LOAD, again, check, skip, use)):
        made, at = _loop(*inside, *_STEP), 3 + inside.index(check)
        code = list(made.code)
        code[at] = (check, {"selected": 50, "long_scoreboard": 3000}, *code[at][2:])
        made = replace(made, code=code, blames=[(at, "long_scoreboard", at - 1)])
        (only,) = found(program(made), _RULE)
        assert only.kernel_gain is not None
        gains.append(only.kernel_gain.mid)
        whole = sum(sum(samples.values()) for _, samples, _, _ in code)
    alone, beside = gains
    assert alone == pytest.approx(1 / (1 - 3000 / whole), rel=0.01)
    assert beside < 1 + (alone - 1) / 2


@pytest.mark.parametrize(
    ("order", "alone"),
    [
        (("POLL", "CHECK", "LOAD", "USE"), True),
        (("POLL", "LOAD", "CHECK", "USE"), False),
        (("LOAD", "POLL", "CHECK", "USE"), False),
        (("POLL", "CHECK", "USE", "LOAD"), False),
    ],
    ids=["before", "between", "after", "loaded for the next iteration"],
)
def test_flag_that_is_asked_before_all_else_costs_its_whole_wait(
    order: tuple[str, ...], alone: bool
) -> None:
    """Half of the samples wait for the flag; where another load is under way, less goes."""
    texts = {
        "POLL": ("LDG.E.STRONG.SYS R5, desc[UR8][R14.64]", {"selected": 50}),
        "CHECK": ("ISETP.NE.AND P0, PT, R5, RZ, PT", {"selected": 50, "long_scoreboard": 4000}),
        "LOAD": (_LOAD, {"selected": 50}),
        "USE": ("FADD R6, R4, R6", {"selected": 50, "long_scoreboard": 2000}),
    }
    step = [(text, {"selected": 500}, 1, 12) for text in (*_STEP, "@!P1 BRA 0x0")]
    code = [*((*texts[each], 1, 11) for each in order), *step]
    blames = [(order.index(a), "long_scoreboard", order.index(b))
              for a, b in (("CHECK", "POLL"), ("USE", "LOAD"))]  # fmt: skip
    (said,) = found(program(Made(code=code, blames=blames)), _RULE)
    assert said.kernel_gain is not None
    assert (said.kernel_gain.mid > 1.8) == alone


@pytest.mark.parametrize(
    "inside",
    [
        (_LOAD, "FADD R6, R4, R6"),
        (_LOAD, "LDG.E R5, desc[UR8][R12.64+0x10]", "FFMA R6, R4, R5, R6"),
        (_LOAD, "@P2 BRA 0x50", "LDG.E R5, desc[UR8][R12.64]", "FFMA R6, R4, R5, R6"),
        (_LOAD, "IMAD.WIDE R2, R4, 0x4, R14", "LDG.E R5, desc[UR8][R2.64]", "FADD R6, R5, R6"),
    ],
)
def test_accesses_that_are_not(inside: tuple[str, ...]) -> None:
    """Addresses that go on, or lie apart, or are loaded; loads behind a branch."""
    assert not _said(_loop(*inside, *_STEP))


def test_a_loop_that_waits_for_a_flag() -> None:
    """It reads one address until that has changed."""
    made = Made(code=_code(
        ("LDG.E.STRONG.GPU R4, desc[UR8][R14.64]", 1, True),
        ("ISETP.NE.AND P1, PT, R4, RZ, PT", 1, True),
        ("@!P1 BRA 0x0", 1, True),
        ("EXIT", 0, False),
    ))  # fmt: skip
    assert not _said(made)


def _stored(*again: str) -> Made:
    """A result that is stored, and what comes behind a barrier."""
    return Made(code=_code(
        ("LDG.E.128 R4, desc[UR8][R2.64]", 0, False),
        ("FADD R8, R4, R5", 0, True),
        ("@P0 STG.E desc[UR8][R12.64], R8", 0, False),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", 0, False),
        *((text, 0, True) for text in again),
        ("EXIT", 0, False),
    ))  # fmt: skip


_BACK = "@P0 LDG.E R9, desc[UR8][R12.64]"


@pytest.mark.parametrize(
    ("again", "title"),
    [
        ((_BACK, "@P0 STG.E desc[UR8][R12.64], R9"), "loaded again"),
        ((_BACK, "FADD R9, R9, R9", "STG.E desc[UR8][R2.64], R9"), "loaded again"),
        (("LDG.E R9, desc[UR8][R14.64]", "STG.E desc[UR8][R12.64], R9"), "stored twice"),
    ],
)
def test_a_result_that_comes_back(again: tuple[str, ...], title: str) -> None:
    """By the thread that stored it, or by another one that stores it again."""
    (said,) = _said(_stored(*again))
    assert title in said


@pytest.mark.parametrize(
    "again",
    [
        ("LDG.E R9, desc[UR8][R12.64+0x80]", "STG.E desc[UR8][R14.64], R9"),
        ("IADD3 R12, P1, R12, 0x80, RZ", _BACK, "STG.E desc[UR8][R14.64], R9"),
        ("MEMBAR.SC.GPU", _BACK, "STG.E desc[UR8][R14.64], R9"),
        ("@!P0 LDG.E R9, desc[UR8][R12.64]", "STG.E desc[UR8][R14.64], R9"),
        ("BRA 0x60", "LDG.E R9, desc[UR8][R12.64]"),
        ("@P0 BRA 0x70", "LDG.E R9, desc[UR8][R14.64]", "STG.E desc[UR8][R12.64], R9"),
    ],
)
def test_what_does_not_come_back(again: tuple[str, ...]) -> None:
    """Other addresses, other lanes, the other way of a branch, and what others are handed."""
    assert not _said(_stored(*again))


def test_bytes_that_come_back_are_not_needed() -> None:
    """Who counts a tensor that is stored and loaded counts it twice."""
    made = _stored(_BACK, "@P0 STG.E desc[UR8][R12.64], R9")
    sizes = {"grid": "100×1×1", "block": "100×1×1"}
    made.attributes, made.metrics = sizes, {"bytes": (16 + 4 + 4) * 1e4}
    (case,) = Program(program(made)).kernels
    assert case.needed_part == pytest.approx(20 / 24)


def test_copies_that_are_waited_for_together() -> None:
    """Half of a loop's bytes come again each time: half of 4,000 waits, and 100 at the copies."""
    code = [
        ("DEPBAR.LE SB0, 0x0", {"selected": 100}, 1, 11),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", {"long_scoreboard": 4000}, 1, 11),
        ("FADD R24, R24, R4", {"selected": 5000}, 1, 12),
        ("LDGSTS.E.BYPASS.128 [R37], desc[UR14][R2.64]", {"selected": 100}, 1, 13),
        ("LDGSTS.E.BYPASS.128 [R39], desc[UR14][R24.64]", {"selected": 100}, 1, 14),
        ("LDGDEPBAR", {"selected": 100}, 1, 14),
        ("IADD3 R24, P0, R24, 0x800, RZ", {"selected": 300}, 1, 15),
        ("@!P1 BRA 0x0", {"selected": 300}, 1, 15),
    ]
    (said,) = found(program(Made(code=code)), _RULE)
    assert "loads the same bytes again" in said.title
    assert said.dynamic[0].samples == 2100


@pytest.mark.parametrize(("waits", "said"), [(8000, True), (10, False)])
def test_a_store_in_each_iteration_holds_up_loads(waits: int, said: bool) -> None:
    """Hardly a sample is at the store, whose place does not change; but most wait for loads."""
    code = [
        ("LDG.E R4, desc[UR8][R2.64]", {"selected": 100}, 1, 11),
        ("FADD R24, R24, R4", {"selected": 3000, "long_scoreboard": waits}, 1, 12),
        ("STG.E desc[UR8][R12.64], R24", {"selected": 10}, 1, 13),
        ("IADD3 R2, P0, R2, 0x800, RZ", {"selected": 300}, 1, 14),
        ("@!P1 BRA 0x0", {"selected": 300}, 1, 14),
    ]
    made = Made(code=code, metrics={"bytes": 500_000})
    titles = [each.title for each in found(program(made, peaks={"hbm_copy": 1e9}), _RULE)]
    assert any("stores the same bytes" in title for title in titles) == said
