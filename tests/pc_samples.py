"""Counts of program counters for tests: drawn with a seed over the instructions of real cubins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tileprof.profiler.pcs.raw import Mode, RawPcSamples

PREFIX = "smsp__pcsamp_warps_issue_stalled_"
REASONS = (
    "selected", "long_scoreboard", "short_scoreboard", "wait", "barrier", "warpgroup_arrive",
    "not_selected", "new_reason",
)  # fmt: skip
"""The last one is none that anybody knows."""
STALLS = tuple(f"{PREFIX}{name}{twin}" for name in REASONS for twin in ("", "_not_issued"))


def stall(name: str) -> int:
    """The place of a stall reason among `STALLS`."""
    return STALLS.index(PREFIX + name)


def raw(
    rows: Sequence[tuple[int, int, str, int, int]],
    functions: Sequence[tuple[int, str]],
    modules: Mapping[int, bytes] | None = None,
    mode: Mode = "continuous",
    total: int | None = None,
) -> RawPcSamples:
    """Rows of function, offset, stall, context and samples as the recorder gives them."""
    function, offset, names, context, samples = zip(*rows, strict=True) if rows else [()] * 5
    return RawPcSamples(
        np.array(function, np.uint32),
        np.array(offset, np.uint32),
        np.array([stall(name) for name in names], np.uint16),
        np.array(context, np.uint32),
        np.array(samples, np.uint64),
        tuple(functions),
        modules or {},
        STALLS,
        4096,
        mode,
        sum(samples) if total is None else total,
        dropped=0,
        non_user=0,
        overflows=0,
    )


def drawn(
    sizes: Sequence[int],
    functions: Sequence[tuple[int, str]],
    rows: int,
    modules: Mapping[int, bytes] | None = None,
    seed: int = 1,
    contexts: int = 0,
) -> RawPcSamples:
    """So many rows over functions of so many instructions; `contexts`: of that many call paths."""
    draw = np.random.default_rng(seed)
    function = draw.integers(0, len(functions), rows)
    offset = (draw.random(rows) ** 3 * np.array(sizes)[function]).astype(np.uint32) * 16
    samples = draw.integers(1, 1000, rows).astype(np.uint64)
    return RawPcSamples(
        function.astype(np.uint32),
        offset,
        draw.integers(0, len(STALLS), rows).astype(np.uint16),
        draw.integers(1, contexts + 1, rows).astype(np.uint32)
        if contexts
        else np.zeros(rows, np.uint32),
        samples,
        tuple(functions),
        modules or {},
        STALLS,
        4096,
        "exact" if contexts else "continuous",
        int(samples.sum()),
        dropped=7,
        non_user=0,
        overflows=0,
    )
