"""`compile` for a GPU from a Python file to machine code, without a stand-in and without a GPU."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cli.test_cli_compile_cuda import COMMON
from tests.cli.test_cli_run import KERNEL
from tileprof import ir
from tileprof.compiler.cuda.pipeline import PASSES

GPU = ("compile", "prog.py:row_sums", "--set", "M=64", "--set", "N=64", "--target")
TARGETS = pytest.mark.parametrize("target", ["sm_90a", "sm_80"])


@pytest.fixture(autouse=True)
def _files(write: Any) -> None:
    write(prog=KERNEL)


@pytest.mark.spread("sm_90a")
@TARGETS
def test_ir_after_each_pass(cli: Any, target: str) -> None:
    """The text parses back to itself, whichever pass it is asked for."""
    for step in PASSES:
        found = cli(*GPU, target, "--emit", f"ir:{step.name}")
        assert (found.code, found.err) == (0, "")
        assert ir.print_kernel(ir.parse(found.out)) == found.out


@pytest.mark.spread("sm_80")
@TARGETS
def test_from_text_to_machine_code(cli: Any, target: str) -> None:
    """Each form names the author's lines; the remarks end with the occupancy."""
    pytest.importorskip("cuda.bindings.nvrtc")
    shown = {what: cli(*GPU, target, "--emit", what) for what in ("cuda", "ptx", "sass")}
    assert [(each.code, each.err) for each in shown.values()] == [(0, "")] * 3
    assert re.search(r'^#line \d+ ".*prog\.py"$', shown["cuda"].out, re.MULTILINE)
    assert f".target {target}" in shown["ptx"].out
    assert re.search(r"prog\.py:\d+", shown["sass"].out)
    remarks = cli(*GPU, target, "--emit", "remarks")
    assert (remarks.code, remarks.err) == (0, "")
    assert re.search(r"prog\.py:\d+: occupancy: \d+ blocks of \d+ threads per SM", remarks.out)


def test_timing(cli: Any) -> None:
    """All stages, in their order."""
    pytest.importorskip("cuda.bindings.nvrtc")
    found = cli(*GPU, "sm_90a", "--timing")
    names = [line.split()[0] for line in found.out.splitlines()]
    passes = [step.name for step in PASSES]
    assert names == [*COMMON, *passes, "emit", "nvrtc", "total"]


def test_controls_reach_the_passes(cli: Any) -> None:
    """Without asynchronous copies there are none in the text."""
    free = cli(*GPU, "sm_80", "--emit", "cuda").out
    held = cli(*GPU, "sm_80", "--emit", "cuda", "--control", "async_copy=off").out
    assert "tp_cp_async<" in free
    assert "tp_cp_async<" not in held
