"""torch.profiler and tileprof in one process, in an order that the arguments say.

kineto.py WORD…

`ours+` and `ours-` begin and end a recording into out.tprof, `theirs+` and `theirs-` a trace of
torch.profiler; any other word is a scope in which kernels are launched. Prints how many of the
kernels each trace saw.
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
    print(json.dumps({"theirs": theirs}))


if __name__ == "__main__":
    main()
