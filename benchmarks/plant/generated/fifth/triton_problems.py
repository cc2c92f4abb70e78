"""Inputs of the Triton kernels of the fifth test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: prices, patterns of letters, ratings, frames of bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import TypeAlias

import torch

from plant.works import Work

__all__ = ["PROBLEMS", "SPECIAL"]

Tensor: TypeAlias = torch.Tensor
Shape: TypeAlias = Mapping[str, int]
_WORD = 0xFFFFFFFF
"""Greatest number of 32 bits."""

# -- inputs that random numbers are not good for


def _tones(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, turn = made
    at = torch.arange(8, device=turn.device)
    return [x, 2 * torch.cos(0.5 + 0.25 * at).float()]


def _patterns(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let patterns be of letters of the text that are two places apart."""
    _, text = made
    text = text & 3
    pattern = torch.stack([text[2 * at % shape["L"]] for at in range(32)])
    masks = []
    for letter in range(4):
        bits = sum((pattern[at] == letter).long() << at for at in range(32))
        masks.append(torch.as_tensor(bits))
    words = torch.stack(masks)
    return [torch.where(words >= 1 << 31, words - (1 << 32), words).to(torch.int32), text]


def _counted(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, y, *_ = made
    return [x, y, _bits(x).sum(0).int(), _bits(y).sum(0).int()]


def _prices(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let options cost what they do at volatilities between 0.3 and 0.8."""
    swing, money, time = (each.double().sigmoid() for each in made)
    swing, money, time = swing * 0.5 + 0.3, money * 0.4 + 0.8, time * 1.5 + 0.5
    paid = _cost(swing, money, time)[0]
    return [paid.float(), money.float(), time.float()]


def _rates(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, level, react, keep = made
    return [x, level.sigmoid() * 0.1 + 0.05, react.sigmoid() * 0.2, keep.sigmoid() * 0.6]


def _together(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, y = made
    return [x, x * 0.5 + y]


def _video(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [each.to(torch.uint8) for each in made]


def _dense(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0].sigmoid()]


def _histories(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let histories be of an eighth of the longest length to all of it."""
    offer, seen, length = made
    most = shape["most"]
    return [offer * 0.2, seen, (most - length % (most - most // 8)).to(torch.int32)]


def _fading(made: list[Tensor], shape: Shape) -> list[Tensor]:
    q, k, v, fade = made
    return [q, k, v, -0.05 * fade.sigmoid()]


def _squares(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, y, *_ = made
    return [x, y, x.float().square().sum(1), y.float().square().sum(1)]


def _ratings(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let users have rated three items of ten."""
    user, item, rating = made
    return [user * 0.3, item * 0.3, torch.where(rating > 0.5, rating, 0)]


def _repeats(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, count, *others = made
    return [x, (count & 7) * (count > 64), *others]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "triton-bit_edits": _patterns, "triton-census": _video, "triton-factor_step": _ratings,
    "triton-garch": _rates, "triton-goertzel": _tones, "triton-implied_vol": _prices,
    "triton-interest_pool": _histories, "triton-logit_penalties": _repeats,
    "triton-over_layers": _dense, "triton-rbf_matrix": _squares, "triton-retention": _fading,
    "triton-rolling_corr": _together, "triton-tanimoto": _counted, "triton-yuv_frames": _video,
}  # fmt: skip

# -- results: physics


def _gated(state: Tensor, gate: Tensor) -> Tensor:
    held = torch.complex(*state.double()).view(-1, 2, 4096)
    by = torch.view_as_complex(gate.double().view(2, 2, 2))
    made = torch.einsum("rc,pcn->prn", by, held).flatten()
    return torch.stack((made.real, made.imag))


def _pushed(speed: Tensor, electric: Tensor, magnetic: Tensor) -> Tensor:
    kick, turn = electric.double() * 0.05, magnetic.double() * 0.05
    first = speed.double() + kick
    turned = first + torch.linalg.cross(first, turn, dim=0)
    share = 2 / (1 + turn.square().sum(0))
    return first + torch.linalg.cross(turned, turn, dim=0) * share + kick


def _relaxed(x: Tensor, charge: Tensor) -> Tensor:
    held = torch.nn.functional.pad(x.double(), (1, 1, 1, 1))
    around = held[1:-1, :-2] + held[1:-1, 2:] + held[:-2, 1:-1] + held[2:, 1:-1]
    moved = x.double() + 1.8 * ((around + charge.double()) * 0.25 - x.double())
    row = torch.arange(x.shape[0], device=x.device)[:, None]
    even = (row + torch.arange(x.shape[1], device=x.device)) % 2 == 0
    return torch.where(even, moved, x.double())


# -- results: sound and pictures


def _loud(x: Tensor, turn: Tensor) -> Tensor:
    by = turn.double()[:, None]
    one = torch.zeros(8, x.shape[1], device=x.device, dtype=torch.float64)
    two = one
    for sample in x.double():
        one, two = sample + by * one - two, one
    return one * one + two * two - by * one * two


def _lagged(x: Tensor) -> Tensor:
    held = x.double()
    count = x.shape[1]
    return torch.stack([(held[:, : count - lag] * held[:, lag:]).sum(1) for lag in range(64)], 1)


def _telephoned(x: Tensor) -> Tensor:
    loud = x.double().abs().clamp(max=1)
    part = torch.log1p(255 * loud) / math.log(256)
    return torch.floor(torch.where(x < 0, -part, part) * 127 + 0.5)


def _from_outline(x: Tensor, y: Tensor, piece: Tensor) -> Tensor:
    nearest = torch.full_like(x, 1e9, dtype=torch.float64)
    for left, low, right, up in piece.double():
        along, above = x.double() - left, y.double() - low
        share = ((along * right + above * up) / (right * right + up * up)).clamp(0, 1)
        far = (along - share * right).square() + (above - share * up).square()
        nearest = torch.minimum(nearest, far)
    return nearest.sqrt()


def _harmonics(direction: Tensor, weight: Tensor) -> Tensor:
    x, y, z = direction.double() / direction.double().norm(dim=0)
    parts = (
        0.28209479 * torch.ones_like(x), -0.48860251 * y, 0.48860251 * z, -0.48860251 * x,
        1.09254843 * x * y, -1.09254843 * y * z, 0.31539157 * (2 * z * z - x * x - y * y),
        -1.09254843 * x * z, 0.54627421 * (x * x - y * y),
    )  # fmt: skip
    made = torch.zeros_like(direction, dtype=torch.float64) + 0.5
    for part, by in zip(parts, weight.unflatten(0, (3, 9)).transpose(0, 1)):
        made += part * by.double()
    return made.clamp(min=0)


def _frames(y: Tensor, u: Tensor, v: Tensor) -> Tensor:
    def whole(x: Tensor) -> Tensor:
        return (x.double() - 128).repeat_interleave(2, 1).repeat_interleave(2, 2)

    made = []
    for bright, one, other in zip(y.split(8), u.split(8), v.split(8)):
        light, blue, red = 1.164 * (bright.double() - 16), whole(one), whole(other)
        parts = (light + 1.596 * red, light - 0.392 * blue - 0.813 * red, light + 2.017 * blue)
        made.append((torch.stack(parts, 1) + 0.5).clamp(0, 255).to(torch.uint8))
    return torch.cat(made).double()


def _darker(x: Tensor) -> Tensor:
    held = torch.nn.functional.pad(x, (2, 2, 2, 2), value=255)
    bits = torch.zeros(x.shape, device=x.device, dtype=torch.int32)
    high, wide = x.shape
    for at in range(25):
        if at != 12:
            other = held[at // 5 : at // 5 + high, at % 5 : at % 5 + wide]
            bits = bits * 2 + (other < x)
    return bits.double()


def _laid(x: Tensor) -> Tensor:
    left = torch.ones(x.shape[2], device=x.device, dtype=torch.float64)
    made = torch.zeros(3, x.shape[2], device=x.device, dtype=torch.float64)
    for layer in x:
        share = left * layer[3].double()
        made += share * layer[:3].double()
        left -= share
    return made


# -- results: statistics, columns, sequences, prices


def _mixed(number: Tensor) -> Tensor:
    held = ((number ^ (number >> 16)) * 73244475) & _WORD
    return held ^ (held >> 15)


def _means(x: Tensor, like: Tensor) -> Tensor:
    count, made = len(x), []
    for draws in torch.arange(len(like), device=x.device).split(1024):
        number = (draws[:, None] * count + torch.arange(count, device=x.device)) & _WORD
        held = (_mixed(number) * 39119671) & _WORD
        chosen = ((held ^ (held >> 16)) * count) >> 32
        made.append(x.double()[chosen].mean(1))
    return torch.cat(made)


def _agreed(x: Tensor, y: Tensor) -> Tensor:
    made = []
    for one, other in zip(x.split(64), y.split(64)):
        both = (one[:, :, None] - one[:, None]) * (other[:, :, None] - other[:, None])
        made.append(torch.sign(both).sum(2).double())
    total = torch.cat(made)
    total = torch.nn.functional.pad(total, (0, -total.shape[1] % 128))
    return total.unflatten(1, (-1, 128)).sum(2)


def _maybe(words: Tensor, key: Tensor) -> Tensor:
    found, held = torch.ones_like(key), key.long()
    for _ in range(4):
        held = _mixed(held)
        bit = held & (len(words) * 32 - 1)
        found &= words[bit >> 5] >> (bit & 31)
    return found.double()


def _dates(day: Tensor) -> Tensor:
    first = date(1970, 1, 1)
    days = [first + timedelta(number) for number in range(40000)]
    table = [each.year * 10000 + each.month * 100 + each.day for each in days]
    return torch.tensor(table, device=day.device)[day.long()].double()


def _edits(place: Tensor, text: Tensor) -> Tensor:
    words, letters = place.long() & _WORD, torch.arange(4, device=place.device)[:, None]
    pattern = [(((words >> at) & 1) * letters).sum(0) for at in range(32)]
    column = [torch.full_like(place[0], at) for at in range(33)]
    for number, letter in enumerate(text):
        corner, column[0] = column[0], torch.full_like(place[0], number + 1)
        for at in range(32):
            other = (pattern[at] != letter).int()
            least = torch.minimum(column[at], column[at + 1]) + 1
            corner, column[at + 1] = column[at + 1], torch.minimum(least, corner + other)
    return column[32].double()


def _bits(x: Tensor) -> Tensor:
    """Return the bits of words as rows of zeros and ones: 32 for each row of words."""
    at = torch.arange(32, device=x.device)[:, None]
    return ((x[:, None] >> at) & 1).flatten(0, 1)


def _alike(x: Tensor, y: Tensor, one: Tensor, other: Tensor) -> Tensor:
    both = _bits(x).double().T @ _bits(y).double()
    return both / (one[:, None] + other - both).clamp(min=1)


def _cost(swing: Tensor, money: Tensor, time: Tensor) -> tuple[Tensor, Tensor]:
    """Return what options cost, and how fast that grows with the volatility."""
    spread = swing * time.sqrt()
    first = money.log() / spread + 0.5 * spread
    paid = money * torch.special.ndtr(first) - torch.special.ndtr(first - spread)
    return paid, money * time.sqrt() * torch.exp(-0.5 * first * first) / math.sqrt(2 * math.pi)


def _swings(paid: Tensor, money: Tensor, time: Tensor) -> Tensor:
    swing = torch.full_like(paid, 0.5, dtype=torch.float64)
    for _ in range(8):
        cost, slope = _cost(swing, money.double(), time.double())
        swing = (swing - (cost - paid.double()) / slope.clamp(min=1e-3)).clamp(0.05, 2)
    return swing


def _likely(x: Tensor, level: Tensor, react: Tensor, keep: Tensor) -> Tensor:
    base, more, still = level.double(), react.double(), keep.double()
    spread = base / (1 - more - still)
    total = torch.zeros_like(spread)
    for seen in x.double():
        total += spread.log() + seen * seen / spread
        spread = base + more * seen * seen + still * spread
    return -0.5 * total


def _rolled(x: Tensor, y: Tensor) -> Tensor:
    def window(held: Tensor) -> Tensor:
        total = torch.nn.functional.pad(held, (32, 0)).cumsum(1)
        return total[:, 32:] - total[:, :-32]

    one, other = x.double(), y.double()
    a, b = window(one), window(other)
    spread = (window(one * one) - a * a / 32) * (window(other * other) - b * b / 32)
    return (window(one * other) - a * b / 32) / spread.clamp(min=1e-6).sqrt()


def _grouped(key: Tensor, value: Tensor, _: Tensor) -> Tensor:
    made = torch.zeros(32, device=key.device, dtype=torch.float64)
    return made.index_add_(0, key.long(), value.double())


# -- results: recommending and serving


def _crossed(first: Tensor, x: Tensor, w: Tensor, bias: Tensor) -> Tensor:
    fit = x.double() @ w.double()
    return first.double() * fit[:, None] + bias.double() + x.double()


def _pooled(offer: Tensor, seen: Tensor, length: Tensor) -> Tensor:
    made = []
    at = torch.arange(seen.shape[1], device=seen.device)
    for one, few, count in zip(offer.split(4096), seen.split(4096), length.split(4096)):
        weight = (few.double() @ one.double()[:, :, None]).sigmoid()
        made.append((few.double() * weight * (at < count[:, None])[:, :, None]).sum(1))
    return torch.cat(made)


def _retained(q: Tensor, k: Tensor, v: Tensor, fade: Tensor) -> Tensor:
    at = torch.arange(q.shape[1], device=q.device)
    apart = at[:, None] - at
    made = []
    for one, two, three, by in zip(q.double(), k.double(), v.double(), fade.double()):
        share = torch.where(apart >= 0, torch.exp2(by * apart.clamp(min=0)), 0)
        made.append((one @ two.T * q.shape[2] ** -0.5 * share) @ three)
    return torch.stack(made)


def _near(x: Tensor, y: Tensor, _: Tensor, __: Tensor) -> Tensor:
    return torch.exp2(torch.cdist(x.double(), y.double()).square() * (-0.5 / x.shape[1]))


def _moves(user: Tensor, item: Tensor, rating: Tensor) -> Tensor:
    made = []
    for one, seen in zip(user.split(2048), rating.split(2048)):
        miss = seen.double() - one.double() @ item.double().T
        made.append(torch.where(seen != 0, miss, 0) @ item.double())
    return torch.cat(made)


def _penalised(x: Tensor, count: Tensor, present: Tensor, often: Tensor, cold: Tensor) -> Tensor:
    less = torch.where(count > 0, present.double()[:, None], 0) + often[:, None] * count.double()
    return (x.double() - less) * cold.double()[:, None]


PROBLEMS: Mapping[str, Work] = {
    "triton-autocorrelate": Work(("M N float32",), _lagged, 1e-5),
    "triton-bit_edits": Work(("4 M int32 below:2", "L M int8"), _edits, 0.0),
    "triton-bloom_probe": Work(
        ("words int32 below:2147483647", "N int32 below:2147483647"), _maybe, 0.0
    ),
    "triton-bootstrap_means": Work(("N float32", "draws float32"), _means, 1e-4),
    "triton-boris_push": Work(("3 N float32",) * 3, _pushed, 1e-5),
    "triton-census": Work(("H W int32 below:256",), _darker, 0.0),
    "triton-civil_dates": Work(("N int32 below:40000",), _dates, 0.0),
    "triton-cross_layer": Work(
        ("M N bfloat16", "M N bfloat16", "N float32", "N float32"), _crossed, 0.01
    ),
    "triton-factor_step": Work(
        ("M dim bfloat16", "N dim bfloat16", "M N bfloat16"), _moves, 0.02
    ),
    "triton-garch": Work(("L M float32", *("M float32",) * 3), _likely, 1e-4),
    "triton-goertzel": Work(("L M float32", "8 float32"), _loud, 1e-3),
    "triton-group_by_sums": Work(
        ("N int32 below:32", "N float32", "32 float32"), _grouped, 1e-3, adds_up=True
    ),
    "triton-implied_vol": Work(("N float32",) * 3, _swings, 1e-3),
    "triton-interest_pool": Work(
        ("users dim bfloat16", "users most dim bfloat16", "users int32 below:most"), _pooled, 1e-3
    ),
    "triton-kendall": Work(("M N float32",) * 2, _agreed, 0.0),
    "triton-logit_penalties": Work(
        ("M N bfloat16", "M N int8", *("M float32",) * 3), _penalised, 0.01
    ),
    "triton-mu_law": Work(("N float32",), _telephoned, 0.01),
    "triton-outline_distance": Work(
        ("N float32", "N float32", "pieces 4 float32"), _from_outline, 1e-4
    ),
    "triton-over_layers": Work(("layers 4 N float16",), _laid, 1e-3),
    "triton-qubit_gate": Work(("2 N float32", "8 float32"), _gated, 1e-5),
    "triton-rank_update": Work(
        ("M N float32", "M K bfloat16", "N K bfloat16"),
        lambda c, a, b: c.double() - a.double() @ b.double().T, 1e-3,
    ),
    "triton-rbf_matrix": Work(
        ("M K float16", "N K float16", "M float32", "N float32"), _near, 0.01
    ),
    "triton-red_black": Work(("H W float32",) * 2, _relaxed, 1e-5),
    "triton-retention": Work((*("heads N dim bfloat16",) * 3, "heads float32"), _retained, 0.02),
    "triton-rolling_corr": Work(("M N float32",) * 2, _rolled, 1e-3),
    "triton-sh_colours": Work(("3 N float32", "27 N float32"), _harmonics, 1e-5),
    "triton-tanimoto": Work(
        ("words M int32 below:2147483647", "words N int32 below:2147483647", "M int32 below:2",
         "N int32 below:2"), _alike, 1e-5,
    ),
    "triton-yuv_frames": Work(
        ("frames H W int32 below:256", *("frames half across int32 below:256",) * 2), _frames, 0.01
    ),
}  # fmt: skip
