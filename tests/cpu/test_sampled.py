"""Kernels that a thread looks at while they run: their text, what is counted, the shares."""

from __future__ import annotations

import os
import re
import threading
from typing import Any

import numpy as np
import pytest

import tileprof
from tests.cpu import sampled_kernels
from tests.cpu.support import kernel as text_kernel
from tests.verified import parse
from tileprof.compiler.codegen import emit, marked
from tileprof.errors import DeviceAssertError
from tileprof.instrument.decode.samples import SampleTotals
from tileprof.remarks.measured import Samples, Unmeasured
from tileprof.runtime import hooks
from tileprof.runtime.cpu.executable import CpuExecutable
from tileprof.runtime.launch import LoadedKernel


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look each 50 µs or so."""
    monkeypatch.setattr(hooks, "sample_period_ns", 50_000)


def loaded(compiled: Any, mode: str = "sample") -> LoadedKernel:
    """A kernel on the cpu."""
    found: LoadedKernel = compiled.variant.loaded("cpu", mode)
    return found


# -- the text


def plain(text: str) -> list[str]:
    """The lines without marks and the places that they need."""
    return [
        line for line in text.splitlines()
        if "tp_mark" not in line and "marks.h" not in line and not line.startswith("#line")
    ]  # fmt: skip


@pytest.mark.spread("twice", "elements")
@pytest.mark.parametrize("name", ["softmax", "twice", "elements"])
def test_marks_change_nothing_else(name: str) -> None:
    """What is one loop stays one; unmeasured there is no mark."""
    shape = {"N": 64} if name == "elements" else {"M": 4, "N": 64}
    compiled = getattr(sampled_kernels, name).compile(**shape)
    off, sampled = loaded(compiled, "off").source, loaded(compiled).source
    assert "tp_mark" not in off
    assert "marks.h" not in off
    assert "tp_mark(worker, 1);" in sampled
    assert plain(sampled) == plain(off)


def test_the_text(golden: Any) -> None:
    """A mark in front of each step; a loop that copies on the way is one with the copy."""
    text = loaded(sampled_kernels.softmax.compile(M=4, N=64)).source
    function = text[text.index("static int") : text.index('extern "C"')]
    golden(re.sub(r"^#line .*\n", "", function, flags=re.M))


def test_a_loop_over_elements_is_one_step() -> None:
    """Scopes of the author's in it are kept."""
    held = loaded(sampled_kernels.elements.compile(N=64))
    text = re.sub(r"^#line .*\n", "", held.source, flags=re.M)
    loops = re.findall(r"for \(int64_t \w = 0.*?\n  }", text, re.S)
    assert ["tp_mark" in loop for loop in loops] == [False, True]
    assert {"loop i", "first", "second"} <= {s.name for s in held.info().sites}


def test_behind_a_copy_in_a_loop_its_state_holds() -> None:
    """The next turn begins in a state that is known."""
    text = loaded(sampled_kernels.twice.compile(M=4, N=64)).source
    body = text[text.index("for (int64_t k") :]
    marks = re.findall(r"tp_mark\(worker, (\d+)\)", body)
    assert len(marks) == len(set(marks)) == 3


def test_arithmetic_in_a_branch_has_a_step() -> None:
    """Although it writes to no tensor; and it is in its scope."""
    held = loaded(sampled_kernels.guarded.compile(N=4))
    sites = {s.name: s for s in held.info().sites}
    assert {"work", "loop i", "store Y"} <= sites.keys()
    assert sites["loop i"].parent == sites["work"].id
    text = re.sub(r"^#line .*\n", "", held.source, flags=re.M)
    assert re.search(r"if \(bx == 0\) {\s+tp_mark\(worker, \d\);\s+for ", text)


# -- what is counted


def ran(held: LoadedKernel, *values: Any, symbols: tuple[int, ...] = ()) -> SampleTotals | None:
    """The samples of a launch."""
    return held.executable.run(values, symbols).samples


def looked_at(held: LoadedKernel, *values: Any, looks: int = 1) -> SampleTotals:
    """The samples of as many launches as it takes for so many looks.

    On a busy machine the thread that looks may get no processor for as long as a launch takes.
    """
    total: SampleTotals | None = None
    for _ in range(500):
        more = ran(held, *values)
        if more is not None:
            total = more if total is None else total + more
        if total is not None and total.looks >= looks:
            return total
    raise AssertionError(f"{total.looks if total else 0} looks of {looks} in 500 launches")


def by_name(held: LoadedKernel, totals: SampleTotals) -> dict[str, float]:
    """Share of each site; '' is outside of all."""
    names = [*(s.name for s in held.info().sites), ""]
    assert totals.roles == ("block",)
    found: dict[str, float] = {}
    for name, seen in zip(names, totals.seen[0].tolist(), strict=True):
        found[name] = found.get(name, 0.0) + seen / float(totals.samples[0])
    return {name: share for name, share in found.items() if share}


@pytest.mark.alone
@pytest.mark.usefixtures("often", "two_threads")
def test_shares_are_those_of_the_time() -> None:
    """A quarter of each block's steps is in one scope; the interval holds it, or nearly.

    Launches are added until they show it: on a busy machine a worker that waits for a processor is
    looked at many times in one place.
    """
    held = loaded(sampled_kernels.delays.compile(N=64))
    y = np.zeros(64, np.float32)
    total = looked_at(held, 64, 100_000, 300_000, y, looks=1_000)
    for _ in range(40):
        found = by_name(held, total)
        off = max(abs(found["short"] - 0.25), abs(found["long"] - 0.75))
        if off <= 0.04 and found.get("", 0) < 0.02:
            return
        total += looked_at(held, 64, 100_000, 300_000, y, looks=1_000)
    raise AssertionError(f"shares of {total.looks} looks: {found}")


@pytest.mark.alone
@pytest.mark.usefixtures("two_threads")
def test_launches_shorter_than_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at as often as they are long, at all of their parts."""
    monkeypatch.setattr(hooks, "sample_period_ns", 300_000)
    held = loaded(sampled_kernels.delays.compile(N=64))
    y = np.zeros(64, np.float32)
    total, launches = None, 0
    # With fewer samples the share is off by a third now and then.
    while launches < 6_000 or (total is not None and total.looks < 1_000 and launches < 200_000):
        launches += 1
        more = ran(held, 2, 10_000, 30_000, y)
        if more is not None:
            total = more if total is None else total + more
    assert total is not None
    assert 200 < total.looks < launches
    found = by_name(held, total)
    assert found["short"] == pytest.approx(0.25, abs=0.08)


@pytest.mark.usefixtures("often", "two_threads")
def test_workers_without_a_block_are_not_counted() -> None:
    """One of two works: of each look there is one sample."""
    held = loaded(sampled_kernels.lopsided.compile(N=128))
    y = np.zeros(128, np.float32)
    total = looked_at(held, 20_000_000, y, looks=100)
    assert total.looks <= total.samples.sum() <= total.looks * 1.1
    assert by_name(held, total)["work"] > 0.9


def test_nobody_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that no look fell into has no samples, and the same result."""
    monkeypatch.setattr(hooks, "sample_period_ns", 100_000_000)
    held = loaded(sampled_kernels.delays.compile(N=4))
    seen = [ran(held, 4, 10, 10, np.zeros(4, np.float32)) for _ in range(50)]
    assert seen.count(None) > 40


@pytest.mark.usefixtures("often", "two_threads")
def test_launches_of_several_threads_at_once() -> None:
    """Each has its own counts: with one block each has at most one sample a look."""
    held = loaded(sampled_kernels.lopsided.compile(N=1))
    found: list[SampleTotals] = []

    def launch() -> None:
        found.append(looked_at(held, 5_000_000, np.zeros(1, np.float32), looks=5))

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(each.samples.sum() == each.looks for each in found)


@pytest.mark.usefixtures("often")
def test_a_forked_child_has_a_sampler_of_its_own() -> None:
    """After a launch of the parent."""
    held = loaded(sampled_kernels.lopsided.compile(N=1))
    y = np.zeros(1, np.float32)
    looked_at(held, 5_000_000, y)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            looked_at(held, 5_000_000, y)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


STOPS = text_kernel(
    "stops",
    ["%x: global<4, float32>"],
    """    %no = constant false : bool
    fill %x, %one
    assert "no" %no""",
).replace("%c0 =", "%one = constant 1.0 : float32\n  %c0 =")


def test_a_launch_that_fails_is_looked_at_no_more() -> None:
    """The next one is fine."""
    source = emit(marked(parse(STOPS)))
    assert source.states
    executable = CpuExecutable(parse(STOPS), source)
    for _ in range(3):
        with pytest.raises(DeviceAssertError):
            executable.run([np.zeros(4, np.float32)], [])


# -- the whole way


@pytest.mark.usefixtures("two_threads")
def test_a_profile_of_samples() -> None:
    """Sites with the looks at them and the kernel's time in proportion."""
    kernel = sampled_kernels.delays.compile(N=64)
    y = np.zeros(64, np.float32)
    with tileprof.profile(instrument="sample=50us") as session, tileprof.device("cpu"):
        for _ in range(3):
            kernel(64, 100_000, 300_000, y)
    profile = session.profile
    assert profile is not None
    profile.check()
    (whole,) = profile.find(kind="kernel")
    (info,) = profile.tables.kernels
    assert info.attributes["instrument"] == "sample"
    nodes = {profile.node(n).name: profile.node(n) for n in profile.find(kind="site")}
    assert {"short", "long"} <= nodes.keys()
    samples, time = (profile.node(whole).total(m) for m in ("kernel_samples", "time"))
    assert samples > 200
    assert nodes["long"].total("time") == pytest.approx(
        time * nodes["long"].total("kernel_samples") / samples, rel=1e-3
    )
    assert nodes["long"].total("kernel_samples") > nodes["short"].total("kernel_samples") > 0


def test_the_interpreter_says_that_it_does_not() -> None:
    """It runs as without measurement."""
    held = sampled_kernels.softmax.compile(M=2, N=8).variant.loaded("interpreter", "sample")
    (remark,) = [r for r in held.remarks if r.op == "measurement"]
    assert (remark.decision, remark.severity) == (Unmeasured(), "missed")
    assert remark.rejected[0].candidate == Samples()
    result = held.executable.run([np.ones((2, 8), np.float32), np.zeros((2, 8), np.float32)], ())
    assert result.samples is None
    assert held.info().sites == ()
