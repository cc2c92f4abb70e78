"""Inputs of the tile kernels of the eighth test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: directions of rays, roots of unity modulo a prime, places of atoms, nights.
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
_PRIME = 12289
_START = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
          0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)  # fmt: skip
"""State that SHA-256 begins with (FIPS 180-4)."""

# -- inputs that random numbers are not good for


def _slopes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    q, k, v, slope = made
    at = torch.arange(len(slope), device=slope.device)
    return [q, k, v, torch.exp2(-8.0 * (at + 1) / len(slope))]


def _rays(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let directions be a half circle, and pixels be around the middle."""
    shadow, cos, _, x, y = made
    angle = torch.arange(len(cos), device=cos.device, dtype=torch.float64) * math.pi / len(cos)
    x, y = (torch.arange(len(e), device=e.device) - len(e) // 2 for e in (x, y))
    return [shadow, angle.cos().float(), angle.sin().float(), x.float(), y.float()]


def _texts(made: list[Tensor], shape: Shape) -> list[Tensor]:
    count, length, rarity, query = made
    return [(count & 7).to(torch.int8), length.abs() + 0.3, rarity.abs() + 0.1, query]


def _molecule(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Put atoms into the box that the grid fills, a point each half length."""
    atom, *axes = made
    axes = [torch.arange(len(e), device=e.device).float() * 0.5 for e in axes]
    size = torch.tensor([float(e[-1]) for e in axes], device=atom.device)
    return [torch.cat((atom[:3].sigmoid() * size[:, None], atom[3:])), *axes]


def _smooth(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let neighbours be alike, so that borders are found."""
    return [(made[0] % 24 + 100).to(torch.uint8)]


def _nights(made: list[Tensor], shape: Shape) -> list[Tensor]:
    night, light, omega = made
    return [night.sigmoid() * 10, light, omega.sigmoid() * 20]


def _frames(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let a frame be the one before it, moved and made a little brighter."""
    before, noise = made
    now = before.roll((2, -1), (0, 1)) * 3 // 4 + noise % 8
    return [now.to(torch.uint8), before.to(torch.uint8)]


def _roots(made: list[Tensor], shape: Shape) -> list[Tensor]:
    held, root = made
    powers = [pow(pow(11, (_PRIME - 1) // 1024, _PRIME), k, _PRIME) for k in range(512)]
    return [held, torch.tensor(powers, device=root.device, dtype=torch.int32)]


def _halves(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Give half of the words their highest bit."""
    word, round_ = made
    held = word.view(torch.int32)
    return [torch.where(held % 2 == 0, held, ~held).view(torch.uint32), round_]


def _spectra(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, known = made
    return [x, (known.float() / known.float().norm(dim=1, keepdim=True)).to(known.dtype)]


def _fading(made: list[Tensor], shape: Shape) -> list[Tensor]:
    c, b, x, fade = made
    return [(c.float() / 8).to(c.dtype), b, x, -fade.abs() * 0.1]


def _trades(made: list[Tensor], shape: Shape) -> list[Tensor]:
    price, size = made
    return [100 + price, size.abs() + 0.01]


def _layers(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, *weights = made
    return [x, *((w.float() / 6).to(w.dtype) for w in weights)]


def _worth(made: list[Tensor], shape: Shape) -> list[Tensor]:
    value, income = made
    return [value.sort(1)[0], income.sigmoid() + 0.2]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "tile-alibi_attention": _slopes, "tile-back_projection": _rays, "tile-bm25_scores": _texts,
    "tile-coulomb_grid": _molecule, "tile-deblock_edges": _smooth, "tile-lomb_scargle": _nights,
    "tile-motion_search": _frames, "tile-ring_transform": _roots, "tile-sha_rounds": _halves,
    "tile-spectral_angle": _spectra, "tile-ssd_chunk": _fading, "tile-tick_bars": _trades,
    "tile-tiny_mlp": _layers, "tile-value_iteration": _worth,
}  # fmt: skip

# -- results: models


def _modulated(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    made = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    for at, (one, by, more) in enumerate(zip(x, shift.double(), scale.double())):
        held = one.double()
        held -= held.mean(1, keepdim=True)
        held *= torch.rsqrt(held.square().mean(1, keepdim=True) + 1e-6)
        made[at] = held * (1 + more) + by
    return made


def _biased(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
    length, dim = q.shape[1:]
    at = torch.arange(length, device=q.device)
    behind = at[:, None] - at
    made = torch.empty(q.shape, device=q.device, dtype=torch.float64)
    for h, by in enumerate(slope.double()):
        score = q[h].double() @ k[h].double().T / dim**0.5 - by * behind
        made[h] = score.masked_fill(behind < 0, -torch.inf).softmax(1) @ v[h].double()
    return made


def _paired(a: Tensor, b: Tensor) -> Tensor:
    return a.double().T @ b.double() / len(a)


def _mixed(c: Tensor, b: Tensor, x: Tensor, fade: Tensor) -> Tensor:
    made = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    for h, one in enumerate(fade.double().unflatten(1, (-1, 64)).cumsum(2)):
        left, right, held = (e[h].double().unflatten(0, (-1, 64)) for e in (c, b, x))
        weight = (left @ right.mT * torch.exp(one[:, :, None] - one[:, None])).tril()
        made[h] = (weight @ held).flatten(0, 1)
    return made


def _answered(x: Tensor, w1: Tensor, w2: Tensor, w3: Tensor) -> Tensor:
    made = torch.empty(x.shape, device=x.device, dtype=torch.float64)
    for few, out in zip(x.split(1 << 17), made.split(1 << 17)):
        h = few.double()
        for w in (w1, w2):
            h = (h @ w.double()).clamp(min=0).half().double()
        out.copy_(h @ w3.double())
    return made


# -- results: pictures


def _projected(shadow: Tensor, cos: Tensor, sin: Tensor, x: Tensor, y: Tensor) -> Tensor:
    made = torch.zeros(len(y), len(x), device=x.device, dtype=torch.float64)
    bins = shadow.shape[1]
    for ray, c, s in zip(shadow.double(), cos.double(), sin.double()):
        at = x.double() * c + y.double()[:, None] * s + 0.5 * bins
        low = at.floor()
        k = low.long().clamp(0, bins - 2)
        made += ray[k] + (ray[k + 1] - ray[k]) * (at - low)
    return made / len(shadow)


def _combined(re: Tensor, im: Tensor, sre: Tensor, sim: Tensor) -> Tensor:
    made = torch.zeros(2, re.shape[1], device=re.device, dtype=torch.float64)
    norm = torch.full_like(made[0], 1e-6)
    for x, y, u, v in zip(*(each.double() for each in (re, im, sre, sim))):
        made += torch.stack((x * u + y * v, y * u - x * v))
        norm += u.square() + v.square()
    return made / norm


def _deblocked(picture: Tensor) -> Tensor:
    made = torch.empty(picture.shape, device=picture.device, dtype=torch.float64)
    for few, out in zip(picture.split(1024), made.split(1024)):
        held = few.int()
        at = torch.arange(8, held.shape[1], 8, device=held.device)
        p1, p0, q0, q1 = (held[:, at + n] for n in (-2, -1, 0, 1))
        calm = ((p1 - p0).abs() < 12) & ((q1 - q0).abs() < 12) & ((p0 - q0).abs() < 40)
        step = ((4 * (q0 - p0) + p1 - q1 + 4) >> 3).clamp(-6, 6) * calm
        held[:, at - 1] = (p0 + step).clamp(0, 255)
        held[:, at] = (q0 - step).clamp(0, 255)
        out.copy_(held)
    return made


def _moved(now: Tensor, before: Tensor) -> Tensor:
    high, wide = now.shape
    pad = torch.nn.functional.pad(before.float()[None], (4,) * 4, mode="replicate")[0]
    best = torch.full((high // 16, wide // 16), 1 << 30, device=now.device)
    for place in range(81):
        y, x = divmod(place, 9)
        apart = (now.float() - pad[y : y + high, x : x + wide]).abs()
        cost = apart.view(high // 16, 16, wide // 16, 16).sum((1, 3)).int()
        best = torch.minimum(best, cost * 128 + place)
    return best.double()


def _turned(x: Tensor, known: Tensor) -> Tensor:
    made = torch.empty(len(x), len(known), device=x.device, dtype=torch.float64)
    for few, out in zip(x.split(1 << 17), made.split(1 << 17)):
        held = few.double()
        cos = held @ known.double().T / held.norm(dim=1, keepdim=True)
        out.copy_(cos.clamp(-1, 1).acos())
    return made


# -- results: texts, codes, money


def _relevant(count: Tensor, length: Tensor, rarity: Tensor, query: Tensor) -> Tensor:
    drag = 1.2 * (0.25 + 0.75 * length.double())
    made = torch.zeros(len(query), len(length), device=count.device, dtype=torch.float64)
    for out, words in zip(made, query.tolist()):
        for word in words:
            held = count[word].double()
            out += rarity[word].double() * held * 2.2 / (held + drag)
    return made


def _digested(word: Tensor, round_: Tensor) -> Tensor:
    def turned(x: Tensor, by: int) -> Tensor:
        return (x >> by) | ((x << (32 - by)) & _WORD)

    w = list(word.view(torch.int32).long() & _WORD)
    start = [torch.full_like(w[0], each) for each in _START]
    a, b, c, d, e, f, g, h = start
    for t, k in enumerate(round_.view(torch.int32).tolist()):
        if t >= 16:
            one, two = w[t - 15], w[t - 2]
            low = turned(one, 7) ^ turned(one, 18) ^ (one >> 3)
            high = turned(two, 17) ^ turned(two, 19) ^ (two >> 10)
            w.append((w[t - 16] + low + w[t - 7] + high) & _WORD)
        spin = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)
        first = h + spin + ((e & f) ^ (~e & g)) + k + w[t]
        second = turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)
        second = second + ((a & b) ^ (a & c) ^ (b & c))
        a, b, c, d, e, f, g, h = (first + second) & _WORD, a, b, c, (d + first) & _WORD, e, f, g
    made = [(one + two) & _WORD for one, two in zip((a, b, c, d, e, f, g, h), start)]
    return torch.stack(made).double()


def _transformed(x: Tensor, root: Tensor) -> Tensor:
    """Multiply by a matrix of roots; places of the result are those of a transform in place."""
    at = torch.arange(1024, device=x.device)
    powers = torch.cat((root.double(), _PRIME - root.double()))
    place = sum(((at >> bit) & 1) << (9 - bit) for bit in range(10))
    matrix = powers[at[:, None] * torch.as_tensor(place) % 1024]
    return torch.cat([(few.double() @ matrix) % _PRIME for few in x.split(8192)])


def _traded(price: Tensor, size: Tensor) -> Tensor:
    p, s = price.double(), size.double()
    volume = s.sum(1)
    return torch.stack((p.amax(1), p.amin(1), volume, (p * s).sum(1) / volume))


def _saved(value: Tensor, income: Tensor) -> Tensor:
    wealth = torch.arange(value.shape[1], device=value.device, dtype=torch.float64) * 0.01
    made = []
    for after, earned in zip(value.double(), income.double()):
        spent = wealth[:, None] * 1.02 + earned - wealth
        made.append((spent.clamp(min=1e-6).log() + 0.95 * after).amax(1))
    return torch.stack(made)


# -- results: science


def _attracted(atom: Tensor, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    made = torch.zeros(len(z), len(y), len(x), device=x.device, dtype=torch.float64)
    for ax, ay, az, charge in atom.double().T:
        flat = (y.double() - ay).square()[:, None] + (x.double() - ax).square()
        far = (z.double() - az).square()[:, None, None] + flat + 0.01
        made += charge * far.rsqrt()
    return made


def _fired(current: Tensor) -> Tensor:
    charge = torch.zeros_like(current[0], dtype=torch.int32)
    made = torch.empty(current.shape, device=current.device, dtype=torch.float64)
    for out, led in zip(made, current):
        charge += led.int() * 8 - (charge >> 4)
        fires = charge >= 1024
        out.copy_(fires)
        charge[fires] = 0
    return made


def _powerful(night: Tensor, light: Tensor, omega: Tensor) -> Tensor:
    made = []
    for few in omega.double().split(1024):
        turn = few[:, None] * night.double()
        even, odd = turn.cos() @ light.double(), turn.sin() @ light.double()
        made.append((even.square() + odd.square()) / len(night))
    return torch.cat(made)


PROBLEMS: Mapping[str, Work] = {
    "tile-adaln_modulate": Work(
        ("B L N bfloat16", "B N float32", "B N float32"), _modulated, 0.01
    ),
    "tile-alibi_attention": Work(
        (*("heads length dim bfloat16",) * 3, "heads float32"), _biased, 0.02
    ),
    "tile-back_projection": Work(
        ("angles bins float32", *("angles float32",) * 2, "W float32", "H float32"),
        _projected, 1e-3,
    ),
    "tile-bm25_scores": Work(
        ("V N int8", "N float32", "V float32", "Q 8 int32 below:V"), _relevant, 1e-5
    ),
    "tile-coil_combine": Work(("coils N float32",) * 4, _combined, 1e-4),
    "tile-coulomb_grid": Work(
        ("4 N float32", "W float32", "H float32", "D float32"), _attracted, 1e-4
    ),
    "tile-deblock_edges": Work(("H W int32 below:256",), _deblocked, 0.0),
    "tile-lif_neurons": Work(("steps N int8",), _fired, 0.0),
    "tile-lomb_scargle": Work(("N float32", "N float32", "F float32"), _powerful, 1e-3),
    "tile-motion_search": Work(("H W int32 below:256",) * 2, _moved, 0.0),
    "tile-outer_mean": Work(("S M bfloat16", "S N bfloat16"), _paired, 0.01),
    "tile-ring_transform": Work(
        ("M 1024 int32 below:12289", "512 int32 below:2"), _transformed, 0.0
    ),
    "tile-sha_rounds": Work(
        ("16 N uint32 below:2147483647", "64 uint32 below:2147483647"), _digested, 0.0
    ),
    "tile-spectral_angle": Work(("M K float16", "F K float16"), _turned, 0.01),
    "tile-ssd_chunk": Work(
        (*("heads length dim bfloat16",) * 3, "heads length float32"), _mixed, 0.02
    ),
    "tile-tick_bars": Work(("B 64 float32",) * 2, _traded, 1e-5),
    "tile-tiny_mlp": Work(("M 64 float16", *("64 64 float16",) * 3), _answered, 0.02),
    "tile-value_iteration": Work(("Z A float32", "Z float32"), _saved, 1e-4),
}  # fmt: skip
