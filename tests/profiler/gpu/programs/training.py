"""Some steps of training; the work of `measured` is seen by us or by torch.profiler.

training.py [--witness]     with `--witness`, prints torch.profiler's names, counts and times
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

import tileprof


class Block(nn.Module):
    """A transformer block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, steps, width = x.shape
        parts = self.qkv(self.norm(x)).view(batch, steps, 3, 8, width // 8)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, steps, width))
        return x + self.mlp(x)


@contextlib.contextmanager
def witnessed() -> Iterator[None]:
    """Print what torch.profiler sees of kernels, copies and fills."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        yield
        torch.cuda.synchronize()
    found: dict[str, list[float]] = {}
    for event in seen.profiler.kineto_results.events():
        if event.device_type().name == "CUDA" and not event.is_user_annotation():
            count, time = found.get(event.name(), [0, 0.0])
            found[event.name()] = [count + 1, time + event.duration_ns()]
    print(json.dumps(found))


def main() -> None:
    torch.manual_seed(0)
    model: Any = nn.Sequential(*(Block(1024) for _ in range(4))).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, foreach=False)
    host = torch.randn(8, 512, 1024, dtype=torch.bfloat16)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(host.to("cuda")).float().square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(3):
        step()
    torch.cuda.synchronize()
    with witnessed() if "--witness" in sys.argv else tileprof.scope("measured"):
        for _ in range(10):
            step()
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
