"""Programs that come to a bad end on a GPU, or meet little memory; prints what was launched.

faulting.py illegal|inside|full|subscribed
faulting.py replays plain|pc_sampling|timeline
faulting.py ended flush|end
"""

from __future__ import annotations

import ctypes
import json
import sys
import time
from collections.abc import Iterator

import torch
import triton
import triton.language as tl
from ours import shift_and_scale

import tileprof
from tests.profiler.ended_in_flush import end_in_flush
from tileprof.profiler.session.recording import open_sessions

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


def rounds() -> Iterator[int]:
    """Replay a graph of ten kernels a hundred times in each round, for two minutes.

    Each round is waited for; yields how many there have been.
    """
    x = torch.ones(4096, device="cuda")
    y = torch.empty_like(x)
    torch.neg(x, out=y)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            torch.neg(x, out=y)
    until, done = time.monotonic() + 120, 0
    while time.monotonic() < until:
        with tileprof.scope("replays"):
            for _ in range(100):
                graph.replay()
            torch.neg(x, out=y)
            torch.cuda.synchronize()
        done += 1
        yield done


def replays() -> None:
    """Replay until somebody ends the process; files are written nearly all the time."""
    options = {} if sys.argv[2] == "plain" else {sys.argv[2]: True}
    with tileprof.profile("out.tprof", flush_interval=0.05, **options):
        for _ in rounds():
            pass


def ended() -> None:
    """Replay until SIGTERM comes in the middle of a flush; prints how many rounds were over.

    It comes in a flush while rounds go on, or in the last one, while work is still under way.
    """
    at_end, done = sys.argv[2] == "end", 0
    end_in_flush(
        lambda: done >= 20, lambda: print(json.dumps({"rounds": done}), flush=True), forced=at_end
    )
    for done in rounds():
        if at_end and done == 20:
            torch.cuda._sleep(500_000_000)  # about 0.3 s
            (session,) = open_sessions()
            session.finalize()
            time.sleep(60)


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
        case "ended":
            ended()
        case "subscribed":
            subscribed()


if __name__ == "__main__":
    main()
