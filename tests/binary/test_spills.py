"""Which instructions spill, where, and what."""

from __future__ import annotations

import re

import pytest

from tests.binary.support import STORED, compile_cuda, kernel, need_disassembler, parse
from tileprof.binary import effects, read
from tileprof.binary.control_flow import find_blocks
from tileprof.binary.slices import Flow
from tileprof.binary.spills import SpillSite, find_spills


@pytest.mark.spread("sm_90a")
def test_spills_add_up_to_what_the_compiler_prints(arch: str) -> None:
    """Bytes stored and reloaded equal ptxas's report."""
    cubin, log = compile_cuda("spill", arch)
    spills = cubin.functions["spill"].spills()
    said = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    assert said is not None
    assert int(said[1]) > 0
    assert sum(each.bytes for each in spills if each.is_store) == int(said[1])
    assert sum(each.bytes for each in spills if not each.is_store) == int(said[2])
    assert cubin.functions["spill"].resources.spill_instructions == len(spills)


def test_spills_are_at_the_lines_that_need_the_registers(arch: str) -> None:
    """In the loop they belong to its line, outside to the loads and stores; none elsewhere."""
    spills = kernel("spill", arch).spills()
    assert {each.kind for each in spills} == {"spill"}
    assert {each.depth for each in spills} == {0, 1}
    assert {each.chain[0].line for each in spills} <= {2, 5, 7, 9, 12}
    hot = [each for each in spills if each.depth == 1]
    assert sum(each.chain[0].line == 9 for each in hot) > len(hot) / 2
    assert any(each.chain[0].line == 5 and each.is_store for each in spills)
    assert any(each.chain[0].line == 12 and not each.is_store for each in spills)


def test_a_spill_knows_its_value_and_a_reload_its_store() -> None:
    """Stores lead to the loads and multiply-adds that made the value, reloads to their slots."""
    function = kernel("spill", "sm_90a")
    spills = {each.offset: each for each in function.spills()}
    for each in spills.values():
        assert each.sources, each
        for source in each.sources:
            if each.is_store:
                assert each.register in effects(function.instruction(source)).writes
            else:
                assert spills[source].is_store
                assert spills[source].slot == each.slot
    made = {function.instruction(s).name for e in spills.values() if e.is_store for s in e.sources}
    assert {"LDG", "FFMA"} <= made


def test_the_program_s_arrays_are_not_spills(arch: str) -> None:
    """A local array goes to local memory too, and is told apart."""
    function = kernel("local_array", arch)
    assert function.count("STL") > 0
    assert function.count("LDL") > 0
    assert function.resources.local_bytes == 128
    assert function.spills() == ()


def test_a_callee_saves_its_caller_s_registers(arch: str) -> None:
    """Saves come in pairs with restores, and are no spills."""
    saves = kernel("calls", arch).spills()
    assert {each.kind for each in saves} == {"save"}
    stored = {(each.slot, each.register) for each in saves if each.is_store}
    assert stored == {(each.slot, each.register) for each in saves if not each.is_store}
    assert stored


def test_the_stored_cubin_spills() -> None:
    """328 bytes each way, as ptxas 12.8 said when it was made; `inlined` does not spill."""
    need_disassembler()
    cubin = read(STORED)
    spills = cubin.functions["spill"].spills()
    assert sum(each.bytes for each in spills if each.is_store) == 328
    assert sum(each.bytes for each in spills if not each.is_store) == 328
    assert cubin.functions["inlined"].spills() == ()


def test_without_marks_the_stack_pointer_decides() -> None:
    """Cubins of old compilers: constant slots are spills, computed addresses arrays."""
    code = parse("""
        LDG.E.64 R4, [R2.64]
        STL.64 [R1+0x8], R4
        STL [R6], R4
        LDL.64 R8, [R1+0x8]
        EXIT
    """)
    sites = [SpillSite(each, 0, ()) for each in code if each.name in ("STL", "LDL")]
    flow = Flow(code, find_blocks(code, {}, {}))
    found = find_spills(sites, None, flow, nested=False)
    assert [(e.offset, e.is_store, e.bytes, e.slot, e.sources) for e in found] == [
        (0x10, True, 8, 8, (0x0,)),
        (0x30, False, 8, 8, (0x10,)),
    ]
    assert find_spills(sites, frozenset(), flow, nested=False) == ()
