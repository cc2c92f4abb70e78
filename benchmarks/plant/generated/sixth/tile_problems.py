"""Inputs of the tile kernels of the sixth test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: log probabilities, prices, clouds of points, graphs of few neighbours.
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


def _bank(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Return a spectrogram, and overlapping triangles as filters."""
    spectrum, bank = made
    bins, mels = bank.shape
    at = torch.arange(bins, device=bank.device)[:, None]
    centre = torch.arange(1, mels + 1, device=bank.device) * (bins / (mels + 1))
    width = bins / (mels + 1) * 2
    return [spectrum, (1 - (at - centre).abs() / width).clamp(min=0).to(bank.dtype)]


def _speech(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Return log probabilities, and labels that are not the blank, with repeats among them."""
    scores, label = made
    label = label % (shape["symbols"] - 1) + 1
    label[:, 3::4] = label[:, 2::4][:, : label[:, 3::4].shape[1]]
    return [scores.log_softmax(2), label]


def _sparse(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Give vertices half as many neighbours as random bits do."""
    bits, edge = made
    return [bits & bits.roll(1, 0), edge]


def _apart(made: list[Tensor], shape: Shape) -> list[Tensor]:
    distance, *others = made
    return [distance.abs() * 3, *others]


def _faces(made: list[Tensor], shape: Shape) -> list[Tensor]:
    one, centre, label = made
    unit = torch.nn.functional.normalize
    return [*(unit(each.float(), dim=1).to(each.dtype) for each in (one, centre)), label]


def _scaled(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, w, one, other, *outliers = made
    return [x, w, one.sigmoid() * 0.05, other.sigmoid() * 0.01, *outliers]


def _prices(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [torch.exp(0.02 * made[0])]


def _steady(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let every third number be the one before it, and others differ in some of their bits."""
    word = made[0] & 0x00FFF0F0
    word[:, 1::3] = word[:, 0::3][:, : word[:, 1::3].shape[1]]
    return [word]


def _words(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [each.view(torch.uint32) for each in made]


def _arm(made: list[Tensor], shape: Shape) -> list[Tensor]:
    angle, link = made
    twist, at = math.pi / 3, torch.arange(len(link), device=link.device)
    row = torch.tensor([0.3, 0.1, math.cos(twist), math.sin(twist), 0.2], device=link.device)
    return [angle, torch.cat((row[:4].expand(len(at), 4), row[4] * at[:, None]), 1)]


def _street(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Put circles beside a road that goes along the first axis."""
    steer, push, circle = made
    at = torch.arange(len(circle), device=circle.device).float()
    return [steer, push, torch.stack((2 * at + 1, at % 5 - 2, 1 + at % 2), 1)]


def _planes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    plane, point = made
    plane[:, :3] = torch.nn.functional.normalize(plane[:, :3], dim=1)
    return [plane, point]


def _grid(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Put points on a grid, so that distances are whole numbers and equal on every device."""
    return [(made[0] * 300).round().clamp(-1000, 1000)]


def _known(made: list[Tensor], shape: Shape) -> list[Tensor]:
    high, low, number, scale = made
    return [high, low, number % (len(high) * len(low)), scale]


def _rested(made: list[Tensor], shape: Shape) -> list[Tensor]:
    node, tet, rest = made
    return [node, tet, rest * 0.3]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "tile-arc_margin": _faces, "tile-arm_poses": _arm, "tile-chacha_words": _words,
    "tile-ctc_alpha": _speech, "tile-drawdowns": _prices, "tile-edge_messages": _apart,
    "tile-farthest_points": _grid, "tile-gorilla_bits": _steady, "tile-mel_energies": _bank,
    "tile-mppi_costs": _street, "tile-outlier_product": _scaled, "tile-quotient_rows": _known,
    "tile-ransac_planes": _planes,
    "tile-tet_strain": _rested, "tile-triangle_counts": _sparse,
}  # fmt: skip

# -- results: speech and learning


def _mels(spectrum: Tensor, bank: Tensor) -> Tensor:
    made = []
    for few in spectrum.split(32768, 1):
        power = few.double().square().sum(0)
        made.append((power @ bank.double()).clamp(min=1e-5).log())
    return torch.cat(made)


def _spoken(scores: Tensor, label: Tensor) -> Tensor:
    batch, letters = label.shape
    symbol = torch.zeros(batch, 2 * letters + 1, device=label.device, dtype=torch.int64)
    symbol[:, 1::2] = label
    jump = torch.zeros_like(symbol, dtype=torch.bool)
    jump[:, 3::2] = label[:, 1:] != label[:, :-1]
    never = float("-inf")
    alpha = torch.full(symbol.shape, never, device=label.device, dtype=torch.float64)
    alpha[:, 0] = 0
    for seen in scores.double().unbind(1):
        step = torch.nn.functional.pad(alpha, (1, 0), value=never)[:, :-1]
        skip = torch.nn.functional.pad(alpha, (2, 0), value=never)[:, :-2]
        ways = torch.stack((alpha, step, torch.where(jump, skip, never)))
        alpha = torch.logsumexp(ways, 0) + seen.gather(1, symbol)
    return torch.logsumexp(alpha[:, -2:], 1)


def _margins(one: Tensor, centre: Tensor, label: Tensor) -> Tensor:
    cosine = one.double() @ centre.double().T
    at = torch.arange(len(one), device=one.device)
    own = cosine[at, label.long()]
    sine = (1 - own * own).clamp(min=0).sqrt()
    cosine[at, label.long()] = own * math.cos(0.5) - sine * math.sin(0.5)
    return cosine * 64


def _mixed(x: Tensor, w: Tensor, one: Tensor, other: Tensor, ox: Tensor, ow: Tensor) -> Tensor:
    whole = x.double() @ w.double().T * one.double()[:, None] * other.double()
    return whole + ox.double() @ ow.double().T


def _composed(high: Tensor, low: Tensor, number: Tensor, scale: Tensor) -> Tensor:
    made = []
    for few in number.long().split(131072):
        row = high[few // len(low)].double() * low[few % len(low)].double()
        norm = torch.rsqrt(row.square().mean(1, keepdim=True) + 1e-6)
        made.append(row * norm * scale.double())
    return torch.cat(made)


def _voted(signs: Tensor) -> Tensor:
    made = torch.zeros(signs.shape[1], device=signs.device, dtype=torch.int64)
    for at in range(32):
        count = ((signs >> at) & 1).sum(0)
        made |= (count > len(signs) // 2).long() << at
    return torch.where(made >= 1 << 31, made - (1 << 32), made).double()


# -- results: graphs


def _triangles(bits: Tensor, edge: Tensor) -> Tensor:
    made = []
    for few in edge.long().split(4096):
        both = bits[few[:, 0]] & bits[few[:, 1]]
        made.append(sum(((both >> at) & 1).sum(1) for at in range(32)))
    return torch.cat([torch.as_tensor(each) for each in made]).double()


def _messages(distance: Tensor, neighbour: Tensor, feature: Tensor, bank: Tensor) -> Tensor:
    centre = torch.arange(64, device=distance.device, dtype=torch.float64) * 0.1
    made = []
    for far, near in zip(distance.split(1024), neighbour.long().split(1024)):
        basis = torch.exp(-0.5 * ((far.double()[:, :, None] - centre) / 0.1).square())
        weight = basis @ bank.double()
        made.append((weight * feature[near].double()).sum(1))
    return torch.cat(made)


# -- results: codes and prices


def _cost(word: Tensor) -> Tensor:
    before = torch.nn.functional.pad(word, (1, 0))[:, :-1]
    apart = (word ^ before).long() & _WORD
    set_bits = torch.stack([(apart >> at) & 1 for at in range(32)], -1)
    trail = (set_bits.cumsum(-1) == 0).sum(-1)
    lead = (set_bits.flip(-1).cumsum(-1) == 0).sum(-1)
    bits = torch.where(apart == 0, 1, 13 + 32 - lead - trail)
    return bits.view(len(bits), -1, 1024).sum(2).double()


def _whole(x: Tensor) -> Tensor:
    return x.view(torch.int32).long() & _WORD


def _enciphered(data: Tensor, key: Tensor) -> Tensor:
    count = data.shape[1]
    held = _whole(key)
    words = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *held[:8].tolist()]
    first = [torch.full((count,), each, device=data.device) for each in words]
    first.append(torch.arange(count, device=data.device))
    first += [torch.full_like(first[0], each) for each in held[8:].tolist()]
    state = list(first)
    for _ in range(10):
        for q in range(4):
            _quarter(state, q, 4 + q, 8 + q, 12 + q)
        for q in range(4):
            _quarter(state, q, 4 + (q + 1) % 4, 8 + (q + 2) % 4, 12 + (q + 3) % 4)
    stream = torch.stack([(one + other) & _WORD for one, other in zip(state, first)])
    return (stream ^ _whole(data)).double()


def _quarter(state: list[Tensor], a: int, b: int, c: int, d: int) -> None:
    for one, two, three, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[one] = (state[one] + state[two]) & _WORD
        held = state[three] ^ state[one]
        state[three] = ((held << by) | (held >> (32 - by))) & _WORD


def _fallen(price: Tensor) -> Tensor:
    held = price.double()
    return (1 - held / held.cummax(1).values).amax(1)


# -- results: robots, scans, solids


def _posed(angle: Tensor, link: Tensor) -> Tensor:
    pose = torch.eye(4, device=angle.device, dtype=torch.float64).expand(angle.shape[1], 4, 4)
    for turn, (a, d, ca, sa, offset) in zip(angle.double(), link.double()):
        c, s = torch.cos(turn + offset), torch.sin(turn + offset)
        zero = torch.zeros_like(c)
        rows = (
            (c, -s * ca, s * sa, a * c), (s, c * ca, -c * sa, a * s),
            (zero, zero + sa, zero + ca, zero + d), (zero, zero, zero, zero + 1),
        )  # fmt: skip
        pose = pose @ torch.stack([torch.stack(row, -1) for row in rows], 1)
    return pose[:, :3].flatten(1).T


def _driven(steer: Tensor, push: Tensor, circle: Tensor) -> Tensor:
    x = torch.zeros(steer.shape[1], device=steer.device, dtype=torch.float64)
    y, heading, cost, speed = x, x, x, x + 5
    for wheel, force in zip(steer.double(), push.double()):
        turn = (wheel * 0.3).clamp(-0.5, 0.5)
        speed = speed + force * 0.05
        heading = heading + speed * turn.tan() * (0.05 / 2.7)
        x, y = x + speed * heading.cos() * 0.05, y + speed * heading.sin() * 0.05
        cost = cost + y * y + 0.1 * turn * turn
        for across, along, radius in circle.double():
            far = ((x - across).square() + (y - along).square()).sqrt()
            cost = cost + 50 * (radius - far).clamp(min=0)
    return cost


def _near(plane: Tensor, point: Tensor) -> Tensor:
    made = []
    for few in plane.double().split(64):
        off = few[:, :3] @ point.double() + few[:, 3:]
        made.append((off.abs() < 0.25).sum(1))
    return torch.cat(made).double()


def _spread(cloud: Tensor) -> Tensor:
    held = cloud.double()
    gap = torch.full_like(held[:, 0], 1e9)
    first = torch.zeros(len(held), device=cloud.device, dtype=torch.int64)
    made = []
    for _ in range(64):
        made.append(first)
        own = held.gather(2, first[:, None, None].expand(-1, 3, 1))
        gap = torch.minimum(gap, (held - own).square().sum(1))
        first = (gap == gap.amax(1, keepdim=True)).int().argmax(1)
    return torch.stack(made, 1).double()


def _strained(node: Tensor, tet: Tensor, rest: Tensor) -> Tensor:
    made = []
    for corner, inverse in zip(tet.long().split(1 << 20, 1), rest.double().split(1 << 20, 1)):
        place = node.double()[:, corner]
        edges = (place[:, 1:] - place[:, :1]).permute(2, 0, 1)
        bent = edges @ inverse.T.unflatten(1, (3, 3))
        strain = 0.5 * (bent.mT @ bent - torch.eye(3, device=node.device))
        trace = strain.diagonal(dim1=1, dim2=2).sum(1)
        made.append(0.4 * strain.square().sum((1, 2)) + 0.3 * trace * trace)
    return torch.cat(made)


def _faced(u: Tensor) -> Tensor:
    held = torch.nn.functional.pad(u.double()[None], (2, 2), mode="replicate")[0]
    a, b, c, d, e = (held[:, at : at + u.shape[1]] for at in range(5))

    def rough(x: Tensor, y: Tensor, z: Tensor, slope: Tensor) -> Tensor:
        return (1e-6 + 13 / 12 * (x - 2 * y + z).square() + slope.square() / 4) ** -2

    w0 = 0.1 * rough(a, b, c, a - 4 * b + 3 * c)
    w1 = 0.6 * rough(b, c, d, b - d)
    w2 = 0.3 * rough(c, d, e, 3 * c - 4 * d + e)
    total = w0 * (2 * a - 7 * b + 11 * c) + w1 * (5 * c - b + 2 * d) + w2 * (2 * c + 5 * d - e)
    return total / (6 * (w0 + w1 + w2))


PROBLEMS: Mapping[str, Work] = {
    "tile-arc_margin": Work(("B D bfloat16", "C D bfloat16", "B int32 below:C"), _margins, 0.01),
    "tile-arm_poses": Work(("joints N float32", "joints 5 float32"), _posed, 1e-5),
    "tile-chacha_words": Work(
        ("16 N int32 below:2147483647", "11 int32 below:2147483647"), _enciphered, 0.0
    ),
    "tile-ctc_alpha": Work(
        ("batch frames symbols float32", "batch letters int32 below:1000"), _spoken, 1e-5
    ),
    "tile-drawdowns": Work(("paths length float32",), _fallen, 1e-5),
    "tile-edge_messages": Work(
        ("V near float32", "V near int32 below:V", "V dim bfloat16", "64 dim bfloat16"),
        _messages, 0.02,
    ),
    "tile-farthest_points": Work(("clouds 3 N float32",), _spread, 0.0),
    "tile-gorilla_bits": Work(("series N int32 below:2147483647",), _cost, 0.0),
    "tile-majority_votes": Work(("workers N int32 below:2147483647",), _voted, 0.0),
    "tile-mel_energies": Work(("2 frames bins float16", "bins mels bfloat16"), _mels, 0.02),
    "tile-mppi_costs": Work(
        ("horizon samples float32", "horizon samples float32", "circles 3 float32"), _driven, 1e-4
    ),
    "tile-outlier_product": Work(
        ("M K int8", "N K int8", "M float32", "N float32", "M O float16", "N O float16"),
        _mixed, 0.01,
    ),
    "tile-quotient_rows": Work(
        ("Q D bfloat16", "R D bfloat16", "N int32 below:67108864", "D float32"), _composed, 0.01
    ),
    "tile-ransac_planes": Work(("H 4 float32", "3 N float32"), _near, 0.002),
    "tile-tet_strain": Work(("3 V float32", "4 E int32 below:V", "9 E float32"), _strained, 1e-4),
    "tile-triangle_counts": Work(
        ("V W int32 below:2147483647", "E 2 int32 below:V"), _triangles, 0.0
    ),
    "tile-weno_flux": Work(("lines N float32",), _faced, 1e-3),
}  # fmt: skip
