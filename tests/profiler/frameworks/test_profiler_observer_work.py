"""Flops and bytes of PyTorch's operations, against PyTorch's own counter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
pytest.importorskip("tileprof.native._recorder")

from tests.profiler.frameworks.torch_observed import Seen, net  # noqa: E402
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


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "complex64", "int64"])
def test_products_of_any_type_are_counted(dtype: str, seen: Seen) -> None:
    """With and without gradients, in place, in a mode that needs none: by the same formula."""
    kind = getattr(torch, dtype)
    a, b = torch.ones(2, 3, 4, dtype=kind), torch.ones(2, 4, 5, dtype=kind)
    c = torch.ones(2, 3, 5, dtype=kind)
    seen = Seen()
    torch.mm(a[0], b[0])
    torch.addmm(c[0], a[0], b[0], beta=2, alpha=3)
    with torch.inference_mode():
        torch.bmm(a, b)
        torch.baddbmm(c, a, b, alpha=2)
        c.baddbmm_(a, b)
    assert seen.flops() == 2 * 3 * 4 * 5 * (1 + 1 + 2 + 2 + 2)
    size = a.itemsize
    assert sum(moved for *_, moved in seen.rows()) == size * (
        (12 + 20 + 15) + (15 + 12 + 20 + 15) + 2 * ((12 + 20 + 15) + 2 * (15 + 12 + 20 + 15))
    )


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_products_are_counted_whoever_calls_them(seen: Seen) -> None:
    """Transforms, casts and interpreters, which call by other ways than Python's functions."""
    a, b = torch.ones(3, 4), torch.ones(4, 5)
    traced = torch.jit.trace(lambda x, y: torch.addmm(torch.ones(5), x, y), (a, b))
    ways: dict[str, Callable[[], Any]] = {
        "vmap": lambda: torch.vmap(torch.mm, in_dims=(0, None))(torch.ones(2, 3, 4), b),
        "jvp": lambda: torch.func.jvp(lambda x: torch.mm(x, b), (a,), (a,)),
        "jit": lambda: traced(a, b),
        "operator": lambda: torch.ops.aten.mm.default(a, b),
        "exported": lambda: torch.fx.experimental.proxy_tensor.make_fx(torch.mm)(a, b),
    }
    for name, way in ways.items():
        way()
        before = Seen()
        way()
        counted = before.flops()
        assert (name, counted) == (name, counted_by_pytorch_in_flops(way))
        assert counted >= 2 * 3 * 4 * 5
    with torch.autocast("cpu", torch.bfloat16):
        before = Seen()
        assert torch.mm(a, b).dtype == torch.bfloat16
    assert before.flops() == 2 * 3 * 4 * 5


@pytest.mark.filterwarnings("ignore::UserWarning")  # of prototypes of PyTorch's
def test_what_has_no_plain_shape_is_computed_and_not_counted(seen: Seen) -> None:
    """Sparse and nested factors; their results are as they were."""
    a, b = torch.eye(3), torch.arange(9.0).reshape(3, 3)
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    wide = torch.nested.nested_tensor([torch.ones(3, 5), torch.ones(3, 5)])
    seen = Seen()
    assert torch.equal(torch.mm(a.to_sparse(), b), b)
    assert torch.equal(torch.mm(a.to_sparse_csr(), b), b)
    assert torch.bmm(nested, wide).size(0) == 2
    plain = seen.counts()["aten::mm"]
    assert plain >= 2
    # What a nested product is made of is counted, as any other.
    assert seen.flops() == 2 * (2 + 4) * 3 * 5


def test_errors_of_operations_are_theirs(seen: Seen) -> None:
    """What is refused is refused in the same words, and what follows is counted as before."""
    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="batch1 must be a 3D tensor"):
        torch.bmm(torch.ones(2, 3), torch.ones(2, 3))
    seen = Seen()
    torch.mm(torch.ones(2, 3), torch.ones(3, 2))
    assert seen.flops() == 24


def blocks(widths: list[tuple[int, int, int, int]]) -> Any:
    """Convolutions of a residual net: channels in and out, kernel's edge, stride."""
    return nn.ModuleList(
        nn.Conv2d(a, b, edge, stride=stride, padding=edge // 2, bias=False)
        for a, b, edge, stride in widths
    )


def test_least_time_of_layers_at_one_line_is_the_sum_of_theirs(tmp_path: Path) -> None:
    """Layers that one line calls share a node; some are limited by memory, some by arithmetic."""
    import tileprof
    from tileprof.profile.metrics import BYTES_AT, FLOPS_AT

    layers = blocks(
        [
            (3, 32, 7, 2),
            (32, 8, 1, 1),
            (8, 8, 3, 1),
            (8, 128, 1, 1),
            (128, 32, 3, 2),
            (32, 32, 3, 1),
            (32, 256, 1, 1),
            (256, 64, 3, 1),
            (64, 64, 1, 1),
        ]
    )
    x = torch.ones(2, 3, 32, 32)
    with tileprof.profile(tmp_path / "x.tprof"), torch.no_grad():
        for layer in layers:
            x = layer(x)
    profile = tileprof.load(tmp_path / "x.tprof")

    works, x = [], torch.ones(2, 3, 32, 32)
    for layer in layers:
        with torch.no_grad():
            result = layer(x)
        flops = counted_by_pytorch_in_flops(partial(layer, x))
        works.append((flops, 4 * (x.numel() + layer.weight.numel() + result.numel())))
        x = result
    assert profile.own["flops"].sum() == sum(flops for flops, _ in works)
    parts = [
        (profile.own[name].sum(), profile.own[BYTES_AT + name.removeprefix(FLOPS_AT)].sum())
        for name in profile.metrics
        if name.startswith(FLOPS_AT)
    ]
    assert [sum(each) for each in zip(*parts)] == [sum(each) for each in zip(*works)]
    whole = [sum(each) for each in zip(*works)]
    for balance in (8, 16, whole[0] / whole[1], 64):  # a device's flops in the time of a byte
        exact = sum(max(flops / balance, moved) for flops, moved in works)
        found = sum(max(flops / balance, moved) for flops, moved in parts)
        assert 0.93 * exact <= found <= exact * (1 + 1e-9)
    # The node's sums tell of no time that its bytes do not take.
    balance = whole[0] / whole[1]
    assert whole[1] < 0.85 * sum(max(flops / balance, moved) for flops, moved in works)
