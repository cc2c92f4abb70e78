"""Inputs of families, and their results in float64 by PyTorch.

In: a family and extents.  Out: inputs, and how to judge a result. The module needs PyTorch; those
that only read sources do not import it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

import torch

from plant.works import SMALL, WORKS, Work, call, difference, reset

from . import triton_problems
from .eighth import tile_problems as eighth_tile
from .eighth import triton_problems as eighth_triton
from .families import CASE_STUDIES, Family
from .fifth import tile_problems as fifth_tile
from .fifth import triton_problems as fifth_triton
from .fresh import tile_problems as fresh_tile
from .fresh import triton_problems as fresh_triton
from .later import tile_problems as later_tile
from .later import triton_problems as later_triton
from .seventh import tile_problems as seventh_tile
from .seventh import triton_problems as seventh_triton
from .sixth import tile_problems as sixth_tile
from .sixth import triton_problems as sixth_triton
from .tile_problems import PROBLEMS as TILE_PROBLEMS
from .tile_problems import SPECIAL as TILE_SPECIAL

__all__ = ["called", "difference", "imported", "inputs_of", "problem", "reset", "small"]

Tensor: TypeAlias = torch.Tensor
Shape: TypeAlias = Mapping[str, int]


def problem(family: Family) -> Work:
    """Return how a family's inputs are made and its results are judged."""
    if family.origin == "older":
        return WORKS[family.name.removeprefix("older-")]
    return _PROBLEMS[family.problem]


def small(family: Family) -> Shape:
    """Return extents that a processor is done with at once."""
    return family.small or SMALL[family.name.removeprefix("older-")]


def inputs_of(family: Family, shape: Shape, device: str) -> list[Tensor]:
    """Return tensors of a shape, the same ones each time."""
    parts = {f"{name}/{by}": -(-n // by) for name, n in shape.items() for by in (2, 32, 64, 128)}
    made = problem(family).inputs({**shape, **parts}, device)
    if family.name in _SPECIAL:
        return _SPECIAL[family.name](made, shape)
    return made


def imported(family: Family, text: str, path: Path) -> ModuleType:
    """Write a source to a file, and import it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{path.parent.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if family.origin == "case study" and str(CASE_STUDIES) not in sys.path:
        sys.path.append(str(CASE_STUDIES))
    spec.loader.exec_module(module)
    return module


def called(family: Family, module: ModuleType, inputs: Sequence[Tensor]) -> Tensor:
    """Return a kernel's result, or what it adds to."""
    return call(getattr(module, family.entry), inputs)


# -- inputs that random numbers are not good for


def _bytes(made: list[Tensor], shape: Shape) -> list[Tensor]:
    a, packed, scales = made
    return [a, packed.to(torch.uint8), scales.abs() + 0.5]


def _fp8(made: list[Tensor], shape: Shape) -> list[Tensor]:
    a, w, scales = made
    return [a, w.to(torch.float8_e4m3fn), scales.abs() + 0.5]


def _ends(made: list[Tensor], shape: Shape) -> list[Tensor]:
    a, b, _ = made
    each = -(-shape["rows"] // shape["experts"])
    steps = torch.arange(1, shape["experts"] + 1, device=a.device) * each
    return [a, b, steps.clamp(max=shape["rows"]).to(torch.int32)]


def _half(made: list[Tensor], shape: Shape) -> list[Tensor]:
    """Keep every other tile of keys."""
    q, k, v, counts, tiles = made
    rows = shape["rows"]
    held = torch.arange(rows, device=q.device, dtype=torch.int32)
    order = torch.cat((held[::2], held[1::2])).expand(tiles.shape).contiguous()
    return [q, k, v, torch.full_like(counts, -(-rows // 2)), order]


def _mask(made: list[Tensor], shape: Shape) -> list[Tensor]:
    a, b, mask = made
    mask[:, 0] = 1  # no row is empty
    return [a, b, mask]


def _squares(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, y, *_ = made
    return [x, y, x.float().square().sum(1), y.float().square().sum(1)]


def _falling(made: list[Tensor], shape: Shape) -> list[Tensor]:
    k, v, decay = made
    return [k, v, -decay.abs()]


def _logarithms(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [torch.log_softmax(each, 1) for each in made]


def _chances(made: list[Tensor], shape: Shape) -> list[Tensor]:
    x, chance = made
    return [x, chance.sigmoid()]


def _positive(made: list[Tensor], shape: Shape) -> list[Tensor]:
    return [*made[:2], *(each.abs() * 0.01 for each in made[2:])]


_SPECIAL: Mapping[str, Callable[[list[Tensor], Shape], list[Tensor]]] = {
    **TILE_SPECIAL, **later_tile.SPECIAL,
    **later_triton.SPECIAL, **fresh_tile.SPECIAL, **fresh_triton.SPECIAL,
    **fifth_tile.SPECIAL, **fifth_triton.SPECIAL, **sixth_tile.SPECIAL, **sixth_triton.SPECIAL,
    **seventh_tile.SPECIAL, **seventh_triton.SPECIAL,
    **eighth_tile.SPECIAL, **eighth_triton.SPECIAL,
    "case-int4_matmul": _bytes, "case-fp8_matmul": _fp8, "case-grouped_matmul": _ends,
    "case-sparse_attention": _half, "tile-sparse_gemm": _mask, "tile-distance": _squares,
    "tile-outer_state": _falling, "tile-divergence": _logarithms, "triton-dropout": _chances,
    "triton-scaled_product": _positive, **triton_problems.SPECIAL,
}  # fmt: skip


# -- results


def _norm(x: Tensor, w: Tensor) -> Tensor:
    held = x.double()
    return held * torch.rsqrt((held * held).mean(1, keepdim=True) + 1e-6) * w.double()


def _int4(a: Tensor, packed: Tensor, scales: Tensor) -> Tensor:
    nibbles = torch.stack((packed & 15, packed >> 4), 2).flatten(1).double() - 8
    weights = (nibbles * scales.double().repeat_interleave(32, 1)).to(a.dtype)
    return a.double() @ weights.double().T


def _fp8_product(a: Tensor, w: Tensor, scales: Tensor) -> Tensor:
    weights = (w.float() * scales.T.repeat_interleave(128, 1)).to(torch.bfloat16)
    return weights.double() @ a.double().T


def _grouped(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    parts, start = [], 0
    for end, weights in zip(ends.tolist(), b):
        parts.append(a[start:end].double() @ weights.double())
        start = end
    return torch.cat(parts)


def _softened(scores: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(scores, -1) @ v


def _sparse(q: Tensor, k: Tensor, v: Tensor, counts: Tensor, tiles: Tensor) -> Tensor:
    batch, length, heads, dim = q.shape
    tile = torch.arange(length, device=q.device) // 128
    seen = tile % 2 == 0
    made = torch.empty(q.shape, device=q.device, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            g = h // (heads // k.shape[2])
            scores = q[b, :, h].double() @ k[b, seen, g].double().T / dim**0.5
            made[b, :, h] = _softened(scores, v[b, seen, g].double())
    return made


def _convolved(x: Tensor, w: Tensor) -> Tensor:
    """A convolution without cuDNN, whose float64 is slow: taps in turn."""
    batch, high, wide, _ = x.shape
    made = torch.zeros(batch, high - 2, wide - 2, w.shape[2], device=x.device, dtype=torch.float64)
    for tap in range(9):
        y, at = divmod(tap, 3)
        piece = x[:, y : y + high - 2, at : at + wide - 2].double()
        made += piece @ w[tap].double()
    return made


def _masked(a: Tensor, b: Tensor, mask: Tensor) -> Tensor:
    kept = mask.repeat_interleave(128, 0)[: a.shape[0]].repeat_interleave(64, 1)[:, : a.shape[1]]
    return (a.double() * kept) @ b.double()


def _by_group(x: Tensor) -> Tensor:
    held = x.double().unflatten(1, (-1, 128))
    step = held.abs().amax(2, keepdim=True).clamp(min=1e-4) / 127
    return (torch.floor(held / step + 0.5) * step).flatten(1)


def _window(q: Tensor, k: Tensor, v: Tensor, sink: Tensor) -> Tensor:
    length, dim = q.shape[1:]
    at = torch.arange(length, device=q.device)
    behind = at[:, None] - at
    hidden = (behind < 0) | (behind >= 512)
    made = []
    for one, two, three, extra in zip(q.double(), k.double(), v.double(), sink.double()):
        scores = (one @ two.T / dim**0.5).masked_fill(hidden, -torch.inf)
        both = torch.cat((scores, extra.expand(length, 1)), 1)
        made.append(torch.softmax(both, 1)[:, :-1] @ three)
    return torch.stack(made)


def _time(x: Tensor, w: Tensor) -> Tensor:
    held = torch.nn.functional.pad(x.double(), (0, 0, 3, 0))
    made = sum(held[:, tap : tap + x.shape[1]] * w[tap].double() for tap in range(4))
    return torch.nn.functional.silu(torch.as_tensor(made))


def _combined(x: Tensor, place: Tensor, weight: Tensor) -> Tensor:
    made = torch.zeros(place.shape[0], x.shape[1], device=x.device, dtype=torch.float64)
    for one, by in zip(place.T, weight.T):
        made += x[one.long()].double() * by.double()[:, None]
    return made


def _stencil(x: Tensor) -> Tensor:
    held = x.double()
    around = held[:-2, 1:-1] + held[2:, 1:-1] + held[1:-1, :-2] + held[1:-1, 2:]
    return held[1:-1, 1:-1] * 0.6 + around * 0.1


def _state(k: Tensor, v: Tensor, decay: Tensor) -> Tensor:
    keys = (k.double() * torch.exp2(decay.double())[..., None]).unflatten(1, (-1, 1024))
    return keys.transpose(2, 3) @ v.double().unflatten(1, (-1, 1024))


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    heads = [
        _softened(one.double() @ two.double().T / q.shape[-1] ** 0.5, three.double())
        for one, two, three in zip(q, k, v)
    ]
    return torch.stack(heads)


def _scaled(a: Tensor, b: Tensor, one: Tensor, other: Tensor) -> Tensor:
    left = a.double() * one.double().repeat_interleave(64, 1)
    return left @ (b.double() * other.double().repeat_interleave(64, 1)).T


def _rope(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x.double().chunk(2, -1)
    c, s = cos.double(), sin.double()
    return torch.cat((one * c - two * s, two * c + one * s), -1)


def _swiglu(x: Tensor) -> Tensor:
    gate, up = x.double().chunk(2, 1)
    return torch.nn.functional.silu(gate) * up


def _neighbours(x: Tensor, neighbour: Tensor) -> Tensor:
    made = torch.zeros(neighbour.shape[0], x.shape[1], device=x.device, dtype=torch.float64)
    for one in neighbour.T:
        made += x[one.long()].double()
    return made


def _adamw(w: Tensor, g: Tensor, m: Tensor, v: Tensor) -> Tensor:
    grad = g.double()
    mean = m.double() * 0.9 + grad * 0.1
    square = v.double().abs() * 0.999 + grad * grad * 0.001
    return w.double() * 0.99 - mean / (square.sqrt() + 1e-4) * 0.001


def _layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    shape = (x.shape[1],)
    return torch.nn.functional.layer_norm(x.double(), shape, w.double(), b.double(), 1e-5)


def _group_norm(x: Tensor) -> Tensor:
    held = x.double()
    apart = held - held.mean(1, keepdim=True)
    return apart * torch.rsqrt(held.var(1, keepdim=True, correction=0) + 1e-5)


def _rounded(x: Tensor) -> Tensor:
    held = x.double()
    return torch.floor(held * 127 / held.abs().amax(1, keepdim=True) + 0.5)


def _softmax(x: Tensor) -> Tensor:
    return torch.softmax(x.double(), 1)


def _counts(x: Tensor, _: Tensor) -> Tensor:
    return torch.bincount(x.long(), minlength=256).double()


_HALF = ("M K float16", "K N float16")
_PROBLEMS: Mapping[str, Work] = {
    **TILE_PROBLEMS, **later_tile.PROBLEMS, **later_triton.PROBLEMS,
    **fresh_tile.PROBLEMS, **fresh_triton.PROBLEMS,
    **fifth_tile.PROBLEMS, **fifth_triton.PROBLEMS,
    **sixth_tile.PROBLEMS, **sixth_triton.PROBLEMS,
    **seventh_tile.PROBLEMS, **seventh_triton.PROBLEMS,
    **eighth_tile.PROBLEMS, **eighth_triton.PROBLEMS,
    "case-vector_add": Work(("N float32",) * 2, lambda a, b: a.double() + b.double(), 1e-6),
    "case-softmax": Work(("M N float32",), _softmax, 1e-5),
    "case-rms_norm": Work(("M N float32", "N float32"), _norm, 1e-5),
    "case-matmul": Work(("M K float32", "K N float32"), lambda a, b: a.double() @ b.double(), 0.01),
    "case-int4_matmul": Work(
        ("M K bfloat16", "N K/2 int32 below:256", "N K/32 float32"), _int4, 0.01
    ),
    "case-fp8_matmul": Work(("M K bfloat16", "N K float32", "K/128 N float32"), _fp8_product, 0.01),
    "case-grouped_matmul": Work(
        ("rows K bfloat16", "experts K N bfloat16", "experts int32 below:1"), _grouped, 0.01
    ),
    "case-sparse_attention": Work(
        ("batch length heads dim bfloat16", *("batch length groups dim bfloat16",) * 2,
         "batch heads rows int32 below:1", "batch heads rows rows int32 below:1"), _sparse, 0.02,
    ),
    "tile-conv3x3": Work(("batch H Wd C float16", "9 C F float16"), _convolved, 0.01),
    "tile-sparse_gemm": Work((*_HALF, "M/128 tiles int32 below:2"), _masked, 0.01),
    "tile-group_quantise": Work(("M N bfloat16",), _by_group, 0.02),
    "tile-online_softmax": Work(("M N float32",), _softmax, 1e-5),
    "tile-window_attention": Work(
        (*("heads length dim bfloat16",) * 3, "heads float32"), _window, 0.02
    ),
    "tile-distance": Work(
        ("M K float16", "N K float16", "M float32", "N float32"),
        lambda x, y, xx, yy: (
            xx.double()[:, None] + yy.double() - 2 * x.double() @ y.double().T
        ).clamp(min=0), 0.01,
    ),
    "tile-causal_conv": Work(("batch length C bfloat16", "4 C float32"), _time, 0.01),
    "tile-combine_experts": Work(
        ("R N bfloat16", "M E int32 below:R", "M E float32"), _combined, 1e-4
    ),
    "tile-bias_gelu": Work(
        ("M N bfloat16", "N bfloat16"),
        lambda x, b: torch.nn.functional.gelu(x.double() + b.double(), approximate="tanh"), 0.01,
    ),
    "tile-stencil": Work(("M N float32",), _stencil, 1e-5),
    "tile-permute_heads": Work(
        ("batch length heads dim bfloat16",), lambda x: x.double().transpose(1, 2) * 0.125, 0.01
    ),
    "tile-outer_state": Work(
        (*("heads length dim bfloat16",) * 2, "heads length float32"), _state, 0.02
    ),
    "tile-divergence": Work(
        ("M N float32",) * 2,
        lambda p, q: (p.double().exp() * (p.double() - q.double())).sum(1), 1e-4,
    ),
    "tile-channel_sums": Work(
        ("M N bfloat16", "N float32"), lambda x, _: x.double().sum(0), 1e-4, adds_up=True
    ),
    "triton-add": Work(("N float32",) * 2, lambda a, b: a.double() + b.double(), 1e-6),
    "triton-softmax": Work(("M N bfloat16",), _softmax, 0.01),
    "triton-product": Work(_HALF, lambda a, b: a.double() @ b.double(), 0.01),
    "triton-dropout": Work(
        ("N float32",) * 2, lambda x, c: torch.where(c > 0.25, x.double() / 0.75, 0.0), 1e-5
    ),
    "triton-layer_norm": Work(("M N bfloat16", "N float32", "N float32"), _layer_norm, 0.01),
    "triton-grouped_gemm": Work(
        ("G M K float16", "G K N float16"), lambda a, b: a.double() @ b.double(), 0.01
    ),
    "triton-attention": Work(("heads N dim bfloat16",) * 3, _attention, 0.02),
    "triton-scaled_product": Work(
        ("M K int8", "N K int8", "M K/64 float32", "N K/64 float32"), _scaled, 0.01
    ),
    "triton-cross_entropy": Work(
        ("M N bfloat16", "M int32 below:N"),
        lambda x, t: torch.nn.functional.cross_entropy(x.double(), t.long(), reduction="none"),
        1e-4,
    ),
    "triton-rope": Work(("heads L dim bfloat16", "L half float32", "L half float32"), _rope, 0.01),
    "triton-rms_norm": Work(("M N float32", "N float32"), _norm, 1e-5),
    "triton-swiglu": Work(("M both bfloat16",), _swiglu, 0.01),
    "triton-embedding": Work(
        ("V N bfloat16", "M int32 below:V"), lambda t, i: t[i.long()].double(), 0.0
    ),
    "triton-segment_sum": Work(("V N bfloat16", "M E int32 below:V"), _neighbours, 1e-5),
    "triton-histogram": Work(
        ("N int32 below:256", "256 int32 below:1"), _counts, 0.0, adds_up=True
    ),
    "triton-conv2d": Work(("B H W C float16", "9 C F float16"), _convolved, 0.01),
    "triton-running_sum": Work(("M N float32",), lambda x: x.double().cumsum(1), 1e-4),
    "triton-top_four": Work(("M N float32",), lambda x: x.double().topk(4, 1)[0].sum(1), 1e-5),
    "triton-quantise": Work(("M N bfloat16",), _rounded, 0.01),
    "triton-transpose": Work(("M N float32",), lambda x: x.double().T, 0.0),
    "triton-batched_product": Work(
        ("G M K bfloat16", "G N K bfloat16"),
        lambda a, b: a.double() @ b.double().transpose(1, 2), 0.01,
    ),
    "triton-adamw": Work(("N float32",) * 4, _adamw, 1e-5),
    "triton-column_mean": Work(
        ("M N bfloat16", "N float32"), lambda x, _: x.double().mean(0), 1e-3, adds_up=True
    ),
    "triton-group_norm": Work(("G N bfloat16",), _group_norm, 0.01),
    "triton-matvec": Work(
        ("M N bfloat16", "N bfloat16"), lambda a, x: a.double() @ x.double(), 1e-4
    ),
    **triton_problems.PROBLEMS,
}  # fmt: skip
