"""Counts of executions, and other counts, per instruction of kernels.

In: numbers by function, offset and metric.  Out: the same for several runs, and rates of two
metrics.  Functions are those of the samples of program counters beside (`PcSamples`).

Laws: no operation changes a sum. A rate is a sum divided by a sum, of one instruction, a line or a
kernel; it is told only where every run that counted one of the two counted the other.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError
from tileprof.once import cached_property

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InstructionRate:
    """A rate that readers compute: one count divided by another."""

    name: str
    above: str
    below: str


@dataclass(frozen=True, eq=False)
class InstructionCounts:
    """Counts of instructions, in order of function and offset, each once."""

    metrics: tuple[str, ...] = ()
    function: npt.NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, np.int32))
    """Place in the functions of the samples beside."""
    offset: _Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    values: _Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """A row for each instruction, a column for each metric."""
    recordings: tuple[tuple[str, ...], ...] = ()
    """The metrics that each run counted."""

    __hash__ = None  # type: ignore[assignment] # compared by value, and holds arrays

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InstructionCounts):
            return NotImplemented
        return (
            (self.metrics, self.recordings) == (other.metrics, other.recordings)
            and np.array_equal(self.function, other.function)
            and np.array_equal(self.offset, other.offset)
            and np.array_equal(self.values, other.values)
        )

    def __len__(self) -> int:
        return len(self.offset)

    @staticmethod
    def added(
        metrics: Sequence[str],
        recordings: Sequence[Sequence[str]],
        function: Any,
        offset: Any,
        metric: Any,
        count: Any,
    ) -> InstructionCounts:
        """Return columns of single counts, `metric` a place in `metrics`, added up."""
        columns = [np.asarray(each, np.int64) for each in (function, offset, metric, count)]
        functions, offsets, places, counts = (each[columns[3] != 0] for each in columns)
        found, row = np.unique(np.stack([functions, offsets], 1), axis=0, return_inverse=True)
        values = np.zeros((len(found), len(metrics)), np.int64)
        np.add.at(values, (row.reshape(-1), places), counts)
        return InstructionCounts(
            tuple(metrics),
            found[:, 0].astype(np.int32),
            found[:, 1],
            values,
            tuple(tuple(each) for each in recordings),
        )

    def column(self, metric: str) -> _Ints:
        """One metric of each instruction; zeros where it was not counted."""
        if metric not in self.metrics:
            return np.zeros(len(self), np.int64)
        column: _Ints = self.values[:, self.metrics.index(metric)]
        return column

    def by_function(self, functions: int) -> _Ints:
        """Return the sums of so many functions: a row for each, a column for each metric."""
        found = np.zeros((functions, len(self.metrics)), np.int64)
        np.add.at(found, self.function, self.values)
        return found

    def rows_of(self, function: int) -> slice:
        """Return the rows of a function's instructions."""
        begin, end = np.searchsorted(self.function, [function, function + 1]).tolist()
        return slice(begin, end)

    @cached_property
    def rates(self) -> tuple[InstructionRate, ...]:
        """The rates that these counts have."""
        return tuple(
            rate
            for rate in RATES
            if rate.above in self.metrics
            and all((rate.above in each) == (rate.below in each) for each in self.recordings)
        )

    def check(self, functions: int) -> None:
        """Raise `InternalError` where a row refers to what does not exist."""
        if self.values.shape != (len(self), len(self.metrics)) or len(self.function) != len(self):
            raise InternalError("counts of instructions do not fit their metrics")
        if len(self) and not (self.function.min() >= 0 and self.function.max() < functions):
            raise InternalError("a count of an instruction refers to no function")
        if len(self) and self.values.size and self.values.min() < 0:
            raise InternalError("an instruction was executed less often than never")

    @staticmethod
    def joined(
        parts: Sequence[InstructionCounts], functions: Sequence[Sequence[int]]
    ) -> InstructionCounts:
        """Return those of several runs; function `f` of `parts[i]` becomes `functions[i][f]`."""
        metrics = {name: 0 for part in parts for name in part.metrics}
        places = {name: place for place, name in enumerate(metrics)}
        columns: list[list[_Ints]] = [[], [], [], []]
        for part, moved in zip(parts, functions):
            row, metric = np.indices(part.values.shape).reshape(2, -1)
            where = np.array([places[name] for name in part.metrics], np.int64)
            columns[0].append(np.asarray(moved, np.int64)[part.function[row]])
            columns[1].append(part.offset[row])
            columns[2].append(where[metric])
            columns[3].append(part.values.reshape(-1))
        recordings = [each for part in parts for each in part.recordings]
        if not metrics:
            return InstructionCounts()
        return InstructionCounts.added(tuple(metrics), recordings, *map(np.concatenate, columns))


EXECUTIONS = "executions"
SET = "instructions"
"""Word of `--metrics` for all metrics with names of tileprof's own."""

NAMES = {
    "smsp__sass_inst_executed": EXECUTIONS,
    "smsp__sass_thread_inst_executed": "thread_executions",
    "smsp__sass_inst_executed_op_global": "global_requests",
    "smsp__sass_sectors_mem_global": "global_sectors",
    "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared": "shared_wavefronts",
    "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared_ideal": "shared_wavefronts_ideal",
}
"""Names of ours for SASS metrics of CUPTI's: those that readers know what to do with."""

RATES = (
    InstructionRate("active_threads", "thread_executions", EXECUTIONS),
    InstructionRate("sectors_per_request", "global_sectors", "global_requests"),
    InstructionRate("shared_passes", "shared_wavefronts", "shared_wavefronts_ideal"),
)
"""Rates of counts that have names of ours: threads of a warp that an execution is of, sectors of 32
bytes that a warp's access to global memory takes, and by how much bank conflicts multiply the
passes through shared memory (1: there are none)."""

_OF_INSTRUCTIONS = re.compile(r"\w+__sass_\w+")


def name_of(metric: str) -> str:
    """Return a profile's name for one of CUPTI's SASS metrics."""
    return NAMES.get(metric, metric)


def is_of_instructions(name: str) -> bool:
    """Return whether a name of `--metrics` asks for counts of instructions. CUPTI has metrics of
    launches under such names too; those end in `.sum` or the like."""
    return name == SET or _OF_INSTRUCTIONS.fullmatch(name) is not None
