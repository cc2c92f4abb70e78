"""Layouts as SVG: which thread and register hold each element, which banks a swizzle uses.

In: a layout as the IR writes it, or a kernel and the name of a buffer.  Out: a figure that a
notebook shows and that saves itself.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tileprof import ir
from tileprof.compiler.cuda.layouts import SharedLayout
from tileprof.compiler.cuda.target import BANKS, WORD
from tileprof.errors import InternalError, KernelError, OutputError, UsageError
from tileprof.files import replace_bytes

from .machine import DEFAULT_TARGET, Held, addresses, holders, machine_of, patterns

_CHUNK = 16
"""Bytes that a swizzle moves as one."""
_ROWS = 16
"""Rows of shared memory in a figure: every swizzle repeats after 8."""
_CELLS = 32
"""Rows and columns of a fragment in a figure."""
_WIDE, _HIGH = 46, 20
"""Pixels of a cell."""
_HEAD = 40
"""Pixels above the cells."""
_CONFLICT, _FREE = "#c8413b", "#2b7a4b"


@dataclass(frozen=True, slots=True)
class LayoutFigure:
    """A picture of a layout."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return "<figure of a layout; `.save('x.svg')` writes it>"

    def save(self, path: str | Path) -> None:
        """Write the SVG.  OutputError where the file cannot be written."""
        try:
            replace_bytes(path, self.svg.encode())
        except OSError as error:
            raise OutputError(
                f"{path} cannot be written: {error.strerror}", hint="Choose another place."
            ) from None


class Compiled(Protocol):
    """A kernel that is compiled: what `kernel.compile(…)` gives."""

    @property
    def program(self) -> CommonProgram:
        """The program of the kernel."""
        ...


class CommonProgram(Protocol):
    """A program after the passes that all devices share."""

    @property
    def kernel(self) -> ir.Kernel:
        """The kernel that is lowered."""
        ...


def layout(text: str, shape: Sequence[int], dtype: str = "float16") -> LayoutFigure:
    """Draw a layout as the IR writes it: `regs … | lanes … | warps …` of a fragment, `swizzle=128`,
    `pad=8` or `rows` of shared memory.

    A fragment shows thread and register of each element, shared memory the banks of each 16 bytes,
    beside plain rows; what meets in a bank when 8 rows are read at once is red.  UsageError for a
    text or a shape that is no layout.
    """
    extents = tuple(int(extent) for extent in shape)
    found = ir.DTYPES.get(dtype)
    if found is None or not extents or min(extents) < 1:
        raise UsageError(
            f"no buffer has the shape {list(shape)} of `{dtype}`",
            hint="For example layout('swizzle=128', (64, 64), 'float16').",
        )
    space: ir.Space = "fragment" if text.startswith("regs") else "shared"
    known = text.startswith(("regs", "swizzle=", "pad=")) or text in ("rows", "")
    try:
        if not known:
            raise ValueError
        return _figure(Held("", space, found, extents, text))
    except (InternalError, ValueError):
        raise UsageError(
            f"`{text}` is not a layout of {list(extents)} {dtype}",
            hint="Layouts are `rows`, `pad=8`, `swizzle=32`, `swizzle=64`, `swizzle=128` with rows"
            " of a multiple of that many bytes, and `regs … | lanes … | warps …`.",
        ) from None


def buffer_layout(kernel: Compiled, buffer: str, target: str = DEFAULT_TARGET) -> LayoutFigure:
    """Draw the layout that the compiler chooses for a buffer of a kernel, which `kernel.compile(…)`
    gives.  UsageError for a name that no buffer has, KernelError where the kernel cannot run on
    the target."""
    machine = machine_of(kernel.program.kernel, target)
    if machine.problem:
        raise KernelError(machine.problem)
    named = [each for each in machine.buffers if each.name == buffer]
    if not named:
        names = ", ".join(dict.fromkeys(each.name for each in machine.buffers))
        raise UsageError(
            f"the kernel has no buffer `{buffer}` on {target}", hint=f"It has: {names or 'none'}."
        )
    return _figure(named[0])


def _figure(held: Held) -> LayoutFigure:
    return LayoutFigure(_fragment(held) if held.space == "fragment" else _shared(held))


def _fragment(held: Held) -> str:
    registers = held.registers
    if registers is None or len(held.shape) > 2:
        raise UsageError(
            f"the layout of {list(held.shape)} elements cannot be drawn",
            hint="Figures show fragments of one or two dimensions that have a layout.",
        )
    found = holders(registers)
    columns = held.shape[-1]
    rows = held.shape[0] if len(held.shape) > 1 else 1
    shown = [(r, c) for r in range(min(rows, _CELLS)) for c in range(min(columns, _CELLS))]

    def cells() -> Iterator[str]:
        for row, column in shown:
            at = row * columns + column
            thread, register = int(found.thread[at]), int(found.register[at])
            fill = f"hsl({thread % 32 * 360 // 32} 55% {86 - thread // 32 % 4 * 8}%)"
            title = f"[{row}, {column}]: thread {thread}, register {register}"
            yield _cell(column, row, 0, fill, f"T{thread} r{register}", title)

    copies = f", {found.copies} copies" if found.copies > 1 else ""
    title = (
        f"{registers.threads} threads, {registers.registers_per_thread} registers each{copies}"
        f"{_part(held, min(rows, _CELLS), min(columns, _CELLS))}"
    )
    size = min(columns, _CELLS) * _WIDE, _HEAD + min(rows, _CELLS) * _HIGH
    return _svg(size, [_words(0, 14, _name(held)), _words(0, 32, title), *cells()])


def _shared(held: Held) -> str:
    chosen = held.shared
    assert chosen is not None
    plain = SharedLayout(held.shape, held.dtype)
    sides = [(held.layout or "rows", chosen)]
    if str(chosen) != "rows":
        sides.insert(0, ("plain rows", plain))
    parts: list[str] = []
    left, rows = 0, min(chosen.rows, _ROWS)
    for name, each in sides:
        wide = max(min(each.columns * each.dtype.bytes // _CHUNK, _CELLS), 1)
        parts += [_words(left, 14, f"{_name(held)}: {name}"), _words(left, 32, _costs(each))]
        parts += _banks(each, rows, wide, left)
        left += wide * _WIDE + 40
    return _svg((max(left - 40, 420), _HEAD + rows * _HIGH), parts)


def _costs(held: SharedLayout) -> str:
    """Return what reading a matrix of 8 rows takes, in words."""
    found = [each for each in patterns(held) if each.name.startswith("8 rows")]
    if not found:
        return "a warp's requests have 32 banks of 4 bytes"
    taken = found[0].taken
    return f"8 rows of 16 bytes at once: {taken} wavefront{'s' if taken != 1 else ''}"


def _banks(held: SharedLayout, rows: int, wide: int, left: int) -> Iterator[str]:
    """Yield the 16-byte parts of each row with their banks; of the first column, read by 8 rows at
    once, those that meet in a bank have a red frame."""
    per_chunk = max(_CHUNK // held.dtype.bytes, 1)
    columns = np.minimum(np.arange(wide) * per_chunk, held.columns - 1)
    address = addresses(held, np.arange(rows)[:, None], columns)
    bank = address // WORD % BANKS
    met = np.bincount(bank[:8, 0], minlength=BANKS)
    for row in range(rows):
        for column in range(wide):
            first = int(bank[row, column])
            fill = f"hsl({first * 360 // BANKS} 60% 84%)"
            frame = ""
            if column == 0 and row < 8 and rows >= 8:
                frame = _CONFLICT if met[first] > 1 else _FREE
            title = f"row {row}, bytes {column * _CHUNK}–{column * _CHUNK + _CHUNK - 1}"
            title += f": byte {int(address[row, column])} of the buffer"
            yield _cell(column, row, left, fill, f"{first}–{(first + 3) % BANKS}", title, frame)


def _name(held: Held) -> str:
    return f"{held.name} {' × '.join(map(str, held.shape))} {held.dtype}".strip()


def _part(held: Held, rows: int, columns: int) -> str:
    whole = (held.shape[0] if len(held.shape) > 1 else 1, held.shape[-1])
    return "" if whole == (rows, columns) else f"; the first {rows} × {columns} elements"


def _cell(
    column: int, row: int, left: int, fill: str, text: str, title: str, frame: str = ""
) -> str:
    x, y = left + column * _WIDE, _HEAD + row * _HIGH
    stroke = f' stroke="{frame}" stroke-width="2"' if frame else ' stroke="#fff"'
    return (
        f'<g><title>{html.escape(title)}</title><rect x="{x + 1}" y="{y + 1}" width="{_WIDE - 2}"'
        f' height="{_HIGH - 2}" fill="{fill}"{stroke}/><text x="{x + _WIDE // 2}"'
        f' y="{y + _HIGH // 2 + 4}" text-anchor="middle" font-size="10">'
        f"{html.escape(text)}</text></g>"
    )


def _words(x: int, y: int, text: str) -> str:
    return f'<text x="{x}" y="{y}" font-size="12">{html.escape(text)}</text>'


def _svg(size: tuple[int, int], parts: Sequence[str]) -> str:
    width, height = max(size[0], 420), size[1]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0'
        f' {width} {height}" font-family="ui-monospace, monospace" fill="#1d2127">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>'
    )
