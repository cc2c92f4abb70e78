"""What one configuration of a Triton kernel asks of the machine, read from its program.

In: the steps of a program (TTIR), a launch's numbers and sizes, and the resources of the machine
code where it was made.  Out: `LaunchFacts`, which the model of tiles takes.  `NotKnown` is raised
where the program leaves open what a launch does.

What Triton's later passes choose is estimated by their rules: loops with products run their loads
`num_stages` ahead; products of at least 64 rows by whole warp groups are `wgmma`.  The machine code
then says registers, spills and shared memory, and whether these two were right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tileprof.profiler.frameworks import triton_numbers as numbers
from tileprof.profiler.frameworks.triton_accesses import LOADS, STORES, Step, Work, is_branch
from tileprof.profiler.frameworks.triton_numbers import Expression, Launch
from tileprof.remarks.pruning import DataDecidesLoop
from tileprof.remarks.statement import Reason
from tileprof.tuning.facts import Binary, KernelFacts, LaunchFacts, Part, Product

from .numbers import (
    FOLDED,
    L1_KEEPS,
    L2_KEEPS,
    MOST_PROGRAMS,
    OTHER_REGISTERS,
    PRODUCT_WAITS,
    RUNNING_BLOCKS,
    SECTOR,
    WIDEST_ACCESS,
)

_SPECIAL = {
    "math.exp": (1, 2), "math.exp2": (1, 1), "math.log": (1, 2), "math.log2": (1, 1),
    "math.sqrt": (1, 4), "math.rsqrt": (1, 1), "math.sin": (1, 8), "math.cos": (1, 8),
    "math.erf": (1, 16), "math.tanh": (1, 4), "arith.divf": (1, 8), "tt.precise_sqrt": (1, 8),
    "tt.precise_divf": (1, 10), "tt.extern_elementwise": (1, 16), "arith.remf": (1, 16),
}  # fmt: skip
"""Operations that special function units take part in: results of these units, and instructions of
threads, for each element."""
_FREE = frozenset({
    "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.make_range",
    "tt.bitcast", "arith.constant", "tt.unsplat", "tt.join", "tt.split", "ub.poison", "tt.dot",
    "arith.bitcast", "arith.extf", "tt.advance", "tt.make_tensor_ptr", "tt.make_tensor_descriptor",
})  # fmt: skip
_ROOFS = {
    "f16": "tensor_float16", "bf16": "tensor_bfloat16", "f32": "tensor_tf32",
    "f64": "fma_float64", "f8E4M3FN": "tensor_float8_e4m3", "f8E5M2": "tensor_float8_e5m2",
    "i8": "tensor_int8",
}  # fmt: skip
_ROWS = 64
"""Rows of a `wgmma`."""
_COLUMNS = 256
"""Most columns of a `wgmma`."""
_LINEAR = (2, 1, 0)
"""Axes of a grid such that programs are in the order in which they start: x fastest."""


class NotKnown(Exception):
    """The model does not know the kernel; with the reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


@dataclass(frozen=True)
class Resources:
    """What the machine code of a configuration takes."""

    registers: int
    """Registers per thread."""
    spilled: int
    """Bytes per thread that are in local memory for want of registers."""
    shared: int
    """Shared memory of a block, in bytes."""
    groups: bool
    """Whether products are instructions of warp groups."""
    ahead: bool
    """Whether loads run ahead of their loop."""
    code: str = ""
    """Digest of the machine code: equal ones take the same time."""


@dataclass(frozen=True)
class Configured:
    """One configuration's program and launch."""

    work: Work
    grid: tuple[int, int, int]
    arguments: Mapping[int, int]
    """Whole numbers among the arguments, by position in the program."""
    sizes: Mapping[int, int]
    """Bytes of tensors, by position in the program."""
    warps: int
    stages: int
    ctas: int = 1
    capability: int = 90
    """Compute capability as Triton writes it: 90 is 9.0."""

    alike: str = ""
    """Digest of all that the machine code follows from: equal ones have the same."""

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return math.prod(self.grid)


@dataclass
class _Sum:
    """Amounts of one part, while they are added up."""

    times: float
    products: list[Product] = field(default_factory=list)
    amounts: dict[str, float] = field(default_factory=dict)

    def add(self, **more: float) -> None:
        for name, value in more.items():
            self.amounts[name] = self.amounts.get(name, 0.0) + value


@dataclass(frozen=True)
class Traffic:
    """Bytes that a launch moves between memory and L2."""

    read: tuple[tuple[int, float], ...]
    """By blocks that run at once."""
    written: float


def traffic_of(given: Configured, sms: int) -> Traffic:
    """Return a launch's traffic on a GPU of `sms` multiprocessors.  Raises `NotKnown`."""
    reader = _Reader(given, None)
    return Traffic(reader.memory([sms * each for each in RUNNING_BLOCKS]), reader.written())


def facts_of(
    given: Configured, held: Resources | None, traffic: Traffic, register_ratio: float = 1.0
) -> KernelFacts:
    """Return the facts of a configuration's launch.

    `register_ratio` corrects the estimate of registers by what other configurations had.  Raises
    `NotKnown`.
    """
    reader = _Reader(given, held)
    parts = reader.parts()
    needed = held.registers if held else int(reader.registers() * register_ratio)
    there = min(255, 65536 // given.threads // 8 * 8)
    binary = Binary(held.registers, 2 * held.spilled, False) if held else None
    launch = LaunchFacts(
        blocks=given.blocks,
        threads=given.threads,
        workers=given.threads,
        shared=held.shared if held else int(reader.shared()),
        registers=min(needed, there),
        lacking=max(0, needed - there),
        local_bytes=0,
        persistent=False,
        cluster=given.ctas,
        groups=max(1, given.warps // 4) if any(p.products for p in parts) else 1,
        planned=False,
        alternating=False,
        barriers=0,
        memory_bytes=traffic.read,
        written_bytes=traffic.written,
        parts=parts,
        binary=binary,
    )
    return KernelFacts((launch,), float(sum(given.sizes.values())))


class _Reader:
    """The steps of a program, with the numbers of one launch."""

    def __init__(self, given: Configured, held: Resources | None) -> None:
        self.given, self.held = given, held
        self.launch = Launch(given.arguments, given.grid)
        self.steps = given.work.steps
        self._means: dict[int, float] = {}
        self._values: dict[int, numbers.Each] = {}
        self._numbered: dict[int, npt.NDArray[np.int64] | None] = {}
        self.multiplied = {
            _loops(each.around) for each in self.steps if each.name.startswith("tt.dot")
        }

    def _found_again(self) -> set[int]:
        """Return the positions of loads of what a block loaded before and the L1 still has."""
        held: dict[int, float] = {}
        again: dict[int, list[int]] = {}
        for at, each in enumerate(self.steps):
            if each.argument >= 0 and _is_load(each):
                trips = math.prod(self.mean(t) for loop, t in each.around if loop in each.moves)
                if each.place in held:
                    again.setdefault(each.place, []).append(at)
                held[each.place] = max(held.get(each.place, 0.0), _size(each) * trips)
        if sum(held[place] for place in again) > L1_KEEPS:
            return set()
        return {at for found in again.values() for at in found}

    # -- parts

    def parts(self) -> tuple[Part, ...]:
        """Return what is done once, and what each iteration of each loop does."""
        found: dict[tuple[int, ...], _Sum] = {(): _Sum(1.0)}
        again = self._found_again()
        for at, each in enumerate(self.steps):
            key = _loops(each.around)
            part = found.get(key)
            if part is None:
                part = found[key] = _Sum(math.prod(self.mean(t) for _, t in each.around))
            whole = math.prod(self.mean(t) for _, t in each.around)
            share = min(1.0, whole / part.times) if part.times else 0.0
            self._add(each, part, share, key, again=at in again)
        made = []
        for key, part in found.items():
            stages = self.given.stages if self.ahead(key) else 0
            own = Part(times=part.times, stages=stages, products=tuple(part.products))
            made.append(own.plus(**part.amounts))
        return tuple(made)

    def ahead(self, key: tuple[int, ...]) -> bool:
        """Return whether the loads of a loop run ahead of it."""
        if not key or key not in self.multiplied or self.given.stages < 2:
            return False
        return self.held.ahead if self.held else True

    def mean(self, trips: Expression | None) -> float:
        """Return how often a loop or branch runs, as a mean over programs."""
        if trips is None:
            raise NotKnown(DataDecidesLoop())
        key = id(trips)
        if key not in self._means:
            self._means[key] = self._mean(trips)
        return self._means[key]

    def _mean(self, trips: Expression) -> float:
        if trips == numbers.MAYBE:
            return 1.0
        found = numbers.bounds(trips, self.launch)
        if found is not None and found[0] == found[1]:
            return float(found[0])
        if self.given.blocks <= MOST_PROGRAMS:
            each = numbers.by_program(trips, self.launch, _LINEAR, self._values)
            if each is not None:
                return float(np.mean(each))
        if found is None:
            if is_branch(trips):
                return 1.0
            raise NotKnown(DataDecidesLoop())
        return (found[0] + found[1]) / 2

    def _add(
        self, step: Step, part: _Sum, share: float, key: tuple[int, ...], *, again: bool
    ) -> None:
        if step.argument >= 0:
            self._access(step, part, share, key, again=again)
        elif step.name.startswith("tt.dot"):
            self._product(step, part, share)
        elif step.name in ("tt.reduce", "tt.scan"):
            part.add(ordinary=share * self._spread(step), reductions=share)
        elif (special := _SPECIAL.get(step.name)) is not None:
            count = share * self._spread(step)
            part.add(special=count * special[0], ordinary=count * special[1])
        elif step.name not in _FREE:
            folded = 1.0 if step.kind.startswith(("f", "bf")) else FOLDED
            if step.name == "arith.truncf":
                folded = 2.0  # two are packed by one instruction
            part.add(ordinary=share * max(self._spread(step) / folded, self.given.threads))

    def _spread(self, step: Step) -> float:
        """Return the elements of a step, as often as threads hold them."""
        return float(max(math.prod(step.shape), self.given.threads))

    def _access(
        self, step: Step, part: _Sum, share: float, key: tuple[int, ...], *, again: bool
    ) -> None:
        size = share * _size(step)
        width = self._width(step)
        factor = 1.0
        row = (step.shape[-1] if step.shape else 1) * _bytes(step.kind)
        if row < SECTOR:
            factor = SECTOR / row if len(step.shape) != 1 else 1.0
        warps = share * self.given.warps * bool(step.shape)
        part.add(requests=max(size / (32 * width), warps), ordinary=max(size / width, 32 * warps))
        if _is_load(step) and _is_store(step):
            part.add(stores=2 * size, loads=size)
        elif _is_store(step):
            part.add(stores=size * factor)
        else:
            part.add(loads=0.0 if again else size * factor)
            if key in self.multiplied:
                # Operands of products go through shared memory.
                part.add(shared=size)
            if not self.ahead(key):
                part.add(waited=size)

    def _width(self, step: Step) -> float:
        """Return the bytes that one thread accesses at once."""
        each = _size(step) / self.given.threads
        return max(min(float(WIDEST_ACCESS), 2.0 ** math.floor(math.log2(max(each, 1.0)))),
                   float(_bytes(step.kind)))  # fmt: skip

    def _product(self, step: Step, part: _Sum, share: float) -> None:
        if part.products:
            # Unlike loads, the operands of a second product do not run ahead.
            part.add(reductions=share * PRODUCT_WAITS)
        *batch, rows, columns, depth = step.shape
        flops = 2.0 * math.prod(step.shape) * share
        size = _bytes(step.kind)
        many = math.prod(batch) * share
        if (step.exact and step.kind == "f32") or step.kind == "f64":
            roof = "fma_float64" if step.kind == "f64" else "fma_float32"
            part.products.append(Product(roof, flops, "fma"))
            part.add(ordinary=flops / 2, shared=many * depth * (rows + columns) * size)
            return
        roof = _ROOFS.get(step.kind, "tensor_float16")
        if self._by_groups(rows):
            high = min(max(self.given.warps // 4, 1), max(rows // _ROWS, 1))
            wide = max(self.given.warps // 4 // high, 1)
            pieces = math.ceil(columns / wide / _COLUMNS) * wide
            read = rows * depth * size * pieces + max(rows // _ROWS, 1) * columns * depth * size
            part.products.append(Product(roof, flops, "wgmma"))
            part.add(shared=many * read)
            return
        high, wide = 1, 1
        while high * wide < self.given.warps:
            if rows / high >= columns / wide and rows / high > 16:
                high *= 2
            else:
                wide *= 2
        read = (wide * rows + high * columns) * depth * size
        # Warps beyond the tile compute what others compute.
        repeated = max(1.0, wide * 8 / columns, high * 16 / rows)
        part.products.append(Product(roof, flops * repeated, "mma"))
        part.add(shared=many * read, ordinary=flops * repeated / 4096 * 32,
                 requests=many * read / 512)  # fmt: skip

    def _by_groups(self, rows: int) -> bool:
        if self.held is not None:
            return self.held.groups
        given = self.given
        return given.capability // 10 == 9 and given.warps % 4 == 0 and rows >= _ROWS

    # -- resources, before the machine code says them

    def registers(self) -> float:
        """Estimate the registers of a thread from the tiles that live at once."""
        dots = [each for each in self.steps if each.name.startswith("tt.dot")]
        if dots:
            tiles = sum(4.0 * math.prod(each.shape[:-1]) for each in dots)
        else:
            floats = [each for each in self.steps if each.kind.startswith(("f", "bf"))]
            tiles = 2.0 * max((4.0 * math.prod(each.shape) for each in floats), default=0.0)
        return tiles / 4 / self.given.threads + OTHER_REGISTERS

    def shared(self) -> float:
        """Estimate the shared memory of a block: operands of products on their way."""
        made = 0.0
        left = {(each.shape[-3], each.shape[-1]) for each in self.steps if each.name == "tt.dot"}
        for each in self.steps:
            key = _loops(each.around)
            if each.argument < 0 or not _is_load(each) or not each.shape:
                continue
            if key in self.multiplied:
                made += _size(each) * (self.given.stages if self.ahead(key) else 1)
            elif each.shape in left:
                made += _size(each)
        return made

    # -- memory

    def memory(self, running: Sequence[int]) -> tuple[tuple[int, float], ...]:
        """Return the bytes that loads bring from memory, by blocks that run at once."""
        fits = sum(self.given.sizes.values()) <= L2_KEEPS
        return tuple((each, self._read(0 if fits else each)) for each in running)

    def _read(self, running: int) -> float:
        """Return the bytes that waves of so many blocks read; 0: all blocks are one wave."""
        by_place: dict[int, tuple[Step, float]] = {}
        for each in self.steps:
            if each.argument < 0 or (_is_store(each) and not _is_load(each)):
                continue
            trips = math.prod(
                self.mean(t) for loop, t in each.around if loop in each.moves or is_branch(t)
            )
            before = by_place.get(each.place)
            if before is None or before[1] < trips:
                by_place[each.place] = each, trips
        total = dict[int, float]()
        waves = math.ceil(self.given.blocks / running) if running else 1
        for step, trips in by_place.values():
            row = (step.shape[-1] if step.shape else 1) * _bytes(step.kind)
            size = _size(step) * (max(1.0, SECTOR / row) if len(step.shape) > 1 else 1.0)
            read = self._distinct(step, running) * size * trips
            total[step.argument] = total.get(step.argument, 0.0) + read
        return sum(
            min(read, waves * float(self.given.sizes.get(argument, math.inf)))
            for argument, read in total.items()
        )

    def _distinct(self, step: Step, running: int) -> float:
        """Return the tiles that waves of blocks access, each counted once in a wave."""
        blocks = self.given.blocks
        running = min(running or blocks, blocks)
        waves = math.ceil(blocks / running) if blocks else 0
        if not step.axes:
            return float(waves)
        if step.where and blocks <= MOST_PROGRAMS and (ids := self._tiles(step)) is not None:
            wave = np.arange(blocks) // running
            return float(len(np.unique(wave * (int(ids.max()) + 1) + ids)))
        most = math.prod(self.given.grid[axis] for axis in step.axes)
        return float(waves * min(most, running))

    def _tiles(self, step: Step) -> npt.NDArray[np.int64] | None:
        """Return for each block the number of the tile that a step accesses; None: not known."""
        if step.place not in self._numbered:
            ids = np.zeros(self.given.blocks, np.int64)
            for each in step.where:
                values = numbers.by_program(each, self.launch, _LINEAR, self._values)
                if values is None:
                    self._numbered[step.place] = None
                    break
                _, own = np.unique(np.broadcast_to(values, self.given.blocks), return_inverse=True)
                _, ids = np.unique(ids * (int(own.max()) + 1) + own, return_inverse=True)
            else:
                self._numbered[step.place] = ids
        return self._numbered[step.place]

    def written(self) -> float:
        """Return the bytes that all blocks store."""
        total = dict[int, float]()
        for each in self.steps:
            if _is_store(each):
                trips = math.prod(self.mean(t) for _, t in each.around)
                size = _size(each) * trips * self.given.blocks
                total[each.argument] = total.get(each.argument, 0.0) + size
        return sum(
            min(size, float(self.given.sizes.get(argument, math.inf)))
            for argument, size in total.items()
        )


def _loops(around: tuple[tuple[int, Expression | None], ...]) -> tuple[int, ...]:
    return tuple(loop for loop, trips in around if not is_branch(trips))


def _is_load(step: Step) -> bool:
    return step.name in LOADS


def _is_store(step: Step) -> bool:
    return step.name in STORES


def _bytes(kind: str) -> int:
    if kind.startswith(("!tt.ptr", "i64", "f64")):
        return 8
    if kind.startswith(("f8", "i8", "i1", "i4")) and not kind.startswith("i16"):
        return 1
    return 2 if kind.startswith(("f16", "bf16", "i16")) else 4


def _size(step: Step) -> float:
    """Return the bytes of a step's tile."""
    return float(math.prod(step.shape) * _bytes(step.kind))
