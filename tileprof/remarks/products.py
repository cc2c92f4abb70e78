"""Remarks about matrix products."""

from __future__ import annotations

from typing import Literal

from .statement import Bytes, Candidate, Decision, Reason

MatrixOperand = Literal["A", "B"]

# -- decisions


class GemmInstruction(Decision):
    text = (
        "{instruction} {form}[[tf32?, operands cut to tf32]]"
        "[[, {columns} columns as {widths:+}]]"
    )  # fmt: skip
    instruction: Literal["wgmma", "mma", "fma"]
    form: str
    """Division of the tile among threads, and the shape that one instruction multiplies."""
    tf32: bool = False
    columns: int = 0
    """Columns of a warp group, where several instructions share them."""
    widths: tuple[int, ...] = ()


class SlicedProduct(Decision):
    text = "{slices} slices along K: `{operand}` is computed beside the product of the slice before"
    slices: int
    operand: str


class RowSlices(Decision):
    text = (
        "{slices} slices along M, each used before the next: in one piece, fragments would take"
        " {registers} registers of a thread"
    )
    slices: int
    registers: int


class IssuedBehind(Decision):
    text = (
        "issued after the next iteration's product into `{buffer}`, to overlap with the arithmetic"
        " on that one"
    )
    buffer: str


class UsedBehind(Decision):
    text = "used while the next iteration's product into `{buffer}` runs"
    buffer: str


class Alternates(
    Decision, text="into `{buffer}` and another one in turn, each used beside the next"
):
    buffer: str


class Turned(Decision):
    text = "into `{buffer}` as the product of the transposed tiles, of {n} rows instead of {m}"
    buffer: str
    m: int
    n: int


class DealtRows(
    Decision,
    text="rows 0, 1, 4, 5, … of `{tile}` lie before rows 2, 3, 6, 7, …: threads then compute what"
    " they need of `{operand}`",
):
    tile: str
    operand: str


class RunsWhile(Decision, text="runs while `{buffer}` and what it sums are computed"):
    buffer: str


# -- candidates


class InstructionCandidate(Candidate, text="{instruction}"):
    instruction: Literal["wgmma", "mma"]


class Float32Operands(Candidate, text="float32 operands"): ...


class MoreThreads(Candidate, text="more threads"): ...


# -- reasons


class Several(Reason, text="{reasons:;}"):
    reasons: tuple[Reason, ...]


class SwizzleOff(Reason, text="it needs swizzled shared memory, which is turned off"): ...


class NoFloat64(Reason, text="it multiplies no float64"): ...


class TypeOnTarget(Reason, text="{target} multiplies no {dtype}"):
    target: str
    dtype: str


class Tf32Off(Reason, text="A is float32 and tf32 is off"): ...


class TypesUnsupported(Reason, text="{a} times {b} into {c} is not supported"):
    a: str
    b: str
    c: str


class ThreadsMultiple(Reason, text="threads={threads} is not a multiple of {multiple}"):
    threads: int
    multiple: int


class ExtentMultiple(Reason, text="{dimension}={extent} is not a multiple of {multiple}"):
    dimension: Literal["M", "N", "K"]
    extent: int
    multiple: int


class NoWidths(Reason):
    text = "N={extent} is no sum of widths that instructions for 8-bit integers have"
    extent: int


class FragmentOperand(Reason):
    text = "{operand} lies in a fragment; it reads {operand} from shared memory"
    operand: MatrixOperand


class OperandShape(Reason, text="{operand} is a buffer seen under another shape"):
    operand: MatrixOperand


class NotLastDimensions(Reason):
    text = "the matrix {operand} is not the last two dimensions of its buffer"
    operand: MatrixOperand


class LiesAcross(Reason):
    text = (
        "{dtype} {operand} lies with {dimension} side by side, only 16-bit types may; use"
        " {argument}"
    )
    dtype: str
    operand: MatrixOperand
    dimension: Literal["M", "N"]
    argument: str


class RowsNotPanels(Reason, text="rows of {operand} do not divide into panels of {panel} B"):
    operand: MatrixOperand
    panel: Bytes


class StartsUnaligned(Reason):
    text = "the part of {operand} does not start at a multiple of 8 rows and of a panel"
    operand: MatrixOperand


class Tf32Rounds(Reason):
    text = (
        "tensor cores keep 10 of the 23 bits after the point; the others are cut off, as rounding"
        " would take operands out of shared memory first; `tf32=False` in the controls keeps"
        " float32, at a fraction of the speed"
    )


class RepeatedWork(Reason):
    text = "the tile does not divide among {units} {kind}: {copies} do the same work"
    units: int
    kind: Literal["warps", "warp groups"]
    copies: int
