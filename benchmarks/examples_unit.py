"""One run of one example: both sides, compared and timed in pairs, or compiled only.

In: an example and a run of `examples_cases`, a checkout, the turn at the GPU.  Out: a row for the
results file.  For a process of its own: what an example breaks, it breaks for one row.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import tilelang_host as host
import torch
from examples_cases.form import Example, Verdict
from examples_results import AGREES, Launch, Side, difference
from examples_sides import run_side, tilelang_version
from examples_turns import Turn

from tileprof.bench import median_interval

__all__ = ["KernelRow", "Row", "compile_unit", "run_unit"]

PAIRS = (24, 80)
"""Fewest and most pairs of launches of a kernel."""
PAIRS_S = 0.5
"""Time for the pairs of a kernel, in s; the fewest pairs are taken whatever they last."""
LONG_S = 6.0
"""Time after which fewer pairs than the fewest are enough, in s."""
FLUSH_BYTES = 512 << 20
"""Memory that is overwritten before each launch: more than L2 holds, and long enough a work that
the launch is queued before it is over."""
ELEMENTS_S = 60
"""Time for one example without a GPU, in s: its reference may run on the processor."""


@dataclass
class KernelRow:
    """Times of one kernel, in µs, by CUDA events with L2 overwritten before each launch."""

    kernel: str
    ours_us: float
    tilelang_us: float
    ratio: float
    """Median over pairs of TileLang's time over ours: above 1 we are faster."""
    low: float
    """Ends of the 95 % interval of the median."""
    high: float
    pairs: int
    difference: float | None
    """Relative, of our results from TileLang's; None where it is infinite."""
    host_us: tuple[float, float]
    """Host time of a launch, ours and TileLang's; it is hidden while L2 is overwritten."""


@dataclass
class Row:
    """One run of one example."""

    example: str
    shape: str
    index: int
    """0 for the example's own sizes."""
    status: str = "ok"
    """ok: our results are right; wrong: they are not, or are known only to differ from TileLang's;
    error: one side did not run."""
    error: str = ""
    checked: str = ""
    """Whose results ours agree with: the reference's, or TileLang's where there is none."""
    ours: Verdict = Verdict.UNKNOWN
    """Whether our results are those of the reference."""
    tilelang: Verdict = Verdict.UNKNOWN
    """Whether TileLang's results are: where they are wrong, its time is not that of the work."""
    notes: list[str] = field(default_factory=list)
    kernels: list[KernelRow] = field(default_factory=list)
    ratio: float | None = None
    """TileLang's time over ours, of all kernels of the run together."""
    gpu_s: float = 0.0
    seconds: float = 0.0
    compiled: list[dict[str, Any]] = field(default_factory=list)
    """Facts of our kernels' machine code, where they were only compiled."""

    def fails(self, error: str, status: str = "error") -> Row:
        """Return the row with why it has no time."""
        self.status, self.error = status, error
        return self

    def as_json(self) -> dict[str, Any]:
        """Return plain objects."""
        return asdict(self)


def run_unit(example: Example, index: int, checkout: Path, turn: Turn) -> Row:
    """Run both sides, compare them and time them; the GPU is held except while compiling."""
    begin = time.monotonic()
    row = Row(example.name, str(example.runs[index]), index)
    run = example.runs[index]
    ours = run_side("tileprof", checkout, example.path, run, turn)
    if not ours.launches:
        return row.fails(f"tileprof: {ours.error or 'launches nothing'}")
    theirs = run_side("tilelang", checkout, example.path, run, turn, ours.written)
    if not theirs.launches:
        return row.fails(f"TileLang: {theirs.error or 'launches nothing'}")
    with turn:
        _compare(row, example, ours, theirs)
    row.gpu_s, row.seconds = turn.held_s, time.monotonic() - begin
    return row


def _compare(row: Row, example: Example, ours: Side, theirs: Side) -> None:
    pairs = _paired(ours.launches, theirs.launches)
    row.notes += _failures(ours, theirs)
    row.ours, row.tilelang = ours.verdict(example.asserts), theirs.verdict(example.asserts)
    row.checked = "reference" if row.ours is Verdict.RIGHT else "TileLang"
    if not pairs:
        row.fails("the two sides launch kernels of other names")
        return
    if len(pairs) < max(len(ours.launches), len(theirs.launches)):
        row.notes.append(
            f"{len(ours.launches)} kernels of ours, {len(theirs.launches)} of TileLang's"
        )
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device="cuda")
    for mine, other in pairs:
        apart = difference(mine, other)
        mine.results = other.results = ()
        row.kernels.append(_timed(mine, other, apart, flush.zero_))
        if apart > AGREES:
            row.fails(f"{mine.kernel} differs from TileLang's by {apart:.2g}", "wrong")
    _judge(row)
    ours_us = sum(k.ours_us for k in row.kernels)
    row.ratio = sum(k.tilelang_us for k in row.kernels) / ours_us


def _judge(row: Row) -> None:
    """Let the reference decide where there is one: TileLang's results may be the wrong ones.

    A reference from which both sides differ says nothing: then it counts whether they agree.
    """
    match row.ours, row.tilelang:
        case Verdict.RIGHT, theirs:
            row.status, row.error = "ok", ""
            if theirs is Verdict.WRONG:
                row.notes.append("TileLang's result is wrong, ours agrees with the reference")
        case Verdict.WRONG, Verdict.RIGHT | Verdict.UNKNOWN:
            row.fails("our results differ from the reference", "wrong")


def _paired(ours: Sequence[Launch], theirs: Sequence[Launch]) -> list[tuple[Launch, Launch]]:
    """Launches of the same kernel: the n-th of a name on both sides."""
    if len(ours) == len(theirs):
        # Names may differ: `out_idx` and partial evaluation name kernels anew.
        return list(zip(ours, theirs))
    left, found = list(theirs), []
    for each in ours:
        other = next((x for x in left if x.kernel == each.kernel), None)
        if other is not None:
            left.remove(other)
            found.append((each, other))
    return found


def _failures(ours: Side, theirs: Side) -> list[str]:
    """Return which comparisons failed, or what ended an example before its end."""
    notes = []
    for name, side in (("tileprof", ours), ("TileLang", theirs)):
        failed = [c for c in side.checks if not c.passed]
        if failed:
            notes.append(f"{name}: the example's own comparison fails: {failed[0].detail}"[:300])
        elif side.error:
            notes.append(f"{name}: {side.error}"[:300])
    return notes


# -- times


def _timed(ours: Launch, theirs: Launch, apart: float, flush: Callable[[], Any]) -> KernelRow:
    runs = (ours.again, theirs.again)
    for run in runs:
        for _ in range(2):
            run()
    torch.cuda.synchronize()
    first = [_batch(runs, flush, 3, start) for start in (0, 1)]
    a_pair = sum(sum(times) for times in first[0].times) / 3e6 + 4e-4
    pairs = min(max(int(PAIRS_S / a_pair), PAIRS[0]), PAIRS[1])
    if pairs * a_pair > LONG_S:
        pairs = max(int(LONG_S / a_pair), 5)
    made = _batch(runs, flush, pairs)
    mine, other = made.times
    ratio = median_interval([b / a for a, b in zip(mine, other)])
    return KernelRow(
        ours.kernel,
        statistics.median(mine),
        statistics.median(other),
        ratio.value,
        ratio.low,
        ratio.high,
        pairs,
        apart if math.isfinite(apart) else None,
        made.host_us,
    )


@dataclass(frozen=True, slots=True)
class _Pairs:
    times: tuple[list[float], list[float]]
    """In µs, of each side."""
    host_us: tuple[float, float]


def _batch(
    runs: Sequence[Callable[[], Any]], flush: Callable[[], Any], pairs: int, start: int = 0
) -> _Pairs:
    """Launch both sides in turns, each first in half of the pairs; L2 is overwritten before."""
    events: list[tuple[list[Any], list[Any]]] = []
    host: tuple[list[float], list[float]] = ([], [])
    for pair in range(pairs):
        stamps: tuple[list[Any], list[Any]] = ([], [])
        for side in (0, 1) if (pair + start) % 2 == 0 else (1, 0):
            two = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            flush()
            two[0].record()
            began = time.perf_counter()
            runs[side]()
            host[side].append((time.perf_counter() - began) * 1e6)
            two[1].record()
            stamps[side].extend(two)
        events.append(stamps)
        if pair % 8 == 7:
            # A queue that is full makes the host wait inside of a launch.
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    times = tuple([s[side][0].elapsed_time(s[side][1]) * 1e3 for s in events] for side in (0, 1))
    return _Pairs(times, (statistics.median(host[0]), statistics.median(host[1])))  # type: ignore[arg-type]


# -- without a GPU


def compile_unit(
    example: Example, index: int, checkout: Path, both: bool, target: str = "sm_90a"
) -> Row:
    """Compile the kernels of a run without a GPU; with `both`, TileLang's too."""
    begin = time.monotonic()
    row = Row(example.name, str(example.runs[index]), index)
    turn = Turn(None)
    run, path = example.runs[index], example.path
    for elements in (False, True):
        with _pretended(elements), _at_most(ELEMENTS_S):
            ours = run_side("tileprof", checkout, path, run, turn, fake=True)
            if both and tilelang_version():
                theirs = run_side("tilelang", checkout, path, run, turn, fake=True)
        if ours.launches or not re.match("DataDependent|DynamicOutput", ours.error):
            break
    row.notes += [f"tileprof: {ours.error}"] if ours.error else []
    if both and tilelang_version():
        row.notes += [f"TileLang: {theirs.error}"] if theirs.error else []
        names = [[x.kernel for x in side.launches] for side in (ours, theirs)]
        row.notes.append(f"kernels: {names[0]}, TileLang's {names[1]}")
    for launch in ours.launches:
        row.compiled.append(_compiled(launch, target))
    if not ours.launches:
        row.fails(ours.error or "launches nothing")
    row.seconds = time.monotonic() - begin
    return row


def _compiled(launch: Launch, target: str) -> dict[str, Any]:
    """Registers, spilled bytes and remarks of a kernel."""
    from tileprof.compiler.cuda.pipeline import compile_cuda
    from tileprof.compiler.cuda.target import find_target

    program = launch.variant.program()
    begin = time.monotonic()
    try:
        made = compile_cuda(program.kernel, find_target(target), launch.variant.options.controls)
        used = list(made.cubin.resources.values())
        missed = [r for r in (*program.remarks, *made.all_remarks) if r.severity == "missed"]
        notes = sorted({
            f"{n.kind}{': ' + n.reason if n.kind == 'serialized' else ''}"
            for n in made.cubin.notes
        })  # fmt: skip
    except Exception as error:
        text = getattr(error, "message", None) or str(error)
        return {"kernel": launch.kernel, "error": f"{type(error).__name__}: {text.strip()[:300]}"}
    return {
        "kernel": launch.kernel,
        "registers": max((r.registers for r in used), default=0),
        "spills": sum(r.spill_stores + r.spill_loads for r in used),
        "products": sorted({type(r.decision).__name__ + ": " + str(r.decision)
                            for r in made.remarks if r.op == "gemm"}),
        "notes": notes,
        "missed": [str(r) for r in missed],
        "seconds": round(time.monotonic() - begin, 2),
    }  # fmt: skip


@contextlib.contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """TimeoutError where it takes longer; what was launched until then is kept."""

    def late(*_: object) -> None:
        raise TimeoutError(f"longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _pretended(elements: bool) -> Iterator[None]:
    """Tensors on a GPU that is not there; without elements they have shapes only."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    properties = mock.MagicMock(multi_processor_count=132, major=9, minor=0)
    with contextlib.ExitStack() as stack:
        if not elements:
            # Results that are kept would be on another device than those that are made here.
            mode = stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
            mode.cache_enabled = False
        stack.enter_context(host.on_host())
        for name, made in (
            ("get_device_capability", (9, 0)), ("get_device_properties", properties),
            ("device_count", 1), ("is_available", True), ("current_stream", mock.MagicMock()),
            ("default_stream", mock.MagicMock()), ("manual_seed_all", None),
        ):  # fmt: skip
            stack.enter_context(mock.patch.object(torch.cuda, name, return_value=made))
        stack.enter_context(mock.patch.dict(os.environ, {"TILEPROF_DEVICE": "cuda:0"}))
        yield
