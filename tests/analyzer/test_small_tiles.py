"""Tiles of products that L2 is asked for too often, and warp groups that multiply alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found
from tileprof.analyzer import Finding

RULE = "redundant-traffic"
TUNED = Path(__file__).parents[2] / "benchmarks" / "results" / "tuning.json"
SIDE = 8192
PEAKS = {"hbm_copy": 4.09e12, "hbm_read": 4.63e12, "l2_read": 10.6e12, "tensor_bfloat16": 897e12}
"""Roofs as measured on an H200: bytes and flops a second."""
IR = """kernel @gemm(%A: global<8192, 8192, bfloat16>, %B: global<8192, 8192, bfloat16>) {{
    %a = alloc shared {{shape = [{m}, 64]}} : shared<{m}, 64, bfloat16>
    %b = alloc shared {{shape = [{n}, 64]}} : shared<{n}, 64, bfloat16>
    %c = alloc fragment {{shape = [{m}, {n}]}} : fragment<{m}, {n}, float32>
    gemm %a, %b, %c {{transpose_b = true}}
}}
"""


@cache
def measured() -> Mapping[tuple[int, int], float]:
    """By tile, ns of a product of 8192³ on an H200 in the best of its schedules."""
    best = dict[tuple[int, int], float]()
    rows: list[Any] = json.loads(TUNED.read_text())["rows"][0]["rows"]
    for configuration, _, ns in rows:
        tile = configuration["block_M"], configuration["block_N"]
        best[tile] = min(best.get(tile, ns), ns)
    return best


def said(m: int, n: int, ns: float, **more: Any) -> list[Finding]:
    """What is said of a tile."""
    made = Made(
        time=ns, ir=IR.format(m=m, n=n), attributes=launch(SIDE // m * (SIDE // n)),
        metrics={"flops": 2.0 * SIDE**3, "bytes": 2.0 * SIDE**3 * (1 / m + 1 / n)}, **more,
    )  # fmt: skip
    return found(on_h200(made, PEAKS), RULE)


@pytest.mark.parametrize(
    "tile", [(128, 64), (64, 64), (32, 128), (32, 64), (64, 32), (16, 128), (16, 64), (16, 32)]
)
def test_what_a_larger_tile_brings(tile: tuple[int, int]) -> None:
    """As measured, within a seventh."""
    true = measured()[tile] / measured()[128, 256]
    (finding,) = said(*tile, measured()[tile])
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(true, rel=1 / 7)
    assert finding.kernel_gain.low < true < finding.kernel_gain.high


@pytest.mark.parametrize("tile", [(128, 256), (256, 128), (128, 128)])
def test_large_tiles(tile: tuple[int, int]) -> None:
    """Nothing is said of them, however long they take."""
    assert not said(*tile, measured()[tile])
    assert not said(*tile, 2 * measured()[tile])


def test_what_something_else_holds_up() -> None:
    """L2 would have been done in half of the time."""
    assert not said(64, 64, 2 * measured()[64, 64])


IN_LOOP = """kernel @gemm(%A: global<8192, 8192, bfloat16>, %B: global<8192, 8192, bfloat16>) {
  %c0 = constant 0 : index
  %c1 = constant 1 : index
  %c64 = constant 64 : index
  launch [%c64, %c64] {threads = [128]} body(%bx: index, %by: index) {
    %a = alloc shared {shape = [64, 64]} : shared<64, 64, bfloat16>
    %b = alloc shared {shape = [64, 64]} : shared<64, 64, bfloat16>
    %c = alloc fragment {shape = [64, 64]} : fragment<64, 64, float32>
    %1 = mul %bx, %c64 : index
    BEFORE
    for pipelined %c0, %c64, %c1 {num_stages = 3} body(%k: index) {
      %2 = mul %k, %c64 : index
      %A_tile = view %A, [%1, %2] {sizes = [64, 64]} : global<64, 64, bfloat16>
      copy %A_tile, %a
      INSIDE
      gemm %a, %b, %c {transpose_b = true}
    }
  }
}
"""
COPY_B = """%B_tile = view %B, [AT, %c0] {sizes = [64, 64]} : global<64, 64, bfloat16>
    copy %B_tile, %b"""


@pytest.mark.parametrize(
    ("before", "inside", "said"),
    [
        ("", COPY_B.replace("AT", "%2"), True),
        (COPY_B.replace("AT", "%1"), "", True),  # A is read again by each block
        (COPY_B.replace("AT", "%c0"), "", False),
    ],
)
def test_an_operand_of_all_blocks_that_stays_is_asked_for_once(
    before: str, inside: str, said: bool
) -> None:
    """A larger tile asks for less only where a loop, or each block, copies another operand."""
    made = Made(
        time=measured()[64, 64], attributes=launch((SIDE // 64) ** 2),
        ir=IN_LOOP.replace("BEFORE", before).replace("INSIDE", inside),
        metrics={"flops": 2.0 * SIDE**3, "bytes": 4.0 * SIDE**3 / 64},
    )  # fmt: skip
    assert bool(found(on_h200(made, PEAKS), RULE)) == said


ALONE = """kernel @gemm(%A: global<8192, 8192, bfloat16>, %B: global<8192, 8192, bfloat16>) {
  %c64 = constant 64 : index
  launch [%c64, %c64] {threads = [128]} body(%bx: index, %by: index) {
    %a = alloc shared {shape = [128, 64]} : shared<128, 64, bfloat16>
    %b = alloc shared {shape = [128, 64]} : shared<128, 64, bfloat16>
    %c = alloc fragment {shape = [128, 128]} : fragment<128, 128, float32>
    %c0 = constant 0 : index
    %c1 = constant 1 : index
    %c128 = constant 128 : index
    %1 = mul %by, %c128 : index
    %2 = mul %bx, %c128 : index
    for pipelined %c0, %c128, %c1 {num_stages = 5} body(%k: index) {
      %3 = mul %k, %c64 : index
      %A_tile = view %A, [%1, %3] {sizes = [128, 64], in_bounds = true} : global<128, 64, bfloat16>
      %B_tile = view %B, [%2, %3] {sizes = [128, 64], in_bounds = true} : global<128, 64, bfloat16>
      copy %A_tile, %a
      copy %B_tile, %b
      gemm %a, %b, %c {transpose_b = true}
    }
  }
}
"""
TURNS = [
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR8], R2", {"selected": 100}, 1, 5),
    ("HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24", {"selected": 100, "wait": 40000}, 1, 5),
    ("WARPGROUP.DEPBAR.LE gsb0, 0x1", {"selected": 100, "barrier": 60000}, 1, 5),
    ("@P1 BRA 0x0", {"selected": 100}, 1, 4),
    ("EXIT", {}, 0, 9),
]


@pytest.mark.parametrize(
    ("facts", "stages"),
    [
        ({}, "num_stages=3"),  # of 32 KB each: two blocks with three of them
        ({"held": 2}, ""),
        ({"threads": 256}, ""),  # another group multiplies meanwhile
        ({"dynamic_shared_bytes": 100_000}, ""),  # it is not stages that leave no room
    ],
)
def test_a_group_beside_too_many_stages(facts: dict[str, int], stages: str) -> None:
    """Products take 0.6 of the time, so at most as much is left, and likely 0.8."""
    taken = launch(132, **{"threads": 128, "dynamic_shared_bytes": 5 * 32768, **facts})
    made = Made(
        time=1e6, ir=ALONE, attributes={**taken, "target": "sm_90a"}, code=TURNS,
        metrics={"flops": 0.6 * 0.9 * 897e9},
    )  # fmt: skip
    held = [e for e in found(on_h200(made, PEAKS), "occupancy-limited") if "alone" in e.title]
    assert bool(held) == bool(stages)
    for finding in held:
        assert stages in finding.author
        assert finding.kernel_gain is not None
        assert finding.kernel_gain.mid == pytest.approx(1 / 0.8, rel=0.02)
