"""torch.profiler as a second client of a played CUPTI: what is recorded beside its traces, and what
is said where it keeps CUPTI. `tests/profiler/gpu/test_gpu_kineto.py` does the same on a GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.native.cupti_programs import Fake
from tests.profiler.gpu.running import counts
from tests.profiler.trace_orders import ORDERS
from tileprof import profiler
from tileprof.profile import Profile, load
from tileprof.profiler.cupti import other_profilers
from tileprof.profiler.session.session import Session

recorder = pytest.importorskip("tileprof.native._recorder")

TAKEN = 39
"""CUPTI's result where somebody else is its subscriber."""


class Kineto:
    """torch.profiler, seen where it enters its C++; it subscribes to the played CUPTI."""

    def __init__(self, fake: Fake, keeps: bool) -> None:
        self._fake = fake
        self._keeps = keeps
        self._activities = [SimpleNamespace(name="CPU"), SimpleNamespace(name="CUDA")]
        self.refused = 0
        """Traces that found CUPTI taken by us."""
        self.module: Any = ModuleType("torch.autograd.profiler")
        vars(self.module).update(
            _is_profiler_enabled=False,
            _prepare_profiler=self._subscribe,
            _enable_profiler=lambda config, activities: None,
            _disable_profiler=self._unsubscribe,
        )

    def start(self) -> None:
        """Begin a trace, in the order of PyTorch's calls."""
        self.module._prepare_profiler("config", self._activities, activity_filter=[])
        self.module._is_profiler_enabled = True
        self.module._enable_profiler("config", self._activities)

    def stop(self) -> None:
        """End the trace."""
        self.module._disable_profiler()
        self.module._is_profiler_enabled = False

    def _subscribe(self, config: object, activities: object, activity_filter: object) -> None:
        self.refused += bool(recorder.gpu_started())
        self._fake.option("subscribe_result", TAKEN)

    def _unsubscribe(self) -> None:
        if not self._keeps:
            self._fake.option("subscribe_result", 0)


class Both:
    """A recording of ours and traces of torch.profiler in one process."""

    def __init__(self, fake: Fake, kineto: Kineto, path: Path) -> None:
        self.fake = fake
        self.kineto = kineto
        self._path = path
        self._session: Session | None = None

    def run(self, order: str) -> None:
        """Begin, end and launch one kernel in a scope, in an order of `ORDERS`."""
        for word in order.split():
            match word:
                case "ours+":
                    self._session = profiler.start(self._path, context="scopes")
                case "ours-":
                    assert self._session is not None
                    self._session.finalize()
                case "theirs+":
                    self.kineto.start()
                case "theirs-":
                    self.kineto.stop()
                case scope:
                    with profiler.scope(scope):
                        self.fake.kernel()

    @property
    def profile(self) -> Profile:
        """What the last recording has saved."""
        profile = load(self._path)
        profile.check()
        return profile

    @property
    def recorded(self) -> dict[str, bool]:
        """Whether the kernel of each scope was recorded."""
        profile = self.profile
        scopes = {profile.names[at] for at in profile.find(kind="scope")}
        return {scope: bool(counts(profile, scope=scope)) for scope in scopes}

    @property
    def facts(self) -> dict[str, str]:
        """The last recording's provenance."""
        return dict(self.profile.tables.provenance)


@pytest.fixture
def keeps() -> bool:
    """Whether torch.profiler keeps CUPTI after its first trace."""
    return False


@pytest.fixture
def both(
    library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keeps: bool
) -> Iterator[Both]:
    """Both profilers, on a machine without tools of the system."""
    monkeypatch.setenv("TILEPROF_CUPTI", str(library))
    monkeypatch.setenv("TEARDOWN_CUPTI", "0" if keeps else "1")
    monkeypatch.setattr(other_profilers, "mapped_libraries", list)
    for name in ("cupti", "triton.profiler"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    recorder.gpu_after_fork()
    fake = Fake(library, recorder)
    kineto = Kineto(fake, keeps)
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", kineto.module)
    torch = ModuleType("torch")
    vars(torch)["version"] = SimpleNamespace(cuda="13.0")
    monkeypatch.setitem(sys.modules, "torch", torch)
    yield Both(fake, kineto, tmp_path / "out.tprof")
    fake.option("subscribe_result", 0)
    if recorder.gpu_started():
        recorder.gpu_stop()
    recorder.gpu_drain()


def outside_traces(order: str, until_first: bool) -> dict[str, bool]:
    """Whether each scope of the last recording of an order ran outside all traces.

    `until_first`: scopes after the first trace do not count as outside.
    """
    ours = theirs = traced = False
    found: dict[str, bool] = {}
    for word in order.split():
        match word:
            case "ours+":
                ours, found = True, {}
            case "ours-":
                ours = False
            case "theirs+":
                theirs = traced = True
            case "theirs-":
                theirs = False
            case scope if ours:
                found[scope] = not theirs and not (until_first and traced)
    return found


@pytest.mark.spread
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("keeps", [False, True], ids=["gives back", "keeps"])
def test_kernels_outside_of_traces_are_recorded(both: Both, keeps: bool, order: str) -> None:
    """All of them; where torch.profiler keeps CUPTI, those before its first trace.

    It always finds CUPTI free, and what is not recorded has its name.
    """
    both.run(order)
    recorded, facts = both.recorded, both.facts
    assert both.kineto.refused == 0
    assert recorded == outside_traces(order, until_first=keeps)
    said = f"{facts.get('gpu', '')} {facts.get('gaps', '')}"
    assert ("torch.profiler" in said) == (False in recorded.values())
    assert "lost" not in facts


def test_gap_that_is_open_at_the_end_is_said(both: Both) -> None:
    """A recording that ends within a trace has a gap, too."""
    both.run("ours+ before theirs+ during ours-")
    assert both.facts["gaps"].startswith("torch.profiler has had CUPTI for ")
    assert "gpu" not in both.facts


def test_session_begun_within_a_trace_says_the_gap_alone(both: Both) -> None:
    """What follows the trace is recorded, so nothing is said to be missing for good."""
    both.run("theirs+ ours+ during theirs- after ours-")
    assert both.recorded == {"during": False, "after": True}
    assert both.facts["gaps"].startswith("torch.profiler had CUPTI for ")
    assert "gpu" not in both.facts


def test_paused_session_still_gives_cupti(both: Both) -> None:
    """CUPTI is ours between two sessions; a trace gets it, and the next session has it again."""
    both.run("ours+ first ours-")
    assert recorder.gpu_started()
    both.run("theirs+ theirs-")
    assert both.kineto.refused == 0
    both.run("ours+ second ours-")
    assert both.recorded == {"second": True}


def test_modules_are_as_before_once_cupti_is_given(both: Both) -> None:
    """The watch of a second session replaces the first one's, and leaves nothing behind."""
    plain = dict(vars(both.kineto.module))
    both.run("ours+ first ours- ours+ before theirs+ during ours- theirs-")
    assert dict(vars(both.kineto.module)) == plain


@pytest.mark.parametrize("keeps", [True])
def test_profiler_that_keeps_cupti_is_said_with_the_way_out(both: Both) -> None:
    """Of a trace within the session, and of one that ended before it."""
    both.run("ours+ theirs+ theirs- after ours-")
    assert both.facts["gpu"] == (
        "not recorded: torch.profiler keeps CUPTI after its trace; what follows is recorded in a"
        " run without that trace, or with TEARDOWN_CUPTI=1 in a session that starts after it"
    )
    both.run("ours+ after ours-")
    assert both.facts["gpu"] == (
        "not recorded: torch.profiler, which keeps it after a trace unless TEARDOWN_CUPTI=1 is set"
        " has CUPTI already"
    )
