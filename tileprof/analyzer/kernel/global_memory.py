"""Global memory as rules ask about it: accesses, what the compiler counted of them, bytes moved.

In: a kernel.  Out: widths of its instructions; remarks about accesses, as numbers; sectors of 32
bytes of requests that ran, or that the addresses of lanes lead to.

A request of a full warp needs as many sectors as one lane has bytes: 32 lanes times the width, by
32 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.machine.code import Instruction, KernelCode, same_line
from tileprof.analyzer.machine.lanes import Block, Lanes, addresses
from tileprof.analyzer.numbers.shared import SECTOR, WIDEST
from tileprof.binary.occupancy import WARP
from tileprof.errors import Location
from tileprof.remarks import Remark
from tileprof.remarks.layouts import GlobalAccess

LOADS = ("LDG",)
STORES = ("STG",)
ACCESSES = (*LOADS, *STORES, "LDGSTS")
ATOMICS = ("RED", "REDG", "ATOM", "ATOMG")
_WIDTHS = {
    "8": 1, "U8": 1, "S8": 1, "16": 2, "U16": 2, "S16": 2, "64": 8, "F64": 8, "U64": 8, "S64": 8,
    "128": 16,
}  # fmt: skip
_PAST_L1 = "STRONG"
"""Of an opcode: reads what others may have written meanwhile, so not from L1."""


@dataclass(frozen=True, slots=True)
class Told:
    """A remark about an access of a tensor: what one request of a warp takes, by its layout."""

    remark: Remark
    access: GlobalAccess

    @property
    def op(self) -> str:
        """Kind and name of the op: `load A`, `store C`, `atomic C`."""
        return self.remark.subject

    @property
    def location(self) -> Location | None:
        """Line of the access."""
        return self.remark.location

    @property
    def line(self) -> int:
        """Number of that line, 0 where not known."""
        return self.location.line if self.location else 0

    @property
    def key(self) -> tuple[str, str, int]:
        """Kind of the access (`load`, `store`, `atomic`), its tensor, and its line."""
        return self.remark.op, self.remark.name, self.line

    @property
    def ways(self) -> float:
        """Sectors for each that is needed."""
        return self.access.sectors / max(self.access.needed, 1)


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of one instruction that ran."""

    instruction: Instruction
    count: int
    sectors: int
    """Of all of them."""
    ideal: float
    """Sectors of one, by its width and its threads."""

    @property
    def ways(self) -> float:
        """Sectors for each that is needed."""
        return self.sectors / (self.count * self.ideal)

    @property
    def wasted(self) -> float:
        """Sectors that are not needed."""
        return max(0.0, self.sectors - self.count * self.ideal)


@dataclass(frozen=True, slots=True)
class Request:
    """What one request of an access takes, by the addresses of its lanes."""

    instruction: Instruction
    sectors: int
    needed: int
    """Sectors that as many bytes fill."""
    widened: float
    """Sectors for each that is needed where each lane moves all of its 16 bytes; of what moves as
    many already, with the accesses beside it that read the rest of its sectors through L1."""
    follows: bool
    """Whether lanes have addresses of their own, and what a copy writes to shared memory is as far
    apart as what it reads."""
    first: int
    """Address of the first lane, which only those of other accesses give a meaning."""
    stride: int
    """Bytes from the first lane to the second."""

    @property
    def ways(self) -> float:
        """Sectors for each that is needed."""
        return self.sectors / self.needed


_MATRICES = ("LDSM", "STSM")
"""Each of 8 × 8 elements of 2 bytes, a word a thread."""


def width_of(opcode: str) -> int:
    """Bytes that a thread moves: 16 for `LDG.E.128`, and for `LDSM` of 4 matrices."""
    if opcode.startswith(_MATRICES):
        last = opcode.rpartition(".")[2]
        return 4 * int(last) if last in ("2", "4") else 4
    return next((_WIDTHS[each] for each in opcode.split(".")[1:] if each in _WIDTHS), 4)


def told(case: KernelCase) -> tuple[Told, ...]:
    """What the compiler says of accesses of tensors."""
    return tuple(Told(*each) for each in case.decided(GlobalAccess))


def told_at(case: KernelCase, code: KernelCode, said: Told) -> list[int]:
    """The instructions that a remark is about: those of its kind, width and line.

    Loads move in front of a loop's points and stores behind them, so their line may be that of a
    neighbour: where none has the remark's own, those of its kind and width whose line no other
    remark has.
    """
    kinds, width = _kinds(said), said.access.width
    alike = code.where(lambda e: e.name in kinds and width_of(e.opcode) == width)
    lines = {index: case.user_line(code.instructions[index].place) for index in alike}
    exact = [index for index in alike if same_line(lines[index], said.location)]
    others = [e for e in told(case) if _kinds(e) == kinds and e.access.width == width]
    return exact or [
        index for index in alike if not any(same_line(lines[index], e.location) for e in others)
    ]


def requests(code: KernelCode, where: Iterable[int]) -> Iterator[Requests]:
    """Those of instructions whose sectors were counted and that ran."""
    for index in where:
        count = code.executed([index], "global_requests")
        sectors = code.executed([index], "global_sectors")
        if not count or sectors is None:
            continue
        warps = code.executed([index], "executions")
        threads = code.executed([index], "thread_executions")
        lanes = threads / warps if threads and warps else WARP
        each = code.instructions[index]
        ideal = max(1, math.ceil(lanes * width_of(each.opcode) / SECTOR))
        yield Requests(each, count, sectors, ideal)


@lru_cache(maxsize=8)
def worked_out(case: KernelCase) -> dict[int, Request]:
    """By place of an access, its request, where the code tells the addresses of its lanes."""
    code, block = case.code, block_of(case)
    if code is None or block is None:
        return {}
    found = addresses(code, block)
    return {
        index: _request(code.instructions[index], found[index], _with_beside(code, found, index))
        for index in code.named(*ACCESSES, *ATOMICS)
        if index in found
    }


@lru_cache(maxsize=8)
def loaded_beside(case: KernelCase) -> frozenset[int]:
    """Places of loads of elements that another lane of the warp loads too, by another instruction,
    as a stencil loads each element and its neighbours, and of those within 16 bytes of these; only
    where addresses are known."""
    code, block = case.code, block_of(case)
    if code is None or block is None:
        return frozenset()
    found, taken = addresses(code, block), dict[int, list[tuple[int, int]]]()
    for index in code.named(*LOADS):
        lanes = found[index][-1] if index in found else np.zeros(0, np.int64)
        if len(np.unique(lanes)) == len(lanes):  # each lane has one of its own
            for lane, address in enumerate(lanes.tolist()):
                taken.setdefault(address, []).append((index, lane))
    shared = (held for held in taken.values() if len({lane for _, lane in held}) > 1)
    firsts = {int(found[index][-1][0]) for held in shared for index, _ in held}
    return frozenset(
        index for held in taken.values() for index, _ in held
        if any(abs(int(found[index][-1][0]) - first) < WIDEST for first in firsts)
    )  # fmt: skip


def _with_beside(code: KernelCode, found: Mapping[int, list[Lanes]], index: int) -> Lanes:
    """Return the addresses of an access, with those of loads of the same width that each lane has
    less than a sector apart; L1 keeps the sector meanwhile, unless it is not asked.

    A row of 32 bytes a lane comes in two loads of 16, at offsets of one register.
    """
    own, this = found[index][-1], code.instructions[index]
    if this.name not in LOADS or width_of(this.opcode) < WIDEST or _PAST_L1 in this.opcode:
        return own
    held = [own]
    for other in code.named(this.opcode):
        lanes = found.get(other)
        if other == index or lanes is None or lanes[-1].shape != own.shape:
            continue
        apart = np.unique(lanes[-1] - own)
        if len(apart) == 1 and 0 < abs(int(apart[0])) < SECTOR:
            held.append(lanes[-1])
    return np.concatenate(held)


def block_of(case: KernelCase) -> Block | None:
    """Threads of its blocks along each axis; None where that is not known."""
    numbers = case.extents("block")
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None


def _request(instruction: Instruction, lanes: list[Lanes], beside: Lanes) -> Request:
    at, width = np.unique(lanes[-1]), width_of(instruction.opcode)
    sectors, chunks = _parts(at, width, SECTOR), _parts(beside, width, WIDEST)
    widened = _parts(beside, width, SECTOR) / math.ceil(chunks * WIDEST / SECTOR)
    follows = len(at) == len(lanes[-1]) and bool((np.diff(lanes[0] - lanes[-1]) == 0).all())
    needed = math.ceil(len(at) * width / SECTOR)
    first, *others = lanes[-1].tolist()
    stride = others[0] - first if others else 0
    return Request(instruction, sectors, needed, widened, follows, first, stride)


def _parts(at: Lanes, width: int, size: int) -> int:
    """How many aligned parts of memory accesses touch."""
    return len(np.unique(np.concatenate([at // size, (at + width - 1) // size])))


def _kinds(said: Told) -> tuple[str, ...]:
    return {"load": (*LOADS, "LDGSTS"), "store": STORES}.get(said.remark.op, ATOMICS)
