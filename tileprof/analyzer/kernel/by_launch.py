"""Which part of a kernel's time each of its launches takes.

In: a tile kernel with samples.  Out: shares by launch, in the order of its program. A multiprocessor
with warps is sampled each so many cycles, so samples stand for time whatever runs. The compiler
names the functions of a program with several launches by their numbers: `scan_0`, `scan_1`.
"""

from __future__ import annotations

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.tiles.cut_launches import cut_launches


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
    """Of a kernel's time, the part of the launch whose code rules look at, with those like it."""
    shares = launch_shares(case)
    if len(shares) < 2:
        return 1.0
    longest = shares.index(max(shares))
    for each in cut_launches(case.tiles):
        alike = range(each.number, each.number + each.count)
        if longest in alike:
            return sum(shares[number] for number in alike)
    return shares[longest]
