"""From a program to the text of its profile with a clock that counts ops: every figure is exact."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tileprof
from tests.cli.test_cli_run import KERNEL
from tileprof import ir
from tileprof.profile import save, to_json
from tileprof.runtime.interpreter import OpClock

PROGRAM = (
    KERNEL.partition("if __name__")[0]
    + """
def step(x):
    spend(2_000)
    with tileprof.scope("step"):
        spend(500)
        return row_sums(x)

def main():
    for _ in range(3):
        step(np.ones((20, 4), np.float32))
    with tileprof.scope("last", rows=16):
        row_sums(np.ones((16, 4), np.float32))
"""
)

COST: dict[type, int] = {ir.Fill: 500, ir.Copy: 1_000, ir.Reduce: 2_000}
"""Nanoseconds a block: 8.5 µs for one block of `row_sums`, in which a copy is a load or a store."""


def record(path: Path, instrument: str) -> tileprof.Profile:
    """Run the program under a session whose clock moves with the ops that are executed."""
    clock = OpClock(cost=lambda op: COST.get(type(op), 0))

    def spend(ns: int) -> None:
        clock.now += ns

    names: dict[str, Any] = {"__name__": "prog", "spend": spend}
    exec(compile(path.read_text(), str(path), "exec"), names)
    session = tileprof.start(clock=clock, instrument=instrument)
    session.recording.recorder.set_base(sys._getframe())
    with tileprof.device("interpreter"):
        names["main"]()
    profile = session.finalize()
    profile.check()
    return profile


@pytest.mark.parametrize("instrument", ["scopes", "ops"])
def test_a_whole_view(
    cli: Any, folder: Path, write: Any, golden: Callable[..., None], instrument: str
) -> None:
    """Frames, scopes, kernels and what is inside of them, with times, counts, flops and bytes."""
    write(prog=PROGRAM)
    save(record(folder / "prog.py", instrument), folder / "prog.tprof")
    tree = cli("view", "prog.tprof", "-t", "0", "-m", "time,cpu_time,count,flops,bytes,guarded")
    assert (tree.code, tree.err) == (0, "")
    # The first line is the command that recorded, here this test's.
    golden(tree.out.partition("\n")[2])
    flat = cli("view", "prog.tprof", "--flat")
    golden(flat.out.partition("\n")[2], "flat")
    lines = cli("view", "prog.tprof", "--lines")
    golden(lines.out.partition("\n")[2].replace(str(folder), "."), "lines")


def test_it_is_exact(folder: Path, write: Any) -> None:
    """Two runs give the same profile, and what the program spent is in it to the nanosecond."""
    write(prog=PROGRAM)
    first, second = (record(folder / "prog.py", "scopes") for _ in range(2))
    assert to_json(first) == to_json(second)
    (step,) = first.find(kind="scope", name="step")
    assert first.node(step).own("cpu_time") == 3 * 500
    assert first.node(step).own("count") == 3
