"""PyTorch's own profiler beside a session: its traces on this machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")


def test_with_pytorch() -> None:
    """Its profiler on this machine, scheduled too; every trace counts as one of a GPU here, but for
    the last line: it asks which of PyTorch's activities are those of a GPU."""
    program = """if 1:
        from tileprof.profiler.cupti import other_profilers
        events = []
        on_gpu = other_profilers._on_gpu
        other_profilers._on_gpu = lambda activities: True
        watched = other_profilers.OtherProfilers(events.append, lambda: events.append("resume"))
        import torch
        from torch.profiler import ProfilerActivity, profile, schedule
        import torch.autograd.profiler as module

        def note(*what):
            events.append(" ".join(map(str, what)))

        with profile(activities=[ProfilerActivity.CPU]) as first:
            torch.ones(2) + 1
            note("inside", other_profilers.who_holds())
        note("outside", other_profilers.who_holds())
        print(*events, sep=", "); events.clear()

        with profile(activities=[ProfilerActivity.CPU],
                     schedule=schedule(wait=1, warmup=1, active=1, repeat=2)) as second:
            for step in range(7):
                note(step)
                second.step()
        print(*events, sep=", "); events.clear()

        try:
            with profile(activities=[ProfilerActivity.CPU]):
                raise ValueError
        except ValueError:
            print(*events, sep=", "); events.clear()

        watched.forget()
        with profile(activities=[ProfilerActivity.CPU]) as third:
            torch.ones(2) + 1
        print(events, module._enable_profiler.__module__)
        print(len(first.events()) == len(third.events()) > 0)

        A = ProfilerActivity
        print(on_gpu({A.CPU, A.CUDA}), on_gpu([A.CPU]), on_gpu(None))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.splitlines() == [
        "torch.profiler, inside torch.profiler, resume, outside None",
        "0, torch.profiler, 1, 2, resume, 3, torch.profiler, 4, 5, resume, 6",
        "torch.profiler, resume",
        "[] torch._C._autograd",
        "True",
        "True False False",
    ], done.stderr
