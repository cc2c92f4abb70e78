"""Inputs of the Triton kernels in rooms of `triton_kernels`, and their results in float64.

In: nothing.  Out: what `problems` has by family: how inputs are made, which of them random numbers
are not good for, and a reference by PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from plant.works import Work

__all__ = ["PROBLEMS", "SPECIAL"]

Tensor: TypeAlias = torch.Tensor
Shape: TypeAlias = Mapping[str, int]


# -- inputs that random numbers are not good for


def _statistics(made: list[Tensor], shape: Shape) -> list[Tensor]:
    dy, x, w, mean, factor = made
    held = x.float()
    mean.copy_(held.mean(1))
    factor.copy_(torch.rsqrt(held.var(1, correction=0) + 1e-5))
    return [dy, x, w, mean, factor]


def _signed(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Keep sums away from 0, where rounding decides on their sign."""
    w, g, m = made
    near = (m * 0.9 + g.float() * 0.1).abs() < 1e-3
    return [w, g, torch.where(near, m + 0.01, m)]


def _moments(made: list[Tensor], shape: Shape) -> list[Tensor]:
    w, g, down, across = made
    return [w, g, down.abs() + 0.1, across.abs() + 0.1]


def _sums(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, target, _ = made
    return [x, target, torch.logsumexp(x.float(), 1)]


def _scales(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Make the last input positive, and none of it small."""
    return [*made[:-1], made[-1].abs() * 0.01 + 0.001]


def _both_scales(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [*made[:2], *(each.abs() * 0.01 + 0.001 for each in made[2:])]


def _code_squares(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, code, _ = made
    return [x, code, code.float().square().sum(1)]


def _pages(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Give each page to one sequence, in no order; sequences end before their last page does."""
    q, k, v, table, length = made
    order = _shuffled(table.numel(), table.device)
    most = table.shape[1] * k.shape[1]
    shorter = torch.arange(length.numel(), device=length.device, dtype=torch.int32) * 7 % 16
    return [q, k, v, order.view(table.shape), most - shorter]


def _slots(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Give each token a slot of its own, in no order."""
    x, slot, cache = made
    order = _shuffled(cache.shape[0] * cache.shape[2], cache.device)
    return [x, order[: slot.numel()].contiguous(), cache]


def _shuffled(count: int, device: torch.device) -> Tensor:
    generator = torch.Generator(device="cpu").manual_seed(0)
    return torch.randperm(count, generator=generator).to(device, torch.int32)


def _steps(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, step, fade, b, c = made
    return [x, torch.nn.functional.softplus(step - 2), -fade.abs(), b, c]


def _kept(made: list[Tensor], shape: Shape) -> list[Tensor]:
    keep, x = made
    return [keep.sigmoid(), x]


def _eight_bits(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, scale = made
    return [x.to(torch.float8_e4m3fn), scale.abs() + 0.1]


def _corners(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let boxes end behind where they begin."""
    return [torch.cat((box[:, :2], box[:, :2] + box[:, 2:].abs() + 0.1), 1) for box in made]


def _offsets(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Cut all rows at random places, and let no sequence be empty."""
    x, offset = made
    generator = torch.Generator(device="cpu").manual_seed(0)
    cuts = torch.randperm(x.shape[0] - 1, generator=generator)[: offset.numel() - 2] + 1
    ends = torch.cat((torch.tensor([0]), cuts.sort()[0], torch.tensor([x.shape[0]])))
    return [x, ends.to(offset.device, torch.int32)]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "triton-block_dequantise": _eight_bits, "triton-box_overlap": _corners,
    "triton-cache_write": _slots, "triton-channel_product": _both_scales,
    "triton-factored_update": _moments, "triton-int4_product": _scales,
    "triton-jagged_mean": _offsets, "triton-layer_norm_grad": _statistics,
    "triton-linear_scan": _kept, "triton-lion": _signed, "triton-nearest_code": _code_squares,
    "triton-paged_decode": _pages, "triton-selective_scan": _steps,
    "triton-smooth_loss_grad": _sums,
}  # fmt: skip


# -- results


def _layer_norm_grad(dy: Tensor, x: Tensor, w: Tensor, _mean: Tensor, _factor: Tensor) -> Tensor:
    held = x.double().requires_grad_()
    y = torch.nn.functional.layer_norm(held, (x.shape[1],), w.double(), None, 1e-5)
    return torch.autograd.grad(y, held, dy.double())[0]


def _lion(w: Tensor, g: Tensor, m: Tensor) -> Tensor:
    grad, mean = g.double(), m.double()
    step = w.double() * 0.999 - torch.sign(mean * 0.9 + grad * 0.1) * 0.01
    return torch.stack((step, mean * 0.99 + grad * 0.01))


def _factored_update(w: Tensor, g: Tensor, down: Tensor, across: Tensor) -> Tensor:
    moment = down.double()[:, None] * across.double()
    return w.double() - (g.double() * torch.rsqrt(moment)).clamp(-2, 2) * 0.01


def _focal_loss(x: Tensor, label: Tensor) -> Tensor:
    away = torch.where(label > 0, -x.double(), x.double())
    share = torch.where(label > 0, 0.25, 0.75)
    return (share * away.sigmoid() ** 2 * torch.nn.functional.softplus(away)).sum(1)


def _smooth_loss_grad(x: Tensor, target: Tensor, _: Tensor) -> Tensor:
    held = x.double().requires_grad_()
    loss = torch.nn.functional.cross_entropy(
        held, target.long(), reduction="sum", label_smoothing=0.1
    )
    return torch.autograd.grad(loss, held)[0]


def _int4_product(a: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    shifts = torch.arange(8, device=packed.device, dtype=torch.int32) * 4
    nibbles = ((packed[:, None] >> shifts[:, None]) & 15).flatten(0, 1) - 8
    w = (nibbles.float() * scale.repeat_interleave(128, 0)).to(torch.bfloat16)
    return a.double() @ w.double()


def _channel_product(a: Tensor, b: Tensor, down: Tensor, across: Tensor) -> Tensor:
    return (a.double() @ b.double().T) * down.double()[:, None] * across.double()


def _linear_gelu(x: Tensor, w: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    y = x.double() @ w.double() + bias.double()
    return torch.nn.functional.gelu(y, approximate="tanh") + residual.double()


def _cosines(x: Tensor, y: Tensor) -> Tensor:
    one, other = (torch.nn.functional.normalize(each.double(), dim=1) for each in (x, y))
    return one @ other.T


def _low_rank_product(x: Tensor, w: Tensor, down: Tensor, up: Tensor) -> Tensor:
    return x.double() @ w.double() + x.double() @ down.double() @ up.double()


def _nearest_code(x: Tensor, code: Tensor, _: Tensor) -> Tensor:
    parts = [torch.cdist(part.double(), code.double()).amin(1) for part in x.split(8192)]
    return torch.cat(parts).square()


def _sampled_product(a: Tensor, b: Tensor, place: Tensor) -> Tensor:
    one, other = (
        held.double().unflatten(0, (-1, 128))[at.long()] for held, at in zip((a, b), place.T)
    )
    return one @ other.transpose(1, 2)


def _biased_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    made = [
        torch.softmax(one.double() @ two.double().T / q.shape[-1] ** 0.5 + more.double(), -1)
        @ three.double()
        for one, two, three, more in zip(q, k, v, bias)
    ]
    return torch.stack(made)


def _paged_decode(q: Tensor, k: Tensor, v: Tensor, table: Tensor, length: Tensor) -> Tensor:
    groups, dim = k.shape[2:]
    made = []
    for one, pages, end in zip(q, table.long(), length.tolist()):
        keys = k[pages].flatten(0, 1)[:end].double().transpose(0, 1)
        values = v[pages].flatten(0, 1)[:end].double().transpose(0, 1)
        scores = one.double().unflatten(0, (groups, -1)) @ keys.transpose(1, 2) / dim**0.5
        made.append((torch.softmax(scores, -1) @ values).flatten(0, 1))
    return torch.stack(made)


def _linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.stack([
        torch.tril(one.double() @ two.double().T) @ three.double()
        for one, two, three in zip(q, k, v)
    ])  # fmt: skip


def _channels_first(x: Tensor) -> Tensor:
    return x.double().permute(0, 3, 1, 2)


def _max_pool(x: Tensor) -> Tensor:
    made = torch.nn.functional.max_pool2d(_channels_first(x), 3, 2, 1)
    return made.permute(0, 2, 3, 1)


def _resize(x: Tensor) -> Tensor:
    made = torch.nn.functional.interpolate(_channels_first(x), scale_factor=2, mode="bilinear")
    return made.permute(0, 2, 3, 1)


def _depthwise(x: Tensor, w: Tensor) -> Tensor:
    """Add up taps in turn, as cuDNN is slow in float64."""
    held = torch.nn.functional.pad(x.double(), (0, 0, 3, 3, 3, 3))
    high, wide = x.shape[1:3]
    made = torch.zeros_like(x, dtype=torch.float64)
    for tap, by in enumerate(w.double()):
        y, at = divmod(tap, 7)
        made += held[:, y : y + high, at : at + wide] * by
    return made


def _instance_norm(x: Tensor) -> Tensor:
    held = x.double()
    apart = held - held.mean(1, keepdim=True)
    return apart * torch.rsqrt(held.var(1, keepdim=True, correction=0) + 1e-5)


def _patches(x: Tensor) -> Tensor:
    held = x.double().unflatten(3, (-1, 16)).unflatten(2, (-1, 16))
    return held.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def _wave_step(x: Tensor, before: Tensor) -> Tensor:
    held, (high, wide) = torch.nn.functional.pad(x.double(), (2, 2, 2, 2)), x.shape
    change = held[2:-2, 2:-2] * -5.0
    for by, factor in ((-2, -1 / 12), (-1, 4 / 3), (1, 4 / 3), (2, -1 / 12)):
        change += held[2 + by : 2 + by + high, 2:-2] * factor
        change += held[2:-2, 2 + by : 2 + by + wide] * factor
    return 2 * x.double() - before.double() + change * 0.1


def _box_overlap(a: Tensor, b: Tensor) -> Tensor:
    """Return shares, a part of the rows at a time, as float64 of all pairs at once is large."""
    areas = [(box[:, 2:] - box[:, :2]).double().prod(1) for box in (a, b)]
    made = []
    for part, area in zip(a.double().split(2048), areas[0].split(2048)):
        low = torch.maximum(part[:, None, :2], b.double()[:, :2])
        high = torch.minimum(part[:, None, 2:], b.double()[:, 2:])
        common = (high - low).clamp(min=0).prod(2)
        made.append(common / (area[:, None] + areas[1] - common).clamp(min=1e-6))
    return torch.cat(made)


def _cache_write(x: Tensor, slot: Tensor, cache: Tensor) -> Tensor:
    pages, heads, page, dim = cache.shape
    made = torch.zeros(pages, page, heads, dim, device=x.device, dtype=torch.float64)
    made.flatten(0, 1)[slot.long()] = x.double()
    return made.transpose(1, 2)


def _gate_experts(x: Tensor) -> Tensor:
    chance = torch.softmax(x.double(), 1)
    best, place = chance.topk(4, 1)
    return torch.zeros_like(chance).scatter(1, place, best / best.sum(1, keepdim=True))


def _scatter_add(x: Tensor, index: Tensor, out: Tensor) -> Tensor:
    return torch.zeros_like(out, dtype=torch.float64).index_add(0, index.long(), x.double())


def _selective_scan(x: Tensor, step: Tensor, fade: Tensor, b: Tensor, c: Tensor) -> Tensor:
    state = torch.zeros(x.shape[0], *fade.shape, device=x.device, dtype=torch.float64)
    made = []
    for t in range(x.shape[1]):
        by = step[:, t].double()[..., None]
        entry = by * x[:, t].double()[..., None] * b[:, None, t].double()
        state = state * torch.exp2(fade.double() * by) + entry
        made.append((state * c[:, None, t].double()).sum(2))
    return torch.stack(made, 1)


def _linear_scan(keep: Tensor, x: Tensor) -> Tensor:
    last = torch.zeros_like(x[:, 0], dtype=torch.float64)
    made = torch.empty_like(x, dtype=torch.float64)
    for t in range(x.shape[1]):
        last = last * keep[:, t].double() + x[:, t].double()
        made[:, t] = last
    return made


def _complex_product(x: Tensor, w: Tensor) -> Tensor:
    one, other = (torch.view_as_complex(each.double().unflatten(-1, (-1, 2))) for each in (x, w))
    return torch.view_as_real(one * other).flatten(1)


def _block_dequantise(x: Tensor, scale: Tensor) -> Tensor:
    made = x.double().unflatten(1, (-1, 128)).unflatten(0, (-1, 128))
    return (made * scale.double()[:, None, :, None]).flatten(2).flatten(0, 1)


def _jagged_mean(x: Tensor, offset: Tensor) -> Tensor:
    sums = torch.cat((torch.zeros_like(x[:1], dtype=torch.float64), x.double().cumsum(0)))
    ends = offset.long()
    return (sums[ends[1:]] - sums[ends[:-1]]) / (ends[1:] - ends[:-1]).clamp(min=1)[:, None]


_TOKENS = "heads L dim bfloat16"
PROBLEMS: Mapping[str, Work] = {
    "triton-biased_attention": Work(
        (*("heads N dim bfloat16",) * 3, "heads N N bfloat16"), _biased_attention, 0.02
    ),
    "triton-block_dequantise": Work(
        ("M N float32", "M/128 N/128 float32"), _block_dequantise, 0.01
    ),
    "triton-box_overlap": Work(("M 4 float32", "N 4 float32"), _box_overlap, 1e-4),
    "triton-cache_write": Work(
        ("T heads dim bfloat16", "T int32 below:1", "P heads page dim bfloat16"), _cache_write, 0.0,
        adds_up=True,
    ),
    "triton-channel_product": Work(
        ("M K int8", "N K int8", "M float32", "N float32"), _channel_product, 0.01
    ),
    "triton-complex_product": Work(("M N float32", "N float32"), _complex_product, 1e-5),
    "triton-cosine_matrix": Work(("M K bfloat16", "N K bfloat16"), _cosines, 0.01),
    "triton-depthwise": Work(("B H W C bfloat16", "49 C float32"), _depthwise, 0.01),
    "triton-factored_update": Work(
        ("M N float32", "M N bfloat16", "M float32", "N float32"), _factored_update, 1e-5
    ),
    "triton-focal_loss": Work(("M N bfloat16", "M N int8"), _focal_loss, 1e-4),
    "triton-gate_experts": Work(("M E float32",), _gate_experts, 1e-5),
    "triton-instance_norm": Work(("B P C bfloat16",), _instance_norm, 0.01),
    "triton-int4_product": Work(
        ("M K bfloat16", "words N int32 below:2147483647", "K/128 N float32"), _int4_product, 0.01
    ),
    "triton-jagged_mean": Work(("R N bfloat16", "ends int32 below:1"), _jagged_mean, 1e-4),
    "triton-layer_norm_grad": Work(
        ("M N bfloat16", "M N bfloat16", "N float32", "M float32", "M float32"),
        _layer_norm_grad, 0.01,
    ),
    "triton-linear_attention": Work((_TOKENS,) * 3, _linear_attention, 0.02),
    "triton-linear_gelu": Work(
        ("M K bfloat16", "K N bfloat16", "N float32", "M N bfloat16"), _linear_gelu, 0.01
    ),
    "triton-linear_scan": Work(("B L D float32",) * 2, _linear_scan, 1e-5),
    "triton-lion": Work(("N float32", "N bfloat16", "N float32"), _lion, 1e-5),
    "triton-low_rank_product": Work(
        ("M K bfloat16", "K N bfloat16", "K R bfloat16", "R N bfloat16"), _low_rank_product, 0.01
    ),
    "triton-max_pool": Work(("B H W C bfloat16",), _max_pool, 0.0),
    "triton-nearest_code": Work(
        ("M K bfloat16", "N K bfloat16", "N float32"), _nearest_code, 0.001
    ),
    "triton-paged_decode": Work(
        ("B heads dim bfloat16", *("P page groups dim bfloat16",) * 2, "B T int32 below:1",
         "B int32 below:1"), _paged_decode, 0.02,
    ),
    "triton-patches": Work(("B C H W bfloat16",), _patches, 0.0),
    "triton-resize": Work(("B H W C bfloat16",), _resize, 0.01),
    "triton-sampled_product": Work(
        ("M K bfloat16", "M K bfloat16", "T 2 int32 below:edge"), _sampled_product, 0.01
    ),
    "triton-scatter_add": Work(
        ("M N float32", "M int32 below:V", "V N float32"), _scatter_add, 1e-5, adds_up=True
    ),
    "triton-selective_scan": Work(
        ("B L D bfloat16", "B L D float32", "D S float32", "B L S float32", "B L S float32"),
        _selective_scan, 0.01,
    ),
    "triton-smooth_loss_grad": Work(
        ("M N bfloat16", "M int32 below:N", "M float32"), _smooth_loss_grad, 0.01
    ),
    "triton-wave_step": Work(("H W float32",) * 2, _wave_step, 1e-5),
    "triton-weight_grad": Work(
        ("M K bfloat16", "M N bfloat16", "K N float32"),
        lambda x, dy, _: x.double().T @ dy.double(), 0.01, adds_up=True,
    ),
}  # fmt: skip
