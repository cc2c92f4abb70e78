"""Where values come from."""

from __future__ import annotations

from tests.binary.support import kernel, parse
from tileprof.binary.control_flow import find_blocks
from tileprof.binary.slices import Flow


def flow(text: str) -> Flow:
    """The flow of hand-made code."""
    code = parse(text)
    return Flow(code, find_blocks(code, {}, {}))


def test_the_last_sure_write_counts() -> None:
    """A write hides those before it; a predicated one does not."""
    found = flow("""
        MOV R0, 0x1
        MOV R0, 0x2
        @P0 MOV R0, 0x3
        IADD3 R1, R0, R0, RZ
        EXIT
    """)
    assert found.definitions(0x30, "R0") == (0x10, 0x20)
    assert found.definitions(0x30, "R7") == ()


def test_both_ways_to_a_block_count_and_loops_come_around() -> None:
    """Definitions from before a loop and from its own last round."""
    found = flow("""
        MOV R0, 0x0
        IADD3 R0, R0, 0x1, RZ
        ISETP.NE.AND P0, PT, R0, R2, PT
        @P0 BRA 0x10
        STG.E [R4.64], R0
        EXIT
    """)
    assert found.definitions(0x10, "R0") == (0x0, 0x10)
    assert found.definitions(0x40, "R0") == (0x10,)
    assert [(d.consumer, d.register, d.producer, d.distance) for d in found.slice(0x30)] == [
        (0x30, "P0", 0x20, 1),
        (0x20, "R0", 0x10, 2),
        (0x10, "R0", 0x0, 3),
        (0x10, "R0", 0x10, 3),
    ]


def test_a_slice_can_be_kept_short_and_to_one_operand() -> None:
    """`limit` counts steps, `registers` chooses among the first."""
    found = flow("""
        MOV R0, 0x0
        MOV R1, 0x0
        IADD3 R2, R0, R1, RZ
        FADD R3, R2, R1
        EXIT
    """)
    assert {d.producer for d in found.slice(0x30, limit=1)} == {0x10, 0x20}
    assert {d.producer for d in found.slice(0x30, ["R2"])} == {0x0, 0x10, 0x20}


def test_one_part_of_a_wide_value() -> None:
    """Each register of a vector load is defined by the load."""
    found = flow("""
        LDG.E.128 R4, [R2.64]
        MOV R6, RZ
        FADD R0, R5, R7
        FADD R0, R0, R6
        EXIT
    """)
    assert {d.producer for d in found.slice(0x20)} == {0x0}
    assert found.definitions(0x30, "R6") == (0x10,)


def test_values_come_through_calls() -> None:
    """What a callee writes reaches behind the call, and its arguments reach into it."""
    found = flow("""
        MOV R4, 0x7
        CALL.REL.NOINC 0x40
        STG.E [R8.64], R5
        EXIT
        IADD3 R5, R4, 0x1, RZ
        RET.REL.NODEC R20, 0x0
    """)
    assert found.definitions(0x20, "R5") == (0x40,)
    assert found.definitions(0x20, "R4") == (0x0,)
    assert found.definitions(0x40, "R4") == (0x0,)
    assert found.definitions(0x40, "R4", through_calls=False) == ()


def test_a_store_leads_back_to_the_loads(arch: str) -> None:
    """The slice of the result of a nest of loops holds both loads, and the loop counters' tests."""
    function = kernel("nest", arch)
    store = next(each for each in function.reachable() if each.name == "STG")
    value = store.operands[-1]
    producers = {function.instruction(d.producer) for d in function.slice(store.offset, [value])}
    lines = {function.chain(each.offset)[0].line for each in producers if each.name == "LDG"}
    assert lines == {6, 10}


def test_the_accumulators_come_from_the_matrix_instruction() -> None:
    """Each store of `wgmma` stores what HGMMA made, the last register too."""
    function = kernel("wgmma", "sm_90a")
    matrix = {each.offset for each in function.reachable() if each.name == "HGMMA"}
    stores = [each for each in function.reachable() if each.name == "STG"]
    assert len(stores) == 64
    for each in stores:
        assert matrix & set(function.flow.definitions(each.offset, each.operands[-1]))
