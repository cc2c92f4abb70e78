"""Inputs of the tile kernels of the second test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: permutations, boxes, sums of rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import torch

from plant.works import Work

__all__ = ["PROBLEMS", "SPECIAL"]

Tensor: TypeAlias = torch.Tensor
Shape: TypeAlias = Mapping[str, int]

# -- inputs that random numbers are not good for


def _boxes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let the second corner lie beyond the first."""
    return [torch.cat((each[:2], each[:2] + each[2:].abs() + 0.1)) for each in made]


def _falling(made: list[Tensor], shape: Shape) -> list[Tensor]:
    q, k, v, decay = made
    return [q * 0.2, k * 0.2, v, -(decay.abs() * 0.1).cumsum(1)]


def _rates(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, keep = made
    return [x, keep.sigmoid()]


def _signs(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Take Hadamard's matrix of 128 rows, by doubling."""
    signs = torch.ones(1, 1)
    while len(signs) < 128:
        signs = torch.cat((torch.cat((signs, signs), 1), torch.cat((signs, -signs), 1)))
    return [made[0], signs.to(made[1])]


def _logits(made: list[Tensor], shape: Shape) -> list[Tensor]:
    logits, target, _, grad = made
    return [logits, target, torch.logsumexp(logits.float(), 1), grad]


def _squares(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, codes, _ = made
    return [x, codes, codes.float().square().sum(1)]


def _values(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Take sixteen values that a normal distribution has equally often between them."""
    a, packed, scales, values = made
    chances = (torch.arange(16, device=values.device, dtype=torch.float64) + 0.5) / 16
    levels = torch.special.ndtri(chances)
    return [a, packed.to(torch.uint8), scales.abs() + 0.5, (levels / levels.max()).to(values)]


def _moments(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, *rest = made
    held = x.float()
    rstd = torch.rsqrt(held.var(1, correction=0) + 1e-5)
    return [x, *rest[:-2], held.mean(1), rstd]


def _permuted(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Give each token a slot of its own: a fixed stride through all of them."""
    *first, slot = made
    count = len(slot)
    step = next(each for each in range(61, 2 * count + 62) if math.gcd(each, count) == 1)
    order = torch.arange(count, device=slot.device) * step % count
    return [*first, order.to(torch.int32)]


def _rays(made: list[Tensor], shape: Shape) -> list[Tensor]:
    density, step, colour = made
    return [density.abs(), step.abs() * 0.05, colour.sigmoid()]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "tile-box_overlap": _boxes, "tile-chunk_attention": _falling, "tile-ema_scan": _rates,
    "tile-hadamard": _signs, "tile-loss_backward": _logits, "tile-nearest_code": _squares,
    "tile-nf4_product": _values, "tile-norm_backward": _moments, "tile-rope_cache": _permuted,
    "tile-volume_render": _rays,
}  # fmt: skip

# -- results


def _overlap(a: Tensor, b: Tensor) -> Tensor:
    one, two = a.double()[:, :, None], b.double()[:, None]
    sides = (torch.minimum(one[2:], two[2:]) - torch.maximum(one[:2], two[:2])).clamp(min=0)
    common = sides.prod(0)
    areas = [(each[2:] - each[:2]).prod(0) for each in (one, two)]
    return common / (areas[0] + areas[1] - common + 1e-6)


def _chunks(q: Tensor, k: Tensor, v: Tensor, total: Tensor) -> Tensor:
    falls, made = torch.ones(128, 128, device=q.device, dtype=torch.float64).tril(), []
    for one, two, three, by in zip(q, k, v, total):
        parts = [each.double().unflatten(0, (-1, 128)) for each in (one, two, three)]
        sums = by.double().unflatten(0, (-1, 128))
        fallen = torch.exp2((sums[:, :, None] - sums[:, None]).clamp(max=0)) * falls
        made.append((parts[0] @ parts[1].transpose(1, 2) * fallen @ parts[2]).flatten(0, 1))
    return torch.stack(made)


def _costs(left: Tensor, right: Tensor) -> Tensor:
    wide, made = left.shape[1], []
    for shift in range(64):
        made.append((left.double() * right[:, 64 - shift :][:, :wide].double()).sum(2))
    return torch.stack(made, 1)


def _doubled(x: Tensor, w: Tensor) -> Tensor:
    lines, wide, _ = x.shape
    corners = torch.stack([x.double() @ each.double() for each in w], 2)
    held = corners.unflatten(2, (2, 2)).transpose(1, 2)
    return held.reshape(2 * lines, 2 * wide, -1)


def _depthwise(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    high, wide = x.shape[1] - 2, x.shape[2] - 2
    total = bias.double().expand(len(x), high, wide, -1).clone()
    for tap in range(9):
        y, at = divmod(tap, 3)
        total += x[:, y : y + high, at : at + wide].double() * w[tap].double()
    return total.clamp(0, 6)


def _averaged(x: Tensor, keep: Tensor) -> Tensor:
    state, made = torch.zeros_like(x[:, 0], dtype=torch.float64), []
    for step in x.unbind(1):
        state = step.double() + keep.double() * (state - step.double())
        made.append(state)
    return torch.stack(made, 1)


def _gated(gate: Tensor, up: Tensor, grad: Tensor) -> Tensor:
    opened = gate.double().sigmoid()
    slope = opened * (1 + gate.double() * (1 - opened))
    first = grad.double() * up.double() * slope
    return torch.stack((first, grad.double() * gate.double() * opened))


def _wavelets(x: Tensor) -> Tensor:
    held = x.double()
    a, b, c, d = held[::2, ::2], held[::2, 1::2], held[1::2, ::2], held[1::2, 1::2]
    bands = (a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d)
    return torch.stack(bands) * 0.5


def _turned(x: Tensor, signs: Tensor) -> Tensor:
    held = x.double().unflatten(1, (-1, 128))
    return (held @ signs.double() * 128**-0.5).flatten(1)


def _instances(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    held = x.double()
    apart = held - held.mean(1, keepdim=True)
    channel = torch.arange(len(x), device=x.device) % len(w)
    scale = torch.rsqrt(held.var(1, correction=0) + 1e-5) * w.double()[channel]
    made = apart * scale[:, None] + bias.double()[channel][:, None]
    return torch.nn.functional.leaky_relu(made, 0.2)


def _gradients(logits: Tensor, target: Tensor, total: Tensor, grad: Tensor) -> Tensor:
    made = torch.exp(logits.double() - total.double()[:, None])
    made[torch.arange(len(target), device=target.device), target.long()] -= 1
    return made * grad.double()[:, None]


def _cell(gates: Tensor, cell: Tensor) -> Tensor:
    let, keep, new, show = gates.double().unbind(1)
    state = keep.sigmoid() * cell.double() + let.sigmoid() * new.tanh()
    return torch.stack((state, show.sigmoid() * state.tanh()))


def _pooled(x: Tensor) -> Tensor:
    held = x.unfold(1, 3, 2).unfold(2, 3, 2)
    return held.amax((-2, -1)).double()


def _means(x: Tensor) -> Tensor:
    sums = torch.nn.functional.pad(x.double(), (64, 0)).cumsum(1)
    return (sums[:, 64:] - sums[:, :-64]) / 64


def _nearest(x: Tensor, codes: Tensor, squares: Tensor) -> Tensor:
    parts = x.double().split(4096)
    made = [(squares.double() - 2 * each @ codes.double().T).amin(1) for each in parts]
    return torch.cat(made)


def _looked_up(a: Tensor, packed: Tensor, scales: Tensor, values: Tensor) -> Tensor:
    levels = torch.stack((packed & 15, packed >> 4), 2).flatten(1)
    weights = values[levels.long()] * scales.T.repeat_interleave(64, 1)
    return a.double() @ weights.to(a.dtype).double().T


def _norm_gradient(x: Tensor, grad: Tensor, around: Tensor, w: Tensor, mean: Tensor,
                   rstd: Tensor) -> Tensor:  # fmt: skip
    plain = (x.double() - mean.double()[:, None]) * rstd.double()[:, None]
    scaled = grad.double() * w.double()
    both = (scaled * plain).mean(1, keepdim=True)
    apart = scaled - scaled.mean(1, keepdim=True) - plain * both
    return apart * rstd.double()[:, None] + around.double()


def _embedded(x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2).flatten(0, 1).double() @ w.double() + bias.double()


def _cached(key: Tensor, cos: Tensor, sin: Tensor, position: Tensor, slot: Tensor) -> Tensor:
    one, two = key.double().chunk(2, -1)
    c, s = (each[position.long()].double()[:, None] for each in (cos, sin))
    made = torch.empty(key.shape, device=key.device, dtype=torch.float64)
    made[slot.long()] = torch.cat((one * c - two * s, two * c + one * s), -1)
    return made


def _eighth(x: Tensor, _: Tensor) -> Tensor:
    held = x.double()
    return held * 448 / held.abs().amax(1, keepdim=True)


def _two_of(logits: Tensor) -> Tensor:
    top, at = logits.double().topk(2, 1)
    return torch.zeros_like(logits, dtype=torch.float64).scatter(1, at, top.softmax(1))


def _larger(x: Tensor) -> Tensor:
    held = x.permute(0, 3, 1, 2).double()
    made = torch.nn.functional.interpolate(held, scale_factor=2, mode="bilinear")
    return made.permute(0, 2, 3, 1)


def _log_sums(x: Tensor, w: Tensor) -> Tensor:
    parts = x.double().split(4096)
    return torch.cat([torch.logsumexp(each @ w.double().T, 1) for each in parts])


def _rendered(density: Tensor, step: Tensor, colour: Tensor) -> Tensor:
    thick = density.double() * step.double()
    passed = thick.cumsum(1)
    weight = torch.exp(thick - passed) - torch.exp(-passed)
    return torch.stack([(weight * each.double()).sum(1) for each in colour])


def _patches(x: Tensor) -> Tensor:
    by = torch.tensor(((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
                      device=x.device, dtype=torch.float64)  # fmt: skip
    held = x.unfold(1, 4, 2).unfold(2, 4, 2).double()
    made = by @ held @ by.T
    return made.permute(4, 5, 0, 1, 2, 3).flatten(0, 1)


PROBLEMS: Mapping[str, Work] = {
    "tile-box_overlap": Work(("4 M float32", "4 N float32"), _overlap, 1e-4),
    "tile-chunk_attention": Work(
        (*("heads length dim bfloat16",) * 3, "heads length float32"), _chunks, 0.02
    ),
    "tile-cost_volume": Work(("lines wide C float16", "lines padded C float16"), _costs, 1e-4),
    "tile-deconv": Work(("lines wide C float16", "4 C F float16"), _doubled, 0.01),
    "tile-depthwise_conv": Work(
        ("batch high wide C bfloat16", "9 C float32", "C float32"), _depthwise, 0.01
    ),
    "tile-dot_interaction": Work(
        ("batch features dim bfloat16",), lambda x: x.double() @ x.double().transpose(1, 2), 1e-4
    ),
    "tile-ema_scan": Work(("batch length C float32", "C float32"), _averaged, 1e-5),
    "tile-glu_backward": Work(("M N bfloat16",) * 3, _gated, 0.01),
    "tile-gram": Work(
        ("N K bfloat16", "N N float32"), lambda a, _: (a.double() @ a.double().T).tril(), 1e-4,
        adds_up=True,
    ),
    "tile-haar": Work(("M N float32",), _wavelets, 1e-5),
    "tile-hadamard": Work(("M N bfloat16", "128 128 bfloat16"), _turned, 0.01),
    "tile-instance_norm": Work(("planes N float32", "C float32", "C float32"), _instances, 1e-4),
    "tile-l1_distance": Work(
        ("K M float32", "K N float32"),
        lambda x, y: torch.cdist(x.double().T, y.double().T, p=1), 1e-5,
    ),
    "tile-lora": Work(
        ("M K bfloat16", "K N bfloat16", "K 16 bfloat16", "16 N bfloat16"),
        lambda x, w, a, b: x.double() @ w.double() + x.double() @ a.double() @ b.double(), 0.01,
    ),
    "tile-loss_backward": Work(
        ("M V bfloat16", "M int32 below:V", "M float32", "M float32"), _gradients, 0.01
    ),
    "tile-lstm_cell": Work(("M 4 H bfloat16", "M H float32"), _cell, 1e-5),
    "tile-max_pool": Work(("batch high wide C float16",), _pooled, 0.0),
    "tile-moving_average": Work(("M N float32",), _means, 1e-4),
    "tile-nearest_code": Work(
        ("M dim float16", "N dim float16", "N float32"), _nearest, 1e-4
    ),
    "tile-nf4_product": Work(
        ("M K bfloat16", "N bytes int32 below:256", "groups N float32", "16 float32"),
        _looked_up, 0.01,
    ),
    "tile-norm_backward": Work(
        (*("M N bfloat16",) * 3, *("N float32", "M float32", "M float32")), _norm_gradient, 0.01
    ),
    "tile-patch_embed": Work(
        ("lines 16 across 64 bfloat16", "1024 F bfloat16", "F float32"), _embedded, 0.01
    ),
    "tile-rope_cache": Work(
        ("tokens heads dim bfloat16", *("places half float32",) * 2,
         "tokens int32 below:places", "tokens int32 below:tokens"), _cached, 0.01,
    ),
    "tile-token_fp8": Work(("M N bfloat16", "M float32"), _eighth, 0.04),
    "tile-top2_gate": Work(("M E float32",), _two_of, 1e-5),
    "tile-upsample": Work(("batch high wide C bfloat16",), _larger, 0.01),
    "tile-vocab_logsumexp": Work(("M K bfloat16", "V K bfloat16"), _log_sums, 1e-3),
    "tile-volume_render": Work(
        (*("R S float32",) * 2, "3 R S float32"), _rendered, 1e-4
    ),
    "tile-winograd_input": Work(("batch high wide C float16",), _patches, 0.01),
}  # fmt: skip
