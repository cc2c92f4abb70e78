"""Marks as CUDA text: what a measured kernel records, and what measuring does to its binary."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tileprof
from tests.cuda.compiled_kernels import kernel, lowered
from tests.cuda.recording import Recorder
from tests.instrument.walking import path_of
from tileprof import ir
from tileprof.compiler import Options, compile_kernel
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.marks import role_registers
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.compiler.cuda.tuning import ROLE_REGISTERS
from tileprof.emulator import emulate
from tileprof.instrument import Mode
from tileprof.instrument.decode.queues import flights_of
from tileprof.instrument.decode.timeline import timeline_of
from tileprof.instrument.decode.warp_times import decode_slots
from tileprof.instrument.slots import Slots

small: Any = importlib.import_module("tests.cuda.small_kernels")
marked: Any = importlib.import_module("tests.instrument.marked_kernels")

Array = np.ndarray[Any, Any]
MODES: tuple[Mode, ...] = ("scopes", "stages", "ops")


def recorded(
    program: CudaProgram, values: Sequence[Any], *, seed: int = 0, **given: Any
) -> tuple[list[Array], Slots]:
    """Copies of the values after a launch, and what its warps recorded."""
    recorder = Recorder()
    held = [v.copy() if isinstance(v, np.ndarray) else v for v in values]
    argument = recorder.argument(**given)
    emulate(program.source, program.kernel, held, {}, seed=seed, recording=argument)
    return held, recorder.slots()


def shown(program: CudaProgram, slots: Slots) -> list[tuple[int, int, list[str]]]:
    """Block, warp, and the paths of sites that it was in, one after the other."""
    made = program.kernel
    paths = [
        " / ".join(made.sites[s].name for s in path_of(made, state.site)) for state in made.states
    ]
    starts = slots.starts
    return [
        (
            int(head["block"]),
            int(head["warp"]),
            [paths[s] for s in slots.records["state"][starts[i] : starts[i + 1]]],
        )
        for i, head in enumerate(slots.heads)
    ]


def _matrices() -> list[Array]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (128, 256)).astype(ml_dtypes.bfloat16) for _ in range(2))
    return [a, b, np.zeros((128, 128), ml_dtypes.bfloat16)]


PRODUCER_TURN = [
    "producer / loop k / wait for a free slot",
    "producer / loop k / load A, B",
]
CONSUMER_TURN = [
    "consumer / loop k / wait for a, b",
    "consumer / loop k / gemm",
    "consumer / loop k / wait for gemm",
]
EPILOGUE = [
    "consumer / epilogue / barrier",
    "consumer / epilogue / copy c → C_staged",
    "consumer / epilogue / barrier",
    "consumer / epilogue / write C",
    "consumer / epilogue / wait for stores of C",
]


@pytest.mark.parametrize("seed", range(3))
def test_a_product_records_its_steps(seed: int) -> None:
    """Each warp of each block goes through the states of its role; the result is unchanged."""
    program = lowered(kernel("small matmul"), "sm_90a", None, "ops")
    a, b, _ = given = _matrices()
    found, slots = recorded(program, given, seed=seed)
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    np.testing.assert_array_equal(found[2], expected.astype(ml_dtypes.bfloat16))
    warps = shown(program, slots)
    assert sorted((block, warp) for block, warp, _ in warps) == [
        (block, warp) for block in range(4) for warp in range(5)
    ]
    (spec,) = program.source.launches
    assert (spec.warps, spec.consumer_warps, spec.records) == (5, 4, True)
    for _, warp, paths in warps:
        if warp == spec.consumer_warps:
            assert paths == ["producer / loop k", *(PRODUCER_TURN * 4)]
        else:
            fill = ["consumer / prologue / fill c", "consumer / loop k"]
            assert paths == [*fill, *(CONSUMER_TURN * 4), *EPILOGUE]


def test_a_persistent_product_goes_on_to_its_next_tile() -> None:
    """Two blocks of four tiles: the steps of a tile come twice, inside of one loop over tiles."""
    controls = Controls(persistent=True)
    program = lowered(kernel("small matmul"), "sm_90a", controls, "stages")
    assert program.source.launches[0].persistent
    plain = lowered(kernel("small matmul"), "sm_90a", controls)
    given = [v.copy() for v in _matrices()]
    emulate(plain.source, plain.kernel, given, {})
    found, slots = recorded(program, _matrices())
    np.testing.assert_array_equal(found[2], given[2])
    for _, warp, paths in shown(program, slots):
        inside = [
            p for p in paths if p.startswith(("consumer / loop tile / ", "producer / loop t"))
        ]
        if warp < 4:
            assert paths[0] == "consumer / loop tile"
            tile = [p.partition("loop tile / ")[2] for p in inside if p != paths[0]]
            assert tile[: len(tile) // 2] == tile[len(tile) // 2 :]
            assert tile.count("loop k / gemm") == 8
            assert tile.count("epilogue / write C") == 2
        else:
            assert paths.count("producer / loop tile / loop k / load A, B") == 8


@pytest.mark.sweep
def test_attention_records_its_steps() -> None:
    """Two products a turn on two rings: each wait, product and sum in its turn."""
    study: Any = importlib.import_module("case_studies.flash_attention")
    made = study.flash_attention(1, 2, 128, 64, False).program.kernel
    rng = np.random.default_rng(0)
    given = [rng.standard_normal((1, 128, 2, 64)).astype(np.float32) for _ in range(3)]
    given.append(np.zeros((1, 128, 2, 64), np.float32))
    plain = lowered(made, "sm_90a")
    expected = [v.copy() for v in given]
    emulate(plain.source, plain.kernel, expected, {})
    program = lowered(made, "sm_90a", None, "ops")
    found, slots = recorded(program, given)
    np.testing.assert_array_equal(found[3], expected[3])
    warps = shown(program, slots)
    assert len(warps) == 4 * 5
    for _, warp, paths in warps:
        steps = [p.rpartition(" / ")[2] for p in paths]
        if warp == 4:
            turn = [f"{what} {name}" for name in "KV" for what in ("slot of", "load")]
            short = [s.replace("wait for a free ", "").removesuffix("_shared") for s in steps]
            assert [s for s in short if s.startswith(("slot", "load "))] == [
                "slot of Q", "load Q", *(turn * 2),
            ]  # fmt: skip
            continue
        turn = [
            "wait for K_shared", "gemm → scores", "wait for gemm → scores", "reduce max → top",
            "compute correction (exp2)", "compute scores (exp2)", "compute row_sum",
            "reduce sum → row_sum", "compute output", "convert layout of scores",
            "wait for V_shared", "gemm → output",
        ]  # fmt: skip
        end = ["all-reduce sum → row_sum", "compute output (div)"]
        known = {*turn, "wait for Q_shared", *end}
        assert [s for s in steps if s in known] == [
            "wait for Q_shared", *(turn * 2), *end,
        ]  # fmt: skip
        for path in (
            "scores / gemm → scores", "softmax / reduce max → top", "values / gemm → output",
        ):  # fmt: skip
            assert f"consumer / loop k / {path}" in paths


def test_which_warps_and_blocks_record() -> None:
    """The launch says it; the others do the same work and write nothing."""
    program = lowered(kernel("small matmul"), "sm_90a", None, "stages")
    found, slots = recorded(program, _matrices(), every=2, first=1, warps=0b10001, tag=7)
    assert {(int(h["block"]), int(h["warp"])) for h in slots.heads} == {
        (1, 0), (1, 4), (3, 0), (3, 4),
    }  # fmt: skip
    assert set(slots.heads["tag"].tolist()) == {7}
    nothing, none = recorded(program, _matrices(), every=8, first=4)
    assert len(none) == 0
    np.testing.assert_array_equal(found[2], nothing[2])


@pytest.mark.parametrize("target", ["sm_90a", "sm_80"])
def test_without_roles_every_warp_records(target: str) -> None:
    """Branches, loops that are left early, scopes: what the interpreter gives, and whole slots."""
    made = tileprof.compile(marked.branches).program.kernel
    x, n = np.ones(64, np.float32), np.array([0, 1, 2, 4], np.int32)
    expected = x.copy()
    plain = lowered(made, target)
    emulate(plain.source, plain.kernel, [expected, n], {})
    program = lowered(made, target, None, "scopes")
    found, slots = recorded(program, [x, n])
    np.testing.assert_array_equal(found[0], expected)
    for block, _, paths in shown(program, slots):
        # Even turns double; from three turns on there is more, and turn 3 leaves the rest out.
        doubled = [p for p in paths if p.endswith("double")]
        assert len(doubled) == (n[block] + 1) // 2
        assert paths.count("outer / more") == (n[block] if n[block] > 2 else 0)
        assert paths.count("again / again") == n[block]
        assert paths[-1] == ""


def test_a_program_is_compiled_with_its_mode() -> None:
    """The records for the cpu are not in the way."""
    traced = tileprof.compile(marked.product).traced
    program = compile_kernel(traced, Options(instrument="stages"))
    assert any(isinstance(op, ir.Record) for op in program.kernel.ops())
    made = program.lowered("sm_90a")
    assert not any(isinstance(op, ir.Record) for op in made.kernel.ops())
    direct = lowered(compile_kernel(traced).kernel, "sm_90a", None, "stages")
    assert made.source.text == direct.source.text
    assert made.source.sites == made.kernel.sites
    assert made.source.states == made.kernel.states


@pytest.mark.parametrize("name", ["matmul", "softmax"])
def test_text(name: str, golden: Callable[[str], None]) -> None:
    """The CUDA C++ text with marks, without the places of lines."""
    text = lowered(kernel(f"small {name}"), "sm_90a", None, "stages").source.text
    golden(re.sub(r"^#line.*\n", "", text, flags=re.MULTILINE))


def test_a_producer_gets_registers_for_marks() -> None:
    """Of its consumers: together they have no more than without marks."""
    for groups, clean in ROLE_REGISTERS.items():
        roles = ir.Roles(ir.Block(), ir.Block(), *clean)
        producer, consumer = role_registers(roles, groups * 128)
        assert producer > clean[0]
        assert producer + groups * consumer == clean[0] + groups * clean[1]
    one = ir.Roles(ir.Block(), ir.Block())
    assert role_registers(one, 128) == (0, 0)


@pytest.mark.parametrize(
    ("name", "short", "mode", "limited"),
    [("gemm", 160, "off", False), ("gemm", 160, "ops", False), ("gemm", 160, "sample", False),
     ("gemm 192", 120, "ops", False), ("gemm 192", 120, "ops", True)],
)  # fmt: skip
def test_roles_ask_for_registers_that_are_there(
    name: str, short: int, mode: Mode, limited: bool
) -> None:
    """An increase waits until the block has as many, so a kernel that asks for more hangs."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC of 'cuda'")
    program = lowered(kernel(name), "sm_90a", Controls(registers=short if limited else None), mode)
    (spec,) = program.source.launches
    (held,) = program.cubin.resources.values()
    found = re.findall(r"tp_registers_(?:de|in)crease<(\d+)>", program.source.text)
    assert limited == (not found)
    for producer, consumer in zip(found[::2], found[1::2]):
        consumers = spec.threads - 128
        assert int(producer) * 128 + int(consumer) * consumers <= held.registers * spec.threads


@pytest.mark.spread("gemm-ops", "softmax bf16-ops")
@pytest.mark.parametrize(
    ("name", "mode"),
    # Ops have all marks that stages have, and more.
    [("gemm", "ops"), ("flash_attention", "ops"), ("softmax bf16", "ops")],
)
def test_measuring_costs_few_registers(name: str, mode: Mode) -> None:
    """It compiles; nothing spills, and the assembler has nothing more to say: a product that would
    wait for the one before it, above all."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="no NVRTC of 'cuda'")
    clean, measured = (lowered(kernel(name), "sm_90a", None, m).cubin for m in ("off", mode))
    for function, taken in measured.resources.items():
        before = clean.resources[function]
        # Two addresses, a clock, what is passed on from mark to mark, and what a mark computes.
        assert taken.registers <= before.registers + 10
        assert (taken.stack, taken.spill_stores, taken.spill_loads) == (
            before.stack, before.spill_stores, before.spill_loads,
        )  # fmt: skip
    assert [(n.kind, n.function) for n in measured.notes] == [
        (n.kind, n.function) for n in clean.notes
    ]


def test_records_become_times_by_site() -> None:
    """Visits of each site, summed over the warps of all blocks, and what each role waited for."""
    program = lowered(kernel("small matmul"), "sm_90a", None, "ops")
    _, slots = recorded(program, _matrices())
    sites, (spec,) = program.source.sites, program.source.launches
    times = decode_slots(
        slots, sites, program.source.states, consumer_warps=spec.consumer_warps, ns_per_cycle=1
    )
    paths = ("/".join(sites[s].name for s in path) for path in times.paths())
    counts = dict(zip(paths, times.count.tolist(), strict=True))
    assert counts["producer"] == 4
    assert counts["producer/loop k"] == 4
    assert counts["producer/loop k/load A, B"] == 16
    assert counts["consumer"] == 16
    assert counts["consumer/loop k"] == 16
    for step in ("wait for a, b", "gemm", "wait for gemm"):
        assert counts[f"consumer/loop k/{step}"] == 64
    assert counts["consumer/epilogue"] == 16
    assert counts["consumer/epilogue/barrier"] == 32
    timeline = timeline_of(slots, sites, program.source.states, ns_per_cycle=1)
    flights = {each.queue: each for each in flights_of(timeline, sites)}
    assert {name: (len(f), f.unretired) for name, f in flights.items()} == {
        # Each of four warps of four blocks waits for four loads, and for its own four products.
        "ring of a, b": (64, 0),
        "wgmma": (64, 0),
        "bulk": (16, 0),
    }


def test_blocks_of_replays_take_turns() -> None:
    """The first 64 record, of later ones about one in eight; results stay what they are."""
    program = lowered(kernel("small matmul"), "sm_90a", None, "stages")
    values = _matrices()
    expected, _ = recorded(program, values)
    turns = np.zeros(1, np.uint64)
    kept = []
    for _ in range(48):
        found, slots = recorded(program, values, turns=turns.ctypes.data)
        assert all((a == b).all() for a, b in zip(found, expected))
        kept.append(len(set(slots.heads["block"].tolist())))
    assert turns[0] == 48 * 4
    assert kept[:16] == [4] * 16
    assert 4 <= sum(kept[16:]) <= 14
