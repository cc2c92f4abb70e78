"""The programs whose time is taken with and without a profiler, each a process that is told when.

    python benchmarks/overhead_programs.py WORK [--cpu] [--peer NAME] [--output FILE]

In, on standard input: a line `burst WARM UNITS`, and `end`.  Out, on standard output: a line of
JSON behind `@` for each.  Between bursts the process only waits, so that several of them take
turns on one machine.  Nothing here knows whether `tileprof run` started it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch
from overhead_floor import Floor
from overhead_peers import PEERS, Peer
from torch import nn
from torch.nn import functional

Run = Callable[[int], None]
"""Does so many steps, or launches."""
DEEP = 50
"""Python frames between the loop that launches and the program."""


class Block(nn.Module):
    """A transformer block, causal, with the norms before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.before_mlp = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, width) to the same."""
        x = x + self.attention(self.before_attention(x))
        return x + self.down(functional.gelu(self.up(self.before_mlp(x))))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, width) to the same."""
        batch, steps, width = x.shape
        split = (batch, steps, self.heads, width // self.heads)
        q, k, v = (part.view(split).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.projection(mixed.transpose(1, 2).reshape(batch, steps, width))


class Gpt(nn.Module):
    """A decoder with as many parameters as GPT-2 medium: 355 M at width 1024 and 24 blocks."""

    def __init__(self, width: int, blocks: int, heads: int, vocabulary: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss of (batch, time) tokens."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        logits = self.norm(self.blocks(x)) @ self.tokens.weight.t()
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def training(device: str) -> Run:
    """Twelve small blocks, d256, batch 4×64, forward, backward, SGD one parameter at a time.

    On the CPU the tensors are smaller still, so that there too the time is that of the dispatch.
    """
    width, batch, length = (256, 4, 64) if device == "cuda" else (32, 1, 16)
    model = nn.Sequential(*(Block(width, 4) for _ in range(12))).to(device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, foreach=False)
    x = torch.randn(batch, length, width, device=device)

    def step() -> None:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()

    return repeated(step)


def gpt(device: str) -> Run:
    """Training that keeps the GPU busy: bf16, 16×1024 tokens a step."""
    on_gpu = device == "cuda"
    sizes = (1024, 24, 16, 50304, 1024) if on_gpu else (64, 2, 4, 512, 64)
    model = Gpt(*sizes).to(device, torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    shape = (16, 1025) if on_gpu else (2, 65)
    tokens = torch.randint(0, sizes[3], shape, device=device)

    def step() -> None:
        optimizer.zero_grad()
        loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()

    return repeated(step)


def repeated(step: Callable[[], None]) -> Run:
    """A loop over steps."""

    def run(units: int) -> None:
        for _ in range(units):
            step()

    return run


def launches(device: str) -> Run:
    """`x.add_(1)`, one element."""
    x = torch.zeros(1, device=device)

    def run(units: int) -> None:
        for _ in range(units):
            x.add_(1)

    return run


def deep(device: str) -> Run:
    """The same loop under 50 more frames of Python."""
    run = launches(device)

    def descend(frames: int, units: int) -> None:
        if frames == 0:
            run(units)
        else:
            descend(frames - 1, units)

    return lambda units: descend(DEEP - 1, units)


def gemm(device: str) -> Run:
    """Products of 4096 × 4096 in bf16, one behind the other: a fifth of a millisecond each."""
    a, b = (torch.randn(4096, 4096, device=device, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)

    def product() -> None:
        torch.mm(a, b, out=out)

    return repeated(product)


WORKS = {"training": training, "gpt": gpt, "launches": launches, "deep": deep, "gemm": gemm}


def memory() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def answer(**values: Any) -> None:
    """A line for whoever started the process."""
    print(f"@{json.dumps(values)}", flush=True)


def burst(run: Run, peer: Peer, wait: Callable[[], None], warm: int, units: int) -> dict[str, Any]:
    """Seconds of some units after some that warm up, and of the peer's own ending."""
    peer.start()
    run(warm)
    wait()
    began, processor = time.perf_counter(), time.process_time()
    run(units)
    wait()
    times = {
        "seconds": time.perf_counter() - began,
        "processor": time.process_time() - processor,
    }
    began, processor = time.perf_counter(), time.process_time()
    peer.stop()
    times["stopping"] = time.perf_counter() - began
    times["stopping_processor"] = time.process_time() - processor
    return {**times, "memory": memory(), **peer.counts()}


def serve(run: Run, peer: Peer, wait: Callable[[], None]) -> None:
    """Do what standard input says."""
    run(3)
    wait()
    answer(ready=True, memory=memory())
    while line := sys.stdin.readline():
        order, *numbers = line.split()
        if order == "end":
            break
        answer(**burst(run, peer, wait, *map(int, numbers)))
    began = time.perf_counter()
    peer.finish()
    # The clock of file times, so that the writing of a profile can be counted from here.
    answer(finishing=time.perf_counter() - began, ended_ns=time.time_ns())


def main() -> None:
    """Make the work ready and serve it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--cpu", action="store_true")
    peers = {**PEERS, "floor": Floor}
    parser.add_argument("--peer", choices=peers, default="none")
    parser.add_argument("--output", default="")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1 if args.cpu else torch.get_num_threads())
    wait = (lambda: None) if args.cpu else torch.cuda.synchronize
    run = WORKS[args.work]("cpu" if args.cpu else "cuda")
    serve(run, peers[args.peer](args.cpu, args.output), wait)


if __name__ == "__main__":
    main()
