"""Decisions of a GPU backend about launches and loops.

What the author asks for stands in the `hints` of an op; what the passes decide stands in its
`schedule`, which the author's program leaves at its defaults.  The text form lists the decisions
that differ from their defaults: `schedule = [[raster, 8], [cluster, 2]]`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar


@dataclass(frozen=True, slots=True)
class LaunchSchedule:
    """Decisions about the blocks of a launch."""

    warp_roles: bool = False
    """Whether a producer warp group is to issue the loads; where it does, `Roles` says so."""
    raster: int = 0
    """Rows of blocks that run together, so that they share operands in L2; 0: the grid's order."""
    cluster: int = 1
    """Blocks of a cluster."""
    cluster_axis: int = 0
    """Axis of the grid along which the blocks of a cluster lie."""
    persistent: int = 0
    """Blocks that stay on each multiprocessor and loop over tiles; 0: a block for each tile."""
    residents: int = 0
    """Blocks for which a multiprocessor has to have registers; 0: for one."""
    shared: int = 0
    """Shared memory of a block, in bytes."""
    releases: bool = False
    """Whether the next launch on the stream, if it waits, may start while this one runs."""
    waits: bool = False
    """Whether it may start while the previous launch on the stream runs, for whose end it waits."""
    sample_counts: int = 0
    """Offset in shared memory where warps count their states, in bytes."""
    sampled_warps: int = 0
    """Warps that count their states, from the first; 0: nothing is sampled."""


@dataclass(frozen=True, slots=True)
class LoopSchedule:
    """Decisions about the iterations of a loop."""

    once: bool = False
    """Whether it has at most one iteration."""
    whole: bool = False
    """Whether it stays one loop although some of its iterations need no mask."""
    dynamic: bool = False
    """Whether a block takes the next tile that no block has taken, when it is free; otherwise the
    tiles are dealt to the blocks in advance."""
    crowded: bool = False
    """Whether fragments leave so few registers that what stays the same in all iterations is
    computed again in each of them, where that is cheap."""
    slots: int = 1
    """Slots of small tiles that are loaded once an iteration: with two, the producer goes on to the
    next iteration before the consumers have read the tile of this one."""


Schedule = LaunchSchedule | LoopSchedule
S = TypeVar("S", LaunchSchedule, LoopSchedule)


def decisions(schedule: Schedule) -> tuple[tuple[str, bool | int], ...]:
    """Return the fields that differ from their defaults, by name, in the order of the class."""
    held = ((each, getattr(schedule, each.name)) for each in fields(schedule))
    return tuple((each.name, value) for each, value in held if value != each.default)


def launch_schedule(held: object) -> LaunchSchedule:
    """Read what `decisions` of a launch gave; ValueError for anything else."""
    return _schedule(LaunchSchedule, held)


def loop_schedule(held: object) -> LoopSchedule:
    """Read what `decisions` of a loop gave; ValueError for anything else."""
    return _schedule(LoopSchedule, held)


def _schedule(kind: type[S], held: object) -> S:
    known = {each.name: type(each.default) for each in fields(kind)}
    given: dict[str, Any] = {}
    for pair in held if isinstance(held, tuple) else (held,):
        name, value = pair if isinstance(pair, tuple) and len(pair) == 2 else (pair, None)
        if name not in known or type(value) is not known[name] or name in given:
            raise ValueError(f"`{pair!r:.80}` is not a decision of a schedule")
        given[name] = value
    return kind(**given)
