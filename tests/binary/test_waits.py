"""What instructions wait for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pytest

from tests.binary.support import kernel, need_disassembler, parse
from tests.stalls.kernels import cubin, stalled
from tileprof.binary import Function, Instruction, Wait, is_long, read, waits
from tileprof.binary.addresses import Constants
from tileprof.binary.control_flow import Block, find_blocks
from tileprof.binary.slices import Flow


@dataclass(frozen=True)
class HandMade:
    """As much of a function as waits need, of hand-made code."""

    instructions: tuple[Instruction, ...] = field(repr=False)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks."""
        return find_blocks(self.instructions, {}, {})

    @cached_property
    def flow(self) -> Flow:
        """The flow."""
        return Flow(self.instructions, self.blocks)

    @cached_property
    def constants(self) -> Constants:
        """The constants in addresses."""
        return Constants(self)  # type: ignore[arg-type] # as much of a function as it needs

    def instruction(self, offset: int) -> Instruction:
        """The instruction at an offset."""
        return self.instructions[offset // 16]

    def block(self, offset: int) -> Block:
        """The block around an offset."""
        return next(each for each in self.blocks if each.start <= offset < each.end)

    def reachable(self) -> tuple[Instruction, ...]:
        """All of it."""
        return self.instructions


def control(stall: int = 1, write: int = 7, read: int = 7, waits_for: int = 0) -> int:
    """The encoding of an instruction that does nothing but be scheduled."""
    return (stall | write << 5 | read << 8 | waits_for << 11) << 105


def function(text: str) -> Any:
    """Code whose lines end in `; stall write read mask`, where other than `1 7 7 0`."""
    lines = [line.partition(";") for line in text.strip().splitlines()]
    code = parse("\n".join(line[0] for line in lines))
    fields = [[int(n) for n in line[2].split()] or [1, 7, 7, 0] for line in lines]
    return HandMade(
        tuple(replace(each, encoding=control(*f)) for each, f in zip(code, fields, strict=True))
    )


def told(made: Any, offset: int) -> list[tuple[int, str, str]]:
    """Producer, kind and what passes, of each wait."""
    found = waits(made, offset)
    assert {each.consumer for each in found} <= {offset}
    return [(each.producer, each.kind, each.through) for each in found]


def test_a_scoreboard_leads_to_who_signals_it() -> None:
    """Not to one that was waited for before, nor to those of other scoreboards."""
    made = function("""
        LDG.E R0, [R2.64] ; 1 0 7 0
        FADD R1, R0, R0 ; 1 7 7 1
        LDG.E R4, [R2.64] ; 1 0 7 0
        LDS R5, [R9] ; 1 1 7 0
        FADD R6, R4, R5 ; 1 7 7 3
        EXIT
    """)
    assert told(made, 0x10) == [(0x0, "scoreboard", "R0, scoreboard 0")]
    assert told(made, 0x40) == [
        (0x20, "scoreboard", "R4, scoreboard 0"),
        (0x30, "scoreboard", "R5, scoreboard 1"),
    ]
    assert [is_long(made.instruction(at)) for at in (0x20, 0x30)] == [True, False]


def test_all_paths_count_and_loops_come_around() -> None:
    """A load at the end of the last round is waited for at the begin of the next."""
    made = function("""
        LDG.E R0, [R2.64] ; 1 2 7 0
        FADD R1, R1, R0 ; 1 7 7 4
        LDG.E R0, [R2.64] ; 1 2 7 0
        @P0 BRA 0x10
        EXIT
    """)
    assert told(made, 0x10) == [
        (0x0, "scoreboard", "R0, scoreboard 2"),
        (0x20, "scoreboard", "R0, scoreboard 2"),
    ]


def test_operands_that_are_still_to_be_read() -> None:
    """A store holds its operands until it has read them."""
    made = function("""
        STG.E [R2.64], R4 ; 1 7 3 0
        MOV R4, 0x1 ; 1 7 7 8
        EXIT
    """)
    assert told(made, 0x10) == [(0x0, "operands", "operands read, scoreboard 3")]


def test_a_fixed_latency() -> None:
    """The nearest result within its time; not one that was there long ago, nor a load's."""
    made = function("""
        IADD3 R1, R7, R7, RZ ; 15 7 7 0
        IADD3 R0, R7, R7, RZ ; 4 7 7 0
        FADD R2, R0, R1 ; 4 7 7 0
        LDS R3, [R9] ; 2 7 7 0
        FADD R3, R3, R1 ; 1 7 7 0
        EXIT
    """)
    assert told(made, 0x20) == [(0x10, "latency", "R0")]
    assert told(made, 0x40) == []


def test_a_latency_that_is_over_holds_nothing_up() -> None:
    """Others in between may take its time; a full pipe is no latency."""
    chain = "FFMA R0, R0, R9, R9 ; {} 7 7 0\n"
    others = "".join(f"FFMA R{i}, R{i}, R9, R9 ; 2 7 7 0\n" for i in range(1, 8))
    full = function(chain.format(2) + others + chain.format(2) + "EXIT")
    assert told(full, 0x80) == []
    near = function(chain.format(1) + "MOV R1, R2 ; 3 7 7 0\n" + chain.format(4) + "EXIT")
    assert told(near, 0x20) == [(0x0, "latency", "R0")]
    free = function(chain.format(3) + "MOV R1, R2 ; 1 7 7 0\n" + chain.format(4) + "EXIT")
    assert told(free, 0x20) == []


def test_of_several_loads_first_the_one_that_is_needed() -> None:
    """One scoreboard may stand for many."""
    made = function("""
        LDG.E R4, [R2.64] ; 1 0 7 0
        LDG.E R5, [R2.64] ; 1 0 7 0
        LDG.E R6, [R2.64] ; 1 0 7 0
        FADD R7, R4, R4 ; 1 7 7 1
        EXIT
    """)
    assert [each[0] for each in told(made, 0x30)] == [0x0, 0x20, 0x10]


@pytest.mark.parametrize(("pending", "copies"), [(0, [0x50, 0x40]), (1, [0x20]), (2, [0x0])])
def test_groups_of_copies(pending: int, copies: list[int]) -> None:
    """The newest group that has to be there, whose copies are told."""
    made = function(f"""
        LDGSTS.E.128 [R1], [R2.64]
        LDGDEPBAR
        LDGSTS.E.128 [R1], [R2.64]
        LDGDEPBAR
        LDGSTS.E.128 [R1], [R2.64]
        LDGSTS.E.128 [R3], [R4.64]
        LDGDEPBAR
        DEPBAR.LE SB0, {pending:#x}
        EXIT
    """)
    assert told(made, 0x70) == [(each, "copies", "cp.async group") for each in copies]


def test_groups_of_products_come_around_a_loop() -> None:
    """With one group left pending, the wait is for the product of the round before."""
    made = function("""
        HGMMA.64x64x16.F32 R24, gdesc[UR4], RZ, gsb0
        WARPGROUP.DEPBAR.LE gsb0, 0x1
        HGMMA.64x64x16.F32 R24, gdesc[UR4], R24
        HGMMA.64x64x16.F32 R24, gdesc[UR8], R24, gsb0
        @P0 BRA 0x10
        WARPGROUP.DEPBAR.LE gsb0, 0x0
        EXIT
    """)
    assert told(made, 0x10) == [(each, "wgmma", "wgmma group") for each in (0x0, 0x30)]
    assert told(made, 0x50) == [(0x30, "wgmma", "wgmma group")]


def test_copies_are_told_where_nothing_else_can_arrive() -> None:
    """Where threads arrive somewhere, and addresses are not known, a wait may be for them."""
    text = """
        SYNCS.ARRIVE.TRANS64 RZ, [UR4+0x100], R2
        UTMALDG.2D [UR4], [UR8]
        SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4+0x100], R2 ; 2 0 7 0
        @!P0 BRA 0x20 ; 1 7 7 1
        {}
        EXIT
    """
    through = "the mbarrier asked at 0x0020"
    sure = function(text.format("NOP"))
    assert told(sure, 0x20) == [(0x10, "mbarrier", through)]
    assert told(sure, 0x30) == [
        (0x20, "scoreboard", "P0, scoreboard 0"),
        (0x10, "mbarrier", through),
    ]
    unsure = function(text.format("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4+0x108], RZ"))
    assert told(unsure, 0x20) == []


def test_an_address_that_is_a_sum_of_sums() -> None:
    """Each is worked out once: followed by every way, there would be more than two billion."""
    steps = "\n".join(
        f"@P0 UIADD3 UR{at}, UR{at - 1}, UR{at - 1}, UR{at - 1}\n"
        f"@!P0 UIADD3 UR{at}, UR{at - 1}, UR{at - 1}, UR{at - 1}"
        for at in range(11, 30)
    )
    made = function(f"""
        {steps}
        UTMALDG.2D [UR40], [UR50]
        SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR29+0x40], R2
        EXIT
    """)
    poll = made.instructions[-2].offset
    assert told(made, poll) == [(poll - 16, "mbarrier", f"the mbarrier asked at {poll:#06x}")]


def test_the_address_tells_one_ring_from_another() -> None:
    """Full slots wait for copies, empty ones for threads; slots vary, constants tell."""
    made = function("""
        S2UR UR4, SR_CgaCtaId
        UMOV UR5, 0x400
        ULEA UR6, UR4, UR5, 0x18
        ULEA UR7, UR3, UR6, 0x3
        UIADD3 UR9, UR7, 0x100, URZ
        UMOV UR21, UR9
        UTMALDG.2D [UR8], [UR30]
        UTMALDG.2D [UR20], [UR30]
        SYNCS.ARRIVE.TRANS64 RZ, [UR7+0x100], R2
        SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR7+0x118], R2
        IMAD.U32 R14, RZ, RZ, UR7
        SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R14+URZ+0x100], R2
        IADD3 R15, R14, 0x10, RZ
        SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R15+URZ+0x108], RZ
        EXIT
    """)
    assert [each[0] for each in told(made, 0xB0) if each[1] == "mbarrier"] == [0x60, 0x70]
    assert [each[0] for each in told(made, 0x90) if each[1] == "mbarrier"] == [0xD0]


def test_an_address_under_a_predicate() -> None:
    """What was made under the same one is what is used, unless the predicate has changed."""
    text = """
        S2R R10, SR_TID.X
        UMOV UR5, 0x400
        UISETP.NE.AND UP0, UPT, UR2, 0x0, UPT
        @!P0 LEA R10, R10, UR5, 0x3
        {}
        @!P0 SYNCS.ARRIVE.TRANS64.A1T0 RZ, [R10+URZ+0x108], RZ
        SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR5+0x108], R2
        EXIT
    """
    same = function(text.format("NOP"))
    assert [each[0] for each in told(same, 0x60) if each[1] == "mbarrier"] == [0x50]
    changed = function(text.format("ISETP.NE.AND P0, PT, R1, RZ, PT"))
    assert [each for each in told(changed, 0x60) if each[1] == "mbarrier"] == []


def _at(function: Function, name: str) -> list[int]:
    return [each.offset for each in function.reachable() if each.opcode.startswith(name)]


def test_real_code(arch: str) -> None:
    """The product in an inner loop waits for the load in that loop, too."""
    made = kernel("nest", arch)
    inner = max(each.depth for each in made.loops)
    (product,) = [o for o in _at(made, "FFMA") if made.depth(o) == inner]
    found = [each for each in waits(made, product) if each.kind == "scoreboard"]
    lines = {made.chain(each.producer)[0].line for each in found}
    assert 10 in lines
    assert all(is_long(made.instruction(each.producer)) for each in found)


def test_real_groups() -> None:
    """Products, bulk copies and small asynchronous ones."""
    made = kernel("wgmma", "sm_90a")
    (wait,) = _at(made, "WARPGROUP.DEPBAR")
    assert [each.producer for each in waits(made, wait)] == _at(made, "HGMMA")
    (poll,) = _at(made, "SYNCS.PHASECHK")
    assert [each.producer for each in waits(made, poll) if each.kind == "mbarrier"] == _at(
        made, "UTMALDG"
    )
    made = kernel("async_copy", "sm_90a")
    (wait,) = _at(made, "DEPBAR")
    (copy,) = _at(made, "LDGSTS")
    assert Wait(wait, copy, "copies", "cp.async group") in waits(made, wait)


@pytest.mark.parametrize("name", ["choose", "calls", "divide", "spill", "local_array", "wgmma"])
def test_every_wait_has_a_cause(name: str) -> None:
    """Who waits for a scoreboard waits for one that somebody signals.

    In `wgmma` one waits for what was waited for on all ways to it.
    """
    made = kernel(name, "sm_90a")
    without = 0
    for each in made.reachable():
        boards = each.control.waits
        found = {w.through[-1] for w in waits(made, each.offset) if "scoreboard" in w.through}
        without += len(boards) - len(found & set(map(str, boards)))
    assert without == (1 if name == "wgmma" else 0)


@pytest.mark.parametrize(
    ("name", "opcode", "kind"),
    [
        ("spilled", "LDL", "scoreboard"),
        ("bank_conflict", "LDS", "scoreboard"),
        ("uncoalesced", "LDG", "scoreboard"),
        ("chased", "LDG", "scoreboard"),
        ("chained", "FFMA", "latency"),
        ("exponentials", "MUFU", "scoreboard"),
        ("mbarrier_wait", "SYNCS", "mbarrier"),
        ("bulk_copy_wait", "UBLKCP", "mbarrier"),
        ("copy_wait", "LDGSTS", "copies"),
        ("serialised_products", "HGMMA", "wgmma"),
        ("grouped_products", "HGMMA", "wgmma"),
    ],
)
def test_kernels_with_one_stall_each(name: str, opcode: str, kind: str) -> None:
    """On the line where each of them stalls, something waits for what it was made to wait for."""
    need_disassembler()
    made = read(cubin()).functions[name]
    hot = stalled()[name].hot
    found = {
        (made.instruction(wait.producer).name, wait.kind)
        for each in made.reachable()
        if hot & {line.line for line in made.chain(each.offset)}
        for wait in waits(made, each.offset)
    }
    assert (opcode, kind) in found
