"""The case studies' operators on a GPU: results, gradients, PyTorch's own checks, `torch.compile`,
CUDA graphs, streams, `vmap`, DLPack.

    python -m pytest -m gpu tests/operators/test_gpu_operators.py
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import tileprof
from tests.operators import kernels
from tileprof.errors import ArgumentError

torch: Any = pytest.importorskip("torch")
cases: Any = importlib.import_module("tests.operators.cases")

# PyTorch's, where a thread of autograd is the first to ask for cuBLAS.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")]
DEVICE = "cuda"
CYCLES = 200_000_000
"""About a tenth of a second of a GPU."""
WARM = 4
"""Calls after which an operator's kernels are answered by the native launcher."""
SMALL = cases.Draw(DEVICE)
Case = Any
each_operator = pytest.mark.parametrize("made", cases.OPERATORS)
ROWS_AT_RUN_TIME = [c for c in cases.OPERATORS if c is not cases.attention]
"""Operators whose number of rows is an argument of their kernels; attention fixes its extents."""


@pytest.fixture(autouse=True)
def one_draw() -> None:
    """The same numbers in every run, and no compiled graph of another test."""
    torch.manual_seed(0)
    torch._dynamo.reset()


def gradients(function: Callable[..., Any], case: Case, weight: Any) -> Sequence[Any]:
    """The result for a case's arguments, and the gradients of its sum with weights."""
    made = function(*case.given)
    found = torch.autograd.grad(made, case.wanted, weight.to(made.dtype))
    # What is kept of a graph would keep the streams on which its leaves were first used.
    return made.detach(), *found


def weight_of(case: Case) -> Any:
    """A gradient for the result that is no constant."""
    return torch.randn_like(case.expected(*case.given)).detach()


def warm(case: Case, weight: Any) -> None:
    """Compile all kernels of a case, and let the native launcher learn them."""
    for _ in range(WARM):
        gradients(case.operator, case, weight)


def copied(case: Case, change: Callable[[Any], Any]) -> Case:
    """The case with its tensors changed, which require gradients as they did."""
    made = [
        change(x.detach()).requires_grad_(x.requires_grad) if isinstance(x, torch.Tensor) else x
        for x in case.given
    ]
    return cases.Case(case.operator, case.expected, tuple(made))


# -- results and gradients


@each_operator
def test_results_and_gradients_in_double_precision(made: Any) -> None:
    """As PyTorch's, in calls that compile and in those of the native launcher."""
    case = made(SMALL)
    weight = weight_of(case)
    expected = gradients(case.expected, case, weight)
    for _ in range(WARM):
        torch.testing.assert_close(gradients(case.operator, case, weight), expected)


@each_operator
def test_results_and_gradients_in_bfloat16(made: Any) -> None:
    """Extents of a model's layer, for which products run on tensor cores: beside the same in double
    precision, errors are at most twice those that PyTorch has in bfloat16, or one rounding of the
    largest value.  Both round operands and results; in which order they add is theirs.
    """
    case = made(cases.Draw(DEVICE, torch.bfloat16, wide=True))
    wide = copied(case, lambda x: x.double() if x.is_floating_point() else x)
    weight = weight_of(case)
    right = gradients(wide.expected, wide, weight)
    theirs = gradients(case.expected, case, weight)
    for _ in range(WARM):
        for one, other, exact in zip(gradients(case.operator, case, weight), theirs, right):
            assert one.shape == exact.shape
            error, allowed = (float((x.double() - exact).abs().max()) for x in (one, other))
            rounding = float(exact.abs().max()) * torch.finfo(torch.bfloat16).eps
            assert error <= max(2 * allowed, rounding)


@each_operator
def test_gradcheck(made: Any) -> None:
    """Gradients are those of finite differences.  Those of attention are added up by atomics in any
    order, and differ by roundings between two calls."""
    case = made(SMALL)
    loose = 1e-12 if made is cases.attention else 0.0
    assert torch.autograd.gradcheck(case.operator, case.given, fast_mode=True, nondet_tol=loose)


@each_operator
def test_opcheck(made: Any) -> None:
    """Schema, autograd, fake tensors and AOT dispatch with dynamic shapes, by PyTorch's checks."""
    case = made(SMALL)
    checked = torch.library.opcheck(case.operator.overload, case.given)
    assert set(checked.values()) == {"SUCCESS"}


@each_operator
def test_inputs_of_size_0(made: Any) -> None:
    """Results without elements; gradients of weights are 0, as no row adds to them."""
    case = made(cases.Draw(DEVICE, rows=0))
    out, *found = gradients(case.operator, case, weight_of(case))
    assert out.shape == case.expected(*case.given).shape
    assert out.numel() == 0
    for one, x in zip(found, case.wanted, strict=True):
        assert one.shape == x.shape
        assert not one.any()


# -- torch.compile


@each_operator
def test_one_graph_without_a_break_serves_all_numbers_of_rows(made: Any) -> None:
    """Forward and backward; a graph that were compiled again would raise."""
    operator = made(SMALL).operator
    graphs = []

    def backend(graph: Any, given: Any) -> Any:
        graphs.append(graph)
        return importlib.import_module("torch._dynamo.backends.debugging").aot_eager(graph, given)

    compiled = torch.compile(
        lambda first, *rest: operator(first.sin(), *rest).cos(),
        fullgraph=True, dynamic=True, backend=backend,
    )  # fmt: skip
    config = importlib.import_module("torch._dynamo.config")
    for rows, patch in ((5, {}), (9, {"error_on_recompile": True})):
        case = made(cases.Draw(DEVICE, rows=rows))
        weight = weight_of(case)
        expected = gradients(
            lambda x, *rest, c=case: c.expected(x.sin(), *rest).cos(), case, weight
        )
        with config.patch(patch):
            torch.testing.assert_close(gradients(compiled, case, weight), expected)
    assert len(graphs) == 1


@pytest.mark.filterwarnings("ignore")  # PyTorch's compiler, of its own modules and settings
def test_inductor_compiles_around_operators() -> None:
    """A function of a norm, an MLP, a softmax and a loss: one graph, with code that PyTorch makes
    between them."""
    norm, mlp, softmax, loss = (
        getattr(cases, n)(SMALL) for n in ("rms_norm", "mlp", "softmax", "cross_entropy")
    )
    x, w = SMALL(4, 6, 8), SMALL(8)
    up, down = mlp.given[1:]
    targets = torch.arange(24, device=DEVICE) % 8

    def step(one: Any, two: Any, three: Any, four: Any) -> Any:
        y = x.cos() + two(one(x, w).sin(), up, down)
        return four(three(y * 2).flatten(0, 1).exp(), targets).square().mean()

    ours = (norm.operator, mlp.operator, softmax.operator, loss.operator)
    theirs = (norm.expected, mlp.expected, softmax.expected, loss.expected)
    wanted = (x, w, up, down)
    compiled = torch.compile(lambda: step(*ours), fullgraph=True)
    for _ in range(2):
        found, right = compiled(), step(*theirs)
        torch.testing.assert_close(found, right)
        torch.testing.assert_close(
            torch.autograd.grad(found, wanted), torch.autograd.grad(right, wanted)
        )


@pytest.mark.parametrize("made", ROWS_AT_RUN_TIME)
def test_other_numbers_of_rows_compile_no_kernel(made: Any, monkeypatch: Any) -> None:
    """Forward and backward."""
    loaded: list[Any] = []

    def count(module: str, name: str) -> None:
        held = importlib.import_module(module)
        found = getattr(held, name)

        def counted(*args: Any) -> Any:
            loaded.append(args)
            return found(*args)

        monkeypatch.setattr(held, name, counted)

    case = made(SMALL)
    warm(case, weight_of(case))
    count("tileprof.lang.calls", "load")
    count("tileprof.runtime.cuda.executable", "CudaVariant")
    for rows in (7, 64, 1000):
        case = made(cases.Draw(DEVICE, rows=rows))
        weight = weight_of(case)
        expected = gradients(case.expected, case, weight)
        torch.testing.assert_close(gradients(case.operator, case, weight), expected)
    assert not loaded


# -- CUDA graphs and streams


@each_operator
def test_graph_replays_on_other_inputs(made: Any) -> None:
    """Forward and backward are captured; a replay computes with what the inputs then hold."""
    case, other = made(SMALL), made(SMALL)
    weight = weight_of(case)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        warm(case, weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        found = gradients(case.operator, case, weight)
    for given in (case, other, copied(case, lambda x: x.flip(0))):
        with torch.no_grad():
            for held, x in zip(case.given, given.given, strict=True):
                if isinstance(held, torch.Tensor) and held.is_floating_point():
                    held.copy_(x.clone())
        expected = gradients(case.expected, case, weight)
        for each in found:
            each.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(found, expected)


@each_operator
def test_work_runs_on_the_current_stream(made: Any) -> None:
    """Forward and backward wait for what is before them on a stream of the user's; a copy on the
    default stream at the same time shows that whoever does not wait reads old values."""
    case = made(SMALL)
    weight = weight_of(case)
    side = torch.cuda.Stream()
    for stream in (torch.cuda.current_stream(), side):
        with torch.cuda.stream(stream):
            warm(case, weight)
    place = next(at for at, x in enumerate(case.given) if getattr(x, "requires_grad", False))
    fresh = torch.randn_like(case.given[place])
    changed = list(case.given)
    changed[place] = fresh.requires_grad_()
    other = cases.Case(case.operator, case.expected, tuple(changed))
    expected = gradients(case.expected, other, weight)
    before = case.given[place].detach().clone()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(CYCLES)
        with torch.no_grad():
            case.given[place].copy_(fresh)
        found = gradients(case.operator, case, weight)
    early = case.given[place].detach().clone()
    assert not side.query()
    side.synchronize()
    torch.testing.assert_close(found, expected)
    assert torch.equal(early, before)


# -- vmap, DLPack, what is refused


@pytest.mark.parametrize("made", [cases.softmax, cases.int4_linear])
@pytest.mark.parametrize("axis", [0, 1])
def test_vmap(made: Any, axis: int) -> None:
    """By the authors' rules, over either dimension."""
    case = made(SMALL)
    first, *rest = case.given
    batch = torch.stack([first.detach() * n for n in (1, 2, 3)], axis)
    dims = axis, *(None for _ in rest)
    found = torch.func.vmap(case.operator, dims)(batch, *rest)
    torch.testing.assert_close(found, torch.func.vmap(case.expected, dims)(batch, *rest))


def test_dlpack_in_and_out() -> None:
    """Arrays of CuPy without a copy, written on a stream of CuPy's right before."""
    cupy = pytest.importorskip("cupy")
    norm = cases.rms_norm(SMALL)
    held = cupy.zeros((512, 12))
    weight = torch.ones(12, dtype=torch.float64, device=DEVICE)
    with torch.no_grad():
        for _ in range(WARM):
            norm.operator(torch.from_dlpack(held), weight)
    torch.cuda.synchronize()
    theirs, side = cupy.cuda.Stream(non_blocking=True), torch.cuda.Stream()
    right = cupy.sin(cupy.arange(512 * 12, dtype=cupy.float64)).reshape(512, 12)
    cupy.cuda.runtime.deviceSynchronize()
    with theirs, torch.cuda.stream(side):
        with torch.cuda.stream(torch.cuda.ExternalStream(theirs.ptr)):
            torch.cuda._sleep(CYCLES)
        held[:] = right
        x = torch.utils.dlpack.from_dlpack(held.__dlpack__(stream=side.cuda_stream))
        assert x.data_ptr() == held.data.ptr
        y = norm.operator(x, weight)
        found = cupy.from_dlpack(y)
        assert found.data.ptr == y.data_ptr()
        doubled = found * 2
    theirs.synchronize()
    expected = norm.expected(torch.from_dlpack(right), weight)
    torch.testing.assert_close(torch.from_dlpack(doubled), expected * 2)


def test_lost_gradients_are_refused() -> None:
    """By an operator without backward, by one that leaves the argument out, and also in calls that
    the native launcher would answer."""
    x, s = SMALL(10, 4), SMALL(10)
    plain = tileprof.op("gpu_tests::plain")(kernels.scale_rows)
    for _ in range(2):
        for call in (plain, plain.overload):
            with pytest.raises(ArgumentError, match="`X` requires gradients"):
                call(x, s)
        with torch.no_grad():
            for _ in range(WARM):
                torch.testing.assert_close(plain(x, s), x * s[:, None])
    linear = cases.int4_linear(SMALL)
    x, packed, scales = linear.given
    for _ in range(2):
        for call in (linear.operator, linear.operator.overload):
            with pytest.raises(ArgumentError, match="gives `scales` no gradient"):
                call(x, packed, scales.clone().requires_grad_())
        for _ in range(WARM):
            linear.operator(x, packed, scales)
