"""Kernel launches: where they hang, what they add up to, what is kept of the kernel."""

from __future__ import annotations

import tileprof.profiler as profiler
from tests.profiler_programs import (
    Clock,
    FakeKernel,
    expect,
    launch,
    run,
    site_times,
    tree,
)
from tileprof.errors import Location
from tileprof.profile import KernelInfo, Profile, SiteInfo
from tileprof.remarks import Rejection, Remark
from tileprof.remarks.common import StepNotOne
from tileprof.remarks.copies import LoadsAndStores, Tma
from tileprof.runtime import hooks
from tileprof.runtime.hooks import KernelDescription, SiteDescription

PLACE = Location("kernels.py", 7, function="matmul")
REMARK = Remark(LoadsAndStores(), "copy", "A → a", PLACE, (Rejection(Tma(), StepNotOne()),))


def test_launches_hang_below_their_call_path() -> None:
    """Host wall time of a launch is the kernel's, not the scope's around it."""
    profile = run("""
        matmul, softmax = FakeKernel("matmul"), FakeKernel("softmax")
        def step():
            spend(1)
            launch(matmul, 10, flops=8, bytes=4)
            launch(softmax, 20)
            launch(matmul, 30, flops=8, bytes=4)
        with scope("train"):
            step()
        launch(matmul, 5)
    """)
    assert tree(profile, "time", "cpu_time", "count", "time_min", "time_max", "flops") == expect("""
        frame <module>:7
          scope train cpu_time=1 count=1
            frame step:4
              kernel matmul time=10 cpu_time=10 count=1 time_min=10.0 time_max=10.0 flops=8
            frame step:5
              kernel softmax time=20 cpu_time=20 count=1 time_min=20.0 time_max=20.0
            frame step:6
              kernel matmul time=30 cpu_time=30 count=1 time_min=30.0 time_max=30.0 flops=8
        frame <module>:9
          kernel matmul time=5 cpu_time=5 count=1 time_min=5.0 time_max=5.0
    """)


def test_work_is_not_counted_twice() -> None:
    """A scope's flops cover what is inside: what kernels and inner scopes know is taken off."""
    profile = run("""
        matmul = FakeKernel("matmul")
        with scope("step", flops=100, bytes=1):
            launch(matmul, 10, flops=8, bytes=4)
            with scope("inner", flops=30):
                launch(matmul, 10, flops=20)
    """)
    assert tree(profile, "flops", "bytes") == expect("""
        frame <module>:2
          scope step flops=62
            kernel matmul flops=8 bytes=4
            scope inner flops=10
              kernel matmul flops=20
    """)
    assert profile.whole["flops"] == 100


def test_launches_with_scopes_only() -> None:
    """Without frames all launches of a kernel in a scope are one node."""
    profile = run(
        """
        k = FakeKernel("k")
        for _ in range(3):
            with scope("a"):
                launch(k, 10, blocks=4, guarded=1)
                launch(k, 6, blocks=4)
        launch(k, 1)
        """,
        context="scopes",
    )
    assert tree(profile, "time", "count", "time_min", "time_max", "blocks", "guarded") == expect("""
        scope a count=3
          kernel k time=48 count=6 time_min=6.0 time_max=10.0 blocks=24 guarded=3
        kernel k time=1 count=1 time_min=1.0 time_max=1.0 blocks=1
    """)


def _launch_sites(*launches: tuple[int, list[int], list[int], int]) -> Profile:
    """Launch a kernel of sites load (0), math (1) inside loop (2); `loop` encloses the others."""
    sites = tuple(
        SiteDescription(at, name, "scope", Location("kernels.py", 10 + at))
        for at, name in enumerate(("load", "math", "loop"))
    )
    kernel = FakeKernel("k", PLACE, KernelDescription("k", "cpu", sites=sites))
    with profiler.profile(clock=Clock(), context="scopes") as session:
        for time, count, total, block_ns in launches:
            times = site_times([-1, 0, 0], [2, 0, 1], count, total, block_ns)
            launch(kernel, time, 0, sites=times, blocks=8)
    assert session.profile is not None
    session.profile.check()
    return session.profile


def test_sites_share_their_kernels_time() -> None:
    """Sites are times over all blocks; in the tree they are shares of the kernel's own time."""
    profile = _launch_sites(
        (100, [8, 16, 16], [320, 80, 160], 400), (100, [8, 16, 0], [240, 160, 0], 400)
    )
    columns = ("time", "count", "block_time", "block_time_min", "block_time_max")
    assert tree(profile, *columns) == expect("""
        kernel k time=60 count=2
          site loop time=40 count=16 block_time=160 block_time_min=30.0 block_time_max=40.0
            site load time=60 count=32 block_time=240 block_time_min=5.0 block_time_max=10.0
            site math time=40 count=16 block_time=160 block_time_min=10.0 block_time_max=10.0
    """)
    assert profile.node(0).total("time") == 200


def test_sites_without_block_time() -> None:
    """Where blocks were not timed, the outermost sites are taken for the whole kernel."""
    profile = _launch_sites((100, [8, 16, 16], [320, 80, 160], 0))
    assert tree(profile, "time") == expect("""
        kernel k
          site loop time=25
            site load time=25
            site math time=50
    """)


def test_the_kernel_is_described_once() -> None:
    """IR, source, code, remarks and sites go to the profile's tables, once per variant."""
    description = KernelDescription(
        name="matmul",
        device="cpu",
        ir="kernel @matmul",
        source="def matmul(): ...",
        source_file="kernels.py",
        source_line=7,
        code="void matmul() {}",
        code_language="cpp",
        remarks=(REMARK,),
        sites=(SiteDescription(0, "load", "scope", PLACE),),
        attributes={"threads": 128},
    )
    first, second = FakeKernel("matmul", PLACE, description), FakeKernel("matmul", PLACE)
    with profiler.profile(clock=Clock(), context="scopes") as session:
        for kernel in (first, second, first, first):
            launch(kernel, 10)
    profile = session.profile
    assert profile is not None
    assert (first.described, second.described) == (1, 1)
    # Both variants are one node: it shows the one that took more time.
    assert tree(profile, "count") == "kernel matmul count=4"
    assert profile.tables.node_kernels == {0: 0}
    assert profile.tables.kernels == (
        KernelInfo(
            name="matmul",
            device="cpu",
            ir="kernel @matmul",
            source="def matmul(): ...",
            source_file="kernels.py",
            source_line=7,
            code="void matmul() {}",
            code_language="cpp",
            remarks=(REMARK,),
            sites=(SiteInfo(0, "load", "scope", PLACE),),
            attributes={"threads": 128},
        ),
    )
    assert profile.tables.provenance["device"] == "cpu"


def test_who_listens_and_in_what_detail() -> None:
    """The seat is taken while a session is active, in the finest detail that one asks for."""
    seen: list[str | None] = []

    def look() -> None:
        seen.append(hooks.listener.instrument if hooks.listener else None)

    look()
    off = profiler.start(clock=Clock(), instrument="off")
    look()
    ops = profiler.start(instrument="ops")
    look()
    ops.deactivate()
    look()
    profiler.deactivate()
    look()
    profiler.activate()
    look()
    ops.finalize()
    look()
    off.finalize()
    look()
    assert seen == [None, "off", "ops", "off", None, "ops", "off", None]


def test_sessions_that_want_samples() -> None:
    """Records tell more; the period is the shortest that one asks for."""
    seen: list[tuple[str, int]] = []

    def look() -> None:
        assert hooks.listener is not None
        seen.append((hooks.listener.instrument, hooks.sample_period_ns))

    first = profiler.start(clock=Clock(), instrument="sample")
    look()
    second = profiler.start(instrument="sample=20")
    third = profiler.start(instrument="sample=5ms")
    look()
    fourth = profiler.start(instrument="stages")
    look()
    for session in (fourth, third, second):
        session.finalize()
    profiler.start(instrument="scopes")
    look()
    profiler.finalize()
    assert first.profile is not None
    assert first.profile.tables.provenance["options"] == "context=full instrument=sample"
    assert seen == [("sample", 0), ("sample", 20_000), ("stages", 20_000), ("sample", 0)]
    assert hooks.sample_period_ns == 0


def test_a_launch_that_fails() -> None:
    """A launch without an end counts nowhere, and leaves scopes as they were."""
    profile = run("""
        from tileprof.runtime import hooks
        k = FakeKernel("k")
        try:
            with scope("a"):
                hooks.listener.begin(k)
                spend(3)
                raise ValueError
        except ValueError:
            pass
        with scope("b"):
            launch(k, 10)
    """)
    assert tree(profile, "time", "cpu_time", "count") == expect("""
        frame <module>:4
          scope a cpu_time=3 count=1
        frame <module>:10
          scope b count=1
            kernel k time=10 cpu_time=10 count=1
    """)
