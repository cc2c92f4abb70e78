"""Launches that the program itself counts, by the names of its kernels.

counting.py SECONDS THREADS     prints the counts, and memory early and late
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import torch
import triton
import triton.language as tl


def told(grid, kernel, arguments):
    """Flops and bytes of a launch, as the kernel's author gives them."""
    return {"name": kernel.name, "flops32": arguments["n"], "bytes": 8 * arguments["n"]}


@triton.jit(launch_metadata=told)
def double(X, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(X + at, tl.load(X + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def halve(X, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(X + at, tl.load(X + at, mask=at < n) / 2, mask=at < n)


KERNELS = {"double": double, "halve": halve}


def memory() -> int:
    """Bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def work(until: float, counts: Counter[str], number: int) -> None:
    """Launch on a stream of its own until the time has come."""
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.ones(1000, device="cuda")
        while time.monotonic() < until:
            for name in ("double", "double", "halve") if number % 2 else ("halve", "double"):
                KERNELS[name][(1,)](x, 1000, BLOCK=1024)
                counts[name] += 1


def main() -> None:
    seconds, count = float(sys.argv[1]), int(sys.argv[2])
    x = torch.ones(1000, device="cuda")
    for kernel in KERNELS.values():
        kernel[(1,)](x, 1000, BLOCK=1024)
    until = time.monotonic() + seconds
    each: list[Counter[str]] = [Counter({"double": 0, "halve": 0}) for _ in range(count)]
    threads = [threading.Thread(target=work, args=(until, c, n)) for n, c in enumerate(each)]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 4)
    early = memory()
    time.sleep(seconds * 5 / 8)
    late = memory()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    launched = sum(each, Counter({name: 1 for name in KERNELS}))
    print(json.dumps({"counts": launched, "early": early, "late": late}))


if __name__ == "__main__":
    main()
