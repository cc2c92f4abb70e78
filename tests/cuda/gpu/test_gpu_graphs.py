"""Kernels that report from graphs: `python -m pytest -m gpu tests/cuda/gpu`."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu
tiles: Any = importlib.import_module("tests.cuda.gpu.tiles")


def test_many_launches_in_a_graph() -> None:
    """More than were ever waited for."""
    table = torch.arange(100, device="cuda", dtype=torch.float32)
    index = torch.randint(0, 100, (1024,), device="cuda", dtype=torch.int32)
    expected = tiles.picked(table, index).clone()
    graph, made = torch.cuda.CUDAGraph(), list[torch.Tensor]()
    with torch.cuda.graph(graph):
        made += [tiles.picked(table, index) for _ in range(5)]
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(each, expected) for each in made)
