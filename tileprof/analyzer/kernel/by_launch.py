"""Which part of a kernel's time each of its launches takes.

In: a tile kernel with samples.  Out: shares by launch, in the order of its program. A multiprocessor
with warps is sampled each so many cycles, so samples stand for time whatever runs. The compiler
names the functions of a program with several launches by their numbers: `scan_0`, `scan_1`.
"""

from __future__ import annotations

from tileprof.analyzer.cases import KernelCase


def launch_shares(case: KernelCase) -> tuple[float, ...]:
    """By launch, its share of the time, 0 to 1; nothing where that is not known."""
    code, count = case.sampled, sum(1 for _ in case.tiles.named("launch"))
    if code is None or not count:
        return ()
    if count == 1:
        return (1.0,)
    held = code.held
    samples = dict.fromkeys(range(count), 0)
    for place, function in enumerate(held.functions):
        name, _, number = function.title.rpartition("_")
        if name == case.name and number.isdecimal() and int(number) in samples:
            rows = (held.rows.function == place) & held.is_counted[held.rows.stall]
            samples[int(number)] += int(held.rows.samples[rows].sum())
    whole = sum(samples.values())
    return tuple(each / whole for each in samples.values()) if whole else ()


def sampled_share(case: KernelCase) -> float:
    """Of a kernel's time, the part of the launch whose code rules look at."""
    return max(launch_shares(case), default=1.0)
