"""Blocks that take the next tile when they are free, on a real GPU: launch after launch, on two
streams at once, and from graphs."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tileprof

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
cuda: Any = torch.cuda
study: Any = importlib.import_module("case_studies.attention")

SHAPES = [(1, 4096, 8, 128), (2, 1000, 16, 64)]


def operands(batch: int, length: int, heads: int, dim: int, seed: int = 0) -> list[torch.Tensor]:
    """Queries, keys and values in bfloat16."""
    generator = torch.Generator("cuda").manual_seed(seed)
    shape = (batch, length, heads, dim)
    made = (torch.randn(shape, generator=generator, device="cuda") for _ in range(3))
    return [x.to(torch.bfloat16) for x in made]


def causal(order: str) -> Any:
    """Causal attention whose persistent blocks take their tiles in this order."""
    controls = tileprof.Controls(persistent=True, tile_order=order)
    return tileprof.jit(study.attention.function, controls=controls)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_many_launches(shape: tuple[int, ...]) -> None:
    """Each tile is computed alike in either order, so that results are equal bit by bit; a tile
    that was left out, or a counter that was left behind, would show in what was there before."""
    given = operands(*shape)
    want = [x.clone() for x in causal("static")(*given, causal=True)]
    kernel = causal("dynamic")
    for _ in range(20):
        out, lse = kernel(*given, causal=True)
        assert torch.equal(out, want[0])
        assert torch.equal(lse, want[1])
        out.fill_(7.0)
        lse.fill_(7.0)


def test_two_streams_at_once() -> None:
    """Small launches that fit the GPU together: their blocks run beside each other."""
    given = [operands(1, 2048, 2, 64, seed) for seed in range(2)]
    kernel = causal("dynamic")
    want = [[x.clone() for x in causal("static")(*each, causal=True)] for each in given]
    streams = [cuda.Stream() for _ in given]
    torch.cuda.synchronize()
    made: list[list[Any]] = [[], []]
    for _ in range(50):
        for at, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                made[at].append(kernel(*given[at], causal=True))
    torch.cuda.synchronize()
    for found, expected in zip(made, want):
        for each in found:
            assert all(torch.equal(x, y) for x, y in zip(each, expected))


def test_graphs() -> None:
    """A graph of three launches, replayed three times, beside launches that are in none."""
    given, other = operands(1, 2048, 4, 128), operands(1, 1024, 4, 128, 1)
    kernel = causal("dynamic")
    want = [x.clone() for x in causal("static")(*given, causal=True)]
    expected = [x.clone() for x in causal("static")(*other, causal=True)]
    for each in (given, other):
        kernel(*each, causal=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = [kernel(*given, causal=True) for _ in range(3)]
    beside = cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(3):
        for each in made:
            for x in each:
                x.fill_(7.0)
        torch.cuda.synchronize()
        graph.replay()
        with torch.cuda.stream(beside):
            found = [kernel(*other, causal=True) for _ in range(3)]
        torch.cuda.synchronize()
        assert all(torch.equal(x, y) for each in made for x, y in zip(each, want))
        assert all(torch.equal(x, y) for each in found for x, y in zip(each, expected))
