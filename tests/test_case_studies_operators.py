"""The case studies' operators: right results and gradients beside PyTorch, PyTorch's own checks of
operators, and kernels that compile for an H200."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest

from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target

torch = pytest.importorskip("torch")
F = torch.nn.functional
Case = tuple[Any, Callable[..., Any], tuple[Any, ...]]


def study(name: str) -> Any:
    """A module of the operators."""
    return importlib.import_module(f"case_studies.operators.{name}")


def draw(*shape: int, gradient: bool = True) -> Any:
    """Normal numbers in double precision."""
    return torch.randn(*shape, dtype=torch.float64, requires_grad=gradient)


def rms_norm() -> Case:
    """Rows of two dimensions, more than a tile of them."""

    def expected(x: Any, weight: Any) -> Any:
        return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    return study("norms").rms_norm, expected, (draw(3, 5, 12), draw(12))


def softmax() -> Case:
    """Rows that are no multiple of anything."""
    return study("norms").softmax, lambda x: x.softmax(-1), (draw(3, 5, 7),)


def cross_entropy() -> Case:
    """One row is ignored."""

    def expected(logits: Any, targets: Any) -> Any:
        return F.cross_entropy(logits, targets, reduction="none")

    targets = torch.tensor([1, 0, -100, 5, 2])
    return study("losses").cross_entropy, expected, (draw(5, 7), targets)


def attention() -> Case:
    """Two heads of queries share keys, and there are more keys than queries."""

    def expected(q: Any, k: Any, v: Any, causal: bool) -> Any:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        ahead = k.shape[2] - q.shape[2]
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(ahead)
        mask = seen if causal else None
        found = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        return found.transpose(1, 2)

    given = draw(1, 5, 2, 16), draw(1, 7, 1, 16), draw(1, 7, 1, 16), True
    return study("attention").attention, expected, given


def mlp() -> Case:
    """Exact GELU between two products."""

    def expected(x: Any, up: Any, down: Any) -> Any:
        return F.linear(F.gelu(F.linear(x, up)), down)

    return study("products").mlp, expected, (draw(2, 3, 8), draw(16, 8), draw(8, 16))


def int4_linear() -> Case:
    """Two groups of weights in a row."""

    def expected(x: Any, packed: Any, scales: Any) -> Any:
        weights = torch.stack([packed & 15, packed >> 4], -1).flatten(1).double() - 8
        return x @ (weights * scales.repeat_interleave(32, 1)).T

    packed = torch.randint(0, 256, (6, 32), dtype=torch.uint8)
    return study("products").int4_linear, expected, (
        draw(2, 3, 64), packed, draw(6, 2, gradient=False)
    )  # fmt: skip


def grouped_linear() -> Case:
    """An expert without rows between two others."""

    def expected(x: Any, weights: Any, ends: Any) -> Any:
        parts = torch.tensor_split(x, ends[:-1].tolist())
        return torch.cat([rows @ matrix for rows, matrix in zip(parts, weights, strict=True)])

    ends = torch.tensor([2, 2, 5], dtype=torch.int32)
    return study("experts").grouped_linear, expected, (draw(5, 8), draw(3, 8, 6), ends)


OPERATORS = [rms_norm, softmax, cross_entropy, attention, mlp, int4_linear, grouped_linear]


@pytest.fixture(autouse=True)
def one_draw() -> None:
    """The same numbers in every run."""
    torch.manual_seed(0)


@pytest.mark.parametrize("case", OPERATORS)
def test_results_and_gradients_are_those_of_pytorch(case: Callable[[], Case]) -> None:
    """For a gradient that is no constant."""
    operator, expected, given = case()
    wanted = [x for x in given if getattr(x, "requires_grad", False)]
    found, right = operator(*given), expected(*given)
    torch.testing.assert_close(found, right)
    weight = draw(*right.shape, gradient=False)
    gradients = torch.autograd.grad((found * weight).sum(), wanted)
    for each, other in zip(gradients, torch.autograd.grad((right * weight).sum(), wanted)):
        torch.testing.assert_close(each, other)


@pytest.mark.parametrize("case", OPERATORS)
def test_gradcheck(case: Callable[[], Case]) -> None:
    """Gradients are those of finite differences."""
    operator, _, given = case()
    assert torch.autograd.gradcheck(operator, given, fast_mode=True)


@pytest.mark.parametrize("case", OPERATORS)
def test_opcheck(case: Callable[[], Case]) -> None:
    """Schema, autograd, fake tensors and AOT dispatch with dynamic shapes, by PyTorch's checks."""
    operator, _, given = case()
    assert set(torch.library.opcheck(operator.overload, given).values()) == {"SUCCESS"}


WIDE = {"batch": 2, "length": 2048, "heads": 16, "keys": 2048, "groups": 16, "dim": 128}
KERNELS: dict[str, tuple[str, dict[str, Any]]] = {
    "normalized": ("norms", {"N": 4096, "epsilon": 1e-6}),
    "normalized_backward": ("norms", {"N": 4096}),
    "softmaxed": ("norms", {"N": 4096}),
    "softmaxed_backward": ("norms", {"N": 4096}),
    "row_losses": ("losses", {"N": 50257}),
    "row_losses_backward": ("losses", {"N": 50257}),
    "product": ("products", {"N": 4096, "K": 1024, "transpose_B": True}),
    "product_gelu": ("products", {"N": 4096, "K": 1024}),
    "product_gelu_backward": ("products", {"N": 4096, "K": 1024}),
    "int4_product": ("products", {"N": 4096, "K": 1024}),
    "int4_product_backward": ("products", {"N": 4096, "K": 512}),
    "grouped_product": ("experts", {"N": 4096, "K": 1024, "experts": 8}),
    "grouped_weights": ("experts", {"N": 4096, "K": 1024, "experts": 8}),
}
"""Kernels with their extents; those of attention are tested with its own case studies."""


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_for_an_h200(name: str) -> None:
    """In bfloat16, products by warp groups, nothing spilled."""
    pytest.importorskip("cuda.bindings.nvrtc")
    module, extents = KERNELS[name]
    kernel = getattr(study(module), name).compile(**extents, dtype="bfloat16")
    program = compile_cuda(kernel.program.kernel, find_target("sm_90a"))
    assert ("wgmma" in program.cubin.ptx) == (module in ("products", "experts"))
    assert not [r for r in program.all_remarks if "spilled" in str(r)]


def test_model_trains_like_pytorchs() -> None:
    """Twelve steps of a GPT: the same losses, which fall."""
    made = study("gpt")
    size = made.Size(width=32, context=16, blocks=2)
    found, expected = (
        made.train(use, size, 12, "cpu", torch.float32) for use in (made.OURS, made.PYTORCH)
    )
    assert found == pytest.approx(expected, rel=1e-4)
    assert found[-1] < 0.9 * found[0]
