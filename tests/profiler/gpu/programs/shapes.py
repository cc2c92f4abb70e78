"""A program whose tree is known: every call below is in `tests/profiler/gpu/shapes.py`.

    shapes.py cuda|cpu

Each of `neg`, `exp2`, `sqrt`, `floor`, `ceil`, `sin` is one operation, and one kernel on a GPU.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator

import torch

import tileprof

DEVICE = sys.argv[1]
Tensor = torch.Tensor


class Function(torch.autograd.Function):
    """One operation forward, another one backward."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return torch.neg(x)

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        return torch.exp2(gradient)


def model(x: Tensor) -> Tensor:
    return Function.apply(Function.apply(x))


def train(x: Tensor) -> None:
    """Three steps, one backward pass each, all in the thread that calls."""
    for step in range(3):
        with tileprof.scope(f"step {step}"):
            y = model(x)
            torch.autograd.grad(y, x, torch.ones_like(x))


def descend(x: Tensor, frames: int) -> None:
    """So many frames of this function, the last one with an operation."""
    if frames == 1:
        torch.sqrt(x)
    else:
        descend(x, frames - 1)


def recurse(x: Tensor, depth: int) -> None:
    """An operation at each level, to both sides of a tree."""
    torch.floor(x)
    if depth > 1:
        recurse(x, depth - 1)
        recurse(x, depth - 1)


def generate(x: Tensor) -> Iterator[Tensor]:
    """Three operations, each in its own resumption."""
    for _ in range(3):
        yield torch.ceil(x)


def consume(x: Tensor) -> None:
    values = generate(x)
    next(values)
    other(values)


def other(values: Iterator[Tensor]) -> None:
    for _ in values:
        pass


async def request(x: Tensor, name: str) -> None:
    """An operation on both sides of an `await`, within a scope that stays open across it."""
    with tileprof.scope(name):
        torch.sin(x)
        await asyncio.sleep(0)
        await answer(x)


async def answer(x: Tensor) -> None:
    torch.sin(x)


async def serve(x: Tensor) -> None:
    await asyncio.gather(request(x, "first"), request(x, "second"))


def asynchronous(x: Tensor) -> None:
    asyncio.run(serve(x))


def main() -> None:
    x = torch.ones(64, device=DEVICE, requires_grad=True)
    threads = [threading.Thread(target=train, args=(x,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    y = x.detach()
    descend(y, 200)
    recurse(y, 3)
    consume(y)
    asynchronous(y)
    if DEVICE == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
