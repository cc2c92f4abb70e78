"""One thread's work in a soak: kinds of launches in an order of its own, each in a scope.

In: the number of the thread and its device.  Out: launches, counted by kind of work.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

import tileprof
from benchmarks.reliability.soaking.kernels import shift_and_scale

__all__ = ["BATCH", "IN_GRAPH", "Worker"]

ELEMENTS = 4096
BATCH = 20
"""Launches between two looks at the clock."""
IN_GRAPH = 7
"""Kernels of the captured graph."""

Job = Callable[[], int]
"""Does one batch; returns how many kernels or copies it has launched."""


class Worker:
    """One thread's arrays, streams and graph, and what it has launched by kind of work."""

    def __init__(self, number: int, device: str) -> None:
        self.number = number
        self.device = device
        self.launched: Counter[str] = Counter()
        self.error = ""
        self.x = torch.ones(ELEMENTS, device=device)
        self.y = torch.empty_like(self.x)
        self.jobs: dict[str, Job] = {"torch": self._torch, "ours": self._ours}
        if device == "cuda":
            new_stream: Any = torch.cuda.Stream
            self.second = new_stream()
            self.pinned = torch.ones(ELEMENTS).pin_memory()
            self.graph = self._captured()
            self.jobs |= {"graph": self._graph, "stream": self._stream, "copies": self._copies}

    def run(self, until: float) -> None:
        """Work until a time of `time.monotonic`."""
        chance = random.Random(self.number)
        names = list(self.jobs)
        try:
            while time.monotonic() < until:
                name = chance.choice(names)
                with tileprof.scope(f"{name} of thread {self.number}"):
                    self.launched[name] += self.jobs[name]()
                if self.device == "cuda" and chance.random() < 0.2:
                    torch.cuda.current_stream().synchronize()
        except Exception as error:
            self.error = f"{type(error).__name__}: {error}"

    def _captured(self) -> Any:
        torch.neg(self.x, out=self.y)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(IN_GRAPH):
                torch.neg(self.x, out=self.y)
        return graph

    def _torch(self) -> int:
        for _ in range(BATCH):
            torch.neg(self.x, out=self.y)
        return BATCH

    def _ours(self) -> int:
        for _ in range(BATCH):
            shift_and_scale(self.x, self.y)
        return BATCH

    def _graph(self) -> int:
        self.graph.replay()
        return IN_GRAPH

    def _stream(self) -> int:
        with torch.cuda.stream(self.second):
            for _ in range(BATCH):
                torch.neg(self.x, out=self.y)
        torch.cuda.current_stream().wait_stream(self.second)
        return BATCH

    def _copies(self) -> int:
        for _ in range(BATCH // 2):
            self.y.copy_(self.pinned, non_blocking=True)
            self.pinned.copy_(self.y, non_blocking=True)
        return BATCH // 2 * 2
