"""Registers that are kept in memory: costly in a hot loop, harmless on a path that is never taken.

Static: loads and stores of local memory in the code. Dynamic: samples at them, and of what waits
for them. All of that time comes back at most; likely most of it, as other instructions of the loop
take some of the freed turns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.code import KernelCode
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.estimates import eliminated
from tileprof.analyzer.findings import Evidence, Place, percent

__all__ = ["RULE"]

_COLD = 0.01
"""Of a kernel's samples, below which spills cost nothing."""
_COMES_BACK = 0.85
_IGNORED = "Leave it: the spills are on a path that hardly runs."
_COMPILER = (
    "The allocator ran out of registers: see which values are alive across the loop, and whether"
    " the bound on registers is one that the launch needs."
)


def find(case: KernelCase) -> Iterator[Draft]:
    """Spills in the code of a kernel."""
    code = case.code
    spills = code.named("LDL", "STL") if code else []
    if code is None or not spills:
        return
    place, static = _place(case, code, spills), _static(case, code, spills)
    if not code.whole:
        yield Draft("warning", "registers are spilled", place, (static,), _advice(case), _COMPILER)
        return
    taken = np.maximum(code.taken(code.rows(spills)), code.waiting_for(spills))
    share = float(taken.sum()) / code.whole
    text = f"{percent(share)} of the samples are at them or wait for them"
    evidence = (static, Evidence("samples", text, int(taken.sum())))
    if share < _COLD:
        title = "registers are spilled where it costs nothing"
        yield Draft("ignore", title, place, evidence, _IGNORED, confidence="high")
        return
    yield Draft(
        "suggestion", "registers are spilled where it costs time", place, evidence, _advice(case),
        _COMPILER, eliminated(taken, code.whole, _COMES_BACK), confidence="high",
    )  # fmt: skip


def _place(case: KernelCase, code: KernelCode, spills: list[int]) -> Place:
    hot = code.hottest(spills)
    assert hot is not None
    return case.place(case.user_line(hot.place), case.op_at(hot.place), (hot.offset, hot.offset))


def _static(case: KernelCase, code: KernelCode, spills: list[int]) -> Evidence:
    looped = sum(code.instructions[index].depth > 0 for index in spills)
    registers = case.number("registers")
    held = f"; {registers:.0f} registers a thread" if registers else ""
    text = f"{len(spills)} loads and stores of local memory, {looped} of them in loops{held}"
    return Evidence("static", text)


def _advice(case: KernelCase) -> str:
    registers = case.number("registers") or 0
    if registers >= 255:
        return (
            "A thread has all 255 registers: keep less in each, by a smaller tile or by more"
            " threads a block."
        )
    return (
        "Let a thread have more registers (a higher bound, fewer blocks per multiprocessor), or"
        " keep less in it: a smaller tile, or more threads a block."
    )


RULE = KernelRule("spill-hot", find)
