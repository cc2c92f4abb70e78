"""Inputs of the tile kernels of the third test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: prices, densities, places in a table.
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


def _masses(made: list[Tensor], shape: Shape) -> list[Tensor]:
    (bodies,) = made
    return [torch.cat((bodies[:3], bodies[3:].abs() + 0.1))]


def _densities(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [each.abs() * 0.1 + 0.5 for each in made]


def _prices(made: list[Tensor], shape: Shape) -> list[Tensor]:
    price, strike, years = (each.sigmoid() for each in made)
    return [price * 25 + 5, strike * 99 + 1, years * 9.75 + 0.25]


def _ended(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """End one run in sixteen at a step."""
    reward, value, done = made
    return [reward, value, (done < -112).to(torch.int8)]


def _unit(made: list[Tensor], shape: Shape) -> list[Tensor]:
    points, table = made
    return [points.sigmoid(), table]


def _rates(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let keys have a length of one, as a memory without it grows without bound."""
    q, k, v, rate = made
    return [q, torch.nn.functional.normalize(k, dim=2), v, rate.sigmoid()]


def _scales(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [*made[:-1], made[-1].abs() * 0.01 + 0.001]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "tile-advantages": _ended, "tile-black_scholes": _prices, "tile-byte_momentum": _scales,
    "tile-delta_rule": _rates, "tile-hash_encode": _unit, "tile-lattice_bgk": _densities,
    "tile-nbody": _masses, "tile-two_bit_product": _scales,
}  # fmt: skip

# -- results: physics, finance, games


def _pulls(bodies: Tensor) -> Tensor:
    place, mass = bodies[:3].double(), bodies[3].double()
    made = []
    for part in place.split(1024, 1):
        apart = place[:, None] - part[:, :, None]
        force = mass * (apart.square().sum(0) + 0.01) ** -1.5
        made.append((apart * force).sum(2))
    return torch.cat(made, 1)


def _heat(x: Tensor) -> Tensor:
    held = x.double()
    inner = slice(1, -1)
    around = held[:-2, inner, inner] + held[2:, inner, inner]
    around += held[inner, :-2, inner] + held[inner, 2:, inner]
    around += held[inner, inner, :-2] + held[inner, inner, 2:]
    return held[inner, inner, inner] * 0.4 + around * 0.1


_WAYS = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))


def _collided(f: Tensor) -> Tensor:
    held = f.double()
    ways = torch.tensor(_WAYS, device=f.device, dtype=torch.float64)
    shares = torch.tensor((4 / 9, *(1 / 9,) * 4, *(1 / 36,) * 4), device=f.device).double()
    shares /= shares.sum()
    mass = held.sum(0)
    speed = ways.T @ held / mass
    along = ways @ speed
    still = 1 - 1.5 * speed.square().sum(0)
    balance = shares[:, None] * mass * (still + 3 * along + 4.5 * along.square())
    return held + (balance - held) * 0.6


def _option(price: Tensor, strike: Tensor, years: Tensor) -> Tensor:
    s, k, t = price.double(), strike.double(), years.double()
    spread = t.sqrt() * 0.3
    up = (torch.log(s / k) + t * (0.02 + 0.3**2 / 2)) / spread
    chance = torch.special.ndtr
    return s * chance(up) - k * torch.exp(-0.02 * t) * chance(up - spread)


def _sparse_rows(values: Tensor, column: Tensor, x: Tensor) -> Tensor:
    return (values.double() * x.double()[column.long()]).sum(1)


def _nearest(a: Tensor, b: Tensor) -> Tensor:
    parts = a.double().T.split(2048)
    return torch.cat([torch.cdist(each, b.double().T).amin(1) for each in parts]).square()


def _paths(emit: Tensor, change: Tensor) -> Tensor:
    score = torch.zeros_like(emit[:, 0], dtype=torch.float64)
    for step in emit.double().unbind(1):
        score = (score[:, None] + change.double()).amax(2) + step
    return score


def _advantages(reward: Tensor, value: Tensor, done: Tensor) -> Tensor:
    later = torch.zeros_like(reward[0], dtype=torch.float64)
    after, made = torch.zeros_like(later), []
    for gain, held, end in reversed(list(zip(reward, value, done))):
        keep = (end == 0).double()
        later = gain.double() + 0.99 * after * keep - held.double() + 0.99 * 0.95 * keep * later
        after = held.double()
        made.append(later)
    return torch.stack(made[::-1])


def _transported(cost: Tensor, v: Tensor) -> Tensor:
    return -torch.logsumexp(v.double() - cost.double(), 1)


# -- results: images and signals


def _bilateral(x: Tensor) -> Tensor:
    held, (high, wide) = x.double(), (x.shape[0] - 4, x.shape[1] - 4)
    middle = held[2:-2, 2:-2]
    total, weights = torch.zeros_like(middle), torch.zeros_like(middle)
    for tap in range(25):
        y, at = divmod(tap, 5)
        other = held[y : y + high, at : at + wide]
        far = (y - 2) ** 2 + (at - 2) ** 2
        weight = torch.exp2((other - middle).square() * -4 - far * 0.2)
        total += other * weight
        weights += weight
    return total / weights


def _middle(x: Tensor) -> Tensor:
    high, wide = x.shape[0] - 2, x.shape[1] - 2
    taps = [x[y : y + high, at : at + wide] for y in range(3) for at in range(3)]
    return torch.stack(taps).median(0)[0].double()


def _filtered(x: Tensor, taps: Tensor) -> Tensor:
    wide = x.shape[1] - 63
    made = torch.zeros(x.shape[0], wide, device=x.device, dtype=torch.float64)
    for at, by in enumerate(taps.double()):
        made += x[:, at : at + wide].double() * by
    return made


def _frames(x: Tensor, basis: Tensor) -> Tensor:
    return x.double().unfold(1, 512, 128) @ basis.double()


def _stem(x: Tensor, w: Tensor) -> Tensor:
    times = (x.shape[1] - 1) // 2
    made = torch.zeros(x.shape[0], times, w.shape[2], device=x.device, dtype=torch.float64)
    for tap, by in enumerate(w.double()):
        made += x[:, tap : tap + 2 * times : 2].double() @ by
    return torch.nn.functional.gelu(made, approximate="tanh")


def _shuffled(x: Tensor) -> Tensor:
    made = torch.nn.functional.pixel_shuffle(x.permute(0, 3, 1, 2), 2)
    return made.permute(0, 2, 3, 1).double()


def _windows(x: Tensor) -> Tensor:
    held = x.roll((-4, -4), (1, 2)).unflatten(2, (-1, 8)).unflatten(1, (-1, 8))
    return held.transpose(2, 3).flatten(3, 4).double()


def _encoded(points: Tensor, table: Tensor) -> Tensor:
    levels, size, _ = table.shape
    made = []
    for level in range(levels):
        # In float32, as which corner a point is beside may not depend on rounding.
        held = points * float(16 << level)
        low = held.floor()
        near = (held - low).double()
        total: Tensor = torch.zeros((), device=points.device, dtype=torch.float64)
        for corner in range(4):
            step = (corner % 2, corner // 2)
            x, y = (each.long() + by for each, by in zip(low, step))
            place = (x ^ (y * 40503)) & (size - 1)
            weight = (near[0] if step[0] else 1 - near[0]) * (near[1] if step[1] else 1 - near[1])
            total = total + table[level, place].double().T * weight
        made.append(total)
    return torch.stack(made)


def _blocks(x: Tensor, around: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return (x.double() * scale.double() + shift.double() + around.double()).clamp(min=0)


# -- results: layers of models


def _latents(q: Tensor, turned: Tensor, latents: Tensor, places: Tensor) -> Tensor:
    both = torch.cat((q, turned), 2).double() @ torch.cat((latents, places), 2).double().mT
    scale = (q.shape[2] + 64) ** -0.5
    return torch.softmax(both * scale, 2) @ latents.double()


def _capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    made = []
    for one, two, three in zip(q, k, v):
        scores = one.double() @ two.double().T / q.shape[2] ** 0.5
        made.append(torch.softmax(30 * torch.tanh(scores / 30), 1) @ three.double())
    return torch.stack(made)


def _pairs(x: Tensor, y: Tensor) -> Tensor:
    made = []
    for first in range(0, len(x), 2048):
        logits = x[first : first + 2048].double() @ y.double().T * 0.05 - 2
        right = torch.zeros_like(logits)
        right.diagonal(first).fill_(1)
        made.append(torch.nn.functional.softplus(logits * (1 - 2 * right)).sum(1))
    return torch.cat(made)


def _triangles(a: Tensor, b: Tensor, gate: Tensor) -> Tensor:
    return torch.stack([
        one.double() @ other.double().T * by.double().sigmoid()
        for one, other, by in zip(a, b, gate)
    ])  # fmt: skip


def _clusters(x: Tensor, label: Tensor, sums: Tensor) -> Tensor:
    made = torch.zeros_like(sums, dtype=torch.float64)
    return made.index_add_(0, label.long(), x.double())


def _complex(a: Tensor, ai: Tensor, b: Tensor, bi: Tensor) -> Tensor:
    one, one_i, two, two_i = (each.double() for each in (a, ai, b, bi))
    return torch.stack((one @ two - one_i @ two_i, one @ two_i + one_i @ two))


def _two_bits(a: Tensor, words: Tensor, scale: Tensor) -> Tensor:
    shifts = torch.arange(16, device=words.device, dtype=torch.int32) * 2
    weights = ((words[:, :, None] >> shifts) & 3).flatten(1) - 1
    return a.double() @ weights.double().T * scale.double()


def _corrected(q: Tensor, k: Tensor, v: Tensor, rate: Tensor) -> Tensor:
    heads, _, dim = q.shape
    state = torch.zeros(heads, dim, dim, device=q.device, dtype=torch.float64)
    made = []
    for ask, key, value, by in zip(*(each.double().unbind(1) for each in (q, k, v, rate))):
        apart = value - (state * key[:, None]).sum(2)
        state = state + (apart * by[:, None])[:, :, None] * key[:, None]
        made.append((state * ask[:, None]).sum(2))
    return torch.stack(made, 1)


def _byte_step(w: Tensor, grad: Tensor, kept: Tensor, scale: Tensor) -> Tensor:
    momentum = kept.double() * scale.double()[:, None] * 0.9 + grad.double()
    top = momentum.abs().amax(1, keepdim=True)
    code = torch.floor(momentum * 127 / top + 0.5)
    return torch.stack((w.double() * 0.999 - momentum * 0.01, code))


_TOKENS = "heads length dim bfloat16"
PROBLEMS: Mapping[str, Work] = {
    "tile-advantages": Work((*("steps N float32",) * 2, "steps N int8"), _advantages, 1e-5),
    "tile-attention_delta": Work(
        ("M dim bfloat16",) * 2, lambda o, d: (o.double() * d.double()).sum(1), 1e-5
    ),
    "tile-bilateral": Work(("H W float32",), _bilateral, 1e-5),
    "tile-black_scholes": Work(("N float32",) * 3, _option, 1e-5),
    "tile-byte_momentum": Work(
        ("blocks 256 float32", "blocks 256 bfloat16", "blocks 256 int8", "blocks float32"),
        _byte_step, 0.01,
    ),
    "tile-capped_attention": Work((_TOKENS,) * 3, _capped, 0.02),
    "tile-chamfer": Work(("3 M float32", "3 N float32"), _nearest, 1e-4),
    "tile-cluster_sums": Work(
        ("M dim bfloat16", "M int32 below:codes", "codes dim float32"), _clusters, 1e-4,
        adds_up=True,
    ),
    "tile-complex_gemm": Work((*("M K float16",) * 2, *("K N float16",) * 2), _complex, 1e-4),
    "tile-conv1d_stem": Work(("batch length C float16", "3 C F float16"), _stem, 0.01),
    "tile-delta_rule": Work(
        (*("heads length dim float32",) * 3, "heads length float32"), _corrected, 1e-4
    ),
    "tile-ell_product": Work(
        ("M E float32", "M E int32 below:V", "V float32"), _sparse_rows, 1e-5
    ),
    "tile-fir": Work(("M N float32", "64 float32"), _filtered, 1e-5),
    "tile-frame_product": Work(("batch samples float16", "512 waves float16"), _frames, 1e-4),
    "tile-hash_encode": Work(("2 N float32", "levels size 2 float32"), _encoded, 1e-5),
    "tile-heat3d": Work(("D H W float32",), _heat, 1e-5),
    "tile-latent_decode": Work(
        ("batch heads dim bfloat16", "batch heads 64 bfloat16", "batch length dim bfloat16",
         "batch length 64 bfloat16"), _latents, 0.02,
    ),
    "tile-lattice_bgk": Work(("9 N float32",), _collided, 1e-5),
    "tile-median_filter": Work(("H W float32",), _middle, 0.0),
    "tile-nbody": Work(("4 N float32",), _pulls, 1e-4),
    "tile-norm_add_relu": Work((*("M C bfloat16",) * 2, *("C float32",) * 2), _blocks, 0.01),
    "tile-pair_loss": Work(("M K bfloat16", "N K bfloat16"), _pairs, 1e-4),
    "tile-pixel_shuffle": Work(("batch high wide C bfloat16",), _shuffled, 0.0),
    "tile-pool_keys": Work(
        (_TOKENS,), lambda k: k.double().unflatten(1, (-1, 64)).mean(2), 1e-5
    ),
    "tile-row_sort": Work(("M N float32",), lambda x: x.double().sort(1)[0], 0.0),
    "tile-shift_windows": Work(("batch side side C float16",), _windows, 0.0),
    "tile-sinkhorn_rows": Work(("M N float32", "N float32"), _transported, 1e-5),
    "tile-triangle_product": Work((*("C N K bfloat16",) * 2, "C N N bfloat16"), _triangles, 0.01),
    "tile-two_bit_product": Work(
        ("M K int8", "N words int32 below:2147483647", "N float32"), _two_bits, 1e-5
    ),
    "tile-viterbi": Work(
        ("batch length states float32", "states states float32"), _paths, 1e-5
    ),
}  # fmt: skip
