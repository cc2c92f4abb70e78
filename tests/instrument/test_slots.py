"""The arena of a GPU's records: its layout, what a host reads of it, and the code that fills it."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tileprof.errors import InternalError, ProfileFileError
from tileprof.instrument.slots import (
    ARENA,
    RECORD,
    RECORDING,
    RELEASED_AT,
    ROUND,
    SLOT,
    Arena,
    Slots,
    arena_bytes,
    cuda_text,
    heads_bytes,
    new_head,
    read,
    recording,
)

CAPACITY, SLOTS = 8, 4


class _Device:
    """An arena that warps write to, one after the other."""

    def __init__(self) -> None:
        self.raw = np.zeros(arena_bytes(SLOTS, CAPACITY), np.uint8)
        self.raw[: ARENA.itemsize] = np.frombuffer(new_head(SLOTS, CAPACITY), np.uint8)
        self.head = self.raw[: ARENA.itemsize].view(ARENA)
        self.heads = self.raw[ARENA.itemsize : heads_bytes(SLOTS)].view(SLOT)
        at = int(self.head["records_at"][0])
        self.rows = self.raw[at:].view(RECORD).reshape(SLOTS, CAPACITY)

    def claim(self) -> int:
        """The next ticket; the slot is not ready yet."""
        ticket = int(self.head["claimed"][0])
        self.head["claimed"] += np.uint64(1)
        self.head["admitted"] += np.uint64(1)
        return ticket

    def write(self, ticket: int, clocks: range, *, tag: int = 0, limit: int = CAPACITY) -> None:
        """Make a record for each clock, whose state is the ticket, and say that all is there."""
        row, slot = self.rows[ticket % SLOTS], self.heads[ticket % SLOTS]
        most = CAPACITY if limit == ROUND else limit
        for number, clock in enumerate(clocks):
            if number < most or limit == ROUND:
                row[number % CAPACITY] = (clock, ticket)
        slot["tag"], slot["flags"], slot["wanted"] = tag, limit == ROUND, len(clocks)
        slot["kept"], slot["ready"] = min(len(clocks), most), ticket + 1

    def release(self, ticket: int) -> None:
        """What the host writes when all before this ticket were read."""
        self.raw[RELEASED_AT : RELEASED_AT + 8].view(np.uint64)[0] = ticket


def _clocks(slots: Slots) -> list[list[int]]:
    parts: list[NDArray[Any]] = np.split(slots.records["clock"], slots.starts[1:-1])
    return [part.tolist() for part in parts][: len(slots)]


def test_slots_are_read_in_claim_order_up_to_the_first_that_is_not_ready() -> None:
    """The third claim is still being written, so the fourth waits for it."""
    device = _Device()
    tickets = [device.claim() for _ in range(4)]
    for ticket in (1, 0, 3):
        device.write(ticket, range(10 * ticket, 10 * ticket + ticket + 1))
    arena = read(device.raw)
    assert arena.tickets() == range(2)
    assert _clocks(arena.slots()) == [[0], [10, 11]]
    device.write(tickets[2], range(3))
    assert read(device.raw).tickets() == range(4)


def test_reading_goes_round_with_the_slots() -> None:
    """Tickets 3 to 6 are the last slot and the first three; two parts are copied."""
    device = _Device()
    for _ in range(3):
        device.write(device.claim(), range(2))
    device.release(3)
    for _ in range(4):
        ticket = device.claim()
        device.write(ticket, range(ticket, ticket + 2), tag=ticket % 2)
    arena = read(device.raw[: heads_bytes(SLOTS)].tobytes())
    tickets, size = arena.tickets(), 8 * CAPACITY
    assert tickets == range(3, 7)
    at = arena.records_at
    assert arena.spans(tickets) == [(at + 3 * size, size), (at, 3 * size)]
    parts = [device.raw[a : a + n].tobytes() for a, n in arena.spans(tickets)]
    slots = arena.collect(tickets, parts)
    assert _clocks(slots) == [[3, 4], [4, 5], [5, 6], [6, 7]]
    tags = slots.by_tag()
    assert {tag: _clocks(each) for tag, each in tags.items()} == {
        0: [[4, 5], [6, 7]],
        1: [[3, 4], [5, 6]],
    }
    assert _clocks(Slots.join([tags[0], tags[1]])) == [[4, 5], [6, 7], [3, 4], [5, 6]]


def test_what_a_slot_keeps() -> None:
    """One that stops has its oldest records, one that goes round the newest, oldest first."""
    device = _Device()
    device.write(device.claim(), range(20))
    device.write(device.claim(), range(20), limit=3)
    device.write(device.claim(), range(21), limit=ROUND)
    device.write(device.claim(), range(0), limit=0)
    slots = read(device.raw).slots()
    assert _clocks(slots) == [list(range(8)), [0, 1, 2], list(range(13, 21)), []]
    assert slots.lost == 12 + 17 + 13


def test_nothing_was_written() -> None:
    """A new arena has nothing to read."""
    arena = read(_Device().raw)
    assert (arena.tickets(), arena.spans(range(0)), len(arena.slots())) == (range(0), [], 0)
    assert Slots.join([]).by_tag() == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.raw[:40], "64 bytes, 40 are there"),
        (lambda d: d.raw[:100], "the heads of 4 slots have 320 bytes, 100 are there"),
        (lambda d: d.head.__setitem__("version", 9), "version 9, not 1"),
        (lambda d: d.head.__setitem__("released", 1), "0 slots were claimed and 1 released"),
        (lambda d: d.head.__setitem__("claimed", 5), "5 slots were claimed and 0 released, of 4"),
        (lambda d: (d.write(d.claim(), range(1)), d.heads.__setitem__("kept", 9)), "claims 9"),
    ],
    ids=["head", "heads", "version", "released", "claimed", "kept"],
)
def test_what_is_no_arena_is_refused(change: Callable[[_Device], Any], message: str) -> None:
    """The message says what is wrong, and a way out."""
    device = _Device()
    changed = change(device)
    raw = changed if isinstance(changed, np.ndarray) else device.raw
    with pytest.raises(ProfileFileError, match=message) as error:
        read(raw).slots()
    assert error.value.hint


def test_records_that_are_cut_short_are_refused() -> None:
    """Parts that are not what `spans` says."""
    device = _Device()
    device.write(device.claim(), range(1))
    arena: Arena = read(device.raw)
    with pytest.raises(ProfileFileError, match="1 slots of records were to come, not 7"):
        arena.collect(range(1), [bytes(56)])


def test_sizes() -> None:
    """Heads fill two sectors each, a launch's argument is 40 bytes, records lie at their size."""
    assert (ARENA.itemsize, SLOT.itemsize, RECORD.itemsize, RECORDING.itemsize) == (64, 64, 8, 40)
    assert int(np.frombuffer(new_head(4096, 2048), ARENA)["records_at"][0]) % (8 * 2048) == 0
    assert arena_bytes(4, 8) == 64 + 4 * 64 + 4 * 8 * 8
    argument = np.frombuffer(recording(1 << 20, 512, tag=7, every=4, first=2), RECORDING)[0]
    assert argument.tolist() == (1 << 20, 7, 3, 2, 0xFFFFFFFF, 512, 4095, 0)


@pytest.mark.parametrize(("slots", "capacity"), [(3, 8), (4, 12), (4, 4), (0, 8), (1 << 20, 512)])
def test_sizes_that_no_arena_has(slots: int, capacity: int) -> None:
    """No powers of two, too few records, 4 GiB."""
    with pytest.raises(InternalError):
        new_head(slots, capacity)


def test_an_arena_lies_at_a_multiple_of_its_slots() -> None:
    """Or the bitwise or that makes an address would write elsewhere."""
    with pytest.raises(InternalError, match="0x1100"):
        recording(0x1100, 512)


def test_cuda_text(golden: Callable[[str], None]) -> None:
    """The header that emitted kernels include."""
    golden(cuda_text())


KERNEL = """
#include "records.cuh"
static_assert(sizeof(TpArena) == 64 && sizeof(TpSlot) == 64 && sizeof(TpRecord) == 8, "heads");
static_assert(sizeof(TpRecording) == 40 && alignof(TpRecording) == 8, "argument");
extern "C" __global__ void k(float *x, int n, const __grid_constant__ TpRecording recording) {
  TpWarp warp = tp_begin(recording);
  float v = x[threadIdx.x];
  #pragma unroll 1
  for (int i = 0; i < n; i++) {
    MARKS
  }
  x[threadIdx.x] = v;
  tp_end(warp);
}
"""
LAYOUT = re.compile(r"struct (Tp\w+) \{\n(.*?)\n\};", re.DOTALL)


def _instructions(marks: int, target: str) -> list[str]:
    from tileprof import binary
    from tileprof.compiler.cuda import nvrtc, prelude

    lines = "\n".join(f"tp_mark(warp, {i}); v = v * v + 1.0f;" for i in range(marks))
    headers = (*prelude.with_dependencies(["base.cuh"]), ("records.cuh", cuda_text()))
    options = [f"--gpu-architecture={target}", "--std=c++17"]
    done = nvrtc.compile_text(KERNEL.replace("MARKS", lines), headers, options, name="k.cu")
    assert done.ok, done.log
    opcodes = [i.opcode for i in binary.read(done.cubin).functions["k"].instructions]
    return [opcode for opcode in opcodes if opcode != "NOP"]


def test_a_mark_is_six_or_seven_instructions_and_no_branch() -> None:
    """Counted from what 40 marks add to a loop; each also has one FFMA of the kernel's own."""
    pytest.importorskip("cuda.bindings.nvrtc")
    few, many = Counter(_instructions(8, "sm_90a")), Counter(_instructions(48, "sm_90a"))
    added = many - few
    assert (added["CS2R.32"], added["STG.E.64"], added["FFMA"]) == (40, 40, 40)
    assert many["BRA"] == few["BRA"]
    # Where registers fall badly the upper half of the address has to be copied for a mark.
    assert 5.5 <= (many.total() - few.total()) / 40 - 1 <= 6.5


CLAIMS = """
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>
#define TP_INLINE static inline
STRUCTS
TP_INLINE uint64_t tp_count(uint64_t *at, uint64_t by) {
  // Somebody else comes in between every now and then.
  static thread_local int calls = 0;
  if (++calls % 7 == 0) std::this_thread::yield();
  return __atomic_fetch_add(at, by, __ATOMIC_SEQ_CST);
}
CLAIM
int main() {
  constexpr int SLOTS = 8, THREADS = 8, EACH = 20000;
  static TpArena arena = {};
  arena.slots = SLOTS;
  static std::atomic<int> owner[SLOTS], left{THREADS};
  static std::atomic<uint32_t> ready[SLOTS];
  static std::atomic<int> twice{0}, taken{0};
  auto warp = [] {
    for (int i = 0; i < EACH; i++) {
      uint64_t ticket;
      if (!tp_claim(&arena, &ticket)) {
        if (i % 64 == 0) std::this_thread::yield();
        continue;
      }
      taken++;
      if (owner[ticket % SLOTS]++ != 0) twice++;
      ready[ticket % SLOTS] = (uint32_t)ticket + 1;
    }
    left--;
  };
  std::vector<std::thread> warps;
  for (int i = 0; i < THREADS; i++) warps.emplace_back(warp);
  uint64_t released = 0;
  for (bool last = false; !last;) {
    last = left == 0;
    const uint64_t claimed = __atomic_load_n(&arena.claimed, __ATOMIC_SEQ_CST);
    while (released < claimed && ready[released % SLOTS] == (uint32_t)released + 1) {
      owner[released % SLOTS]--;
      __atomic_store_n(&arena.released, ++released, __ATOMIC_SEQ_CST);
    }
    std::this_thread::yield();
  }
  for (auto &each : warps) each.join();
  printf("%d %llu %llu %llu %llu %llu\\n", (int)twice, (unsigned long long)taken,
         (unsigned long long)arena.claimed, (unsigned long long)arena.admitted,
         (unsigned long long)released, (unsigned long long)arena.lost);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_claims_are_exact_while_warps_claim_and_the_host_releases(tmp_path: Path) -> None:
    """The device's own text of a claim, run by threads on few slots: no slot has two owners, each
    claim is either counted as taken or as lost, and all that were taken are read."""
    structs = "\n".join(m.group(0) for m in LAYOUT.finditer(cuda_text()) if m[1] == "TpArena")
    claim = re.search(r"TP_INLINE bool tp_claim.*?\n}\n", cuda_text(), re.DOTALL)
    assert structs
    assert claim
    source = tmp_path / "claims.cpp"
    source.write_text(CLAIMS.replace("STRUCTS", structs).replace("CLAIM\n", claim[0]))
    program = str(tmp_path / "claims")
    command = ["g++", "-O1", "-std=c++17", "-pthread", "-o", program, str(source)]
    subprocess.run(command, check=True)
    out = subprocess.run([program], capture_output=True, check=True, timeout=300).stdout
    twice, taken, claimed, admitted, released, lost = map(int, out.split())
    assert twice == 0
    assert taken == claimed == admitted == released
    assert taken + lost == 8 * 20000
    assert taken > 8
    assert lost > 0
