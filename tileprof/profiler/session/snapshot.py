"""Conversion of what the recorder holds for a session to a profile.

cpu_time   of a scope: its wall time. Own time is what was measured between events, less what
           operations and calls in it took, dealt out over the scope and the frames below it
           (down to the next scope) in proportion to their samples; with no samples it stays
           with the scope
           of an operation or call: its wall time; own time is what no other one inside took
           of a frame outside of scopes: the time its samples stand for
           of a kernel: the wall time of its launches
time       of a kernel: on its device. Of a site: the kernel's time in the proportion of the
           site's time, added up over blocks, to that of the blocks; so sites never exceed
           their kernel, however many blocks ran at once. `block_time` is the sum itself
"""

from __future__ import annotations

from typing import TypeVar

from tileprof.profile import KernelInfo, Sketch, TreeBuilder
from tileprof.profile.node_names import CAPTURED
from tileprof.profiler.frameworks.jax_programs import programs
from tileprof.profiler.host.late_measurements import give_to_replays
from tileprof.profiler.host.recorder import Recorder
from tileprof.profiler.host.store import Store
from tileprof.profiler.session.kernel_sites import add_samples, add_sites
from tileprof.profiler.session.op_bytes import give_op_bytes
from tileprof.profiler.session.xla_work import give_xla_work
from tileprof.profiler.symbols.native_code import Lookup
from tileprof.profiler.tree import metrics
from tileprof.profiler.tree.numbers import Numbers
from tileprof.profiler.tree.totals import DeviceTotals, HostTotals, LaunchTotals, MemoryTotals
from tileprof.profiler.tree.tree import NATIVE, Node

_Totals = TypeVar("_Totals", HostTotals, LaunchTotals)


def gather(recorder: Recorder, store: Store) -> Numbers:
    """Copy together what a session was given before and what runs now, if it is active."""
    # In one go: between the two parts another session's end would hand out what is in the tree.
    with recorder.no_changes():
        recorder.collect()
        allocated = recorder.memory_of(store)
        nodes = recorder.tree.nodes[:]
        host: list[HostTotals | None] = [store.host.get(i) for i in range(len(nodes))]
        launches: list[LaunchTotals | None] = [store.launches.get(i) for i in range(len(nodes))]
        device: list[DeviceTotals | None] = [store.device.get(i) for i in range(len(nodes))]
        memory: list[MemoryTotals | None] = [allocated.get(i) for i in range(len(nodes))]
        sketches = store.sketches.sketches()
        if store in recorder.active:
            for node in nodes[1:]:
                host[node.index] = _host_sum(host[node.index], node.host)
                if node.launches is not None and node.launches.count:
                    launches[node.index] = _sum(LaunchTotals(), launches[node.index], node.launches)
            for index, elapsed in recorder.running().items():
                if 0 < index < len(nodes):
                    extra = HostTotals()
                    extra.own_ns = elapsed
                    host[index] = _host_sum(host[index], extra)
    _give_work_to_kernels(nodes, host)
    multiplied = give_xla_work(nodes, host, device, programs.find) if len(programs) else {}
    give_op_bytes(nodes, host, launches, device)
    give_to_replays(nodes, launches, device, recorder.kernel_of, CAPTURED)
    return Numbers(nodes, host, launches, device, memory, sketches, multiplied)


def device_ns(numbers: Numbers) -> tuple[int, int]:
    """Return the time that devices worked: as launches told, and as devices told later."""
    launched = sum(launches.time for launches in numbers.launches if launches is not None)
    return launched, sum(
        device.sum
        for device in numbers.device
        if device is not None and _DEVICE_METRICS.get(device.what, "time") == "time"
    )


def _give_work_to_kernels(nodes: list[Node], host: list[HostTotals | None]) -> None:
    """Give facts of launches to their kernel, where all such launches are of one kernel."""
    for node in nodes:
        said = host[node.index] if node.kind == "api" else None
        if said is None or not said.metrics:
            continue
        kernels = [each for each in node.children.values() if each.kind == "kernel"]
        if len(kernels) == 1 and kernels[0].index < len(nodes):
            at = kernels[0].index
            work = HostTotals()
            work.metrics = said.metrics
            rest = HostTotals()
            rest.take(said)
            rest.metrics = None
            host[node.index], host[at] = rest, _host_sum(host[at], work) or work


def _host_sum(before: HostTotals | None, now: HostTotals) -> HostTotals | None:
    if before is None and now.empty() and not now.metrics and not now.thread:
        return None
    return _sum(HostTotals(), before, now)


def _sum(total: _Totals, before: _Totals | None, now: _Totals) -> _Totals:
    if before is not None:
        total.take(before)
    total.take(now)
    return total


def host_times(numbers: Numbers) -> list[int]:
    """Return the own `cpu_time` of each frame and scope, in ns."""
    nodes, host = numbers.nodes, numbers.host
    weights = [totals.sampled_ns if totals else 0 for totals in host]
    measured = _measured(nodes, host)
    scope = scopes_around(nodes)
    total = [0] * len(nodes)
    for node in nodes:
        total[scope[node.index]] += weights[node.index]
    own, dealt = [0] * len(nodes), [0] * len(nodes)
    for node in nodes[1:]:
        at, weight = scope[node.index], weights[node.index]
        if node.native and node.kind != "scope":
            own[node.index] = measured[node.index]
        elif at == 0:
            own[node.index] = weight
        elif total[at]:
            # Whole nanoseconds, such that the shares add up to what was measured.
            before, dealt[at] = dealt[at], dealt[at] + weight
            own[node.index] = (
                measured[at] * dealt[at] // total[at] - measured[at] * before // total[at]
            )
        else:
            own[node.index] = measured[node.index]
    return own


def _measured(nodes: list[Node], host: list[HostTotals | None]) -> list[int]:
    """Return the times measured at scopes, operations and calls themselves, in ns.

    Python's clock tells its scopes from each other, the native one operations, calls and ranges.
    Where some of both are inside each other, each of the two has counted what is the other's.
    """
    clock = [totals.own_ns if totals else 0 for totals in host]
    own = [totals.own_ns - totals.claimed_ns if totals else 0 for totals in host]
    inside: list[tuple[int, int]] = []
    for node in nodes[1:]:
        if node.kind != "scope" or node.native:
            continue
        around, operation = node.parent, 0
        while around is not None:
            if around.native:
                operation = operation or around.index
            elif operation and around.kind == "scope":
                # It lost this time twice: to this scope, and to the operation around it.
                own[around.index] += clock[node.index]
            around = around.parent
        if operation:
            inside.append((node.index, operation))
    for scope, operation in inside:
        own[operation] -= own[scope]
    return [max(each, 0) for each in own]


def scopes_around(nodes: list[Node]) -> list[int]:
    """Return, for each node, the index of the innermost scope around it, its own for a scope; 0
    outside."""
    scope = [0] * len(nodes)
    for node in nodes[1:]:
        if node.kind == "scope":
            scope[node.index] = node.index
        elif node.parent is not None:
            scope[node.index] = scope[node.parent.index]
    return scope


def build_tree(
    builder: TreeBuilder,
    numbers: Numbers,
    kernels: list[KernelInfo],
    kernel_of: dict[int, int],
    frames: bool,
    phase: str = "",
    native: Lookup | None = None,
) -> tuple[dict[int, int], list[int]]:
    """Add all nodes that have numbers below to a tree, and return the kernel of each kernel node.

    And for each of the recorder's nodes which one it has become, -1 for none. Without `frames`,
    what frames hold goes to the scope around them. `phase` comes before theirs. `native` gives the
    functions of native frames, which are left out without it.
    """
    for metric in metrics.ADDED:
        builder.declare(metric)
    wanted, own = numbers.wanted, host_times(numbers)
    work = {metric: work_beyond(numbers, metric) for metric in ("flops", "bytes")}
    made = [-1] * len(numbers.nodes)
    variants: dict[int, tuple[int, int]] = {}
    for node in numbers.nodes[1:]:
        index, above = node.index, made[node.parent.index] if node.parent is not None else -1
        if (node.kind == "frame" and not frames) or _is_counted_above(numbers, node):
            made[index] = above
        elif not wanted[index]:
            continue
        elif node.kind == NATIVE:
            made[index] = _add_native(builder, above, node, native, phase)
        else:
            phases = f"{phase} {node.phase}".strip()
            made[index] = builder.child(above, node.kind, node.name, node.location, phases)
        if (totals := numbers.host[index]) is not None and made[index] >= 0:
            beyond = {metric: values[index] for metric, values in work.items()}
            _add_host(builder, made[index], totals, own[index], beyond)
        launches, device = numbers.launches[index], numbers.device[index]
        if launches is not None:
            time = launches.time + (device.sum if device is not None else 0)
            _add_launches(builder, made[index], launches, time, kernels[kernel_of[index]])
        if device is not None:
            counted, sketch = bool(launches and launches.count), numbers.sketches.get(index)
            _add_device(builder, made[index], device, sketch, counted=counted)
        if (memory := numbers.memory[index]) is not None and made[index] >= 0:
            _add_memory(builder, made[index], memory)
        if index in kernel_of:
            # Variants of one kernel share a node; it shows the one that took the most time.
            time = (launches.time if launches else 0) + (device.sum if device else 0)
            variant = (time, kernel_of[index])
            variants[made[index]] = max(variants.get(made[index], variant), variant)
    return {node: kernel for node, (_, kernel) in variants.items()}, made


def _add_native(
    builder: TreeBuilder, above: int, node: Node, native: Lookup | None, phase: str
) -> int:
    """Add the functions of a native frame, and return the innermost one's node."""
    if native is None or node.native_call is None:
        return above
    phases = f"{phase} {node.phase}".strip()
    for each in native(node.native_call):
        above = builder.child(above, "frame", each.name, each.place, phases)
    return above


def work_beyond(numbers: Numbers, metric: str) -> list[int | float]:
    """Return per node what a scope says of its `metric` beyond what is known of the parts inside.

    A scope's `flops=` covers all that happens in it: kernels that know their own are not counted
    twice, and neither are scopes inside that say theirs. What an operation knows is its own: of
    operations inside one another the outermost knows, and backward work hangs under it beside it.
    """
    below: list[int | float] = [0] * len(numbers.nodes)
    beyond = list(below)
    for node in reversed(numbers.nodes[1:]):
        at, launches, host = node.index, numbers.launches[node.index], numbers.host[node.index]
        inside = below[at] + getattr(launches, metric, 0) + getattr(numbers.device[at], metric, 0)
        said = (host.metrics or {}).get(metric, 0) if host else 0
        beyond[at] = said if node.kind == "op" else max(said - inside, 0)
        if node.parent is not None:
            below[node.parent.index] += inside + beyond[at]
    return beyond


def _is_counted_above(numbers: Numbers, node: Node) -> bool:
    """Return whether an operation is one with that around it, which only calls it under the same
    name."""
    above, host = node.parent, numbers.host[node.index]
    if node.kind != "op" or above is None or (host is not None and host.count):
        return False
    return (above.kind, above.name, above.phase) == (node.kind, node.name, node.phase)


def _add_host(
    builder: TreeBuilder,
    node: int,
    totals: HostTotals,
    own: int,
    work: dict[str, int | float],
) -> None:
    values = {"cpu_time": own, "count": totals.count, "samples": totals.samples}
    for metric, value in {**values, **(totals.metrics or {}), **work}.items():
        if value:
            if metric not in values:
                builder.declare(metrics.of_user(metric))
            builder.add(node, metric, value)


def _add_launches(
    builder: TreeBuilder, node: int, launches: LaunchTotals, time: int, info: KernelInfo
) -> None:
    """Add what launches told; `time` is the kernel's, as the launches or its device told it."""
    values = {
        "time": launches.time,
        "cpu_time": launches.wall,
        "count": launches.count,
        "flops": launches.flops,
        "bytes": launches.bytes,
        "blocks": launches.blocks,
        "guarded": launches.guarded,
        "lost": launches.lost,
    }
    if launches.longest >= 0:
        values |= {"time_min": launches.shortest, "time_max": launches.longest}
    for metric, value in values.items():
        builder.add(node, metric, value)
    for sites in list(launches.sites.values()):
        add_sites(builder, node, sites, launches, time, info)
    if launches.samples:
        add_samples(builder, node, launches.samples.values(), time, info)


_DEVICE_METRICS = {
    "sync": "sync_time",
    "overhead": "overhead_time",
    "idle": "idle_time",
}
"""Metric of the sum of a kind of work; `time` for kinds not listed."""


def _add_device(
    builder: TreeBuilder, node: int, totals: DeviceTotals, sketch: Sketch | None, counted: bool
) -> None:
    """Add what a device did; `counted`: its launches are counted already."""
    metric = _DEVICE_METRICS.get(totals.what, "time")
    builder.add(node, metric, totals.sum)
    if not counted:
        builder.add(node, "count", totals.count)
    if totals.slack:
        builder.add(node, "slack_time", totals.slack)
    builder.add(node, "bytes", totals.bytes)
    builder.add(node, "blocks", 0 if counted else totals.blocks)
    if totals.most >= 0 and metric == "time":
        builder.add(node, "time_min", totals.least)
        builder.add(node, "time_max", totals.most)
    if sketch is not None:
        builder.sketch(node, metric, sketch)
    for counter, value in totals.counters.items():
        builder.declare(counter)
        builder.add(node, counter.name, value)


def _add_memory(builder: TreeBuilder, node: int, totals: MemoryTotals) -> None:
    values = {
        "allocated_bytes": totals.allocated,
        "allocations": totals.allocations,
        "peak_bytes": totals.peak,
        "live_bytes": totals.live,
        "lifetime": totals.lifetime,
        "growth_bytes": totals.growth,
    }
    for metric, value in values.items():
        builder.add(node, metric, value)
    if totals.growth:
        builder.add(node, "grown_steps", totals.grown_steps)
    if totals.sketch is not None:
        builder.sketch(node, "lifetime", totals.sketch)
