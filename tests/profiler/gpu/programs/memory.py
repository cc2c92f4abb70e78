"""Programs whose device memory is known: PyTorch's own statistics are the witness.

memory.py MODE     prints PyTorch's statistics of device 0 as JSON at the end
"""

from __future__ import annotations

import ctypes
import json
import sys
import threading
import time

import torch
from torch import nn

import tileprof

MB = 1 << 20
held = []


def model(width=512):
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.LayerNorm(width)
    ).cuda()


def steps(count, keep=False):
    """Train; with `keep`, each step's loss stays, and its graph with it."""
    network = model()
    optimizer = torch.optim.AdamW(network.parameters(), 1e-4)
    for _ in range(count):
        x = torch.randn(64, 512, device="cuda")
        loss = network(x).square().mean()
        if keep:
            held.append(loss)
        else:
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()


def training():
    steps(6)


def leak():
    steps(16, keep=True)


def threads():
    """Each trains a model of its own, and hands tensors to a stream of its own."""

    def work():
        side = torch.cuda.Stream()
        network = model(256)
        for _ in range(10):
            x = torch.randn(128, 256, device="cuda")
            network(x).sum().backward()
            with torch.cuda.stream(side):
                y = x * 2
            x.record_stream(side)
            del x, y

    many = [threading.Thread(target=work) for _ in range(4)]
    for each in many:
        each.start()
    for each in many:
        each.join()


def whole_blocks():
    """Only sizes that the allocator rounds to themselves."""
    a = torch.empty(20 * MB, dtype=torch.uint8, device="cuda")
    b = torch.empty(12 * MB, dtype=torch.uint8, device="cuda")
    del a
    c = torch.empty(14 * MB, dtype=torch.uint8, device="cuda")
    d = torch.empty(40 * MB, dtype=torch.uint8, device="cuda")
    held.extend([b, c])
    del d


def driver():
    """Memory of the driver's beside PyTorch's."""
    held.append(torch.empty(4 * MB, dtype=torch.uint8, device="cuda"))
    cuda, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    with tileprof.scope("by hand"):
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 * MB)) == 0
        assert cuda.cuMemFree_v2(address) == 0


def late():
    """What was there when the recording began, and is released in it."""
    weights = [torch.empty(32 * MB, dtype=torch.uint8, device="cuda") for _ in range(3)]
    with tileprof.profile("out.tprof", memory=True):
        x = torch.empty(10 * MB, dtype=torch.uint8, device="cuda")
        weights.pop()
        held.append(x)


def too_much():
    """A request that fails."""
    try:
        torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        held.append(torch.empty(1, device="cuda"))


def cost():
    """Time of an allocation with its release, ns."""
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter_ns()
        for _ in range(5000):
            torch.empty(1024, device="cuda")
        best = min(best, (time.perf_counter_ns() - began) / 5000)
    held.append(best)


globals()[sys.argv[1]]()
torch.cuda.synchronize()
stats = torch.cuda.memory_stats()
told = {key.replace(".", "_"): value for key, value in stats.items() if ".all." in key}
told["max_memory_allocated"] = torch.cuda.max_memory_allocated()
told["ns"] = held[-1] if sys.argv[1] == "cost" else 0
print(json.dumps(told))
