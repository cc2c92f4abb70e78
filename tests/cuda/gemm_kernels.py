"""Kernels with one matrix product each, without the passes around it: operands are brought to
where the product takes them by loops over single elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.emulator import emulate
from tileprof import ir
from tileprof.compiler.codegen.types import storage
from tileprof.compiler.codegen.writer import Names, Writer
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, SharedBuffer
from tileprof.compiler.cuda.emit.context import Context
from tileprof.compiler.cuda.emit.gemm import emit_gemm
from tileprof.compiler.cuda.emit.matrices import loops
from tileprof.compiler.cuda.emit.points import runs_of, thread_coordinates
from tileprof.compiler.cuda.emit.wgmma import header
from tileprof.compiler.cuda.layouts import RegisterLayout, parse_shared
from tileprof.compiler.cuda.layouts.matrix import (
    Operand,
    accumulator_layout,
    operand_layout,
    shared_layout,
)
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.gemm_choice import choose_gemm
from tileprof.compiler.cuda.prelude import with_dependencies
from tileprof.compiler.cuda.remarks import Remarks
from tileprof.compiler.cuda.source import Argument, CudaSource, LaunchSpec
from tileprof.compiler.cuda.target import find_target
from tileprof.ir.tile import Policy

Array = np.ndarray[Any, Any]
ALIGNMENT = 1024


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
        shapes = {
            "a": (self.k, self.m) if self.transpose_a else (self.m, self.k),
            "b": (self.n, self.k) if self.transpose_b else (self.k, self.n),
        }
        self.held: dict[str, ir.Value] = {}
        self.tiles: dict[str, ir.Value] = {}
        for name, shape in shapes.items():
            self._operand(name, shape)
        self.held["c"] = ir.Alloc("fragment", (self.m, self.n), ir.dtype(self.c)).result
        op = ir.Gemm(
            self.tiles["a"],
            self.tiles["b"],
            self.held["c"],
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
        if name in self.fragments:
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
        return self.op.lowering

    def layout(self, name: str) -> RegisterLayout:
        """How an operand lies in registers."""
        if name == "c":
            return accumulator_layout(self.op, self.threads)
        which: Operand = "a" if name == "a" else "b"
        return operand_layout(self.op, self.threads, which)

    # -- the kernel

    def source(self) -> CudaSource:
        """The text, with one launch of one block."""
        ctx = Context(
            Writer(),
            Names(),
            [],
            {"base.cuh", "numbers.cuh", "barriers.cuh", "memory.cuh"},
            {},
            target=find_target(self.target),
            controls=self.controls,
            threads=self.threads,
        )
        with ctx.writer.deeper():
            shared = self._body(ctx)
        texts = dict(with_dependencies(ctx.headers))
        if ctx.wgmma:
            texts["wgmma.cuh"] = header(ctx.wgmma)
        parameters = ", ".join(
            f"{storage(ir.dtype(getattr(self, name)))} *const __restrict__ {name.upper()}"
            for name in "abc"
        )
        head = f'extern "C" __global__ void __launch_bounds__({self.threads}, 1) product_0('
        lines = [f'#include "{name}"' for name in texts]
        lines += [f"{head}{parameters}) {{", *(line.text for line in ctx.writer.lines), "}"]
        arguments = tuple(Argument("pointer", at) for at in range(3))
        one = ir.Constant(1, ir.dtype("index")).result
        spec = LaunchSpec("product_0", arguments, (), (one,), self.threads, shared)
        return CudaSource("product", "\n".join(lines), tuple(texts.items()), (spec,), ())

    def _body(self, ctx: Context) -> int:
        line, at = ctx.writer.line, 0
        line("TP_SHARED_MEMORY(tp_shared);")
        line("const int tp_thread = threadIdx.x;")
        line("const int tp_lane = tp_thread & 31;")
        line("const int tp_warp = tp_uniform(tp_thread >> 5);")
        for name in "abc":
            value = self.held[name]
            if value.buffer.space == "fragment":
                self._fragment(ctx, name, value)
            else:
                at = self._shared(ctx, name, value, at)
        if ctx.target.has_wgmma:
            line("tp_fence_async();")
        line("tp_barrier();")
        emit_gemm(ctx, self.op)
        self._registers(ctx, "c", store=True)
        return at

    def _shared(self, ctx: Context, name: str, value: ir.Value, at: int) -> int:
        which: Operand = "a" if name == "a" else "b"
        text = self.layouts.get(name) or shared_layout(self.op, which)
        layout = parse_shared(text, value.buffer.static_shape, value.dtype)
        at = -(-at // ALIGNMENT) * ALIGNMENT
        ctx.writer.line(f"unsigned char *const {name}_s = tp_shared + {at};")
        held = SharedBuffer(f"{name}_s", value.dtype, layout, name)
        ctx.buffers[value] = held
        rows, columns = self.tiles[name].buffer.static_shape[-2:]
        slot, row, column = self.start or (0, 0, 0)
        lead = [] if self.start is None else [slot]
        place = held.element([*lead, f"i / {columns} + {row}", f"i % {columns} + {column}"])
        ctx.writer.line(
            f"for (int i = tp_thread; i < {rows * columns}; i += {self.threads}) "
            f"{place} = {name.upper()}[i];"
        )
        return at + layout.bytes

    def _fragment(self, ctx: Context, name: str, value: ir.Value) -> None:
        layout = self.layout(name)
        kind = storage(value.dtype)
        ctx.buffers[value] = FragmentBuffer(f"{name}_f", value.dtype, layout, name)
        ctx.writer.line(f"{kind} {name}_f[{layout.registers_per_thread}];")
        self._registers(ctx, name, store=False)

    def _registers(self, ctx: Context, name: str, *, store: bool) -> None:
        """Copy between global memory and registers, one by one."""
        layout = self.layout(name)
        digits, weight = [], 1
        for digit in layout.registers:
            digits.append((digit, (weight,)))
            weight *= digit.radix
        start = thread_coordinates(layout)
        with loops(ctx, runs_of(digits)) as (number, steps):
            row, column = (f"({s} + {t})" for s, t in zip(start, steps or [0, 0]))
            rows, columns = layout.shape
            inside = f"if ({row} < {rows} && {column} < {columns}) "
            there, here = f"{name.upper()}[{row} * {columns} + {column}]", f"{name}_f[{number}]"
            ctx.writer.line(f"{inside}{f'{there} = {here}' if store else f'{here} = {there}'};")

    # -- running it

    def arrays(self, seed: int = 0) -> list[Array]:
        """Random operands, and sums to begin with; products of them are exact in float32."""
        random = np.random.default_rng(seed)
        shapes = [self.tiles[n].buffer.static_shape[-2:] for n in "ab"]
        kinds = [ir.dtype(t).to_numpy() for t in (self.a, self.b, self.c)]
        low = 0 if "uint8" in (self.a, self.b) else -4
        made = [
            random.integers(low, 5, shape).astype(kind)
            for shape, kind in zip([*shapes, (self.m, self.n)], kinds)
        ]
        return made

    def expected(self, arrays: Sequence[Array]) -> Array:
        """The sums after the product."""
        a, b, c = (x.astype(np.float64) for x in arrays)
        product = (a.T if self.transpose_a else a) @ (b.T if self.transpose_b else b)
        return (product if self.clear else c + product).astype(arrays[2].dtype)

    def run(self, seed: int = 0) -> tuple[Array, Array]:
        """What the emulator gives, and what is right."""
        arrays = self.arrays(seed)
        wanted = self.expected(arrays)
        params = tuple(
            ir.Param(f"p{i}", ir.BufferType(a.shape, ir.dtype(a.dtype.name), "global"))
            for i, a in enumerate(arrays)
        )
        source = self.source()
        one = source.launches[0].grid[0].owner
        assert one is not None
        body = ir.Block([ir.Value(p.type) for p in params], [one])
        emulate(source, ir.Kernel("product", params, (), body), arrays, seed=seed)
        return arrays[2], wanted
