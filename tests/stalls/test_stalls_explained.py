"""What an H200 counted for the kernels with known stalls is traced to what they wait for."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.binary.support import need_disassembler
from tests.stalls.kernels import cubin
from tileprof.binary import Function, read, waits
from tileprof.profiler.pcs.listings import explaining

MEASURED = json.loads((Path(__file__).parent / "measured.json").read_text())
"""What an H200 counted: of each kernel and of its hottest instruction the four first stall reasons,
and the three lines with most samples."""
CAUSES = {
    "uncoalesced": ("long_scoreboard", "LDG"),
    "chased": ("long_scoreboard", "LDG"),
    "barrier_skew": ("barrier", "BAR"),
    "mbarrier_wait": ("long_scoreboard", "SYNCS"),
    "bulk_copy_wait": ("long_scoreboard", "UBLKCP"),
    "copy_wait": ("long_scoreboard", "LDGSTS"),
    "fenced": ("membar", "MEMBAR"),
    "slept": ("sleeping", "NANOSLEEP"),
    "serialised_products": ("barrier", "HGMMA"),
    "grouped_products": ("barrier", "HGMMA"),
}
"""The hottest instruction's first reason, and who is to blame for it."""
OF_THEMSELVES = {
    "spilled": "lg_throttle", "bank_conflict": "mio_throttle", "exponentials": "mio_throttle",
    "multiplied": "not_selected", "stored": "lg_throttle",
}  # fmt: skip
"""Kernels whose hottest instruction is held up by a queue or a pipe that is full."""


def hottest(name: str) -> tuple[Function, list[int], str]:
    """The kernel, offsets of what may be its hottest instruction, and the first reason there."""
    need_disassembler()
    made, held = read(cubin()).functions[name], measured(name)["hottest"]
    offsets = [each.offset for each in made.reachable() if plain(each.text) == plain(held["sass"])]
    assert offsets, f"this compiler makes no `{held['sass']}`"
    return made, offsets, max(held["stalls"], key=held["stalls"].__getitem__)


def plain(text: str) -> str:
    """An instruction without what compilers differ in: commas, where branches lead, predicates."""
    return re.sub(r"[,\s]|(?<=BRA )0x[0-9a-f]+|(?<=@!P)\d", "", text)


def measured(name: str) -> Any:
    """What was counted of a kernel."""
    return MEASURED["kernels"][name]


@pytest.mark.parametrize("name", CAUSES)
def test_a_stall_leads_to_its_cause(name: str) -> None:
    """By the instruction that was hottest, and the reason that was counted there."""
    reason, cause = CAUSES[name]
    made, offsets, counted = hottest(name)
    assert counted == reason
    found = [each for offset in offsets for each in explaining(reason, waits(made, offset), made)]
    assert cause in {made.instruction(each.producer).name for each in found}


@pytest.mark.parametrize("name", OF_THEMSELVES)
def test_a_full_queue_is_nobodys_fault(name: str) -> None:
    """No instruction is blamed for it."""
    made, offsets, counted = hottest(name)
    assert counted == OF_THEMSELVES[name]
    assert not any(explaining(counted, waits(made, offset), made) for offset in offsets)


def test_every_kernel_was_measured() -> None:
    """With a line for each sample."""
    kernels = MEASURED["kernels"]
    assert {*CAUSES, *OF_THEMSELVES, "chained"} == kernels.keys()
    assert all(each["with_line"] == each["samples"] > 10_000 for each in kernels.values())
