"""A stretch that memory bounds, a pause, a stretch that matrix products bound.

over_time.py SECONDS    Prints, as JSON, launches and the time of one in ms, by stretch; and the
                        bytes that a launch of the first one moves.
"""

from __future__ import annotations

import json
import sys
import time

import torch

import tileprof

ELEMENTS = 1 << 27


def stretch(name, work, seconds):
    """Launch work for some time; how often, and ms of each."""
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    launches = 0
    with tileprof.scope(name):
        until = time.monotonic() + seconds
        begin.record()
        while time.monotonic() < until:
            for _ in range(10):
                work()
            launches += 10
            # So that the queue does not grow without end.
            torch.cuda.synchronize()
        end.record()
        torch.cuda.synchronize()
    return {"launches": launches, "ms": begin.elapsed_time(end) / launches}


def main() -> None:
    seconds = float(sys.argv[1])
    a = torch.randn(ELEMENTS, device="cuda")
    b = torch.empty_like(a)
    m, n = (torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    out = torch.empty_like(m)
    told = {"bytes": 8 * ELEMENTS}
    told["copies"] = stretch("copies", lambda: torch.add(a, 1, out=b), seconds)
    with tileprof.scope("idle"):
        time.sleep(0.2)
    told["products"] = stretch("products", lambda: torch.mm(m, n, out=out), seconds)
    print(json.dumps(told))


main()
