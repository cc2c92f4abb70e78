"""Loops and stores of kernels whose program nobody tells, by their machine code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only
from tileprof.analyzer.cases import Program
from tileprof.analyzer.kernel.threads.gapped_stores import gapped_stores

_SUMS = {"selected": 100, "short_scoreboard": 300, "barrier": 400}
_LOADS = {"selected": 100, "long_scoreboard": 500}


def _code(*lines: tuple[str, int]) -> list[tuple[str, dict[str, int], int, int]]:
    return [(text, _LOADS if "LDG" in text else _SUMS, depth, 10 + depth) for text, depth in lines]


# -- grids


def _by_grid(step: str) -> Made:
    """A loop over pieces, with `step` as how it goes on."""
    code = _code(
        ("S2R R0, SR_CTAID.X", 0), ("LDC R2, c[0x0][0xc]", 0),
        ("LDG.E R4, desc[UR8][R6.64]", 1), ("FADD R5, R4, R4", 1), (step, 1),
        ("ISETP.GE.AND P1, PT, R0, R3, PT", 1), ("@!P1 BRA 0x20", 1), ("EXIT", 0),
    )  # fmt: skip
    return Made(code=code, attributes=launch(33, held=2), metrics={"bytes": 1e8})


def test_blocks_that_step_by_their_number() -> None:
    """A quarter of the multiprocessors have a block: four times as many go as fast, where memory
    has room, else its part.  A second block on each is no gain for one that issues all the time."""
    made = _by_grid("IADD3 R0, R0, R2, RZ")
    finding = only(on_h200(made, {"hbm_copy": 1e12}), "small-grid")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(4, rel=0.02)
    assert finding.kernel_gain.high >= 8
    busy = replace(made, metrics={"bytes": 0.465e9})
    finding = only(on_h200(busy, {"hbm_copy": 1e12}), "small-grid")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid == pytest.approx(0.9 / 0.465, rel=0.02)


def test_blocks_that_do_one_piece_each() -> None:
    """Another step says nothing of the grid: it is split as far as multiprocessors go."""
    finding = only(on_h200(_by_grid("IADD3 R0, R0, 0x1, RZ"), {"hbm_copy": 1e12}), "small-grid")
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid < 4.2


# -- sums


def _summed(*inside: str) -> Made:
    lines = ["IMAD.MOV.U32 R21, RZ, RZ, RZ", "LDG.E R2, desc[UR8][R6.64]", *inside]
    tail = ["IADD3 R8, R8, 0x1, RZ", "ISETP.GE.AND P1, PT, R8, 0x20, PT", "@!P1 BRA 0x10", "EXIT"]
    deep = [0, *[1] * (len(inside) + 1), 1, 1, 1, 0]
    code = _code(*zip([*lines, *tail], deep))
    code[0] = (code[0][0], {"selected": 10}, 0, 10)
    return Made(code=code)


_OVER_LANES = ("SHFL.BFLY PT, R3, R2, 0x1, 0x1f", "FADD R4, R2, R3")
_OVER_WARPS = ("STS [R9], R4", "BAR.SYNC.DEFER_BLOCKING 0x0", "LDS R5, [R10]")


@pytest.mark.parametrize(
    "inside",
    [
        (*_OVER_LANES, "FADD R21, R21, R4"),
        (*_OVER_LANES, *_OVER_WARPS, "FADD R21, R5, R21"),
    ],
)
def test_sums_over_threads_in_each_turn(inside: tuple[str, ...]) -> None:
    """Over the lanes of a warp, and over warps."""
    finding = only(on_h200(_summed(*inside)), "early-reduction")
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.mid > 1.25


@pytest.mark.parametrize(
    ("registers", "blocks", "severity"), [(16, 8, "suggestion"), (64, 4, "symptom")]
)
def test_partial_sums_need_registers(registers: int, blocks: int, severity: str) -> None:
    """A thread adds up 16 products before it meets others; with 64 + 16 registers, 3 blocks of 256
    threads fit where 4 do now."""
    own = [f"FFMA R2, R{40 + at}, R{60 + at}, {'R2' if at else 'RZ'}" for at in range(16)]
    made = _summed(*own, *_OVER_LANES, "FADD R21, R21, R4")
    held = {"registers": registers, "blocks_per_sm": blocks}
    made.attributes = {"grid": "1056×1×1", "block": "256×1×1", **held}
    assert only(on_h200(made), "early-reduction").severity == severity


@pytest.mark.parametrize(
    "inside",
    [
        ("SHFL.BFLY PT, R3, R2, 0x1, 0x1f", "FMNMX R4, R2, R3, !PT", "FADD R21, R21, R4"),
        (*_OVER_LANES, "FMUL R4, R4, R4", "FADD R21, R21, R4"),
        (*_OVER_LANES, "FADD R21, R21, R4", "FMUL R7, R21, R2"),
        (*_OVER_LANES, "FADD R21, R21, R4", "SHFL.IDX PT, R7, R2, R3, 0x1f"),
        ("FADD R21, R21, R2",),
    ],
)
def test_threads_that_have_to_meet(inside: tuple[str, ...]) -> None:
    """A maximum, a square, a sum that is read on its way, another exchange; and no exchange."""
    assert not found(on_h200(_summed(*inside)), "early-reduction")


# -- stores


def _stores(*offsets: int, wide: str = "") -> Made:
    """Stores at offsets of one register, of a launch that keeps L2 busy."""
    texts = [f"STG.E{wide} desc[UR8][R2.64+{each:#x}], R4" for each in offsets]
    code = _code(("LDG.E.128 R4, desc[UR8][R6.64]", 0), *((text, 0) for text in texts), ("EXIT", 0))
    return Made(code=code, attributes=launch(1000, 128), metrics={"bytes": 32 * 128 * 1000.0})


def _of(made: Made) -> Program:
    return Program(on_h200(made, {"l2_read": 1.6e10}))


def test_stores_with_gaps_touch_each_sector_again() -> None:
    """Four words a thread: 16 sectors a request, four times."""
    gapped = gapped_stores(_of(_stores(0, 8, 4, 12)).kernels[0])
    assert gapped is not None
    assert (gapped.width, gapped.chunk, len(gapped.where)) == (4, 16, 4)
    assert gapped.touched == pytest.approx(4 * gapped.filled)
    finding = only(on_h200(_stores(0, 8, 4, 12), {"l2_read": 1.6e10}), "narrow-access")
    assert finding.severity == "suggestion"
    assert "with gaps" in finding.title


@pytest.mark.parametrize("made", [_stores(0), _stores(0, 0x200), _stores(0, 0x10, wide=".128")])
def test_stores_without_gaps(made: Made) -> None:
    """One store, stores of other lines, and stores of 16 bytes."""
    assert gapped_stores(_of(made).kernels[0]) is None
