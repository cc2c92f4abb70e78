"""How right samples of program counters are: beside other samples, and by lines.

In: kernels of `instrument.py`.  Out: rows of `sampling.py`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import instrument
import sampling_ncu
import torch

import tileprof
from tileprof.profile import PcSamples, Profile

Row = dict[str, Any]
Run = Callable[[], Any]
KERNELS = instrument.KERNELS


def sampled(run: Run, launches: int = 30, **options: Any) -> Profile:
    """A profile of some launches, with samples of program counters unless options say other."""
    run()
    torch.cuda.synchronize()
    chosen = {"pc_sampling": True, "instrument": "off"} | options
    with tileprof.profile(context="scopes", **chosen) as session:
        for _ in range(launches):
            run()
        torch.cuda.synchronize()
    assert session.profile is not None
    return session.profile


def hottest(samples: PcSamples) -> int:
    """The function with most samples."""
    return int(samples.by_function.argmax())


def lines(_: float) -> Iterator[Row]:
    """Of ours, and of Triton's."""
    works = {**KERNELS, "Triton softmax": triton_softmax}
    for name, make in works.items():
        samples = sampled(make()).tables.pc
        function = samples.functions[hottest(samples)]
        placed = {each.offset for each in function.code if each.place is not None}
        own = samples.rows.function == hottest(samples)
        counted, offsets = samples.counted[own], samples.rows.offset[own].tolist()
        on = sum(int(n) for n, offset in zip(counted, offsets) if offset in placed)
        share = on / int(counted.sum())
        yield {
            "what": "lines",
            "kernel": name,
            "function": function.name,
            "samples": int(counted.sum()),
            "share": share,
            "asked": 0.99,
            "met": bool(share >= 0.99),
        }


def triton_softmax() -> Run:
    """A row a program."""
    import sampling_triton

    x = torch.randn(8192, 4096, device="cuda")
    return lambda: sampling_triton.softmax(x)


def beside_ncu(_: float) -> Iterator[Row]:
    """Shares of stall reasons and of instructions' samples, in points."""
    for name, make in KERNELS.items():
        samples = sampled(make()).tables.pc
        at = hottest(samples)
        theirs = sampling_ncu.sampled(name, samples.functions[at].name)
        if isinstance(theirs, str):
            yield {"what": "ncu", "kernel": name, "error": theirs}
            continue
        own = samples.rows.function == at
        stalls: Counter[str] = Counter()
        places: Counter[int] = Counter()
        columns = samples.rows.stall[own], samples.rows.offset[own], samples.counted[own]
        for stall, offset, n in zip(*columns):
            stalls[samples.stalls[stall]] += int(n)
            places[int(offset)] += int(n)
        ours = {reason: n / stalls.total() for reason, n in stalls.items()}
        apart = {
            reason: ours.get(reason, 0.0) - theirs.stalls.get(reason, 0.0)
            for reason in ours.keys() | theirs.stalls.keys()
        }
        text = {each.offset: each.text for each in samples.functions[at].code}
        there = {
            f"{offset:#06x} {text.get(offset, '')}": n / places.total() - theirs.of(offset)
            for offset, n in places.items()
        }
        worst = max(map(abs, apart.values()))
        yield {
            "what": "ncu",
            "kernel": name,
            "samples": stalls.total(),
            "their_samples": theirs.samples,
            "ours": ours,
            "theirs": theirs.stalls,
            "apart": apart,
            "most_apart": worst,
            "instruction_most_apart": max(there.items(), key=lambda item: abs(item[1])),
            "asked": 0.03,
            "met": worst <= 0.03,
        }


def inside(_: float) -> Iterator[Row]:
    """By line of the kernel's source, in modes that mark each op, against samples of the kernel as
    it is: what marks change in a kernel shows here."""
    for name, make in KERNELS.items():
        run = make()
        clean = by_line(sampled(run, 100).tables.pc)
        row: Row = {"what": "inside", "kernel": name, "lines": {}}
        for mode in ("sample", "ops"):
            profile = sampled(run, 100, instrument=mode, pc_sampling=None)
            ops = by_site_line(profile)
            held = grouped(clean, sorted(ops))
            apart = {line: ops[line] - held.get(line, 0.0) for line in ops}
            row["lines"][mode] = {line: [ops[line], held.get(line, 0.0)] for line in ops}
            row[f"{mode}_most_apart"] = max(map(abs, apart.values()))
        yield row


def by_line(samples: PcSamples) -> dict[int, float]:
    """Share of the hottest function's samples by line of the kernel's own file."""
    at = hottest(samples)
    line = {each.offset: outermost(each.place) for each in samples.functions[at].code}
    found: Counter[int] = Counter()
    own = samples.rows.function == at
    for offset, n in zip(samples.rows.offset[own].tolist(), samples.counted[own].tolist()):
        found[line.get(offset, 0)] += n
    return {place: n / found.total() for place, n in found.items()}


def outermost(place: Any) -> int:
    """The line of the kernel itself, in which functions of the prelude were inlined."""
    return [each.line for each in place.chain()][-1] if place is not None else 0


def by_site_line(profile: Profile) -> dict[int, float]:
    """Share of time by the line of the op."""
    found: Counter[int] = Counter()
    for node in map(profile.node, profile.find(None, "site")):
        if node.location is not None:
            found[node.location.line] += node.own("time")
    return {line: n / found.total() for line, n in found.items() if n}


def grouped(lines: dict[int, float], starts: list[int]) -> dict[int, float]:
    """Lines of a loop's body count for the op that begins at or before them."""
    found: Counter[int] = Counter()
    for line, share in lines.items():
        found[max((start for start in starts if start <= line), default=0)] += share
    return dict(found)


# -- what it takes afterwards


def attribution(_: float) -> Iterator[Row]:
    """The time of the two steps, at the end of a recording with a million samples or more."""
    from tileprof.profiler.device import native_events as events

    spent: Counter[str] = Counter()

    def timed(name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            began = time.perf_counter()
            try:
                return step(*arguments)
            finally:
                spent[name] += time.perf_counter() - began

        return call

    steps = {name: getattr(events, name) for name in ("attribute", "with_code")}
    for name, step in steps.items():
        setattr(events, name, timed(name, step))
    try:
        run = instrument.gemm()
        run()
        with tileprof.profile(context="scopes", instrument="off", pc_sampling=1 << 14) as session:
            for _ in range(100):
                run()
            torch.cuda.synchronize()
    finally:
        for name, step in steps.items():
            setattr(events, name, step)
    assert spent.keys() == steps.keys(), spent
    held = session.profile.tables.pc
    took = sum(spent.values())
    yield {
        "what": "attribution",
        "samples": int(held.counted.sum()),
        "rows": len(held.rows),
        "seconds": dict(spent),
        "took_s": took,
        "asked": 1.0,
        "aim": 0.3,
        "met": took <= 1.0,
    }
