"""Cost of marks in a kernel: its binary beside that of the same kernel without them.

In: both programs.  Out: registers, spills and blocks that run at once of each function, as facts of
the kernel; a remark where the difference may change what is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileprof.remarks import Remark
from tileprof.remarks.measured import NotWhatRuns

if TYPE_CHECKING:
    from tileprof.compiler.cuda.pipeline import CudaProgram
    from tileprof.compiler.cuda.source import LaunchSpec


@dataclass(frozen=True, slots=True)
class Taken:
    """Resources of a multiprocessor that one function takes."""

    registers: int
    """Registers per thread."""
    local_bytes: int
    """Local memory per thread in bytes: its stack, including spilled registers."""
    spilled_bytes: int
    """Written when registers are spilled, as ptxas counts."""
    blocks_per_sm: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """The functions of a kernel with marks, and the same without, by name."""

    measured: dict[str, Taken]
    clean: dict[str, Taken]

    def attributes(self) -> dict[str, str | int | float]:
        """Return them as facts of the kernel; those of further functions under their names."""
        found: dict[str, str | int | float] = {}
        for number, (name, with_marks, without) in enumerate(self._pairs()):
            start = f"{name}." if number else ""
            for kind, taken in (("", with_marks), ("clean_", without)):
                found[f"{start}{kind}registers"] = taken.registers
                found[f"{start}{kind}local_bytes"] = taken.local_bytes
                found[f"{start}{kind}spilled_bytes"] = taken.spilled_bytes
                found[f"{start}{kind}blocks_per_sm"] = taken.blocks_per_sm
        return found

    def remarks(self) -> tuple[Remark, ...]:
        """One for each function of which fewer blocks run at once, or that spills more."""
        return tuple(
            Remark(_said(name, with_marks, without), "measurement", severity="missed")
            for name, with_marks, without in self._pairs()
            if with_marks.blocks_per_sm < without.blocks_per_sm
            or with_marks.spilled_bytes > without.spilled_bytes
        )

    def _pairs(self) -> Iterator[tuple[str, Taken, Taken]]:
        for name, with_marks in self.measured.items():
            if name in self.clean:
                yield name, with_marks, self.clean[name]


def _said(name: str, measured: Taken, clean: Taken) -> NotWhatRuns:
    blocks = registers = spilled = (0, 0)
    if measured.blocks_per_sm < clean.blocks_per_sm:
        blocks = measured.blocks_per_sm, clean.blocks_per_sm
        registers = measured.registers, clean.registers
    if measured.spilled_bytes > clean.spilled_bytes:
        spilled = measured.spilled_bytes, clean.spilled_bytes
    return NotWhatRuns(name, *blocks, *registers, *spilled)


def compare(measured: CudaProgram, clean: Callable[[], CudaProgram]) -> Comparison:
    """Return both binaries; that without marks comes from the cache, or is compiled."""
    return Comparison(_taken(measured), _taken(clean()))


def _taken(program: CudaProgram) -> dict[str, Taken]:
    return {spec.function: _of(program, spec) for spec in program.source.launches}


def _of(program: CudaProgram, spec: LaunchSpec) -> Taken:
    from tileprof.compiler.cuda.resources import occupancy

    held = program.cubin.resources[spec.function]
    blocks = occupancy(
        held.registers, spec.shared + held.shared, spec.threads, program.target, held.barriers
    ).blocks
    return Taken(held.registers, held.stack, held.spill_stores, blocks)
