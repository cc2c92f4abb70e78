"""PyTorch's own profiler beside a session: its traces on this machine."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")


def test_with_pytorch() -> None:
    """Its profiler on this machine, scheduled too; every trace counts as one of a GPU here."""
    program = """if 1:
        from tileprof.profiler.cupti import other_profilers
        events = []
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
    ], done.stderr


def test_what_pytorch_calls_a_gpu() -> None:
    """Its own names of activities, asked in a process of its own."""
    program = """if 1:
        from torch.profiler import ProfilerActivity as A
        from tileprof.profiler.cupti.other_profilers import _on_gpu
        print(_on_gpu({A.CPU, A.CUDA}), _on_gpu([A.CPU]), _on_gpu(None))
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )
    assert done.stdout == "True False False\n", done.stderr
