"""Tensors laid out or counted for one Triton kernel, results packed after it: of `needless-pass`.

Static: the program's text (`program/laid_out`): a transposing copy, a stack of what stands
elsewhere, or a mask made of indices that one kernel alone loads; a part of a result that alone is
kept. The kernel can reckon the same addresses, or compute the indices.

Dynamic: the time of PyTorch's kernels that do it, by the user's line. Where a recording has no
lines: those whose names fit, in the scope of the launch, as often as the launch, if no other call
of the text copies. Elements that are left out, k - 1 of k, cost the kernel sectors as well:

    loads    k - 1 times the needed bytes more
    stores   2k - 1 times more: sectors that are not written whole are read before they are

Where its accesses are apart in the machine code, what `uncoalesced-global` takes from them goes
with the pass, since the elements stand side by side without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.contexts import DEPENDENT, Contexts, Mask
from tileprof.analyzer.drafts import Draft
from tileprof.analyzer.estimates import Saving
from tileprof.analyzer.findings import Evidence, Place, duration, percent
from tileprof.analyzer.numbers.shared import COLD, LONGEST_SAVING
from tileprof.analyzer.program.host_passes import passes_written
from tileprof.analyzer.program.laid_out import LaidOut, Order, laid_out
from tileprof.analyzer.program.triton.kernels import kernels_of
from tileprof.analyzer.rules import coalescing
from tileprof.analyzer.rules.numbers.memory import (
    LAID_OUT_KEPT,
    LAID_OUT_LEAST,
    LAID_OUT_SECTORS,
    LAID_OUT_UNSURE,
    NEEDLESS_PASS_GOES,
)
from tileprof.errors import Location
from tileprof.profile import seen_at

_COPY = r"direct_copy_kernel"
_KERNELS: dict[Order, str] = {
    "turned": _COPY, "packed": _COPY, "joined": rf"CatArray|{_COPY}",
    "counted": rf"arange|compare_scalar|CUDAFunctor|{_COPY}",
}  # fmt: skip
"""Names of PyTorch's kernels that do it."""
_TITLES: dict[Order, str] = {
    "turned": "{call} is a pass over all of {tensor} for {kernel} alone",
    "joined": "{call} is a pass over all that it joins for {kernel} alone",
    "counted": "{call} holds nothing but indices, for {kernel} alone",
    "packed": "{call} is a pass over a result that {kernel} could store as it is kept",
}
_WAYS: dict[Order, str] = {
    "turned": "Give the kernel {tensor} itself with its strides, and take its elements in the order"
    " in which they are stored ({accesses}).",
    "joined": "Give the kernel each tensor by itself, and load from where the elements are"
    " ({accesses}).",
    "counted": "Compute it in the kernel: `{parameter}` follows from the index alone ({accesses}),"
    " so a comparison takes the place of a load and of the passes that make the tensor.",
    "packed": "Make {tensor} in the form that is kept, and store there ({accesses}): no element"
    " between is needed.",
}


def find(tree: Contexts) -> Iterator[Draft]:
    """Each such call with enough of the time."""
    cases = {node: case for case in tree.program.kernels for node in case.nodes}
    for each, file, nodes, kernels in seen(tree):
        time = float(tree.time[nodes].sum())
        if tree.share(time) >= COLD and kernels[0] in cases:
            yield _draft(tree, each, file, cases[kernels[0]], nodes, kernels)


def seen(tree: Contexts) -> Iterator[tuple[LaidOut, str, list[int], list[int]]]:
    """Yield such calls, each with its file, the nodes of PyTorch's kernels that do it, and its
    kernel's."""
    sources = tree.profile.tables.sources
    work = tree.kind("kernel") & (tree.time > 0) & ~tree.compiling
    for file, text in sources.items():
        kernels = kernels_of(sources.values(), text)
        found = laid_out(text, kernels) if kernels else ()
        for each in found:
            passes = np.flatnonzero(
                work & _named(tree, rf".*at::.*({_KERNELS[each.how]})")
            ).tolist()
            works = np.flatnonzero(work & _named(tree, f"{re.escape(each.kernel)}$")).tolist()
            nodes = [node for node in passes if _is_at(tree, node, file, each.lines)]
            if nodes:
                works = [node for node in works if _is_at(tree, node, file, each.launch)]
            elif len(works) == 1 and len(found) == 1 and not _copies(text):
                nodes = [node for node in passes if _is_beside(tree, node, works[0])]
            if nodes and works:
                yield each, file, nodes, works


def _named(tree: Contexts, pattern: str) -> Mask:
    """Nodes whose names begin with what is wanted; PyTorch's, after the type of their result."""
    wanted = re.compile(rf"(void )?({pattern})", re.DOTALL)
    return tree.where(lambda symbol: bool(wanted.match(symbol.name)))


def _copies(text: str) -> bool:
    """Whether other calls of a text copy or cast, besides what is counted."""
    return any(count for how, count in passes_written(text).items() if how == "copied")


def _is_at(tree: Contexts, node: int, file: str, lines: range) -> bool:
    place = tree.line(node)
    return place is not None and place.file == file and place.line in lines


def _is_beside(tree: Contexts, node: int, work: int) -> bool:
    """Whether two nodes without lines are in one scope, and ran as often."""
    same = tree.count[node] == tree.count[work] and tree.scopes[node] == tree.scopes[work]
    return bool(same) and tree.line(node) is None and tree.line(work) is None


def _draft(
    tree: Contexts, each: LaidOut, file: str, case: KernelCase, nodes: list[int],
    kernels: list[int],
) -> Draft:  # fmt: skip
    time, kernel = (float(tree.time[held].sum()) for held in (nodes, kernels))
    between = float(tree.gaps_before(tree.kind("kernel"), DEPENDENT)[nodes].sum())
    beside = _of_kernel(tree, each, file, case, kernels)
    low, mid, high = (
        part * time + other * kernel
        for part, other in zip(NEEDLESS_PASS_GOES, (beside.low, beside.mid, beside.high))
    )
    # Without the pass, the kernel may have to take its elements in an order that costs more.
    low = LAID_OUT_UNSURE * time if each.how in ("turned", "joined") else low
    peak = case.roofs.memory_peak
    least = float(tree.bytes[kernels].sum()) / peak.value * 1e9 if peak else 0.0
    stays = (1 - beside.high) * (1 - LAID_OUT_KEPT) * kernel if beside.high < COLD else 0.0
    kept = min(kernel, max(stays, LAID_OUT_LEAST * least))
    high = max(mid, time + kernel - kept)
    lines = ", ".join(map(str, each.accesses[:3]))
    words = {
        "call": each.call, "tensor": each.tensor, "kernel": each.kernel,
        "parameter": each.parameter, "accesses": f"line {lines}",
    }  # fmt: skip
    launches = float(tree.count[nodes].sum())
    text = (
        f"{launches:,.0f} launches take {duration(time / max(1.0, launches))} each,"
        f" {percent(tree.share(time))} of {tree.whose}"
    )
    evidence = [
        Evidence("static", f"nothing else than {each.kernel} (line {each.launch[0]}) uses it"),
        Evidence("activities", text),
    ]
    if beside.mid >= COLD:
        share = percent(beside.mid)
        evidence.append(Evidence("activities", f"needless sectors take {share} of the kernel's"))
    place = tree.place(max(nodes, key=lambda node: float(tree.time[node])))
    location = tree.line(nodes[0]) or Location(file, (*each.accesses, *each.lines)[0])
    return Draft(
        "suggestion", _TITLES[each.how].format(**words),
        Place(each.kernel, place.path, place.op, location), tuple(evidence),
        _WAYS[each.how].format(**words), "",
        tree.saving(min(low, mid), mid + between, max(mid, high) + between, between, between),
        nodes=(*nodes, *(kernels if beside.mid > 0 else ())),
        gaps=tree.ended_by(nodes, DEPENDENT), launches_go=beside.mid <= 0,
    )  # fmt: skip


def _of_kernel(
    tree: Contexts, each: LaidOut, file: str, case: KernelCase, kernels: list[int]
) -> Saving:
    """What the kernel saves of its own time by what it then need not move."""
    parts = [_sectors(tree, each, file, case, kernels)]
    if each.how != "packed":
        parts += [
            draft.saving for draft in coalescing.find(case)
            if draft.saving and (at := draft.place.location) and at.line in each.accesses
        ]  # fmt: skip
    return max(parts, key=lambda saving: saving.mid)


def _sectors(
    tree: Contexts, each: LaidOut, file: str, case: KernelCase, kernels: list[int]
) -> Saving:
    """What sectors with elements that are left out take of a kernel's time."""
    peak, kernel = case.roofs.memory_peak, float(tree.time[kernels].sum())
    held = seen_at(tree.profile.tables.launches, each.kernel, file, each.launch)
    sizes = {t.elements * t.width for e in held if (t := e.tensor(each.parameter)) is not None}
    if each.apart <= 1 or peak is None or len(sizes) != 1 or not kernel:
        return Saving(0.0, 0.0, 0.0)
    launches = sum(float(tree.count[node]) * tree.part_in_steps(node) for node in kernels)
    needed = sizes.pop() / each.apart * launches
    more = (2 * each.apart - 1 if each.how == "packed" else each.apart - 1) * needed
    low, mid, high = (
        min(LONGEST_SAVING, part * more / peak.value * 1e9 / kernel) for part in LAID_OUT_SECTORS
    )
    return Saving(low, mid, high)
