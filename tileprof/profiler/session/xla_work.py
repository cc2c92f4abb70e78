"""Work of kernels that XLA launched, by the instructions that they run.

In: nodes, with what the host and devices did at them; what gives the work of XLA's programs by
their ranges.  Out: `bytes` and `flops` at kernels below these ranges, for all their launches.

XLA opens a range around each run of a module, and one around each of its steps (thunks), which
names the instruction. Where that is missing, as in graphs that XLA makes of several steps, the
kernel's name tells: XLA names its own kernels after instructions, every character that is neither
letter, digit nor `_` turned to `_`. Several kernels of one step share its work by their time.

Kernels of libraries in such a graph have neither. They share the work of the module's products of
which no kernel is known, by their time too: each run of the graph runs each of these once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from tileprof.profile import KernelInfo
from tileprof.profiler.frameworks.hlo_work import Work
from tileprof.profiler.frameworks.jax_programs import GRAPH, InstructionWork
from tileprof.profiler.tree.totals import DeviceTotals, HostTotals
from tileprof.profiler.tree.tree import Node

_MODULE = re.compile(r"XlaModule:#")
_PROGRAM = re.compile(r"Xla(Module|CompileBackend):#")
_STEP = re.compile(r"[#,]hlo_op=([^,#]+)")
"""Part of the name of the range of a step: `Thunk:#hlo_op=fusion.3,unique_hlo_op_id=5#`."""
_OTHERS = re.compile(r"\W", re.ASCII)

_Named = dict[str, Work | None]


def give_xla_work(
    nodes: list[Node],
    host: list[HostTotals | None],
    device: list[DeviceTotals | None],
    find: Callable[[Mapping[str, set[str]]], Mapping[str, InstructionWork]],
) -> dict[int, str]:
    """Add the work of kernels that are below ranges of XLA's programs to what `host` has of them.

    `find` gives the work of programs by the names of their ranges; it is given all ranges of XLA
    with the instructions that were seen in them. Kernels that know their work keep it.
    Return, by index of the node, the types that kernels multiply, of those with products.
    """
    multiplied: dict[int, str] = {}
    modules, seen = _ranges(nodes)
    work = find(seen)
    by_kernel = {name: _by_kernel(known) for name, known in work.items()}
    steps: dict[int, Node] = {}
    shared: dict[int, list[int]] = {}
    graphs: dict[int, Node] = {}
    unnamed: dict[int, list[int]] = {}
    named: dict[str, Counter[str]] = {}
    for node in nodes[1:]:
        at, above = node.index, node.parent.index if node.parent is not None else 0
        known = work.get(modules.get(at, ""))
        if known is None:
            continue
        if above in steps and modules.get(above) == modules[at] != node.name:
            steps[at] = steps[above]
        if above in graphs and at not in steps:
            graphs[at] = graphs[above]
        if node.kind == "scope" and _instruction(node) in known:
            steps[at] = node
        elif node.kind == "scope" and GRAPH.match(_instruction(node)):
            graphs[at] = node
        did = device[at]
        if node.kind != "kernel" or did is None or _known(host[at]):
            continue
        launches = named.setdefault(modules[at], Counter())
        if at in steps:
            shared.setdefault(steps[at].index, []).append(at)
            instruction = _instruction(steps[at])
            launches[instruction] = max(launches[instruction], did.count)
        elif (of_kernel := by_kernel[modules[at]].get(node.name)) is not None:
            _add(host, at, of_kernel, did.count)
            multiplied[at] = of_kernel.multiplied
            launches[node.name] += did.count
        elif at in graphs and node.name not in by_kernel[modules[at]]:
            unnamed.setdefault(graphs[at].index, []).append(at)
    for at, kernels in shared.items():
        step = nodes[at]
        of_step = work[modules[at]][_instruction(step)]
        if of_step is not None:
            _share(host, device, kernels, of_step, _runs(host[at], device, kernels))
            multiplied |= dict.fromkeys(kernels, of_step.multiplied)
    for at, kernels in unnamed.items():
        runs = _runs(host[at], device, kernels)
        products = _products(work[modules[at]], named[modules[at]], runs)
        launched = sum(did.count for kernel in kernels if (did := device[kernel]) is not None)
        if products and launched >= runs * len(products):
            kinds = {each.multiplied for each in products}
            whole = Work(sum(each.bytes for each in products), sum(each.flops for each in products))
            _share(host, device, kernels, whole, runs)
            multiplied |= dict.fromkeys(kernels, kinds.pop() if len(kinds) == 1 else "")
    return {at: kind for at, kind in multiplied.items() if kind}


def _products(known: InstructionWork, launches: Mapping[str, int], runs: int) -> list[Work]:
    """Return the work of the products of a module that ran in a graph, `runs` times, without a
    kernel of their name. `launches` has those that did, by instruction or kernel."""
    return [
        of
        for name, of in known.items()
        if of is not None
        and of.multiplied
        and max(launches.get(name, 0), launches.get(_OTHERS.sub("_", name), 0)) < runs / 2
    ]


def with_product(info: KernelInfo, kinds: set[str]) -> KernelInfo:
    """Return a kernel with the type that its products multiply; without, where they differ."""
    if len(kinds) != 1:
        return info
    return replace(info, attributes={**info.attributes, "multiplies": next(iter(kinds))})


def _ranges(nodes: list[Node]) -> tuple[dict[int, str], dict[str, set[str]]]:
    """Return the innermost range of a program by index of the nodes in it, itself included.

    And by name of each range of XLA's programs, the instructions whose steps ran in it.
    """
    modules: dict[int, str] = {}
    seen: dict[str, set[str]] = {}
    for node in nodes[1:]:
        above = modules.get(node.parent.index) if node.parent is not None else None
        if node.kind == "scope" and _PROGRAM.search(node.name):
            seen.setdefault(node.name, set())
            above = node.name if _MODULE.search(node.name) else above
        elif above is not None and node.kind == "scope" and (step := _STEP.search(node.name)):
            seen[above].add(step[1])
        if above is not None:
            modules[node.index] = above
    return modules, seen


def _instruction(step: Node) -> str:
    """Return the instruction that a range names; the range's own name where it has no others."""
    said = _STEP.search(step.name)
    return said[1] if said is not None else step.name


def _by_kernel(work: InstructionWork) -> _Named:
    """Return the work by the name of a kernel; None where instructions of that name differ."""
    found: _Named = {}
    for name, of in work.items():
        kernel = _OTHERS.sub("_", name)
        found[kernel] = of if found.get(kernel, of) == of else None
    return found


def _known(said: HostTotals | None) -> bool:
    metrics = (said.metrics if said is not None else None) or {}
    return bool(metrics.get("bytes") or metrics.get("flops"))


def _runs(step: HostTotals | None, device: list[DeviceTotals | None], kernels: list[int]) -> int:
    """Return how often a step ran on a device: at most once for each launch of some kernel."""
    launches = max(did.count for at in kernels if (did := device[at]) is not None)
    visits = step.count if step is not None else 0
    return min(visits or launches, launches)


def _share(
    host: list[HostTotals | None],
    device: list[DeviceTotals | None],
    kernels: list[int],
    work: Work,
    runs: int,
) -> None:
    times = [did.sum if (did := device[at]) is not None else 0 for at in kernels]
    whole = sum(times)
    for at, time in zip(kernels, times, strict=True):
        part = time / whole if whole else 1 / len(kernels)
        _add(host, at, work, runs * part)


def _add(host: list[HostTotals | None], at: int, work: Work, runs: float) -> None:
    """Add the work of so many runs to a copy of what the host knows of a node."""
    totals = HostTotals()
    before = host[at]
    if before is not None:
        totals.take(before)
    for metric, amount in (("bytes", work.bytes), ("flops", work.flops)):
        if amount:
            totals.add(metric, round(amount * runs))
    host[at] = totals
