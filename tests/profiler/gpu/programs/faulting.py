"""Programs that come to a bad end on a GPU, or meet little memory; prints what was launched.

faulting.py illegal|inside|full|subscribed
faulting.py replays plain|pc_sampling|timeline
"""

from __future__ import annotations

import ctypes
import json
import sys
import time

import torch
import triton
import triton.language as tl
from ours import shift_and_scale

import tileprof

COUNT = 500
LEFT = 16 << 20
"""Bytes of the device that stay free."""


@triton.jit
def wild(X, far):
    tl.store(X + far, 1.0)


def plain(count: int) -> None:
    x = torch.ones(4096, device="cuda")
    y = torch.empty_like(x)
    torch.cuda.synchronize()
    with tileprof.scope("before"):
        for _ in range(count):
            torch.neg(x, out=y)
        torch.cuda.synchronize()


def ours(count: int) -> None:
    x = torch.ones(4096, device="cuda")
    y = torch.empty_like(x)
    with tileprof.scope("ours"):
        for _ in range(count):
            shift_and_scale(x, y)
        torch.cuda.synchronize()
    assert bool((y == 1).all())


def illegal() -> None:
    wild[(1,)](torch.ones(1, device="cuda"), 1 << 40)
    torch.cuda.synchronize()


def fill() -> list[torch.Tensor]:
    """Take all memory of the device but a little."""
    held, size = [], 1 << 36
    while size >= LEFT // 4:
        free, _ = torch.cuda.mem_get_info()
        if free < LEFT + size:
            size //= 2
            continue
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    return held


def replays() -> None:
    """Replay a graph until somebody ends it."""
    x = torch.ones(4096, device="cuda")
    y = torch.empty_like(x)
    torch.neg(x, out=y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            torch.neg(x, out=y)
    until = time.monotonic() + 120
    options = {} if sys.argv[2] == "plain" else {sys.argv[2]: True}
    # Files are written nearly all the time.
    with tileprof.profile("out.tprof", flush_interval=0.05, **options):
        while time.monotonic() < until:
            with tileprof.scope("replays"):
                for _ in range(100):
                    graph.replay()
                torch.neg(x, out=y)
                torch.cuda.synchronize()


def subscribed() -> None:
    """Subscribe to CUPTI, as another tool does, and record."""
    from tileprof.profiler.cupti.cupti_library import find_cupti

    found = find_cupti()
    assert found is not None
    cupti = ctypes.CDLL(str(found.path))
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(
        lambda *_: None
    )
    handle = ctypes.c_void_p()
    assert cupti.cuptiSubscribe(ctypes.byref(handle), callback, None) == 0
    with tileprof.profile("out.tprof"):
        plain(COUNT)


def main() -> None:
    match sys.argv[1]:
        case "illegal":
            plain(COUNT)
            illegal()
        case "inside":
            ours(COUNT)
            illegal()
        case "full":
            # What the program itself needs is loaded before, and PyTorch keeps what is freed.
            assert bool((torch.ones(4096, device="cuda") == 1).all())
            held = fill()
            ours(COUNT)
            print(json.dumps({"count": COUNT, "held": sum(map(len, held))}))
        case "replays":
            replays()
        case "subscribed":
            subscribed()


if __name__ == "__main__":
    main()
