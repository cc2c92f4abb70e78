"""Profiles whose device is known: its multiprocessors, and what one holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.analyzer.made import Made, program
from tileprof.profile import Attribute, CtaTimelines, DeviceInfo, Profile

DEVICE = DeviceInfo("cuda:0", "NVIDIA H200", 9, 0, 132, 150_000_000_000, 1980.0)


def launch(
    blocks: int, held: int = 1, threads: int = 128, registers: int = 64, **more: Attribute
) -> dict[str, Attribute]:
    """Facts of a launch: a multiprocessor holds `held` of its blocks."""
    facts: dict[str, Attribute] = {
        "grid": f"{blocks}×1×1", "block": f"{threads}×1×1", "blocks_per_sm": held,
        "registers": registers, "static_shared_bytes": 0, "dynamic_shared_bytes": 0,
        "occupancy": held * threads / 2048, "waves": blocks / 132 / held,
    }  # fmt: skip
    return facts | more


def on_h200(
    made: Made, peaks: Mapping[str, float] | None = None, ctas: CtaTimelines | None = None
) -> Profile:
    """A kernel that ran there."""
    held = program(made, peaks=peaks)
    tables = replace(held.tables, devices=(DEVICE,), ctas=ctas or CtaTimelines())
    return replace(held, tables=tables)
