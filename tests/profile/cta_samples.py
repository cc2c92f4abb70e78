"""A profile of a kernel whose CTAs have timelines: one launch, two CTAs, three warps each."""

from __future__ import annotations

from tileprof.errors import Location
from tileprof.profile import (
    Cta,
    CtaFlights,
    CtaLaunch,
    CtaTimelines,
    CtaVisits,
    CtaWarp,
    KernelInfo,
    Profile,
    SiteInfo,
    Tables,
    Timeline,
    TimelineEvents,
    Track,
    TreeBuilder,
)

SITES = (
    SiteInfo(0, "producer", "stage"),
    SiteInfo(1, "load a", "op", Location("/w/gemm.py", 12), 0),
    SiteInfo(2, "consumer", "stage"),
    SiteInfo(3, "wait for a", "op", Location("/w/gemm.py", 12), 2),
    SiteInfo(4, "gemm", "op", Location("/w/gemm.py", 14), 2),
    SiteInfo(5, "wait for gemm", "op", Location("/w/gemm.py", 14), 2),
)
KERNEL = KernelInfo("gemm", "cuda:0", source_file="/w/gemm.py", source_line=7, sites=SITES)
BEGIN = 5_000_000_000
"""Of the first CTA on its device's clock; 2 µs before the kernel began to run."""

_PRODUCER = [(0, 0, 900), (1, 100, 200), (1, 300, 400)]
_CONSUMERS = [
    [(2, 0, 1000), (3, 10, 400), (4, 400, 450), (5, 450, 700), (3, 700, 900)],
    [(2, 0, 1100), (3, 20, 420), (4, 420, 460), (3, 700, 1000)],
]


def ctas() -> CtaTimelines:
    """CTA 132 on SM 17, and 264 half as fast 3 µs later; all flights are in the first."""
    rows: list[tuple[int, ...]] = []
    warps: list[CtaWarp] = []
    for cta, slower in ((0, 1), (1, 2)):
        for number, visits in zip((4, 0, 1), (_PRODUCER, *_CONSUMERS), strict=True):
            role = "producer" if number == 4 else "consumer"
            end = visits[0][2] * slower
            warps.append(CtaWarp(cta, number, role, 0, end, "end" if len(warps) == 5 else ""))  # type: ignore[arg-type]
            rows += [(len(warps) - 1, s, a * slower, b * slower) for s, a, b in visits]
    flights = [
        (0, 0, 1, 1, 3, 100, 10, 400),
        (0, 0, 1, 1, 3, 300, 700, 900),
        (1, 1, 1, 4, 5, 400, 450, 700),
    ]
    columns = CtaVisits.typed(*zip(*rows)), CtaFlights.typed(*zip(*flights))
    return CtaTimelines(
        [CtaLaunch(1, "gemm_0", "cuda:0", 2, 8, 90_000)],
        [
            Cta(0, 132, 17, BEGIN, BEGIN + 1100, "median, first"),
            Cta(0, 264, 3, BEGIN + 3000, BEGIN + 5200, "longest"),
        ],
        warps,
        ["ring of a", "wgmma"],
        lambda: columns,
    )


def profile(
    held: CtaTimelines | None = None,
    *,
    first: KernelInfo | None = None,
    timeline: Timeline | None = None,
) -> Profile:
    """A tree of two kernels, the second of which is `KERNEL`, with these CTAs (else `ctas()`)."""
    builder = TreeBuilder()
    kernels = (first or KernelInfo("first", "cuda:0"), KERNEL)
    nodes = {}
    for number, kernel in enumerate(kernels):
        nodes[builder.child(-1, "kernel", kernel.name)] = number
    for node in nodes:
        builder.add(node, "time", 10_000)
    tables = Tables(
        kernels=kernels,
        node_kernels=nodes,
        provenance={"command": "tileprof run gemm.py", "pid": "5"},
        timeline=timeline or Timeline(),
        ctas=ctas() if held is None else held,
    )
    return builder.snapshot(tables)


def on_a_timeline(begin: int = 100_000, duration: int = 5_500, call: int = 90_500) -> Profile:
    """The same with a timeline: the call of the launch, and the kernel, which took 300 ns longer
    than its CTAs."""
    tracks = [Track("thread", "MainThread", 140), Track("stream", "cuda:0 stream 7", 7, 0)]
    events = TimelineEvents.of([call, begin], [1_000, duration], [0, 1], [0, 1], [-1, 0])
    return profile(timeline=Timeline.holding(tracks, events))
