"""Inputs of the Triton kernels of the seventh test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: drafts that are mostly right, indices of genomes, polygons, curves of rates.
"""

from __future__ import annotations

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


def _first(logit: Tensor) -> Tensor:
    """Return the first place of the greatest element of each row."""
    at = torch.arange(logit.shape[1], device=logit.device)
    made = [torch.where(few == few.amax(1, keepdim=True), at, logit.shape[1]).amin(1)
            for few in logit.split(512)]  # fmt: skip
    return torch.cat(made)


def _drafts(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let four of five tokens be those that the model prefers."""
    logit, draft = made
    best = _first(logit).view(draft.shape)
    return [logit, torch.where(draft % 5 == 0, draft, best).int()]


def _bounds(made: list[Tensor], shape: Shape) -> list[Tensor]:
    q, one, other = made
    return [q, torch.minimum(one, other), torch.maximum(one, other)]


def _answers(made: list[Tensor], shape: Shape) -> list[Tensor]:
    new, old, ref, mask, advantage = made
    new = -new.abs()
    return [new, new + 0.2 * old, new + 0.3 * ref, (mask > -64).to(torch.int8), advantage]


def _genome(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Count the letters before each word of a genome, whose letters are two bits in two tables."""
    read, _, low, high, _ = made
    count = torch.stack([_bits(_matching(low, high, s)) for s in range(4)], 1)
    before = count.cumsum(0) - count
    total = before[-1]
    first = total.cumsum(0) - total
    return [read & 3, before.int(), low, high, first.int()]


def _matching(low: Tensor, high: Tensor, symbol: int) -> Tensor:
    one = low.long() if symbol & 1 else ~low.long()
    other = high.long() if symbol & 2 else ~high.long()
    return one & other & _WORD


def _bits(word: Tensor) -> Tensor:
    made = torch.zeros_like(word)
    for at in range(32):
        made += (word >> at) & 1
    return made


def _bytes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0].to(torch.uint8)]


def _symbols(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let odd symbols come three times as often as even ones, of 4096 in all."""
    symbol, *_ = made
    often = torch.arange(256, device=symbol.device) % 2 * 16 + 8
    return [symbol, often.int(), (often.cumsum(0) - often).int()]


def _polygon(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, y, edge = made
    corner = edge[:, :2] - 10000
    return [x - 10000, y - 10000, torch.cat((corner, corner.roll(-1, 0)), 1).int()]


def _mesh(made: list[Tensor], shape: Shape) -> list[Tensor]:
    point, triangle = made
    return [point * 2, torch.cat((triangle[:, :3], triangle[:, 3:] * 0.5), 1)]


def _bonds(made: list[Tensor], shape: Shape) -> list[Tensor]:
    maturity, coupon, curve = made
    return [maturity.sigmoid() * 29, coupon.abs() * 4, 0.03 + 0.01 * curve.sigmoid()]


def _colours(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [each.sigmoid() for each in made]


def _scalars(made: list[Tensor], shape: Shape) -> list[Tensor]:
    *others, rho, pq = made
    return [*others, rho.abs() + 0.5, pq.abs() + 1]


def _phases(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0] * 3, made[1]]


def _water(made: list[Tensor], shape: Shape) -> list[Tensor]:
    t, s, p = made
    return [t.sigmoid() * 30, 30 + 8 * s.sigmoid(), p.sigmoid() * 400]


def _weights(made: list[Tensor], shape: Shape) -> list[Tensor]:
    q, k, w = made
    return [q, k, w.sigmoid()]


def _decaying(made: list[Tensor], shape: Shape) -> list[Tensor]:
    h, x = made
    at = torch.arange(h.shape[1], device=h.device)
    return [(h.float() * torch.exp(-at / 64)).to(h.dtype), x]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "triton-bond_prices": _bonds, "triton-cg_step": _scalars, "triton-colour_cube": _colours,
    "triton-draft_accept": _drafts, "triton-fm_search": _genome, "triton-grpo_loss": _answers,
    "triton-indexer_scores": _weights, "triton-kuramoto_pull": _phases,
    "triton-mesh_distances": _mesh, "triton-page_scores": _bounds, "triton-rans_encode": _symbols,
    "triton-sea_density": _water, "triton-toeplitz_mix": _decaying, "triton-utf8_points": _bytes,
    "triton-winding_numbers": _polygon,
}  # fmt: skip

# -- results: decoding


def _accepted(logit: Tensor, draft: Tensor) -> Tensor:
    same = (_first(logit).view(draft.shape) == draft).int()
    return same.cumprod(1).sum(1).double()


def _looked_up(text: Tensor) -> Tensor:
    length = text.shape[1]
    at = torch.arange(length - 3, device=text.device)
    made = []
    for few in text.split(512):
        same = [few[:, n : n + length - 3] == few[:, length - 3 + n, None] for n in range(3)]
        last = torch.where(same[0] & same[1] & same[2], at, -1).amax(1, keepdim=True)
        place = last + 3 + torch.arange(8, device=text.device)
        draft = few.gather(1, place.clamp(max=length - 1))
        made.append(torch.where((last >= 0) & (place < length), draft, -1))
    return torch.cat(made).double()


def _bounded(q: Tensor, low: Tensor, high: Tensor) -> Tensor:
    made = [
        torch.maximum(one.double() * least.double(), one.double() * most.double()).sum(1)
        for one, least, most in zip(q, low, high)
    ]
    return torch.stack(made)


def _lost(new: Tensor, old: Tensor, ref: Tensor, mask: Tensor, advantage: Tensor) -> Tensor:
    made = []
    for n, o, r, m, a in zip(*(each.split(1024) for each in (new, old, ref, mask, advantage))):
        ratio, by, far = (n.double() - o.double()).exp(), a.double()[:, None], r.double() - n
        gain = torch.minimum(ratio * by, ratio.clamp(0.8, 1.2) * by)
        loss = 0.04 * (far.exp() - far - 1) - gain
        made.append((loss * m).sum(1) / m.sum(1).clamp(min=1))
    return torch.cat(made)


def _indexed(q: Tensor, k: Tensor, w: Tensor) -> Tensor:
    made = torch.zeros(len(q), len(k), device=q.device, dtype=torch.float64)
    for one, by in zip(q.unbind(1), w.double().unbind(1)):
        made += by[:, None] * (one.double() @ k.double().T).clamp(min=0)
    return made


def _mixed(h: Tensor, x: Tensor) -> Tensor:
    length = x.shape[1]
    at = torch.arange(length, device=x.device)
    behind = at[:, None] - at
    made = []
    for one, held in zip(h.double(), x.double().unbind(2)):
        by = torch.where(behind >= 0, one[behind.clamp(min=0)], 0)
        made.append(by @ held)
    return torch.stack(made, 2)


# -- results: texts and codes


def _found(read: Tensor, before: Tensor, low: Tensor, high: Tensor, first: Tensor) -> Tensor:
    text = (len(low) - 1) * 32

    def rank(symbol: Tensor, place: Tensor) -> Tensor:
        word = place >> 5
        one = torch.where((symbol & 1) > 0, low[word].long(), ~low[word].long())
        other = torch.where((symbol & 2) > 0, high[word].long(), ~high[word].long())
        below = (1 << (place & 31)) - 1
        return before[word, symbol].long() + _bits(one & other & below)

    begin = torch.zeros(read.shape[1], device=read.device, dtype=torch.int64)
    end = begin + text
    for symbol in read.long():
        begin, end = (first[symbol].long() + rank(symbol, each) for each in (begin, end))
    return (end - begin).double()


def _points(text: Tensor) -> Tensor:
    made = []
    held = torch.nn.functional.pad(text, (0, 3)).int()
    for start in range(0, len(text), 1 << 22):
        count = min(1 << 22, len(text) - start)
        a, *rest = (held[start + n : start + n + count] for n in range(4))
        b, c, d = (each & 63 for each in rest)
        point = torch.where(a < 128, a, -1)
        point = torch.where((a >= 192) & (a < 224), (a & 31) * 64 + b, point)
        point = torch.where((a >= 224) & (a < 240), ((a & 15) * 64 + b) * 64 + c, point)
        four = (((a & 7) * 64 + b) * 64 + c) * 64 + d
        made.append(torch.where((a >= 240) & (a < 248), four, point))
    return torch.cat(made).double()


def _coded(symbol: Tensor, often: Tensor, start: Tensor) -> Tensor:
    state = torch.full_like(symbol[0], 0).long() + 65536
    made = []
    for one in symbol:
        held = one.long() & 255
        f, c = often[held].long(), start[held].long()
        full = state >= f << 20
        made.append(torch.where(full, state & 65535, -1))
        state = torch.where(full, state >> 16, state)
        state = state // f * 4096 + state % f + c
    return torch.stack((*made, state & 0x7FFFFFFF)).double()


# -- results: geometry and physics


def _wound(x: Tensor, y: Tensor, edge: Tensor) -> Tensor:
    made = torch.zeros_like(x)
    px, py = x.long(), y.long()
    for x0, y0, x1, y1 in edge.tolist():
        side = (x1 - x0) * (py - y0) - (px - x0) * (y1 - y0)
        made += ((y0 <= py) & (y1 > py) & (side > 0)).int()
        made -= ((y0 > py) & (y1 <= py) & (side < 0)).int()
    return made.double()


def _nearest(point: Tensor, triangle: Tensor) -> Tensor:
    p = point.double().T
    nearest = torch.full_like(p[:, 0], 1e30)
    for a, u, v in triangle.double().unflatten(1, (3, 3)):
        q, normal = p - a, torch.linalg.cross(u, v)
        area = normal @ normal
        s = torch.linalg.cross(q, v.expand_as(q)) @ normal / area
        t = torch.linalg.cross(u.expand_as(q), q) @ normal / area
        height = (q @ normal).square() / area
        rims = []
        for begin, along in ((0 * u, u), (0 * u, v), (u, v - u)):
            part = (((q - begin) @ along) / (along @ along)).clamp(0, 1)
            rims.append((q - begin - part[:, None] * along).square().sum(1))
        edge = torch.stack(rims).amin(0)
        above = (s >= 0) & (t >= 0) & (s + t <= 1)
        nearest = torch.minimum(nearest, torch.where(above, height, edge))
    return nearest.sqrt()


def _values(tensor: Tensor) -> Tensor:
    made = []
    for few in tensor.double().split(1 << 18, 1):
        xx, yy, zz, xy, yz, xz = few
        rows = (xx, xy, xz, xy, yy, yz, xz, yz, zz)
        whole = torch.stack(rows, 1).unflatten(1, (3, 3))
        made.append(torch.linalg.eigvalsh(whole).T)
    return torch.cat(made, 1)


def _pulled(phase: Tensor, speed: Tensor) -> Tensor:
    held = phase.double()
    # The sine of a difference is made of sines and cosines of each, and these are added up.
    sine = held.sin().sum() * held.cos() - held.cos().sum() * held.sin()
    return speed.double() + 8 * sine / len(held)


def _dense(t: Tensor, s: Tensor, p: Tensor) -> Tensor:
    made = []
    for one, two, three in zip(*(each.split(1 << 23) for each in (t, s, p))):
        x, salt, deep = one.double(), two.double(), three.double()
        root = salt.sqrt()
        fresh = 999.842594 + 6.793952e-2 * x - 9.09529e-3 * x**2 + 1.001685e-4 * x**3
        fresh -= 1.120083e-6 * x**4
        a = 0.824493 - 4.0899e-3 * x + 7.6438e-5 * x**2 - 8.2467e-7 * x**3
        b = -5.72466e-3 + 1.0227e-4 * x - 1.6546e-6 * x**2
        surface = fresh + salt * a + salt * root * b + 4.8314e-4 * salt**2
        stiff = 19652.21 + 148.4206 * x - 2.327105 * x**2 + 1.360477e-2 * x**3
        stiff += salt * (54.6746 - 0.603459 * x + 7.944e-2 * root)
        stiff += deep * (3.239908 + 1.43713e-3 * x + 2.2838e-3 * salt)
        made.append(surface / (1 - deep / stiff) - 1000)
    return torch.cat(made)


# -- results: money, signals, graphs, solvers


def _priced(maturity: Tensor, coupon: Tensor, curve: Tensor) -> Tensor:
    price = torch.zeros_like(maturity, dtype=torch.float64)
    rates = curve.double()
    for n in range(60):
        t = (maturity - 0.5 * n).double()
        year = t.clamp(min=0).long()
        rate = rates[year] + (rates[year + 1] - rates[year]) * (t - year)
        paid = coupon.double() / 2 + (100 if n == 0 else 0)
        price += torch.where(t > 0, paid * torch.exp(-rate * t), 0)
    return price


def _demapped(re: Tensor, im: Tensor, point: Tensor) -> Tensor:
    made = []
    number = torch.arange(64, device=re.device)
    for one, other in zip(re.double().split(1 << 17), im.double().split(1 << 17)):
        far = (one[:, None] - point[0].double()).square()
        far += (other[:, None] - point[1].double()).square()
        bits = []
        for b in range(6):
            with_bit = ((number >> b) & 1).bool()
            bits.append(far[:, with_bit].amin(1) - far[:, ~with_bit].amin(1))
        made.append(torch.stack(bits) * 8)
    return torch.cat(made, 1)


def _graded(rgb: Tensor, cube: Tensor) -> Tensor:
    made = []
    table = cube.double().unflatten(0, (33, 33, 33))
    for few in rgb.split(1 << 20, 1):
        place = few.double() * 32
        low = (few * 32).int().clamp(max=31).long()
        part = place - low
        total = torch.zeros(few.shape[1], 3, device=rgb.device, dtype=torch.float64)
        for corner in range(8):
            step = torch.tensor((corner // 4, corner // 2 % 2, corner % 2), device=rgb.device)
            weight = torch.where(step[:, None] == 1, part, 1 - part).prod(0)
            total += weight[:, None] * table[tuple(low + step[:, None])]
        made.append(total.T)
    return torch.cat(made, 1)


def _relaxed(source: Tensor, target: Tensor, weight: Tensor, far: Tensor) -> Tensor:
    through = far[source.long()] + weight
    return far.scatter_reduce(0, target.long(), through, "amin").double()


def _stepped(x: Tensor, r: Tensor, p: Tensor, q: Tensor, rho: Tensor, pq: Tensor) -> Tensor:
    alpha = rho.double() / pq.double()
    return torch.stack((x.double() + alpha * p.double(), r.double() - alpha * q.double()))


PROBLEMS: Mapping[str, Work] = {
    "triton-bond_prices": Work(("N float32", "N float32", "32 float32"), _priced, 1e-5),
    "triton-cg_step": Work((*("N float32",) * 4, *("1 float32",) * 2), _stepped, 1e-5),
    "triton-colour_cube": Work(("3 N float32", "35937 3 float32"), _graded, 1e-5),
    "triton-draft_accept": Work(
        ("rows V float16", "seqs drafts int32 below:V"), _accepted, 0.0
    ),
    "triton-edge_relax": Work(
        ("E int32 below:V", "E int32 below:V", "E int32 below:1000", "V int32 below:100000"),
        _relaxed, 0.0,
    ),
    "triton-fm_search": Work(
        ("length reads int8", "words 4 int32 below:1", *("words int32 below:2147483647",) * 2,
         "4 int32 below:1"), _found, 0.0,
    ),
    "triton-grpo_loss": Work((*("B L float32",) * 3, "B L int8", "B float32"), _lost, 1e-4),
    "triton-indexer_scores": Work(
        ("tokens heads dim bfloat16", "S dim bfloat16", "tokens heads float32"), _indexed, 0.01
    ),
    "triton-kuramoto_pull": Work(("N float32",) * 2, _pulled, 1e-4),
    "triton-mesh_distances": Work(("3 N float32", "F 9 float32"), _nearest, 1e-3),
    "triton-ngram_lookup": Work(("B L int32 below:24",), _looked_up, 0.0),
    "triton-page_scores": Work(
        ("heads dim bfloat16", *("heads pages dim bfloat16",) * 2), _bounded, 1e-4
    ),
    "triton-rans_encode": Work(
        ("length lanes int8", "256 int32 below:1", "256 int32 below:1"), _coded, 0.0
    ),
    "triton-sea_density": Work(("N float32",) * 3, _dense, 1e-4),
    "triton-soft_demap": Work(("N float32", "N float32", "2 64 float32"), _demapped, 1e-4),
    "triton-tensor_eigen": Work(("6 N float32",), _values, 1e-4),
    "triton-toeplitz_mix": Work(("heads L bfloat16", "B L heads dim bfloat16"), _mixed, 0.01),
    "triton-utf8_points": Work(("N int32 below:256",), _points, 0.0),
    "triton-winding_numbers": Work(
        ("N int32 below:20000", "N int32 below:20000", "E 4 int32 below:20000"), _wound, 0.0
    ),
}  # fmt: skip
