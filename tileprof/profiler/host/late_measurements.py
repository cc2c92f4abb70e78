"""Measurements of kernels' insides, which are read only after their launches are over.

In: from the runtime, what was read under the token of a launch (its node's index).  Out: numbers in
the stores of the sessions that listened at the launch; in a kernel's description, what came to be
known of it since and how much of it was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from tileprof.profile import KernelInfo, SiteInfo
from tileprof.profiler.tree.totals import DeviceTotals, LaunchTotals
from tileprof.profiler.tree.tree import Node
from tileprof.remarks import Remark
from tileprof.remarks.measured import PartlySeen
from tileprof.runtime.hooks import LateDescription, Measured, SiteDescription

_ALL = 0.99
"""Share of the warps' time, 0 to 1, from which no remark says that sites were partly seen."""


class LateRecorder(Protocol):
    """Recorder that measurements are added to after their launches."""

    closed: bool
    """Whether the recording is over."""

    def take_measured(self, epoch: int, index: int, measured: Measured, *, replayed: bool) -> None:
        """Add measurements to the node of that index."""

    def take_lost(self, what: str, count: int) -> None:
        """Count lost measurements that belong to no known kernel."""


class Late:
    """Takes what is known of launches later, for one period of a recorder."""

    def __init__(self, recorder: LateRecorder, epoch: int) -> None:
        self._recorder = recorder
        self._epoch = epoch

    @property
    def closed(self) -> bool:
        """Whether the recording is over."""
        return self._recorder.closed

    def measured(self, token: int, measured: Measured, *, replayed: bool) -> None:
        """Add to a node; replays of a graph belong to those who listen now."""
        self._recorder.take_measured(self._epoch, token, measured, replayed=replayed)

    def lost(self, what: str, count: int = 0) -> None:
        """Note what was lost of no kernel in particular."""
        self._recorder.take_lost(what, count)


def site_infos(sites: Iterable[SiteDescription]) -> tuple[SiteInfo, ...]:
    """Return sites that the runtime describes, as the profile keeps them."""
    return tuple(SiteInfo(s.id, s.name, s.kind, s.location, s.parent) for s in sites)


def add_late(info: KernelInfo, late: LateDescription) -> KernelInfo:
    """Return a kernel with what came to be known of it; what devices tell of it goes first."""
    return replace(
        info,
        remarks=info.remarks + late.remarks,
        sites=info.sites + site_infos(late.sites),
        attributes={**late.attributes, **info.attributes},
    )


def add_records(info: KernelInfo, launches: list[LaunchTotals]) -> KernelInfo:
    """Return a kernel with how much of its launches was recorded inside, and how much was lost."""
    total = LaunchTotals()
    for each in launches:
        total.take(each)
    if not (total.read or total.warps or total.skipped or total.unread):
        return info
    found: dict[str, int | float] = {"recorded_launches": total.read, "recorded_warps": total.warps}
    missing = {
        "skipped_launches": total.skipped,
        "unread_launches": total.unread,
        "lost_records": total.lost,
    }
    found |= {name: count for name, count in missing.items() if count}
    remarks = info.remarks
    if total.lost and total.whole_ns > total.block_ns > 0:
        share = found["recorded_share"] = total.block_ns / total.whole_ns
        remarks = (*_partly_seen(share), *remarks)
    return replace(info, remarks=remarks, attributes={**info.attributes, **found})


def _partly_seen(share: float) -> tuple[Remark, ...]:
    """Return a remark that sites are those of a part of the launches, if they are."""
    if share >= _ALL:
        return ()
    return (Remark(PartlySeen(share), "measurement", severity="missed"),)


# -- kernels of graphs


def give_to_replays(
    nodes: list[Node],
    launches: list[LaunchTotals | None],
    device: list[DeviceTotals | None],
    kernel_of: dict[int, int],
    captured: str,
) -> None:
    """Give what replays of graphs wrote, which is known by the path of the capture, to the nodes
    below the launches of graphs (those under a scope named `captured`) where the time of replays
    is."""
    roots = [each for each in nodes if each.kind == "scope" and each.name == captured]
    if not roots:
        return
    for node in nodes:
        held = launches[node.index]
        if held is None or not held.has_inside or held.time or device[node.index] is not None:
            continue
        found = [at for root in roots if (at := _below(root, node)) is not None]
        times = {at.index: d.sum for at in found if (d := _of(device, at.index)) is not None}
        if not any(times.values()):
            continue
        whole, before = sum(times.values()), 0
        for index, time in times.items():
            part = held.part(before, before + time, whole)
            part.take(launches[index] or LaunchTotals())
            launches[index], before = part, before + time
            kernel_of.setdefault(index, kernel_of[node.index])
        launches[node.index] = held.without_records()


def _of(device: list[DeviceTotals | None], index: int) -> DeviceTotals | None:
    return device[index] if index < len(device) else None


def _below(root: Node, node: Node) -> Node | None:
    """Return the node that is to `root` what a node is to the tree's root."""
    keys = []
    outer: Node | None = node
    while outer is not None and outer.key is not None:
        keys.append(outer.key)
        outer = outer.parent
    found: Node | None = root
    for key in reversed(keys):
        if found is None:
            return None
        found = found.children.get(key)
    return found
