"""Kernels that are far from their floor and of which no rule knows why, so that none is silent.

In: an account, and the kernels.  Out: symptoms: how far the kernel is from the least time of its
work, what is known of its launches, its strongest lead where it was sampled (`leads`), what is
worth a trial for such an operation, and the run that would tell more. Kernels whose work is not
known are one finding: what is missing is the same for all.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator

from tileprof.analyzer.account import Account, KernelAccount
from tileprof.analyzer.cases import KernelCase
from tileprof.analyzer.findings import Evidence, Finding, duration, listed, percent, plain
from tileprof.analyzer.kernel.global_memory import LOADS
from tileprof.analyzer.leads import strongest
from tileprof.analyzer.machine.by_number import is_found_by_number
from tileprof.analyzer.numbers.reports import (
    UNEXPLAINED_FAR,
    UNEXPLAINED_FAR_OF_MEMORY,
    UNEXPLAINED_LEAST,
)
from tileprof.analyzer.numbers.shared import MOST_OF_A_KIND
from tileprof.analyzer.shortfalls import Shortfall, in_words
from tileprof.analyzer.tiles.gathers import takes_by_number

FAR, UNKNOWN = "far-from-floor", "unknown-work"
"""Names under which they are reported."""
_LIMITS = {
    "memory": "moving its bytes at the memory's measured rate",
    "arithmetic": "doing its operations at the measured rate of their type",
    "launch": "launching it",
}
_SAMPLE = (
    "Run `tileprof run --pc-sampling SCRIPT`: it shows which instructions wait, and for what; rules"
    " about the inside of kernels then judge this one too."
)
_LOOK = "Look at its hottest lines: `tileprof view --sass`, or `tileprof report --html`."
_BY_NUMBER = (
    "it loads elements whose places it has loaded before: these may come several times or not at"
    " all, so the least time counts each byte of its tensors once"
)
_COUNT = (
    "Run `tileprof run --metrics memory,tensor SCRIPT`: it counts what they move and compute."
    " The author of a Triton kernel can state both (`launch_metadata`)."
)

_LEADS = (
    (
        re.compile(r"index_add|index_put|scatter|IndexBackward|IndexSelectBackward|GatherBackward"),
        "Sums by index use atomic additions, or sort the indices each time. Try to sort them once,"
        " before the steps, and to sum rows in segments (torch.segment_reduce) or by a product with"
        " a sparse matrix (torch.sparse.mm with a CSR tensor).",
    ),
    (
        re.compile(r"aten::(index|index_select|gather|take)$"),
        "Rows in random order are read from memory one by one. Try sorted indices, wider rows, or"
        " let the operation that uses the rows gather them (torch.compile, a sparse product).",
    ),
    (
        re.compile(r"(batch|group|instance|layer)_?norm", re.IGNORECASE),
        "A norm reads its input once for the statistics and again to apply them, unless it stays in"
        " on-chip memory. Try torch.compile, which fuses it with neighbouring operations; for"
        " images also torch.channels_last.",
    ),
    (
        re.compile(r"pool[123]?d|upsample|interpolate|grid_sampler", re.IGNORECASE),
        "Try torch.channels_last, in which neighbouring threads read neighbouring channels, or"
        " torch.compile, which fuses it with neighbouring operations.",
    ),
    (
        re.compile(r"embedding(_bag|_dense|bag)?", re.IGNORECASE),
        "Rows of a table are read from memory one by one, and gradients of repeated rows conflict:"
        " try wider rows of 16-bit numbers, and sorted indices in a batch.",
    ),
)
"""What is worth a trial by the operation that launches a kernel; the first that matches."""


def unexplained(account: Account, told: Container[int] = ()) -> Iterator[Finding]:
    """Yield the kernels with the most time beyond their floors, operations whose kernels have it
    together, then kernels without a floor; none of which all nodes are `told` of already."""
    whole = account.time
    left = [each for each in account.kernels if not all(node in told for node in each.case.nodes)]
    far = [each for each in left if each.limit and _is_far(each)]
    alone = [each for each in far if _beyond(each) >= UNEXPLAINED_LEAST * whole]
    for each in sorted(alone, key=lambda kernel: -_beyond(kernel))[:MOST_OF_A_KIND]:
        yield _far(each, account)
    yield from _together([each for each in far if each not in alone], account)
    unknown = [each for each in account.without_floor if not each.lacks_roofs]
    time = sum(each.unexplained for each in unknown)
    if time >= UNEXPLAINED_LEAST * whole:
        yield _unknown([each.case for each in unknown], time, account)


def _is_far(kernel: KernelAccount) -> bool:
    by_memory = kernel.limit == "memory" and kernel.case.sampled is not None
    far = UNEXPLAINED_FAR_OF_MEMORY if by_memory else UNEXPLAINED_FAR
    return _beyond(kernel) >= (far - 1) * (kernel.floor + kernel.named)


def _beyond(kernel: KernelAccount) -> float:
    """Return a kernel's time beyond its floor that no suggestion takes away, ns."""
    return kernel.unexplained + sum(kernel.shortfalls.values())


def _known(kernels: list[KernelAccount]) -> Iterator[Evidence]:
    """Yield the typed causes of that time, the longest first."""
    sums = dict[Shortfall, float]()
    for each in kernels:
        for cause, time in each.shortfalls.items():
            sums[cause] = sums.get(cause, 0.0) + time
    if sums:
        left = duration(sum(each.unexplained for each in kernels))
        yield Evidence("activities", f"known limits: {in_words(sums)}; {left} has no known cause")


def _verdict(kernels: list[KernelAccount]) -> str:
    known = any(each.shortfalls for each in kernels)
    return "is beyond that" if known else "has no known cause"


def _together(far: list[KernelAccount], account: Account) -> Iterator[Finding]:
    """Operations of which no kernel is worth a finding alone, and all are together."""
    by_operation = dict[str, list[KernelAccount]]()
    for each in far:
        if operation := _operation(each.case):
            by_operation.setdefault(operation, []).append(each)
    beyond = {name: sum(map(_beyond, by_operation[name])) for name in by_operation}
    for name in sorted(beyond, key=lambda name: -beyond[name])[:MOST_OF_A_KIND]:
        if beyond[name] >= UNEXPLAINED_LEAST * account.time and len(by_operation[name]) > 1:
            yield _far_operation(name, by_operation[name], beyond[name] / account.time)


def _lead(operation: str) -> str:
    """Return what is worth a trial for an operation, with a space behind it; nothing for others."""
    return next((f"{text} " for pattern, text in _LEADS if pattern.search(operation)), "")


def _operation(case: KernelCase) -> str:
    """Return the operation around the longest node of a kernel; nothing where there is none."""
    profile, node = case.program.profile, case.nodes[0]
    while node >= 0 and profile.kinds[node] != "op":
        node = int(profile.parents[node])
    return profile.names[node] if node >= 0 else ""


def _far_operation(name: str, kernels: list[KernelAccount], share: float) -> Finding:
    time, floor, named = (
        sum(getattr(each, of) for each in kernels) for of in ("time", "floor", "named")
    )
    least = floor + named
    times = f"{time / least:.1f} times the least time of their work" if least else "all of it"
    first = max(kernels, key=_beyond).case
    names = list(dict.fromkeys(plain(each.case.name) for each in kernels))
    evidence = (
        Evidence(
            "activities",
            f"{duration(time)} in steps, where their work takes {duration(floor)};"
            f" {percent(share)} of the devices' time {_verdict(kernels)}: {listed(names)}",
        ),
        *_known(kernels),
        Evidence("activities", f"at most {1 / (1 - share):.2f}× for the program"),
    )
    title = f"{len(kernels)} kernels of {name} take {times}"
    sampled = any(each.case.sampled is not None for each in kernels)
    advice = _lead(name) + (_LOOK if sampled else _SAMPLE)
    return Finding(FAR, "symptom", title, first.place(), evidence, advice)


def _far(kernel: KernelAccount, account: Account) -> Finding:
    case = kernel.case
    least = kernel.floor + kernel.named
    times = kernel.time / least if least else float("inf")
    share, verdict = _beyond(kernel) / account.time, _verdict([kernel])
    evidence = [
        Evidence(
            "activities",
            f"{duration(kernel.time)} in steps, where {_LIMITS[kernel.limit]} takes"
            f" {duration(kernel.floor)}; {percent(share)} of the devices' time {verdict}",
        ),
        *_known([kernel]),
        Evidence("activities", f"at most {1 / (1 - share):.2f}× for the program"),
        *_launches(case),
    ]
    title = f"{plain(case.name)} takes {times:.1f} times the least time of its work"
    if kernel.limit == "memory" and _takes_by_number(case):
        title = f"{plain(case.name)} takes {times:.1f} times as long as its tensors read once"
        evidence.append(Evidence("static", _BY_NUMBER))
    advice, place, lead = _lead(_operation(case)), case.place(), strongest(case)
    if lead is not None:
        place, advice = lead.place, f"{advice}{lead.advice} "
        evidence += lead.evidence
    advice += _SAMPLE if case.sampled is None else _LOOK
    return Finding(FAR, "symptom", title, place, tuple(evidence), advice)


def _takes_by_number(case: KernelCase) -> bool:
    """Whether a kernel loads elements whose places it has loaded before."""
    code = case.code
    return takes_by_number(case.tiles) or (
        code is not None and any(is_found_by_number(code, at) for at in code.named(*LOADS))
    )


def _launches(case: KernelCase) -> Iterator[Evidence]:
    """What is known of its launches: blocks beside multiprocessors, and how long one is."""
    if not case.launches:
        return
    told = f"{case.launches:,} launches of {duration(case.time / case.launches)}"
    blocks = case.total("blocks") / case.launches
    device = case.device_info
    if blocks and device is not None and device.multiprocessors:
        told += f", {blocks:,.0f} blocks each for {device.multiprocessors} multiprocessors"
    yield Evidence("activities", told)


def _unknown(cases: list[KernelCase], time: float, account: Account) -> Finding:
    names = [plain(case.name) for case in cases]
    share = percent(time / account.time)
    evidence = (Evidence("activities", f"{share} of the devices' time in steps: {listed(names)}"),)
    count = f"{len(cases)} kernel{'s' * (len(cases) > 1)}"
    return Finding(
        UNKNOWN, "symptom", f"the bytes and operations of {count} are unknown", cases[0].place(),
        evidence, _COUNT,
    )  # fmt: skip
