"""Inputs of the tile kernels of the fourth test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: lengths, trees, tables in order.
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


def _lengths(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let sequences be of an eighth of the longest length to all of it."""
    *first, length = made
    longest = shape["length"]
    return [*first, (longest - length % (longest - longest // 8)).to(torch.int32)]


def _trees(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let each of 64 tokens follow the one whose number is half of its own."""
    q, k, v, tree = made
    seen = torch.zeros(64, 64, dtype=torch.int64, device=tree.device)
    for token in range(64):
        above = token
        while above:
            seen[token, above] = 1
            above //= 2
        seen[token, 0] = 1
    bits = torch.arange(32, device=tree.device)
    words = (seen.unflatten(1, (2, 32)) << bits).sum(2)
    words = torch.where(words >= 1 << 31, words - (1 << 32), words)
    return [q, k, v, words.to(torch.int32).expand(tree.shape).contiguous()]


def _powers(made: list[Tensor], shape: Shape) -> list[Tensor]:
    a, packed, power = made
    return [a, packed.to(torch.uint8), (power % 8 + 122).to(torch.uint8)]


def _some_empty(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Leave one place in sixteen empty."""
    x, order, share = made
    empty = torch.arange(len(order), device=order.device) % 16 == 15
    return [x, torch.where(empty, -1, order), share.sigmoid()]


def _rates(made: list[Tensor], shape: Shape) -> list[Tensor]:
    state, x, step, rate, b, c = made
    return [state, x, step.sigmoid(), -rate.abs(), b, c]


def _small_scales(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let few products be cut off, whatever their depth is."""
    a, w, scale, bias = made
    return [a, w, (scale.sigmoid() + 0.5) * 40 / (shape["K"] ** 0.5 * 5461), bias]


def _options(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [each.sigmoid() * 50 + 75 for each in made]


def _spins(made: list[Tensor], shape: Shape) -> list[Tensor]:
    spin, chance = made
    return [torch.where(spin < 0, -1, 1).to(torch.int8), chance]


def _roots(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, root = made
    angle = torch.arange(128, device=root.device, dtype=torch.float64) * (-2 * math.pi / 256)
    return [x, torch.stack((angle.cos(), angle.sin())).to(torch.float32)]


def _in_order(made: list[Tensor], shape: Shape) -> list[Tensor]:
    table, query = made
    return [table.sort()[0], query]


def _waves(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, waves = made
    at = torch.arange(8, device=waves.device, dtype=torch.float64)
    made_waves = torch.cos((2 * at + 1) * at[:, None] * math.pi / 16) * 0.5
    made_waves[0] *= 0.5**0.5
    return [x, made_waves.to(torch.float32)]


def _alike(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, y = made
    return [x * 0.2 + 0.5, x * 0.15 + y * 0.1 + 0.5]


def _grey(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0].to(torch.uint8)]


def _narrow(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, one, other = made
    return [x, one * shape["C"] ** -0.5, other * shape["C"] ** -0.5]


def _squares(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [*made[:-1], made[-1].square() + 0.01]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "tile-american_put": _options, "tile-dct_blocks": _waves, "tile-ising": _spins,
    "tile-lamb_rows": _squares, "tile-lower_bound": _in_order, "tile-mxfp4_product": _powers,
    "tile-permute_tokens": _some_empty, "tile-ragged_decode": _lengths,
    "tile-requantise_product": _small_scales, "tile-small_fft": _roots, "tile-sobel": _grey,
    "tile-ssim": _alike, "tile-state_step": _rates, "tile-tree_attention": _trees,
    "tile-wavenet_gate": _narrow,
}  # fmt: skip

# -- results: serving of models


def _ragged_decode(q: Tensor, k: Tensor, v: Tensor, length: Tensor) -> Tensor:
    made = []
    for one, key, value, count in zip(q, k, v, length.tolist()):
        scores = one.double() @ key[:, :count].double().mT * q.shape[-1] ** -0.5
        made.append(torch.softmax(scores, -1) @ value[:, :count].double())
    return torch.stack(made)


def _tree_attention(q: Tensor, k: Tensor, v: Tensor, tree: Tensor) -> Tensor:
    bits = torch.arange(32, device=q.device)
    made = []
    for one, key, value, words in zip(q, k, v, tree.long()):
        hidden = ((words[:, :, None] >> bits) & 1).flatten(1) == 0
        scores = one.double() @ key.double().mT * q.shape[-1] ** -0.5
        scores[:, :, -64:] = scores[:, :, -64:].masked_fill(hidden, -torch.inf)
        made.append(torch.softmax(scores, -1) @ value.double())
    return torch.stack(made)


def _mxfp4(a: Tensor, packed: Tensor, power: Tensor) -> Tensor:
    half = torch.tensor((0, 0.5, 1, 1.5, 2, 3, 4, 6), device=a.device, dtype=torch.float64)
    values = torch.cat((half, -half))
    nibbles = torch.stack((packed & 15, packed >> 4), 2).flatten(1)
    scale = torch.exp2(power.double() - 127).repeat_interleave(32, 1)
    return a.double() @ (values[nibbles.long()] * scale).T


def _mx_rounded(x: Tensor) -> Tensor:
    groups = x.unflatten(1, (-1, 32))
    # Computed in float32, in which both the division and the scale are exact.
    power = torch.frexp(groups.abs().amax(2, keepdim=True))[1] - 9
    scale = torch.ldexp(torch.ones_like(groups[:, :, :1]), power)
    kept = (groups / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
    return (kept.double() * scale.double()).flatten(1)


def _permuted(x: Tensor, order: Tensor, share: Tensor) -> Tensor:
    made = x[order.long().clamp(min=0)].double() * share.double()[:, None]
    return torch.where(order[:, None] < 0, 0.0, made)


def _stepped(state: Tensor, x: Tensor, step: Tensor, rate: Tensor, b: Tensor,
             c: Tensor) -> Tensor:  # fmt: skip
    dt = step.double()[:, None]
    new = state.double() * torch.exp2(dt * rate.double())
    new += dt * b.double()[:, :, None] * x.double()[:, None]
    return torch.cat((new, (new * c.double()[:, :, None]).sum(1, keepdim=True)), 1)


def _requantised(a: Tensor, w: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    made = a.double() @ w.double().T * scale.double() + bias.double()
    return torch.floor(made + 0.5).clamp(-128, 127)


def _signs(a: Tensor, b: Tensor) -> Tensor:
    bits = torch.arange(32, device=a.device)

    def ones(words: Tensor) -> Tensor:
        return (((words[:, :, None] >> bits) & 1) * 2 - 1).flatten(1).double()

    return ones(a) @ ones(b).T


# -- results: physics, finance, tables


def _puts(price: Tensor, strike: Tensor) -> Tensor:
    nodes, up, chance, discount = 256, 0.0270, 0.4984, 0.9999
    s, k = price.double()[:, None], strike.double()[:, None]

    def used(step: int) -> Tensor:
        at = torch.arange(step + 1, device=price.device, dtype=torch.float64)
        return k - s * torch.exp2(up * (2 * at - step))

    value = used(nodes - 1).clamp(min=0)
    for step in range(nodes - 2, -1, -1):
        later = (value[:, 1:] * chance + value[:, :-1] * (1 - chance)) * discount
        value = torch.maximum(later, used(step))
    return value[:, 0]


def _turned(spin: Tensor, chance: Tensor) -> Tensor:
    held = spin.int()
    around = held.roll(1, 0) + held.roll(-1, 0) + held.roll(1, 1) + held.roll(-1, 1)
    cost = held * around
    limit = torch.where(cost <= 0, 65536, torch.where(cost == 2, 10825, 1788))
    y, x = (torch.arange(n, device=spin.device) for n in spin.shape)
    turns = ((x + y[:, None]) % 2 == 0) & (chance < limit)
    return torch.where(turns, -held, held).double()


def _lit(e: Tensor, hx: Tensor, hy: Tensor, medium: Tensor) -> Tensor:
    right = torch.nn.functional.pad(hy.double(), (0, 1))[:, 1:]
    below = torch.nn.functional.pad(hx.double(), (0, 0, 0, 1))[1:]
    return e.double() + (right - hy - below + hx.double()) * medium.double()


def _transformed(x: Tensor, root: Tensor) -> Tensor:
    made = torch.fft.fft(torch.complex(x[0].double(), x[1].double()))
    return torch.stack((made.real, made.imag))


def _warped(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([_warped_few(*each) for each in zip(x.split(1024), y.split(1024))])


def _warped_few(x: Tensor, y: Tensor) -> Tensor:
    cost = (x.double()[:, :, None] - y.double()[:, None]).square()
    batch, length, _ = cost.shape
    total = torch.full((batch, length + 1, length + 1), torch.inf, device=x.device).double()
    total[:, 0, 0] = 0
    for d in range(2 * length - 1):
        i = torch.arange(max(0, d - length + 1), min(d, length - 1) + 1, device=x.device)
        j = d - i
        around = torch.stack((total[:, i, j], total[:, i, j + 1], total[:, i + 1, j]))
        total[:, i + 1, j + 1] = cost[:, i, j] + around.amin(0)
    return total[:, -1, -1]


def _filtered(x: Tensor) -> Tensor:
    level, slope = torch.zeros_like(x[0]).double(), torch.zeros_like(x[0]).double()
    p = torch.ones(3, device=x.device, dtype=torch.float64)
    made = []
    for seen in x.double():
        level = level + slope
        one, both, two = p[0] + 2 * p[1] + p[2] + 0.1, p[1] + p[2], p[2] + 0.01
        gain, turn = one / (one + 0.5), both / (one + 0.5)
        miss = seen - level
        level, slope = level + gain * miss, slope + turn * miss
        p = torch.stack((one * (1 - gain), both * (1 - gain), two - turn * both))
        made.append(level)
    return torch.stack(made)


def _places(table: Tensor, query: Tensor) -> Tensor:
    return torch.searchsorted(table, query).double()


def _compacted(x: Tensor) -> Tensor:
    order = torch.argsort((x <= 0).int(), dim=1, stable=True)
    return torch.gather(x.clamp(min=0), 1, order).double()


def _digits(keys: Tensor) -> Tensor:
    digit = (keys >> 8) & 15
    block = torch.arange(len(keys), device=keys.device) // 4096
    blocks = -(-len(keys) // 4096)
    return torch.bincount(block * 16 + digit, minlength=blocks * 16).view(-1, 16).double()


def _lamb(w: Tensor, grad: Tensor, mean: Tensor, square: Tensor) -> Tensor:
    g, held = grad.double(), w.double()
    step = mean.double() * 0.9 + g * 0.1
    step = step / ((square.double() * 0.99 + g * g * 0.01).sqrt() + 1e-6) + held * 0.01
    trust = held.norm(dim=1, keepdim=True) / step.norm(dim=1, keepdim=True)
    return held - step * trust * 0.01


# -- results: images, sound, graphs


def _cosines(x: Tensor, waves: Tensor) -> Tensor:
    squares = x.double().unflatten(1, (-1, 8)).unflatten(0, (-1, 8)).transpose(1, 2)
    made = waves.double() @ squares @ waves.double().T
    return made.transpose(1, 2).flatten(2).flatten(0, 1)


def _ssim(x: Tensor, y: Tensor) -> Tensor:
    one, two = (
        each.double().unflatten(1, (-1, 8)).unflatten(0, (-1, 8)).transpose(1, 2).flatten(2)
        for each in (x, y)
    )  # fmt: skip
    mean, other = one.mean(2), two.mean(2)
    spread = one.var(2, correction=0) + two.var(2, correction=0)
    shared = (one * two).mean(2) - mean * other
    means = (2 * mean * other + 1e-4) / (mean.square() + other.square() + 1e-4)
    return means * (2 * shared + 9e-4) / (spread + 9e-4)


def _edges(x: Tensor) -> Tensor:
    held = x.double()
    wide = held[:-2] + 2 * held[1:-1] + held[2:]
    high = held[:, :-2] + 2 * held[:, 1:-1] + held[:, 2:]
    return torch.hypot(wide[:, 2:] - wide[:, :-2], high[2:] - high[:-2])


def _gated(x: Tensor, one: Tensor, other: Tensor) -> Tensor:
    made = []
    for sound in x.double():
        early, late = sound[:-8], sound[8:]
        sums, gates = (early @ w[0].double() + late @ w[1].double() for w in (one, other))
        made.append(sums.tanh() * gates.sigmoid())
    return torch.stack(made)


def _attended(feature: Tensor, source: Tensor, target: Tensor, neighbour: Tensor) -> Tensor:
    fit = source.double()[neighbour.long()] + target.double()[:, None]
    weight = torch.softmax(torch.nn.functional.leaky_relu(fit, 0.2), 1)
    made = torch.zeros(len(neighbour), feature.shape[1], device=fit.device, dtype=torch.float64)
    for at, by in zip(neighbour.T, weight.T):
        made += feature[at.long()].double() * by[:, None]
    return made


PROBLEMS: Mapping[str, Work] = {
    "tile-american_put": Work(("N float32",) * 2, _puts, 1e-4),
    "tile-binary_product": Work(
        ("M words int32 below:2147483647", "N words int32 below:2147483647"), _signs, 0.0
    ),
    "tile-compact_rows": Work(("M N float32",), _compacted, 0.0),
    "tile-dct_blocks": Work(("H W float32", "8 8 float32"), _cosines, 1e-5),
    "tile-digit_counts": Work(("N int32 below:1000000",), _digits, 0.0),
    "tile-graph_attention": Work(
        ("V N bfloat16", "V float32", "M float32", "M E int32 below:V"), _attended, 0.01
    ),
    "tile-ising": Work(("H W int8", "H W int32 below:65536"), _turned, 0.0),
    "tile-kalman": Work(("L N float32",), _filtered, 1e-4),
    "tile-lamb_rows": Work(
        ("M N float32", "M N bfloat16", "M N float32", "M N float32"), _lamb, 1e-5
    ),
    "tile-lower_bound": Work(("V float32", "N float32"), _places, 0.0),
    "tile-mx_quantise": Work(("M N float32",), _mx_rounded, 1e-6),
    "tile-mxfp4_product": Work(
        ("M K bfloat16", "N bytes int32 below:256", "N blocks int32 below:256"), _mxfp4, 0.01
    ),
    "tile-permute_tokens": Work(
        ("tokens N bfloat16", "M int32 below:tokens", "M float32"), _permuted, 0.01
    ),
    "tile-ragged_decode": Work(
        ("batch groups 16 dim bfloat16", *("batch groups length dim bfloat16",) * 2,
         "batch int32 below:length"), _ragged_decode, 0.02,
    ),
    "tile-requantise_product": Work(
        ("M K int8", "N K int8", "N float32", "N float32"), _requantised, 0.01
    ),
    "tile-small_fft": Work(("2 M 256 float32", "2 128 float32"), _transformed, 1e-5),
    "tile-sobel": Work(("H W int32 below:256",), _edges, 1e-3),
    "tile-ssim": Work(("H W float32",) * 2, _ssim, 1e-3),
    "tile-state_step": Work(
        ("batch S D float32", "batch D bfloat16", "batch D float32", "S D float32",
         "batch S float32", "batch S float32"), _stepped, 1e-5,
    ),
    "tile-time_warp": Work(("batch length float32",) * 2, _warped, 1e-5),
    "tile-tree_attention": Work(
        ("batch heads 64 dim bfloat16", *("batch heads length dim bfloat16",) * 2,
         "batch 64 2 int32 below:2"), _tree_attention, 0.02,
    ),
    "tile-wavenet_gate": Work(
        ("batch length C float16", "2 C F float16", "2 C F float16"), _gated, 0.01
    ),
    "tile-yee_step": Work(("H W float32",) * 4, _lit, 1e-5),
}  # fmt: skip
