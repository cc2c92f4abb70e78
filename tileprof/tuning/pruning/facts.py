"""Demands of one configuration of a Triton kernel on the machine, read from its program.

In: the steps of a program (TTIR), a launch's numbers and sizes, and the resources of the machine
code where it was made.  Out: `LaunchFacts`, which the model of tiles takes.  `NotKnown` is raised
where the program leaves open what a launch does.

What Triton's later passes choose is estimated by their rules: loops with products run their loads
`num_stages` ahead; products of at least 64 rows by whole warp groups are `wgmma`.  The machine code
then says registers, spills and shared memory, and whether these two were right.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tileprof.profiler.frameworks.triton_accesses import Step
from tileprof.tuning.facts import (
    Binary,
    KernelFacts,
    LaunchFacts,
    Part,
    Product,
    registers_available,
)

from .configured import Configured, Resources
from .iterations import Iterations, bytes_of, is_load, is_store, loops_of, size_of
from .numbers import (
    FOLDED,
    L1_KEEPS,
    OTHER_REGISTERS,
    PRODUCT_WAITS,
    SECTOR,
    WIDEST_ACCESS,
)
from .traffic import Traffic

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


@dataclass
class _Sum:
    """Amounts of one part, while they are added up."""

    times: float
    products: list[Product] = field(default_factory=list)
    amounts: dict[str, float] = field(default_factory=dict)

    def add(self, **more: float) -> None:
        for name, value in more.items():
            self.amounts[name] = self.amounts.get(name, 0.0) + value


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
    there = registers_available(given.threads)
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


class _Reader(Iterations):
    def __init__(self, given: Configured, held: Resources | None) -> None:
        super().__init__(given)
        self.held = held
        self.multiplied = {
            loops_of(each.around) for each in self.steps if each.name.startswith("tt.dot")
        }

    def _found_again(self) -> set[int]:
        """Return the positions of loads of what a block loaded before and the L1 still has."""
        held: dict[int, float] = {}
        again: dict[int, list[int]] = {}
        for at, each in enumerate(self.steps):
            if each.argument >= 0 and is_load(each):
                trips = math.prod(self.mean(t) for loop, t in each.around if loop in each.moves)
                if each.place in held:
                    again.setdefault(each.place, []).append(at)
                held[each.place] = max(held.get(each.place, 0.0), size_of(each) * trips)
        if sum(held[place] for place in again) > L1_KEEPS:
            return set()
        return {at for found in again.values() for at in found}

    # -- parts

    def parts(self) -> tuple[Part, ...]:
        """Return what is done once, and what each iteration of each loop does."""
        found: dict[tuple[int, ...], _Sum] = {(): _Sum(1.0)}
        again = self._found_again()
        for at, each in enumerate(self.steps):
            key = loops_of(each.around)
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
        size = share * size_of(step)
        width = self._width(step)
        factor = 1.0
        row = (step.shape[-1] if step.shape else 1) * bytes_of(step.kind)
        if row < SECTOR:
            factor = SECTOR / row if len(step.shape) != 1 else 1.0
        warps = share * self.given.warps * bool(step.shape)
        part.add(requests=max(size / (32 * width), warps), ordinary=max(size / width, 32 * warps))
        if is_load(step) and is_store(step):
            part.add(stores=2 * size, loads=size)
        elif is_store(step):
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
        each = size_of(step) / self.given.threads
        return max(min(float(WIDEST_ACCESS), 2.0 ** math.floor(math.log2(max(each, 1.0)))),
                   float(bytes_of(step.kind)))  # fmt: skip

    def _product(self, step: Step, part: _Sum, share: float) -> None:
        if part.products:
            # Unlike loads, the operands of a second product do not run ahead.
            part.add(reductions=share * PRODUCT_WAITS)
        *batch, rows, columns, depth = step.shape
        flops = 2.0 * math.prod(step.shape) * share
        size = bytes_of(step.kind)
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
            key = loops_of(each.around)
            if each.argument < 0 or not is_load(each) or not each.shape:
                continue
            if key in self.multiplied:
                made += size_of(each) * (self.given.stages if self.ahead(key) else 1)
            elif each.shape in left:
                made += size_of(each)
        return made
