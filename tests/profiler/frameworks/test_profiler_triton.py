"""Work of Triton kernels, told by their authors or derived: a played Triton over a played CUPTI."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import tileprof.profiler as profiler
from tileprof.profile import LaunchVariant, NumberArgument, Origin, TensorArgument

ADD = Path(__file__).parents[2] / "data" / "triton" / "add.ttir"


class Chain:
    """Triton's chain of hooks, and that of the ends of the same launches."""

    def __init__(self, ends: Chain | None = None) -> None:
        self.calls: list[Callable[[Any], None]] = []
        self.ends = ends or self

    def add(self, hook: Callable[[Any], None]) -> None:
        self.calls.append(hook)

    def remove(self, hook: Callable[[Any], None]) -> None:
        self.calls.remove(hook)

    def __call__(self, metadata: Any) -> None:
        for call in self.calls[:]:
            call(metadata)


class Lazy:
    """Triton's metadata of a launch: worked out when it is asked for, once."""

    def __init__(self, told: dict[str, Any] | None) -> None:
        self.data: dict[str, Any] = {"name": "k", "function": 1, "stream": 0}
        self.extras = [told] if told is not None else []

    def get(self) -> dict[str, Any]:
        for each in self.extras:
            self.data = self.data | each
        self.extras.clear()
        return self.data


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chain]:
    """The chain of a Triton that is imported."""
    knobs = ModuleType("triton.knobs")
    hooks = Chain(Chain())
    ends = hooks.ends
    knobs.runtime = SimpleNamespace(  # type: ignore[attr-defined]
        launch_enter_hook=hooks, launch_exit_hook=ends
    )
    monkeypatch.setitem(sys.modules, "triton.knobs", knobs)
    yield hooks
    assert not hooks.calls
    assert not ends.calls


def test_work_belongs_to_the_launch_it_was_told_of(
    chain: Chain,
    names: dict[str, Any],
) -> None:
    """Flops of all widths add up; kernels whose authors tell nothing have none."""

    def launch(name: str, told: dict[str, Any] | None, got: bool = False) -> None:
        metadata = Lazy(told)
        if got:
            metadata.get()  # another tool was first
        for call in chain.calls:
            call(metadata)
        names["kernel"](name, 1000, 2000)

    with profiler.profile(context="scopes") as session:
        with profiler.scope("a"):
            launch("silent", None)
        with profiler.scope("b"):
            launch("told", {"flops16": 100, "flops8": 11, "bytes": 64, "note": "x"})
            launch("told", {"flops": 1000}, got=True)
        with profiler.scope("c"):
            launch("one", {"flops": 5})
            launch("other", {"flops": 6})
        names["deliver"]()
    profile = session.profile
    assert profile is not None

    def work(name: str) -> tuple[float, ...]:
        (at,) = profile.find(name)
        node = profile.node(at)
        return tuple(node.total(m) for m in ("flops", "bytes") if m in profile.metrics)

    assert [work(name) for name in "abc"] == [(0, 0), (1111, 64), (11, 0)]
    assert [work(name) for name in ("silent", "told")] == [(0, 0), (1111, 64)]
    # Which of two kernels a launch was, only the device knows: their work stays with the call.
    assert [work(name) for name in ("one", "other")] == [(0, 0), (0, 0)]


def test_a_launch_has_the_name_that_its_author_gives(
    chain: Chain,
    names: dict[str, Any],
) -> None:
    """A range of that name is around its kernel; launches that fail, or in a pause, leave none."""

    def launch(told: dict[str, Any] | None, fails: bool = False) -> None:
        chain(Lazy(told))
        if not fails:
            names["kernel"]("k", 1000, 2000)
            chain.ends(None)

    with profiler.profile(context="scopes") as session:
        launch({"name": "k [M=8]", "flops": 100})
        launch({"name": "k [M=8]", "flops": 10})
        launch({"name": "k", "flops": 1})  # the kernel's own
        launch({"name": 3, "bytes": 1})
        launch({"name": "k [M=9]"}, fails=True)
        launch(None)
        session.deactivate()
        launch({"name": "k [M=10]"})
        session.activate()
        launch(None)
        names["deliver"]()
    profile = session.profile
    assert profile is not None
    (named,) = profile.find("k [M=8]")
    assert (profile.node(named).own("count"), profile.node(named).total("flops")) == (2, 110)
    within = {at: named in profile.path(at) for at in profile.find("k", "kernel")}
    counts = {at: profile.node(at).own("count") for at in within}
    assert sum(counts[at] for at in within if within[at]) == 2
    assert sum(counts.values()) == 6
    assert not [at for at in profile.find("k [M=9]") if profile.children(at)]
    assert not profile.find("k [M=10]")


class Array:
    """A tensor of 32-bit numbers."""

    dtype = "torch.float32"

    def __init__(self, count: int, address: int) -> None:
        self.nbytes, self.address = 4 * count, address
        self.asked = 0

    def numel(self) -> int:
        self.asked += 1
        return self.nbytes // 4

    def element_size(self) -> int:
        return 4

    def is_contiguous(self) -> bool:
        return True

    def data_ptr(self) -> int:
        return self.address


class CompiledKernel:
    """Triton's compiled vector add, whose author may tell the work of a launch."""

    def __init__(self, told: dict[str, Any] | None = None, text: str | None = None) -> None:
        signature = {"x": "*fp32", "y": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        self.src = SimpleNamespace(signature=signature, fn=SimpleNamespace(arg_names=[*signature]))
        self.asm = {"ttir": ADD.read_text() if text is None else text}
        self.told = told

    def launch_metadata(self, grid: tuple[int, ...], stream: int, *args: object) -> Lazy:
        return Lazy(self.told)


Launching = Callable[..., None]


@pytest.fixture
def launching(
    chain: Chain, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Launching]:
    """Launcher of a compiled kernel as Triton has it; its method is Triton's again at the end."""
    original = CompiledKernel.launch_metadata
    compiler = ModuleType("triton.compiler.compiler")
    compiler.CompiledKernel = CompiledKernel  # type: ignore[attr-defined]
    for name in ("triton", "triton.compiler"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "triton.compiler.compiler", compiler)

    def launch(kernel: CompiledKernel, *given: object, name: str = "add", grid: Any = (4,)) -> None:
        chain(kernel.launch_metadata(grid, 0, *given))
        names["kernel"](name, 1000, 2000)

    yield launch
    assert CompiledKernel.launch_metadata is original


def work(profile: Any, name: str) -> tuple[float, ...]:
    """Flops and bytes of the nodes of a name."""
    nodes = [profile.node(at) for at in profile.find(name)]
    metrics = [metric for metric in ("flops", "bytes") if metric in profile.metrics]
    return tuple(sum(node.own(metric) for node in nodes) for metric in metrics)


def arrays(count: int = 4000) -> list[Array]:
    """Three tensors."""
    return [Array(count, 4096 * at) for at in range(3)]


def test_bytes_are_derived_for_each_launch(launching: Launching, names: dict[str, Any]) -> None:
    """Each launch counts its own tensors; a kernel that is not understood has no bytes."""
    kernel, strange = CompiledKernel(), CompiledKernel(text="what is this")
    with profiler.profile(context="scopes") as session:
        with profiler.scope("a"):
            launching(kernel, *arrays(4000), 4000, 1024)
            launching(kernel, *arrays(100), 100, 1024)
        with profiler.scope("b"):
            launching(strange, *arrays(), 4000, 1024, name="strange")
        names["deliver"]()
    launching(kernel, *arrays(), 4000, 1024)  # nobody listens
    assert work(session.profile, "add") == (3 * 4 * 4100,)
    assert work(session.profile, "strange") == (0,)


def test_numbers_of_the_author_come_first(launching: Launching, names: dict[str, Any]) -> None:
    """Bytes that the author tells are kept, and those that the author leaves out are derived."""
    with profiler.profile(context="scopes") as session:
        with profiler.scope("a"):
            kernel = CompiledKernel({"flops32": 7, "bytes": 64})
            launching(kernel, *arrays(), 4000, 1024, name="both")
        with profiler.scope("b"):
            launching(CompiledKernel({"flops": 7}), *arrays(), 4000, 1024, name="flops")
        names["deliver"]()
    assert work(session.profile, "both") == (7, 64)
    assert work(session.profile, "flops") == (7, 3 * 4 * 4000)


def test_launch_that_never_comes_leaves_nothing(
    chain: Chain, launching: Launching, names: dict[str, Any]
) -> None:
    """Triton asks its hooks also for a launch of no programs; the next kernel has its own work."""
    with profiler.profile(context="scopes") as session:
        chain(Lazy({"bytes": 64}))
        launching(CompiledKernel(text="what is this"), *arrays(), 4000, 1024)
        names["deliver"]()
    profile = session.profile
    assert profile is not None
    assert "bytes" not in profile.metrics


@pytest.mark.parametrize("told", [None, {"flops": 7, "bytes": 64}])
def test_launch_in_a_pause_leaves_nothing(
    launching: Launching, names: dict[str, Any], told: dict[str, Any] | None
) -> None:
    """The first kernel after a pause is another framework's, and has no work of Triton's."""
    kernel = CompiledKernel(told)
    with profiler.profile(context="scopes") as session:
        session.deactivate()
        launching(kernel, *arrays(), 4000, 1024)
        session.activate()
        with profiler.scope("foreign"):
            names["kernel"]("foreign", 1000, 2000)
        with profiler.scope("add"):
            launching(kernel, *arrays(), 4000, 1024, name="known")
        names["deliver"]()
    assert work(session.profile, "foreign")[-1] == 0
    assert work(session.profile, "known")[-1] == (64 if told else 3 * 4 * 4000)


def test_launches_that_cannot_be_derived_go_on(launching: Launching, names: dict[str, Any]) -> None:
    """No sizes, too few arguments, no grid, another version's kernel: launched, without bytes."""
    kernel, other = CompiledKernel(), CompiledKernel()
    del other.src, other.asm
    with profiler.profile(context="scopes") as session:
        launching(kernel, 1, 2, 3, 4000, 1024)
        launching(kernel, *arrays()[:2])
        launching(kernel, *arrays(), 4000, 1024, grid=None)
        launching(other, *arrays(), 4000, 1024)
        names["deliver"]()
    profile = session.profile
    assert profile is not None
    (at,) = profile.find("add")
    assert profile.node(at).own("count") == 4
    assert work(profile, "add") == ()


def test_texts_of_kernels_and_of_what_launches_them(
    launching: Launching, names: dict[str, Any], tmp_path: Path
) -> None:
    """They are kept although no line was recorded; a kernel's function may be in another file."""
    path = tmp_path / "kernels.py"
    path.write_text("def add(x): ...\n")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    kernel = CompiledKernel()
    kernel.src.fn.fn = space["add"]
    with profiler.profile(context="scopes") as session:
        launching(kernel, *arrays(), 4000, 1024)
        names["deliver"]()
    assert session.profile is not None
    assert {str(path), __file__} <= session.profile.tables.sources.keys()


def test_nothing_is_kept_of_a_launch(launching: Launching) -> None:
    """Neither tensors nor kernels live longer for being recorded."""
    with profiler.profile(context="scopes"):
        kernel, given = CompiledKernel(), arrays()
        held = [weakref.ref(each) for each in (kernel, *given)]
        launching(kernel, *given, 4000, 1024)
        del kernel, given
        gc.collect()
        assert [each() for each in held] == [None] * 4


def seen(session: Any) -> list[LaunchVariant]:
    """Return the variants of launches in a recording's profile."""
    assert session.profile is not None
    return list(session.profile.tables.launches)


def test_arguments_of_launches(launching: Launching) -> None:
    """Types and sizes, tensors that are one, ranges of numbers, and who stored a tensor before."""
    kernel, (x, y, out) = CompiledKernel(), arrays(4000)
    with profiler.profile(context="scopes") as session:
        for count in (4000, 3000):
            launching(kernel, x, y, out, count, 1024)
        launching(kernel, out, out, y, 4000, 1024)
    first, second, last = seen(session)
    assert (first.kernel, first.place.file, first.looked_at, first.others) == ("k", __file__, 1, 0)
    assert [each.parameter for each in first.arguments] == ["x", "y", "out", "n", "BLOCK"]
    assert first.tensor("x") == TensorArgument("x", "float32", 4000, 4, 0)
    assert (first.tensor("n"), first.number("x")) == (None, None)
    assert first.number("n") == NumberArgument("n", 4000, 4000)
    stored = Origin("k", first.place.line, "out")
    assert second.tensor("out") == TensorArgument("out", "float32", 4000, 4, 2, stored)
    given = [each for each in last.arguments if isinstance(each, TensorArgument)]
    assert [(e.memory, e.origin) for e in given] == [(0, stored), (0, stored), (1, None)]


def test_memory_of_a_dead_tensor_is_anyones(launching: Launching) -> None:
    """A tensor at the same address later may be another one: nothing is said of who stored it."""
    kernel = CompiledKernel()
    with profiler.profile(context="scopes") as session:
        for _ in range(2):
            launching(kernel, *arrays(4000), 4000, 1024)
    (only,) = seen(session)
    assert only.looked_at == 2


def test_parts_of_a_tensor_share_its_memory(launching: Launching) -> None:
    """Tensors of PyTorch: halves of one, and a view of what an earlier launch stored."""
    torch = pytest.importorskip("torch")
    kernel, both, out = CompiledKernel(), torch.zeros(2, 4000, dtype=torch.bfloat16), torch.zeros(8)
    with profiler.profile(context="scopes") as session:
        launching(kernel, both[0], both[1], out, 4000, 1024)
        launching(kernel, out.view(2, 4), both, both, 4000, 1024)
    first, second = (
        [
            (e.dtype, e.elements, e.width, e.memory)
            for e in each.arguments
            if isinstance(e, TensorArgument)
        ]
        for each in seen(session)
    )
    halves = ("bfloat16", 4000, 2, 0)
    assert first == [halves, halves, ("float32", 8, 4, 1)]
    assert second == [("float32", 8, 4, 0), *[("bfloat16", 8000, 2, 1)] * 2]
    view = seen(session)[1].tensor("x")
    assert view is not None
    assert view.origin is not None


def test_launches_from_a_line_are_folded(launching: Launching) -> None:
    """Alike ones are one variant with the range of its numbers; of many variants some are left
    out, which is said, and few launches of a long loop are looked at."""
    kernel, (x, y, out) = CompiledKernel(), arrays(4000)
    with profiler.profile(context="scopes") as session:
        for count in range(2000):
            launching(kernel, x, x, out, count, 1024)
    assert 8 < x.asked // 2 < 20
    first, later = seen(session)
    assert (first.number("n"), later.looked_at) == (NumberArgument("n", 0, 0), x.asked // 2 - 1)
    held = later.number("n")
    assert held is not None
    assert (held.low, held.high > 1000) == (1, True)
    with profiler.profile(context="scopes") as session:
        for count in range(1, 17):
            launching(kernel, Array(count, 4096), y, out, count, 1024)
    assert len(seen(session)) == 8
    assert {each.others for each in seen(session)} == {1}


def test_method_that_somebody_else_wraps_meanwhile(
    launching: Launching, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Theirs stays at the end of a recording, and ours below it does nothing any more."""
    original = CompiledKernel.launch_metadata
    with profiler.profile(context="scopes"):
        ours: Any = CompiledKernel.launch_metadata
        assert ours is not original

        def theirs(*given: Any) -> Any:
            return ours(*given)

        monkeypatch.setattr(CompiledKernel, "launch_metadata", theirs)
    assert CompiledKernel.launch_metadata is theirs
    metadata = CompiledKernel().launch_metadata((4,), 0, *arrays(), 4000, 1024)
    assert not hasattr(metadata, "tileprof_work")
    monkeypatch.setattr(CompiledKernel, "launch_metadata", original)


def test_versions_without_that_method(
    chain: Chain, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers of `launch_metadata` are announced as before."""
    compiler = ModuleType("triton.compiler.compiler")
    monkeypatch.setitem(sys.modules, "triton.compiler.compiler", compiler)
    with profiler.profile(context="scopes") as session:
        chain(Lazy({"bytes": 64}))
        names["kernel"]("told", 1000, 2000)
        names["deliver"]()
    assert work(session.profile, "told") == (64,)
