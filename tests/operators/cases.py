"""The case studies' operators beside the same functions of PyTorch, and arguments for both.

In: how to draw.  Out: `Case`, the operator, PyTorch's function and arguments that both take.  Tests
on the processor and on a GPU share them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F


@dataclass(frozen=True)
class Draw:
    """Normal numbers on a device; extents are small and no multiples of tiles, or a model's."""

    device: str = "cpu"
    dtype: Any = torch.float64
    wide: bool = False
    rows: int = 5
    """Extent of the dimension that a batch of another size changes, where extents are small."""

    def __call__(self, *shape: int, gradient: bool = True) -> Any:
        """A tensor, which requires a gradient unless it has none."""
        made = torch.randn(*shape, dtype=torch.float64).to(self.device, self.dtype)
        return made.requires_grad_(gradient)

    @property
    def sums(self) -> Any:
        """The type in which kernels add up."""
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def whole(self, *numbers: int, dtype: Any = torch.int64) -> Any:
        """A tensor of these whole numbers."""
        return torch.tensor(numbers, dtype=dtype, device=self.device)


@dataclass(frozen=True)
class Case:
    """An operator, what it should compute, and arguments."""

    operator: Any
    expected: Callable[..., Any]
    given: tuple[Any, ...]

    @property
    def wanted(self) -> list[Any]:
        """The arguments that require gradients."""
        return [x for x in self.given if getattr(x, "requires_grad", False)]


def study(name: str) -> Any:
    """A module of the operators."""
    return importlib.import_module(f"case_studies.operators.{name}")


def rms_norm(draw: Draw) -> Case:
    """Rows of two dimensions, more than a tile of them."""
    shape = (16, 128, 1024) if draw.wide else (3, draw.rows, 12)

    def expected(x: Any, weight: Any) -> Any:
        return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)

    return Case(study("norms").rms_norm, expected, (draw(*shape), draw(shape[-1])))


def softmax(draw: Draw) -> Case:
    """Rows that are no multiple of anything."""
    shape = (16, 128, 1024) if draw.wide else (3, draw.rows, 7)
    return Case(study("norms").softmax, lambda x: x.softmax(-1), (draw(*shape),))


def cross_entropy(draw: Draw) -> Case:
    """Two rows are ignored, if there are as many."""
    rows, classes = (2048, 5000) if draw.wide else (draw.rows, 7)

    def expected(logits: Any, targets: Any) -> Any:
        return F.cross_entropy(logits, targets, reduction="none")

    targets = draw.whole(*(-100 if n % 4 == 2 else n * 5 % classes for n in range(rows)))
    return Case(study("losses").cross_entropy, expected, (draw(rows, classes), targets))


def attention(draw: Draw) -> Case:
    """Two heads of queries share keys, and there are more keys than queries."""

    def expected(q: Any, k: Any, v: Any, causal: bool) -> Any:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        ahead = k.shape[2] - q.shape[2]
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(ahead)
        mask = seen if causal else None
        found = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        return found.transpose(1, 2)

    queries, keys, heads, dim = (
        (512, 640, 8, 64) if draw.wide else (draw.rows, draw.rows + 2, 2, 16)
    )
    shared = 1, keys, heads // 2, dim
    given = draw(1, queries, heads, dim), draw(*shared), draw(*shared), True
    return Case(study("attention").attention, expected, given)


def mlp(draw: Draw) -> Case:
    """Exact GELU between two products."""

    def expected(x: Any, up: Any, down: Any) -> Any:
        return F.linear(F.gelu(F.linear(x, up)), down)

    rows, width, hidden = (512, 512, 2048) if draw.wide else (draw.rows, 8, 16)
    # Weights that keep the size of what they multiply, as those of a model do.
    up, down = draw(hidden, width), draw(width, hidden)
    if draw.wide:
        with torch.no_grad():
            up *= width**-0.5
            down *= hidden**-0.5
    return Case(study("products").mlp, expected, (draw(2, rows, width), up, down))


def int4_linear(draw: Draw) -> Case:
    """Two groups of weights in a row."""

    def expected(x: Any, packed: Any, scales: Any) -> Any:
        weights = torch.stack([packed & 15, packed >> 4], -1).flatten(1).to(scales.dtype) - 8
        return x @ (weights * scales.repeat_interleave(32, 1)).T.to(x.dtype)

    rows, width, features = (256, 1024, 512) if draw.wide else (draw.rows, 64, 6)
    packed = torch.randint(0, 256, (features, width // 2), dtype=torch.uint8).to(draw.device)
    scales = torch.rand(features, width // 32, dtype=draw.sums).to(draw.device) / width**0.5
    return Case(study("products").int4_linear, expected, (draw(2, rows, width), packed, scales))


def grouped_linear(draw: Draw) -> Case:
    """An expert without rows between two others."""
    rows, width, features = (1000, 512, 256) if draw.wide else (draw.rows, 8, 6)

    def expected(x: Any, weights: Any, ends: Any) -> Any:
        parts = torch.tensor_split(x, ends[:-1].tolist())
        return torch.cat([rows @ matrix for rows, matrix in zip(parts, weights, strict=True)])

    first = rows * 2 // 5
    ends = draw.whole(first, first, rows, dtype=torch.int32)
    weights = draw(3, width, features)
    if draw.wide:
        with torch.no_grad():
            weights *= width**-0.5
    return Case(study("experts").grouped_linear, expected, (draw(rows, width), weights, ends))


OPERATORS: list[Callable[[Draw], Case]] = [
    rms_norm, softmax, cross_entropy, attention, mlp, int4_linear, grouped_linear,
]  # fmt: skip
