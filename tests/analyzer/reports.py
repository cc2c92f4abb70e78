"""Reports for tests of what people see: of the stored recordings by three rules, and made ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from tests.analyzer.made import FILE, Made, program, remark, stored
from tileprof.analyzer import Answers, Evidence, Finding, Gain, Place, Report, Tier, analyze, report
from tileprof.analyzer.cases import Program
from tileprof.analyzer.findings import Severity
from tileprof.analyzer.rules import bank_conflicts, roofline, spills
from tileprof.errors import Location
from tileprof.remarks.copies import LoadsAndStores, RowStride, Tma

RULES = (spills.RULE, bank_conflicts.RULE, roofline.RULE)
RUNS: tuple[tuple[Tier, str, tuple[str, ...]], ...] = (
    ("samples", "`tileprof run --pc-sampling SCRIPT`: what instructions wait for", ("b",)),
)


@contextmanager
def three_rules() -> Iterator[None]:
    """Texts are of these, so that a new rule does not change them."""
    with (
        mock.patch.object(report, "KERNEL_RULES", RULES),
        mock.patch.object(report, "PROGRAM_RULES", ()),
    ):
        yield


def recorded(name: str) -> Report:
    """What the three rules say of a recording."""
    with three_rules():
        return analyze(stored(name))


def finding(
    severity: Severity, rule: str = "a-rule", kernel: str = "matmul", gain: float = 1.0
) -> Finding:
    """One of a severity; from a gain above 1 on with numbers, half of it for the program."""
    kernel_gain = Gain(1 + (gain - 1) / 2, gain, 2 * gain - 1) if gain > 1 else None
    program_gain = Gain(1, 1 + (gain - 1) / 2, gain) if gain > 1 else None
    place = Place(
        kernel, ("main", "step", kernel), "copy A → A_shared", Location(FILE, 7), (0x40, 0x80)
    )
    evidence = (
        Evidence("static", "rows of 200 bytes are no multiple of 16"),
        Evidence("samples", "31.0 % of the samples wait for it", 12_400),
    )
    return Finding(
        rule, severity, f"what `{rule}` is about", place, evidence, "Pad rows to 16 bytes.",
        "See why its rows have such a length.", "medium", kernel_gain, program_gain,
    )  # fmt: skip


def report_with(*findings: Finding, kernel: str = "matmul", row: int = 200) -> Report:
    """A report of one kernel with a remark, whose suggestions bring 1.8 times together."""
    reason = RowStride(row, 16, "TMA")
    remarks = [remark("copy A → A_shared", 7, LoadsAndStores(), (Tma(), reason))]
    held = Program(program(Made(kernel, remarks=remarks), idle=1e6))
    (case,) = held.kernels
    return Report(held, findings, (Answers(case, findings, Gain(1.5, 1.8, 2.5)),), RUNS)
