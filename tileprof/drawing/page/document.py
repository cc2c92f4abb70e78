"""All that a page shows, as JSON values: sums, regions and steps of launches, facts of kernels."""

from __future__ import annotations

import linecache
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tileprof import ir
from tileprof.drawing.boxes import Boxes, covered, united
from tileprof.drawing.machine import Cost, Held, Machine, addresses, holders, patterns
from tileprof.drawing.moved import Moved, Place, Traffic
from tileprof.drawing.pipelines import Pipeline
from tileprof.drawing.watch import LaunchRun, SiteRun, Step, Watch, ring_slots

from .columns import column, regions

MOST_BLOCKS = 1 << 20
"""Blocks of a launch whose sums are kept one by one; a page has no room for more."""
_MOST_CELLS = 1 << 14
"""Elements of a layout on a page, in whole rows from the first."""
_ROWS = {"fragment": 64, "shared": 16}
"""Rows of a layout on a page: swizzles repeat every 8, instructions' layouts every 64 at most."""
_AROUND = 2
"""Lines of source kept after the last op of a kernel."""


def document(watch: Watch, machines: Sequence[Machine]) -> dict[str, Any]:
    """Return the page's data; `machines[n]` is the kernel `watch.kernels[n]` on the target."""
    return {
        "short": {},
        "kernels": [_kernel(k, m) for k, m in zip(watch.kernels, machines)],
        "launches": [_launch(each, machines[each.kernel]) for each in watch.launches],
    }


def _kernel(kernel: ir.Kernel, machine: Machine) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "target": machine.target,
        "problem": machine.problem,
        "source": _source(kernel),
        "notes": [
            [each.line, each.subject, each.decision, each.against, each.missed]
            for each in machine.notes
        ],
        "costs": [_cost(each) for each in machine.costs],
        "pipelines": [_pipeline(each) for each in machine.pipelines],
        "layouts": [made for each in machine.buffers for made in _layout(each)],
    }


def _source(kernel: ir.Kernel) -> dict[str, Any]:
    """Return the lines of the file that most ops are from, from the kernel's first line on."""
    spans = [op.span for op in kernel.ops() if op.span is not None]
    if kernel.location is not None:
        spans.append(kernel.location)
    files = [span.file for span in spans]
    if not files:
        return {"file": "", "first": 1, "lines": []}
    file = max(set(files), key=files.count)
    numbers = [span.line for span in spans if span.file == file]
    first, last = min(numbers), max(numbers) + _AROUND
    lines = linecache.getlines(file)[first - 1 : last]
    return {"file": file, "first": first, "lines": [line.rstrip("\n") for line in lines]}


def _launch(launch: LaunchRun, machine: Machine) -> dict[str, Any]:
    kept = min(launch.blocks, MOST_BLOCKS)
    span = launch.op.span
    least = {
        each: covered(_covered([each])) * each.site.bytes
        for each in launch.sites
        if each.cover is not None
    }
    return {
        "kernel": launch.kernel,
        "line": span.line if span is not None else 0,
        "grid": list(launch.grid),
        "read": column(launch.read[:kept]),
        "written": column(launch.written[:kept]),
        "guarded": column(launch.guarded[:kept]),
        "idle": column(launch.idle[:kept]),
        "tensors": [_tensor(launch, sites) for sites in launch.tensors()],
        "sites": [_site(each, least.get(each), machine, launch.traffic) for each in launch.sites],
        "requests": _requests(launch.traffic),
        "rings": ring_slots(launch),
        "shown": list(launch.shown),
        "steps": [_steps(launch.steps[block]) for block in launch.shown],
        "dropped": launch.dropped,
    }


def _covered(sites: Sequence[SiteRun]) -> Boxes:
    """Return the elements of a tensor that these sites access, by block."""
    parts = [each.cover.boxes() for each in sites if each.cover is not None]
    return united(Boxes.joined(parts, len(sites[0].shape)))


def _tensor(launch: LaunchRun, sites: Sequence[SiteRun]) -> dict[str, Any]:
    first = sites[0]
    held: dict[str, Any] = {
        "name": first.site.buffer,
        "dtype": first.site.dtype,
        "width": first.site.bytes,
        "shape": list(first.shape),
    }
    for key, own in (
        ("read", [each for each in sites if each.reads]),
        ("written", [each for each in sites if each.writes]),
    ):
        if own:
            boxes = _covered(own)
            held[key] = {
                "bytes": sum(each.bytes for each in own),
                "least": covered(boxes) * first.site.bytes,
                "regions": regions(boxes, launch.grid, first.shape),
            }
    return held


def _requests(traffic: Traffic | None) -> dict[str, Any] | None:
    """Return the requests of all blocks by place, and what accesses shared memory beside them;
    None where they are not counted."""
    if traffic is None:
        return None
    return {
        "places": [
            {"file": place.file, "line": place.line, "access": place.access,
             "buffer": place.buffer, "space": place.space, **_moved(place, moved)}
            for place, moved in traffic.places.items()
        ],
        "uncounted": [list(each) for each in traffic.uncounted],
        "byMachineCode": traffic.by_machine_code,
    }  # fmt: skip


def _moved(place: Place, moved: Moved) -> dict[str, Any]:
    return {
        "way": place.way,
        "requests": moved.requests,
        "taken": moved.taken,
        "needed": moved.needed,
        "bytes": moved.bytes,
    }


def _site(
    each: SiteRun, least: int | None, machine: Machine, traffic: Traffic | None
) -> dict[str, Any]:
    site = each.site
    key = site.file, site.line, site.access, site.buffer, site.space
    places = traffic.places.items() if traffic is not None else ()
    costs = [
        cost
        for cost in machine.costs
        if (cost.line, cost.access, cost.buffer) == (site.line, site.access, site.buffer)
    ]
    return {
        "op": site.op,
        "file": site.file,
        "line": site.line,
        "buffer": site.buffer,
        "space": site.space,
        "dtype": site.dtype,
        "access": site.access,
        "width": site.bytes,
        "shape": list(each.shape),
        "stages": each.stages,
        "accesses": each.accesses,
        "elements": each.elements,
        "guarded": each.guarded,
        "points": each.points,
        "idle": each.idle,
        "bytes": each.bytes,
        "least": least,
        "costs": [_cost(each) for each in costs],
        "moved": [
            _moved(place, moved)
            for place, moved in places
            if (place.file, place.line, place.access, place.buffer, place.space) == key
        ],
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "line": cost.line,
        "access": cost.access,
        "buffer": cost.buffer,
        "space": cost.space,
        "width": cost.width,
        "taken": cost.taken,
        "needed": cost.needed,
    }


def _pipeline(held: Pipeline) -> dict[str, Any]:
    return {
        "kind": held.kind,
        "slots": held.slots,
        "buffers": list(held.buffers),
        "fills": [[each.op, each.line, each.buffer] for each in held.fills],
        "reads": [[each.op, each.line, each.buffer] for each in held.reads],
        "bytes": held.bytes,
        "arrivals": held.arrivals,
        "lag": held.lag,
        "ahead": held.ahead,
        "pending": held.pending,
        "cluster": held.cluster,
        "persistent": held.persistent,
    }


def _steps(steps: Sequence[Step]) -> dict[str, Any]:
    """Return columns; indices are cut to the rank of each step's buffer, one after the other."""
    return {
        "count": len(steps),
        "site": column([each.site for each in steps]),
        "trip": column([each.trip for each in steps]),
        "elements": column([each.elements for each in steps]),
        "guarded": column([each.guarded for each in steps]),
        "points": column([each.points for each in steps]),
        "active": column([each.active for each in steps]),
        "low": column([index for each in steps for index in each.low]),
        "high": column([index for each in steps for index in each.high]),
    }


def _layout(held: Held) -> list[dict[str, Any]]:
    """Return a drawing of a buffer's layout; none where it cannot be drawn as rows and columns."""
    rows = held.shape[-2] if len(held.shape) > 1 else 1
    columns = held.shape[-1]
    kept = max(min(rows, _ROWS[held.space], _MOST_CELLS // max(columns, 1)), 1)
    made: dict[str, Any] = {
        "name": held.name,
        "space": held.space,
        "dtype": str(held.dtype),
        "width": held.dtype.bytes,
        "shape": list(held.shape),
        "layout": held.layout,
        "rows": rows,
        "columns": columns,
        "kept": kept,
    }
    registers, shared = held.registers, held.shared
    if registers is not None and len(held.shape) <= 2:
        found = holders(registers)
        cells = kept * columns
        made["thread"] = column(found.thread[:cells])
        made["register"] = column(found.register[:cells])
        made["copies"] = found.copies
        made["threads"] = registers.threads
        made["registers"] = registers.registers_per_thread
        return [made]
    if shared is not None:
        made["address"] = column(addresses(shared, np.arange(kept)[:, None], np.arange(columns)))
        made["bytes"] = shared.bytes
        made["slots"] = math.prod(held.shape[:-2])
        made["patterns"] = [
            [each.name, each.taken, each.in_rows, each.needed] for each in patterns(shared)
        ]
        return [made]
    return []
