"""torch.profiler and tileprof in one process, in an order that the arguments say.

kineto.py WORD…

`ours+` and `ours-` begin and end a recording into out.tprof, `theirs+` and `theirs-` a trace of
torch.profiler; any other word is a scope in which kernels are launched. Prints how many of the
kernels each trace saw.

With TEARDOWN_CUPTI=1 torch.profiler gives CUPTI back at the end of a CUDA call after its trace, and
a process without such a call waits for ever at its end, also without a recording of ours (PyTorch
2.11 on an H200; pull request 1554 of pytorch/kineto). So one more kernel is launched at the end.
"""

from __future__ import annotations

import json
import sys

import torch
from torch.profiler import ProfilerActivity, profile

import tileprof

COUNT = 100


def launch(x: torch.Tensor, name: str) -> None:
    with tileprof.scope(name):
        for _ in range(COUNT):
            x.add_(1)
        torch.cuda.synchronize()


def seen_by(trace: profile) -> int:
    """How many of the kernels are in a trace that has ended."""
    events = trace.profiler.kineto_results.events()
    kernels = [event for event in events if event.device_type().name == "CUDA"]
    return sum("add" in event.name().lower() for event in kernels)


def main() -> None:
    x = torch.zeros(1, device="cuda")
    x.add_(1)
    torch.cuda.synchronize()
    session, trace, theirs = None, None, []
    for word in sys.argv[1:]:
        match word:
            case "ours+":
                session = tileprof.start("out.tprof")
            case "ours-":
                session.finalize()
            case "theirs+":
                trace = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
                trace.start()
            case "theirs-":
                trace.stop()
                theirs.append(seen_by(trace))
            case scope:
                launch(x, scope)
    x.add_(1)
    torch.cuda.synchronize()
    print(json.dumps({"theirs": theirs}))


if __name__ == "__main__":
    main()
