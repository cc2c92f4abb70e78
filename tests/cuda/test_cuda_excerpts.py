"""What single blocks did when, from the records of launches to the tables of a profile."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import tileprof.profiler as profiler
from tests.cuda.compiled_kernels import kernel, lowered
from tests.cuda.test_cuda_records import (
    LOAD,
    MATH,
    ROWS,
    SITES,
    WARPS,
    Late,
    Machine,
    _view,
    machine,
    marked,
    run,
    visits,
)
from tests.cuda.test_marks import _matrices, recorded
from tests.cuda.test_runtime import KERNEL, aligned
from tests.instrument.test_excerpts import SITES as PIPELINE
from tests.instrument.test_excerpts import STATES, _block
from tests.instrument.warps import slots_of
from tileprof.compiler import Options, Program
from tileprof.instrument import slots
from tileprof.instrument.decode.excerpts import Excerpt, excerpt_of
from tileprof.profile import KernelInfo, Profile, SiteInfo, Tables, TreeBuilder
from tileprof.profiler.host.excerpts import Excerpts, cta_timelines
from tileprof.runtime import hooks
from tileprof.runtime.cuda.records import capacity as cuda_room
from tileprof.runtime.cuda.records import undecoded
from tileprof.runtime.cuda.records.launch_ids import is_kept
from tileprof.runtime.launch import LoadedKernel
from tileprof.viewer import export, render_cta
from tileprof.viewer.ctas.ctas import Ctas

__all__ = ["machine"]


def _kept(late: Late) -> list[tuple[int, int, Excerpt]]:
    """Token, number of the launch and excerpt of all that were told."""
    found = [(token, told.excerpt) for token, told, _ in late.told]
    return [(token, each.launch, each) for token, each in found if each is not None]


def test_which_launches_are_kept() -> None:
    """The first two, then ever fewer."""
    assert [n for n in range(100) if is_kept(n)] == [0, 1, 3, 7, 15, 31, 63]


def test_a_launch_is_told_from_others_of_its_token(machine: Machine) -> None:
    """Its blocks are those of one launch, though its sites are added to those of all."""
    held = machine.executable()
    before = time.perf_counter_ns()
    for _ in range(3):
        run(machine, held, 7, rows=33)
    machine.records.collect(final=False)
    assert [(token, launch) for token, launch, _ in _kept(machine.late)] == [(7, 0), (7, 1)]
    blocks = machine.warps.blocks
    ends = [0, *(i for i in range(1, len(blocks)) if blocks[i] < blocks[i - 1])]
    launches = [blocks[a:b] for a, b in pairwise(ends)]
    assert len(launches) == 2
    for mine, (_, _, found) in zip(launches, _kept(machine.late), strict=True):
        assert found.recorded == len(mine)
        assert {block.number for block in found.blocks} <= set(mine)
        assert (found.function, found.device) == ("marked_0", "cuda:0")
        assert before < found.issued_ns < time.perf_counter_ns()
        assert [w.number for w in found.warps[:WARPS]] == list(range(WARPS))
        assert (found.begin[:2].tolist(), found.end[:2].tolist()) == (
            [0, LOAD], [LOAD, LOAD + MATH],
        )  # fmt: skip
    assert machine.late.total(7)["launches"] == 3


def test_a_launch_is_kept_whole(machine: Machine) -> None:
    """It is told only when all of its warps were read."""
    held = machine.executable()
    machine.warps.holds = True
    run(machine, held)
    arena = int(np.frombuffer(machine.warps.last, slots.RECORDING)["arena"][0])
    heads = _view(arena + 64, 8 * WARPS, slots.SLOT)
    heads["ready"][:20] = heads["ticket"][:20] + 1
    machine.records.collect(final=False)
    assert machine.late.times(7)
    assert not _kept(machine.late)
    heads["ready"] = heads["ticket"] + 1
    machine.records.collect(final=False)
    [(_, _, found)] = _kept(machine.late)
    assert found.recorded == 8
    assert len(found.warps) == WARPS * len(found.blocks)


def test_a_launch_is_whole_where_too_many_slots_wait(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of its warps are decoded while others are read."""
    monkeypatch.setattr(cuda_room, "_AT_ONCE", 10 * 16 * 8)
    monkeypatch.setattr(cuda_room, "_JOINED", 1)
    monkeypatch.setattr(undecoded, "MOST_SLOTS", 40)
    run(machine, machine.executable())
    machine.records.read()
    assert machine.late.times(7) == visits(40)
    assert not _kept(machine.late)
    machine.records.collect(final=False)
    assert machine.late.times(7) == visits(8 * WARPS)
    [(_, _, found)] = _kept(machine.late)
    assert found.recorded == 8


def test_a_launch_that_lacks_warps_is_told_at_the_end(machine: Machine) -> None:
    """Those that found no room never come."""
    held = machine.executable()
    machine.warps.holds = True
    run(machine, held)
    arena = int(np.frombuffer(machine.warps.last, slots.RECORDING)["arena"][0])
    head = _view(arena, 1, slots.ARENA)
    heads = _view(arena + 64, 8 * WARPS, slots.SLOT)
    heads["ready"] = heads["ticket"] + 1
    head["claimed"] = 20
    machine.records.collect(final=False)
    assert not _kept(machine.late)
    machine.records.collect(final=True)
    [(_, _, found)] = _kept(machine.late)
    assert found.recorded == 3


def test_replays_have_no_time_of_the_host(machine: Machine) -> None:
    """The second of them is kept."""
    held = machine.executable()
    machine.gpu.capturing = 1
    run(machine, held, 8)
    for _ in range(3):
        machine.warps.replay(machine.warps.last, ROWS)
    machine.records.collect(final=False)
    machine.warps.replay(machine.warps.last, ROWS)
    machine.records.collect(final=True)
    [(token, launch, found)] = _kept(machine.late)
    assert (token, launch, found.recorded, found.issued_ns) == (8, 1, 2, -1)


def test_another_variant_has_the_numbers_of_the_kernel(machine: Machine) -> None:
    """As its sums have."""
    held = machine.executable()
    held._build = marked(sites=(replace(SITES[1], id=0), replace(SITES[0], id=1)))
    odd = aligned((4, 64), 2)
    held.run([odd, aligned((4, 64)), 0.5, 1], (4, 64), (machine.late, 7))
    machine.records.collect(final=False)
    assert _kept(machine.late)[0][2].site[:2].tolist() == [1, 0]


def _profiled(machine: Machine, launches: int) -> Profile:
    hooks.collectors.append(machine.records)
    program = Program(KERNEL, KERNEL, Options(instrument="scopes"))
    loaded = LoadedKernel(program, "cuda:0", machine.executable())
    try:
        with profiler.profile(context="scopes") as session:
            for _ in range(launches):
                loaded.launch([aligned((4, 64)), aligned((4, 64)), 0.5, 1], (4, 64))
    finally:
        hooks.collectors.remove(machine.records)
    profile = session.profile
    assert profile is not None
    return profile


def test_a_profile_holds_a_warm_launch(machine: Machine) -> None:
    """The second, where there is one."""
    for launches, number in ((1, 0), (2, 1), (9, 1)):
        profile = _profiled(machine, launches)
        profile.check()
        held = profile.tables.ctas
        held.check_columns()
        (launch,) = held.launches
        assert (launch.number, launch.recorded, launch.device) == (number, 4, "cuda:0")
        assert [cta.chosen for cta in held.ctas] != []
        assert len(held.warps) == WARPS * len(held.ctas)
        assert len(held.visits) == 2 * len(held.warps)
        assert profile.tables.kernels[launch.kernel].name == "scale"


def _pipeline(lengths: list[int], launch: int = 1) -> Excerpt:
    warps = [w for i, n in enumerate(lengths) for w in _block(i, n, 5000 + i)]
    found = excerpt_of(slots_of(warps, STATES), PIPELINE, STATES, consumer_warps=4, ns_per_cycle=1)
    assert found is not None
    return replace(found, function="f", device="cuda:0", launch=launch)


def test_whole_ctas_give_way_where_there_is_no_room() -> None:
    """The median of each launch stays longest; what is gone is told."""
    session = Excerpts()
    session.take(3, _pipeline([150, 110, 160, 120, 190]))
    session.take(5, _pipeline([150, 170, 160]))
    every, none = cta_timelines([session], {3: 1, 5: 0})
    assert none == {}
    every.check_columns()
    size = len(every.visits) // len(every.ctas)
    assert [(e.kernel, e.recorded) for e in every.launches] == [(0, 3), (1, 5)]
    held, told = cta_timelines([session], {3: 1, 5: 0}, most=3 * size + 1)
    held.check(2)
    held.check_columns()
    assert [(cta.launch, cta.chosen) for cta in held.ctas] == [
        (0, "longest"), (0, "median, last"), (1, "median, first"),
    ]  # fmt: skip
    assert told == {"CTAs left out": f"3 of 6; {3 * size + 1:,} visits are kept at most"}
    assert set(held.visits.warp.tolist()) == set(range(len(held.warps)))
    assert set(held.flights.issuer.tolist()) <= set(range(len(held.warps)))
    assert cta_timelines([session], {5: 0})[0].launches == every.launches[:1]
    assert not cta_timelines([session], {3: 0, 5: 1}, most=5)[0].launches


def test_who_is_kept() -> None:
    """A launch gives way only if it was its function's first; of later sessions there is more."""
    one, other = Excerpts(), Excerpts()
    for launch, lengths in ((0, [150]), (1, [150, 160]), (3, [150])):
        one.take(3, _pipeline(lengths, launch))
    assert [e.launch for _, e in one.items()] == [1]
    other.take(3, _pipeline([150], 7))
    assert [e.number for e in cta_timelines([one, other], {3: 0})[0].launches] == [7]
    assert [e.number for e in cta_timelines([one, Excerpts()], {3: 0})[0].launches] == [1]


def test_a_kernel_from_its_records_to_what_is_shown() -> None:
    """A product with a producer, run by the emulator: rows of its warps, its loads and products."""
    program = lowered(kernel("small matmul"), "sm_90a", None, "ops")
    _, slots_of_it = recorded(program, _matrices())
    (spec,) = program.source.launches
    excerpt = excerpt_of(
        slots_of_it, program.source.sites, program.source.states,
        consumer_warps=spec.consumer_warps, ns_per_cycle=1.0,
    )  # fmt: skip
    assert excerpt is not None
    session = Excerpts()
    session.take(0, replace(excerpt, function=spec.function, device="cuda:0"))
    held, _ = cta_timelines([session], {0: 0})
    held.check_columns()
    sites = tuple(
        SiteInfo(s.id, s.name, s.kind, s.location, s.parent) for s in program.source.sites
    )
    builder = TreeBuilder()
    builder.add(builder.child(-1, "kernel", "matmul"), "time", 1)
    made = builder.snapshot(Tables((KernelInfo("matmul", "cuda:0", sites=sites),), ctas=held))
    # Four blocks, in each a producer and four consumers; four loads and four products a warp.
    assert len(held.ctas) == 4
    roles = [(warp.warp, warp.role) for warp in held.warps[:5]]
    assert roles == [(4, "producer"), *((n, "consumer") for n in range(4))]
    queues = [held.queues[queue] for queue in held.flights.queue.tolist()]
    assert {name: queues.count(name) for name in held.queues} == {
        "ring of a, b": 4 * 4, "wgmma": 4 * 4 * 4, "bulk": 4 * 4,
    }  # fmt: skip
    view = Ctas(made)
    for warp, told in enumerate(held.warps):
        spans = list(view.innermost(warp))
        assert all(b == c for (_, b, _), (c, _, _) in pairwise(spans))
        assert spans[-1][1] <= told.end
        names = [view.site(told.cta, site).name for _, _, site in spans]
        work = "load A, B" if told.role == "producer" else "gemm"
        assert names.count(work) == 4
    text = render_cta(made, "matmul", width=100)
    for legend in ("producer / loop k / load A, B", "consumer / loop k / wait for a, b"):
        assert legend in text
    document = json.loads(export(made, "chrome"))
    slices = [e for e in document["traceEvents"] if e["ph"] == "X" and e["pid"] > 1]
    assert len(slices) == len(held.visits)
