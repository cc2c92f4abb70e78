"""torch.profiler in the middle of a run; prints how many kernels it saw."""

from __future__ import annotations

import json

import torch
from torch.profiler import ProfilerActivity, profile

import tileprof


def launch(name: str, count: int) -> None:
    x = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    with tileprof.scope(name):
        for _ in range(count):
            x.add_(1)
        torch.cuda.synchronize()


def main() -> None:
    launch("before", 100)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as theirs:
        launch("during", 100)
    launch("after", 100)
    events = theirs.profiler.kineto_results.events()
    kernels = [e for e in events if e.device_type().name == "CUDA" and "add" in e.name().lower()]
    print(json.dumps({"theirs": len(kernels)}))


if __name__ == "__main__":
    main()
