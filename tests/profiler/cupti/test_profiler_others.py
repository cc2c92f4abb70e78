"""Other users of CUPTI: who is named, and when a session makes room for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tileprof.profiler.cupti import other_profilers
from tileprof.profiler.cupti.other_profilers import (
    KINETO,
    NSIGHT_COMPUTE,
    NSIGHT_SYSTEMS,
    PROTON,
    OtherProfilers,
    who_holds,
    who_may_hold,
)


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tool's variables, no libraries, no profilers imported."""
    for name in [*(name for name, _ in other_profilers._VARIABLES), "CUDA_INJECTION64_PATH"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(other_profilers, "mapped_libraries", list)
    for name in ("torch", "torch.autograd.profiler", "cupti", "triton.profiler"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def events() -> list[str]:
    """What happened, in order."""
    return []


@pytest.fixture
def watched(events: list[str]) -> Iterator[OtherProfilers]:
    """A watch that notes its calls."""
    watching = OtherProfilers(
        lambda name: events.append(f"yield to {name}"), lambda: events.append("resume")
    )
    yield watching
    watching.forget()


def fake(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> ModuleType:
    """Have a module imported that is none."""
    module = ModuleType(name)
    vars(module).update(content)
    monkeypatch.setitem(sys.modules, name, module)
    return module


class Profiler:
    """The functions by which torch.autograd.profiler enters its C++."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.fails = False
        self.activities = [SimpleNamespace(name="CPU"), SimpleNamespace(name="CUDA")]

    def _call(self, what: str) -> str:
        self.events.append(what)
        if self.fails:
            raise RuntimeError("Profiler is already enabled")
        return what

    def put_into(self, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
        """Have it imported as PyTorch's."""
        return fake(
            monkeypatch,
            "torch.autograd.profiler",
            _prepare_profiler=lambda config, activities, **rest: self._call("prepare"),
            _enable_profiler=lambda config, activities: self._call("enable"),
            _disable_profiler=lambda: self._call("disable"),
        )


# -- who it is


def test_nobody() -> None:
    """Then CUPTI's word is all there is."""
    assert who_holds() is None
    assert who_may_hold() == "a tool that cannot be seen from here, as DCGM or a debugger"


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("NSYS_PROFILING_SESSION_ID", NSIGHT_SYSTEMS),
        ("QUADD_INJECTION_PROXY", NSIGHT_SYSTEMS),
        ("NV_TPS_LAUNCH_TOKEN", NSIGHT_COMPUTE),
        ("NV_NSIGHT_INJECTION_PORT_BASE", NSIGHT_COMPUTE),
    ],
)
def test_tools_that_launch_programs(
    monkeypatch: pytest.MonkeyPatch, variable: str, name: str
) -> None:
    """They are known by the variables that they set."""
    monkeypatch.setenv(variable, "1")
    assert who_holds() == who_may_hold() == name


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("/opt/nvidia/nsight-systems/target-linux-x64/libToolsInjection64.so", NSIGHT_SYSTEMS),
        ("/opt/nvidia/nsight-compute/target/libcuda-injection.so", NSIGHT_COMPUTE),
        ("/usr/local/cuda/compute-sanitizer/libsanitizer-collection.so", "Compute Sanitizer"),
    ],
)
def test_tools_that_are_loaded(monkeypatch: pytest.MonkeyPatch, library: str, name: str) -> None:
    """They are known by their libraries."""
    monkeypatch.setattr(
        other_profilers, "mapped_libraries", lambda: [Path("/lib/libc.so.6"), Path(library)]
    )
    assert who_holds() == name


def test_a_tool_that_only_the_driver_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its path is what there is to say."""
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "/opt/mem_trace.so")
    assert who_holds() == "the tool that CUDA_INJECTION64_PATH names (/opt/mem_trace.so)"


def test_profilers_that_were_there_before_us(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of PyTorch and Triton say that they are active."""
    module = fake(monkeypatch, "torch.autograd.profiler", _is_profiler_enabled=False)
    flags = SimpleNamespace(profiling_on=False)
    fake(monkeypatch, "triton.profiler.flags", flags=flags)
    assert who_holds() is None
    flags.profiling_on = True
    assert who_holds() == PROTON
    vars(module)["_is_profiler_enabled"] = True
    assert who_holds() == KINETO


def test_who_is_suspected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CUPTI is taken and nobody is active: who could have kept it."""
    fake(monkeypatch, "torch", version=SimpleNamespace(cuda=None))
    assert "cannot be seen" in who_may_hold()
    fake(monkeypatch, "torch", version=SimpleNamespace(cuda="13.0"))
    assert who_may_hold().startswith(f"{KINETO}, which keeps it after a trace")
    fake(monkeypatch, "triton.profiler")
    assert who_may_hold() == PROTON
    fake(monkeypatch, "cupti")
    assert who_may_hold() == "cupti-python"
    assert who_holds() is None


# -- PyTorch's


def test_room_is_made_before_and_taken_after(
    monkeypatch: pytest.MonkeyPatch, events: list[str], watched: OtherProfilers
) -> None:
    """Before PyTorch prepares a trace, which is when it subscribes, and after it has ended."""
    profiler = Profiler(events)
    module = profiler.put_into(monkeypatch)
    watched.forget()
    again = OtherProfilers(
        lambda name: events.append(f"yield to {name}"), lambda: events.append("resume")
    )
    for _ in range(2):
        assert module._prepare_profiler("config", profiler.activities, activity_filter=[])
        module._enable_profiler("config", profiler.activities)
        module._disable_profiler()
    once = [f"yield to {KINETO}", "prepare", "enable", "disable", "resume"]
    assert events == once * 2
    again.forget()


def test_traces_without_a_gpu(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    """They need no CUPTI: `activities=[CPU]`, and the NVTX ranges of `emit_nvtx`."""
    profiler = Profiler(events)
    module = profiler.put_into(monkeypatch)
    watched = OtherProfilers(events.append, lambda: events.append("resume"))
    none: set[object] = set()
    for activities in (profiler.activities[:1], none, None):
        module._enable_profiler("config", activities)
        module._disable_profiler()
    assert events == ["enable", "disable"] * 3
    watched.forget()


def test_a_trace_that_does_not_start(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    """What was handed over is taken back; a trace that is active already keeps it."""
    profiler = Profiler(events)
    module = profiler.put_into(monkeypatch)
    watched = OtherProfilers(events.append, lambda: events.append("resume"))
    profiler.fails = True
    with pytest.raises(RuntimeError, match="already enabled"):
        module._prepare_profiler("config", profiler.activities)
    assert events == [KINETO, "prepare", "resume"]
    profiler.fails = False
    module._enable_profiler("config", profiler.activities)
    profiler.fails = True
    with pytest.raises(RuntimeError):
        module._enable_profiler("config", profiler.activities)
    assert events[3:] == [KINETO, "enable", "enable"]
    with pytest.raises(RuntimeError):
        module._disable_profiler()
    assert events[6:] == ["disable", "resume"]
    watched.forget()


def test_forgetting_leaves_modules_as_they_were(
    monkeypatch: pytest.MonkeyPatch, events: list[str]
) -> None:
    """Also where somebody else has replaced what we had: theirs stays, and ours does nothing."""
    profiler = Profiler(events)
    module = profiler.put_into(monkeypatch)
    before = dict(vars(module))
    watched = OtherProfilers(events.append, lambda: events.append("resume"))
    ours = module._enable_profiler
    assert vars(module) != before
    theirs = lambda *arguments: ours(*arguments)  # noqa: E731
    module._enable_profiler = theirs  # type: ignore[attr-defined]
    watched.forget()
    watched.forget()
    assert vars(module) == before | {"_enable_profiler": theirs}
    module._enable_profiler("config", profiler.activities)
    assert events == ["enable"]


def test_forgetting_in_the_middle(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    """A session that ends while another profiler traces does not resume."""
    profiler = Profiler(events)
    module = profiler.put_into(monkeypatch)
    watched = OtherProfilers(events.append, lambda: events.append("resume"))
    disable = module._disable_profiler
    module._enable_profiler("config", profiler.activities)
    watched.forget()
    disable()
    assert events == [KINETO, "enable", "disable"]


def test_modules_that_come_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, events: list[str]
) -> None:
    """PyTorch that is imported after the session has begun; and after it was forgotten."""
    folder = tmp_path / "triton" / "profiler"
    folder.mkdir(parents=True)
    (tmp_path / "triton" / "__init__.py").touch()
    (folder / "__init__.py").touch()
    (folder / "profile.py").write_text(
        "import types\nlibproton = types.ModuleType('proton')\n"
        "libproton.start = lambda *arguments: 0\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    names = ("triton", "triton.profiler", "triton.profiler.profile")
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    watched = OtherProfilers(events.append, lambda: events.append("resume"))
    import triton.profiler.profile as module  # type: ignore[import-not-found, unused-ignore]

    module.libproton.start("name", "shadow", "tree", "cupti", "")
    assert events == [PROTON]
    watched.forget()
    for name in names:
        del sys.modules[name]
    import triton.profiler.profile as later  # type: ignore[import-not-found, unused-ignore]

    later.libproton.start("name", "shadow", "tree", "cupti", "")
    assert events == [PROTON]
    for name in names:
        del sys.modules[name]


# -- Proton


class Proton:
    """Proton's library: sessions by name, as it counts them."""

    def __init__(self, events: list[str]) -> None:
        self.events = events
        self.library = ModuleType("proton")
        self.library.start = self.start  # type: ignore[attr-defined]
        self.library.finalize = self.finalize  # type: ignore[attr-defined]
        self.library.finalize_all = lambda form: events.append("finalize all")  # type: ignore[attr-defined]
        self.names: list[str] = []

    def start(self, name: str, context: str, data: str, backend: str, mode: str) -> int:
        """Start a session, or find the one of that name."""
        if name == "broken":
            raise ValueError("no such mode")
        self.events.append(f"start {name}")
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def finalize(self, session: int, form: str) -> None:
        """End a session."""
        self.events.append(f"finalize {session}")


def test_proton(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    """It holds CUPTI from its first session to the end of its last."""
    proton = Proton(events)
    fake(monkeypatch, "triton.profiler.profile", libproton=proton.library)
    before = dict(vars(proton.library))
    watched = OtherProfilers(events.append, lambda: events.append("resume"))
    library: Any = proton.library
    library.start("in kernels", "shadow", "tree", "instrumentation", "cuda")
    assert library.start("a", "shadow", "tree", "cupti", "") == 1
    assert library.start("b", "shadow", "tree", "cupti", "") == 2
    assert library.start("a", "shadow", "tree", "cupti", "") == 1
    library.finalize(1, "hatchet")
    library.finalize(0, "hatchet")
    assert events[1:] == [PROTON, "start a", "start b", "start a", "finalize 1", "finalize 0"]
    library.finalize(2, "hatchet")
    assert events[-2:] == ["finalize 2", "resume"]
    library.start("a", "shadow", "tree", backend="cupti", mode="")
    library.finalize_all("hatchet")
    assert events[-4:] == [PROTON, "start a", "finalize all", "resume"]
    with pytest.raises(ValueError, match="mode"):
        library.start("broken", "shadow", "tree", "cupti", "")
    assert events[-2:] == [PROTON, "resume"]
    watched.forget()
    assert vars(proton.library) == before


def test_profilers_that_overlap(monkeypatch: pytest.MonkeyPatch, events: list[str]) -> None:
    """One gap, named after the first."""
    profiler, proton = Profiler(events), Proton(events)
    module: Any = profiler.put_into(monkeypatch)
    fake(monkeypatch, "triton.profiler.profile", libproton=proton.library)
    watched = OtherProfilers(events.append, lambda: events.append("resume"))
    library: Any = proton.library
    session = library.start("a", "shadow", "tree", "cupti", "")
    module._enable_profiler("config", profiler.activities)
    library.finalize(session, "hatchet")
    module._disable_profiler()
    assert events == [PROTON, "start a", "enable", "finalize 0", "disable", "resume"]
    watched.forget()
