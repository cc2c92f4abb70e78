"""Counted costs of accesses, against cases worked out by hand."""

from __future__ import annotations

import pytest

from tests.cuda.elementwise_support import HOPPER, launch
from tests.verified import parse
from tileprof.compiler.cuda.controls import Controls
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.layout.access_costs import count_accesses
from tileprof.remarks import Remark
from tileprof.remarks.common import InLayout
from tileprof.remarks.layouts import FewerSectors, GlobalAccess, LosingConflicts, SharedAccess

LINE = "regs | lanes (1) (2) (4) (8) (16) | warps (32) (64)"
"""128 points, one a thread."""
ROWS = "regs (0,1) (0,2) (0,4) | lanes (0,8) (0,16) (0,32) (1,0) (2,0) | warps (4,0) (8,0)"
"""16 × 64 in vectors of 8 along rows."""
COLUMN = "regs (0,1) | lanes (1,0) (2,0) (4,0) (8,0) (16,0) | warps (32,0) (64,0)"
"""128 × 2, a lane a row."""


def remarks(params: str, body: str, symbols: str = "") -> dict[str, Remark]:
    """Remarks of a loop by access."""
    lowering = Lowering(HOPPER, Controls())
    count_accesses(parse(launch(params, body, symbols=symbols)), lowering)
    return {r.subject: r for r in lowering.remarks.all()}


def line(index: str) -> str:
    """`y[i] = x[index of i]`."""
    return f"""
    parallel [%c128] {{layout = "{LINE}"}} body(%i: index) {{
{index}
      %v = load %x, [%at] {{in_bounds = true}} : float32
      store %v, %y, [%i] {{in_bounds = true}}
    }}"""


@pytest.mark.parametrize(("step", "sectors"), [(1, 4), (2, 8), (4, 16), (8, 32), (64, 32)])
def test_strides_in_global_memory(step: int, sectors: int) -> None:
    """32 lanes of 4 bytes are 128 bytes: 4 sectors, and with a step as many more, up to 32."""
    found = remarks(
        "%x: global<8192, float32>, %y: global<128, float32>",
        line(f"      %at = mul %i, %c{step} : index"),
    )
    assert found["store y"].decision == GlobalAccess(4, 4, 4)
    load = found["load x"]
    assert load.decision == GlobalAccess(4, sectors, 4)
    assert load.severity == ("info" if step == 1 else "missed")
    assert [r.candidate for r in load.rejected] == ([] if step == 1 else [FewerSectors(4)])


def test_vectors_and_broadcasts() -> None:
    """Four rows of 128 bytes are 16 sectors; a scale for each row is one sector for all lanes, even
    where the distance of rows is known at launch only."""
    body = f"""
    parallel [%c16, %c64] {{layout = "{ROWS}"}} body(%i: index, %j: index) {{
      %v = load %x, [%i, %j] {{in_bounds = true}} : bfloat16
      %s = load %scale, [%i] {{in_bounds = true}} : bfloat16
      %w = mul %v, %s : bfloat16
      store %w, %x, [%i, %j] {{in_bounds = true}}
    }}"""
    found = remarks("%x: global<16, n, bfloat16>, %scale: global<16, bfloat16>", body, "%n")
    assert found["load x"].decision == GlobalAccess(16, 16, 16)
    assert found["store x"].decision == GlobalAccess(16, 16, 16)
    assert found["load scale"].decision == GlobalAccess(2, 1, 1)


def column(layout: str) -> str:
    """`y[i, j] = s[i, j]`, each lane in a row of its own of 128 × 64 bfloat16."""
    return f"""
    %s = alloc shared {{shape = [128, 64], layout = "{layout}"}} : shared<128, 64, bfloat16>
    parallel [%c128, %c2] {{layout = "{COLUMN}"}} body(%i: index, %j: index) {{
      %v = load %s, [%i, %j] {{in_bounds = true}} : bfloat16
      store %v, %y, [%i, %j] {{in_bounds = true}}
    }}"""


@pytest.mark.parametrize(
    ("layout", "wavefronts"), [("rows", 32), ("swizzle=128", 4), ("pad=2", 1), ("pad=8", 4)]
)
def test_a_column_of_shared_memory(layout: str, wavefronts: int) -> None:
    """Rows of 128 bytes begin in one bank, so 32 lanes take 32 turns; a swizzle spreads 8 rows, 4
    more bytes a row all 32, 16 more bytes 8."""
    found = remarks("%y: global<128, 2, bfloat16>", column(layout))["load s"]
    assert found.decision == SharedAccess(4, wavefronts, 1)
    assert found.severity == ("missed" if wavefronts > 1 else "info")
    if wavefronts > 1:
        (rejected,) = found.rejected
        assert rejected.candidate == InLayout("pad=2")
        assert isinstance(rejected.reason, LosingConflicts)
        assert (rejected.reason.ways, rejected.reason.layout) == (wavefronts, layout)


def test_threads_that_hold_one_point_write_once() -> None:
    """Eight points in 32 lanes: one sector, of which a warp writes all."""
    body = """
    parallel [%c8] {layout = "regs | lanes (0) (0) (1) (2) (4) | warps (0) (0)"} body(%i: index) {
      %v = load %y, [%i] {in_bounds = true} : float32
      store %v, %y, [%i] {in_bounds = true}
    }"""
    found = remarks("%y: global<8, float32>", body)
    assert found["store y"].decision == GlobalAccess(4, 1, 1)
