"""Flops and bytes of PyTorch's operations, against PyTorch's own counter."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")

from tests.profiler.torch_observed import Seen, net  # noqa: E402
from tileprof.native import _recorder  # noqa: E402

nn = torch.nn
pytestmark = pytest.mark.usefixtures("observed")


def counted_by_pytorch_in_flops(run: Callable[[], object]) -> float:
    """What torch.utils.flop_counter counts."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        run()
    return float(counter.get_total_flops())


def attention(backend: Any) -> Callable[[], object]:
    """A pass forward and backward through one implementation."""

    def run() -> object:
        q, k, v = (torch.ones(2, 3, s, d, requires_grad=True) for s, d in ((5, 8), (7, 8), (7, 8)))
        with torch.nn.attention.sdpa_kernel(backend):
            result = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=False)
        result.sum().backward()
        return result

    return run


def convolutions() -> None:
    """Strides, padding, dilation; one and three dimensions; transposed."""
    x = torch.ones(2, 3, 16, requires_grad=True)
    y = nn.Conv1d(3, 6, 3, stride=2, padding=1, dilation=2)(x)
    z = nn.ConvTranspose1d(6, 4, 5, stride=3, output_padding=1)(y)
    z.sum().backward()
    nn.Conv3d(2, 3, (1, 2, 3), padding=(0, 1, 2), bias=False)(
        torch.ones(1, 2, 4, 5, 6)
    ).sum().backward()


def products() -> None:
    """Matrices: batches, sums with a scaled matrix, a given place for the result."""
    a, b = torch.ones(4, 5, 6, requires_grad=True), torch.ones(4, 6, 7, requires_grad=True)
    torch.baddbmm(torch.ones(4, 5, 7), a, b).sum().backward()
    torch.einsum("bij,bjk->bik", a, b).sum().backward()
    torch.addmm(torch.ones(7), a[0], b[0], beta=2).matmul(torch.ones(7, 2)).sum().backward()
    with torch.no_grad():
        torch.mm(a[0], b[0], out=torch.empty(5, 7))


@pytest.mark.parametrize(
    "run",
    [
        lambda: net()(torch.ones(2, 3, 8, 8)).sum().backward(),
        convolutions,
        products,
        attention(torch.nn.attention.SDPBackend.MATH),
    ],
    ids=["net", "convolutions", "products", "attention"],
)
def test_flops_are_those_of_pytorch(run: Callable[[], object], seen: Seen) -> None:
    """Forward and backward."""
    seen = Seen()
    run()
    counted = seen.flops()
    _recorder.set_epoch(0)
    assert counted == counted_by_pytorch_in_flops(run) > 0


def test_flops_of_a_profile_are_those_of_pytorch(tmp_path: Path) -> None:
    """Also in a scope, and where a backward pass hangs under the operation, or two of them."""
    import tileprof

    model = net()
    x = torch.ones(2, 3, 8, 8)

    a = torch.ones(4, 4, requires_grad=True)

    def run() -> None:
        with tileprof.scope("forward"):
            loss = model(x).sum()
        loss.backward()
        (grad,) = torch.autograd.grad(a.mm(a).tanh().mm(a).sum(), a, create_graph=True)
        grad.square().sum().backward()

    with tileprof.profile(tmp_path / "x.tprof"):
        run()
    profile = tileprof.load(tmp_path / "x.tprof")
    profile.check()
    assert profile.own["flops"].sum() == counted_by_pytorch_in_flops(run)


def test_flops_of_fused_attention(seen: Seen) -> None:
    """PyTorch's counter has no formula for the CPU's kernel, and that of the GPU's is the same."""
    seen = Seen()
    attention(torch.nn.attention.SDPBackend.FLASH_ATTENTION)()
    heads, queries, keys, width = 2 * 3, 5, 7, 8
    product = 2 * heads * queries * keys * width
    paths = seen.paths()
    (forward,) = (
        p for p in paths if p.endswith("aten::_scaled_dot_product_flash_attention_for_cpu")
    )
    (backward,) = (p for p in paths if p.endswith("flash_attention_for_cpu_backward"))
    assert paths[forward][1] == 2 * product
    assert paths[backward][1] == 5 * product
    assert backward.startswith(forward)
    assert seen.flops() == 7 * product


def test_grouped_convolutions_count_what_they_compute(seen: Seen) -> None:
    """PyTorch's counter takes the weight's gradient for one without groups."""
    x = torch.ones(1, 4, 6, 6, requires_grad=True)
    seen = Seen()
    nn.Conv2d(4, 8, 3, groups=4)(x).sum().backward()
    once = 2 * 16 * 8 * 9
    assert seen.flops() == 3 * once


def test_bytes_are_those_of_arguments_and_results(seen: Seen) -> None:
    """Each once: of an expanded argument what is stored, of `out=` only the result."""
    a, b = torch.ones(4, 5), torch.ones(5, 6)
    bias = torch.ones(1).expand(6)
    seen = Seen()
    torch.mm(a, b)
    torch.mm(a, b, out=torch.empty(4, 6))
    torch.addmm(bias, a, b)
    paths = seen.paths()
    test = "test_bytes_are_those_of_arguments_and_results()"
    assert paths[f"{test} / aten::mm"] == (2, 2 * 2 * 4 * 5 * 6, 2 * 4 * (20 + 30 + 24))
    assert paths[f"{test} / aten::addmm"][2] == 4 * (1 + 20 + 30 + 24)


def test_nothing_is_counted_that_is_not_computed(seen: Seen) -> None:
    """Tensors of compilers, which have shapes alone, and those that never had more."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    seen = Seen()
    with FakeTensorMode():
        torch.mm(torch.ones(3, 3), torch.ones(3, 3))
    torch.mm(torch.ones(3, 3, device="meta"), torch.ones(3, 3, device="meta"))
    assert seen.counts()["aten::mm"] >= 2
    assert seen.flops() == 0
    assert all(moved == 0 for *_, moved in seen.rows())


def test_errors_of_operations_are_theirs(seen: Seen) -> None:
    """What is refused is refused in the same words, and what follows is counted as before."""
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="batch1 must be a 3D tensor"):
        torch.bmm(torch.ones(2, 3), torch.ones(2, 3))
    seen = Seen()
    torch.mm(torch.ones(2, 3), torch.ones(3, 2))
    assert seen.flops() == 24
