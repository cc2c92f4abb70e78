"""Kernels that are as fast as their device allows: nothing is left to tune.

Static: flops and bytes of the work. Dynamic: its time, beside what the device was measured to do at
most. Within a tenth of a roof only less work helps: fusion, or smaller elements.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.drafts import Draft, KernelRule
from tileprof.analyzer.findings import Evidence, percent
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.rules.numbers.work import ROOFLINE_NEAR


def find(case: KernelCase) -> Iterator[Draft]:
    """The roof that a kernel is at."""
    if not case.roofs.floors or not case.time:
        return
    if case.roofs.optional > COLD * case.roofs.needed_bytes:
        return  # of what data decide, less may do
    roof, floor = max(case.roofs.floors.items(), key=lambda item: item[1])
    used = floor / case.time
    if used < ROOFLINE_NEAR:
        return
    peak = case.roofs.peaks[roof]
    unit = "TB/s" if peak.unit == "bytes/s" else "TFLOP/s"
    text = f"{percent(used, 0)} of {peak.value / 1e12:.3g} {unit}, as measured ({roof})"
    memory = peak.unit == "bytes/s"
    author = (
        "Stop tuning it: only less traffic helps, by fusing it with its neighbours or by smaller"
        " elements."
        if memory
        else "Stop tuning it: only fewer operations help, or elements of fewer bits."
    )
    yield Draft(
        "stop", f"at the roof of the {'memory' if memory else 'arithmetic units'}", case.place(),
        (Evidence("activities", text),), author, confidence="high",
    )  # fmt: skip


RULE = KernelRule("at-roofline", find, ("activities",))
