"""Backward passes of which the nodes alone are observed: what is in them, and in which threads."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")

from tests.profiler.frameworks.torch_observed import Seen, attached, net, recorded, square, under  # noqa: E402
from tileprof.profiler.frameworks import observer  # noqa: E402
from tileprof.profiler.frameworks.observer_threads import others  # noqa: E402
from tileprof.runtime import hooks  # noqa: E402

nn = torch.nn


@pytest.fixture
def observed() -> Iterator[None]:
    """The observer as it is by default, for `seen`."""
    with attached():
        yield


def steps_of(model: Any) -> Callable[[], None]:
    """A step of training."""
    x, y = torch.ones(2, 3, 8, 8), torch.tensor([0, 1])
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

    return step


def outside_of_the_engine(run: Callable[[], object]) -> tuple[Counter[str], Counter[str]]:
    """How often torch.profiler saw each operation outside of nodes, and each node."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    events = list(profile.events())
    brackets = [e.time_range for e in events if e.name.startswith("autograd::engine::")]
    nodes = Counter(e.name for e in events if e.name.endswith(("Backward0", "AccumulateGrad")))
    nodes = Counter({name: count for name, count in nodes.items() if "engine" not in name})
    operations = Counter(
        event.name
        for event in events
        if not any(b.start <= event.time_range.start and event.time_range.end <= b.end
                   for b in brackets)
    )  # fmt: skip
    return operations, nodes


@pytest.fixture(params=[False, True], ids=["alone", "beside a thread"])
def beside(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whether another thread of the program's is there, so that all are observed."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    if request.param:
        thread.start()
    yield
    done.set()
    if request.param:
        thread.join()


def test_counts_are_those_of_torch_profiler(beside: None, seen: Seen) -> None:
    """Of operations outside of the engine, and of the nodes inside."""
    step = steps_of(net())
    step()
    seen = Seen()
    step()
    ours = seen.counts()
    operations, nodes = outside_of_the_engine(step)
    assert ours == operations + nodes
    assert sum(operations.values()) > 100
    assert sum(nodes.values()) > 10


def test_nodes_hang_under_operations_and_ones_of_python_have_what_they_call(seen: Seen) -> None:
    """A node of Python may run a forward pass of its own."""

    x = torch.ones(3, requires_grad=True)
    seen = Seen()

    def run() -> None:
        square(lambda g: g).apply(x).sin().backward(torch.ones(3))

    run()
    found = under("test_nodes_hang_under_operations_and_ones_of_python_have_what_they_call",
                  seen.paths())  # fmt: skip
    assert found == {
        "run() / aten::ones": 1,
        "run() / Square": 1,
        "run() / Square / forward() / aten::mul": 1,
        "run() / Square / <- SquareBackward": 1,
        "run() / Square / <- SquareBackward / backward() / aten::mul": 1,
        "run() / aten::sin": 1,
        "run() / aten::sin / <- SinBackward0": 1,
        "run() / <- torch::autograd::AccumulateGrad": 1,
    }


def test_a_pass_that_is_differentiated_has_its_operations(seen: Seen) -> None:
    """They are the forward pass of the next one, whose nodes hang under them."""
    x = torch.ones(3, requires_grad=True)
    seen = Seen()

    def run() -> None:
        (grad,) = torch.autograd.grad(x.sin(), x, torch.ones(3), create_graph=True)
        grad.backward(torch.ones(3))

    run()
    found = under("test_a_pass_that_is_differentiated_has_its_operations", seen.paths())
    bracket = "autograd::engine::evaluate_function: SinBackward0"
    sine = f"run() / aten::sin / <- {bracket} / <- SinBackward0"
    assert found[f"{sine} / aten::cos / <- CosBackward0"] == 1
    assert found[f"{sine} / aten::mul / <- MulBackward0"] == 1
    assert not [path for path in found if path.endswith("<- CosBackward0 / aten::sin")]


def test_a_reentrant_checkpoint_keeps_the_backward_under_what_ran_again(seen: Seen) -> None:
    """The forward pass runs again within a node of Python."""
    x = torch.ones(3, 3, requires_grad=True)
    seen = Seen()

    def block(x: Any) -> Any:
        return x.mm(x).sin()

    torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True).sum().backward()
    again = [p for p in seen.paths() if "CheckpointFunctionBackward" in p]
    whole = "CheckpointFunction / <- CheckpointFunctionBackward / block() / aten::mm"
    assert [p for p in again if p.endswith(whole)]
    assert [p for p in again if p.endswith(f"{whole} / <- MmBackward0")]
    assert not [p for p in again if p.endswith("<- MmBackward0 / aten::mm")]


def work_in_threads(seen: Seen, start: Callable[[Callable[[], None]], None]) -> dict[str, int]:
    """Paths of a forward and a backward pass in another thread."""

    def work() -> None:
        x = torch.ones(3, requires_grad=True)
        x.sin().sum().backward()

    start(work)
    paths = ((path.partition("work() / "), row[0]) for path, row in seen.paths().items())
    return {path: count for (_, found, path), count in paths if found}


EXPECTED = {"aten::sin": 1, "aten::sin / <- SinBackward0": 1, "aten::sum / <- SumBackward0": 1,
            "<- torch::autograd::AccumulateGrad": 1}  # fmt: skip


def test_threads_that_begin_later_are_observed(seen: Seen) -> None:
    """Each asks for it when it begins, and is not profiled for it."""
    profiles: list[object] = []

    def start(work: Callable[[], None]) -> None:
        import sys

        def run() -> None:
            profiles.append(sys.getprofile())
            work()

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    found = work_in_threads(Seen(), start)
    assert EXPECTED.items() <= found.items()
    assert not [path for path in found if path.endswith(("<- SinBackward0 / aten::mul", "cos"))]
    assert profiles == [None]


def test_threads_that_were_there_are_observed() -> None:
    """All are then, and what is inside nodes is passed over."""
    wanted = threading.Event()
    jobs: list[Callable[[], None]] = []

    def wait() -> None:
        wanted.wait()
        jobs[0]()

    thread = threading.Thread(target=wait)
    thread.start()

    def start(work: Callable[[], None]) -> None:
        jobs.append(work)
        wanted.set()
        thread.join()

    with attached(), recorded():
        found = work_in_threads(Seen(), start)
    assert EXPECTED.items() <= found.items()
    assert not [path for path in found if "evaluate_function" in path or path.endswith("cos")]


def test_pauses_cost_nothing_and_the_observer_comes_back(seen: Seen) -> None:
    """In the thread that paused no callback is left; a change of detail holds from then on."""
    x = torch.ones(3, requires_grad=True)
    counts = []
    for resume in (None, {}, {"backward_ops": True}, {}):
        observer.pause()
        assert not torch.autograd._profiler_enabled()
        before = Seen()
        x.sin()
        assert before.counts() == Counter()
        if resume is not None:
            observer.attach(tell=lambda line: None, **resume)
        seen = Seen()
        x.sin().backward(torch.ones(3))
        counts.append(seen.counts())
    assert counts[0] == Counter()
    assert counts[1] == counts[3]
    assert counts[1]["aten::sin"] == counts[1]["SinBackward0"] == 1
    assert not counts[1]["aten::cos"]
    assert counts[2]["aten::sin"] == counts[2]["aten::cos"] == 1


def test_threads_of_the_measurement_are_no_others() -> None:
    """A thread that reads records of GPUs does not make all threads be observed."""
    going = threading.Event()

    def read() -> None:
        hooks.own_threads.add(threading.get_ident())
        going.wait()
        hooks.own_threads.discard(threading.get_ident())

    before = others()
    reader = threading.Thread(target=read)
    reader.start()
    while reader.ident not in hooks.own_threads:
        time.sleep(1e-4)
    assert others() == before
    stranger = threading.Thread(target=going.wait)
    stranger.start()
    assert others()
    going.set()
    reader.join()
    stranger.join()
