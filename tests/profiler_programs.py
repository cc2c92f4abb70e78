"""Small programs run on a clock that they move themselves, and trees as text."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import dedent
from typing import Any, TypeVar

import tileprof
import tileprof.profiler as profiler
from tileprof.errors import Location
from tileprof.instrument import SiteTimes
from tileprof.profile import Profile
from tileprof.profiler.host import scopes
from tileprof.runtime import hooks
from tileprof.runtime.hooks import KernelDescription, Launch

_Function = TypeVar("_Function")


class Clock:
    """Stands still until a program spends time."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def spend(self, ns: int) -> None:
        """Let time pass."""
        self.now += ns


@dataclass(eq=False)
class FakeKernel:
    """A kernel variant that runs by letting the clock pass."""

    name: str
    location: Location | None = None
    description: KernelDescription = field(default_factory=lambda: KernelDescription("", "cpu"))
    described: int = 0

    @property
    def key(self) -> FakeKernel:
        """Itself."""
        return self

    def info(self) -> KernelDescription:
        """The description; counts how often it is asked for."""
        self.described += 1
        return self.description


def as_ours(function: _Function) -> _Function:
    """Make a function look like one of the package: its frames do not show."""
    code: Any = function
    inside = f"{os.path.dirname(tileprof.__file__)}/runtime/fake.py"
    code.__code__ = code.__code__.replace(co_filename=inside)
    return function


@as_ours
def launch(kernel: FakeKernel, time: int = 0, wall: int = 0, **more: Any) -> None:
    """Do what the runtime does at a launch."""
    if (listener := hooks.listener) is not None:
        token = listener.begin(kernel)
        listener.end(token, Launch(kernel, "cpu", (1,), more.pop("blocks", 1), time, wall, **more))


def run(source: str, **options: Any) -> Profile:
    """Run a program, dedented, as `prog.py`; it has `scope`, `spend`, `launch`, `FakeKernel`.

    With `native`, operations are recorded too, and it has `op`, `backward` and `native`; `names`
    are further ones that it has.
    """
    clock = Clock()

    @as_ours
    def spending_launch(kernel: FakeKernel, time: int, **more: Any) -> None:
        clock.spend(time)
        launch(kernel, time, time, **more)

    names: dict[str, Any] = {
        "__name__": "prog",
        "scope": profiler.scope,
        "spend": clock.spend,
        "launch": spending_launch,
        "FakeKernel": FakeKernel,
        "profiler": profiler,
    }
    native = options.pop("native", False)
    names |= options.pop("names", {})
    session = profiler.start(clock=clock, **options)
    if native:
        names |= _operations(session, clock)
    session.recording.recorder.set_base(sys._getframe())
    try:
        exec(compile(dedent(source).strip("\n"), "prog.py", "exec"), names)
    finally:
        profile = session.finalize()
        if native:
            names["native"].set_time(0)
    profile.check()
    return profile


def _operations(session: profiler.Session, clock: Clock) -> dict[str, Any]:
    """Let a session record operations on a test's clock, and return what makes them."""
    from tileprof.native import _recorder
    from tileprof.profiler.device.native_events import native_events
    from tileprof.profiler.host.entries import top

    recorder = session.recording.recorder
    clock.now = clock.now or 1
    _recorder.set_time(clock.now)
    recorder.events = native_events(recorder.tree, top, recorder.kernels, recorder.kernel_of)
    scopes.install(recorder)
    session.recording.refresh()

    def spend(ns: int) -> None:
        clock.spend(ns)
        _recorder.set_time(clock.now)

    @as_ours
    def op(
        name: str,
        call: Callable[[], Any] | int = 0,
        sequence: int = -1,
        thread: int = 1,
        moves: float | None = None,
    ) -> Any:
        entered = _recorder.enter_op(name, sequence, thread)
        try:
            return spend(call) if isinstance(call, int) else call()
        finally:
            _recorder.leave(entered)
            if moves is not None:
                _recorder.sample_op(entered, moves)

    @as_ours
    def backward(
        name: str, sequence: int, call: Callable[[], Any] | int = 0, thread: int = 1
    ) -> Any:
        entered = _recorder.enter_backward(name, sequence, thread)
        try:
            return spend(call) if isinstance(call, int) else call()
        finally:
            _recorder.leave(entered)

    return {"spend": spend, "op": op, "backward": backward, "native": _recorder}


def tree(profile: Profile, *metrics: str) -> str:
    """A line per node: kind, name, line of frames, and own values of metrics that it has."""
    lines = []
    for index, depth in enumerate(profile.depths.tolist()):
        node = profile.node(index)
        line = f":{node.location.line}" if node.kind == "frame" and node.location else ""
        shown = [f"{m}={node.own(m)}" for m in metrics if m in profile.metrics]
        values = "".join(f" {each}" for each in shown if not each.endswith(("=0", "=nan")))
        lines.append((index, f"{'  ' * depth}{node.kind} {node.name}{line}{values}"))
    return "\n".join(text for _, text in _depth_first(profile, dict(lines)))


def _depth_first(profile: Profile, lines: dict[int, str]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    todo = profile.roots()[::-1]
    while todo:
        node = todo.pop()
        found.append((node, lines[node]))
        todo += profile.children(node)[::-1]
    return found


def expect(text: str) -> str:
    """An expected tree as it stands in a test."""
    return dedent(text).strip("\n")


def site_times(
    parents: list[int], site: list[int], count: list[int], total: list[int], block_ns: int
) -> SiteTimes:
    """Site times whose visits all took the same time."""
    import numpy as np

    def column(values: list[int]) -> Any:
        return np.array(values, np.int64)

    each = column([t // max(c, 1) for t, c in zip(total, count)])
    zero = column([0] * len(site))
    return SiteTimes(
        column(parents), column(site), column(count), column(total), each, each,
        zero, zero, zero, block_ns,
    )  # fmt: skip
