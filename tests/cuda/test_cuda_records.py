"""Records that launches write about their inside, on a driver whose device memory is the host's."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tileprof
import tileprof.profiler as profiler
from tests.cuda import runtime_kernels
from tests.cuda.fake_driver import FakeDriver, Launched
from tests.cuda.test_runtime import KERNEL, SPEC, aligned, binary
from tests.profiler_programs import Clock, expect, tree
from tileprof import ir
from tileprof.compiler import Options, Program
from tileprof.compiler.cuda.source import Argument
from tileprof.errors import KernelError, Location
from tileprof.instrument import slots
from tileprof.instrument.slots import Slots
from tileprof.remarks import Rejection
from tileprof.remarks.common import OtherReason
from tileprof.remarks.measured import DoesNotCompile, Unmeasured
from tileprof.runtime import hooks
from tileprof.runtime.cuda import device as cuda_device
from tileprof.runtime.cuda import executable as cuda_module
from tileprof.runtime.cuda.binary import CudaBinary
from tileprof.runtime.cuda.executable import CudaExecutable, Need
from tileprof.runtime.cuda.records import (
    capacity as cuda_room,
)
from tileprof.runtime.cuda.records import (
    reader as cuda_reader,
)
from tileprof.runtime.cuda.records import (
    recorder as cuda_records,
)
from tileprof.runtime.cuda.records import (
    undecoded,
)
from tileprof.runtime.cuda.records.budget import Budget, Share
from tileprof.runtime.cuda.records.calibration import RecordCost
from tileprof.runtime.cuda.records.comparison import Comparison, Taken
from tileprof.runtime.cuda.records.launch_ids import NOTHING, SiteTable, Tag
from tileprof.runtime.cuda.records.reader import Reader
from tileprof.runtime.cuda.records.recorder import Records
from tileprof.runtime.hooks import Measured
from tileprof.runtime.launch import LoadedKernel
from tileprof.runtime.record_options import RecordOptions

SITES = (
    ir.Site(0, "load", "scope", Location("k.py", 3)),
    ir.Site(1, "math", "scope", Location("k.py", 5)),
)
STATES = (ir.State(-1), ir.State(0), ir.State(1))
MARKED = replace(
    SPEC,
    function="marked_0",
    arguments=(Argument("scalar", 3, ir.dtype("int8")), Argument("recording", 0)),
    maps=(),
    cluster=1,
)
"""Its launches have 8 warps; `scale` of 64 columns has a block for each row."""
WARPS = 8
ROWS = 16
LOAD, MATH = 100_000, 300_000
"""ns."""
SMALL = RecordOptions(records=16, memory=1024 * 16 * 8)
"""Room for 1,024 warps."""


def marked(needs: list[Need] | None = None, sites: tuple[ir.Site, ...] = SITES) -> Any:
    """What builds a binary with marks."""

    def build(need: Need) -> CudaBinary:
        if needs is not None:
            needs.append(need)
        return replace(binary(MARKED), sites=sites, states=STATES)

    return build


@dataclass
class Warps:
    """Fake kernels: each warp that records visits `load` and `math` once, at a cycle a ns."""

    blocks: list[int] = field(default_factory=list)
    """That recorded, of all launches."""
    last: bytes = b""
    """Argument of the last launch."""
    holds: bool = False
    """Whether warps have begun, and do not end."""
    result: int = 0

    def __call__(self, launched: Launched) -> int:
        self.last = launched.parameters[-1]
        assert launched.aligned[-1] >= 8
        self.replay(self.last, launched.grid[0])
        return self.result

    def replay(self, argument: bytes, blocks: int) -> None:
        """Run a launch with this argument."""
        given = np.frombuffer(argument, slots.RECORDING)[0]
        if not given["arena"]:
            return
        for block in range(blocks):
            if block & int(given["others"]) == int(given["first"]):
                self.blocks.append(block)
                for warp in range(WARPS):
                    self._warp(given, block, warp)

    def _warp(self, given: Any, block: int, warp: int) -> None:
        address = int(given["arena"])
        head = _view(address, 1, slots.ARENA)[0]
        if head["claimed"] - head["released"] >= head["slots"]:
            head["lost"] += 1
            return
        ticket = int(head["claimed"])
        head["claimed"] += 1
        place = ticket % int(head["slots"])
        slot = _view(address + 64 + 64 * place, 1, slots.SLOT)[0]
        rows = _view(
            address + int(head["records_at"]) + 8 * place * int(head["capacity"]), 3, slots.RECORD
        )
        slot["tag"], slot["block"], slot["warp"] = given["tag"], block, warp
        slot["begin_ns"], slot["end_ns"] = 1000, 1000 + LOAD + MATH
        slot["begin_clock"], slot["end_clock"] = 5000, 5000 + LOAD + MATH
        rows[:] = [(5000, 1), (5000 + LOAD, 2), (5000 + LOAD + MATH, 0)]
        slot["wanted"] = slot["kept"] = 3
        slot["ticket"] = ticket & 0xFFFFFFFF
        if not self.holds:
            slot["ready"] = (ticket + 1) & 0xFFFFFFFF


def visits(count: int) -> dict[int, tuple[int, int]]:
    """What so many warps amount to."""
    return {0: (count, count * LOAD), 1: (count, count * MATH)}


def _view(address: int, count: int, kind: np.dtype[Any]) -> Any:
    held: Any = (ctypes.c_uint8 * (count * kind.itemsize)).from_address(address)
    return np.frombuffer(held, kind)


@dataclass(eq=False)
class Late:
    """Adds up what it is told."""

    closed: bool = False
    told: list[tuple[int, Measured, bool]] = field(default_factory=list)
    losses: list[tuple[str, int]] = field(default_factory=list)

    def measured(self, token: int, measured: Measured, *, replayed: bool) -> None:
        """Keep it."""
        self.told.append((token, measured, replayed))

    def lost(self, what: str, count: int = 0) -> None:
        """Keep it."""
        self.losses.append((what, count))

    def total(self, token: int) -> dict[str, int]:
        """The numbers of a token, those that are not 0."""
        found: dict[str, int] = {}
        for of, told, _ in self.told:
            if of == token:
                for name in ("launches", "warps", "skipped", "unread"):
                    found[name] = found.get(name, 0) + getattr(told, name)
        return {name: count for name, count in found.items() if count}

    def times(self, token: int) -> dict[int, tuple[int, int]]:
        """Visits and ns of each site."""
        found: dict[int, tuple[int, int]] = {}
        for of, told, _ in self.told:
            if of == token and told.sites is not None:
                for entry in told.sites.entries():
                    count, total = found.get(entry.path[-1], (0, 0))
                    found[entry.path[-1]] = (count + entry.count, total + entry.total_ns)
        return found


@dataclass
class Machine:
    """A GPU, its records, a kernel with marks."""

    gpu: FakeDriver
    records: Records
    warps: Warps
    late: Late

    @property
    def budget(self) -> Budget:
        """That of the only arena."""
        (room,) = self.records.rooms.values()
        return room.budget

    def executable(self, needs: list[Need] | None = None) -> CudaExecutable:
        """The kernel on it."""
        return CudaExecutable(KERNEL, marked(needs), self.gpu.device)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One whose records are read only when a test says so."""
    fake, warps = FakeDriver(), Warps()
    fake.sizes = {"marked_0": (1, slots.RECORDING.itemsize)}
    fake.kernels["marked_0"] = warps
    monkeypatch.setattr(cuda_module, "is_host", lambda value: False)
    monkeypatch.setattr(cuda_module, "stream_of", lambda value, number: 77)
    monkeypatch.setattr(hooks, "record_options", SMALL)
    records = Records(fake.device, lambda soon: None, RecordCost)
    monkeypatch.setattr(cuda_module, "records_of", lambda device: records)
    return Machine(fake, records, warps, Late())


def run(machine: Machine, held: CudaExecutable, token: int = 7, rows: int = ROWS) -> None:
    """Launch it, heard."""
    a = aligned((rows, 64))
    held.run([a, aligned((rows, 64)), 0.5, 1], (rows, 64), (machine.late, token))


def test_nobody_hears(machine: Machine) -> None:
    """The argument says that nothing is recorded, and no memory is taken."""
    held = machine.executable()
    held.run([aligned((4, 64)), aligned((4, 64)), 0.5, 1], (4, 64))
    assert machine.warps.last == NOTHING
    assert not machine.gpu.memory


def test_a_launch_only_launches(machine: Machine) -> None:
    """What it writes about its inside is neither waited for nor copied on its way."""
    held = machine.executable()
    run(machine, held)
    machine.gpu.context = machine.gpu.device.context
    machine.gpu.calls.clear()
    run(machine, held)
    assert machine.gpu.names() == ["cuCtxGetCurrent", "cuStreamIsCapturing", "cuLaunchKernelEx"]


def test_some_blocks_record_others_in_each_launch(machine: Machine) -> None:
    """About eight of a launch, at a distance that is a power of two; each has its turn."""
    held = machine.executable()
    firsts = set()
    for _ in range(10):
        run(machine, held, rows=33)
        assert np.diff(machine.warps.blocks).tolist() in ([4] * 7, [4] * 8)
        firsts.add(machine.warps.blocks[0])
        machine.warps.blocks.clear()
        machine.records.read()
        machine.budget._allowance = 1024
    assert firsts == set(range(4))


def test_records_are_told_under_the_token_of_their_launch(machine: Machine) -> None:
    """Times of sites, how many launches and warps; each once."""
    held = machine.executable()
    for _ in range(3):
        run(machine, held, 7)
    run(machine, held, 9, rows=4)
    machine.records.collect(final=False)
    assert machine.late.total(7) == {"launches": 3, "warps": 3 * 8 * WARPS}
    assert machine.late.total(9) == {"launches": 1, "warps": 4 * WARPS}
    assert machine.late.times(9) == visits(32)
    before = len(machine.late.told)
    machine.records.collect(final=True)
    assert len(machine.late.told) == before
    assert not machine.late.losses


def test_a_fault_in_the_comparison_with_the_clean_kernel_costs_no_records(machine: Machine) -> None:
    """Records of the launch are kept, and the missing comparison is among the losses."""
    held = machine.executable()

    def compare() -> None:
        raise KeyError("marked_0")

    run(machine, held, 7)
    machine.records._comparisons.add(compare)
    machine.records.collect(final=True)
    assert machine.late.total(7) == {"launches": 1, "warps": 8 * WARPS}
    assert machine.late.losses == [("what marks cost is unknown (KeyError: 'marked_0')", 0)]


def test_times_are_without_what_marks_took(machine: Machine) -> None:
    """As was found out when the first records were read, by nobody's launch."""
    asked: list[int] = []

    def cost() -> RecordCost:
        asked.append(1)
        return RecordCost(500.0)

    machine.records._cost = cost
    held = machine.executable()
    run(machine, held, rows=4)
    machine.records.read()
    assert not asked
    assert held.record_cost() is None
    machine.records.collect(final=False)
    assert asked == [1]
    assert machine.late.times(7) == {0: (32, 32 * (LOAD - 500)), 1: (32, 32 * (MATH - 500))}
    (sites,) = [told.sites for _, told, _ in machine.late.told if told.sites is not None]
    assert sites.marks is not None
    assert sites.marks.count.tolist() == [32, 32]
    assert sites.marks.ns.tolist() == [32 * 500, 32 * 500]
    assert held.record_cost() == RecordCost(500.0)


def test_records_that_are_not_there_yet(machine: Machine) -> None:
    """A warp that has not ended is waited for; what comes behind it too."""
    held = machine.executable()
    machine.warps.holds = True
    run(machine, held, 7)
    machine.warps.holds = False
    run(machine, held, 9)
    machine.records.collect(final=False)
    assert not machine.late.times(9)
    arena = int(np.frombuffer(machine.warps.last, slots.RECORDING)["arena"][0])
    heads = _view(arena + 64, 8 * WARPS, slots.SLOT)
    heads["ready"] = heads["ticket"] + 1
    machine.records.collect(final=False)
    assert machine.late.times(7) == machine.late.times(9) == visits(64)


def test_launches_beyond_the_room_are_skipped_and_told(machine: Machine) -> None:
    """What is written is whole; once it was read there is room again."""
    held = machine.executable()
    for _ in range(20):
        run(machine, held)
    machine.records.collect(final=False)
    counts = machine.late.total(7)
    # 1,024 slots are 16 launches of 64, of which kernels with nothing yet have two.
    assert counts == {"launches": 14, "warps": 14 * 64, "skipped": 6}
    machine.budget._allowance = 1024
    run(machine, held)
    machine.records.collect(final=False)
    assert machine.late.total(7)["launches"] == 15
    assert not machine.late.losses


def test_slots_are_used_again_and_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The arena goes round, wherever a reading begins and ends, and however it is cut to pieces."""
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(cuda_room, "_AT_ONCE", 100 * 16 * 8)
    held = machine.executable()
    for number in range(1, 60):
        for _ in range(number % 9):
            run(machine, held, rows=number)
        machine.records.read()
        now[0] += 1
    machine.records.collect(final=True)
    warps = len(machine.warps.blocks) * WARPS
    assert warps > 3 * 1024
    assert machine.late.total(7) == {"launches": sum(n % 9 for n in range(1, 60)), "warps": warps}
    assert machine.late.times(7) == visits(warps)
    assert machine.budget.outstanding == 0


def test_no_more_records_than_a_limit_are_decoded_at_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decoding takes several times their memory; a slot that is larger alone is decoded alone."""
    monkeypatch.setattr(cuda_room, "_AT_ONCE", 10 * 16 * 8)
    monkeypatch.setattr(undecoded, "MOST_RECORDS", 600)
    monkeypatch.setattr(cuda_records, "_DECODED_AT_ONCE", 300)
    sizes: list[int] = []
    decode = Records._decode

    def decoded(self: Records, tag: Tag, part: Slots) -> None:
        sizes.append(len(part.records))
        decode(self, tag, part)

    monkeypatch.setattr(Records, "_decode", decoded)
    held = machine.executable()
    for _ in range(12):
        run(machine, held)
    machine.records.collect(final=True)
    assert machine.late.times(7) == visits(12 * 8 * WARPS)
    assert len(sizes) > 5
    assert max(sizes) <= 300


@given(
    kept=st.lists(st.integers(0, 40), max_size=60),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    at_once=st.integers(1, 60),
)
def test_what_waits_comes_in_order_in_parts(
    kept: list[int], sizes: list[int], at_once: int
) -> None:
    """Slots come back whole, in the order in which they were added, and their room with them."""
    waiting = undecoded.Undecoded()
    for _ in range(2):
        at = 0
        for size in itertools.cycle(sizes):
            if at >= len(kept):
                break
            part = numbered(kept[at : at + size], at)
            assert waiting.fits(part)
            waiting.add(part)
            at += size
        assert len(waiting) == len(kept)
        parts = list(waiting.take(at_once))
        assert len(waiting) == 0
        joined = Slots.join(parts)
        assert joined.heads["ticket"].tolist() == list(range(len(kept)))
        assert joined.heads["kept"].tolist() == kept
        assert joined.records["clock"].tolist() == [
            n for n, many in enumerate(kept) for _ in range(many)
        ]
        assert all(len(part.records) <= at_once or len(part) == 1 for part in parts)


def numbered(kept: list[int], first: int) -> Slots:
    """Slots with so many records each, which have the number of their slot."""
    heads, records = np.zeros(len(kept), slots.SLOT), np.zeros(sum(kept), slots.RECORD)
    heads["kept"], heads["ticket"] = kept, first + np.arange(len(kept))
    records["clock"] = np.repeat(heads["ticket"], kept)
    return Slots(heads, records)


def test_few_slots_wait(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond their number they are decoded, whether somebody asks or not, and none is lost; what is
    larger than all room is decoded by itself."""
    monkeypatch.setattr(undecoded, "MOST_SLOTS", 3 * 8 * WARPS)
    held = machine.executable()
    told = []
    for _ in range(12):
        run(machine, held)
        machine.records.read()
        told.append(sum(each.warps for _, each, _ in machine.late.told))
        assert len(machine.records._undecoded) <= undecoded.MOST_SLOTS
    assert told[2] == 0 < told[3]
    monkeypatch.setattr(undecoded, "MOST_SLOTS", 8)
    run(machine, held)
    machine.records.collect(final=True)
    assert machine.late.times(7) == visits(13 * 8 * WARPS)


def test_what_is_added_while_parts_are_taken_stays() -> None:
    """As a signal's handler may, which ends the recording."""
    waiting = undecoded.Undecoded()
    waiting.add(numbered([2, 2, 2], 0))
    parts = waiting.take(2)
    first = next(parts)
    waiting.add(numbered([3], 9))
    assert [int(each.heads["ticket"][0]) for each in (first, *parts)] == [0, 1, 2]
    (late,) = waiting.take(10)
    assert late.heads["ticket"].tolist() == [9]


def test_replays_of_a_graph(machine: Machine) -> None:
    """The argument is that of the capture, so records come under its token, as often as they do;
    a capture itself is no launch."""
    held = machine.executable()
    run(machine, held)
    machine.gpu.capturing = 1
    machine.warps.holds = True
    run(machine, held, 8)
    baked = machine.warps.last
    machine.gpu.capturing, machine.warps.holds = 0, False
    # Nothing of a capture runs: take back what the fake kernel did.
    head = _view(int(np.frombuffer(baked, slots.RECORDING)["arena"][0]), 1, slots.ARENA)
    head["claimed"] = 64
    for _ in range(5):
        machine.warps.replay(baked, ROWS)
    machine.records.collect(final=False)
    assert machine.late.total(8) == {"warps": 5 * cuda_records.BLOCKS_OF_REPLAYS * WARPS}
    assert {replayed for token, _, replayed in machine.late.told if token == 8} == {True}
    assert machine.records.is_busy
    machine.late.closed = True
    assert not machine.records.is_busy


def test_warps_that_found_no_room_are_told(machine: Machine) -> None:
    """Replays ask nobody, and can fill the arena."""
    held = machine.executable()
    machine.gpu.capturing = 1
    run(machine, held)
    for _ in range(100):
        machine.warps.replay(machine.warps.last, ROWS)
    machine.records.collect(final=False)
    assert machine.late.total(7) == {"warps": 1024}
    assert machine.late.losses == [
        ("warps found no room for records in the 0 MB of cuda:0", 101 * 16 - 1024)
    ]
    machine.records.collect(final=False)
    assert len(machine.late.losses) == 1


def test_a_lost_device(machine: Machine) -> None:
    """What was read before stays; launches whose records were not are counted, and it is said."""
    held = machine.executable()
    run(machine, held)
    machine.records.read()
    run(machine, held)
    run(machine, held)
    machine.gpu.fails["cuMemcpyDtoHAsync_v2"] = 719
    machine.records.collect(final=True)
    run(machine, held)
    machine.records.collect(final=True)
    assert machine.late.total(7) == {"launches": 1, "warps": 64, "skipped": 1, "unread": 2}
    assert [what for what, _ in machine.late.losses] == [
        "records of cuda:0 could not be read: cuMemcpyDtoHAsync_v2 failed: what 719 means"
        " (CUDA_ERROR_719, 719)"
    ]


def test_no_memory_for_records(machine: Machine) -> None:
    """The kernel runs, without records; they are told as skipped."""
    held = machine.executable()
    machine.gpu.fails["cuMemAllocAsync"] = 2
    for _ in range(2):
        run(machine, held)
    assert machine.warps.last == NOTHING
    # For 1,024 warps, 512, … 64; not again at the second launch.
    assert machine.gpu.names().count("cuMemAllocAsync") == 5
    machine.records.collect(final=True)
    assert machine.late.total(7) == {"skipped": 2}
    assert len(machine.late.losses) == 1
    assert machine.late.losses[0][0].startswith("cuda:0 has no memory for records: cuMemAllocAsync")


def test_little_memory_for_records(machine: Machine) -> None:
    """Fewer warps record; what was taken for more is given back."""
    held = machine.executable()
    pinned: list[int] = []
    before = machine.gpu.cuMemHostAlloc

    def refuses(out: int, size: int, flags: int) -> Any:
        pinned.append(size)
        return 2 if size > 300 * 64 else before(out, size, flags)

    machine.gpu.cuMemHostAlloc = refuses  # type: ignore[method-assign]
    run(machine, held)
    machine.records.collect(final=False)
    assert machine.late.total(7) == {"launches": 1, "warps": 64}
    (room,) = machine.records.rooms.values()
    assert (room.slots, room.bytes) == (128, 128 * 16 * 8)
    assert len(machine.gpu.memory) == 1


# -- what is recorded of a launch


def asked(monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
    """Have it recorded so."""
    monkeypatch.setattr(hooks, "record_options", replace(SMALL, **options))


@pytest.mark.parametrize(("blocks", "recorded"), [(1, 1), (3, 4), (16, 16), (99, 16), ("all", 16)])
def test_so_many_blocks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, blocks: Any, recorded: int
) -> None:
    """Of a launch, and of one in a graph."""
    asked(monkeypatch, blocks=blocks)
    held = machine.executable()
    run(machine, held)
    assert len(machine.warps.blocks) == recorded
    machine.gpu.capturing = 1
    run(machine, held)
    assert len(machine.warps.blocks) == 2 * recorded


def test_some_warps(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only they take room."""
    asked(monkeypatch, warps=(2, 5, 31))
    held = machine.executable()
    run(machine, held)
    given = np.frombuffer(machine.warps.last, slots.RECORDING)[0]
    assert given["warps"] == 1 << 2 | 1 << 5
    assert machine.budget.outstanding == 8 * 2
    asked(monkeypatch, warps=(31,))
    run(machine, held)
    assert machine.warps.last == NOTHING


@pytest.mark.parametrize(
    ("keep", "rounds"),
    [("first", [0] * 7), ("last", [1] * 7), ("both", [0, 0, 1, 0, 1, 0, 1])],
)
def test_which_records_stay(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, keep: Any, rounds: list[int]
) -> None:
    """The first, the last, or launches take turns, but for those of which there is a timeline."""
    asked(monkeypatch, keep=keep)
    held = machine.executable()
    limits = []
    for _ in range(7):
        run(machine, held)
        limits.append(int(np.frombuffer(machine.warps.last, slots.RECORDING)["limit"][0]))
    assert limits == [slots.ROUND if goes_round else 16 for goes_round in rounds]


def test_another_size(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has an arena of its own; what still writes to the one before is read, too."""
    held = machine.executable()
    machine.gpu.capturing = 1
    run(machine, held, 8)
    machine.gpu.capturing, baked = 0, machine.warps.last
    asked(monkeypatch, records=32)
    run(machine, held)
    machine.warps.replay(baked, ROWS)
    given = np.frombuffer(baked + machine.warps.last, slots.RECORDING)
    assert len(set(given["arena"].tolist())) == len(machine.records.rooms) == 2
    machine.records.collect(final=False)
    assert machine.late.total(7) == {"launches": 1, "warps": 64}
    assert machine.late.total(8) == {"warps": 2 * 2 * WARPS}
    asked(monkeypatch)
    run(machine, held)
    assert len(machine.records.rooms) == 2


def test_memory_where_none_was_asked_for() -> None:
    """At most 512 MB, and less of a small device."""
    large, small = FakeDriver(), FakeDriver()
    small.memory_bytes = 8 << 30
    assert cuda_room.memory_of(large.device) == 512 << 20
    assert cuda_room.memory_of(small.device) == 32 << 20
    room = cuda_room.Room(small.device, 1 << 14, None)
    assert (room.slots, room.failure) == (256, "")


def test_slots_that_are_all_but_empty_take_little_time(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room of a kernel with few marks is given again and again."""
    now = [time.monotonic()]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    held = machine.executable()
    budget = Budget(1024, 0.0)
    run(machine, held)
    (room,) = machine.records.rooms.values()
    room.budget = budget
    for _ in range(60):
        now[0] += 0.25
        run(machine, held)
        machine.records.read()
    # 3 records of 16: a launch takes 12 of its 64 slots' worth.
    machine.records.collect(final=False)
    assert machine.late.total(7) == {"launches": 61, "warps": 61 * 64}
    assert budget._allowance == 1024 - 59 * 64 * 3 / 16


def test_a_kernel_that_does_not_end(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a recording waits for it, but not for ever."""
    monkeypatch.setattr(cuda_records, "PATIENCE_S", 0.05)
    ended = threading.Event()
    monkeypatch.setattr(machine.gpu, "cuCtxSynchronize", ended.wait)
    held = machine.executable()
    machine.warps.holds = True
    run(machine, held)
    machine.records.collect(final=True)
    ended.set()
    assert machine.late.total(7) == {"unread": 1}
    assert machine.late.losses == [("cuda:0 was still at work at the end", 0)]


def test_who_is_gone_is_forgotten(machine: Machine) -> None:
    """Records of a recording that is over belong to nobody; its tags go with the next one's."""
    held = machine.executable()
    run(machine, held)
    gone, machine.late = machine.late, Late()
    gone.closed = True
    run(machine, held)
    machine.records.collect(final=False)
    assert not gone.told
    assert machine.late.total(7) == {"launches": 1, "warps": 64}
    assert machine.late.losses == [("warps wrote records that belong to an earlier recording", 64)]
    (source,) = held.variant((frozenset(), False)).sources.values()
    assert len(source.tags) == 1


def test_captures_of_others_are_not_disturbed(machine: Machine) -> None:
    """Allocating and waiting are allowed meanwhile; the thread's mode is put back."""
    held = machine.executable()
    modes: list[int] = []
    for name in ("cuMemAllocAsync", "cuMemHostAlloc", "cuStreamSynchronize"):
        before = getattr(machine.gpu, name)

        def watched(*given: Any, before: Any = before) -> Any:
            modes.append(machine.gpu.capture_mode)
            return before(*given)

        setattr(machine.gpu, name, watched)
    run(machine, held)
    machine.records.collect(final=False)
    assert set(modes) == {2}
    assert machine.gpu.capture_mode == 0


# -- sites of several variants


def test_variants_share_a_numbering() -> None:
    """Sites that only another variant has come behind those of the first, below their own."""
    table = SiteTable()
    assert table._take(SITES) is None
    assert table._take(SITES) is None
    more = (
        ir.Site(0, "math", "scope", Location("k.py", 5)),
        ir.Site(1, "wait", "op", None, 0),
        ir.Site(2, "load", "scope", Location("k.py", 3)),
    )
    numbers = table._take(more)
    assert numbers is not None
    assert numbers.tolist() == [1, 2, 0]
    assert table.sites[2] == ir.Site(2, "wait", "op", None, 1)


def test_records_of_another_variant(machine: Machine) -> None:
    """Their sites are those of the kernel's numbering."""
    held = machine.executable()
    held._build = marked(sites=(replace(SITES[1], id=0), replace(SITES[0], id=1)))
    odd = aligned((4, 64), 2)
    held.run([odd, aligned((4, 64)), 0.5, 1], (4, 64), (machine.late, 7))
    machine.records.collect(final=False)
    assert machine.late.times(7) == {1: visits(32)[0], 0: visits(32)[1]}


def test_what_records_say(machine: Machine) -> None:
    """Sentences, each at its site's line, while somebody listens."""
    held = CudaExecutable(
        KERNEL, marked(sites=(SITES[0], replace(SITES[1], retires="wgmma"))), machine.gpu.device
    )
    run(machine, held)
    assert held.told() == []
    machine.records.collect(final=False)
    (remark,) = held.told()
    assert (remark.op, remark.location) == ("inside", SITES[1].location)
    assert str(remark.decision).startswith("“math” waits 300,")
    machine.late.closed = True
    machine.late = Late()
    other = machine.executable()
    run(machine, other)
    assert held.told() == []


# -- the whole way


def test_a_profile_has_the_sites(machine: Machine) -> None:
    """They arrive when the session ends; shares of the time that its events gave."""
    hooks.collectors.append(machine.records)
    machine.records._cost = lambda: RecordCost(500.0)
    program = Program(KERNEL, KERNEL, Options(instrument="scopes"))
    loaded = LoadedKernel(program, "cuda:0", machine.executable())
    try:
        with profiler.profile(clock=Clock(), context="scopes") as session:
            for _ in range(2):
                loaded.launch([aligned((4, 64)), aligned((4, 64)), 0.5, 1], (4, 64))
    finally:
        hooks.collectors.remove(machine.records)
    profile = session.profile
    assert profile is not None
    profile.check()
    assert tree(profile, "time", "count", "block_time") == expect("""
        kernel scale time=1 count=2
          site load time=6234 count=64 block_time=6368000
          site math time=18765 count=64 block_time=19168000
    """)
    (kernel,) = profile.tables.kernels
    assert [s.name for s in kernel.sites] == ["load", "math"]
    assert kernel.attributes["record_cycles"] == 500
    assert tree(profile, "marks", "mark_time") == expect("""
        kernel scale
          site load marks=64 mark_time=32000
          site math marks=64 mark_time=32000
    """)
    median = profile.node(profile.find("load", "site")[0]).quantile("block_time", 0.5)
    assert median == pytest.approx(LOAD, rel=0.02)
    assert (kernel.attributes["recorded_launches"], kernel.attributes["recorded_warps"]) == (2, 64)


def test_a_thread_reads_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """It sleeps while there is nothing to read, and is none of the program's threads."""
    monkeypatch.setattr(cuda_reader, "PERIOD_S", 0.001)
    made = Reader()
    reads: list[int] = []

    class Device:
        is_busy = False

        def read(self) -> None:
            reads.append(threading.get_ident())

    made.devices[0] = Device()  # type: ignore[assignment]
    try:
        time.sleep(0.02)
        assert not reads
        made.notice(True)
        until = time.monotonic() + 10
        while not reads and time.monotonic() < until:
            time.sleep(0.001)
        assert set(reads) <= hooks.own_threads
        assert threading.get_ident() not in hooks.own_threads
        Device.is_busy = True
        made.notice(False)
        while len(reads) < 5 and time.monotonic() < until:
            time.sleep(0.001)
        assert len(reads) >= 5
    finally:
        Device.is_busy = False
        hooks.collectors.remove(made)


# -- budget


def test_kernels_share_the_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is launched often leaves room for those that are not."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    budget = Budget(64, 64.0)
    often, others = Share(), [Share() for _ in range(6)]
    assert sum(budget.grants(often, 4) for _ in range(50)) == 14
    assert [budget.grants(each, 4) for each in others] == [True, True, *[False] * 4]
    budget.give_back(64)
    now[0] += 0.25
    # A quarter of the arena may be written again, all of it only after a second.
    assert [budget.grants(each, 4) for each in others[2:]] == [True] * 4
    now[0] += 10
    budget.give_back(16)
    everybody = [budget.grants(each, 4) for _ in range(20) for each in (often, *others)]
    had = [sum(everybody[at::7]) for at in range(7)]
    assert sum(had) == 14
    assert set(had) == {2}


def test_slots_that_nobody_claimed_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that wrote less than was thought takes no room for ever."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    budget = Budget(64, 64.0)
    budget.grants(Share(), 40)
    budget.give_back(10)
    assert budget.is_short is False
    assert budget.outstanding == 30
    now[0] += 0.5
    budget.give_back(0)
    assert budget.outstanding == 30
    now[0] += 1
    budget.give_back(0)
    assert budget.outstanding == 0


# -- what marks cost


def test_what_marks_cost() -> None:
    """Facts of both binaries; a remark where fewer blocks run at once, or more is spilled."""
    same = Taken(40, 0, 0, 3)
    equal = Comparison({"k": same}, {"k": same})
    assert list(equal.remarks()) == []
    assert equal.attributes()["clean_registers"] == 40
    worse = Comparison(
        {"k": Taken(168, 16, 24, 1), "l": same}, {"k": Taken(128, 0, 0, 2), "l": same}
    )
    (remark,) = worse.remarks()
    assert str(remark.decision) == (
        "`k` is not what runs unmeasured: 1 blocks per SM run at once, 2 without measurement (168"
        " and 128 registers a thread); 24 bytes of registers are spilled, 0 without measurement"
    )
    found = worse.attributes()
    assert (found["registers"], found["clean_registers"], found["l.registers"]) == (168, 128, 40)
    assert (found["blocks_per_sm"], found["clean_blocks_per_sm"]) == (1, 2)


# -- kernels of the language


@pytest.fixture
def compiled(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The machine for kernels of the language; each launch has as many warps as its block."""
    monkeypatch.setattr(cuda_device, "find_device", lambda number: machine.gpu.device)
    hooks.collectors.append(machine.records)
    yield machine
    hooks.collectors.remove(machine.records)


def prepared(machine: Machine, kernel: Any, instrument: hooks.Instrument) -> LoadedKernel:
    """A kernel on the machine, whose launches the fake driver understands."""
    loaded: LoadedKernel = kernel.variant.loaded("cuda:0", instrument)
    for function in loaded.executable.variant((frozenset(), False)).functions:  # type: ignore[attr-defined]
        name = function.spec.function
        machine.gpu.sizes[name] = tuple(p.size for p in function.layout)
        if function.spec.records:
            machine.gpu.kernels[name] = machine.warps
    return loaded


def test_only_kernels_with_scopes_are_measured_by_default(torch: Any, compiled: Machine) -> None:
    """Others are the very kernel that runs unmeasured, and take no memory."""
    plain = runtime_kernels.double.compile(N=128)
    assert prepared(compiled, plain, "scopes") is prepared(compiled, plain, "off")
    with profiler.profile(clock=Clock(), context="scopes"), tileprof.device("cuda:0"):
        plain(torch.zeros(128))
    assert not compiled.gpu.memory
    held = prepared(compiled, runtime_kernels.sums_in_scopes.compile(), "scopes")
    assert held is not prepared(compiled, runtime_kernels.sums_in_scopes.compile(), "off")


def test_a_kernel_with_scopes(torch: Any, compiled: Machine) -> None:
    """From the language to the profile: its sites, the time at them, what the marks cost."""
    kernel = runtime_kernels.sums_in_scopes.compile()
    clean, loaded = prepared(compiled, kernel, "off"), prepared(compiled, kernel, "scopes")
    session = profiler.start(clock=Clock(), context="scopes")
    with tileprof.device("cuda:0"):
        kernel(torch.zeros(1024))
    profile = session.finalize()
    (info,) = profile.tables.kernels
    assert [site.name for site in info.sites] == ["load", "sum"]
    assert [profile.node(at).name for at in profile.find(kind="site")] == ["load", "sum"]
    assert "record" not in info.ir
    assert info.attributes["instrument"] == "scopes"
    for name in ("registers", "clean_registers", "blocks_per_sm", "clean_blocks_per_sm"):
        assert int(info.attributes[name]) > 0
    assert loaded.source != clean.source
    assert clean.source == kernel.variant.program().lowered("sm_90a").source.text


def test_a_kernel_that_has_no_room_for_marks(
    torch: Any, compiled: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs as it is, and that it was not measured is told; errors of its own stay errors."""
    from tileprof.compiler.cuda import pipeline

    real, refused = pipeline.compile_cuda, {"scopes"}

    def compile_cuda(kernel: Any, target: Any, *more: Any, **named: Any) -> Any:
        if named["instrument"] in refused:
            raise KernelError("it needs 300 registers")
        return real(kernel, target, *more, **named)

    monkeypatch.setattr(pipeline, "compile_cuda", compile_cuda)
    kernel = runtime_kernels.sums_in_scopes.compile()
    loaded = prepared(compiled, kernel, "scopes")
    remark = loaded.info().remarks[0]
    assert (remark.op, remark.decision, remark.severity) == ("measurement", Unmeasured(), "missed")
    why = OtherReason("it needs 300 registers")
    assert remark.rejected == (Rejection(DoesNotCompile(), why),)
    with profiler.profile(clock=Clock(), context="scopes"), tileprof.device("cuda:0"):
        kernel(torch.zeros(1024))
    assert len(compiled.gpu.launches) == 1
    refused.add("off")
    with pytest.raises(KernelError, match="it needs 300 registers"):
        runtime_kernels.sums_in_scopes.compile().variant.loaded("cuda:0", "scopes")
