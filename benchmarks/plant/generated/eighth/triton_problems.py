"""Inputs of the Triton kernels of the eighth test split, and their results in float64 by PyTorch.

In: tensors.  Out: `PROBLEMS` by family, and in `SPECIAL` what makes of random numbers the inputs
that a problem has: tables of routes and checksums, forests, lists of neighbours, directions.
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
_PRIME = 0x7FFFFFFF

# -- inputs that random numbers are not good for


def _bytes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [made[0].to(torch.uint8), *made[1:]]


def _quoted(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let one of eight characters be a quotation mark."""
    text = made[0]
    return [torch.where(text % 8 == 0, 34, text).to(torch.uint8)]


def _summed(table: Tensor) -> Tensor:
    """Return the table of CRC-32, whose polynomial is 0xEDB88320."""
    entry = torch.arange(256, dtype=torch.int64)
    for _ in range(8):
        entry = torch.where(entry % 2 == 1, (entry >> 1) ^ 0xEDB88320, entry >> 1)
    return torch.where(entry > _PRIME, entry - (1 << 32), entry).to(table.device, torch.int32)


def _records(made: list[Tensor], shape: Shape) -> list[Tensor]:
    word, table = made
    return [torch.where(word % 2 == 0, word, ~word), _summed(table)]


def _chances(made: list[Tensor], shape: Shape) -> list[Tensor]:
    logit, token, chance = made
    return [logit, token, chance.softmax(1)]


def _routes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let one of four entries point to a table of longer routes."""
    address, first, second = made
    behind = -(first // 4 % shape["blocks"]) - 1
    return [address, torch.where(first % 4 == 0, behind, first % 64), second]


def _near(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Let a third of the places around a voxel hold nothing, and neighbours lie near in memory."""
    x, rule, w = made
    count = rule.shape[1]
    at = torch.arange(count, device=rule.device, dtype=torch.int32)
    near = (at + rule % 512 - 256).clamp(0, count - 1)
    return [x, torch.where(rule % 3 == 0, -1, near), (w.float() / 8).to(w.dtype)]


def _odd(made: list[Tensor], shape: Shape) -> list[Tensor]:
    token, a, b = made
    return [token, a * 2 + 1, b]


def _forest(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, feature, limit, leaf = made
    return [x, feature, limit * 0.5, leaf]


def _unit(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [torch.nn.functional.normalize(e.float(), dim=1).to(e.dtype) for e in made]


def _warm(made: list[Tensor], shape: Shape) -> list[Tensor]:
    q, k, v, warmth = made
    return [q, k, v, warmth.sigmoid() * 10 + 1]


SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    "triton-clahe_map": _bytes, "triton-cosine_attention": _warm, "triton-crc_records": _records,
    "triton-distil_top": _chances, "triton-info_nce": _unit, "triton-minhash_signs": _odd,
    "triton-pq_distances": _bytes, "triton-quote_masks": _quoted, "triton-route_lookup": _routes,
    "triton-rulebook_product": _near, "triton-tree_histogram": _bytes,
    "triton-tree_predict": _forest,
}  # fmt: skip

# -- results: models


def _focused(q: Tensor, k: Tensor, v: Tensor, warmth: Tensor) -> Tensor:
    made = torch.empty(q.shape, device=q.device, dtype=torch.float64)
    by = warmth.double()[torch.arange(len(q), device=q.device) % len(warmth)]
    for one, two, three, warm, out in zip(*(e.split(4096) for e in (q, k, v, by, made))):
        left, right = (torch.nn.functional.normalize(e.double(), dim=2) for e in (one, two))
        out.copy_((left @ right.mT * warm[:, None, None]).softmax(2) @ three.double())
    return made


def _distilled(logit: Tensor, token: Tensor, chance: Tensor) -> Tensor:
    made = []
    for few, at, p in zip(logit.split(512), token.split(512), chance.split(512)):
        by = few.double().log_softmax(1).gather(1, at.long())
        made.append((p.double() * (p.double().log() - by)).sum(1))
    return torch.cat(made)


def _contrasted(image: Tensor, text: Tensor) -> Tensor:
    own = (image.double() * text.double()).sum(1) * 10
    made = [(few.double() @ text.double().T * 10).logsumexp(1) for few in image.split(1024)]
    return torch.cat(made) - own


def _convolved(x: Tensor, rule: Tensor, w: Tensor) -> Tensor:
    made = torch.zeros(len(x), w.shape[2], device=x.device, dtype=torch.float64)
    for near, by in zip(rule, w.double()):
        held = x[near.clamp(min=0).long()].double() * (near >= 0)[:, None]
        made += held @ by
    return made


# -- results: tables and trees


def _added(bins: Tensor, grad: Tensor) -> Tensor:
    made = [torch.bincount(e.long(), weights=grad.double(), minlength=256) for e in bins]
    return torch.stack(made)


def _grown(x: Tensor, feature: Tensor, limit: Tensor, leaf: Tensor) -> Tensor:
    at = torch.arange(x.shape[1], device=x.device)
    made = torch.zeros(x.shape[1], device=x.device, dtype=torch.float64)
    for chosen, most, value in zip(feature.long(), limit, leaf.double()):
        node = torch.zeros_like(at)
        for _ in range(6):
            node = 2 * node + 1 + (x[chosen[node], at] > most[node]).long()
        made += value[node - 63]
    return made


def _measured(code: Tensor, table: Tensor) -> Tensor:
    made = torch.zeros(len(code), device=code.device, dtype=torch.float64)
    for one, entry in zip(code.T, table.double()):
        made += entry[one.long()]
    return made


def _sent(address: Tensor, first: Tensor, second: Tensor) -> Tensor:
    made = []
    for few in address.split(1 << 22):
        hop = first[(few >> 15).long()].long()
        place = (-hop - 1).clamp(min=0) * 256 + ((few >> 7) & 255)
        made.append(torch.where(hop < 0, second.flatten()[place].long(), hop))
    return torch.cat(made).double()


def _checked(word: Tensor, table: Tensor) -> Tensor:
    crc = torch.full_like(word[0], _WORD, dtype=torch.int64)
    entry = table.long() & _WORD
    for one in word.long():
        for byte in range(4):
            crc = (crc >> 8) ^ entry[(crc ^ (one >> (8 * byte))) & 255]
    crc ^= _WORD
    return torch.where(crc > _PRIME, crc - (1 << 32), crc).double()


# -- results: texts and numbers


def _signed(token: Tensor, a: Tensor, b: Tensor) -> Tensor:
    made = []
    for few in token.split(1024):
        mixed = few.long() ^ 0x5BD1E995
        made.append(torch.stack([
            ((mixed * one + other) & _PRIME).amin(1) for one, other in zip(a.tolist(), b.tolist())
        ], 1))  # fmt: skip
    return torch.cat(made).double()


def _inside(text: Tensor) -> Tensor:
    made = []
    for few in text.view(-1, 32).split(1 << 19):
        bit = (few == 34).int().cumsum(1) % 2
        word = (bit.long() << torch.arange(32, device=text.device)).sum(1)
        made.append(torch.where(word > _PRIME, word - (1 << 32), word))
    return torch.cat(made).double()


def _evaluated(x: Tensor, coef: Tensor) -> Tensor:
    made = torch.zeros_like(x, dtype=torch.int64)
    for each in coef.tolist():
        made = (made * x.long() + each) % _PRIME
    return made.double()


def _even(direction: Tensor, out: Tensor) -> Tensor:
    at = torch.arange(out.shape[1], device=out.device)
    gray = at ^ (at >> 1)
    made = torch.empty(out.shape, device=out.device, dtype=torch.float64)
    for row, held in zip(made, direction.long()):
        point = torch.zeros_like(at)
        for bit, each in enumerate(held):
            point ^= ((gray >> bit) & 1) * each
        row.copy_(torch.special.ndtri(((point >> 8).double() + 0.5) / 8388608))
    return made


# -- results: maps, graphs, molecules, stars


def _flown(height: Tensor) -> Tensor:
    made = []
    pad = torch.nn.functional.pad(height, (1,) * 4, value=100000)
    high, wide = height.shape
    for y0 in range(0, high, 1024):
        rows = min(1024, high - y0)
        own = height[y0 : y0 + rows].double()
        best, flow = torch.zeros_like(own), torch.full_like(own, -1)
        for n in (0, 1, 2, 3, 5, 6, 7, 8):
            dy, dx = divmod(n, 3)
            drop = own - pad[y0 + dy : y0 + dy + rows, dx : dx + wide]
            drop *= 0.70710678 if n % 2 == 0 else 1.0
            flow[drop > best] = n
            best = torch.maximum(best, drop)
        made.append(flow)
    return torch.cat(made)


def _evened(image: Tensor, curve: Tensor) -> Tensor:
    high, wide = image.shape
    by = curve.double().view(8, 8, 256)

    def places(count: int) -> tuple[Tensor, Tensor, Tensor]:
        t = (torch.arange(count, device=image.device).double() + 0.5) * 8 / count - 0.5
        low = t.floor()
        return low.long().clamp(min=0), (low.long() + 1).clamp(max=7), t - low

    y0, y1, wy = places(high)
    x0, x1, wx = places(wide)
    made = torch.empty(image.shape, device=image.device, dtype=torch.float64)
    for at in torch.arange(high, device=image.device).split(1024):
        grey = image[at].long()
        rows = [
            torch.lerp(by[y[at][:, None], x0, grey], by[y[at][:, None], x1, grey], wx)
            for y in (y0, y1)
        ]
        made[at] = torch.lerp(rows[0], rows[1], wy[at][:, None])
    return made


def _joined(label: Tensor, near: Tensor) -> Tensor:
    made = []
    for few in near.split(1 << 17):
        held = label[few.long()].long()
        votes = (held[:, :, None] == held[:, None]).sum(2)
        made.append(65535 - ((votes * 65536 + 65535 - held).amax(1) & 65535))
    return torch.cat(made).double()


def _laid(frame: Tensor, first: Tensor) -> Tensor:
    made = [few.double() @ first.double().T for few in frame.split(1024)]
    return torch.cat(made).flatten(1)


def _heard(data: Tensor, delay: Tensor) -> Tensor:
    count = data.shape[1] - 1024
    made = torch.zeros(len(delay), count, device=data.device, dtype=torch.float64)
    for out, late in zip(made, delay.tolist()):
        for one, by in zip(data, late):
            out += one[by : by + count]
    return made


PROBLEMS: Mapping[str, Work] = {
    "triton-clahe_map": Work(("H W int32 below:256", "64 256 float32"), _evened, 1e-3),
    "triton-cosine_attention": Work(
        (*("windows length dim bfloat16",) * 3, "heads float32"), _focused, 0.02
    ),
    "triton-crc_records": Work(
        ("16 N int32 below:2147483647", "256 int32 below:2"), _checked, 0.0
    ),
    "triton-dedisperse": Work(
        ("channels T float16", "trials channels int32 below:1024"), _heard, 1e-4
    ),
    "triton-distil_top": Work(
        ("M V float16", "M top int32 below:V", "M top float32"), _distilled, 1e-4
    ),
    "triton-field_horner": Work(
        ("N int32 below:2147483647", "K int32 below:2147483647"), _evaluated, 0.0
    ),
    "triton-flow_directions": Work(("H W int32 below:1000",), _flown, 0.0),
    "triton-frame_covariance": Work(("F 3 A float32", "3 A float32"), _laid, 1e-4),
    "triton-info_nce": Work(("N dim bfloat16",) * 2, _contrasted, 1e-3),
    "triton-label_spread": Work(("V int32 below:40", "V near int32 below:V"), _joined, 0.0),
    "triton-minhash_signs": Work(
        ("docs L int32 below:2147483647", *("hashes int32 below:1000000000",) * 2), _signed, 0.0
    ),
    "triton-pq_distances": Work(("N 16 int32 below:256", "16 256 float32"), _measured, 1e-5),
    "triton-quote_masks": Work(("N int32 below:256",), _inside, 0.0),
    "triton-route_lookup": Work(
        ("N int32 below:2147483647", "65536 int32 below:65536", "blocks 256 int32 below:64"),
        _sent, 0.0,
    ),
    "triton-rulebook_product": Work(
        ("V C bfloat16", "taps V int32 below:1000000", "taps C F bfloat16"), _convolved, 0.01
    ),
    "triton-sobol_normal": Work(
        ("dims bits int32 below:2147483647", "dims N float32"), _even, 1e-3
    ),
    "triton-tree_histogram": Work(("features N int32 below:256", "N float32"), _added, 1e-4),
    "triton-tree_predict": Work(
        ("features N float32", "trees 63 int32 below:features", "trees 63 float32",
         "trees 64 float32"), _grown, 1e-5,
    ),
}  # fmt: skip
