"""Inputs of the Triton kernels of the fourth test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: lengths, segments, places between pixels.
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

# -- inputs that random numbers are not good for


def _lengths(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let sentences be of an eighth of the longest length to all of it."""
    *first, length = made
    longest = shape["N"]
    return [*first, (longest - length % (longest - longest // 8)).to(torch.int32)]


def _segments(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Cut so many elements into segments, of which each has half of the mean length at least."""
    *first, start = made
    count, total = len(start) - 1, shape["E"]
    even = torch.arange(count + 1, device=start.device, dtype=torch.int64) * total // count
    moved = torch.arange(count + 1, device=start.device) * 7919 % max(total // count // 2, 1)
    moved[0] = moved[-1] = 0
    return [*first, (even - moved).to(torch.int32)]


def _bags(made: list[Tensor], shape: Shape) -> list[Tensor]:
    table, item, weight, start = _segments(made, shape)
    return [table, item, weight.sigmoid(), start]


def _positive_scales(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [*made[:-2], *(each.sigmoid() * 0.02 for each in made[-2:])]


def _places(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let places be about the whole image, and a few beside it."""
    x, *at = made
    y, across = (each.sigmoid() * (shape[axis] + 1) - 1 for each, axis in zip(at, "HW"))
    return [x, y, across]


def _mixture(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, mean, narrow, share = made
    return [x, mean, narrow.sigmoid() + 0.5, torch.log_softmax(share, 0)]


def _half_shares(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [*made[:-1], made[-1].sigmoid() * 0.5]


def _angles(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, angle, _ = made
    return [x, angle.cos(), angle.sin()]


def _window(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, window = made
    return [x, torch.hann_window(512, device=window.device)]


def _flags(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Begin anew at one place in 128."""
    x, flag = made
    return [x, (flag > 125).to(torch.int8)]


def _cloud(made: list[Tensor], shape: Shape) -> list[Tensor]:
    *places, value, out = made
    return [*(each.sigmoid() for each in places), value, out]


def _small_adapters(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, down, up, adapter, y = made
    return [x, down * shape["K"] ** -0.5, up * 0.125, adapter, y]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "triton-adapter_rows": _small_adapters, "triton-axial_rope": _angles,
    "triton-byte_decode": _positive_scales, "triton-differential_attention": _half_shares,
    "triton-grid_sample": _places, "triton-mixture_density": _mixture,
    "triton-overlap_add": _window, "triton-padded_attention": _lengths,
    "triton-segment_scan": _flags, "triton-segment_softmax": _segments,
    "triton-voxel_sums": _cloud, "triton-weighted_bag": _bags,
}  # fmt: skip

# -- results: serving of models


def _differential(q: Tensor, k: Tensor, v: Tensor, share: Tensor) -> Tensor:
    _, length, both = q.shape
    scale = (both // 2) ** -0.5
    hidden = torch.ones(length, length, device=q.device, dtype=torch.bool).triu(1)
    made = []
    for one, key, value, by in zip(q.double(), k, v, share.double()):
        parts = [
            torch.softmax((a @ b.double().T * scale).masked_fill(hidden, -torch.inf), 1)
            for a, b in zip(one.chunk(2, 1), key.chunk(2, 1))
        ]  # fmt: skip
        made.append((parts[0] - parts[1] * by) @ value.double())
    return torch.stack(made)


def _padded(q: Tensor, k: Tensor, v: Tensor, length: Tensor) -> Tensor:
    made = []
    for one, key, value, count in zip(q, k, v, length.tolist()):
        scores = one.double() @ key[:, :count].double().mT * q.shape[3] ** -0.5
        made.append(torch.softmax(scores, -1) @ value[:, :count].double())
    return torch.stack(made)


def _byte_decode(q: Tensor, k: Tensor, v: Tensor, k_scale: Tensor, v_scale: Tensor) -> Tensor:
    made = []
    for one, key, value, by, other in zip(q, k, v, k_scale, v_scale):
        scores = one.double() @ (key.double() * by.double()[:, None]).T * q.shape[2] ** -0.5
        made.append(torch.softmax(scores, -1) @ (value.double() * other.double()[:, None]))
    return torch.stack(made)


def _nucleus(x: Tensor) -> Tensor:
    return torch.cat([_nucleus_few(each) for each in x.split(512)])


def _nucleus_few(x: Tensor) -> Tensor:
    chance = torch.exp(x.double() - x.double().amax(1, keepdim=True))
    wanted = chance.sum(1, keepdim=True) * 0.9
    low, high = torch.zeros_like(wanted), torch.ones_like(wanted)
    for _ in range(12):
        middle = (low + high) / 2
        enough = torch.where(chance >= middle, chance, 0).sum(1, keepdim=True) >= wanted
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    kept = torch.where(chance >= low, chance, 0)
    return kept / kept.sum(1, keepdim=True)


def _group_gate(x: Tensor, bias: Tensor) -> Tensor:
    # Computed in float32, as the kernel does: its rounding decides which experts are chosen.
    score = x.float() + bias
    best = score.unflatten(1, (8, -1)).amax(2)
    chosen = torch.where(best >= _nth(best, 4), 1, 0).repeat_interleave(x.shape[1] // 8, 1)
    score = torch.where(chosen > 0, score, -1e30)
    share = torch.where(score >= _nth(score, 8), x.double().sigmoid(), 0)
    return share / share.sum(1, keepdim=True)


def _nth(x: Tensor, count: int) -> Tensor:
    """Return the `count`-th greatest of each row's different numbers."""
    limit = x.amax(1, keepdim=True)
    for _ in range(count - 1):
        x = torch.where(x >= limit, -1e30, x)
        limit = x.amax(1, keepdim=True)
    return limit


def _axial(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    wide, half = cos.shape
    patch, p = torch.arange(x.shape[1], device=x.device), torch.arange(half, device=x.device)
    place = torch.where(p < half // 2, patch[:, None] // wide, patch[:, None] % wide)
    c, s = cos.double()[place, p][:, None], sin.double()[place, p][:, None]
    one, two = x.double().unflatten(3, (half, 2)).unbind(4)
    return torch.stack((one * c - two * s, two * c + one * s), 4).flatten(3)


def _conv_update(state: Tensor, x: Tensor, w: Tensor) -> Tensor:
    held = torch.cat((state[:, 1:], x[:, None]), 1).double()
    y = torch.nn.functional.silu((held * w.double()).sum(1, keepdim=True))
    return torch.cat((held, y), 1)


def _adapted(x: Tensor, down: Tensor, up: Tensor, adapter: Tensor, y: Tensor) -> Tensor:
    made = []
    for rows, by, held in zip(x.split(16), adapter.tolist(), y.split(16)):
        low = (rows.double() @ down[by].double()).to(x.dtype)
        made.append(held.double() + low.double() @ up[by].double() * 0.5)
    return torch.cat(made)


def _biased(x: Tensor, table: Tensor) -> Tensor:
    at = torch.arange(x.shape[1], device=x.device)
    apart = (at - at[:, None]).abs()
    # Computed in float32, in which no rounding moves a number to another bucket.
    far = 8 + (torch.log(apart.clamp(min=8).float() * 0.125 + 1e-4) * 2).int()
    bucket = torch.where(apart < 8, apart, far.clamp(max=15)) + torch.where(at > at[:, None], 16, 0)
    heads = zip(x.double(), table.double())
    return torch.stack([torch.softmax(one * 0.125 + by[bucket], 1) for one, by in heads])


# -- results: segments


def _segment_softmax(x: Tensor, start: Tensor) -> Tensor:
    counts = (start[1:] - start[:-1]).long()
    node = torch.arange(len(counts), device=x.device).repeat_interleave(counts)
    top = torch.zeros(len(counts), device=x.device).scatter_reduce(
        0, node, x, "amax", include_self=False
    )
    weight = torch.exp(x.double() - top.double()[node])
    total = torch.zeros(len(counts), device=x.device, dtype=torch.float64)
    return weight / total.index_add_(0, node, weight)[node]


def _segment_scan(x: Tensor, flag: Tensor) -> Tensor:
    total = x.double().cumsum(1)
    begun = torch.where(flag > 0, torch.arange(x.shape[1], device=x.device), -1).cummax(1)[0]
    before = torch.where(begun > 0, total.gather(1, (begun - 1).clamp(min=0)), 0.0)
    return total - before


def _bag(table: Tensor, item: Tensor, weight: Tensor, start: Tensor) -> Tensor:
    made = []
    for first, end in pairwise(start.tolist()):
        by = weight[first:end].double()
        made.append(by @ table[item[first:end].long()].double() / by.sum())
    return torch.stack(made)


# -- results: tables, physics, images, sound


def _pruned(x: Tensor) -> Tensor:
    fours = x.double().view(-1, 4)
    order = torch.argsort(fours.abs(), dim=1, descending=True, stable=True)
    keep = torch.zeros_like(fours).scatter_(1, order[:, :2], 1.0)
    return (fours * keep).view(x.shape)


def _sampled(x: Tensor, y: Tensor, across: Tensor) -> Tensor:
    high, wide = x.shape[1:3]
    # Which points one is between is decided in float32.
    low, left = y.floor(), across.floor()
    image = torch.arange(len(x), device=x.device)[:, None]
    made = torch.zeros(*y.shape, x.shape[3], device=x.device, dtype=torch.float64)
    for corner in range(4):
        row, column = low.long() + corner // 2, left.long() + corner % 2
        near = (1 - (y.double() - row).abs()) * (1 - (across.double() - column).abs())
        real = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
        pixel = x[image, row.clamp(0, high - 1), column.clamp(0, wide - 1)].double()
        made += pixel * (near * real)[:, :, None]
    return made


def _ranks(x: Tensor) -> Tensor:
    held = x.sort(1)[0]
    return torch.searchsorted(held, x).double()


def _banded(band: Tensor, x: Tensor) -> Tensor:
    held = torch.nn.functional.pad(x.double(), (0, 0, 4, 4))
    made = torch.zeros_like(x, dtype=torch.float64)
    for at, by in enumerate(band.double()):
        made += held[at : at + len(x)] * by[:, None]
    return made


def _voxels(x: Tensor, y: Tensor, z: Tensor, value: Tensor, _: Tensor) -> Tensor:
    across, along, up = ((each * 64).clamp(0, 63).long() for each in (x, y, z))
    box = (up * 64 + along) * 64 + across
    made = torch.zeros(64**3, 2, device=x.device, dtype=torch.float64)
    carried = torch.stack((value.double(), torch.ones_like(value).double()), 1)
    return made.index_add_(0, box, carried).flatten()


def _splines(x: Tensor, w: Tensor) -> Tensor:
    at = (x.double() * 1.5 + 5.5).clamp(0, 10.999)
    made = torch.zeros_like(at)
    for knot, by in enumerate(w.double()):
        far = (at + 1 - knot).abs()  # a bell of width four around each knot
        inner = (4 - 6 * far**2 + 3 * far**3) / 6
        outer = (2 - far).clamp(min=0) ** 3 / 6
        made += torch.where(far < 1, inner, outer) * by
    return made


def _densities(x: Tensor, mean: Tensor, narrow: Tensor, share: Tensor) -> Tensor:
    chances = [
        by.double() - 0.5 * ((x.double() - m.double()) * n.double()).square().sum(1)
        for m, n, by in zip(mean, narrow, share)
    ]
    return torch.logsumexp(torch.stack(chances), 0)


def _overlapped(x: Tensor, window: Tensor) -> Tensor:
    batch, frames, _ = x.shape
    made = torch.zeros(batch, frames + 3, 128, device=x.device, dtype=torch.float64)
    weight = torch.zeros(frames + 3, 128, device=x.device, dtype=torch.float64)
    held, by = (x.double() * window.double()).unflatten(2, (4, 128)), window.double().view(4, 128)
    for part in range(4):
        made[:, part : part + frames] += held[:, :, part]
        weight[part : part + frames] += by[part].square()
    return (made / weight.clamp(min=1e-6)).flatten(1)


def _zigzag(x: Tensor) -> Tensor:
    apart = torch.diff(x, dim=1, prepend=torch.zeros_like(x[:, :1])).double()
    return torch.where(apart < 0, -2 * apart - 1, 2 * apart)


def _turned(q: Tensor, p: Tensor) -> Tensor:
    held = q.double() / q.double().norm(dim=0)
    w, axis, place = held[0], held[1:], p.double()
    twice = 2 * torch.linalg.cross(axis, place, dim=0)
    return place + w * twice + torch.linalg.cross(axis, twice, dim=0)


def _pinball(y: Tensor, forecast: Tensor, _: Tensor) -> Tensor:
    made = []
    for number, guess in enumerate(forecast):
        level, apart = (number + 1) * 0.1, y.double() - guess.double()
        made.append(torch.maximum(apart * level, apart * (level - 1)).sum())
    return torch.stack(made)


PROBLEMS: Mapping[str, Work] = {
    "triton-adapter_rows": Work(
        ("M K bfloat16", "A K R bfloat16", "A R N bfloat16", "tiles int32 below:A",
         "M N bfloat16"), _adapted, 0.01,
    ),
    "triton-axial_rope": Work(
        ("batch L heads dim bfloat16", "wide half float32", "wide half float32"), _axial, 0.01
    ),
    "triton-banded_product": Work(("9 M float32", "M N float32"), _banded, 1e-5),
    "triton-bucket_bias": Work(("heads N N bfloat16", "heads 32 float32"), _biased, 0.01),
    "triton-byte_decode": Work(
        ("groups heads dim float16", *("groups N dim int8",) * 2, *("groups N float32",) * 2),
        _byte_decode, 0.02,
    ),
    "triton-conv_update": Work(
        ("batch 4 D bfloat16", "batch D bfloat16", "4 D float32"), _conv_update, 0.01
    ),
    "triton-differential_attention": Work(
        (*("heads N both bfloat16",) * 3, "heads float32"), _differential, 0.02
    ),
    "triton-grid_sample": Work(
        ("batch H W C bfloat16", "batch points float32", "batch points float32"), _sampled, 0.01
    ),
    "triton-group_gate": Work(("M E bfloat16", "E float32"), _group_gate, 1e-5),
    "triton-mixture_density": Work(
        ("N dim float32", "parts dim float32", "parts dim float32", "parts float32"), _densities,
        1e-5,
    ),
    "triton-nucleus_cut": Work(("M N bfloat16",), _nucleus, 0.01),
    "triton-overlap_add": Work(("batch F 512 float32", "512 float32"), _overlapped, 1e-4),
    "triton-padded_attention": Work(
        (*("batch heads N dim bfloat16",) * 3, "batch int32 below:N"), _padded, 0.02
    ),
    "triton-pinball_loss": Work(
        ("N float32", "Q N bfloat16", "Q float32"), _pinball, 1e-4, adds_up=True
    ),
    "triton-prune_pairs": Work(("M N bfloat16",), _pruned, 0.0),
    "triton-quaternion_turn": Work(("4 N float32", "3 N float32"), _turned, 1e-5),
    "triton-row_ranks": Work(("M N float32",), _ranks, 0.0),
    "triton-segment_scan": Work(("M N float32", "M N int8"), _segment_scan, 1e-4),
    "triton-segment_softmax": Work(
        ("E float32", "ends int32 below:1"), _segment_softmax, 1e-4
    ),
    "triton-spline_layer": Work(("M N bfloat16", "14 N float32"), _splines, 0.01),
    "triton-voxel_sums": Work(
        (*("N float32",) * 4, "524288 float32"), _voxels, 1e-4, adds_up=True
    ),
    "triton-weighted_bag": Work(
        ("V N bfloat16", "E int32 below:V", "E float32", "ends int32 below:1"), _bag, 1e-4
    ),
    "triton-zigzag_delta": Work(("M N int32 below:1000000",), _zigzag, 0.0),
}  # fmt: skip
