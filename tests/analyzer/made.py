"""Profiles of one kernel, or of a program, made of what a rule looks at; and stored recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tileprof.analyzer import Finding, Report, analyze
from tileprof.errors import Location
from tileprof.profile import (
    Attribute,
    DevicePeak,
    InstructionCounts,
    KernelInfo,
    Metric,
    PcBlame,
    PcFunction,
    PcInstruction,
    PcRecording,
    PcRows,
    PcSamples,
    Profile,
    Tables,
    TreeBuilder,
    load,
)
from tileprof.profile.storage.ir_text import read
from tileprof.remarks import Candidate, Decision, Reason, Rejection, Remark, Severity
from tileprof.remarks.layouts import Converted, NeedsAnother, OtherLayout

DATA = Path(__file__).parents[1] / "data"
FILE = "kernel.py"


EXCHANGED = (Converted("x", "shared memory"), (OtherLayout(0, "y"), NeedsAnother("gemm")))
"""A decision to exchange a fragment, and what it was chosen over."""


@cache
def stored(name: str) -> Profile:
    """A recording of an H200: `h200-gemm`, or `h200-stalls`: the kernels of `tests/stalls`."""
    return load(DATA / f"{name}.tprof")


@cache
def report_of(name: str) -> Report:
    """What is found in it."""
    return analyze(stored(name))


def remark(
    subject: str,
    line: int,
    decision: Decision,
    *rejected: tuple[Candidate, Reason],
    severity: Severity = "info",
) -> Remark:
    """A decision about an op in a line of the kernel."""
    op, _, name = subject.partition(" ")
    against = tuple(Rejection(*pair) for pair in rejected)
    return Remark(decision, op, name, Location(FILE, line), against, severity)


@dataclass
class Made:
    """A kernel of a profile, with one launch of a millisecond; what is not given is not known."""

    name: str = "kernel"
    time: float = 1e6
    launches: int = 1
    remarks: Sequence[Remark] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    ir: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Further ones of its node: `flops`, `bytes`, counters."""
    code: Sequence[tuple[str, Mapping[str, int], int, int]] = ()
    """Text of each instruction, its samples by reason, loops around it, its line."""
    blames: Sequence[tuple[int, str, int]] = ()
    """Places of instructions: who waits, the reason, and for whom."""
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """By metric, a count for each instruction."""
    device: str = "cuda:0"


def program(*kernels: Made, peaks: Mapping[str, float] | None = None, idle: float = 0.0) -> Profile:
    """A profile of kernels one after the other; `peaks` in bytes or operations a second."""
    builder = TreeBuilder()
    top = builder.child(-1, "frame", "main", Location("main.py", 1, function="main"))
    nodes = [_node(builder, top, each) for each in kernels]
    if idle:
        builder.declare(Metric("idle_time", "ns"))
        builder.add(builder.child(top, "idle", "waiting for its launch", None), "idle_time", idle)
    infos = tuple(
        KernelInfo(
            each.name, each.device, ir=each.ir, source_file=FILE, source_line=1,
            remarks=tuple(each.remarks), attributes=each.attributes,
            program=read(each.ir),
        )
        for each in kernels
    )  # fmt: skip
    held = tuple(
        DevicePeak(
            "cuda:0", "GPU-1", "2026-11-20", name, value,
            "bytes/s" if "hbm" in name else "flop/s", value, 0.01, 1980.0, "",
        )
        for name, value in (peaks or {}).items()
    )  # fmt: skip
    return builder.snapshot(
        Tables(
            kernels=infos, node_kernels={node: i for i, node in enumerate(nodes)},
            pc=_samples(kernels), device_peaks=held,
        )
    )  # fmt: skip


def found(profile: Profile, rule: str) -> list[Finding]:
    """What one rule says of a profile."""
    return [each for each in analyze(profile).findings if each.rule == rule]


def only(profile: Profile, rule: str) -> Finding:
    """The one finding of a rule."""
    (finding,) = found(profile, rule)
    return finding


def highest(gain: float) -> float:
    """What is told of a rule's highest gain where no measured roof is lower: kernels that no rule
    was made on gained up to 1.5 times as much, of gain - 1 (docs/report.md, "Gains")."""
    return 1 + 1.5 * (gain - 1)


def _node(builder: TreeBuilder, top: int, made: Made) -> int:
    node = builder.child(top, "kernel", made.name, Location(FILE, 1))
    builder.add(node, "time", made.time)
    builder.add(node, "count", made.launches)
    for name, value in made.metrics.items():
        if name not in ("flops", "bytes"):
            builder.declare(Metric(name, "1"))
        builder.add(node, name, value)
    return node


def _samples(kernels: Sequence[Made]) -> PcSamples:
    stalls = tuple(
        dict.fromkeys(reason for made in kernels for line in made.code for reason in line[1])
    )
    rows, counts = list[tuple[int, int, int, int, int]](), list[tuple[int, int, int, int]]()
    metrics = tuple(dict.fromkeys(name for made in kernels for name in made.counts))
    for place, made in enumerate(kernels):
        for index, (_, samples, _, _) in enumerate(made.code):
            rows += [(place, 16 * index, stalls.index(r), -1, n) for r, n in samples.items()]
        for name, values in made.counts.items():
            counts += [(place, 16 * i, metrics.index(name), n) for i, n in enumerate(values)]
    functions = tuple(_function(made) for made in kernels)
    total = sum(row[4] for row in rows if not stalls[row[2]].endswith("_not_issued"))
    recordings = (PcRecording(4096, "continuous", total),) if rows else ()
    counted = InstructionCounts()
    if counts:
        counted = InstructionCounts.added(metrics, [metrics], *zip(*counts, strict=True))
    return PcSamples(
        functions if rows or counts else (), stalls,
        PcRows.added(*(zip(*rows, strict=True) if rows else [()] * 5)), recordings, counts=counted,
    )  # fmt: skip


def _function(made: Made) -> PcFunction:
    code = tuple(
        PcInstruction(16 * index, text, Location(FILE, line), depth)
        for index, (text, _, depth, line) in enumerate(made.code)
    )
    blames = tuple(PcBlame(16 * a, reason, 16 * b, "R0") for a, reason, b in made.blames)
    return PcFunction(made.name, made.name, "", "sm_90a", code, blames)
