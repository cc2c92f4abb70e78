"""Planted faults inside blocks: some of `benchmarks/check_plants.py` are found here as well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

import pytest

from benchmarks import check_in_block
from benchmarks.check_in_block import PLANTS, RESULT, Program, check_plant, is_true, recorded
from benchmarks.check_plants import ROLES
from benchmarks.check_plants_threads import ROWS


@cache
def texts() -> Mapping[str, Program]:
    """The ladder's text with a producer warp group, and one of single threads."""
    calls = [*check_in_block.ladder(), *check_in_block.of_threads()]
    wanted = [
        call for call in calls if call.name in ("ladder warp roles", "threads rows_of_threads")
    ]
    return {program.name: program for call in wanted for program in recorded(call)}


def test_a_text_without_a_fault_has_no_finding() -> None:
    """The one in which faults are planted below."""
    assert texts()[ROLES].check(seeds=(0,)).findings == ()


@pytest.mark.spread("accumulators are read before the last wait", "more arrivals than warps")
@pytest.mark.parametrize(
    "what",
    [
        "consumers do not wait for a load",
        "accumulators are read before the last wait",
        "more arrivals than warps",
        "no fence before a TMA store",
    ],
)
def test_a_planted_fault_is_found(what: str) -> None:
    """A fault of each kind."""
    (plant,) = [each for each in PLANTS if each.what == what]
    row = check_plant(plant, texts()[ROLES])
    assert row.found, row.finding


@pytest.mark.parametrize(
    "what", ["parts of all warps go to one place", "half of a warp exchanges parts"]
)
def test_a_fault_of_threads_is_found_and_shown_again(what: str) -> None:
    """The schedule that a finding names shows it again."""
    (plant,) = [each for each in PLANTS if each.what == what]
    program = texts()[ROWS]
    text = plant.apply(program.source.text)
    finding = next(each for each in program.check(text).findings if is_true(plant, each))
    assert finding.schedule is not None
    assert finding in program.check(text, (finding.schedule.seed,)).findings


def test_the_results_are_of_these_plants() -> None:
    """The published file has all of them, each in a text that has no finding without it."""
    held = json.loads(RESULT.read_text())
    assert {(r["what"], r["family"]) for r in held["plants"]} == {
        (p.what, p.family) for p in PLANTS
    }
    assert len(PLANTS) == held["planted"] >= 40
    assert {p.program for p in PLANTS} <= {each["program"] for each in held["clean"]}
    assert len({p.what for p in PLANTS}) == len(PLANTS)
