"""Advice is not given where the program cannot take it: kernels as they are compiled."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.analyzer.compiled import compiled, remarks_of
from tests.analyzer.defects import across, in_a_ring, rows_of, searched, short_rows
from tests.analyzer.made import Made, found, program
from tileprof.ir.plain import plain_kernel


def said(kernel: Any, rule: str) -> list[str]:
    """Return how severe what a rule says of a kernel is, before anything was measured."""
    held = program(Made(remarks=remarks_of(compiled(kernel))))
    tiles = plain_kernel(kernel.compile().program.kernel)
    infos = tuple(replace(each, program=tiles) for each in held.tables.kernels)
    profile = replace(held, tables=replace(held.tables, kernels=infos))
    return [each.severity for each in found(profile, rule)]


@pytest.mark.parametrize(
    ("kernel", "severities"),
    [(searched, []), (in_a_ring, []), (short_rows, []), (across, ["warning"])],
    ids=["searched", "in a ring", "short rows", "across"],
)
def test_lanes_that_lie_apart_by_choice(kernel: Any, severities: list[str]) -> None:
    """Neither data, nor neighbours, nor a tile's short rows are; an order of loops is."""
    assert said(kernel, "uncoalesced-global") == severities


@pytest.mark.parametrize(("rows", "severities"), [(16, []), (1024, ["warning"])])
def test_tiles_that_could_have_more_rows(rows: int, severities: list[str]) -> None:
    """A tensor of 16 rows has no tile of the 64 that the faster instruction multiplies."""
    assert said(rows_of(rows), "tensor-core-missed") == severities
