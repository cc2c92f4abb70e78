"""Operators of PyTorch made of kernels: gradients, shapes without data, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import tileprof
from tests.operators import kernels
from tileprof.errors import ArgumentError, UsageError

torch = pytest.importorskip("torch")
Tensor = torch.Tensor
SCALE = kernels.scale_rows


def rows(m: int = 10, n: int = 4) -> tuple[Any, Any]:
    """A matrix and a scale for each of its rows, which require gradients."""
    torch.manual_seed(0)
    made = torch.randn(m, n, dtype=torch.float64), torch.randn(m, dtype=torch.float64)
    return made[0].requires_grad_(), made[1].requires_grad_()


@pytest.fixture(scope="module")
def scale() -> Any:
    """A kernel and its backward as an operator."""
    return tileprof.op("tests::scale_rows", backward=kernels.scale_rows_backward)(SCALE)


def test_schema_follows_from_the_kernel(scale: Any) -> None:
    """Tensors are annotated in the body, other parameters in the signature or by their default."""
    expected = "tests::scale_rows(Tensor X, Tensor S, SymInt block=64) -> Tensor"
    assert str(scale.overload._schema) == expected
    assert scale.name == "tests::scale_rows"
    assert scale.__name__ == "scale_rows"


def test_gradients_of_the_straight_call(scale: Any) -> None:
    """They are those of finite differences, and the second ones are refused by name."""
    assert torch.autograd.gradcheck(scale, rows())
    x, s = rows()
    (first,) = torch.autograd.grad(scale(x, s).sum(), x, create_graph=True)
    with pytest.raises(ArgumentError, match="`tests::scale_rows` has no second derivatives"):
        first.sum().backward()


def test_opcheck(scale: Any) -> None:
    """PyTorch's own checks of an operator: schema, autograd, fake tensors, AOT dispatch."""
    made = torch.library.opcheck(scale.overload, rows())
    assert set(made.values()) == {"SUCCESS"}


def test_compiled_without_a_graph_break_for_all_shapes(scale: Any) -> None:
    """One graph with dynamic extents serves both shapes, forward and backward."""
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    def plain(x: Any, s: Any) -> Any:
        return (x.sin() * s[:, None]).cos().sum()

    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x, s: scale(x.sin(), s).cos().sum(), fullgraph=True, dynamic=True, backend=backend
    )
    for shape in ((10, 4), (7, 6)):
        x, s = rows(*shape)
        found = torch.autograd.grad(compiled(x, s), (x, s))
        expected = torch.autograd.grad(plain(x, s), (x, s))
        for each, right in zip(found, expected, strict=True):
            torch.testing.assert_close(each, right)
    assert len(graphs) == 1
    assert "tests.scale_rows" in graphs[0].code


def test_operator_without_backward_refuses_inputs_that_require_gradients() -> None:
    """On both ways; detached tensors and `no_grad` are the ways out."""
    x, s = rows()
    plain = tileprof.op("tests::plain")(SCALE)
    for call in (plain, plain.overload):
        with pytest.raises(ArgumentError, match="`X` requires gradients") as caught:
            call(x, s)
        assert "backward=" in caught.value.hint
        assert call(x.detach(), s.detach()).shape == x.shape
        with torch.no_grad():
            assert not call(x, s).requires_grad


def test_gradient_that_the_author_does_not_give_is_refused() -> None:
    """An argument outside of `gradients` may not require one."""
    first = tileprof.op("tests::first", backward=kernels.first_gradient, gradients=("X",))(SCALE)
    x, s = rows()
    (found,) = torch.autograd.grad(first(x, s.detach()).sum(), x)
    torch.testing.assert_close(found, s.detach()[:, None].expand_as(x))
    for call in (first, first.overload):
        with pytest.raises(ArgumentError, match="gives `S` no gradient"):
            call(x, s)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0)])
def test_inputs_of_size_0_give_empty_results_and_zero_gradients(
    scale: Any, shape: tuple[int, int]
) -> None:
    """Also where the kernel's own buffers would have no elements."""
    x, s = rows(*shape)
    made = scale(x, s)
    assert made.shape == shape
    dx, ds = torch.autograd.grad(made.sum(), (x, s))
    assert dx.shape == shape
    assert ds.tolist() == [0.0] * shape[0]


@pytest.mark.parametrize("many", [False, True])
def test_results_can_be_changed_in_place(many: bool) -> None:
    """Also those that the function makes as views, in the first call and in later ones."""

    def wide(x: Any, s: Any) -> Any:
        return SCALE(x.reshape(-1, 4), s.repeat(2))

    def slopes(dy: Tensor, x: Tensor, s: Tensor) -> Tensor:  # type: ignore[valid-type]
        return wide(dy, s).view_as(x)  # type: ignore[no-any-return]

    def one(x: Tensor, s: Tensor) -> Tensor:  # type: ignore[valid-type]
        return wide(x, s).view_as(x)  # type: ignore[no-any-return]

    def two(x: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[valid-type]
        return one(x, s), x.sin()  # type: ignore[attr-defined]

    made = tileprof.op(f"tests::in_place{many}", backward=slopes, gradients=("x",))
    operator: Any = made(two if many else one)
    x, s = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True), rows(5)[1].detach()
    for call in (*[operator] * 5, operator.overload):
        y = call(x, s)[0] if many else call(x, s)
        y *= x
        (found,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(found, 2 * x.detach() * s[:, None])
        with torch.no_grad():
            y = call(x, s)[0] if many else call(x, s)
        y *= x
        torch.testing.assert_close(y, x**2 * s[:, None])


def test_kept_results_go_to_backward_alone() -> None:
    """The caller gets the first result, on both ways, and backward the other one by its name."""
    norm = tileprof.op("tests::norm", backward=kernels.norm_rows_backward, keeps=("R",))(
        kernels.norm_rows
    )
    x, _ = rows()
    assert torch.autograd.gradcheck(norm, (x,))
    with torch.no_grad():
        assert isinstance(norm(x), torch.Tensor)
    assert len(norm.overload(x)) == 2
    compiled = torch.compile(norm, fullgraph=True, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(x).square().sum(), x)
    (expected,) = torch.autograd.grad(norm(x).square().sum(), x)
    torch.testing.assert_close(found, expected)


def test_python_function_calls_kernels_and_torch() -> None:
    """Its shapes follow from running it over fake tensors."""

    @tileprof.op("tests::twice_scaled")
    def twice_scaled(x: Tensor, s: Tensor, repeats: int = 2) -> Tensor:  # type: ignore[valid-type]
        for _ in range(repeats):
            x = SCALE(x, s)
        return torch.cat([x, x])  # type: ignore[no-any-return]

    x, s = (t.detach() for t in rows())
    torch.testing.assert_close(twice_scaled(x, s), torch.cat([x * s[:, None] ** 2] * 2))
    torch.testing.assert_close(twice_scaled(x, s=s, repeats=1), torch.cat([x * s[:, None]] * 2))
    torch.library.opcheck(twice_scaled.overload, (x, s))


def test_mutated_arguments_are_declared() -> None:
    """A write that is not raises before the kernel runs; a declared one moves the version on."""
    x, s = (t.detach() for t in rows())
    hidden = tileprof.op("tests::hidden")(kernels.scale_in_place)
    before = x.clone()
    with pytest.raises(ArgumentError, match="`scale_in_place` writes `X`") as caught:
        hidden(x, s)
    assert 'mutates=("X",)' in caught.value.hint
    torch.testing.assert_close(x, before)

    declared = tileprof.op("tests::declared", mutates=("X",))(kernels.scale_in_place)
    assert "Tensor(a0!) X" in str(declared.overload._schema)
    version = x._version
    assert declared(x, s) is None
    assert x._version > version
    torch.testing.assert_close(x, before * s[:, None])
    torch.library.opcheck(declared.overload, (x, s))


def test_vmap_by_the_rule_of_the_author(scale: Any) -> None:
    """A batch of matrices is a taller matrix."""

    def rule(info: Any, dims: Any, x: Any, s: Any, block: int) -> Any:
        assert dims[:2] == (0, 0)
        made = batched(x.flatten(0, 1), s.flatten(0, 1), block)
        return made.unflatten(0, (info.batch_size, -1)), 0

    batched = tileprof.op("tests::batched", vmap=rule)(SCALE)
    x, s = torch.randn(3, 5, 4, dtype=torch.float64), torch.randn(3, 5, dtype=torch.float64)
    torch.testing.assert_close(torch.func.vmap(batched)(x, s), x * s[..., None])
    with pytest.raises(RuntimeError, match="vmap"):
        torch.func.vmap(scale)(x, s)


def test_functional_gradients(scale: Any) -> None:
    """`torch.func.grad` works, also of gradients, which it records always."""
    x, s = (t.detach() for t in rows())
    found = torch.func.grad(lambda x: scale(x, s).square().sum())(x)
    torch.testing.assert_close(found, 2 * x * s[:, None] ** 2)


def test_names_that_clash() -> None:
    """Another function may not take a name; the same one defines its operator anew."""
    tileprof.op("tests::taken")(SCALE)
    tileprof.op("tests::taken")(SCALE)
    with pytest.raises(UsageError, match=r"`tests::taken` already, defined at .*kernels\.py"):
        tileprof.op("tests::taken")(kernels.norm_rows)
    with pytest.raises(UsageError, match="already, not one of tileprof's"):
        tileprof.op("aten::relu")(SCALE)
    with pytest.raises(UsageError, match="not the name of an operator"):
        tileprof.op("a b")(SCALE)


def test_what_a_backward_cannot_be() -> None:
    """Each mistake names what the operator has."""
    cases: list[tuple[str, dict[str, Any], Any, str]] = [
        ("returns 2 gradients, and 1", {"gradients": ("X",)}, kernels.scale_rows_backward, "X"),
        ("`gradients` names `Z`", {"gradients": ("Z", "X")}, kernels.scale_rows_backward, "X, S"),
        ("takes `other`", {}, kernels.asks_for_other, "X, S"),
        ("takes 2 gradients, and it has 1 result", {}, kernels.two_gradients, "X, S"),
        ("`keeps` of", {"keeps": ("Z",)}, kernels.scale_rows_backward, "`return`"),
    ]
    for number, (message, rules, backward, hint) in enumerate(cases):
        with pytest.raises(UsageError, match=message) as caught:
            tileprof.op(f"tests::wrong{number}", backward=backward, **rules)(SCALE)
        assert hint in caught.value.hint


def test_call_with_wrong_arguments(scale: Any) -> None:
    """The error shows the signature."""
    x, s = rows()
    for args, kwargs in (((x,), {}), ((x, s, 64, 1), {}), ((x, s), {"blocks": 1})):
        with pytest.raises(ArgumentError, match="cannot be called with") as caught:
            scale(*args, **kwargs)
        assert "Tensor X, Tensor S" in caught.value.hint
