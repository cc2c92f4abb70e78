"""Two CUDA graphs, one captured before the recording starts and one after; prints nothing.

graphs.py OUTPUT
"""

from __future__ import annotations

import sys

import torch

import tileprof


def work(x: torch.Tensor) -> None:
    """Three kernels."""
    torch.neg(x)
    torch.sqrt(x)
    torch.neg(x)


def capture(x: torch.Tensor) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work(x)
    return graph


def replay_early(graph: torch.cuda.CUDAGraph) -> None:
    for _ in range(5):
        graph.replay()


def replay_late(graph: torch.cuda.CUDAGraph) -> None:
    for _ in range(7):
        graph.replay()


def main() -> None:
    x = torch.ones(64, device="cuda")
    work(x)
    early = capture(x)
    torch.cuda.synchronize()
    with tileprof.profile(sys.argv[1]):
        late = capture(x)
        replay_early(early)
        replay_late(late)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
