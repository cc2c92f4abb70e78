"""Inputs of the Triton kernels of the sixth test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: boxes, graphs in compressed rows, reads with qualities, maps and beams.
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
_WORD = 0xFFFFFFFF
"""Greatest number of 32 bits."""

# -- inputs that random numbers are not good for


def _boxes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Put boxes of a number of a picture and four edges on the pictures, some over their edges."""
    feature, box = made
    batch, high, wide, _ = feature.shape
    part = box.sigmoid()
    at = torch.arange(len(box), device=box.device)
    left, upper = part[:, 1] * wide * 0.7, part[:, 2] * high * 0.7
    right, lower = left + part[:, 3] * wide * 0.5, upper + part[:, 4] * high * 0.5
    return [feature, torch.stack(((at % batch).float(), left, upper, right, lower), 1)]


def _search(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let three vertices of four be unseen, and lists of neighbours end by -1."""
    near, front, level = made
    row = torch.arange(len(near), device=near.device)[:, None]
    near = torch.where(row < 4 + near[:1] % len(near), near, -1)
    return [near.int(), front, torch.where(level == 0, 3, -1).int()]


def _rows(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let vertices have between one and 31 neighbours."""
    start, *others = made
    at = torch.arange(len(start), device=start.device)
    start = at * 16 + start % 16
    start[0], start[-1] = 0, shape["edges"]
    return [start.int(), *others]


def _ranked(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let gains be those of five grades, and discounts fall with the rank by score."""
    score, gain, _ = made
    grade = (gain.abs() * 2).floor().clamp(max=4)
    rank = score.argsort(1, descending=True).argsort(1)
    return [score, 2**grade - 1, 1 / (rank + 2).float().log2()]


def _reads(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let most reads say what the reference does, some another base, and some nothing."""
    base, quality, ref = made
    own = ref[None].expand_as(base)
    base = torch.where(base > 100, -1, torch.where(base % 4 == 0, base & 3, own))
    return [base.to(torch.int8), (quality & 31) + 8, ref.to(torch.int8)]


def _text(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Repeat a few phrases of 16 letters; earlier places may be before the text."""
    text, back = made
    at = torch.arange(len(text), device=text.device)
    phrase = (at // 16 * 7919 % 13) * 16 + at % 16
    held = ((phrase * 2654435761) >> 7) & 3
    return [torch.where(text > 64, text, held).to(torch.int8), back * 16 + 16]


def _beams(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Fill one cell of eight, and let beams begin where 200 steps stay on the map."""
    full, x, y, turn, _ = made
    edge = len(full)
    across, down = ((256 << 16) + each % ((edge - 512) << 16) for each in (x, y))
    angle = turn.double() * math.pi
    steps = [(each * 65536).round().int() for each in (angle.cos(), angle.sin())]
    return [(full.int() % 8 == 5).to(torch.int8), across.int(), down.int(), *steps]


def _coded(made: list[Tensor], shape: Shape) -> list[Tensor]:
    code, book, x, scale = made
    return [code, book, x, scale.sigmoid()]


def _chosen(made: list[Tensor], shape: Shape) -> list[Tensor]:
    *others, block = made
    return [*others, block % (shape["keys"] // 64)]


def _units(made: list[Tensor], shape: Shape) -> list[Tensor]:
    embedding, label = made
    return [torch.nn.functional.normalize(embedding.float(), dim=1).to(embedding.dtype), label]


def _drafts(made: list[Tensor], shape: Shape) -> list[Tensor]:
    target, draft = made
    return [target.softmax(1), (target * 0.7 + draft * 0.5).softmax(1)]


def _places(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, k = made
    return [x, k + 1]


def _biaffine(made: list[Tensor], shape: Shape) -> list[Tensor]:
    head, dep, by, bias = made
    return [head, dep, (by.float() / shape["D"]).to(by.dtype), bias]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "triton-biaffine_scores": _biaffine, "triton-chosen_blocks": _chosen,
    "triton-codebook_matvec": _coded, "triton-genotype_calls": _reads,
    "triton-hard_triplets": _units, "triton-lambda_gradients": _ranked,
    "triton-lidar_ranges": _beams, "triton-match_lengths": _text, "triton-parent_search": _search,
    "triton-random_walks": _rows, "triton-residual_chance": _drafts, "triton-roi_align": _boxes,
    "triton-select_kth": _places,
}  # fmt: skip

# -- results: pictures, maps, scans


def _aligned(feature: Tensor, box: Tensor) -> Tensor:
    _, high, wide, _ = feature.shape
    cell = torch.arange(49, device=box.device)
    made = []
    for few in box.double().split(128):
        total = torch.zeros(len(few), 49, feature.shape[3], device=box.device, dtype=torch.float64)
        held = feature[few[:, 0].long()].double()
        for sub in range(4):
            y = few[:, 2:3] + (few[:, 4:] - few[:, 2:3]) / 7 * (cell // 7 + 0.25 + sub // 2 / 2)
            x = few[:, 1:2] + (few[:, 3:4] - few[:, 1:2]) / 7 * (cell % 7 + 0.25 + sub % 2 / 2)
            total += _between(held, y.clamp(0, high - 1), x.clamp(0, wide - 1))
        made.append(total / 4)
    return torch.cat(made)


def _between(held: Tensor, y: Tensor, x: Tensor) -> Tensor:
    low, left = y.floor().long(), x.floor().long()
    high, right = (low + 1).clamp(max=held.shape[1] - 1), (left + 1).clamp(max=held.shape[2] - 1)
    up, along = (y - low)[:, :, None], (x - left)[:, :, None]
    at = torch.arange(len(held), device=held.device)[:, None]
    top = held[at, low, left] * (1 - along) + held[at, low, right] * along
    below = held[at, high, left] * (1 - along) + held[at, high, right] * along
    return top * (1 - up) + below * up


def _flown(full: Tensor, x: Tensor, y: Tensor, dx: Tensor, dy: Tensor) -> Tensor:
    steps = torch.zeros_like(x)
    flying = torch.ones_like(x, dtype=torch.bool)
    for _ in range(200):
        flying &= full[y.clamp(min=0) >> 16, x.clamp(min=0) >> 16] == 0
        steps += flying
        x, y = torch.where(flying, x + dx, x), torch.where(flying, y + dy, y)
    return steps.double()


def _equations(source: Tensor, target: Tensor, normal: Tensor, _: Tensor) -> Tensor:
    p, n = source.double(), normal.double()
    rest = ((target.double() - p) * n).sum(0, keepdim=True)
    column = torch.cat((torch.linalg.cross(p, n, dim=0), n, rest))
    return (column @ column.T).triu().flatten()


# -- results: graphs, orders, texts


def _parents(near: Tensor, front: Tensor, level: Tensor) -> Tensor:
    parent = torch.full_like(level, -1)
    for u in near.flip(0):
        held = u.clamp(min=0).long()
        seen = (u >= 0) & (((front[held >> 5] >> (held & 31)) & 1) > 0)
        parent = torch.where(seen & (level < 0), u, parent)
    return parent.double()


def _walked(start: Tensor, neighbour: Tensor, seed: Tensor, like: Tensor) -> Tensor:
    node, row, made = seed.long(), start.long(), []
    state = torch.arange(len(seed), device=seed.device)
    for _ in range(len(like)):
        h = (state + 2654435769) & _WORD
        h = ((h ^ (h >> 16)) * 2146121005) & _WORD
        h = ((h ^ (h >> 15)) * 2221713035) & _WORD
        state = h ^ (h >> 16)
        pick = ((state >> 8) * (row[node + 1] - row[node])) >> 24
        node = neighbour[row[node] + pick].long()
        made.append(node)
    return torch.stack(made).double()


def _kth(x: Tensor, k: Tensor) -> Tensor:
    order = x.sort(1, descending=True).values
    return order.gather(1, k.long()[:, None] - 1)[:, 0].double()


def _called(base: Tensor, quality: Tensor, ref: Tensor) -> Tensor:
    made = []
    for one, how, own in zip(base.split(1 << 20, 1), quality.split(1 << 20, 1), ref.split(1 << 20)):
        wrong = how.double() * (-math.log(10) / 10)
        right = torch.log1p(-wrong.exp())
        same, seen = one == own, one >= 0
        plain = torch.where(seen, torch.where(same, right, wrong), 0).sum(0)
        other = torch.where(seen, torch.where(same, wrong, right), 0).sum(0)
        ways = torch.stack((plain, other, seen.sum(0) * math.log(0.5))).sort(0).values
        made.append(ways[2] - ways[1])
    return torch.cat(made)


def _matched(text: Tensor, back: Tensor) -> Tensor:
    here = torch.arange(len(text), device=text.device)
    there, length = here - back, torch.zeros_like(here)
    same = there >= 0
    for k in range(48):
        held = (here + k).clamp(max=len(text) - 1)
        other = (there + k).clamp(0, len(text) - 1)
        same = same & (here + k < len(text)) & (text[held] == text[other])
        length += same
    return length.double()


def _parity(data: Tensor) -> Tensor:
    total, power = torch.zeros_like(data[0]), torch.zeros_like(data[0]).view(torch.uint8).int()
    for disk in data.flip(0):
        total = total ^ disk
        power = ((power << 1) & 255) ^ (power >> 7) * 29 ^ disk.contiguous().view(torch.uint8).int()
    return torch.stack((total, power.to(torch.uint8).view(torch.int32))).double()


# -- results: learning and inference


def _moved(user: Tensor, item: Tensor, who: Tensor, bought: Tensor, other: Tensor) -> Tensor:
    made = []
    for few, one, two in zip(*(each.long().split(131072) for each in (who, bought, other))):
        u, apart = user[few].double(), item[one].double() - item[two].double()
        weight = torch.sigmoid(-(u * apart).sum(1, keepdim=True))
        made.append(weight * apart - 0.01 * u)
    return torch.cat(made)


def _pulled(score: Tensor, gain: Tensor, discount: Tensor) -> Tensor:
    made = []
    for s, g, d in zip(score.double().split(256), gain.double().split(256), discount.split(256)):
        apart = g[:, :, None] - g[:, None]
        change = (apart * (d.double()[:, :, None] - d.double()[:, None])).abs()
        sign = torch.where(apart > 0, 1.0, -1.0)
        made.append((sign * torch.sigmoid(-sign * (s[:, :, None] - s[:, None])) * change).sum(2))
    return torch.cat(made)


def _decoded(code: Tensor, book: Tensor, x: Tensor, scale: Tensor) -> Tensor:
    made = []
    for few in code.split(1024):
        weight = book[few.int() & 255].double().flatten(1)
        made.append(weight @ x.double())
    return torch.cat(made) * scale.double()


def _attended(q: Tensor, k: Tensor, v: Tensor, block: Tensor) -> Tensor:
    made = []
    at = torch.arange(64, device=q.device)
    for one, listed in zip(q.split(64), block.long().split(64)):
        place = (listed[:, :, None] * 64 + at).flatten(1)
        weight = one.double() @ k[place].double().mT * q.shape[2] ** -0.5
        made.append(weight.softmax(2) @ v[place].double())
    return torch.cat(made)


def _hardest(embedding: Tensor, label: Tensor) -> Tensor:
    made = []
    for one, own in zip(embedding.double().split(1024), label.split(1024)):
        apart = 2 - 2 * one @ embedding.double().T
        alike = own[:, None] == label
        far = torch.where(alike, apart, 0).amax(1)
        made.append((far - torch.where(alike, 4, apart).amin(1) + 0.3).clamp(min=0))
    return torch.cat(made)


def _rest(target: Tensor, draft: Tensor) -> Tensor:
    held = (target.double() - draft.double()).clamp(min=0)
    return held / held.sum(1, keepdim=True)


def _scored(head: Tensor, dep: Tensor, by: Tensor, bias: Tensor) -> Tensor:
    middle = (dep.double() @ by.double()).to(dep.dtype).double()
    return middle @ head.double().mT + bias.double()[:, None]


# -- results: channels


def _quiet(far: Tensor, near: Tensor) -> Tensor:
    weight = torch.zeros(32, far.shape[1], device=far.device, dtype=torch.float64)
    made = []
    for at, heard in enumerate(near.double()):
        x = far[at : at + 32].double()
        miss = heard - (weight * x).sum(0)
        weight = weight + 0.5 * miss / (x.square().sum(0) + 0.001) * x
        made.append(miss)
    return torch.stack(made)


def _checked(likely: Tensor, bit: Tensor) -> Tensor:
    made = []
    degree = bit.shape[1]
    for few in bit.long().split(256):
        held = likely[few].double()
        size, minus = held.abs(), held < 0
        odd = minus.sum(1, keepdim=True) % 2 == 1
        others = [torch.cat((size[:, :e], size[:, e + 1 :]), 1).amin(1) for e in range(degree)]
        least = torch.stack(others, 1) * 0.8
        made.append(torch.where(minus == odd, least, -least).flatten(0, 1))
    return torch.cat(made)


PROBLEMS: Mapping[str, Work] = {
    "triton-biaffine_scores": Work(
        ("batch L D bfloat16", "batch L D bfloat16", "D D bfloat16", "batch L float32"),
        _scored, 0.01,
    ),
    "triton-bpr_gradients": Work(
        ("users D bfloat16", "items D bfloat16", "N int32 below:users", "N int32 below:items",
         "N int32 below:items"), _moved, 1e-3,
    ),
    "triton-chosen_blocks": Work(
        ("tokens heads dim bfloat16", "keys dim bfloat16", "keys dim bfloat16",
         "tokens chosen int32 below:1000000"), _attended, 0.02,
    ),
    "triton-codebook_matvec": Work(
        ("M G int8", "256 8 float16", "K float16", "M float32"), _decoded, 1e-3
    ),
    "triton-genotype_calls": Work(
        ("depth sites int8", "depth sites int8", "sites int32 below:4"), _called, 1e-4
    ),
    "triton-hard_triplets": Work(("B D bfloat16", "B int32 below:classes"), _hardest, 0.01),
    "triton-icp_sums": Work(
        (*("3 N float32",) * 3, "49 float32"), _equations, 1e-3, adds_up=True
    ),
    "triton-lambda_gradients": Work(("queries documents float32",) * 3, _pulled, 1e-4),
    "triton-ldpc_checks": Work(
        ("bits words float16", "checks degree int32 below:bits"), _checked, 2e-3
    ),
    "triton-lidar_ranges": Work(
        ("edge edge int8", *("beams int32 below:2147483647",) * 2, *("beams float32",) * 2),
        _flown, 0.0,
    ),
    "triton-match_lengths": Work(("N int8", "N int32 below:64"), _matched, 0.0),
    "triton-nlms_filter": Work(
        ("padded channels float32", "length channels float32"), _quiet, 1e-3
    ),
    "triton-parent_search": Work(
        ("degree V int32 below:V", "words int32 below:2147483647", "V int32 below:4"), _parents, 0.0
    ),
    "triton-parity_bytes": Work(("disks N int32 below:2147483647",), _parity, 0.0),
    "triton-random_walks": Work(
        ("starts int32 below:1000", "edges int32 below:nodes", "walks int32 below:nodes",
         "steps walks int32 below:2"), _walked, 0.0,
    ),
    "triton-residual_chance": Work(("M N float32",) * 2, _rest, 1e-4),
    "triton-roi_align": Work(("B H W C float16", "boxes 5 float32"), _aligned, 2e-3),
    "triton-select_kth": Work(("M N int32 below:2147483647", "M int32 below:N"), _kth, 0.0),
}  # fmt: skip
