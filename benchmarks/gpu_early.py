"""Gains of early starts: launches, and short kernels one after the other, with them and without.

In: kernels of `gpu_kernels`, each compiled with the control `early_launch` and without.  Out: rows
in µs a kernel, from batches that are timed in turns; the time without is what is asked.  Both ways
have to give the same elements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import gpu_kernels as kernels
import torch
from gpu_costs import QUEUED, Cost, launch_cost
from launch_floor import driver_us
from measuring import compare, replayed

import tileprof
from tileprof.errors import InternalError


@dataclass(frozen=True)
class Chain:
    """Kernels that each read what the one before them wrote."""

    run: Callable[[], Any]
    kernels: int
    result: torch.Tensor


def early_costs() -> Iterator[Cost]:
    """A launch with an early start, then chains of kernels with early starts and without."""
    x, y, z = (torch.ones(1024, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    add = _jit(kernels.add_into, early=True)
    bound = add.compile(N=x.numel()).bound(x, y, z, device="cuda:0")
    launch = launch_cost(
        "launch, three tensors, early start",
        lambda: add(x, y, z),
        lambda: torch.add(x, y, out=z),
        lambda: driver_us(bound, QUEUED),
    )
    yield replace(launch, asked=3.5)
    for name, make in {
        "add of 2 KB": partial(_adds, 1 << 10),
        "add of 2 KB, every other by torch": partial(_adds, 1 << 10, torch_too=True),
        "add of 8 MB": partial(_adds, 1 << 22),
        "add of 128 MB": partial(_adds, 1 << 26),
        "norm and product of 512": partial(_layers, 512),
        "norm and product of 2048": partial(_layers, 2048),
    }.items():
        chains = make(early=True), make(early=False)
        yield _cost(f"early start, {name}", chains, [each.run for each in chains])
        replays = [replayed([each.run]) for each in chains]
        yield _cost(f"early start, {name}, a graph", chains, replays)


def _jit(kernel: Any, *, early: bool) -> Any:
    return tileprof.jit(kernel.function, controls={"early_launch": early})


def _cost(name: str, chains: tuple[Chain, Chain], runs: list[Callable[[], Any]]) -> Cost:
    """One row: chains with early starts and without, each with what runs it."""
    early, late = runs
    found = compare(early, {"without": late})[0]
    for chain, run in zip(chains, runs, strict=True):
        chain.result.zero_()
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    if not torch.equal(*(chain.result for chain in chains)):
        raise InternalError(f"{name}: early starts change the result")
    each = 1e3 / chains[0].kernels
    note = f"gain {found.ratio:.3f} [{found.low:.3f}, {found.high:.3f}]"
    details = {"ratio": found.ratio, "low": found.low, "high": found.high}
    return Cost(name, found.ours_ms * each, "µs", found.peer_ms * each, note, details)


def _adds(count: int, *, early: bool, torch_too: bool = False, pairs: int = 16) -> Chain:
    """Each kernel adds 1 to all elements; a few rounds from 0 are exact in bfloat16."""
    add = _jit(kernels.add_into, early=early)
    one, there, back = (torch.ones(count, device="cuda", dtype=torch.bfloat16) for _ in range(3))

    def run() -> None:
        for _ in range(pairs):
            add(there, one, back)
            if torch_too:
                torch.add(back, one, out=there)
            else:
                add(back, one, there)

    return Chain(run, 2 * pairs, there)


def _layers(size: int, *, early: bool, pairs: int = 8) -> Chain:
    """Rows that are normalised and multiplied, as in layers of a network."""
    norm, product = (_jit(k, early=early) for k in (kernels.rms_norm, kernels.matmul))
    torch.manual_seed(0)
    x, w = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    scale, result = torch.ones_like(w[0]), torch.empty_like(x)

    def run() -> None:
        held = x
        for _ in range(pairs):
            held = product(norm(held, scale), w)
        result.copy_(held)

    return Chain(run, 2 * pairs + 1, result)
