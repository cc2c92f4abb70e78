"""What kernels run on, and what their results have to be.

In: a kernel's name, a shape, a device.  Out: tensors, and the result in float64 by PyTorch; how far
a kernel's result may be from it, as a share of the greatest element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

__all__ = ["SMALL", "WORKS", "Work", "call", "difference", "reset"]

Tensor: TypeAlias = torch.Tensor
Shape: TypeAlias = Mapping[str, int]
_LOG2E = 1.44269504
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Work:
    """Inputs of a kernel, and its result."""

    extents: tuple[str, ...]
    """Extents of each input, as `M K bfloat16`; `below:` is the end of integers."""
    reference: Callable[..., Tensor]
    """The result in float64, of the inputs as they are."""
    limit: float
    """Greatest difference by the greatest element."""
    adds_up: bool = False
    """The last input is what the kernel adds to."""

    def inputs(self, shape: Shape, device: str, seed: int = 0) -> list[Tensor]:
        """Tensors of a shape."""
        generator = torch.Generator(device=device).manual_seed(seed)
        return [_made(spec.split(), shape, device, generator) for spec in self.extents]


def _made(spec: list[str], shape: Shape, device: str, generator: torch.Generator) -> Tensor:
    names = [word for word in spec if word in shape or word.isdigit()]
    dtype, *end = (word for word in spec if word not in names)
    extents = [shape[name] if name in shape else int(name) for name in names]
    if dtype == "int8":
        made = torch.randint(-128, 128, extents, device=device, generator=generator)
        return made.to(torch.int8)
    if not end:
        made = torch.randn(extents, device=device, generator=generator)
        return made.to(getattr(torch, dtype))
    limit = end[0].removeprefix("below:")
    top = shape[limit] if limit in shape else int(limit)
    numbers = torch.randint(0, top, extents, device=device, generator=generator)
    held = numbers.to(torch.int32)
    return held.view(torch.uint32) if dtype == "uint32" else held


def call(kernel: Any, inputs: Sequence[Tensor]) -> Tensor:
    """The kernel's result: what it returns, or what it adds to."""
    made: Tensor | None = kernel(*inputs)
    return inputs[-1] if made is None else made


def reset(work: Work, inputs: Sequence[Tensor]) -> None:
    """Let what a kernel adds to start at 0."""
    if work.adds_up:
        inputs[-1].zero_()


def difference(result: Tensor, expected: Tensor) -> float:
    """The greatest one, by the greatest element; infinite where a number is none."""
    got = _whole(result) if result.dtype == torch.uint32 else result.double()
    apart = (got - expected).abs().max() / expected.abs().max().clamp(min=1e-30)
    return float(apart) if bool(torch.isfinite(apart)) else float("inf")


# -- results


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    heads = []
    for one, two, three in zip(q.double(), k.double(), v.double()):
        heads.append(torch.softmax(one @ two.T / q.shape[-1] ** 0.5, -1) @ three)
    return torch.stack(heads)


def _norm(x: Tensor, w: Tensor) -> Tensor:
    held = x.double()
    return held * torch.rsqrt((held * held).mean(1, keepdim=True) + 1e-6) * w.double()


def _layer_norm(x: Tensor) -> Tensor:
    held = x.double()
    return (held - held.mean(1, keepdim=True)) * torch.rsqrt(
        held.var(1, keepdim=True, correction=0) + 1e-6
    )


def _gated(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    return torch.nn.functional.silu(a.double() @ b.double().T + bias.double())


def _batched(a: Tensor, b: Tensor, bias: Tensor) -> Tensor:
    return torch.relu(a.double() @ b.double() + bias.double()) ** 2


def _rotary(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    one, two = x.double().chunk(2, -1)
    c, s = cos.double(), sin.double()
    return torch.cat((one * c - two * s, two * c + one * s), -1)


def _cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(x.double(), target.long(), reduction="none")


def _step(x: Tensor, y: Tensor) -> Tensor:
    held = x.double()
    return held * torch.sigmoid((held + y.double()) * (0.7978845608 * _LOG2E * 0.6931471805599453))


def _whole(x: Tensor) -> Tensor:
    return (x.view(torch.int32).to(torch.int64) & _MASK).double()


def _rounds(given: Tensor) -> Tensor:
    x = given.view(torch.int32).to(torch.int64) & _MASK
    y = torch.zeros_like(x)
    for _ in range(8):
        for turn in range(64):
            x = ((x ^ (y >> 15)) * 2246822519) & _MASK
            y = ((y ^ (x >> 13)) + turn) & _MASK
    return (x ^ y).double()


def _balance(x: Tensor) -> Tensor:
    held = x.double()
    for _ in range(256):
        held = held * (1 + (1 - held * held) * 0.002)
    return held / held.abs().sum(1, keepdim=True)


def _table(x: Tensor) -> Tensor:
    """e to the (x / 512), whose series has 24 terms."""
    return torch.exp(x.double() / 512)


def _gather(table: Tensor, index: Tensor, scale: Tensor) -> Tensor:
    return table[index.long()].double() * scale.double()[:, None]


def _alibi(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    heads = []
    for one, two, three, by_key in zip(q.double(), k.double(), v.double(), bias.double()):
        scores = one @ two.T / q.shape[-1] ** 0.5 + by_key / _LOG2E
        heads.append(torch.softmax(scores, -1) @ three)
    return torch.stack(heads)


def _moments(x: Tensor, _: Tensor) -> Tensor:
    held = x.double()
    return torch.stack((held.sum(0), (held * held).sum(0)))


def _pair_gather(tokens: Tensor, places: Tensor, token: Tensor, place: Tensor) -> Tensor:
    return tokens[token.long()].double() + places[place.long()].double()


def _mu_law(x: Tensor, scale: Tensor) -> Tensor:
    held = x.double()
    return (torch.exp2(held.abs() / 16) - 1).copysign(held) * scale.double()[:, None]


def _oscillate(x: Tensor, v: Tensor) -> Tensor:
    place, speed = x.double(), v.double()
    for _ in range(512):
        speed = speed - place * (0.01 + place * place * 0.001)
        place = place + speed * 0.01
    return place


def _residual(a: Tensor, b: Tensor, bias: Tensor, r: Tensor) -> Tensor:
    held = a.double() @ b.double().T + bias.double()
    return held * torch.sigmoid(held * 1.702) + r.double()


def _w8a8(a: Tensor, b: Tensor, token: Tensor, channel: Tensor) -> Tensor:
    return (a.double() @ b.double().T) * token.double()[:, None] * channel.double()


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    heads, length, dim = q.shape
    seen = torch.ones(length, length, device=q.device).tril().bool()
    made = []
    for head, one in enumerate(q.double()):
        group = head * k.shape[0] // heads
        scores = (one @ k[group].double().T / dim**0.5).masked_fill(~seen, -torch.inf)
        made.append(torch.softmax(scores, -1) @ v[group].double())
    return torch.stack(made)


def _quantise(x: Tensor, _: Tensor) -> Tensor:
    held = x.double()
    return torch.round(held * 127 / held.abs().amax(1, keepdim=True))


def _swiglu(x: Tensor) -> Tensor:
    gate, up = x.double().chunk(2, 1)
    return torch.nn.functional.silu(gate) * up


def _neurons(current: Tensor) -> Tensor:
    drive = current.double()
    v, w = torch.full_like(drive, -1), torch.full_like(drive, -0.5)
    for _ in range(512):
        v = v + (drive - v**3 / 3 - w) * 0.05
        w = w + (v + 0.7 - w * 0.8) * 0.004
    return v


def _bag(table: Tensor, items: Tensor) -> Tensor:
    return sum(
        (table[each.long()].double() for each in items.T), torch.zeros((), device=items.device)
    )


def _retention(q: Tensor, k: Tensor, v: Tensor, gate: Tensor) -> Tensor:
    made = []
    for one, two, three, by_head in zip(q.double(), k.double(), v.double(), gate.double()):
        decay = torch.exp2(by_head[:, None] - by_head)
        made.append((one @ two.T * decay).tril() @ three)
    return torch.stack(made)


def _softmax_grad(y: Tensor, grad: Tensor) -> Tensor:
    held, d = y.double(), grad.double()
    return held * (d - (held * d).sum(1, keepdim=True))


def _adam(w: Tensor, grad: Tensor, mean: Tensor, square: Tensor) -> Tensor:
    g = grad.double()
    first = mean.double() * 0.9 + g * 0.1
    second = square.double().abs() * 0.99 + g * g * 0.01
    return torch.stack((w.double() - first * torch.rsqrt(second + 1e-8) * 0.001, first, second))


WORKS: Mapping[str, Work] = {
    "gemm": Work(("M K bfloat16", "N K bfloat16"), lambda a, b: a.double() @ b.double().T, 0.01),
    "gated": Work(("M K bfloat16", "N K bfloat16", "N float32"), _gated, 0.01),
    "gate_pair": Work(
        ("M K bfloat16", "N K bfloat16", "N K bfloat16"),
        lambda a, b, g: (a.double() @ b.double().T) * torch.sigmoid(a.double() @ g.double().T),
        0.01,
    ),
    "two_products": Work(
        ("M K bfloat16", "N K bfloat16", "M K bfloat16", "N K bfloat16"),
        lambda a, b, d, e: a.double() @ b.double().T + d.double() @ e.double().T, 0.01,
    ),
    "batched": Work(
        ("batch M K bfloat16", "batch K N bfloat16", "N float32"), _batched, 0.01
    ),
    "row_bias": Work(
        ("M K bfloat16", "N K bfloat16", "M float32"),
        lambda a, b, bias: torch.relu(a.double() @ b.double().T + bias.double()[:, None]), 0.01,
    ),
    "outer": Work(("K M bfloat16", "K N bfloat16"), lambda a, b: a.double().T @ b.double(), 0.01),
    "alibi": Work((*("heads length dim bfloat16",) * 3, "heads length float32"), _alibi, 0.02),
    "attention": Work(("heads length dim bfloat16",) * 3, _attention, 0.02),
    "softmax": Work(("M N bfloat16",), lambda x: torch.softmax(x.double(), 1), 0.01),
    "norm": Work(("M N bfloat16", "N bfloat16"), _norm, 0.01),
    "add_norm": Work(
        ("M N bfloat16", "M N bfloat16", "N bfloat16"),
        lambda x, r, w: _norm(x.double() + r.double(), w), 0.01,
    ),
    "layer_norm": Work(("M N float32",), _layer_norm, 1e-4),
    "balance": Work(("M N float32",), _balance, 1e-4),
    "cross_entropy": Work(("M N float32", "M int32 below:N"), _cross_entropy, 1e-5),
    "elementwise": Work(("M N float32", "M N float32"), _step, 1e-5),
    "rotary": Work(
        ("heads tokens dim bfloat16", "tokens half float32", "tokens half float32"), _rotary, 0.01
    ),
    "rounds": Work(("N uint32 below:2147483647",), _rounds, 0.0),
    "mu_law": Work(("M N int8", "M float32"), _mu_law, 0.01),
    "oscillate": Work(("N float32", "N float32"), _oscillate, 1e-4),
    "row_sum": Work(("M N float32",), lambda x: x.double().sum(1), 1e-5),
    "row_top": Work(("M N float32",), lambda x: x.double().amax(1), 0.0),
    "column_sum": Work(
        ("M N float32", "N float32"), lambda x, _: x.double().sum(0), 1e-4, adds_up=True
    ),
    "moments": Work(("M N float32", "2 N float32"), _moments, 1e-4, adds_up=True),
    "table": Work(("N int32 below:512",), _table, 1e-5),
    "gather": Work(("V N bfloat16", "M int32 below:V", "M float32"), _gather, 0.01),
    "pair_gather": Work(
        ("V N bfloat16", "P N bfloat16", "M int32 below:V", "M int32 below:P"), _pair_gather, 0.01
    ),
    "transpose": Work(("M N float32",), lambda x: x.double().T, 0.0),
    "transpose_flat": Work(("M N float32",), lambda x: x.double().T, 0.0),
    "residual": Work(
        ("M K bfloat16", "N K bfloat16", "N float32", "M N bfloat16"), _residual, 0.01
    ),
    "scores": Work(
        ("batch M K float16", "batch N K float16"),
        lambda a, b: a.double() @ b.double().transpose(1, 2) / 16, 0.01,
    ),
    "w8a8": Work(("M K int8", "N K int8", "M float32", "N float32"), _w8a8, 0.01),
    "causal": Work(
        ("heads length dim bfloat16", *("groups length dim bfloat16",) * 2), _causal, 0.02
    ),
    "log_softmax": Work(
        ("M N bfloat16",), lambda x: torch.log_softmax(x.double(), 1), 1e-5
    ),
    "quantise": Work(("M N bfloat16", "M float32"), _quantise, 0.01),
    "swiglu": Work(("M both bfloat16",), _swiglu, 0.01),
    "neurons": Work(("N float32",), _neurons, 1e-4),
    "cosine": Work(
        ("M N float32", "M N float32"),
        lambda x, y: torch.cosine_similarity(x.double(), y.double()), 1e-4,
    ),
    "channels_last": Work(
        ("batch C P float32",), lambda x: x.double().transpose(1, 2), 0.0
    ),
    "bag": Work(("V N bfloat16", "M L int32 below:V"), _bag, 1e-5),
    "split_k": Work(
        ("M K bfloat16", "N K bfloat16", "M N float32"),
        lambda a, b, _: a.double() @ b.double().T, 0.01, adds_up=True,
    ),
    "retention": Work(
        (*("heads length dim bfloat16",) * 3, "heads length float32"), _retention, 0.02
    ),
    "softmax_grad": Work(("M N bfloat16",) * 2, _softmax_grad, 0.01),
    "adam": Work(("M N float32",) * 4, _adam, 1e-5),
    "matvec": Work(("M N bfloat16", "N bfloat16"), lambda a, x: a.double() @ x.double(), 1e-4),
    "cast_transpose": Work(("M N float32",), lambda x: x.double().T, 0.01),
    "pages": Work(
        ("P size N bfloat16", "batch L int32 below:P"),
        lambda cache, index: cache[index.long()].double().flatten(1, 2), 0.0,
    ),
}  # fmt: skip

_PRODUCT = {"M": 200, "N": 136, "K": 192}
_MATRIX = {"M": 260, "N": 520}
SMALL: Mapping[str, Shape] = {
    **{name: _PRODUCT for name in ("gemm", "gated", "gate_pair", "two_products")},
    **{name: _PRODUCT for name in ("row_bias", "outer")},
    "batched": {"batch": 2, **_PRODUCT},
    "alibi": {"heads": 2, "length": 256, "dim": 64},
    "attention": {"heads": 1, "length": 256, "dim": 64},
    **{name: {"M": 33, "N": 512} for name in ("softmax", "norm", "layer_norm", "elementwise")},
    **{name: {"M": 33, "N": 512} for name in ("add_norm", "mu_law")},
    "balance": {"M": 2, "N": 512},
    "cross_entropy": {"M": 33, "N": 512},
    "rotary": {"heads": 2, "tokens": 72, "dim": 128, "half": 64},
    "rounds": {"N": 4100},
    **{name: _MATRIX for name in ("row_sum", "column_sum", "transpose", "transpose_flat")},
    "oscillate": {"N": 8200},
    "moments": _MATRIX,
    "row_top": {"M": 200, "N": 512},
    "table": {"N": 8200},
    "gather": {"V": 40, "N": 520, "M": 24},
    "pair_gather": {"V": 40, "P": 16, "N": 520, "M": 24},
    **{name: _PRODUCT for name in ("residual", "w8a8")},
    "scores": {"batch": 2, **_PRODUCT},
    "causal": {"heads": 4, "groups": 2, "length": 256, "dim": 64},
    **{name: {"M": 33, "N": 512} for name in ("log_softmax", "quantise")},
    "swiglu": {"M": 33, "both": 1040},
    "neurons": {"N": 8200},
    "cosine": _MATRIX,
    "channels_last": {"batch": 2, "C": 72, "P": 200},
    "bag": {"V": 40, "N": 136, "M": 24, "L": 6},
    "split_k": {"M": 200, "N": 136, "K": 2048},
    "retention": {"heads": 2, "length": 256, "dim": 64},
    "softmax_grad": {"M": 33, "N": 512},
    **{name: _MATRIX for name in ("adam", "matvec", "cast_transpose")},
    "pages": {"P": 12, "size": 16, "N": 136, "batch": 2, "L": 3},
}
"""Shapes that a processor is done with at once."""
