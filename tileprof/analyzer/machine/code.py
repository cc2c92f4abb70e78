"""A kernel's machine code with its samples and counts, as rules ask about it.

In: a function of a profile.  Out: how many samples are at which instructions for which reasons,
what waits for what, what was executed how often. `n` counts samples of a warp that did not issue;
`idle` those of them at which no other warp of its scheduler issued either: only such waits can be
hidden by other work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.numbers.machine import BARRIER_NEAR
from tileprof.errors import Location
from tileprof.once import cached_property
from tileprof.profile import PcFunction, PcInstruction, PcSamples
from tileprof.profile.pc_samples import NOT_ISSUED

_Mask = npt.NDArray[np.bool_]
_Weights = npt.NDArray[np.float64]
ISSUED = "selected"
"""The reason of samples of warps that did issue."""
COPIES = ("UTMALDG", "UBLKCP", "LDGSTS")
"""Instructions that copy to shared memory while the warp goes on."""
PRODUCTS = ("HGMMA", "QGMMA", "IGMMA", "BGMMA")
"""Matrix products of a warp group, by type."""
_PREDICATE = re.compile(r"^@!?U?P\w+\s+")


def opcode_of(text: str) -> str:
    """The opcode with its modifiers: `LDS.128`."""
    return _PREDICATE.sub("", text).partition(" ")[0]


def same_line(a: Location | None, b: Location | None) -> bool:
    """Whether both are known, and one line."""
    return a is not None and b is not None and (a.file, a.line) == (b.file, b.line)


@dataclass(frozen=True, slots=True)
class Instruction:
    """An instruction of a function."""

    index: int
    """Place in the function."""
    offset: int
    opcode: str
    text: str
    place: Location | None
    depth: int
    """Loops around it."""

    @property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.partition(".")[0]


@dataclass(frozen=True, eq=False)
class KernelCode:
    """A function in a profile."""

    held: PcSamples
    position: int
    """Place in `held.functions`."""

    @property
    def function(self) -> PcFunction:
        """As the profile has it."""
        return self.held.functions[self.position]

    @cached_property
    def _known(self) -> tuple[PcInstruction, ...]:
        """Instructions as the profile has them; none where it has no text of them.

        Where a disassembler failed, a profile lists the sampled offsets alone, for their lines.
        """
        code = self.function.code
        return code if any(each.text for each in code) else ()

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """All, by offset; none where the code is not known."""
        return tuple(_read(index, each) for index, each in enumerate(self._known))

    @property
    def ttgir(self) -> str:
        """The text of its module as Triton's compiler had it; nothing for other compilers."""
        held = self.held.texts.get((self.function.module, "ttgir"))
        return (held.text if held else None) or ""

    # -- samples: rows of one instruction and one reason

    @cached_property
    def _rows(self) -> npt.NDArray[np.int64]:
        return np.flatnonzero(self.held.rows.function == self.position)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """By row, its samples."""
        return self.held.rows.samples[self._rows]

    @cached_property
    def at(self) -> npt.NDArray[np.int64]:
        """By row, the place of its instruction; -1 where the code is not known."""
        offsets = np.array([each.offset for each in self._known], np.int64)
        rows = self.held.rows.offset[self._rows]
        if not len(offsets):
            return np.full(len(rows), -1)
        found = np.searchsorted(offsets, rows).clip(0, len(offsets) - 1)
        return np.where(offsets[found] == rows, found, -1)

    @cached_property
    def stall(self) -> npt.NDArray[np.int32]:
        """By row, the place of its reason among the device's."""
        return self.held.rows.stall[self._rows]

    @cached_property
    def reasons(self) -> list[str]:
        """By row, the stall reason; `…_not_issued` for the part at which nobody issued."""
        return [self.held.stalls[i] for i in self.stall.tolist()]

    @cached_property
    def is_counted(self) -> _Mask:
        """By row, whether it is in sums: `…_not_issued` is a part of another row."""
        return self.held.is_counted[self.stall]

    @cached_property
    def whole(self) -> int:
        """All samples."""
        return int(self.counts[self.is_counted].sum())

    @cached_property
    def issued(self) -> int:
        """Samples of warps that issued."""
        return self.n(reasons=(ISSUED,))

    def rows(
        self, where: Collection[int] | None = None, reasons: Iterable[str] | None = None,
        idle: bool = False,
    ) -> _Mask:  # fmt: skip
        """By row, whether it is at one of these instructions, for one of these reasons."""
        mask = ~self.is_counted if idle else self.is_counted.copy()
        if where is not None:
            mask &= np.isin(self.at, np.fromiter(where, np.int64, len(where)))
        if reasons is not None:
            ends = NOT_ISSUED if idle else ""
            wanted = {f"{each}{ends}" for each in reasons}
            mask &= np.array([each in wanted for each in self.held.stalls], bool)[self.stall]
        return mask

    def n(
        self, where: Collection[int] | None = None, reasons: Iterable[str] | None = None,
        idle: bool = False,
    ) -> int:  # fmt: skip
        """Samples there."""
        return int(self.counts[self.rows(where, reasons, idle)].sum())

    def share(self, taken: _Weights) -> float:
        """Return the share of all samples that these weights of rows are."""
        return float(taken.sum()) / self.whole

    def taken(self, mask: _Mask) -> _Weights:
        """By row, the samples in it that go away, for `Saving.rows`."""
        return np.where(mask & self.is_counted, self.counts, 0).astype(float)

    def by_reason(self, where: Collection[int] | None = None) -> dict[str, int]:
        """Samples by reason, the most first."""
        mask, found = self.rows(where), dict[str, int]()
        for reason, count in zip(np.array(self.reasons)[mask].tolist(), self.counts[mask].tolist()):
            found[reason] = found.get(reason, 0) + count
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def waiting_for(
        self, producers: Collection[int], reasons: Iterable[str] | None = None
    ) -> _Weights:
        """By row, its samples that wait for one of these instructions.

        Where one waits for several, each has the same part of it.
        """
        offsets = {self.instructions[index].offset for index in producers}
        wanted = None if reasons is None else set(reasons)
        found = np.zeros(len(self.counts))
        for row, reason, of in self._blamed:
            if wanted is None or reason in wanted:
                part = sum(each in offsets for each in of) / len(of)
                found[row] = part * self.counts[row]
        return found

    @cached_property
    def idle_part(self) -> _Weights:
        """By row in sums, the part of its samples at which no warp issued; 1 where not told."""
        idle = dict[tuple[int, str], int]()
        rows = list(zip(self.at.tolist(), self.reasons, self.counts.tolist()))
        for (at, reason, count), counted in zip(rows, self.is_counted.tolist()):
            if not counted:
                idle[at, reason] = idle.get((at, reason), 0) + count
        if not idle:
            return np.ones(len(rows))
        return np.array(
            [min(1.0, idle.get((at, f"{reason}{NOT_ISSUED}"), 0) / max(count, 1))
             for at, reason, count in rows]
        )  # fmt: skip

    @cached_property
    def _blamed(self) -> list[tuple[int, str, list[int]]]:
        """Rows in sums of which it is known what they wait for: the offsets of that.

        A barrier issues at once, and its wait may stand several instructions behind it, where no
        recorder looks for it.
        """
        of = dict[tuple[int, str], list[int]]()
        for blame in self.function.blames:
            of.setdefault((blame.offset, blame.stall), []).append(blame.producer)
        for at in np.unique(self.at[self.rows(reasons=("barrier",))]).tolist():
            if at >= 0 and (before := self._barrier_before(at)) is not None:
                of.setdefault((self.instructions[at].offset, "barrier"), [before])
        offsets = self.held.rows.offset[self._rows].tolist()
        keys = zip(offsets, self.reasons, self.is_counted.tolist())
        return [
            (row, reason, of[offset, reason])
            for row, (offset, reason, counted) in enumerate(keys)
            if counted and (offset, reason) in of
        ]

    def _barrier_before(self, at: int) -> int | None:
        """Return the offset of the barrier that an instruction likely waits at; None for none."""
        for index in range(at - 1, max(-1, at - 1 - BARRIER_NEAR), -1):
            each = self.instructions[index]
            if each.name == "BAR":
                return each.offset
            if each.name in (*PRODUCTS, "WARPGROUP"):
                return None
        return None

    # -- instructions

    def where(self, wanted: Callable[[Instruction], bool]) -> list[int]:
        """The places of instructions for which something holds."""
        return [each.index for each in self.instructions if wanted(each)]

    def named(self, *names: str) -> list[int]:
        """The places of instructions of these opcodes: `LDL`, or `LDS.128`."""
        return self.where(lambda each: each.name in names or each.opcode in names)

    def hottest(self, where: Collection[int]) -> Instruction | None:
        """The one of these with the most samples, else the first; None for none."""
        if not where:
            return None
        sums = np.zeros(len(self.instructions), np.int64)
        known = self.is_counted & (self.at >= 0)
        np.add.at(sums, self.at[known], self.counts[known])
        return self.instructions[max(sorted(where), key=lambda index: int(sums[index]))]

    def executed(self, where: Collection[int], metric: str = "executions") -> int | None:
        """A count of these instructions; None where it was not asked for."""
        counts = self.held.counts
        if metric not in counts.metrics:
            return None
        rows = counts.rows_of(self.position)
        offsets = {self.instructions[index].offset for index in where}
        column = counts.metrics.index(metric)
        chosen = [o in offsets for o in counts.offset[rows].tolist()]
        return int(counts.values[rows][chosen][:, column].sum())


def _read(index: int, held: PcInstruction) -> Instruction:
    return Instruction(index, held.offset, opcode_of(held.text), held.text, held.place, held.depth)
