"""Sums over all visits of an operation, estimated from the visits that were sampled."""

from __future__ import annotations

import types

import pytest

from tileprof.profiler.tree.contexts import FEW_SAMPLES, Contexts
from tileprof.profiler.tree.tree import Tree

Row = tuple[int, float, int, float]
"""Visits, sampled bytes, sampled visits, and bytes of tables in them: sums until now."""


def estimates(*rows: Row) -> list[float]:
    """Return bytes of tables that an operation's new visits are estimated to have, row by row."""
    told: list[list[tuple[float, ...]]] = [
        [(1, count, 0, 0, 0, 0, moved, visits, table, 0, 0, 0, 0)]
        for count, moved, visits, table in rows
    ]
    native = types.SimpleNamespace(
        contexts=lambda first: [(0, 3, 0, 0)][first - 1 :],
        host_times=lambda: told.pop(0) if told else [],
        host_times_by_thread=list,
        work_kinds=list,
        name=lambda number: "aten::_embedding_bag",
    )
    contexts = Contexts.__new__(Contexts)
    contexts._valued, contexts._told, contexts._told_by_thread = {}, {}, {}
    contexts._told_kinds = {}
    contexts._native = native  # type: ignore[assignment]
    contexts.node = lambda context: Tree().root  # type: ignore[method-assign]
    return [part.sampled.table_bytes for _ in rows for part in contexts.host_parts()]


def test_few_new_samples_count_with_those_before() -> None:
    """A loop looks rows up in tables of 8 sizes; a later burst meets the smallest one alone."""
    first, later = estimates((16, 0, 16, 1600), (120, 0, 18, 1600 + 2 * 10))
    assert first == 1600
    assert later == pytest.approx(104 * 1620 / 18)


def test_many_new_samples_count_alone() -> None:
    """Shapes may change while a program runs."""
    new = FEW_SAMPLES
    _, later = estimates((16, 0, 16, 1600), (216, 0, 16 + new, 1600 + new * 10))
    assert later == 200 * 10
