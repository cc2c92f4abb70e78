"""Facts of a configuration, read from its kernel and from what the lowering chose.

In: a kernel after the common passes; after the lowering for a GPU too, and its machine code where
that was made.  Out: `KernelFacts` (`facts.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import repeat

from tileprof import ir
from tileprof.analyzer.tiles.tile_schedule import schedule_of
from tileprof.analyzer.tiles.values import Values, values_of
from tileprof.compiler import Program
from tileprof.compiler.cuda.pipeline import CudaProgram
from tileprof.compiler.cuda.source import LaunchSpec
from tileprof.compiler.cuda.tuning import ROLE_REGISTERS
from tileprof.ir.instructions import Fma, Mma, ProductInstruction, Wgmma
from tileprof.kernel_ir import Op, TileKernel, Type
from tileprof.remarks import Remark
from tileprof.remarks.launches import GroupedRows
from tileprof.remarks.layouts import GlobalAccess, SharedAccess
from tileprof.remarks.loops import TakeTurns
from tileprof.remarks.products import IssuedBehind, RunsWhile

from .facts import Binary, KernelFacts, LaunchFacts, Part, Product, registers_available
from .numbers import OTHER_REGISTERS, ROW_BYTES

_SPECIAL = {
    "exp": 2, "exp2": 2, "exp10": 3, "log": 2, "log2": 2, "log10": 3, "log1p": 4, "sqrt": 2,
    "rsqrt": 1, "sin": 4, "cos": 4, "tan": 8, "sinh": 6, "cosh": 6, "tanh": 2, "asin": 12,
    "acos": 12, "atan": 10, "erf": 10, "sigmoid": 3, "pow": 6, "atan2": 16, "div": 2,
}  # fmt: skip
"""Scalar operations that special function units take part in, and how many results of these units,
or instructions of their length, one takes."""
_FREE = frozenset({"constant", "load", "store", "yield", "view", "if"})


def facts_of(
    program: Program, lowered: CudaProgram | None, *, compiled: bool, running: Iterable[int]
) -> KernelFacts:
    """Return the facts of a kernel; `compiled`: those of its machine code too, which is made now.
    `running`: multiprocessors of devices, for which traffic is counted; none for a processor."""
    kernel = ir.plain_kernel(program.kernel)
    reader = _Reader(kernel, lowered)
    launches = []
    specs: Iterable[LaunchSpec | None] = lowered.source.launches if lowered else repeat(None)
    for launch, spec in zip(kernel.named("launch"), specs):
        made = reader.launch(launch, spec, tuple(running))
        if compiled and lowered is not None and spec is not None:
            made = _with_binary(made, lowered, spec)
        launches.append(made)
    return KernelFacts(tuple(launches), reader.tensor_bytes, tuple(reader.unknown))


def _with_binary(made: LaunchFacts, lowered: CudaProgram, spec: LaunchSpec) -> LaunchFacts:
    held = lowered.cubin.resources[spec.function]
    serialised = any(n.kind == "serialized" and n.function in ("", spec.function)
                     for n in lowered.cubin.notes)  # fmt: skip
    binary = Binary(held.registers, held.spill_stores + held.spill_loads, serialised)
    return replace(
        made, binary=binary, registers=held.registers, shared=spec.shared + held.shared,
        barriers=held.barriers,
    )  # fmt: skip


class _Reader:
    """A kernel's ops, and what the lowering chose for them."""

    def __init__(self, kernel: TileKernel, lowered: CudaProgram | None) -> None:
        self.kernel = kernel
        self.values: Values = values_of(kernel)
        self.tensor_bytes = sum(_size(p.type) for p in kernel.parameters.values())
        self.unknown: dict[str, None] = {}
        self._products: dict[int, list[ProductInstruction]] = {}
        self._spaces: dict[str, str] = {}
        self._access: dict[tuple[str, int], tuple[float, int]] = {}
        self._ahead: set[int] = set()
        """Lines of copies that are asynchronous."""
        self._planned = self._alternating = False
        self._group = 1
        """Rows of blocks that run together."""
        if lowered is not None:
            self._read_lowered(lowered)

    def _read_lowered(self, lowered: CudaProgram) -> None:
        for op in lowered.kernel.ops():
            line = op.span.line if op.span else 0
            if isinstance(op, ir.Gemm | ir.AsyncGemm) and op.lowering is not None:
                self._products.setdefault(line, []).append(op.lowering)
            elif isinstance(op, ir.AsyncCopy):
                self._ahead.add(line)
            elif isinstance(op, ir.Alloc):
                self._spaces[op.result.name or ""] = op.space
        for remark in lowered.remarks:
            self._read_remark(remark)

    def _read_remark(self, remark: Remark) -> None:
        line = remark.location.line if remark.location else 0
        match remark.decision:
            case GlobalAccess(width=width, sectors=sectors, needed=needed):
                self._access[remark.op, line] = (sectors / max(needed, 1), int(width))
            case SharedAccess(width=width, wavefronts=wavefronts, needed=needed):
                self._access[f"shared {remark.op}", line] = (
                    wavefronts / max(needed, 1), int(width))  # fmt: skip
            case TakeTurns():
                self._alternating = True
            case IssuedBehind() | RunsWhile():
                self._planned = True
            case GroupedRows(rows=rows):
                self._group = rows
            case _:
                pass

    def launch(self, op: Op, spec: LaunchSpec | None, running: tuple[int, ...]) -> LaunchFacts:
        """Return the facts of one launch."""
        grid = [self.values.number(name) for name in op.listed]
        if None in grid:
            self.unknown["an extent of the grid is known at launch only"] = None
        blocks = math.prod(each or 1 for each in grid)
        asked = math.prod(op.numbers("threads"))
        allocs = [each for each in op.walk() if each.name == "alloc"]
        fragments = sum(_size(a.type) for a in allocs if a.type.space == "fragment")
        buffers = sum(_size(a.type) for a in allocs)
        threads = spec.threads if spec else asked
        parts = self._parts(op)
        workers = min(self._multiplying(op) or asked, asked)
        if workers < asked:
            # Warps that a product leaves over compute copies of what the others do.
            more = asked / workers
            parts = tuple(replace(p, ordinary=p.ordinary * more, special=p.special * more)
                          for p in parts)  # fmt: skip
        groups = max(1, workers // 128) if any(p.products for p in parts) else 1
        written = sum(p.stores * p.times for p in parts) * blocks
        return LaunchFacts(
            blocks, threads, workers, spec.shared if spec else int(buffers),
            *_registers(fragments, workers, asked, threads), int(buffers),
            bool(spec and spec.persistent), spec.cluster if spec else 1, groups, self._planned,
            self._alternating, 0,
            self._memory(parts, blocks, running), written, parts,
        )  # fmt: skip

    def _multiplying(self, launch: Op) -> int:
        """Return the threads among which the launch's products are divided; 0 without products."""
        lines = {op.line for op in launch.walk() if op.name == "gemm"}
        chosen = (each for line in lines for each in self._products.get(line, ()))
        return max((_threads(each) for each in chosen), default=0)

    def _memory(
        self, parts: tuple[Part, ...], blocks: int, running: tuple[int, ...]
    ) -> tuple[tuple[int, float], ...]:
        """Return what comes from memory, by blocks that run at once."""
        asked = sum(p.loads * p.times for p in parts) * blocks
        schedule = schedule_of(self.kernel) if running else None
        if schedule is None:
            # Between each tensor once and all that is asked for: their geometric mean.
            return ((0, math.sqrt(asked * min(asked, self.tensor_bytes or asked))),)
        made = []
        for sms in running:
            for blocks_each in (1, 2, 4, 8):
                read = schedule.read(self._group, sms * blocks_each)
                made.append((sms * blocks_each, min(read, asked) if asked else read))
        return tuple(made)

    # -- parts

    def _parts(self, launch: Op) -> tuple[Part, ...]:
        found: list[Part] = []
        once = self._body((op for block in launch.blocks for op in block.ops), 1.0, found, Part())
        return (once, *found)

    def _body(self, ops: Iterable[Op], times: float, found: list[Part], part: Part) -> Part:
        """Add ops to a part; loops inside become parts of their own in `found`."""
        for op in ops:
            match op.name:
                case "for" | "while":
                    self._loop(op, times, found)
                case "if" | "scope":
                    for block in op.blocks:
                        part = self._body(block.ops, times, found, part)
                case _:
                    part = self._add(op, part)
        return part

    def _loop(self, op: Op, times: float, found: list[Part]) -> None:
        turns = self.values.mean_turns(op) if op.name == "for" else None
        if turns is None:
            self.unknown[f"line {op.line}: the data decides how often the loop runs"] = None
            turns = 1.0
        stages = op.number("num_stages") if op.word == "pipelined" else 0
        own = Part(op.line, times * turns, stages)
        at = len(found)
        inner = (each for block in op.blocks for each in block.ops)
        made = self._body(inner, times * turns, found, own)
        copies = [each.line for each in op.walk() if each.name == "copy"]
        if self._products or self._ahead:
            ahead = stages if any(line in self._ahead for line in copies) else 0
            made = replace(made, stages=ahead)
        found.insert(at, made)

    def _add(self, op: Op, part: Part) -> Part:
        match op.name:
            case "copy":
                return self._copy(op, part)
            case "gemm":
                return self._gemm(op, part)
            case "parallel":
                return self._points(op, part)
            case "fill":
                return part.plus(ordinary=self._elements(op.source), rows=1)
            case "reduce" | "scan":
                count = self._elements(op.source)
                return part.plus(ordinary=2 * count, reductions=1, rows=1)
            case "tile_atomic":
                size = self._bytes(op.source)
                return part.plus(stores=2 * size, ordinary=self._elements(op.source), rows=1)
            case _:
                return part

    def _copy(self, op: Op, part: Part) -> Part:
        source, target = (self._space(name) for name in op.operands[:2])
        size = max(self._bytes(op.operands[0]), 0.0)
        held = self.kernel.types.get(op.operands[0], Type()).extents or (1,)
        part = part.plus(rows=math.prod(held[:-1]))
        factor, width = self._access.get(("load", op.line), (1.0, 16))
        ahead = op.line in self._ahead
        if source == "global":
            factor *= _short_rows(held, size)
            part = part.plus(loads=size * factor)
            if target == "shared":
                part = part.plus(shared=size)
            if not ahead:
                part = part.plus(waited=size * factor, requests=size / (32 * width),
                                 ordinary=size / width)  # fmt: skip
            return part
        if target == "global":
            factor, width = self._access.get(("store", op.line), (1.0, 16))
            size = self._bytes(op.operands[1])
            part = part.plus(stores=size * factor)
            staged = 2 * size if ahead and source == "fragment" else 0.0
            part = part.plus(shared=staged + (size if source == "shared" else 0.0))
            return part.plus(requests=size / (32 * width), ordinary=size / 4)
        if "shared" in (source, target):
            both = 1 + (source == target)
            return part.plus(shared=both * size, ordinary=size / 8, requests=size / 512)
        return part.plus(ordinary=self._elements(op.operands[0]))

    def _gemm(self, op: Op, part: Part) -> Part:
        a, b, c = (self.kernel.types.get(name, Type()) for name in op.operands[:3])
        if not (a.extents and b.extents and c.extents):
            return part
        rows, columns = c.extents[-2:]
        depth = math.prod(a.extents[-2:]) // rows
        flops = 2.0 * rows * columns * depth
        chosen = next(iter(self._products.get(op.line, ())), None)
        size_a, size_b = a.bits / 8, b.bits / 8
        made = Product(_roof(a, chosen), flops, _instruction(chosen))
        shared = _operand_bytes(chosen, rows, columns, depth, size_a, size_b, a.space == "fragment")
        part = part.plus(shared=shared, rows=rows)
        if isinstance(chosen, Mma):
            part = part.plus(ordinary=flops / 4096 * 32, requests=shared / 512)
        elif isinstance(chosen, Fma) or chosen is None:
            part = part.plus(ordinary=flops / 2 if chosen else 0.0)
        return replace(part, products=(*part.products, made))

    def _points(self, op: Op, part: Part) -> Part:
        extents = [self.values.number(name) or 1 for name in op.listed]
        points = float(math.prod(extents))
        part = part.plus(rows=math.prod(extents[:-1]))
        return self._inside(op, points, part)

    def _inside(self, op: Op, points: float, part: Part) -> Part:
        """Add the scalar operations inside a loop over elements; loops in it repeat theirs."""
        for each in (inner for block in op.blocks for inner in block.ops):
            part = self._scalar(each, points, part)
            turns = self.values.mean_turns(each) if each.name == "for" else None
            part = self._inside(each, points * (1.0 if turns is None else turns), part)
        return part

    def _scalar(self, op: Op, points: float, part: Part) -> Part:
        if op.name in ("load", "store", "atomic"):
            return self._element(op, points, part)
        if op.name in _FREE or op.type.dtype == "index":
            return part
        if (results := _SPECIAL.get(op.name)) is not None:
            return part.plus(special=points, ordinary=points * results)
        return part.plus(ordinary=points)

    def _element(self, op: Op, points: float, part: Part) -> Part:
        buffer = op.source if op.name == "load" else op.operands[1]
        held = self.kernel.types.get(buffer, Type())
        space = self._space(buffer)
        if space in ("fragment", "local"):
            return part
        size = max(held.bits, 8) / 8
        key = op.name if space == "global" else f"shared {op.name}"
        factor, width = self._access.get((key, op.line), (1.0, max(int(size), 4)))
        points = self._distinct(op, points)
        bytes_, requests = points * size, points * size / (32 * max(width, 1))
        part = part.plus(requests=requests, ordinary=points * size / max(width, 1))
        if space == "shared":
            return part.plus(shared=max(bytes_, requests * 32 * 4 * (width < 4)) * factor)
        if op.name == "load":
            return part.plus(loads=bytes_ * factor, waited=bytes_ * factor)
        return part.plus(stores=bytes_ * factor * (2 if op.name == "atomic" else 1))

    def _distinct(self, op: Op, points: float) -> float:
        """Return how many elements an access of all points reaches: one that leaves out a variable
        of its loop reaches fewer."""
        loops: set[str] = set()
        for name in op.listed:
            value = self.values.held.get(name)
            if value is None:
                return points
            loops |= value.loops
        known = (self.values.turns[each] for each in loops if each in self.values.turns)
        return min(points, float(math.prod(int(each) for each in known if not each.ndim)))

    # -- values

    def _space(self, name: str) -> str:
        kind = self.kernel.types.get(name, Type())
        if kind.space != "fragment":
            return kind.space
        # A fragment may have been moved to shared memory.
        return self._spaces.get(name.lstrip("%"), kind.space)

    def _bytes(self, name: str) -> float:
        return _size(self.kernel.types.get(name, Type()))

    def _elements(self, name: str) -> float:
        held = self.kernel.types.get(name, Type()).extents
        return float(math.prod(held)) if held else 0.0


def _size(kind: Type) -> float:
    return math.prod(kind.extents) * max(kind.bits, 8) / 8 if kind.extents else 0.0


def _short_rows(shape: tuple[int, ...], size: float) -> float:
    """Return how many times the bytes of a tile are asked of memory for want of whole lines."""
    row = size / max(math.prod(shape[:-1]), 1)
    return 1 + max(0.0, ROW_BYTES / max(row, 1.0) - 1) / 2 if row < ROW_BYTES else 1.0


def _threads(chosen: ProductInstruction) -> int:
    units = chosen.rows * chosen.columns
    return units * (128 if isinstance(chosen, Wgmma) else 32)


def _registers(fragments: float, workers: int, asked: int, threads: int) -> tuple[int, int]:
    """Estimate a thread's registers by what its fragments take, and those that it lacks."""
    needed = int(fragments / 4 / max(workers, 1)) + OTHER_REGISTERS
    # More than there are for one block is not given to it: the rest is spilled.
    there = registers_available(threads)
    if threads > asked and (groups := asked // 128) in ROLE_REGISTERS:
        # With a producer, registers move between roles; the block starts with equal shares.
        return there, max(0, needed - ROLE_REGISTERS[groups][1])
    return min(needed, there), max(0, needed - there)


def _roof(a: Type, chosen: ProductInstruction | None) -> str:
    if isinstance(chosen, Fma):
        return "fma_float64" if a.bits == 64 else "fma_float32"
    if a.dtype == "float32":
        return "tensor_tf32"
    return f"tensor_{a.dtype}"


def _instruction(chosen: ProductInstruction | None) -> str:
    match chosen:
        case None:
            return ""
        case Wgmma():
            return "wgmma"
        case Mma():
            return "mma"
        case Fma():
            return "fma"


def _operand_bytes(
    chosen: ProductInstruction | None, rows: int, columns: int, depth: int, a: float, b: float,
    a_in_registers: bool,
) -> float:  # fmt: skip
    """Return the bytes of shared memory that a product's instructions read."""
    match chosen:
        case Wgmma(n=width, columns=groups):
            pieces = math.ceil(columns / groups / width) * groups
            of_a = 0.0 if chosen.a_in_registers else rows * depth * a * pieces
            return of_a + max(rows // Wgmma.m, 1) * columns * depth * b
        case Mma(rows=warp_rows, columns=warp_columns):
            of_a = 0.0 if a_in_registers else warp_columns * rows * depth * a
            return of_a + warp_rows * columns * depth * b
        case Fma(lane_rows=lane_rows, lane_columns=lane_columns, rows=r, columns=c):
            high, wide = rows / (lane_rows * r), columns / (lane_columns * c)
            warps = r * c
            return warps * 32 * depth * (high * a + wide * b) / 8
        case None:
            return (rows + columns) * depth * a
