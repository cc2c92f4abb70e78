"""Scopes that stay open while something else runs: those of coroutines and generators."""

from __future__ import annotations

import threading
from typing import Any

from tests.profiler_programs import expect, run, tree
from tileprof.profile import Profile
from tileprof.profiler.host.sampler import Sampler
from tileprof.profiler.session import recording
from tileprof.viewer import ViewOptions, render_view


def _run(source: str, **options: Any) -> Profile:
    """Run a program that can also `look`: have its threads sampled once."""
    samplers: list[Sampler] = []

    def look() -> None:
        assert recording._current is not None
        if not samplers:
            samplers.append(Sampler(recording._current.recorder))
        thread = threading.Thread(target=samplers[0].sample)
        thread.start()
        thread.join()

    return run(source, names={"look": look}, **options)


GENERATORS = """
    def steps(name):
        with scope(name):
            spend(1)
            yield
            with scope("inner"):
                spend(100)
            yield
    first, second = steps("first"), steps("second")
    for _ in range(2):
        next(first)
        next(second)
    with scope("main"):
        spend(1000)
    for _ in range(2):
        list(first), list(second)
"""


def test_scopes_of_interleaved_generators_are_beside_each_other() -> None:
    """A generator's scope is not around what its caller does between two steps."""
    for context in ("scopes", "python"):
        lines = tree(_run(GENERATORS, context=context), "count").splitlines()
        scopes = [line for line in lines if "scope" in line]
        assert [line.strip() for line in scopes] == [
            "scope first count=1", "scope inner count=1",
            "scope second count=1", "scope inner count=1",
            "scope main count=1",
        ]  # fmt: skip
    assert tree(_run(GENERATORS, context="scopes"), "count") == expect("""
        scope first count=1
          scope inner count=1
        scope second count=1
          scope inner count=1
        scope main count=1
    """)


def test_context_manager_made_of_a_generator_is_around_its_block() -> None:
    """Its scope is held for the `with` block, which is inside."""
    profile = _run(
        """
        import contextlib
        @contextlib.contextmanager
        def around():
            with scope("around"):
                yield
        with around():
            spend(1)
            look()
            spend(10)
            with scope("inside"):
                spend(100)
        """,
        context="scopes",
    )
    assert tree(profile, "count", "cpu_time") == expect("""
        scope around count=1 cpu_time=11
          scope inside count=1 cpu_time=100
    """)


JOBS = """
    import asyncio
    async def wait():
        await asyncio.sleep(0)
    async def job(name, ns):
        with scope(name):
            spend(1)
            look()
            await wait()
            look()
            spend(ns)
            look()
            await wait()
    async def main():
        jobs = asyncio.gather(job("a", 10), job("b", 20), job("c", 30))
        await wait()
        look()
        spend(5000)
        look()
        await jobs
    spend(1)
    with scope("loop"):
        asyncio.run(main())
"""


def test_time_of_coroutines_is_that_in_which_they_run() -> None:
    """Three jobs that overlap: each has its own time, and none what passes while all wait."""
    profile = _run(JOBS, context="scopes")
    own = {
        profile.node(n).name: profile.node(n).own("cpu_time") for n in profile.find(kind="scope")
    }
    assert own["loop"] >= 5000
    assert {name: own[name] for name in "abc"} == {"a": 11, "b": 21, "c": 31}
    assert sum(own.values()) == 3 + 60 + 5000


def test_elapsed_time_of_coroutines_overlaps() -> None:
    """A scope that waits says from when to when it was open too, and is shown for it."""
    profile = _run(JOBS, context="scopes")
    elapsed = {
        profile.node(n).name: profile.node(n).own("elapsed_time")
        for n in profile.find(kind="scope")
    }
    assert elapsed["loop"] == 0
    assert min(elapsed[name] for name in "abc") > 5000
    text = render_view(profile, ViewOptions(threshold=1.0))
    assert "elapsed_time" in text
    assert all(f" {name}  scope" in text for name in "abc")
