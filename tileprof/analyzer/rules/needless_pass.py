"""Passes over a whole tensor before or after a kernel that could do without: casts, copies, fills.

Static: the program's text (`program/host_passes`): a call whose result one Triton kernel alone
reads, or that alone reads what one kernel wrote. Dynamic: the time of the kernels and copies of
that call, by the user's line. Where a recording has no lines, the only kernels of that kind in the
scope of the launch that ran as often as the launch did, if the text has no other call of the kind.
Where no text has any, such a copy, or a fill beside a kernel that stores all of some tensor, is
told with the condition that nobody else needs it.

    time that goes = the pass's + the bytes by which the kernel's elements become narrower / roof

Elements and their widths are those that launches were given, where the recording has that; else
widths are those of the text, and elements follow from the grid of PyTorch's elementwise kernels. A
kernel that moves fewer bytes than the pass fills does not store all of the tensor, so the fill
stays.

Transposing copies, stacks, masks of indices and packed results are told by `laid_out_for`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.contexts import DEPENDENT, Contexts, Mask
from tileprof.analyzer.drafts import Draft, ProgramRule
from tileprof.analyzer.findings import Evidence, Place, duration, percent
from tileprof.analyzer.numbers.shared import COLD
from tileprof.analyzer.program.host_passes import HostPass, How, host_passes, passes_written
from tileprof.analyzer.program.triton.kernels import kernels_of, triton_kernels
from tileprof.analyzer.rules.numbers.memory import (
    NEEDLESS_PASS_ALL,
    NEEDLESS_PASS_EACH,
    NEEDLESS_PASS_GOES,
    NEEDLESS_PASS_KEPT,
    NEEDLESS_PASS_NARROW,
    NEEDLESS_PASS_NARROWER,
    NEEDLESS_PASS_THREADS,
)
from tileprof.analyzer.rules.triton import counted_rows, laid_out_for
from tileprof.errors import Location
from tileprof.profile import LaunchVariant, seen_at

_CASTS: tuple[How, ...] = ("widened", "narrowed")
_CAST = re.compile(r"(direct|float16|bfloat16|float8\w*)_copy_kernel")
_NAMES: dict[How, tuple[str, re.Pattern[str]]] = {
    "widened": ("", _CAST),
    "narrowed": ("", _CAST),
    "copied": ("memcpy", re.compile(r"^DtoD|direct_copy_kernel")),
    "filled": ("memset", re.compile(r"FillFunctor")),
}
"""Kind of node, and names of kernels and copies, that do a pass."""
_VECTORIZED = "vectorized_elementwise_kernel"
_ELEMENTWISE = "elementwise_kernel"
_TITLES: dict[How, str] = {
    "widened": "{call} is a pass over all of {tensor} for {kernel} alone",
    "narrowed": "{call} is a pass over all that {kernel} wrote",
    "copied": "{call} is a copy for {kernel} alone",
    "filled": "{call} fills what {kernel} then overwrites",
}
_COPIED_AFTER = "{call} copies what {kernel} wrote, which nothing else reads"
_WAYS: dict[How, str] = {
    "widened": "Give the kernel {tensor} in its own type, and convert where it is loaded"
    " ({accesses}): `tl.load({parameter} + …).to(…)` converts in registers.",
    "narrowed": "Make {tensor} in the type that is wanted in the end: `tl.store` converts to the"
    " type of its pointer ({accesses}).",
    "copied": "Give the kernel {tensor} itself: it only loads from it ({accesses}).",
    "filled": "Use torch.empty in its place: the kernel stores each element ({accesses}), and reads"
    " none. Keep it if the grid leaves a part of {tensor} out.",
}
_INTO = (
    "Let the kernel store where the result is wanted ({accesses}), or return {tensor} itself:"
    " nothing else uses it."
)
_WIDENED_AFTER = (
    "Make {tensor} in the type that is wanted in the end: the kernel stores it ({accesses}) in less"
    " time than another pass takes."
)
_UNREAD: dict[How, tuple[str, str]] = {
    "copied": (
        "a tensor is copied for each launch of {kernel}",
        "If the copy is for {kernel}, which only reads it, give it the tensor itself; if it is of"
        " what {kernel} wrote, let it store where the result is wanted. It has to stay where either"
        " of the two is changed later.",
    ),
    "filled": (
        "a tensor is filled for each launch of {kernel}, which stores all of one",
        "If {kernel} stores all of that tensor, make it with torch.empty. The fill has to stay"
        " where some elements are not stored, or are read before.",
    ),
}
"""Titles and advice where no text tells whose pass it is."""


@dataclass(frozen=True, eq=False)
class _Seen:
    """A pass of the text with its nodes in the tree."""

    of: HostPass
    file: str
    nodes: list[int]
    """Kernels and copies that do it."""
    kernels: list[int]
    """Nodes of the kernel that reads or wrote the tensor."""
    elements: int = 0
    """Elements of the tensor; 0 where launches were not seen, or not all had as many."""


def find(program: Program) -> Iterator[Draft]:
    """Each pass with enough of the time."""
    tree = Contexts(program)
    if not tree.time.any():
        return
    cases = {node: case for case in program.kernels for node in case.nodes}
    for each in _together(_seen(tree)):
        time = float(tree.time[each.nodes].sum())
        case = cases.get(each.kernels[0])
        if case is not None and tree.share(time) >= COLD and _stored(tree, each):
            yield _draft(tree, each, case, time)
    yield from _unread(tree, cases)
    yield from counted_rows.find(tree)
    yield from laid_out_for.find(tree)


def needless(tree: Contexts) -> Mask:
    """Return the kernels and copies that do such passes."""
    laid_out = (node for _, _, nodes, _ in laid_out_for.seen(tree) for node in nodes)
    return tree.of([*(node for each in _seen(tree) for node in each.nodes), *laid_out])


# -- from the text to the tree


def _together(passes: Iterable[_Seen]) -> Iterator[_Seen]:
    """Passes of one line and kind as one: their nodes are the same."""
    held: dict[tuple[int, ...], _Seen] = {}
    for each in passes:
        first = held.setdefault(tuple(each.nodes), each)
        if first.of.call != each.of.call and first.of.kernel == each.of.kernel:
            call, tensor = (
                " and ".join((one, other))
                for one, other in ((first.of.call, each.of.call), (first.of.tensor, each.of.tensor))
            )
            lines = tuple(sorted({*first.of.accesses, *each.of.accesses}))
            both = replace(first.of, call=call, tensor=tensor, accesses=lines)
            held[tuple(each.nodes)] = replace(first, of=both)
    yield from held.values()


def _seen(tree: Contexts) -> Iterator[_Seen]:
    sources = tree.profile.tables.sources
    for file, text in sources.items():
        kernels = kernels_of(sources.values(), text)
        found = host_passes(text, kernels) if kernels else ()
        for written in found:
            each, elements = _as_seen(tree.profile.tables.launches, file, written)
            if not each.result and each.how == "widened" and each.after <= NEEDLESS_PASS_NARROW:
                continue
            works = np.flatnonzero(
                tree.kind("kernel") & (tree.time > 0) & _named(tree, each.kernel)
            ).tolist()
            passes = np.flatnonzero(_does(tree, each.how)).tolist()
            nodes = [node for node in passes if _is_at(tree, node, file, each.lines)]
            if nodes:
                works = [node for node in works if _is_at(tree, node, file, each.launch)]
            else:
                sized = [node for node in passes if _has(tree, node, elements)]
                nodes = sized if len(passes) > 1 else passes
                often = _alike(found, written)
                if not _fits(tree, each, "" if len(passes) > 1 else text, nodes, works, often):
                    continue
            if each.result and each.how in _CASTS:
                after = each.after or max((_cast_width(tree, node) for node in nodes), default=0)
                each = _cast_result(each, each.before, after)
                if not (each.before and each.after):
                    continue
            if nodes and works:
                yield _Seen(each, file, nodes, works, elements)


def _alike(found: Iterable[HostPass], one: HostPass) -> int:
    """How many calls around the same kernel do the same as one of them."""
    kind = one.kernel, one.how, one.result
    alike = (each for each in found if (each.kernel, each.how, each.result) == kind)
    return len({(each.call, each.lines) for each in alike})


def _as_seen(
    launches: Iterable[LaunchVariant], file: str, written: HostPass
) -> tuple[HostPass, int]:
    """Return a pass with the widths that launches tell, and the elements of its tensor; 0 where
    not all launches that were seen had the same."""
    seen = seen_at(launches, written.kernel, file, written.launch)
    tensors = (each.tensor(written.parameter) for each in seen)
    found = {(each.elements, each.width) for each in tensors if each is not None}
    if len(found) != 1:
        return written, 0
    ((elements, width),) = found
    alike = {each.width for e in seen if (each := e.tensor(written.like)) is not None}
    if written.like and written.result and len(alike) == 1:
        written = replace(written, after=alike.pop())
    if not written.result:
        return replace(written, after=width), elements
    if written.how not in _CASTS:
        return replace(written, before=width), elements
    return _cast_result(written, width, written.after), elements


def _cast_result(written: HostPass, before: int, after: int) -> HostPass:
    """Return a cast of a result with the bytes of an element before and after it."""
    return replace(
        written, before=before, after=after, how="narrowed" if after < before else "widened"
    )


def _cast_width(tree: Contexts, node: int) -> int:
    """Bytes of an element that a kernel of PyTorch casts to; 0 where its name does not tell."""
    found = _CAST.search(tree.profile.names[node])
    return {"direct": 0, "float16": 2, "bfloat16": 2}.get(found[1], 1) if found else 0


def _named(tree: Contexts, name: str) -> Mask:
    return tree.where(lambda symbol: symbol.kind == "kernel" and symbol.name == name)


def _does(tree: Contexts, how: How) -> Mask:
    """Kernels and copies that may do a pass of this kind, by their names."""
    kind, pattern = _NAMES[how]
    named = tree.where(
        lambda symbol: (
            symbol.kind in ("kernel", kind)
            and (symbol.kind == "memset" or bool(pattern.search(symbol.name)))
        )
    )
    return named & (tree.time > 0) & ~tree.compiling


def _line(tree: Contexts, node: int) -> Location | None:
    """The user's line that led to a node; None where no line was recorded."""
    at = int(tree.lines[node])
    return tree.profile.locations[at] if at >= 0 and tree.profile.kinds[at] == "frame" else None


def _is_at(tree: Contexts, node: int, file: str, lines: range) -> bool:
    place = _line(tree, node)
    return place is not None and place.file == file and place.line in lines


def _has(tree: Contexts, node: int, elements: int) -> bool:
    """Whether an elementwise kernel of PyTorch computes so many elements, by its grid."""
    blocks = float(tree.own("blocks")[node]) / max(1.0, float(tree.count[node]))
    return bool(elements) and any(
        blocks == -(-elements // (NEEDLESS_PASS_THREADS * each)) for each in NEEDLESS_PASS_EACH
    )


def _fits(
    tree: Contexts, each: HostPass, text: str, passes: list[int], works: list[int], of_kernel: int
) -> bool:  # fmt: skip
    """Whether, in a recording without lines, one node must be a pass and one its kernel.

    `text`: empty where sizes tell that no other pass of a text is this one.
    `of_kernel`: passes of this kind of the text that are around that kernel.
    """
    if len(works) != 1 or len(passes) != 1:
        return False
    # One kernel of PyTorch copies and casts.
    either = each.how != "filled" and tree.profile.kinds[passes[0]] == "kernel"
    alike = (*_CASTS, "copied") if either else (each.how,)
    counts = dict(passes_written(text))
    if either and each.how != "copied":
        # Copies that no kernel of PyTorch does are none of those that cast.
        engine = _does(tree, "copied") & tree.kind("memcpy")
        counts["copied"] = max(0, counts.get("copied", 0) - int(engine.sum()))
    written = sum(count for how, count in counts.items() if how in alike)
    return written <= of_kernel and _beside(tree, passes[0], works[0], of_kernel)


def _beside(tree: Contexts, node: int, work: int, times: int = 1) -> bool:
    """Whether two nodes without lines are in the same scope, and one ran so many times as often as
    the other."""
    often = tree.count[node] == times * tree.count[work]
    same = often and tree.scopes[node] == tree.scopes[work]
    return bool(same) and _line(tree, node) is None and _line(tree, work) is None


# -- what it costs


def _elements(tree: Contexts, node: int, most: float) -> float:
    """Elements that an elementwise kernel of PyTorch computes in all launches, by its grid; no more
    than `most`, and 0 where its name does not tell."""
    name, blocks = tree.profile.names[node], float(tree.own("blocks")[node])
    if _ELEMENTWISE not in name:
        return 0.0
    for each in NEEDLESS_PASS_EACH if _VECTORIZED in name else NEEDLESS_PASS_EACH[1:]:
        count = blocks * NEEDLESS_PASS_THREADS * each * tree.part_in_steps(node)
        if count <= most:
            return count
    return 0.0


def _passed(tree: Contexts, each: _Seen) -> float:
    """Elements of all launches of a pass in steps."""
    return each.elements * sum(
        float(tree.count[node]) * tree.part_in_steps(node) for node in each.nodes
    )


def _stored(tree: Contexts, each: _Seen) -> bool:
    """Whether a kernel may store all that is filled before it, as far as its bytes tell."""
    known = float(tree.bytes[each.kernels].sum())
    if each.of.how != "filled" or not known:
        return True
    if each.elements:
        return known >= NEEDLESS_PASS_ALL * _passed(tree, each) * each.of.after
    return known >= NEEDLESS_PASS_ALL * sum(
        float(tree.own("bytes")[node]) or _least_bytes(tree, node) * max(each.of.after, 1)
        for node in each.nodes
    )


def _least_bytes(tree: Contexts, node: int) -> float:
    """Bytes that an elementwise kernel of PyTorch fills at least, by its grid: one an element."""
    return float(tree.own("blocks")[node]) * NEEDLESS_PASS_THREADS * NEEDLESS_PASS_EACH[-1]


def _draft(tree: Contexts, each: _Seen, case: KernelCase, time: float) -> Draft:
    of, peak = each.of, case.roofs.memory_peak
    rate = peak.value if peak else 0.0
    fewer = _narrower(tree, each, rate, time)
    low, mid, high = _saved(tree, each, time, fewer, rate)
    between = _between(tree, each.nodes)
    mid, high = mid + between, high + 3 * between
    words = {
        "call": of.call, "tensor": of.tensor, "kernel": of.kernel, "parameter": of.parameter,
        "accesses": _lines(of.accesses),
    }  # fmt: skip
    title, way = _TITLES[of.how], _WAYS[of.how]
    if of.result:
        title = _COPIED_AFTER if of.how == "copied" else _TITLES["narrowed"]
        way = {"copied": _INTO, "widened": _WIDENED_AFTER}.get(of.how, way)
    return Draft(
        "suggestion", title.format(**words), _place(tree, each),
        tuple(_evidence(tree, each, time, fewer)), way.format(**words), "",
        tree.saving(low, mid, high, between, between),
        confidence="high" if of.how == "copied" else "medium",
        nodes=(*each.nodes, *(each.kernels if fewer > 0 else ())),
        gaps=tree.ended_by(each.nodes, DEPENDENT),
        launches_go=fewer <= 0,
    )  # fmt: skip


def _saved(
    tree: Contexts, each: _Seen, time: float, fewer: float, rate: float
) -> tuple[float, float, float]:  # fmt: skip
    """What a pass's going saves of its own time and of its kernel's, ns: least, likely and most.

    `fewer`: bytes that the kernel moves less, below 0 where it moves more; `rate`: bytes a second.
    """
    beside = fewer / rate * 1e9 if rate else 0.0
    goes = zip(NEEDLESS_PASS_GOES, NEEDLESS_PASS_NARROWER)
    low, mid, high = (part * time + other * beside for part, other in goes)
    if beside < 0:
        return max(0.0, low + 2 * beside), mid, time
    kernel, moved = (float(column[each.kernels].sum()) for column in (tree.time, tree.bytes))
    part = fewer / moved if moved else 0.0
    # Where memory does not move all of the time, fewer bytes shorten the time by a part of theirs.
    moving = min(1.0, moved / rate * 1e9 / kernel) if kernel and rate else 1.0
    mid -= (1 - moving) * NEEDLESS_PASS_NARROWER[1] * beside
    low = min(low, mid)
    # The kernel gains no more than its bytes become fewer, and what the L2 then keeps for it.
    most = time + (NEEDLESS_PASS_KEPT + part) * kernel
    return low, mid, max(mid, min(high, most))


def _between(tree: Contexts, nodes: list[int]) -> float:
    """Gaps between dependent work that go with the launches of a pass, ns."""
    work = tree.kind("kernel", "memcpy", "memset") & (tree.time > 0)
    return float(tree.gaps_before(work, DEPENDENT)[nodes].sum())


def _narrower(tree: Contexts, each: _Seen, rate: float, time: float) -> float:
    """Bytes that the kernel moves less where the pass is left out, in all launches."""
    of = each.of
    if of.how not in _CASTS or not rate:
        return 0.0
    before = of.before or max(1, of.after // 4 * NEEDLESS_PASS_NARROW)
    inside = before if of.result else of.after
    most = rate * time / 1e9 / (before + of.after)
    if known := float(tree.bytes[each.kernels].sum()):
        most = min(most, known / inside)
    if each.elements:
        # A kernel that leaves elements out has no time for all of them.
        moved = rate * float(tree.time[each.kernels].sum()) / 1e9
        count = min(_passed(tree, each), moved / inside)
    else:
        count = sum(_elements(tree, node, 1.05 * most) for node in each.nodes)
    return count * ((before - of.after) if of.result else (of.after - before))


# -- without a text


def _unread(tree: Contexts, cases: Mapping[int, KernelCase]) -> Iterator[Draft]:
    """Copies and fills that come once with each launch of a kernel, by calls that no text has."""
    texts = tree.profile.tables.sources.values()
    for how in _UNREAD:
        named = _does(tree, how) & (tree.kind("memcpy") if how == "copied" else True)
        nodes = np.flatnonzero(named).tolist()
        if len(nodes) != 1 or any(passes_written(text).get(how) for text in texts):
            continue
        (node,) = nodes
        kernels = np.flatnonzero(tree.kind("kernel") & (tree.time > 0)).tolist()
        works = [each for each in kernels if each != node and _beside(tree, node, each)]
        case = cases.get(works[0]) if len(works) == 1 else None
        if case is None:
            continue
        lines = _stores(tree, case) if how == "filled" else ()
        if not case.name.isidentifier() or case.ir or (how == "filled" and not lines):
            continue
        time = float(tree.time[node])
        if tree.share(time) >= COLD and _moves_as_much(tree, node, case):
            place = replace(case.place(), location=case.line(lines[0])) if lines else case.place()
            yield _unread_draft(tree, how, node, place, time)


def _stores(tree: Contexts, case: KernelCase) -> tuple[int, ...]:
    """Lines where a kernel stores all of a tensor that it does not read, as its text tells."""
    texts = tree.profile.tables.sources.values()
    kernels = [each for text in texts for each in triton_kernels(text) if each.name == case.name]
    lines = {line for each in kernels for name in each.fills for line in each.stores[name]}
    return tuple(sorted(lines))


def _moves_as_much(tree: Contexts, node: int, case: KernelCase) -> bool:
    """Whether a kernel moves as many bytes as a pass copies, or fills at least."""
    known = float(tree.bytes[list(case.nodes)].sum())
    return known >= NEEDLESS_PASS_ALL * (float(tree.own("bytes")[node]) or _least_bytes(tree, node))


def _unread_draft(tree: Contexts, how: How, node: int, place: Place, time: float) -> Draft:
    title, way = _UNREAD[how]
    between = _between(tree, [node])
    count = float(tree.count[node])
    moved = float(tree.own("bytes")[node]) / count
    size = f", {moved / 1e6:,.3g} MB" if moved >= 1e6 else ""
    text = f"it takes {duration(time / count)}{size}, {percent(tree.share(time))} of {tree.whose}"
    often = Evidence("activities", f"both ran {count:,.0f} times, and no other kernel as often")
    return Draft(
        "suggestion", title.format(kernel=place.kernel), place,
        (often, Evidence("activities", text)), way.format(kernel=place.kernel), "",
        tree.saving(
            0.0, time + between, NEEDLESS_PASS_GOES[-1] * time + 3 * between, between, between
        ),
        confidence="low", nodes=(node,), gaps=tree.ended_by([node], DEPENDENT), launches_go=True,
    )  # fmt: skip


# -- words


def _lines(lines: tuple[int, ...]) -> str:
    named = ", ".join(str(each) for each in lines[:3])
    return f"line{'s' * (len(lines) > 1)} {named}{', …' * (len(lines) > 3)}"


def _place(tree: Contexts, each: _Seen) -> Place:
    node = max(each.nodes, key=lambda node: float(tree.time[node]))
    held = tree.place(node)
    place = _line(tree, node) or Location(each.file, each.of.lines[0])
    return Place(each.of.kernel, held.path, held.op, place)


def _evidence(tree: Contexts, each: _Seen, time: float, narrower: float) -> Iterator[Evidence]:
    of, launches = each.of, float(tree.count[each.nodes].sum())
    kernel = f"{of.kernel} (line {of.launch[0]})"
    if of.how == "filled":
        told = f"{kernel} is the first that uses {of.tensor}: it stores it and loads nothing of it"
    elif of.result:
        told = f"{kernel} stores {of.tensor}, and nothing else reads it"
    else:
        told = f"nothing else than {kernel} reads it"
    yield Evidence("static", told)
    moved = float(tree.own("bytes")[each.nodes].sum()) / launches if launches else 0.0
    size = f", {moved / 1e6:,.3g} MB" if moved >= 1e6 else ""
    took = f"{duration(time / launches)} a call{size}, {percent(tree.share(time))} of {tree.whose}"
    yield Evidence("activities", f"the pass takes {took}")
    if narrower > 0:
        less = narrower / float(tree.count[each.kernels].sum())
        text = f"{of.kernel} then moves {less / 1e6:,.3g} MB less in each launch"
        yield Evidence("activities", text)


RULE = ProgramRule("needless-pass", find)
