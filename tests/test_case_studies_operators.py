"""The case studies' operators: right results and gradients beside PyTorch, PyTorch's own checks of
operators, and kernels that compile for an H200."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tileprof.compiler.cuda.pipeline import compile_cuda
from tileprof.compiler.cuda.target import find_target

torch = pytest.importorskip("torch")
cases: Any = importlib.import_module("tests.operators.cases")
study, OPERATORS = cases.study, cases.OPERATORS


@pytest.fixture(autouse=True)
def one_draw() -> None:
    """The same numbers in every run."""
    torch.manual_seed(0)


@pytest.mark.parametrize("made", OPERATORS)
def test_results_and_gradients_are_those_of_pytorch(made: Any) -> None:
    """For a gradient that is no constant."""
    case = made(cases.Draw())
    found, right = case.operator(*case.given), case.expected(*case.given)
    torch.testing.assert_close(found, right)
    weight = torch.randn_like(right)
    gradients = torch.autograd.grad((found * weight).sum(), case.wanted)
    for each, other in zip(gradients, torch.autograd.grad((right * weight).sum(), case.wanted)):
        torch.testing.assert_close(each, other)


@pytest.mark.spread("softmax", "mlp", "grouped_linear")
@pytest.mark.parametrize("made", OPERATORS)
def test_gradcheck(made: Any) -> None:
    """Gradients are those of finite differences."""
    case = made(cases.Draw())
    assert torch.autograd.gradcheck(case.operator, case.given, fast_mode=True)


@pytest.mark.spread("rms_norm", "attention", "int4_linear")
@pytest.mark.parametrize("made", OPERATORS)
def test_opcheck(made: Any) -> None:
    """Schema, autograd, fake tensors and AOT dispatch with dynamic shapes, by PyTorch's checks."""
    case = made(cases.Draw())
    checked = torch.library.opcheck(case.operator.overload, case.given)
    assert set(checked.values()) == {"SUCCESS"}


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


@pytest.mark.spread("softmaxed_backward", "product_gelu", "int4_product", "grouped_weights")
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
