"""The loss of a language model with smoothed labels and its gradient, a row a program: as written,
and after each advice.

    python case_studies/advice/study.py --only triton

Imported only where Triton is. `num_warps` is Triton's own default in the first version.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import triton
import triton.language as tl

SHAPE = {"rows": 4096, "words": 32000}
SMALL = {"rows": 3, "words": 100}
SMOOTHING = 0.1
LIMIT = 1e-4
"""How far a result may be from that in float64, as a share of the greatest element."""


def smoothed_loss(
    loss, gradient, logits, targets, words, smoothing, scale, block: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, block)
    begin = row.to(tl.int64) * words
    x = tl.load(logits + begin + at, mask=at < words, other=-float("inf"))
    target = tl.load(targets + row)
    top = tl.max(x, 0)
    e = tl.exp(x - top)
    # In double, so that sums over the whole vocabulary lose no digits.
    total = tl.sum(e.to(tl.float64), 0).to(tl.float32)
    mean = tl.sum(tl.where(at < words, x, 0.0).to(tl.float64), 0).to(tl.float32) / words
    aim = tl.sum(tl.where(at == target, x, 0.0), 0)
    tl.store(loss + row, top + tl.log(total) - (1 - smoothing) * aim - smoothing * mean)
    wanted = tl.where(at == target, 1 - smoothing, 0.0) + smoothing / words
    tl.store(gradient + begin + at, (e / total - wanted) * scale, mask=at < words)


def smoothed_loss_in_floats(
    loss, gradient, logits, targets, words, smoothing, scale, block: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, block)
    begin = row.to(tl.int64) * words
    x = tl.load(logits + begin + at, mask=at < words, other=-float("inf"))
    target = tl.load(targets + row)
    top = tl.max(x, 0)
    e = tl.exp(x - top)
    total = tl.sum(e, 0)
    mean = tl.sum(tl.where(at < words, x, 0.0), 0) / words
    aim = tl.sum(tl.where(at == target, x, 0.0), 0)
    tl.store(loss + row, top + tl.log(total) - (1 - smoothing) * aim - smoothing * mean)
    wanted = tl.where(at == target, 1 - smoothing, 0.0) + smoothing / words
    tl.store(gradient + begin + at, (e / total - wanted) * scale, mask=at < words)


VERSIONS: Mapping[str, tuple[Callable[..., Any], Mapping[str, int]]] = {
    "before": (smoothed_loss, {}),
    "more_warps": (smoothed_loss, {"num_warps": 16}),
    "floats": (smoothed_loss_in_floats, {"num_warps": 16}),
}
"""Functions with what is given at their launch; the first is as somebody wrote it."""


def inputs(shape: Mapping[str, int], device: str) -> list[torch.Tensor]:
    """Logits and the right words."""
    generator = torch.Generator(device=device).manual_seed(0)
    extents = (shape["rows"], shape["words"])
    logits = torch.randn(extents, device=device, generator=generator) * 3
    targets = torch.randint(0, shape["words"], extents[:1], device=device, generator=generator)
    return [logits, targets]


def reference(given: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Loss and gradient of each row, in float64."""
    logits, targets = given[0].double().requires_grad_(), given[1]
    loss = torch.nn.functional.cross_entropy(
        logits, targets, reduction="none", label_smoothing=SMOOTHING
    )
    (gradient,) = torch.autograd.grad(loss.mean(), logits)
    return loss.detach(), gradient


def fresh(version: str, given: Sequence[torch.Tensor]) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A call of a kernel that was not loaded before; its result is the loss and the gradient."""
    function, options = VERSIONS[version]
    kernel, (logits, targets) = triton.jit(function), given
    rows, words = logits.shape
    loss, gradient = torch.empty(rows, device=logits.device), torch.empty_like(logits)
    block = triton.next_power_of_2(words)

    def run() -> tuple[torch.Tensor, ...]:
        kernel[(rows,)](
            loss, gradient, logits, targets, words, SMOOTHING, 1 / rows, block=block, **options
        )
        return loss, gradient

    return run
