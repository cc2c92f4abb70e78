"""Kernels with one matrix product or one copy of matrices each, without the passes around them:
operands are brought to where the op takes them by loops over single elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.compiler.codegen.types import storage
from tileprof.compiler.codegen.writer import Names, Writer
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, SharedBuffer
from tileprof.compiler.cuda.emit.context import Context
from tileprof.compiler.cuda.emit.gemm.common import emit_gemm
from tileprof.compiler.cuda.emit.gemm.matrices import loops
from tileprof.compiler.cuda.emit.gemm.wgmma_header import header
from tileprof.compiler.cuda.emit.loops.digit_runs import runs_of
from tileprof.compiler.cuda.emit.loops.points import thread_coordinates
from tileprof.compiler.cuda.emit.statements import emit_block
from tileprof.compiler.cuda.emit.tilecopy import emit_copy
from tileprof.compiler.cuda.layouts import RegisterLayout, SharedLayout, parse_shared
from tileprof.compiler.cuda.layouts.matrix import (
    Operand,
    accumulator_layout,
    operand_layout,
    shared_layout,
)
from tileprof.compiler.cuda.lowering import Lowering, Remarks
from tileprof.compiler.cuda.passes.choice.gemms import choose_gemm
from tileprof.compiler.cuda.prelude import with_dependencies
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec
from tileprof.compiler.cuda.target import find_target
from tileprof.emulator import emulate
from tileprof.ir.tile import Policy

Array = np.ndarray[Any, Any]
ALIGNMENT = 1024
PROLOGUE = (
    "TP_SHARED_MEMORY(tp_shared);",
    "const int tp_thread = threadIdx.x;",
    "const int tp_lane = tp_thread & 31;",
    "const int tp_warp = tp_uniform(tp_thread >> 5);",
)
HEADERS = ("base.cuh", "numbers.cuh", "barriers.cuh", "memory.cuh")


class Text:
    """A kernel of one block under construction; `pointers` are its parameters with their types."""

    def __init__(self, target: str, threads: int, controls: Controls | None = None) -> None:
        self.threads = threads
        self.pointers: dict[str, ir.DType] = {}
        self.shared = 0
        self.ctx = Context(
            Writer(),
            Names(),
            [],
            set(HEADERS),
            {},
            target=find_target(target),
            controls=controls or Controls(),
            threads=threads,
        )
        for line in PROLOGUE:
            self.line(line)

    def line(self, text: str) -> None:
        """One line."""
        self.ctx.writer.line(text)

    def fragment(self, name: str, value: ir.Value, layout: RegisterLayout) -> None:
        """Declare a fragment `name_f`."""
        self.ctx.buffers[value] = FragmentBuffer(f"{name}_f", value.dtype, layout, name)
        kind = storage(value.dtype)
        self.line(f"{kind} {name}_f[{layout.registers_per_thread}];")

    def registers(self, name: str, layout: RegisterLayout, pointer: str, *, store: bool) -> None:
        """Copy between global memory and the registers of a fragment, one by one."""
        digits, weight = [], 1
        for digit in layout.registers:
            digits.append((digit, (weight,)))
            weight *= digit.radix
        start = thread_coordinates(layout)
        with loops(self.ctx, runs_of(digits)) as (number, steps):
            row, column = (f"({s} + {t})" for s, t in zip(start, steps or [0, 0]))
            rows, columns = layout.shape
            inside = f"if ({row} < {rows} && {column} < {columns}) "
            there, here = f"{pointer}[{row} * {columns} + {column}]", f"{name}_f[{number}]"
            self.line(f"{inside}{f'{there} = {here}' if store else f'{here} = {there}'};")

    def tile(self, name: str, value: ir.Value, layout: SharedLayout) -> None:
        """Declare a buffer `name_s` in shared memory."""
        self.shared = -(-self.shared // ALIGNMENT) * ALIGNMENT
        self.line(f"unsigned char *const {name}_s = tp_shared + {self.shared};")
        self.shared += layout.bytes
        self.ctx.buffers[value] = SharedBuffer(f"{name}_s", value.dtype, layout, name)

    def elements(
        self, value: ir.Value, start: Sequence[int], shape: tuple[int, int], pointer: str,
        *, store: bool,
    ) -> None:  # fmt: skip
        """Copy between global memory and a part of a buffer in shared memory."""
        rows, columns = shape
        *lead, row, column = start
        place = self.ctx.shared(value).element(
            [*lead, f"i / {columns} + {row}", f"i % {columns} + {column}"]
        )
        move = f"{pointer}[i] = {place}" if store else f"{place} = {pointer}[i]"
        head = f"for (int i = tp_thread; i < {rows * columns}; i += {self.threads})"
        self.line(f"{head} {move};")

    def meet(self) -> None:
        """All threads have written what others read."""
        if self.ctx.target.has_wgmma:
            self.line("tp_fence_async();")
        self.line("tp_barrier();")

    def source(self) -> CudaSource:
        """The text, with one launch of one block."""
        return together({"tile_0": self})

    def function(self, name: str) -> list[str]:
        """The lines of the kernel under a name."""
        parameters = ", ".join(
            f"{storage(t)} *const __restrict__ {n}" for n, t in self.pointers.items()
        )
        head = f'extern "C" __global__ void __launch_bounds__({self.threads}, 1) {name}('
        return [f"{head}{parameters}) {{", *(line.text for line in self.ctx.writer.lines), "}"]

    def launch(self, name: str, first: int = 0) -> LaunchSpec:
        """The launch of one block, whose parameters begin with this one of the source."""
        arguments = tuple(Argument("pointer", first + at) for at in range(len(self.pointers)))
        one = ir.Constant(1, ir.dtype("index")).result
        return LaunchSpec(name, arguments, (), (one,), self.threads, self.shared)


def together(kernels: Mapping[str, Text]) -> CudaSource:
    """Kernels by their names as one text, with one launch of one block for each and the parameters
    of all of them in a row."""
    contexts = [each.ctx for each in kernels.values()]
    headers = dict(with_dependencies({name for ctx in contexts for name in ctx.headers}))
    if shapes := [shape for ctx in contexts for shape in ctx.wgmma]:
        headers["wgmma.cuh"] = header(shapes)
    lines = [f'#include "{name}"' for name in headers]
    lines += [line for name, each in kernels.items() for line in each.function(name)]
    firsts = accumulate((len(each.pointers) for each in kernels.values()), initial=0)
    launches = tuple(each.launch(name, at) for (name, each), at in zip(kernels.items(), firsts))
    return CudaSource("tile", "\n".join(lines), tuple(headers.items()), launches, ())


def emulated(source: CudaSource, arrays: Sequence[Array], seed: int = 0) -> None:
    """Run a text on arrays, in place."""
    params = tuple(
        ir.Param(f"p{i}", ir.BufferType(a.shape, ir.dtype(a.dtype.name), "global"))
        for i, a in enumerate(arrays)
    )
    one = source.launches[0].grid[0].owner
    assert one is not None
    body = ir.Block([ir.Value(p.type) for p in params], [one])
    emulate(source, ir.Kernel("tile", params, (), body), arrays, seed=seed)


def check_together(cases: Mapping[str, Product | MatrixCopy]) -> None:
    """Run cases by their names as one text, which is compiled in a fraction of the time of many,
    and compare what each computes with NumPy."""
    given = {name: case.arrays() for name, case in cases.items()}
    wanted = {name: case.expected(given[name]) for name, case in cases.items()}
    kernels = {f"tile_{at}": case.kernel() for at, case in enumerate(cases.values())}
    emulated(together(kernels), [array for arrays in given.values() for array in arrays])
    for name, arrays in given.items():
        np.testing.assert_array_equal(arrays[-1], wanted[name], err_msg=name)


@dataclass
class Product:
    """`C += A B` for tiles in global memory, by one block."""

    m: int
    n: int
    k: int
    a: str = "bfloat16"
    b: str = ""
    c: str = "float32"
    transpose_a: bool = False
    transpose_b: bool = False
    clear: bool = False
    policy: Policy = "square"
    threads: int = 128
    target: str = "sm_90a"
    controls: Controls = field(default_factory=Controls)
    fragments: str = ""
    """Operands that lie in fragments: `a`, `b` or both."""
    layouts: dict[str, str] = field(default_factory=dict)
    """Shared layouts of operands, instead of what the product wishes."""
    start: tuple[int, int, int] | None = None
    """Operands are parts of shared buffers with slots: slot, row and column where they start."""

    def __post_init__(self) -> None:
        self.b = self.b or self.a
        self.shapes = {
            "a": (self.k, self.m) if self.transpose_a else (self.m, self.k),
            "b": (self.n, self.k) if self.transpose_b else (self.k, self.n),
            "c": (self.m, self.n),
        }
        self.held: dict[str, ir.Value] = {}
        self.tiles: dict[str, ir.Value] = {}
        for name in "abc":
            self._operand(name, self.shapes[name])
        op = ir.Gemm(
            self.tiles["a"],
            self.tiles["b"],
            self.tiles["c"],
            self.transpose_a,
            self.transpose_b,
            self.clear,
            self.policy,
        )
        self.remarks = Remarks()
        lowering = Lowering(find_target(self.target), self.controls, self.remarks)
        self.op = choose_gemm(op, self.threads, lowering)

    def _operand(self, name: str, shape: tuple[int, int]) -> None:
        dtype = ir.dtype(getattr(self, name))
        if name in f"{self.fragments}c":
            self.held[name] = self.tiles[name] = ir.Alloc("fragment", shape, dtype).result
            return
        slot, row, column = self.start or (0, 0, 0)
        whole = shape if self.start is None else (slot + 1, row + shape[0], column + shape[1])
        self.held[name] = self.tiles[name] = ir.Alloc("shared", whole, dtype).result
        if self.start is not None:
            offsets = [ir.Constant(at, ir.dtype("index")).result for at in self.start]
            self.tiles[name] = ir.View(self.held[name], offsets, (1, *shape)).result

    @property
    def lowering(self) -> str:
        """The instruction that was chosen."""
        return str(self.op.lowering)

    @property
    def remark(self) -> str:
        """What was said about the choice."""
        (remark,) = self.remarks.all()
        return f"{remark.severity}: {remark}"

    def layout(self, name: str) -> RegisterLayout:
        """How an operand lies in registers."""
        if name == "c":
            return accumulator_layout(self.op, self.threads)
        return operand_layout(self.op, self.threads, _operand(name))

    def source(self) -> CudaSource:
        """The text."""
        return self.kernel().source()

    def kernel(self) -> Text:
        """The kernel."""
        text = Text(self.target, self.threads, self.controls)
        for name in "abc":
            value = self.held[name]
            text.pointers[name.upper()] = value.dtype
            if value.buffer.space == "fragment":
                text.fragment(name, value, self.layout(name))
                text.registers(name, self.layout(name), name.upper(), store=False)
                continue
            wish = self.layouts.get(name) or shared_layout(self.op, _operand(name))
            text.tile(name, value, parse_shared(wish, value.buffer.static_shape, value.dtype))
            start = self.start or (0, 0)
            text.elements(value, start, self.shapes[name], name.upper(), store=False)
        text.meet()
        emit_gemm(text.ctx, self.op)
        text.registers("c", self.layout("c"), "C", store=True)
        return text

    def arrays(self, seed: int = 0) -> list[Array]:
        """Random operands, and sums to begin with; products of them are exact in every type."""
        random = np.random.default_rng(seed)
        low = 0 if "uint8" in (self.a, self.b) else -4
        kinds = {name: ir.dtype(getattr(self, name)).to_numpy() for name in "abc"}
        return [
            random.integers(low, 5, self.shapes[name]).astype(kind) for name, kind in kinds.items()
        ]

    def expected(self, arrays: Sequence[Array]) -> Array:
        """The sums after the product."""
        a, b, c = (x.astype(np.float64) for x in arrays)
        product = (a.T if self.transpose_a else a) @ (b.T if self.transpose_b else b)
        return (product if self.clear else c + product).astype(arrays[2].dtype)

    def check(self, seed: int = 0) -> None:
        """The emulator computes what NumPy does."""
        arrays = self.arrays(seed)
        wanted = self.expected(arrays)
        emulated(self.source(), arrays, seed)
        np.testing.assert_array_equal(arrays[2], wanted)


def _operand(name: str) -> Operand:
    return "a" if name == "a" else "b"


@dataclass
class MatrixCopy:
    """A fragment copied to shared memory, or the reverse, by one block."""

    layout: RegisterLayout
    fragment: str
    shared: str
    text: str
    """The layout of the tile in shared memory."""
    load: bool = False
    target: str = "sm_90a"
    slot: int | None = None
    """The tile is this slot of a ring."""

    def source(self) -> CudaSource:
        """The text: from `X` through the copy to `Y`."""
        return self.kernel().source()

    def kernel(self) -> Text:
        """The kernel."""
        rows, columns = self.layout.shape
        shape = self.layout.shape if self.slot is None else (self.slot + 1, rows, columns)
        held = ir.Alloc("shared", shape, ir.dtype(self.shared)).result
        fragment = ir.Alloc("fragment", (rows, columns), ir.dtype(self.fragment)).result
        tile, start = held, [0, 0]
        if self.slot is not None:
            start = [self.slot, 0, 0]
            offsets = [ir.Constant(at, ir.dtype("index")).result for at in start]
            tile = ir.View(held, offsets, (1, rows, columns)).result
        text = Text(self.target, self.layout.threads)
        ends = (held, fragment) if self.load else (fragment, held)
        text.pointers = {"X": ends[0].dtype, "Y": ends[1].dtype}
        text.tile("t", held, parse_shared(self.text, shape, held.dtype))
        text.fragment("r", fragment, self.layout)
        if self.load:
            text.elements(held, start, (rows, columns), "X", store=False)
            text.meet()
            emit_copy(text.ctx, ir.Copy(tile, fragment), emit_block)
            text.registers("r", self.layout, "Y", store=True)
        else:
            text.registers("r", self.layout, "X", store=False)
            emit_copy(text.ctx, ir.Copy(fragment, tile), emit_block)
            text.meet()
            text.elements(held, start, (rows, columns), "Y", store=True)
        return text

    def arrays(self, seed: int = 0) -> list[Array]:
        """Random elements, and room for what becomes of them."""
        names = (self.shared, self.fragment) if self.load else (self.fragment, self.shared)
        source, target = (ir.dtype(name).to_numpy() for name in names)
        random = np.random.default_rng(seed)
        given = (random.standard_normal(self.layout.shape) * 50).astype(source)
        return [given, np.zeros(self.layout.shape, target)]

    def expected(self, arrays: Sequence[Array]) -> Array:
        """Every element, rounded to the type of the target."""
        return arrays[0].astype(arrays[1].dtype)
