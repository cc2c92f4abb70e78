"""Small profiles written by hand, which the tests of the viewer share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from tileprof.errors import Location
from tileprof.profile import STANDARD, Metric, Profile, Symbol, Tables, build

Nested: TypeAlias = tuple[Symbol, dict[str, float], Sequence[Any]]


def node(kind: str, name: str, place: str = "", /, **own: float) -> Nested:
    """A node without children; `place` is `file:line` and metrics are what it holds itself."""
    file, _, line = place.rpartition(":")
    location = Location(file, int(line), function=name) if place else None
    return (Symbol(kind, name, location), own, [])


def with_children(parent: Nested, *children: Nested) -> Nested:
    """The same node with `children` below it."""
    symbol, own, _ = parent
    return (symbol, own, list(children))


def profile_of(
    *roots: Nested, tables: Tables | None = None, metrics: Mapping[str, Metric] | None = None
) -> Profile:
    """A profile of nested nodes; metrics are the standard ones that occur, and `metrics`."""
    symbols: list[Symbol] = []
    parents: list[int] = []
    values: list[dict[str, float]] = []
    pending = [(root, -1) for root in reversed(roots)]
    while pending:
        (symbol, own, children), parent = pending.pop()
        symbols.append(symbol)
        parents.append(parent)
        values.append(own)
        pending += [(child, len(symbols) - 1) for child in reversed(children)]
    known = {**STANDARD, **(metrics or {})}
    used = {name: known[name] for name in known if any(name in own for own in values)}
    columns = {
        name: np.array([own.get(name, 0 if metric.adds == "sum" else np.nan) for own in values])
        for name, metric in used.items()
    }
    return build(symbols, range(len(symbols)), parents, used, columns, tables=tables)


def matmul() -> Profile:
    """A script that launches two kernels, one of them with scopes inside."""
    return profile_of(
        with_children(
            node("frame", "<module>", "/w/train.py:40"),
            with_children(
                node("frame", "main", "/w/train.py:33", cpu_time=2_000_000),
                with_children(
                    node("scope", "forward", cpu_time=5_000_000, count=3),
                    with_children(
                        node(
                            "kernel",
                            "matmul",
                            "/w/kernels.py:12",
                            time=400_000,
                            count=3,
                            flops=6.4e9,
                            bytes=25e6,
                        ),
                        node(
                            "site",
                            "load",
                            "/w/kernels.py:17",
                            time=1_000_000,
                            count=96,
                            time_min=8_000,
                            time_max=15_200,
                        ),
                        node(
                            "site",
                            "multiply",
                            "/w/kernels.py:19",
                            time=1_600_000,
                            count=96,
                            time_min=15_000,
                            time_max=21_000,
                        ),
                    ),
                    node(
                        "kernel", "softmax", "/w/kernels.py:40", time=195_000, count=3, bytes=12e6
                    ),
                ),
                node("memcpy", "host to device", time=5_000, count=2, bytes=4096),
            ),
        ),
        tables=Tables(provenance={"command": "train.py --steps 3", "device": "NVIDIA H200"}),
    )
