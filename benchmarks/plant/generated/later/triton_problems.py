"""Inputs of the Triton kernels of the third test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: logarithms of chances, ends of sequences, stable filters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TypeAlias

import torch

from plant.works import Work

__all__ = ["PROBLEMS", "SPECIAL"]

Tensor: TypeAlias = torch.Tensor
Shape: TypeAlias = Mapping[str, int]
_LOG2E = 1.4426950408889634

# -- inputs that random numbers are not good for


def _ends(offset: Tensor, count: int) -> Tensor:
    """Cut `count` rows into sequences of seven lengths in turn, none twice as long as the mean."""
    parts = torch.arange(offset.numel() - 1) * 5 % 7 + 1
    sums = torch.cat((torch.zeros(1, dtype=torch.int64), parts.cumsum(0)))
    return (sums * count // sums[-1]).to(offset.device, torch.int32)


def _logarithms(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [torch.log_softmax(each, 1) for each in made]


def _last_chance(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [*made[:-1], made[-1].sigmoid()]


def _fading(made: list[Tensor], shape: Shape) -> list[Tensor]:
    r, k, v, fade, now = made
    return [r, k, v, fade.sigmoid(), now]


def _narrow_weight(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, w, scale = made
    return [x, w.to(torch.float8_e4m3fn), scale.abs() + 0.1]


def _middle_scale(made: list[Tensor], shape: Shape) -> list[Tensor]:
    w, scale, x = made
    return [w, scale.abs() * 0.01 + 0.001, x]


def _sums(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Take what the forward pass keeps: logarithms of sums, of base two, and deltas."""
    q, k, v, do, whole, delta = made
    for head in range(len(q)):
        scores = q[head].float() @ k[head].float().T * q.shape[2] ** -0.5
        whole[head] = torch.logsumexp(scores, 1) * _LOG2E
        out = torch.softmax(scores, 1) @ v[head].float()
        delta[head] = (out * do[head].float()).sum(1)
    return made


def _cut(made: list[Tensor], shape: Shape) -> list[Tensor]:
    *rest, offset = made
    return [*rest, _ends(offset, len(rest[0]))]


def _rows_cut(made: list[Tensor], shape: Shape) -> list[Tensor]:
    start, column, *rest = made
    return [_ends(start, len(column)), column, *rest]


def _powers(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Take powers of two as scales: products by them are exact, so no code is off by one."""
    x, scale = made
    return [x, torch.exp2(scale.clamp(-1, 1).round() + 1)]


def _positive(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, rate = made
    return [x, rate.abs() + 0.5]


def _squares(made: list[Tensor], shape: Shape) -> list[Tensor]:
    w, square, index, grad = made
    return [w, square.abs() + 0.1, index, grad]


def _wind(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, u, v = made
    return [x, u * 4, v * 4]


def _water(made: list[Tensor], shape: Shape) -> list[Tensor]:
    h, u, v = made
    return [h.abs() * 0.1 + 1, u, v]


def _lengths(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, y, value = made
    return [x, y, torch.stack((value[0], y.float().square().sum(1)))]


def _heavy_middle(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let the middle diagonal outweigh both others, so that no pivot is near 0."""
    low, main, high, right = made
    return [low, main.abs() + low.abs() + high.abs() + 1, high, right]


def _stable(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, factor = made
    return [x, torch.cat((factor[:3] * 0.3, factor[3:].tanh() * 0.45))]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "triton-advect": _wind, "triton-attention_kv_grad": _sums, "triton-biquad": _stable,
    "triton-byte_matvec": _middle_scale, "triton-csr_product": _rows_cut,
    "triton-eight_bit_weight": _narrow_weight, "triton-jagged_attention": _cut,
    "triton-jagged_to_padded": _cut, "triton-jsd_loss": _logarithms,
    "triton-kernel_regression": _lengths, "triton-noisy_top": _last_chance,
    "triton-pack_nibbles": _powers, "triton-shallow_water": _water, "triton-snake": _positive,
    "triton-sparse_adagrad": _squares, "triton-token_shift": _last_chance,
    "triton-tridiagonal": _heavy_middle, "triton-wkv": _fading,
}  # fmt: skip

# -- results: layers of models


def _geglu_grad(gate: Tensor, up: Tensor, dy: Tensor) -> Tensor:
    held = gate.double().requires_grad_()
    opened = torch.nn.functional.gelu(held, approximate="tanh")
    first = torch.autograd.grad(opened, held, dy.double() * up.double())[0]
    return torch.stack((first, dy.double() * opened.detach()))


def _jsd_loss(x: Tensor, y: Tensor) -> Tensor:
    p, q = x.double().exp(), y.double().exp()
    middle = ((p + q) / 2).log()
    return 0.5 * (p * (x.double() - middle) + q * (y.double() - middle)).sum(1)


def _entropy(x: Tensor) -> Tensor:
    return torch.distributions.Categorical(logits=x.double()).entropy()


def _norm_rope(x: Tensor, w: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    held = x.double()
    held = held * torch.rsqrt(held.square().mean(2, keepdim=True) + 1e-6) * w.double()
    one, two = held.chunk(2, 2)
    c, s = cos.double()[:, None], sin.double()[:, None]
    return torch.cat((one * c - two * s, two * c + one * s), 2)


def _token_shift(x: Tensor, share: Tensor) -> Tensor:
    held = x.double()
    before = torch.nn.functional.pad(held, (0, 0, 1, 0))[:, :-1]
    return torch.lerp(held, before, share.double().expand_as(held))


def _wkv(r: Tensor, k: Tensor, v: Tensor, fade: Tensor, now: Tensor) -> Tensor:
    heads, length, dim = r.shape
    state = torch.zeros(heads, dim, dim, device=r.device, dtype=torch.float64)
    made = []
    for t in range(length):
        new = k[:, t].double()[:, :, None] * v[:, t].double()[:, None]
        made.append((r[:, t].double()[:, :, None] * (state + now.double()[:, None] * new)).sum(1))
        state = state * fade[:, t].double()[:, :, None] + new
    return torch.stack(made, 1)


def _routed(x: Tensor, w: Tensor, token: Tensor, expert: Tensor) -> Tensor:
    parts = zip(token.long().split(64), expert.tolist())
    return torch.cat([x[rows].double() @ w[by].double() for rows, by in parts])


def _eight_bit_weight(x: Tensor, w: Tensor, scale: Tensor) -> Tensor:
    return x.double() @ w.double() * scale.double()


def _byte_matvec(w: Tensor, scale: Tensor, x: Tensor) -> Tensor:
    made = torch.cat([part.double() @ x.double() for part in w.split(4096)])
    return made * scale.double()


def _newton_schulz(a: Tensor) -> Tensor:
    held = a.double()
    return held @ held * 2.0315 - held * 4.775


def _kv_grad(q: Tensor, k: Tensor, v: Tensor, do: Tensor, _whole: Tensor, _delta: Tensor) -> Tensor:
    made = []
    for one, key, value, grad in zip(q, k, v, do):
        held = [key.double().requires_grad_(), value.double().requires_grad_()]
        out = torch.softmax(one.double() @ held[0].T * q.shape[2] ** -0.5, 1) @ held[1]
        made.append(torch.stack(torch.autograd.grad(out, held, grad.double())))
    return torch.stack(made, 1)


def _jagged_attention(q: Tensor, k: Tensor, v: Tensor, offset: Tensor) -> Tensor:
    ends, made = offset.tolist(), []
    for first, end in pairwise(ends):
        one, two, three = (each[first:end].double().transpose(0, 1) for each in (q, k, v))
        weight = torch.softmax(one @ two.mT * q.shape[2] ** -0.5, 2)
        made.append((weight @ three).transpose(0, 1))
    return torch.cat(made)


def _merged(x: Tensor, whole: Tensor) -> Tensor:
    weight = torch.softmax(whole.double(), 0)
    made = torch.zeros(x.shape[1:], device=x.device, dtype=torch.float64)
    for part, by in zip(x, weight):
        made += part.double() * by[:, None]
    return made


def _noisy_top(x: Tensor, chance: Tensor) -> Tensor:
    parts = zip(x.split(512), chance.split(512))
    return torch.cat([(a.double() * 1.25 - (-b.double().log()).log()).amax(1) for a, b in parts])


def _clipped(x: Tensor) -> Tensor:
    most = x.double().abs().sort(1)[0][:, -(x.shape[1] // 8), None]
    return torch.minimum(torch.maximum(x.double(), -most), most)


def _nibbles(x: Tensor, scale: Tensor) -> Tensor:
    steps = x.double().unflatten(1, (-1, 128)) * scale.double()[:, :, None]
    code = torch.floor(steps + 8.5).clamp(0, 15).to(torch.int64).flatten(1).unflatten(1, (-1, 8))
    words = (code << torch.arange(8, device=x.device) * 4).sum(2)
    return torch.where(words >= 1 << 31, words - (1 << 32), words).double()


def _silu_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    made = []
    for one, two, three in zip(q, k, v):
        scores = one.double() @ two.double().T * q.shape[2] ** -0.5
        made.append(torch.nn.functional.silu(scores).tril() @ three.double() / q.shape[1])
    return torch.stack(made)


def _padded(x: Tensor, offset: Tensor) -> Tensor:
    ends = offset.tolist()
    longest = 2 * len(x) // (len(ends) - 1)
    made = torch.zeros(len(ends) - 1, longest, x.shape[1], device=x.device, dtype=torch.float64)
    for row, first, end in zip(made, ends, ends[1:]):
        row[: end - first] = x[first:end].double()
    return made


def _masked_softmax(x: Tensor) -> Tensor:
    hidden = torch.ones(x.shape[1:], device=x.device, dtype=torch.bool).triu(1)
    heads = [each.double().mul(0.125).masked_fill(hidden, -torch.inf) for each in x]
    return torch.stack([torch.softmax(each, 1) for each in heads])


def _gated_norm(x: Tensor, gate: Tensor, w: Tensor) -> Tensor:
    held = x.double() * torch.nn.functional.silu(gate.double())
    return held * torch.rsqrt(held.square().mean(1, keepdim=True) + 1e-6) * w.double()


def _snake(x: Tensor, rate: Tensor) -> Tensor:
    by = rate.double()[:, None]
    return x.double() + torch.sin(x.double() * by).square() / by


def _sparse_adagrad(w: Tensor, square: Tensor, index: Tensor, grad: Tensor) -> Tensor:
    at, held = index.long(), grad.double()
    return w[at].double() - 0.01 * held * torch.rsqrt(square[at].double() + held.square())


def _by_chance(x: Tensor, noise: Tensor) -> Tensor:
    bits = x.view(torch.int32) + (noise & 65535)
    return (bits & -65536).view(torch.float32).double()


# -- results: sparse matrices, physics, signals


def _csr_product(start: Tensor, column: Tensor, value: Tensor, b: Tensor) -> Tensor:
    counts = (start[1:] - start[:-1]).long()
    rows = torch.arange(len(counts), device=b.device).repeat_interleave(counts)
    made = torch.zeros(len(counts), b.shape[1], device=b.device, dtype=torch.float64)
    for row, at, by in zip(rows.split(1 << 18), column.split(1 << 18), value.split(1 << 18)):
        made.index_add_(0, row, b[at.long()].double() * by.double()[:, None])
    return made


def _bsr_product(blocks: Tensor, place: Tensor, b: Tensor) -> Tensor:
    held = b.unflatten(0, (-1, blocks.shape[2]))
    made = [
        torch.einsum("kij,kjn->in", row.double(), held[at.long()].double())
        for row, at in zip(blocks, place)
    ]
    return torch.cat(made)


def _butterfly(x: Tensor, turn: Tensor) -> Tensor:
    (a, b), (c, d) = (each.double().unbind(1) for each in x.unbind(1))
    cos, sin = turn.double()
    apart = (a - b, c - d)
    real = torch.stack((a + b, apart[0] * cos - apart[1] * sin), 1)
    imaginary = torch.stack((c + d, apart[0] * sin + apart[1] * cos), 1)
    return torch.stack((real, imaginary), 1)


def _advected(x: Tensor, u: Tensor, v: Tensor) -> Tensor:
    high, wide = x.shape
    # In float32: which points one is between may not depend on rounding.
    across = (torch.arange(wide, device=x.device).float() - u).clamp(0, wide - 1.001)
    along = (torch.arange(high, device=x.device).float()[:, None] - v).clamp(0, high - 1.001)
    left, low = across.floor().long(), along.floor().long()
    s, t = across.double() - left, along.double() - low
    a, b = x[low, left].double(), x[low, left + 1].double()
    c, d = x[low + 1, left].double(), x[low + 1, left + 1].double()
    return (a * (1 - s) + b * s) * (1 - t) + (c * (1 - s) + d * s) * t


def _waves(h: Tensor, u: Tensor, v: Tensor) -> Tensor:
    level, east, north = (each.double() for each in (h, u, v))

    def slope(held: Tensor, axis: int) -> Tensor:
        return held.roll(-1, axis) - held.roll(1, axis)

    moved = level * (slope(east, 1) + slope(north, 0))
    moved += east * slope(level, 1) + north * slope(level, 0)
    return torch.stack((
        level - moved * 0.005, east - slope(level, 1) * 0.049, north - slope(level, 0) * 0.049
    ))  # fmt: skip


def _regression(x: Tensor, y: Tensor, value: Tensor) -> Tensor:
    made = []
    for part in x.split(8192):
        weight = torch.exp2(torch.cdist(part.double(), y.double()).square() * -0.02)
        made.append((weight @ value[0].double()) / weight.sum(1))
    return torch.cat(made)


def _tridiagonal(low: Tensor, main: Tensor, high: Tensor, right: Tensor) -> Tensor:
    ratio, known = torch.zeros_like(main[0]).double(), torch.zeros_like(main[0]).double()
    kept = []
    for a, b, c, d in zip(*(each.double() for each in (low, main, high, right))):
        pivot = b - a * ratio
        known = (d - a * known) / pivot
        ratio = c / pivot
        kept.append((ratio, known))
    x, made = torch.zeros_like(known), []
    for share, whole in reversed(kept):
        x = whole - share * x
        made.append(x)
    return torch.stack(made[::-1])


def _biquad(x: Tensor, factor: Tensor) -> Tensor:
    b0, b1, b2, a1, a2 = factor.double()
    first, second = torch.zeros_like(b0), torch.zeros_like(b0)
    made = []
    for each in x.double():
        y = b0 * each + first
        first, second = b1 * each - a1 * y + second, b2 * each - a2 * y
        made.append(y)
    return torch.stack(made)


def _pair_forces(place: Tensor, neighbour: Tensor) -> Tensor:
    own, made = place.double(), []
    for first in range(0, len(neighbour), 16384):
        at = neighbour[first : first + 16384].long()
        apart = own[:, at] - own[:, first : first + len(at), None]
        near = 1 / (apart.square().sum(0) + 1)
        made.append((apart * (0.5 - near**3) * near**4).sum(2))
    return torch.cat(made, 1)


def _peaks(x: Tensor) -> Tensor:
    most = torch.nn.functional.max_pool2d(x[None, None], 3, 1, 1)[0, 0]
    return torch.where(x == most, x, 0.0).double()


_HEADS = "heads N dim bfloat16"
_ROWS = "M N bfloat16"
PROBLEMS: Mapping[str, Work] = {
    "triton-advect": Work(("H W float32",) * 3, _advected, 1e-3),
    "triton-attention_kv_grad": Work(
        (*(_HEADS,) * 4, *("heads N float32",) * 2), _kv_grad, 0.02
    ),
    "triton-biquad": Work(("L N float32", "5 N float32"), _biquad, 1e-4),
    "triton-bsr_product": Work(
        ("R kept edge edge bfloat16", "R kept int32 below:C", "deep N bfloat16"), _bsr_product, 0.01
    ),
    "triton-butterfly": Work(("M 2 2 N float32", "2 N float32"), _butterfly, 1e-5),
    "triton-byte_matvec": Work(("M K int8", "M float32", "K bfloat16"), _byte_matvec, 1e-4),
    "triton-clip_rows": Work(("M N float32",), _clipped, 0.0),
    "triton-csr_product": Work(
        ("ends int32 below:1", "E int32 below:V", "E float32", "V N float32"), _csr_product, 1e-5
    ),
    "triton-eight_bit_weight": Work(
        ("M K bfloat16", "K N float32", "N float32"), _eight_bit_weight, 0.01
    ),
    "triton-gated_norm": Work((_ROWS, _ROWS, "N float32"), _gated_norm, 0.01),
    "triton-geglu_grad": Work((_ROWS,) * 3, _geglu_grad, 0.01),
    "triton-jagged_attention": Work(
        (*("R heads dim bfloat16",) * 3, "ends int32 below:1"), _jagged_attention, 0.02
    ),
    "triton-jagged_to_padded": Work(("R N bfloat16", "ends int32 below:1"), _padded, 0.0),
    "triton-jsd_loss": Work(("M N float32",) * 2, _jsd_loss, 1e-4),
    "triton-kernel_regression": Work(
        ("M dim bfloat16", "N dim bfloat16", "2 N float32"), _regression, 1e-3
    ),
    "triton-masked_softmax": Work(("heads N N bfloat16",), _masked_softmax, 0.01),
    "triton-merge_parts": Work(("parts R dim float32", "parts R float32"), _merged, 0.01),
    "triton-newton_schulz": Work(("N N bfloat16",), _newton_schulz, 0.01),
    "triton-noisy_top": Work((_ROWS, "M N float32"), _noisy_top, 1e-4),
    "triton-pack_nibbles": Work((_ROWS, "M N/128 float32"), _nibbles, 0.0),
    "triton-pair_forces": Work(("3 N float32", "N E int32 below:N"), _pair_forces, 1e-4),
    "triton-peak_filter": Work(("H W float32",), _peaks, 0.0),
    "triton-qk_norm_rope": Work(
        ("tokens heads dim bfloat16", "dim float32", *("tokens half float32",) * 2), _norm_rope,
        0.01,
    ),
    "triton-random_rounding": Work(("N float32", "N int32 below:65536"), _by_chance, 0.0),
    "triton-routed_product": Work(
        ("T K bfloat16", "E K N bfloat16", "M int32 below:T", "M/64 int32 below:E"), _routed, 0.01
    ),
    "triton-row_entropy": Work((_ROWS,), _entropy, 1e-4),
    "triton-shallow_water": Work(("H W float32",) * 3, _waves, 1e-5),
    "triton-silu_attention": Work((_HEADS,) * 3, _silu_attention, 0.02),
    "triton-skinny_product": Work(
        ("M K bfloat16", "K N bfloat16", "M N float32"),
        lambda x, w, _: x.double() @ w.double(), 1e-4, adds_up=True,
    ),
    "triton-snake": Work(("B C N float32", "C float32"), _snake, 1e-5),
    "triton-sparse_adagrad": Work(
        (*("V N float32",) * 2, "M int32 below:V", "M N float32"), _sparse_adagrad, 1e-5
    ),
    "triton-split_qkv": Work(
        ("B L 3 heads dim bfloat16",), lambda x: x.permute(2, 0, 3, 1, 4).double(), 0.0
    ),
    "triton-square_norm": Work(
        ("N bfloat16", "1 float32"), lambda x, _: x.double().square().sum()[None], 1e-4,
        adds_up=True,
    ),
    "triton-token_shift": Work(("B L N bfloat16", "N float32"), _token_shift, 0.01),
    "triton-tridiagonal": Work(("L N float32",) * 4, _tridiagonal, 1e-4),
    "triton-wkv": Work((*("heads L dim float32",) * 4, "dim float32"), _wkv, 1e-4),
}  # fmt: skip
