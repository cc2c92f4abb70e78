"""Dominators and loops of random graphs, and the graphs of compiled and hand-made code."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.binary.support import kernel, parse
from tileprof.binary.control_flow import find_blocks, find_loops
from tileprof.binary.graph import dominates, immediate_dominators, natural_loops

Graph = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of up to 9 nodes with up to 3 successors each."""
    count = draw(st.integers(1, 9))
    nodes = st.lists(st.integers(0, count - 1), max_size=3, unique=True)
    return [draw(nodes) for _ in range(count)]


def reach(graph: Graph, start: int, without: int | None = None) -> set[int]:
    """The nodes that a walk from `start` comes to that never enters `without`."""
    seen: set[int] = set()
    stack = [start]
    while stack:
        node = stack.pop()
        if node not in seen and node != without:
            seen.add(node)
            stack += graph[node]
    return seen


@given(graphs())
def test_dominators_by_their_definition(graph: Graph) -> None:
    """`a` dominates `b` exactly when the root does not reach `b` with `a` taken away."""
    immediate = immediate_dominators(graph)
    reachable = reach(graph, 0)
    for node in range(len(graph)):
        if node not in reachable:
            assert immediate[node] is None
            continue
        for above in range(len(graph)):
            expected = above == node or (
                above in reachable and node not in reach(graph, 0, without=above)
            )
            assert dominates(above, node, immediate) == expected


@given(graphs())
def test_loops_by_their_definition(graph: Graph) -> None:
    """A loop is what reaches an edge back to a dominating header without passing the header."""
    immediate = immediate_dominators(graph)
    reachable = reach(graph, 0)
    expected: dict[int, set[int]] = {}
    for last in reachable:
        for header in graph[last]:
            if dominates(header, last, immediate):
                body = {n for n in reachable if last in reach(graph, n, without=header)}
                expected.setdefault(header, {header}).update(body)
    assert natural_loops(graph) == {header: frozenset(body) for header, body in expected.items()}


def edges(text: str, tables: dict[int, tuple[int, ...]] | None = None) -> dict[int, list[int]]:
    """Start of each block that can be reached -> starts of those after it."""
    blocks = find_blocks(parse(text), tables or {}, {})
    return {
        block.start: sorted(blocks[i].start for i in block.successors)
        for block in blocks
        if block.is_reachable
    }


def test_a_branch_parts_blocks_and_padding_is_not_reached() -> None:
    """Block edges of a loop with an exit in the middle."""
    assert edges("""
        ISETP.NE.AND P0, PT, R0, RZ, PT
        @P0 EXIT
        IADD3 R0, R0, 0x1, RZ
        @!P1 BRA 0x0
        EXIT
        BRA 0x50
        NOP
    """) == {0x0: [0x20], 0x20: [0x0, 0x40], 0x40: []}


def test_threads_meet_where_the_matching_barrier_said() -> None:
    """`BSYNC` goes where the `BSSY` that reaches it points, for each barrier register."""
    assert edges("""
        BSSY B0, 0x80
        BSSY B1, 0x60
        @P0 BRA 0x50
        MOV R0, R1
        BSYNC B1
        BSYNC B1
        MOV R2, R3
        BSYNC B0
        EXIT
    """) == {0: [0x30, 0x50], 0x30: [0x60], 0x50: [0x60], 0x60: [0x80], 0x80: []}


def test_a_barrier_register_is_set_again() -> None:
    """A second `BSSY` of the same register takes the place of the first."""
    assert edges("""
        BSSY B0, 0x30
        @P0 BRA 0x20
        BSYNC B0
        BSSY B0, 0x60
        @P0 BRA 0x50
        BSYNC B0
        EXIT
    """) == {0: [0x20], 0x20: [0x30], 0x30: [0x50], 0x50: [0x60], 0x60: []}


def test_conditions_may_be_operands() -> None:
    """`BRA.DIV` goes on behind itself too; a plain branch does not."""
    assert edges("""
        BRA.DIV UR4, 0x30
        BRA 0x20
        EXIT
        WARPSYNC.COLLECTIVE R4, 0x20
        EXIT
    """) == {0: [0x10, 0x30], 0x10: [0x20], 0x20: [], 0x30: [0x20, 0x40], 0x40: []}


def test_calls_go_on_behind_themselves_unless_they_are_jumps() -> None:
    """A call of what returns is no edge; one of what never returns is."""
    text = """
        CALL.REL.NOINC 0x40
        @P0 CALL.REL.NOINC 0x30
        EXIT
        EXIT
        RET.REL.NODEC R20, 0x0
    """
    assert edges(text) == {0: [0x10], 0x10: [0x20, 0x30], 0x20: [], 0x30: [], 0x40: []}
    blocks = find_blocks(parse(text), {}, {})
    assert [block.calls for block in blocks] == [4, None, None, None, None]


@pytest.mark.spread("sm_90a")
def test_loop_nest(arch: str) -> None:
    """Instructions of each source line are as deep as the source says."""
    function = kernel("nest", arch)
    depths: dict[int, set[int]] = {}
    for each in function.reachable():
        line = function.chain(each.offset)[0].line
        depths.setdefault(line, set()).add(function.depth(each.offset))
    assert [(loop.depth, loop.parent, loop.kind) for loop in function.loops] == [
        (1, None, "loop"),
        (2, 0, "loop"),
    ]
    assert depths[9] == {2}
    assert 2 in depths[10]
    assert 1 in depths[6]
    assert depths[14] == {0}
    inner = function.loops[1]
    assert function.loop(inner.start) is inner
    assert all(function.instruction(each).name == "BRA" for each in inner.back_edges)


def test_a_switch_reaches_every_case(arch: str) -> None:
    """Indirect branches go through their tables: all eight cases are in the graph."""
    function = kernel("choose", arch)
    lines = {function.chain(each.offset)[0].line for each in function.reachable()}
    assert set(range(5, 13)) <= lines
    indirect = [each for each in function.reachable() if each.name == "BRX"]
    assert indirect
    for each in indirect:
        assert len(function.block(each.offset).successors) >= 2


def test_every_instruction_is_in_one_block(arch: str) -> None:
    """Blocks tile the function, and each edge is known at both ends."""
    for name in ("choose", "calls", "divide", "nest", "spill"):
        function = kernel(name, arch)
        blocks = function.blocks
        assert [b.end for b in blocks[:-1]] == [b.start for b in blocks[1:]]
        assert blocks[-1].end == len(function.instructions) * 16
        pairs = [(b.index, s) for b in blocks for s in b.successors]
        assert sorted(pairs) == sorted((p, b.index) for b in blocks for p in b.predecessors)
        assert any(each.name == "EXIT" for each in function.reachable())


def test_division_is_called_from_inside_the_loop(arch: str) -> None:
    """Slow paths of division are procedures beside the kernel, called in its loop."""
    function = kernel("divide", arch)
    calls = [block for block in function.blocks if block.calls is not None]
    assert len(calls) >= 2
    assert {function.depth(block.start) for block in calls} == {1}
    for block in calls:
        callee = function.blocks[block.calls]  # type: ignore[index]
        assert callee.start in function.procedures.values()
        assert function.depth(callee.start) == 0


def test_waits_and_uniform_instructions_are_no_loops_of_the_program() -> None:
    """Polling a barrier, and going through distinct operands, do not make code deeper."""
    function = kernel("wgmma", "sm_90a")
    kinds = [loop.kind for loop in function.loops]
    assert kinds.count("loop") == 1
    assert "wait" in kinds
    matrix = [each for each in function.reachable() if each.name == "HGMMA"]
    assert [function.depth(each.offset) for each in matrix] == [1]
    polls = [loop for loop in function.loops if loop.kind == "wait"]
    assert all(loop.depth == 1 and loop.parent is not None for loop in polls)


def test_kinds_of_loops() -> None:
    """One loop of each kind, by hand."""
    code = parse("""
        SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R4
        @!P0 BRA 0x0
        @P0 ELECT P2, URZ, PT
        UTMALDG.2D [UR8], [UR6]
        @P0 BRA.U.ANY 0x20
        IADD3 R0, R0, 0x1, RZ
        @P1 BRA 0x50
        EXIT
    """)
    blocks = find_blocks(code, {}, {})
    found: Sequence[tuple[int, str, int]] = [
        (loop.start, loop.kind, loop.depth) for loop in find_loops(blocks, code)
    ]
    assert found == [(0, "wait", 0), (0x20, "once", 0), (0x50, "loop", 1)]
