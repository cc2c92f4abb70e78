"""Turns of consumer warp groups: where they stand, where there are none and why, that they order
groups and never hang, and what they become."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cuda.emulated import SEEDS, Program
from tests.spread import examples
from tileprof import ir
from tileprof.compiler.cuda.build import disassemble
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.passes.ping_pong import plan as turn_plan
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import EmulationError, emulate
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.loops import ExponentialsBetween, InTurns, TakeTurns
from tileprof.runtime.interpreter import InterpreterExecutable

made: Any = importlib.import_module("tests.cuda.turn_kernels")
benchmarks: Any = importlib.import_module("benchmarks.gpu_kernels")
study: Any = importlib.import_module("case_studies.attention")

PLAIN = Controls(overlap=False)
"""Loops as they are written: where products stand in a row is part of what is tested."""
FORCED = Controls(overlap=False, ping_pong=True)
ADDED = {"turn_start", "turn_wait", "turn_pass", "wait"}


def kernel(words: str = "", **more: Any) -> ir.Kernel:
    """One of the small loops."""
    found: ir.Kernel = made.kernel(frozenset(words.split()), **more)
    return found


def lowered(given: ir.Kernel, controls: Controls | None = None) -> CudaProgram:
    """For an H200."""
    program = compile_cuda(given, find_target("sm_90a"), controls or PLAIN)
    ir.verify(program.kernel)
    return program


def about_turns(program: CudaProgram) -> list[Remark]:
    """What was decided, loop by loop."""
    refused = [
        r for r in program.remarks if any(isinstance(e.candidate, InTurns) for e in r.rejected)
    ]
    return [*refused, *(r for r in program.remarks if isinstance(r.decision, TakeTurns))]


def turns(program: CudaProgram) -> list[type[ir.OpBase]]:
    """The ops about turns, in order."""
    found = (ir.TurnStart, ir.TurnWait, ir.TurnPass)
    return [type(o) for o in program.kernel.ops() if isinstance(o, found)]


# -- where they stand


@pytest.mark.spread("ahead_complete")
@pytest.mark.parametrize(
    ("words", "hand_over"),
    [("", None), ("ahead", "issued"), ("ahead", "complete")],
    ids=["between", "ahead", "ahead_complete"],
)
def test_places(words: str, hand_over: str | None, golden: Callable[[str], None]) -> None:
    """Around products in a row; from one iteration to the next where exponentials are between.  A
    turn may also end behind the wait for what exponentials need."""
    seen: dict[str, list[str]] = {}

    def observe(step: str, after: ir.Kernel) -> None:
        ir.verify(after)
        text = ir.print_kernel(after)
        assert ir.print_kernel(ir.parse(text)) == text
        for roles in (o for o in after.ops() if isinstance(o, ir.Roles)):
            seen[step] = list(_outline(roles.consumer, 0))

    controls = replace(FORCED, hand_over=hand_over)
    compile_cuda(kernel(words), find_target("sm_90a"), controls, observe=observe)
    without = [[o for o in seen[step] if o.strip() not in ADDED] for step in ("barriers", "turns")]
    assert without[0] == without[1]
    golden("\n".join(seen["turns"]) + "\n")


def _outline(block: ir.Block, depth: int) -> Iterator[str]:
    """The loops of a role, its products and what waits, and its elementwise parts."""
    waits = (ir.RingWait, ir.RingRelease, ir.Wait, ir.TurnStart, ir.TurnWait, ir.TurnPass)
    for op in block.ops:
        if isinstance(op, (*waits, ir.AsyncGemm, ir.For, ir.Parallel)):
            kinds = {o.kind for b in op.blocks() for o in ir.walk(b) if isinstance(o, ir.Unary)}
            special = " exp2" if isinstance(op, ir.Parallel) and "exp2" in kinds else ""
            yield "  " * depth + op.mnemonic + special
        if isinstance(op, ir.For):
            yield from _outline(op.body, depth + 1)


def test_they_are_the_compilers_choice_for_products_in_a_row() -> None:
    """With exponentials between products only where the author asks."""
    assert [r.decision for r in about_turns(lowered(kernel("ahead")))] == [TakeTurns(2)]
    (left,) = about_turns(lowered(kernel()))
    assert left.rejected == (Rejection(InTurns(), ExponentialsBetween()),)
    assert [r.decision for r in about_turns(lowered(kernel(), FORCED))] == [TakeTurns(2)]
    three = about_turns(lowered(kernel("ahead", groups=3)))
    assert [r.decision for r in three] == [TakeTurns(3)]


def test_any_arithmetic_where_the_author_asks() -> None:
    """Sums of scaled products have no exponentials: groups take turns only if they are told to."""
    study = importlib.import_module("case_studies.block_scaled_gemm")
    options = {"block_M": 128, "threads": 256}
    given = study.inputs(256, 128, 512)
    product = study.block_scaled_gemm.compile(M=256, N=128, K=512, **options).program.kernel
    assert turns(lowered(product)) == []
    program = lowered(product, Controls(ping_pong=True))
    assert [r.decision for r in about_turns(program)] == [TakeTurns(2, "arithmetic")]
    assert turns(program) == [ir.TurnStart, ir.TurnWait, ir.TurnPass]
    for seed in range(2):
        c = np.zeros((256, 128), ml_dtypes.bfloat16)
        emulate(program.source, program.kernel, [*given, c], seed=seed)
        check(c.astype(np.float64), study.reference(*given))


@pytest.mark.parametrize("controls", [None, FORCED], ids=["auto", "forced"])
def test_a_product_of_matrices_has_none(controls: Controls | None) -> None:
    """Nothing runs under its products but products."""
    product = benchmarks.matmul.compile(M=4096, N=4096, K=4096).program.kernel
    program = lowered(product, controls)
    assert (turns(program), about_turns(program)) == ([], [])
    # Nor has the one before a loop that takes turns.
    several = lowered(made.resident(), FORCED)
    assert turns(several).count(ir.TurnWait) == len(about_turns(several)) + 1 == 2


@pytest.mark.parametrize(
    ("words", "more", "controls", "reason", "line"),
    [
        ("ahead", {}, {"ping_pong": False}, "it is turned off", ""),
        ("ahead", {}, {"warp_specialization": False}, "no producer warp group loads for them", ""),
        ("ahead", {"dim": 256}, {}, "exponentials take 25% of the time that products take", ""),
        ("", {"policy": "FullCol"}, {}, "warp groups share rows of the product in line {}", "q, k"),
        ("ahead meet", {}, {}, "all warp groups meet at a barrier in line {}", "extra, told"),
        ("apart", {}, {}, "its arithmetic stands at several places between products", ""),
        ("ahead touch", {}, {},
         "a group would keep its turn for the `if` in line {}, which waits", "Limits[1] > 5"),
        ("", {}, {"ping_pong": True, "delayed_release": False},
         "a group would keep its turn while it waits for products: the slot is freed", ""),
        ("late", {}, {"ping_pong": True},
         "the tile in line {} may wait for a slot that is freed in a turn", "T.copy(K["),
    ],
)  # fmt: skip
def test_refusals(
    words: str, more: dict[str, Any], controls: dict[str, Any], reason: str, line: str
) -> None:
    """No turns, and a remark that says why, with the line that is to blame."""
    program = lowered(kernel(words, **more), Controls(**{"overlap": False, **controls}))
    assert turns(program) == []
    wanted = reason.format(line_of(line))
    assert {r.against for r in about_turns(program)} == {f"in turns: {wanted}"}


def line_of(text: str) -> int:
    """The first line of the kernels that has a text."""
    lines = Path(made.__file__).read_text().split("\n")
    return next(n for n, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("leave", "an iteration may end early"),
        ("skip", "an iteration may end early"),
        ("found", "the `for` in line {0} depends on what threads compute"),
        ("alone", "the `if` in line {1} depends on what threads compute"),
    ],
)
def test_ways_that_threads_may_take_alone(word: str, reason: str) -> None:
    """Every group has to come to each turn."""
    program = lowered(made.resident(frozenset([word])), FORCED)
    assert turns(program) == []
    wanted = reason.format(line_of("in T.serial(n)"), line_of("if count[0] > 1"))
    assert [r.against for r in about_turns(program)] == [f"in turns: {wanted}"]


@pytest.mark.parametrize("word", ["around", "told"])
def test_ways_that_all_threads_take(word: str) -> None:
    """A loop that is left where the launch says so, and a count from shared memory."""
    given = made.resident(frozenset([word]))
    program = lowered(given, FORCED)
    assert [r.decision for r in about_turns(program)] == [TakeTurns(2)]
    arrays = made.arguments(limits=(3, 1))
    arrays[2] = arrays[2][:64].copy()
    expected = [a.copy() for a in arrays]
    InterpreterExecutable(given).run(expected, [])
    emulate(program.source, given, arrays, {}, seed=1)
    np.testing.assert_allclose(arrays[-1], expected[-1], rtol=1e-3, atol=1e-3)


# -- they order groups, and do not hang


@pytest.mark.parametrize("groups", [2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_groups_go_one_after_another(groups: int, seed: int) -> None:
    """As often as they like, in the order of their numbers; what the last one left does no harm."""
    order = np.full(4 * groups, -1, np.int32)
    body = f"""
      int *const at = (int *)shared;
      if (t == 0) *at = 0;
      tp_barrier();
      tp_turn_start(t >> 7);
      for (int i = 0; i < 4; i++) {{
        tp_turn_wait(t >> 7);
        if (t % 128 == i) order[(*at)++] = t >> 7;
        tp_turn_pass<{groups}>(t >> 7);
      }}"""
    Program(body, "int *order", [order], threads=128 * groups, shared=16).run([order], seed)
    assert order.tolist() == [*range(groups)] * 4


def emulated(
    program: CudaProgram, words: str, limits: tuple[int, int], seed: int, **more: int
) -> Any:
    """The result on the emulated GPU, and what it should be."""
    arrays = made.arguments(limits=limits, **more)
    expected = made.reference(arrays, frozenset(words.split()))
    emulate(program.source, program.kernel, arrays, {}, seed=seed)
    return arrays[-1], expected


def check(found: Any, expected: Any) -> None:
    """Up to the rounding of weights, which may go the other way."""
    assert np.linalg.norm(found - expected) <= 2e-3 * np.linalg.norm(expected)


@given(
    words=st.sets(st.sampled_from(["ahead", "late", "outer", "again", "either"])),
    groups=st.sampled_from([2, 2, 3]),
    stages=st.integers(2, 3),
    tiles=st.integers(1, 4),
    blocks=st.sampled_from([1, 4]),
    cluster=st.sampled_from([None, None, 2]),
    limits=st.tuples(st.integers(0, 4), st.integers(0, 4)),
    overlap=st.sampled_from([False, None]),
    hand_over=st.sampled_from([None, "complete"]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=examples(4))
def test_any_loop(
    words: set[str], groups: int, stages: int, tiles: int, blocks: int, cluster: int | None,
    limits: tuple[int, int], overlap: bool | None, hand_over: str | None, seed: int,
) -> None:  # fmt: skip
    """With any number of iterations, none too, in any order of threads, in blocks that take several
    tiles or load for each other: a right result."""
    text = " ".join(sorted(words))
    sizes = {"groups": groups, "tiles": tiles, "blocks": blocks}
    given = kernel(text, stages=stages, **sizes)
    options: dict[str, Any] = {"persistent": True, "cluster": cluster, "hand_over": hand_over}
    controls = Controls(overlap=overlap, ping_pong=True, **options)
    program = lowered(given, controls)
    refused = "late" in words and "ahead" not in words and stages == 2
    if tiles > 2 and overlap is False:
        assert (turns(program) == []) == refused
    check(*emulated(program, text, limits, seed, **sizes))


@pytest.mark.parametrize("removed", ["tp_turn_start", "tp_turn_pass<2>"])
def test_a_turn_that_nobody_passes_hangs(removed: str) -> None:
    """What would be noticed: every group waits, and the emulator says at which barrier."""
    program = lowered(kernel("ahead"), FORCED)
    text = program.source.text.replace(f"{removed}(tp_warp >> 2);", "")
    assert text != program.source.text
    arrays = made.arguments()
    with pytest.raises(EmulationError) as caught:
        emulate(replace(program.source, text=text), program.kernel, arrays, {}, seed=0)
    assert "threads 0-127: tp_barrier 2: 128 of 256 threads" in str(caught.value)
    assert "threads 128-255: tp_barrier 3: 128 of 256 threads" in str(caught.value)


def test_a_slot_that_is_freed_in_a_turn_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why that is refused: one group has the turn and waits for a tile, whose slot the other one
    frees once it had the turn."""
    monkeypatch.setattr(turn_plan, "_needs", lambda *_: False)
    program = lowered(kernel("late"), FORCED)
    with pytest.raises(EmulationError) as caught:
        emulated(program, "late", (3, 3), 0)
    assert "threads 0-127: tp_mbarrier_wait" in str(caught.value)
    assert "threads 128-255: tp_barrier 3: 128 of 256 threads" in str(caught.value)
    monkeypatch.undo()
    check(*emulated(lowered(kernel("late", stages=3), FORCED), "late", (3, 3), 0))


# -- attention


@pytest.mark.spread("True-130-True-False-complete")
@pytest.mark.parametrize(
    ("causal", "length", "persistent", "overlap", "hand_over"),
    [
        (True, 130, True, False, "complete"),
        (False, 270, True, None, None),
    ],
)
def test_attention(
    causal: bool, length: int, persistent: bool, overlap: bool | None, hand_over: str | None
) -> None:
    """Two heads, of several tiles and of one, where loops with turns have no iteration."""
    shape = {"batch": 1, "length": length, "heads": 2, "dim": 64, "keys": length, "groups": 1}
    given = study.inputs(1, length, length, 2, 1, 64)
    held = study.attention.compile(**shape, causal=causal).program.kernel
    options: dict[str, Any] = {"persistent": persistent, "hand_over": hand_over}
    controls = Controls(overlap=overlap, ping_pong=True, **options)
    program = lowered(held, controls)
    assert ir.TurnStart in turns(program)
    out, lse = np.zeros(given[0].shape, ml_dtypes.bfloat16), np.zeros((1, 2, length), np.float32)
    emulate(program.source, held, [*given, out, lse], {}, seed=1)
    expected = study.reference(*given, causal)[0]
    assert np.linalg.norm(out.astype(float) - expected) < 5e-3 * np.linalg.norm(expected)


LONG = {"batch": 4, "length": 4096, "heads": 16, "keys": 4096, "groups": 16, "dim": 128}


def test_code() -> None:
    """A barrier of two groups before the products of a turn and one after them, no exponentials in
    between; nothing spilled, no product that waits for the one before it."""
    pytest.importorskip("cuda.bindings.nvrtc")
    held = study.attention.compile(**LONG, causal=True).program.kernel
    program = lowered(held, Controls(ping_pong=True))
    assert any(isinstance(r.decision, TakeTurns) for r in program.all_remarks)
    assert not [r for r in program.all_remarks if r.op == "ptxas"]
    machine = disassemble(program.cubin)
    assert not re.search(r"\b(STL|LDL)\b", machine)
    pattern = r"BAR\.(?:SYNC\S*|ARV) R\d+, 0x100|MUFU\.EX2|HGMMA|BAR\.ARV 0x2, 0x100"
    order = re.findall(pattern, machine)
    assert order.count("BAR.ARV 0x2, 0x100") == 1
    placed = turns(program)
    assert sum("BAR" in o for o in order) == len(placed)
    between = 0
    for first, second in _sections(order):
        inside = order[first + 1 : second]
        assert "MUFU.EX2" not in inside
        between += inside.count("HGMMA")
    # 8 instructions for each of the two products.
    assert between == 16 * placed.count(ir.TurnWait) == 16


def test_turn_ends_before_arithmetic_on_complete_scores() -> None:
    """The assembler keeps the arrival where the text has it: behind the wait for the scores, before
    their maximum; products of values run on, and none waits for the one before it."""
    pytest.importorskip("cuda.bindings.nvrtc")
    float8: Any = importlib.import_module("case_studies.fp8_attention")
    held = float8.fp8_attention.compile(**LONG, block_N=192, halves=True).program.kernel
    assert_arrival(lowered(held, Controls(overlap=True, hand_over="complete")))


def assert_arrival(program: CudaProgram) -> None:
    """Ten products of one hold, the wait for those of scores, the arrival; no exponential before it
    and some before the wait for the others."""
    assert not [r for r in program.all_remarks if r.op == "ptxas"]
    decisions = [r.decision for r in program.all_remarks]
    assert TakeTurns(2, complete=True) in decisions
    pattern = r"BAR\.(?:SYNC\S*|ARV) R\d+, 0x100|QGMMA|DEPBAR\.LE gsb0, 0x\d|FMNMX|MUFU"
    order = re.findall(pattern, disassemble(program.cubin))
    begin = next(n for n, each in enumerate(order) if each.startswith("BAR.SYNC"))
    turn = order[begin + 1 :]
    assert turn[:11] == ["QGMMA"] * 10 + ["DEPBAR.LE gsb0, 0x1"]
    assert turn[11].startswith("BAR.ARV")
    assert turn[: turn.index("DEPBAR.LE gsb0, 0x0")].count("MUFU") >= 48


def test_float8_attention_in_halves() -> None:
    """Turns that end with complete scores, and values whose wait is behind half of a tile's
    exponentials: a right result, and the wait is where it should be."""
    float8: Any = importlib.import_module("case_studies.fp8_attention")
    shape = {"batch": 1, "length": 130, "heads": 1, "dim": 64, "keys": 240, "groups": 1}
    given = float8.inputs(**shape)
    options = {"block_N": 64, "halves": True, "causal": True}
    held = float8.fp8_attention.compile(**shape, **options).program.kernel
    for overlap in (None, True):
        program = lowered(held, Controls(overlap=overlap, ping_pong=True, hand_over="complete"))
        late = [o for o in program.kernel.ops() if isinstance(o, ir.Wait) and o.behind]
        assert bool(late) == (overlap is True)
        said = [r.decision for r in program.remarks]
        assert any(isinstance(each, TakeTurns) and each.complete for each in said)
    out = np.zeros(given[0].shape, ml_dtypes.bfloat16)
    emulate(program.source, held, [*given, out], {}, seed=2)
    expected = float8.reference(*given, True)
    error = np.linalg.norm(out.astype(float) - expected)
    assert error < float8.LIMIT * np.linalg.norm(expected)


def test_sums_are_set_before_a_loop_that_may_have_no_iteration() -> None:
    """Set behind it, they would be written while its products may run: the assembler would let all
    products wait for each other."""
    pytest.importorskip("cuda.bindings.nvrtc")
    shape = {"batch": 1, "length": 400, "heads": 8, "dim": 64, "keys": 400, "groups": 8}
    held = study.attention.compile(**shape, causal=True).program.kernel
    program = lowered(held, FORCED)
    assert ir.TurnWait in turns(program)
    assert not [r for r in program.all_remarks if r.op == "ptxas"]


def _sections(order: list[str]) -> Iterator[tuple[int, int]]:
    """From each wait for a turn to the next arrival after it."""
    for at, each in enumerate(order):
        if each.startswith("BAR.SYNC"):
            ends = [n for n in range(at, len(order)) if order[n].startswith("BAR.ARV")]
            if ends:
                yield at, ends[0]


# -- measurement


@pytest.mark.parametrize("mode", ["stages", "ops"])
def test_time_in_which_a_group_waits_for_its_turn_has_a_name(mode: Any) -> None:
    """And marks do not get between."""
    held = kernel("ahead")
    program = compile_cuda(held, find_target("sm_90a"), FORCED, instrument=mode)
    ir.verify(program.kernel)
    assert "wait for the turn" in [site.name for site in program.kernel.sites]
