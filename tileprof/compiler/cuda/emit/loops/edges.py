"""Accesses for points that may be outside of their tensor, or that are not aligned.

In: what `vectors.py` makes for several points at once, or for neighbours of a point.  Out: the same
for a form of the loop in which less is known: whole where a vector is inside or outside as a whole,
else taken apart.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.cuda.emit.buffers import GlobalBuffer
from tileprof.ir.memory import base

from .vectors import Planner, VectorAccess


def slow_accesses(
    planner: Planner,
    loads: Iterable[VectorAccess],
    stores: Sequence[VectorAccess],
    inside: Collection[ir.OpBase],
) -> tuple[list[VectorAccess], list[VectorAccess]]:
    """Return loads and stores for points that may be outside, or that are not aligned: whole where
    a vector is inside or outside as a whole, else one by one.  inside: accesses that are known to
    be inside."""

    def holds(access: VectorAccess) -> bool:
        return not access.conditions and (_is_inside(access, inside) or planner.is_whole(access))

    def held(access: VectorAccess) -> VectorAccess | None:
        """Return the access as it is, or as one for each point; None where it is neither."""
        if holds(access) or not access.members:
            return access if holds(access) else None
        each = planner.for_each_point(access)
        return each if each is not None and holds(each) else None

    moved: list[VectorAccess] = []
    for access in loads:
        made = held(access)
        for each in [made] if made else _apart(access):
            moved.append(each if holds(each) else replace(each, width=1))
    late = [(a, held(a)) for a in stores]
    single = {a.op.buffer for a, made in late if made is None}
    return _in_front(moved), [made for a, made in late if made and a.op.buffer not in single]


def taken_apart(
    planner: Planner,
    loads: Iterable[VectorAccess],
    stores: Sequence[VectorAccess],
    inside: Collection[ir.OpBase],
) -> tuple[list[VectorAccess], list[VectorAccess]]:
    """Return loads and stores without those of several elements of a point of which some may be
    outside while others are not: each access of these is made by itself.  inside: see
    `slow_accesses`."""

    def holds(access: VectorAccess) -> bool:
        return access.step == 1 or _is_inside(access, inside) or planner.is_whole(access)

    parts = [p for a in loads for p in ([a] if holds(a) else _apart(a))]
    single = {base(a.op.buffer) for a in stores if not holds(a)}
    if single and planner.aliased:
        return _in_front(parts), []
    return _in_front(parts), [a for a in stores if base(a.op.buffer) not in single]


def _apart(access: VectorAccess) -> list[VectorAccess]:
    return [m.alone for m in access.members] or [access]


def _is_inside(access: VectorAccess, inside: Collection[ir.OpBase]) -> bool:
    return all(op.in_bounds or op in inside for op in access.ops)


def _in_front(loads: Iterable[VectorAccess]) -> list[VectorAccess]:
    """Return the loads that stand in front of all points."""
    return [
        a for a in loads if a.width > 1 or (isinstance(a.buffer, GlobalBuffer) and not a.guards)
    ]
