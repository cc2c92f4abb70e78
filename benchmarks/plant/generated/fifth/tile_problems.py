"""Inputs of the tile kernels of the fifth test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: sequences of bases, hash tables, chances that add up to one.
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


def _bases(made: list[Tensor], shape: Shape) -> list[Tensor]:
    sequence, *others = made
    return [(sequence & 3).to(torch.uint8), *others]


def _markers(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let markers be -1, 0 or 1, and give their sums and sums of squares."""
    marker = made[0].int() % 3 - 1
    total, square = marker.sum(1).float(), marker.square().sum(1).float()
    return [marker.to(torch.int8), total, square]


def _table(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Put different keys into buckets of four, as many as there is room for."""
    _, _, query = made
    buckets = shape["buckets"]
    key = torch.arange(0, buckets * 6, 3, device=query.device)
    bucket = ((key ^ (key >> 9)) * 37) & (buckets - 1)
    bucket, order = bucket.sort(stable=True)
    slot = torch.arange(len(key), device=key.device) - torch.searchsorted(bucket, bucket)
    held = slot < 4
    place = bucket[held] * 4 + slot[held]
    keys = torch.full((buckets * 4,), -1, dtype=torch.int32, device=key.device)
    keys[place] = key[order[held]].int()
    values = torch.where(keys >= 0, keys * 5 + 2, 0)
    return [keys.view(-1, 4), values.view(-1, 4), query % (buckets * 6)]


def _delays(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, delay, weight = made
    return [x, delay % 128, weight]


def _chances(made: list[Tensor], shape: Shape) -> list[Tensor]:
    step, emit, seen = made
    chance = torch.softmax(step.float(), 1).to(torch.float16)
    return [chance, torch.softmax(emit, 0), seen]


def _gaps(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let every pair of sequences be alike in two places of three."""
    x, y = made
    at = torch.arange(x.shape[1], device=x.device)
    return [x, torch.where(at % 3 == 2, y, x.roll(2, 1))]


def _bright(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0].abs()]


def _slow(made: list[Tensor], shape: Shape) -> list[Tensor]:
    time, slowness = made
    return [time.abs() + 1, slowness.sigmoid()]


def _boxed(made: list[Tensor], shape: Shape) -> list[Tensor]:
    start, inverse, low, high, dense = made
    inverse = torch.where(inverse < 0, inverse - 0.5, inverse + 0.5)
    return [start * 3, inverse, low * 4, low * 4 + high.abs() * 0.5, dense.abs()]


def _spots(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let spots be within or near a square of sixteen pixels, as long as wide, and half seen."""
    spot, listed = made
    spot = spot.sigmoid()
    spot[:, :2] *= 16
    spot[:, 2:4] = spot[:, 2:4] * 0.5 + 0.02
    spot[:, 4] *= 0.25
    return [spot, listed]


def _swung(made: list[Tensor], shape: Shape) -> list[Tensor]:
    state = made[0]
    state[:2] = state[:2].sigmoid() * 2
    return [state]


def _small(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let sums over a layer's inputs be about as large as an input."""
    first, x, w, bias = made
    return [first, x, w * shape["N"] ** -0.5, bias]


def _inverse(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let the inverse covariance be symmetric and positive."""
    x, mean, inverse = made
    held = inverse.float()
    return [x, mean, (held @ held.T / 128).to(inverse.dtype)]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "tile-beamform": _delays, "tile-cross_product_layer": _small, "tile-demosaic": _bright,
    "tile-double_pendulum": _swung, "tile-eikonal": _slow, "tile-hash_probe": _table,
    "tile-hmm_forward": _chances, "tile-linkage": _markers, "tile-mahalanobis": _inverse,
    "tile-minimizers": _bases, "tile-motif_scan": _bases, "tile-ray_boxes": _boxed,
    "tile-smith_waterman": _gaps, "tile-splat_pixels": _spots, "tile-tone_map": _bright,
}  # fmt: skip

# -- results: physics


def _reacted(u: Tensor, v: Tensor) -> Tensor:
    def around(x: Tensor) -> Tensor:
        return x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1) - 4 * x

    one, two = u.double(), v.double()
    rate = one * two * two
    more = one + 0.2 * around(one) - rate + 0.055 * (1 - one)
    return torch.stack((more, two + 0.1 * around(two) + rate - 0.117 * two))


def _arrived(time: Tensor, slowness: Tensor) -> Tensor:
    held = torch.nn.functional.pad(time.double(), (1, 1, 1, 1), value=1e9)
    a = torch.minimum(held[1:-1, :-2], held[1:-1, 2:])
    b = torch.minimum(held[:-2, 1:-1], held[2:, 1:-1])
    step = slowness.double()
    both = (a + b + (2 * step * step - (a - b).square()).clamp(min=0).sqrt()) / 2
    made = torch.where((a - b).abs() < step, both, torch.minimum(a, b) + step)
    return torch.minimum(time.double(), made)


def _waves(place: Tensor, wave: Tensor) -> Tensor:
    made = []
    for few in place.split(1024, 1):
        phase = few.double().T @ wave.double()
        made.append(torch.stack((phase.cos().sum(0), phase.sin().sum(0))))
    return torch.stack(made)


def _distances(place: Tensor) -> Tensor:
    made = []
    for own in place.split(256, 1):
        row = []
        for other in place.split(1024, 1):
            # Computed in float32, as which box a distance is in depends on its rounding.
            apart = (own[:, :, None] - other[:, None]).square().sum(0).sqrt()
            box = (apart * 32).int().flatten()
            row.append(torch.bincount(box[box < 256], minlength=256))
        made.append(torch.stack(row))
    return torch.stack(made).double()


def _swings(state: Tensor) -> Tensor:
    held = state.double()
    for _ in range(32):
        one = _slope(held)
        two = _slope(held + one * 0.001)
        three = _slope(held + two * 0.001)
        four = _slope(held + three * 0.002)
        held = held + (one + 2 * two + 2 * three + four) * (0.002 / 6)
    return held


def _slope(state: Tensor) -> Tensor:
    first, second, one, two = state
    apart, below = first - second, 3 - torch.cos(2 * (first - second))
    s, c = apart.sin(), apart.cos()
    pull = 9.81 * (3 * first.sin() + torch.sin(first - 2 * second))
    turn = -(pull + 2 * s * (two * two + one * one * c)) / below
    other = 2 * s * (2 * one * one + 2 * 9.81 * first.cos() + two * two * c) / below
    return torch.stack((one, two, turn, other))


def _linked(link: Tensor, field: Tensor) -> Tensor:
    def complex_(x: Tensor) -> Tensor:
        one, other = x.double().unflatten(0, (-1, 2)).unbind(1)
        return torch.complex(one, other)

    made = torch.einsum("rcn,cn->rn", complex_(link).unflatten(0, (3, 3)), complex_(field))
    return torch.view_as_real(made).transpose(1, 2).flatten(0, 1)


# -- results: sequences, statistics, columns, prices


def _aligned(x: Tensor, y: Tensor) -> Tensor:
    batch, length = x.shape
    best = torch.zeros(batch, length + 1, length + 1, device=x.device, dtype=torch.int32)
    across, down = best - 1000, best - 1000
    at = torch.arange(1, length + 1, device=x.device)
    for d in range(2, 2 * length + 1):
        i = at[(at <= d - 1) & (d - at <= length)]
        j = d - i
        across[:, i, j] = torch.maximum(best[:, i, j - 1] - 5, across[:, i, j - 1] - 1)
        down[:, i, j] = torch.maximum(best[:, i - 1, j] - 5, down[:, i - 1, j] - 1)
        same = torch.where(x[:, i - 1] == y[:, j - 1], 3, -2)
        gap = torch.maximum(across[:, i, j], down[:, i, j])
        best[:, i, j] = torch.maximum(gap, best[:, i - 1, j - 1] + same).clamp(min=0).int()
    return best.amax((1, 2)).double()


def _few_aligned(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([_aligned(*each) for each in zip(x.split(1024), y.split(1024))])


def _least_hashes(sequence: Tensor) -> Tensor:
    held = sequence.int()
    count = len(held) - 16
    word = torch.zeros(count, device=held.device, dtype=torch.int32)
    for tap in range(12):
        word = (word << 2) | held[tap : tap + count]
    mixed = (word ^ (word >> 11)) * 101
    hashed = (mixed ^ (mixed >> 13)) & 16777215
    least = hashed[: len(held) - 32]
    for tap in range(1, 10):
        least = torch.minimum(least, hashed[tap : tap + len(least)])
    return least.double()


def _motifs(sequence: Tensor, weight: Tensor) -> Tensor:
    count = len(sequence) - 16
    made = torch.zeros(count, device=sequence.device, dtype=torch.float64)
    for tap in range(16):
        made += weight.double()[tap][sequence[tap : tap + count].long()]
    return made


def _linkage(marker: Tensor, total: Tensor, square: Tensor) -> Tensor:
    held, count = marker.double(), marker.shape[1]
    held = held - held.mean(1, keepdim=True)
    spread = held.square().sum(1)
    assert torch.allclose(spread, square.double() - total.double().square() / count)
    return (held @ held.T).square() / (spread[:, None] * spread).clamp(min=1e-6)


def _probed(key: Tensor, value: Tensor, query: Tensor) -> Tensor:
    order = key.flatten().argsort()
    keys, values = key.flatten()[order], value.flatten()[order]
    at = torch.searchsorted(keys, query).clamp(max=len(keys) - 1)
    return torch.where(keys[at] == query, values[at], -1).double()


def _unpacked(packed: Tensor) -> Tensor:
    held = (packed.long() & 0xFFFFFFFF).view(-1, 3)
    bit = torch.arange(8, device=packed.device) * 12
    low = held[:, bit // 32] >> (bit % 32)
    high = held[:, (bit + 11) // 32] << (32 - bit % 32)
    both = torch.where(bit // 32 == (bit + 11) // 32, low, low | high)
    return (both & 4095).flatten().double()


def _zones(x: Tensor) -> Tensor:
    return torch.stack((x.amin(1).double(), x.amax(1).double(), x.double().sum(1)))


def _far(x: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    made = []
    for few in x.split(65536):
        apart = (few.float() - mean).to(x.dtype).double()
        made.append((apart @ inverse.double() * apart).sum(1))
    return torch.cat(made)


def _likely(step: Tensor, emit: Tensor, seen: Tensor) -> Tensor:
    chance = torch.full((seen.shape[1], 64), 1 / 64, device=seen.device, dtype=torch.float64)
    made = torch.zeros(seen.shape[1], device=seen.device, dtype=torch.float64)
    for symbol in seen.long():
        chance = (chance @ step.double()) * emit.double()[symbol]
        total = chance.sum(1, keepdim=True)
        made += total[:, 0].log()
        chance = (chance / total).to(step.dtype).double()
    return made


def _paid(noise: Tensor) -> Tensor:
    price = torch.ones(noise.shape[2], device=noise.device, dtype=torch.float64)
    spread, total = price * 0.04, price * 0
    for one, other in zip(*noise):
        held = spread.clamp(min=0)
        root = (held * 0.01).sqrt()
        price = price * torch.exp((0.02 - 0.5 * held) * 0.01 + root * one)
        turn = 0.8 * other.double() - 0.6 * one.double()
        spread = spread + 2 * (0.04 - held) * 0.01 + 0.3 * root * turn
        total = total + price
    return (total / noise.shape[1] - 1).clamp(min=0)


# -- results: sound and pictures


def _faster(x: Tensor, taps: Tensor) -> Tensor:
    held, count = x.double(), x.shape[1] - 16
    made = torch.zeros(len(x), count, 4, device=x.device, dtype=torch.float64)
    for tap, by in enumerate(taps.double()):
        made += held[:, 15 - tap : 15 - tap + count, None] * by
    return made


def _beams(x: Tensor, delay: Tensor, weight: Tensor) -> Tensor:
    held, count = x.double(), x.shape[1] - 128
    made = []
    for late, by in zip(delay.tolist(), weight.double()):
        heard = zip(held, late, by)
        made.append(sum(one[at : at + count] * share for one, at, share in heard))
    return torch.stack([torch.as_tensor(each) for each in made])


def _mapped(x: Tensor) -> Tensor:
    colour = x.double()
    bright = 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]
    light = (colour * (1 + bright / 16) / (1 + bright)).clamp(max=1) + 1e-6
    return (light ** (1 / 2.2) * 255 + 0.5).floor()


def _colours(raw: Tensor) -> Tensor:
    held = torch.nn.functional.pad(raw.double()[None], (1, 1, 1, 1), mode="replicate")[0]
    own = held[1:-1, 1:-1]
    along, up = (held[1:-1, :-2] + held[1:-1, 2:]) / 2, (held[:-2, 1:-1] + held[2:, 1:-1]) / 2
    corners = (held[:-2, :-2] + held[:-2, 2:] + held[2:, :-2] + held[2:, 2:]) / 4
    row = torch.arange(raw.shape[0], device=raw.device)[:, None] % 2 == 1
    column = torch.arange(raw.shape[1], device=raw.device) % 2 == 1
    red = torch.where(row, torch.where(column, corners, up), torch.where(column, along, own))
    blue = torch.where(row, torch.where(column, own, along), torch.where(column, up, corners))
    return torch.stack((red, torch.where(row ^ column, own, (along + up) / 2), blue))


def _inside(start: Tensor, inverse: Tensor, low: Tensor, high: Tensor, dense: Tensor) -> Tensor:
    total = torch.zeros(start.shape[1], device=start.device, dtype=torch.float64)
    begin, by = start.double(), inverse.double()
    for near, far, weight in zip(low.double().T, high.double().T, dense.double()):
        one, other = (near[:, None] - begin) * by, (far[:, None] - begin) * by
        enter = torch.minimum(one, other).amax(0).clamp(min=0)
        leave = torch.maximum(one, other).amin(0).clamp(max=100)
        total += weight * (leave - enter).clamp(min=0)
    return total


def _splatted(spot: Tensor, listed: Tensor) -> Tensor:
    pixel = torch.arange(256, device=spot.device)
    left = torch.ones(len(listed), 256, device=spot.device, dtype=torch.float64)
    colour = torch.zeros(len(listed), 3, 256, device=spot.device, dtype=torch.float64)
    for at in listed.long().T:
        x, y, a, b, seen, *light = spot[at].double().T[:, :, None]
        far = a * (pixel % 16 - x).square() + b * (pixel // 16 - y).square()
        share = left * seen * torch.exp(-0.5 * far)
        colour += share[:, None] * torch.stack(light, 1)
        left -= share
    return colour


# -- results: recommending and searching


def _pairs(table: Tensor, feature: Tensor) -> Tensor:
    made = []
    for few in feature.split(8192):
        held = table[few.long()].double()
        made.append((held.sum(1).square() - held.square().sum(1)).sum(1) / 2)
    return torch.cat(made)


def _best_words(query: Tensor, document: Tensor) -> Tensor:
    made = [
        (few.double() @ query.double().T).amax(1).sum(1) for few in document.split(1024)
    ]  # fmt: skip
    return torch.cat(made)


def _crossed(first: Tensor, x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    return first.double() * (x.double() @ w.double() + bias.double()) + x.double()


def _greater(x: Tensor, one: Tensor, other: Tensor, bias: Tensor) -> Tensor:
    held, by = x.double(), bias.double()
    return torch.maximum(held @ one.double() + by[0], held @ other.double() + by[1])


def _squared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scale = 1 / (q.shape[2] ** 0.5 * 8)
    heads = zip(q.double(), k.double(), v.double())
    return torch.stack([(one @ two.T * scale).clamp(min=0).square() @ three
                        for one, two, three in heads])  # fmt: skip


PROBLEMS: Mapping[str, Work] = {
    "tile-beamform": Work(
        ("mics length float32", "beams mics int32 below:128", "beams mics float32"), _beams, 1e-5
    ),
    "tile-bit_unpack": Work(("W int32 below:2147483647",), _unpacked, 0.0),
    "tile-cross_product_layer": Work(
        ("M N bfloat16", "M N bfloat16", "N N bfloat16", "N float32"), _crossed, 0.01
    ),
    "tile-demosaic": Work(("H W float16",), _colours, 1e-3),
    "tile-double_pendulum": Work(("4 N float32",), _swings, 1e-4),
    "tile-eikonal": Work(("H W float32",) * 2, _arrived, 1e-5),
    "tile-factorisation": Work(("V D bfloat16", "M F int32 below:V"), _pairs, 1e-4),
    "tile-gray_scott": Work(("H W float32",) * 2, _reacted, 1e-5),
    "tile-hash_probe": Work(
        ("buckets 4 int32 below:2", "buckets 4 int32 below:2", "N int32 below:1000000000"),
        _probed, 0.0,
    ),
    "tile-heston_paths": Work(("2 steps paths float32",), _paid, 1e-4),
    "tile-hmm_forward": Work(
        ("64 64 float16", "symbols 64 float32", "length batch int32 below:symbols"), _likely, 1e-3
    ),
    "tile-late_interaction": Work(
        ("32 dim bfloat16", "documents words dim bfloat16"), _best_words, 1e-3
    ),
    "tile-linkage": Work(("N K int8", "N float32", "N float32"), _linkage, 0.01),
    "tile-mahalanobis": Work(
        ("M 128 bfloat16", "128 float32", "128 128 bfloat16"), _far, 1e-3
    ),
    "tile-maxout": Work(
        ("M K float16", "K N float16", "K N float16", "2 N float32"), _greater, 0.01
    ),
    "tile-minimizers": Work(("N int8",), _least_hashes, 0.0),
    "tile-motif_scan": Work(("N int8", "16 4 float32"), _motifs, 1e-5),
    "tile-pair_histogram": Work(("3 N float32",), _distances, 0.02),
    "tile-polyphase": Work(("batch length float32", "16 4 float32"), _faster, 1e-5),
    "tile-ray_boxes": Work(
        ("3 R float32", "3 R float32", "3 B float32", "3 B float32", "B float32"), _inside, 1e-4
    ),
    "tile-relu_attention": Work(("heads length dim bfloat16",) * 3, _squared, 0.02),
    "tile-smith_waterman": Work(("batch length int32 below:4",) * 2, _few_aligned, 0.0),
    "tile-splat_pixels": Work(("V 8 float32", "tiles L int32 below:V"), _splatted, 1e-4),
    "tile-structure_factor": Work(("3 N float32", "3 K float32"), _waves, 1e-4),
    "tile-su3_links": Work(("18 N float32", "6 N float32"), _linked, 1e-5),
    "tile-tone_map": Work(("3 N float16",), _mapped, 0.01),
    "tile-zone_map": Work(("Z N float32",), _zones, 1e-5),
}  # fmt: skip
