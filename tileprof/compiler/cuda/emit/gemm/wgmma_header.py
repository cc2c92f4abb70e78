"""The `wgmma` instructions that a kernel uses, as a header with a function for each.

In: shapes.  Out: CUDA C++ that follows the descriptors, fences and waits of `prelude/wgmma.cuh`.
The functions are made for a kernel because all shapes together would be thousands.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tileprof.compiler.cuda.prelude import text
from tileprof.compiler.cuda.target import WARP_GROUP, WGMMA_ROWS
from tileprof.errors import InternalError

Operand = Literal["bf16", "f16", "tf32", "e4m3", "e5m2", "s8", "u8"]
Accumulator = Literal["f32", "f16", "s32"]

_DEPTH = {"bf16": 16, "f16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_REGISTER = {"f32": ("float", "f"), "f16": ("uint32_t", "r"), "s32": ("int32_t", "r")}
_FAMILIES = (frozenset({"e4m3", "e5m2"}), frozenset({"s8", "u8"}))


@dataclass(frozen=True, slots=True)
class WgmmaShape:
    """One instruction: d (64 × n) += a (64 × k) b (k × n); b lies in shared memory.

    InternalError for one that the hardware does not have.
    """

    n: int
    k: int
    a: Operand
    b: Operand
    accumulator: Accumulator
    a_in_registers: bool = False
    transpose_a: bool = False
    """Whether rows of a, not its columns, are apart in shared memory (M is innermost)."""
    transpose_b: bool = False
    """Whether N is innermost in shared memory."""

    def __post_init__(self) -> None:
        if reason := self._missing():
            raise InternalError(f"there is no wgmma {self.name}: {reason}")

    def _missing(self) -> str:
        """Why the hardware has no such instruction; empty where it has."""
        whole = self.a in ("s8", "u8")
        sums = {"s32"} if whole else {"f32"} if self.a in ("bf16", "tf32") else {"f32", "f16"}
        if self.a != self.b and not any({self.a, self.b} <= family for family in _FAMILIES):
            return "operands of these types do not go together"
        if self.k != _DEPTH[self.a]:
            return f"k is {_DEPTH[self.a]} for {self.a}"
        if self.n % 8 or not 8 <= self.n <= 256 or (whole and self.n > 24 and self.n % 16):
            return "n is a multiple of 8 up to 256; for integers above 24, of 16"
        if self.accumulator not in sums:
            return f"sums of {self.a} are {' or '.join(sorted(sums))}"
        if (self.transpose_a or self.transpose_b) and self.k != 16:
            return "only operands of 16 bits can be transposed"
        if self.transpose_a and self.a_in_registers:
            return "registers cannot be transposed"
        return ""

    @property
    def name(self) -> str:
        """The function's name."""
        parts = [f"tp_wgmma_m{WGMMA_ROWS}n{self.n}k{self.k}_{self.a}_{self.b}"]
        parts.append("rs" if self.a_in_registers else "ss")
        parts += ["ta"] * self.transpose_a + ["tb"] * self.transpose_b
        parts += ["into_f16"] * (self.accumulator == "f16")
        return "_".join(parts)

    @property
    def registers(self) -> int:
        """Registers of a thread that hold d: two sums in each for f16."""
        return WGMMA_ROWS * self.n // WARP_GROUP // (2 if self.accumulator == "f16" else 1)


def header(shapes: Iterable[WgmmaShape]) -> str:
    """The text of `wgmma.cuh` with a function for each shape, in order of their names."""
    unique = sorted(set(shapes), key=lambda shape: (shape.n, shape.name))
    return text("wgmma.cuh") + "".join(map(_function, unique))


def _function(shape: WgmmaShape) -> str:
    """`void name(D *d, uint64_t a | const uint32_t *a, uint64_t b, int accumulate)`.

    With accumulate = 0 what was in d is ignored.
    """
    count = shape.registers
    type_, letter = _REGISTER[shape.accumulator]
    sources = 4 if shape.a_in_registers else 1
    a = _braces(count, 4) if shape.a_in_registers else f"%{count}"
    b, flag = count + sources, count + sources + 1
    outputs = ", ".join(f'"+{letter}"(d[{i}])' for i in range(count))
    inputs = [f'"r"(a[{i}])' for i in range(4)] if shape.a_in_registers else ['"l"(a)']
    parameter = "const uint32_t *a" if shape.a_in_registers else "uint64_t a"
    return (
        f"\nTP_INLINE void {shape.name}({type_} *d, {parameter}, uint64_t b, int accumulate) {{\n"
        f'  asm volatile("{{ .reg .pred p;\\n setp.ne.b32 p, %{flag}, 0;\\n"\n'
        f'               "wgmma.mma_async.sync.aligned.{_types(shape)}\\n"\n'
        f'               "{_braces(0, count)},\\n"\n'
        f'               "{a}, %{b}, p{_immediates(shape)}; }}"\n'
        f"               : {outputs}\n"
        f'               : {", ".join(inputs)}, "l"(b), "r"(accumulate));\n'
        "}\n"
    )


def _types(shape: WgmmaShape) -> str:
    return f"m{WGMMA_ROWS}n{shape.n}k{shape.k}.{shape.accumulator}.{shape.a}.{shape.b}"


def _braces(start: int, count: int) -> str:
    return "{" + ", ".join(f"%{i}" for i in range(start, start + count)) + "}"


def _immediates(shape: WgmmaShape) -> str:
    """Signs of the operands, then transposes, as far as the instruction takes them."""
    if shape.accumulator == "s32":
        return ""
    flags = [1, 1]
    if shape.k == 16:
        flags += [] if shape.a_in_registers else [int(shape.transpose_a)]
        flags += [int(shape.transpose_b)]
    return "".join(f", {flag}" for flag in flags)
