"""Inputs of the tile kernels of the seventh test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: echoes, edges of pictures, matrices that have factors, thresholds of debtors.
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


def _echoes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0].square()]


def _scattered(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0] * 6]


def _upper(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Return weights, a triangular matrix with a strong diagonal, and steps of quantisation."""
    w, u, scale = made
    diagonal = torch.diag(1 + u.diagonal().sigmoid())
    return [w, u.triu(1) * 0.03 + diagonal, 0.02 + 0.01 * scale.sigmoid()]


def _scheduled(made: list[Tensor], shape: Shape) -> list[Tensor]:
    *others, coefficient = made
    return [*others, coefficient.sigmoid() + 0.2]


def _edges(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Put edges on whole pixels around the middle, and directions a half circle apart at most."""
    x, y, cos, _ = made
    angle = torch.arange(len(cos), device=cos.device, dtype=torch.float64) * math.pi / len(cos)
    x, y = ((each * 120).round().clamp(-350, 350) for each in (x, y))
    return [x, y, angle.cos().float(), angle.sin().float()]


def _distances(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [each.abs() for each in made]


def _bytes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0].to(torch.uint8)]


def _debtors(made: list[Tensor], shape: Shape) -> list[Tensor]:
    factor, loading, threshold, given = made
    loading = (loading.float() / shape["F"] ** 0.5).to(loading.dtype)
    return [factor, loading, threshold * 0.2 - 1.5, given.sigmoid()]


def _layers(made: list[Tensor], shape: Shape) -> list[Tensor]:
    depth, source, absorb = made
    return [depth.abs() * 0.3, source.abs(), absorb.abs()]


def _quiet(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, omega = made
    return [(x.float() * 0.2).to(x.dtype), omega]


def _steps(made: list[Tensor], shape: Shape) -> list[Tensor]:
    q, k, v, *scales = made
    return [q, k, v, *(each.sigmoid() * 0.01 for each in scales)]


def _definite(made: list[Tensor], shape: Shape) -> list[Tensor]:
    held = made[0]
    return [held @ held.mT / 32 + torch.eye(32, device=held.device)]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "tile-cfar_detect": _echoes, "tile-contact_counts": _scattered, "tile-gptq_columns": _upper,
    "tile-guided_step": _scheduled, "tile-hough_lines": _edges,
    "tile-min_plus_product": _distances, "tile-png_filters": _bytes,
    "tile-portfolio_losses": _debtors, "tile-radiation_columns": _layers,
    "tile-random_features": _quiet, "tile-sage_attention": _steps,
    "tile-small_cholesky": _definite,
}  # fmt: skip

# -- results: models


def _guided(latent: Tensor, cond: Tensor, uncond: Tensor, past: Tensor, by: Tensor) -> Tensor:
    made = []
    for x, c, u, p, k in zip(*(each.split(256) for each in (latent, cond, uncond, past, by))):
        both = u.double() + 6 * (c.double() - u.double())
        spread = c.double().std(1, correction=0) / both.std(1, correction=0)
        noise = both * (0.7 * spread + 0.3)[:, None]
        alpha, sigma, keep, add = k.double()[:, :, None].unbind(1)
        clean = (x.double() - sigma * noise) / alpha
        made.append(torch.stack((keep * x + add * (1.5 * clean - 0.5 * p.double()), clean)))
    return torch.cat(made, 1)


def _rounded(w: Tensor, u: Tensor, scale: Tensor) -> Tensor:
    rest, by, step = w.double(), u.double(), scale.double()
    made = []
    for j in range(128):
        code = (rest[:, j] / step + 0.5).floor().clamp(-128, 127)
        miss = (rest[:, j] - code * step) / by[j, j]
        rest[:, j + 1 :] -= miss[:, None] * by[j, j + 1 :]
        made.append(code)
    return torch.stack(made, 1)


def _queued(expert: Tensor) -> Tensor:
    padded = torch.nn.functional.pad(expert, (0, -len(expert) % 128), value=-1)
    made = []
    for few in padded.long().view(-1, 128).split(1024):
        hot = (few[:, :, None] == torch.arange(64, device=few.device)).int()
        count = hot.cumsum(1)
        # Places behind the end ask for expert 0, as copies of tiles are filled up with zeros.
        slot = count.gather(2, few.clamp(min=0)[:, :, None])[:, :, 0] - 1
        made.append(torch.cat((slot, count[:, -1]), 1))
    return torch.cat(made).double()


def _featured(x: Tensor, omega: Tensor) -> Tensor:
    made = []
    for few in x.double().split(8192):
        made.append(torch.exp(few @ omega.double().T - few.square().sum(1, keepdim=True) / 2))
    return torch.cat(made) + 1e-4


def _lengths(w: Tensor, down: Tensor, up: Tensor) -> Tensor:
    made = []
    for few, by in zip(w.split(1024), up.split(1024)):
        made.append((few.double() + 0.5 * (by.double() @ down.double())).norm(dim=1))
    return torch.cat(made)


def _attended(q: Tensor, k: Tensor, v: Tensor, by_q: Tensor, by_k: Tensor) -> Tensor:
    made = []
    for one, two, three, first, second in zip(q, k, v, by_q, by_k):
        left = one.double() * first.double().repeat_interleave(64)[:, None]
        right = two.double() * second.double().repeat_interleave(64)[:, None]
        made.append((left @ right.T).softmax(1) @ three.double())
    return torch.stack(made)


# -- results: money, matrices, graphs


def _lost(factor: Tensor, loading: Tensor, threshold: Tensor, given: Tensor) -> Tensor:
    made = []
    for few in factor.double().split(8192):
        failed = few @ loading.double().T < threshold
        made.append(failed.double() @ given.double())
    return torch.cat(made)


def _shortest(a: Tensor, b: Tensor) -> Tensor:
    made = [(few.double()[:, :, None] + b.double()).amin(1) for few in a.split(16)]
    return torch.cat(made)


def _factors(a: Tensor) -> Tensor:
    return torch.cat([torch.linalg.cholesky(few.double()) for few in a.split(8192)])


# -- results: pictures and echoes


def _excess(power: Tensor) -> Tensor:
    made = []
    for few in power.double().split(2048):
        held = torch.nn.functional.pad(few[None], (20, 20), mode="replicate")[0]
        sums = torch.nn.functional.pad(held.cumsum(1), (1, 0))
        n = few.shape[1]
        left = sums[:, 16 : 16 + n] - sums[:, :n]
        right = sums[:, 41 : 41 + n] - sums[:, 25 : 25 + n]
        made.append((few - (left + right) * 3 / 32).clamp(min=0))
    return torch.cat(made)


def _voted(x: Tensor, y: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    made = []
    for c, s in zip(cos.double(), sin.double()):
        place = (x.double() * c + y.double() * s + 0.5).floor().long() + 512
        made.append(torch.bincount(place, minlength=1024))
    return torch.stack(made).double()


def _denoised(picture: Tensor) -> Tensor:
    high, wide = picture.shape
    held = torch.nn.functional.pad(picture.double()[None], (4,) * 4, mode="replicate")[0]

    def moved(y: int, x: int) -> Tensor:
        return held[4 + y : 4 + y + high, 4 + x : 4 + x + wide]

    total, weight = torch.zeros_like(held[8:, 8:]), torch.zeros_like(held[8:, 8:])
    near = [(p, q) for p in (-1, 0, 1) for q in (-1, 0, 1)]
    for dy in range(-3, 4):
        for dx in range(-3, 4):
            apart = sum((moved(p, q) - moved(dy + p, dx + q)).square() for p, q in near)
            w = torch.exp(torch.as_tensor(apart) * -0.25)
            total, weight = total + w * moved(dy, dx), weight + w
    return total / weight


def _filtered(line: Tensor) -> Tensor:
    made = []
    above = torch.cat((torch.zeros_like(line[:1]), line[:-1]))
    for few, up in zip(line.int().split(1024), above.int().split(1024)):
        pad = torch.nn.functional.pad
        a, b, c = pad(few, (4, 0))[:, :-4], up, pad(up, (4, 0))[:, :-4]
        one, two, three = (b - c).abs(), (a - c).abs(), (a + b - 2 * c).abs()
        rest = torch.where(two <= three, b, c)
        paeth = torch.where((one <= two) & (one <= three), a, rest)
        left = [few, few - a, few - b, few - (a + b) // 2, few - paeth]
        made.append(torch.stack([torch.minimum(e & 255, 256 - (e & 255)).sum(1) for e in left], 1))
    return torch.cat(made).double()


def _cut(volume: Tensor, table: Tensor) -> Tensor:
    made = []
    for z in range(len(volume) - 1):
        inside = (volume[z : z + 2] > 0.25).int()
        case = torch.zeros_like(inside[0, 1:, 1:])
        high, wide = case.shape
        for corner in range(8):
            dz, dy, dx = corner // 4, corner // 2 % 2, corner % 2
            case |= inside[dz, dy : dy + high, dx : dx + wide] << corner
        made.append(table[case.long()].to(torch.int8))
    return torch.stack(made)


# -- results: simulation


def _born(cells: Tensor) -> Tensor:
    held = cells.view(torch.int32).long() & _WORD
    made = []
    for rows in torch.arange(len(held), device=held.device).split(4096):
        count = [torch.zeros_like(held[rows]) for _ in range(4)]
        for d in (-1, 0, 1):
            line = held[(rows + d) % len(held)]
            left = ((line << 1) & _WORD) | (line.roll(1, 1) >> 31)
            right = (line >> 1) | ((line.roll(-1, 1) << 31) & _WORD)
            for bits in (left, line, right) if d else (left, right):
                for at in range(4):
                    count[at], bits = count[at] ^ bits, count[at] & bits
        two = count[1] & ~count[2] & ~count[3]
        made.append(two & (count[0] | held[rows]) & _WORD)
    return torch.cat(made).double()


def _met(frame: Tensor) -> Tensor:
    residues = frame.shape[2]
    made = torch.zeros(residues, residues, device=frame.device, dtype=torch.float64)
    for one in frame.double():
        apart = sum((axis[:, None] - axis).square() for axis in one)
        made += torch.as_tensor(apart) < 64
    return made


def _warmed(depth: Tensor, source: Tensor, absorb: Tensor) -> Tensor:
    flux = torch.zeros(8, depth.shape[1], device=depth.device, dtype=torch.float64)
    made = []
    for one, heat in zip(depth.double(), source.double()):
        through = torch.exp(-one * absorb.double()[:, None])
        flux = flux * through + heat * (1 - through)
        made.append(flux.sum(0))
    return torch.stack(made)


def _coarse(fine: Tensor) -> Tensor:
    made = fine.double()
    for axis in range(3):
        count = made.shape[axis] // 2
        at = torch.arange(count, device=fine.device) * 2
        left, own, right = (
            made.index_select(axis, each) for each in ((at - 1).clamp(min=0), at, at + 1)
        )
        made = 0.25 * left + 0.5 * own + 0.25 * right
    return made


PROBLEMS: Mapping[str, Work] = {
    "tile-cfar_detect": Work(("pulses N float32",), _excess, 1e-5),
    "tile-coarse_grid": Work(("D H W float32",), _coarse, 1e-5),
    "tile-contact_counts": Work(("frames 3 R float32",), _met, 0.01),
    "tile-cube_cases": Work(("D H W float32", "256 int32 below:6"), _cut, 0.0),
    "tile-dora_norms": Work(("N K bfloat16", "R K bfloat16", "N R bfloat16"), _lengths, 1e-4),
    "tile-expert_slots": Work(("M int32 below:64",), _queued, 0.0),
    "tile-gptq_columns": Work(("N 128 float32", "128 128 float32", "N float32"), _rounded, 0.03),
    "tile-guided_step": Work(
        ("B N float32", "B N float16", "B N float16", "B N float32", "B 4 float32"), _guided, 1e-4
    ),
    "tile-hough_lines": Work(
        ("N float32", "N float32", "angles float32", "angles float32"), _voted, 0.01
    ),
    "tile-life_words": Work(("H W uint32 below:2147483647",), _born, 0.0),
    "tile-min_plus_product": Work(("M K float32", "K N float32"), _shortest, 1e-5),
    "tile-nonlocal_means": Work(("H W float32",), _denoised, 1e-4),
    "tile-png_filters": Work(("lines N int32 below:256",), _filtered, 0.0),
    "tile-portfolio_losses": Work(
        ("paths F bfloat16", "names F bfloat16", "names float32", "names float32"), _lost, 0.02
    ),
    "tile-radiation_columns": Work(
        ("levels N float32", "levels N float32", "8 float32"), _warmed, 1e-4
    ),
    "tile-random_features": Work(("M D bfloat16", "F D bfloat16"), _featured, 0.01),
    "tile-sage_attention": Work(
        ("heads length dim int8", "heads length dim int8", "heads length dim float16",
         "heads blocks float32", "heads blocks float32"), _attended, 0.02,
    ),
    "tile-small_cholesky": Work(("count 32 32 float32",), _factors, 1e-4),
}  # fmt: skip
