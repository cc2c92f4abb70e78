"""Tiles that an iteration fills twice: copies of what they have, second tiles, and waits for stores
in front of barriers that are there anyway."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.cuda import group_kernels as kernels
from tileprof import ir
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.pipeline import CudaProgram, compile_cuda
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import Watch, emulate
from tileprof.remarks.copies import HasIt
from tileprof.remarks.layouts import SecondTile

Array = np.ndarray[Any, Any]
ROUNDS = 3


def permutations(rng: np.random.Generator) -> Array:
    """A row of each has one 1, so that products are exact."""
    rounds = [np.eye(64, dtype=np.float16)[rng.permutation(64)] for _ in range(ROUNDS)]
    return np.concatenate(rounds)


def check(
    *,
    watch: Watch | None = None,
    blocks: int = 1,
    sms: int = 132,
    stages: int | None = None,
    **options: bool,
) -> CudaProgram:
    """The program for a GPU of so many multiprocessors, whose states are right with stores that
    read late."""
    kernel = kernels.recurrence.compile(N=ROUNDS, C=blocks, **options).program.kernel
    program = compile_cuda(kernel, replace(find_target("sm_90a"), sms=sms), Controls(stages=stages))
    ir.verify(program.kernel)
    rng = np.random.default_rng(0)
    k, w = permutations(rng), permutations(rng)
    first = rng.integers(-2, 3, (64, blocks * 32)).astype(np.float16)
    states, values, state, before = [], [], first.astype(np.float32), first
    for i in range(ROUNDS):
        rows = slice(i * 64, i * 64 + 64)
        value = w[rows].astype(np.float32) @ state
        states.append(state.copy())
        values.append(before if options.get("kept") else value)
        before = value * (2 if options["changed"] else 1)
        state = state + k[rows].astype(np.float32).T @ before
    for seed in range(4):
        h, v = (np.full((ROUNDS * 64, blocks * 32), np.nan, np.float16) for _ in range(2))
        emulate(program.source, program.kernel, [k, w, first, h, v], seed=seed, watch=watch)
        np.testing.assert_array_equal(h, np.concatenate(states))
        np.testing.assert_array_equal(v, np.concatenate(values))
    return program


def inside(program: CudaProgram) -> list[ir.OpBase]:
    """The ops of the loop of those that compute."""
    loops = [o for o in program.kernel.ops() if isinstance(o, ir.For)]
    (body,) = (o.body for o in loops if any(isinstance(i, ir.AsyncGemm) for i in o.body.ops))
    return list(body.ops)


def told(program: CudaProgram, kind: type) -> list[str]:
    """The names in remarks with such a decision."""
    return [r.name for r in program.remarks if isinstance(r.decision, kind)]


@pytest.mark.spread("True")
@pytest.mark.parametrize("changed", [True, False])
def test_threads_do_not_wait_for_stores_of_their_iteration(changed: bool) -> None:
    """One tile is stored while the other one is filled; what the tile has is not copied again.  A
    wait stands in front of a barrier that is there anyway, or where the tile is filled again."""
    watch = Watch()
    program = check(changed=changed, watch=watch)
    assert not watch.found
    assert told(program, SecondTile) == (["v_shared"] if changed else [])
    assert told(program, HasIt) == ([] if changed else ["v → v_shared"])
    ops = inside(program)
    assert sum(isinstance(o, ir.Barrier) for o in ops) == 4
    waits = [at for at, o in enumerate(ops) if isinstance(o, ir.Wait) and o.queue == "bulk"]
    assert len(waits) == 2
    for at in waits:
        behind = [
            o for o in ops[at + 1 :] if not isinstance(o, ir.Wait | ir.Fence | ir.RingRelease)
        ]
        assert isinstance(behind[0], ir.Barrier)
        started = [o for o in ops[:at] if isinstance(o, ir.Commit)]
        products = [o for o in ops[:at] if isinstance(o, ir.AsyncGemm)]
        assert len(products) >= len(started)
    # With one more barrier in the iteration, one of the waits needs none of its own.
    first = next(at for at, o in enumerate(ops) if isinstance(o, ir.AsyncGemm))
    assert (waits[0] < first) is changed


@pytest.mark.parametrize("changed", [True, False])
def test_stores_are_started_behind_products_that_read_the_same_tile(changed: bool) -> None:
    """The product would wait for the warp of the thread that starts the store."""
    ops = inside(check(changed=changed))
    product = next(at for at, o in enumerate(ops) if isinstance(o, ir.AsyncGemm))
    store = next(at for at, o in enumerate(ops) if isinstance(o, ir.AsyncCopy))
    wait = next(at for at, o in enumerate(ops) if isinstance(o, ir.Wait) and o.queue == "wgmma")
    assert product < store < wait


def test_tile_that_is_stored_before_it_is_filled_stays_one() -> None:
    """It keeps something from iteration to iteration."""
    program = check(changed=True, kept=True)
    assert not told(program, SecondTile)


def test_no_second_tile_where_it_keeps_a_block_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """More blocks are better than a tile to spare."""
    from tileprof.compiler.cuda.passes.persist import persist

    monkeypatch.setattr(persist, "_fits_as_well", lambda *_: False)
    program = check(changed=True)
    assert not told(program, SecondTile)
    assert sum(isinstance(o, ir.Barrier) for o in inside(program)) == 4


@pytest.mark.spread("four", "odd")
@pytest.mark.parametrize(
    ("blocks", "sms", "size"),
    [(4, 2, 4), (4, 132, 1), (6, 1, 1), (3, 2, 1)],
    ids=["four", "alone", "several waves", "odd"],
)
def test_blocks_that_run_at_once_load_for_each_other(blocks: int, sms: int, size: int) -> None:
    """Where several share a multiprocessor, and mostly load the same for few products."""
    program = check(changed=False, blocks=blocks, sms=sms)
    (launch,) = program.source.launches
    assert launch.cluster == size
    copies = [o for o in program.kernel.ops() if isinstance(o, ir.AsyncCopy) and o.ring]
    assert [o.multicast for o in copies] == [size, size]


def test_blocks_whose_rings_have_one_slot_load_alone() -> None:
    """Each slot would wait for the slowest of them."""
    program = check(changed=False, blocks=4, sms=2, stages=1)
    (launch,) = program.source.launches
    assert launch.cluster == 1
