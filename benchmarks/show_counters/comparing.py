"""A page's numbers beside counters.

In: what a page says, and what was counted.  Out: `Compared` for each number, with a code of
`REASONS` where the two speak of other things; a summary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.show_counters.pages import Shown
from benchmarks.show_counters.planning import Plan
from benchmarks.show_counters.quantities import EXECUTED, LINE_QUANTITIES, OTHERS, QUANTITIES
from tileprof.profile.instruction_counts import name_of

BAR = 0.01
"""Relative difference that the project asks for."""

REASONS = {
    "no-counter": "the device's CUPTI knows none of the metrics",
    "not-measured": "the run gave no value",
    "nothing": "the kernel makes no such access, and none was counted",
    "other-instructions": "matrix instructions or copied matrices count there too",
    "split-copies": "cp.async fills rows of shared memory from parts of several lines, with zeros, "
    "or from one element several times: how many wavefronts that takes is not known",
    "held-by-threads": "threads load an element once for several points, lanes of a request share "
    "it, or the copy engine fetches more than a tile has",
    "stored-by-sectors": "the copy engine stores whole sectors; the page has what a run writes",
    "line-of-neighbour": "instructions that follow each other and come from one line of a header "
    "have one place in ptxas' table, that of the first, and one for loads of both branches of a "
    "condition has that of neither; the lines together are equal, without those at which matrix "
    "instructions or exchanges count, too",
    "warps-left-out": "counts of instructions have cp.async of warps in which a guard leaves out "
    "every lane, as if some took part; the L1's own sum of sectors is equal",
    "arbitration": "the counter also has accesses that wait because something else is at the "
    "banks; the wavefronts, of which a conflict is one more, are equal",
    "bytes-by-TMA": "the copy engine moves it in boxes, which no counter of a line has",
}


@dataclass(frozen=True)
class Compared:
    """A number of the page beside the counter's."""

    shown: int
    measured: float | None
    reason: str = ""
    """Code of `REASONS` where the two cannot be compared."""
    metrics: tuple[str, ...] = ()

    @property
    def difference(self) -> float | None:
        """Difference as a share of the measured number; None where they are not compared."""
        if self.reason or self.measured is None:
            return None
        if self.measured == self.shown:
            return 0.0
        return abs(self.shown - self.measured) / max(abs(self.measured), abs(self.shown))

    def row(self) -> dict[str, Any]:
        """Return it as JSON values."""
        made: dict[str, Any] = {"shown": self.shown, "measured": self.measured}
        made["difference"] = self.difference
        if self.metrics:
            made["metrics"] = list(self.metrics)
        if self.reason:
            made["reason"] = self.reason
        return made


def compared(page: Shown, made: Plan, measured: Mapping[str, float] | None) -> dict[str, Compared]:
    """Return each number of a kernel's page beside the counters of its launch."""
    found: dict[str, Compared] = {}
    left_out = warps_left_out(page, measured or {})
    for quantity in QUANTITIES:
        number, alternatives = page.quantities[quantity.name], made.chosen[quantity.name]
        metrics, value = _counted(alternatives, measured or {})
        if not alternatives:
            reason = "no-counter"
        elif value is None:
            reason = "not-measured"
        elif disturbed := page.uncounted & set(quantity.disturbed_by):
            alone = disturbed == {"split copies"}
            reason = "split-copies" if alone else "other-instructions"
        elif quantity.whole and quantity.name == "bytes read" and page.is_held:
            reason = "held-by-threads"
        elif quantity.whole and quantity.name == "bytes written" and page.is_stored_by_sectors:
            reason = "stored-by-sectors"
        elif number == value == 0:
            reason = "nothing"
        elif number != value and left_out and quantity.name in _OF_CP_ASYNC:
            reason = "warps-left-out"
        else:
            reason = ""
        found[quantity.name] = Compared(number, value, reason, metrics)
    for name, wavefronts in _WAVEFRONTS.items():
        each = found[name]
        waits = each.difference and each.measured is not None and each.measured > each.shown
        if waits and all(_is_equal(found[other]) for other in wavefronts):
            found[name] = replace(each, reason="arbitration")
    return found


_WAVEFRONTS = {
    "conflicts of shared loads": ("wavefronts of shared loads", "wavefronts of ldmatrix"),
    "conflicts of shared stores": ("wavefronts of shared stores", "wavefronts of stmatrix"),
}
"""Numbers of wavefronts by the number of conflicts that is about the same accesses: counters of
conflicts are the L1's, and see what waits there; those of wavefronts follow from instructions."""


def _is_equal(each: Compared) -> bool:
    """Return whether a counter gave the page's number, which may be 0."""
    return each.difference == 0 or each.reason == "nothing"


_OF_CP_ASYNC = (
    "bytes read", "bytes asked for by reads", "sectors of cp.async", "wavefronts of cp.async",
)  # fmt: skip


def warps_left_out(page: Shown, measured: Mapping[str, float]) -> bool:
    """Return whether warps run cp.async in which a guard leaves out every lane."""
    executed = measured.get("smsp__inst_executed_op_ldgsts.sum", 0.0)
    requests = measured.get("sm__sass_l1tex_t_requests_pipe_lsu_mem_global_op_ldgsts.sum", 0.0)
    sectors = measured.get("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
    return executed > requests > 0 and sectors == page.quantities["sectors of loads"]


def _counted(
    alternatives: Sequence[tuple[str, ...]], measured: Mapping[str, float]
) -> tuple[tuple[str, ...], float | None]:
    """Return the first alternative that counted anything, and its sum; where all counted nothing,
    the first one that was counted."""
    sums = [
        (each, sum(measured[name] for name in each))
        for each in alternatives
        if all(name in measured and not math.isnan(measured[name]) for name in each)
    ]
    counted = [row for row in sums if row[1]] or sums
    return counted[0] if counted else ((), None)


def compared_lines(
    page: Shown, measured: Mapping[int, Mapping[str, int]] | None, left_out: bool = False
) -> dict[int, dict[str, Compared]]:
    """Return each line's requests beside the counts of its instructions; `left_out`: whether warps
    run cp.async in which no lane takes part."""
    found: dict[int, dict[str, Compared]] = {}
    alike = {name: _alike(page, measured or {}, name) for name in LINE_QUANTITIES}
    for line, numbers in sorted(page.lines.items()):
        found[line] = {}
        for name, number in numbers.items():
            counts = {} if measured is None else measured.get(line, {})
            has_all = all(name_of(each) in counts for each in LINE_QUANTITIES[name])
            value = _sum({line: counts}, name) if has_all else None
            is_global = name.startswith("global")
            if value is None:
                reason = "not-measured"
            elif not is_global and _is_disturbed(page, line, counts):
                reason = "other-instructions"
            elif is_global and line in page.by_engine and not number:
                reason = "bytes-by-TMA"
            elif number == value == 0:
                reason = "nothing"
            elif number != value and alike[name]:
                reason = "line-of-neighbour"
            elif number != value and left_out and counts.get(name_of(f"{EXECUTED}_ldgsts")):
                reason = "warps-left-out"
            else:
                reason = ""
            found[line][name] = Compared(number, value, reason)
    return found


def _is_disturbed(page: Shown, line: int, counts: Mapping[str, int]) -> bool:
    """Return whether other instructions than those of the page access shared memory at a line."""
    return line in page.disturbed or any(counts.get(name_of(each)) for each in OTHERS)


def _alike(page: Shown, measured: Mapping[int, Mapping[str, int]], quantity: str) -> bool:
    """Return whether the lines together have the page's number; of shared memory those alone that
    nothing else accesses."""
    lines = {*page.lines, *measured}
    if not quantity.startswith("global"):
        lines = {each for each in lines if not _is_disturbed(page, each, measured.get(each, {}))}
    shown = sum(each[quantity] for line, each in page.lines.items() if line in lines)
    return shown == _sum({line: measured.get(line, {}) for line in lines}, quantity)


def _sum(lines: Mapping[int, Mapping[str, int]], quantity: str) -> int:
    """Return the sum of a quantity's counts over lines."""
    names = [name_of(each) for each in LINE_QUANTITIES[quantity]]
    return sum(counts.get(name, 0) for counts in lines.values() for name in names)


def beside(
    page: Shown,
    made: Plan,
    launch: Mapping[str, float] | None,
    lines: Mapping[int, Mapping[str, int]] | None,
) -> dict[str, Any]:
    """Return all numbers of a kernel's page beside counters, as JSON values."""
    left_out = warps_left_out(page, launch or {})
    return {
        "launch": {name: each.row() for name, each in compared(page, made, launch).items()},
        "lines": {
            str(line): {name: each.row() for name, each in found.items()}
            for line, found in compared_lines(page, lines, left_out).items()
        },
    }


def summary(kernels: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many numbers were compared, how many are within the bar, and the worst ones."""
    rows = [
        (each["difference"], f"{kernel}, {where}: {name}")
        for kernel, held in kernels.items()
        for where, numbers in (
            ("launch", held["launch"]),
            *((f"line {line}", found) for line, found in held["lines"].items()),
        )
        for name, each in numbers.items()
        if each["difference"] is not None
    ]
    off = sorted((row for row in rows if row[0] > BAR), reverse=True)
    return {
        "compared": len(rows),
        "exact": sum(row[0] == 0 for row in rows),
        "within_1_percent": len(rows) - len(off),
        "beyond": [f"{what} {difference:.1%}" for difference, what in off],
    }
