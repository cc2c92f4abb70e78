"""PyTorch's operations as its observer tells them: counts, nesting, backward, threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")

from tests.profiler.frameworks.torch_observed import Seen, evaluated, net, square, under  # noqa: E402
from tileprof.profiler.tree import paths  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("observed")


def counted_by_pytorch(run: Callable[[], object]) -> Counter[str]:
    """How often torch.profiler saw each operation."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    return Counter({each.key: each.count for each in profile.key_averages()})


def test_counts_are_those_of_torch_profiler(seen: Seen) -> None:
    """Forward, loss, backward, clipping and an optimizer's step, ranges of PyTorch included."""
    model, x, y = net(), torch.ones(2, 3, 8, 8), torch.tensor([0, 1])
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with torch.profiler.record_function("of the user"):
            optimizer.step()
        # An operation that only calls one of its name is counted once: on the CPU `sum` does.
        (x.requires_grad_().sum() * x.sum()).backward()

    step()
    ours = Seen()
    # Both look at the same step.
    theirs = counted_by_pytorch(step)
    assert ours.counts() == theirs
    assert sum(theirs.values()) > 200
    ours = Seen()
    step()
    assert ours.counts() == theirs


def test_an_operation_that_calls_its_like_is_one_node() -> None:
    """With the time and the parts of both; where there is more beside it, they are two."""
    from tests.profiler_programs import expect, run, tree

    profile = run(
        """
        def same():
            outer = native.enter_op("sum", -1, 1)
            inner = native.enter_op("sum", -1, 1)
            op("fill", 3)
            spend(1)
            native.leave(inner)
            spend(1)
            native.leave(outer)
        def beside():
            outer = native.enter_op("sum", -1, 1)
            op("zero", 2)
            inner = native.enter_op("sum", -1, 1)
            spend(4)
            native.leave(inner)
            native.leave(outer)
        same()
        same()
        beside()
        """,
        native=True,
    )
    assert tree(profile, "count", "cpu_time") == expect("""
        frame <module>:16
          frame same:2
            op sum count=1 cpu_time=2
              op fill count=1 cpu_time=3
        frame <module>:17
          frame same:2
            op sum count=1 cpu_time=2
              op fill count=1 cpu_time=3
        frame <module>:18
          frame beside:10
            op sum count=1
              op zero count=1 cpu_time=2
              op sum count=1 cpu_time=4
        """)


def test_operations_hang_under_frames_and_one_another(seen: Seen) -> None:
    """An operation inside another hangs under it, both under the functions that called."""

    def inner() -> Any:
        return torch.ones(2, 3)

    def outer() -> Any:
        return nn.functional.linear(inner(), torch.zeros(3, 3))

    outer()
    assert under("test_operations_hang_under_frames_and_one_another", seen.paths()) == {
        "outer() / inner() / aten::ones": 1,
        "outer() / aten::zeros": 1,
        "outer() / aten::zeros / aten::zero_": 1,
        "outer() / aten::linear": 1,
        "outer() / aten::linear / aten::t": 1,
        "outer() / aten::linear / aten::matmul": 1,
        "outer() / aten::linear / aten::matmul / aten::mm": 1,
    }


def test_backward_hangs_under_the_operation_that_made_it(seen: Seen) -> None:
    """Also of a function written in Python, whose backward has frames; roots under the call."""

    def twice(x: Any) -> Any:
        return x + x

    x = torch.ones(3, requires_grad=True)
    seen = Seen()

    def forward() -> Any:
        y = square(twice).apply(x)
        return y.sin()

    def backward(loss: Any) -> None:
        loss.backward(torch.ones(3))

    backward(forward())
    found = under("test_backward_hangs_under_the_operation_that_made_it", seen.paths())
    sine = f"forward() / aten::sin / {evaluated('SinBackward0')}"
    product = f"forward() / Square / {evaluated('SquareBackward')}"
    root = f"backward() / {evaluated('torch::autograd::AccumulateGrad')}"
    assert {
        "forward() / aten::sin": 1,
        f"{sine} / aten::cos": 1,
        f"{sine} / aten::mul": 1,
        "forward() / Square / forward() / aten::mul": 1,
        f"{product} / backward() / aten::mul": 1,
        f"{product} / backward() / twice() / aten::add": 1,
        root: 1,
    }.items() <= found.items()
    assert not [path for path in found if path.startswith("backward() / aten::mul")]


def test_double_backward_hangs_under_the_backward(seen: Seen) -> None:
    """An operation of the backward pass is the forward of the next one."""
    x = torch.ones(3, requires_grad=True)
    seen = Seen()

    def run() -> None:
        (grad,) = torch.autograd.grad(x.sin(), x, torch.ones(3), create_graph=True)
        grad.backward(torch.ones(3))

    run()
    found = under("test_double_backward_hangs_under_the_backward", seen.paths())
    sine = f"run() / aten::sin / {evaluated('SinBackward0')}"
    assert found[f"{sine} / aten::cos / {evaluated('CosBackward0')} / aten::sin"] == 1
    assert found[f"{sine} / aten::mul / {evaluated('MulBackward0')} / aten::mul"] == 1


@pytest.mark.parametrize("reentrant", [True, False])
def test_recomputed_operations_hang_under_the_backward_that_wanted_them(
    reentrant: bool, seen: Seen
) -> None:
    """And their own backward under them, or under the first forward where PyTorch keeps that."""
    x = torch.ones(3, 3, requires_grad=True)
    seen = Seen()

    def block(x: Any) -> Any:
        return x.mm(x).sin()

    torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant).sum().backward()
    paths = seen.paths()
    start = "test_recomputed_operations_hang_under_the_backward_that_wanted_them() / "
    recomputed = [p for p in paths if p.endswith("block() / aten::mm") and "<-" in p]
    backward = [p for p in paths if p.endswith("<- MmBackward0 / aten::mm")]
    assert len(recomputed) == len(backward) == 1
    if reentrant:
        whole = f"{start}CheckpointFunction / {evaluated('CheckpointFunctionBackward')} / block()"
        assert recomputed == [f"{whole} / aten::mm"]
        assert backward == [f"{whole} / aten::mm / {evaluated('MmBackward0')} / aten::mm"]
    else:
        sine = f"{start}block() / aten::sin / {evaluated('SinBackward0')}"
        assert recomputed == [f"{sine} / block() / aten::mm"]
        assert backward == [f"{start}block() / aten::mm / {evaluated('MmBackward0')} / aten::mm"]
    assert [paths[p][0] for p in recomputed + backward] == [1, 2]


def test_hooks_hang_under_the_operation_whose_gradient_they_change(seen: Seen) -> None:
    """A hook is called by the engine beside the node."""
    x = torch.ones(3, requires_grad=True)
    seen = Seen()

    def hook(grad: Any) -> Any:
        return grad.cos()

    y = x.sin()
    y.register_hook(hook)
    y.sum().backward()
    found = under("test_hooks_hang_under_the_operation_whose_gradient_they_change", seen.paths())
    engine = "<- autograd::engine::evaluate_function: SinBackward0"
    assert found[f"aten::sin / {engine} / hook() / aten::cos"] == 1
    assert found[f"aten::sin / {engine} / <- SinBackward0 / aten::cos"] == 1


def test_threads_keep_their_passes_apart(seen: Seen) -> None:
    """Both count from the same sequence numbers, at the same time."""
    seen, rounds, ready = Seen(), 50, threading.Barrier(2)

    def work(operation: Callable[[Any], Any]) -> None:
        ready.wait()
        for _ in range(rounds):
            x = torch.ones(3, requires_grad=True)
            operation(operation(x)).sum().backward()

    def first() -> None:
        work(torch.sin)

    def second() -> None:
        work(torch.cos)

    threads = [threading.Thread(target=each) for each in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    paths = seen.paths()
    for name, node, operation in (("first", "Sin", "sin"), ("second", "Cos", "cos")):
        path = f"{name}() / work() / aten::{operation}"
        assert paths[path][0] == 2 * rounds
        assert paths[f"{path} / {evaluated(f'{node}Backward0')}"][0] == 2 * rounds
        root = f"{name}() / work() / {evaluated('torch::autograd::AccumulateGrad')}"
        assert paths[root][0] == rounds
    assert not [p for p in paths if ("first" in p and "Cos" in p) or ("second" in p and "Sin" in p)]


def test_a_pass_that_a_thread_without_frames_runs_knows_where_it_was_asked_for(seen: Seen) -> None:
    """As device threads do; on the CPU the engine goes to threads of its own 60 passes deep."""
    deepest = 70

    class Nest(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if ctx.depth < deepest:
                with torch.enable_grad():
                    nest(ctx.depth + 1)
            threads.add(threading.get_ident())
            return g, None

    def nest(depth: int) -> None:
        Nest.apply(torch.ones(1, requires_grad=True), depth).backward()

    threads: set[int] = set()
    nest(1)
    assert len(threads) > 1
    accumulated = {
        path: row[0]
        for path, row in seen.paths().items()
        if path.endswith("<- torch::autograd::AccumulateGrad")
    }
    assert sorted(path.count("nest()") for path in accumulated) == [*range(1, deepest + 1)]
    assert {path.split(" / ")[-3] for path in accumulated} == {"nest()"}
    assert set(accumulated.values()) == {1}


def test_ranges_of_the_user_hang_under_their_with_statement(seen: Seen) -> None:
    """And hold what is called inside, with the functions between."""

    def body() -> None:
        with torch.profiler.record_function("mine"):
            torch.ones(1)
            with torch.profiler.record_function("inner"):
                inner()
        torch.zeros(1)

    def inner() -> None:
        torch.ones(1)

    body()
    found = under("test_ranges_of_the_user_hang_under_their_with_statement", seen.paths())
    assert found == {
        "body() / mine": 1,
        "body() / mine / aten::ones": 1,
        "body() / mine / inner": 1,
        "body() / mine / inner / inner() / aten::ones": 1,
        "body() / aten::zeros": 1,
        "body() / aten::zeros / aten::zero_": 1,
    }


def test_what_pytorch_calls_to_open_a_range_does_not_show() -> None:
    """Its own functions do."""
    enter = torch.autograd.profiler.record_function.__enter__.__code__
    assert paths.shows(enter, for_us=False) == (False, False)
    assert paths.shows(nn.Linear.forward.__code__, for_us=False) == (True, False)
