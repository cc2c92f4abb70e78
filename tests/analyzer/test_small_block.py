"""Kernels whose blocks move few bytes each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch
from tests.analyzer.made import Made, found, only, program
from tileprof.profile import Profile

PEAKS = {"hbm_read": 4e12}
BLOCKS = 132 * 32 * 10


def kernel(moved: float = 500, part: float = 0.5, blocks: int = BLOCKS) -> Made:
    """A kernel at a part of the memory's roof, whose blocks of 32 threads move so many bytes."""
    time = moved * blocks / 4e12 / part * 1e9
    return Made("silu", time, metrics={"bytes": moved * blocks}, attributes=launch(blocks, 32, 32))


def beside(*kernels: Made) -> Profile:
    """With another kernel that takes as long as all of them."""
    time = sum(each.time for each in kernels)
    return program(*kernels, Made("other", time, attributes=launch(132)), peaks=PEAKS)


def test_larger_blocks_reach_most_of_the_roof() -> None:
    """0.5 of the roof becomes 0.8 likely, so that 0.375 of half of the time goes."""
    finding = only(beside(kernel()), "small-block")
    assert finding.title == "blocks of 1 kernel do too little work"
    gain = finding.program_gain
    assert gain is not None
    assert (gain.low, gain.mid, gain.high) == pytest.approx(
        [1 / (1 - part / 2) for part in (0.375 / 2, 0.375, 0.5)]
    )
    assert finding.evidence[1].text == (
        "a launch of silu has 42,240 blocks of 32 threads, which move 500 bytes each"
    )


def test_kernels_of_one_cause_are_one_finding() -> None:
    """Two with small blocks."""
    finding = only(beside(kernel(), replace(kernel(), name="multiply")), "small-block")
    assert finding.title == "blocks of 2 kernels do too little work"


@pytest.mark.parametrize(
    "made",
    [
        kernel(moved=5000),
        kernel(part=0.7),
        kernel(blocks=132 * 32 * 3),
        kernel(moved=2000, part=0.4),
        kernel(part=0.2),
    ],
    ids=[
        "enough bytes",
        "near the roof",
        "few blocks",
        "enough bytes of all blocks at once",
        "blocks that live long",
    ],
)
def test_blocks_that_are_as_they_should_be(made: Made) -> None:
    """There is nothing to be gained by larger ones, there are too few to make them
    larger, or 32 of them have 64 KB under way, which memory gives in less than they live; or they
    compute for longer than beginning and ending takes."""
    assert not found(beside(made), "small-block")
