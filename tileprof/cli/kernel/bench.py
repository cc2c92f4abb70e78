"""`tileprof bench`: how long a function takes, how sure that is, and what a baseline takes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import nan
from typing import TYPE_CHECKING

from tileprof.cli import terminal
from tileprof.cli.parsing import Command, Parser, number, one_of
from tileprof.errors import TileprofError, UsageError
from tileprof.progress import working

from .kernels import add_bindings, bindings, find_callables, is_kernel

if TYPE_CHECKING:
    from tileprof.bench import Plan, Result, Timer
    from tileprof.profile import Change, Metric

USAGE = (
    "FILE:FUNCTION [--against FILE:FUNCTION] [--set NAME=VALUE]… [--device D]\n"
    f"{'':22}[--clock auto|gpu|host] [--flush-l2] [--graph] [--within PERCENT] [--seconds S]\n"
    f"{'':22}[--json] [--fail-if EXPR]"
)


def _parser() -> Parser:
    parser = Parser(
        "bench",
        USAGE,
        "Time FUNCTION of FILE: a Python function that launches GPU work or computes on the host, "
        "or a tile kernel, which is called with random arrays. Rounds are repeated until the 95 % "
        "interval of the median is narrow enough. With --against, both functions run alternately, "
        "and the result is the median ratio of the pairs.",
    )
    add = parser.add_argument
    add("function", metavar="FILE:FUNCTION", help="Python file and a function or kernel in it")
    add("--against", metavar="FILE:FUNCTION", help="baseline to compare with")
    add_bindings(
        parser,
        "an argument of the function, or a value that the kernel needs at compile time or as a "
        "scalar; may be repeated",
    )
    add(
        "--device",
        metavar="D",
        help="device for tile kernels: interpreter, cpu, cuda or cuda:N (default: cuda if there is "
        "a GPU, else cpu)",
    )
    add(
        "--clock",
        type=one_of("auto", "gpu", "host"),
        default="auto",
        metavar="WHICH",
        help="gpu: CUDA events on the current stream; host: from the call until the GPU is idle; "
        "auto (default): gpu if the calls use a GPU, else host",
    )
    add("--flush-l2", action="store_true", help="overwrite the GPU's L2 cache before each call")
    add(
        "--graph",
        action="store_true",
        help="replay the calls from a CUDA graph (captured by PyTorch), to exclude the host's time",
    )
    add(
        "--within",
        type=_percent,
        default=0.01,
        metavar="PERCENT",
        help="stop when the interval's ends are this close to the median or ratio (default: 1%%)",
    )
    add(
        "--seconds",
        type=number(float),
        default=10.0,
        metavar="S",
        help="stop after this time at the latest, excluding warm-up (default: 10)",
    )
    add("--json", action="store_true", help="print the result as JSON, with the time of each round")
    add(
        "--fail-if",
        dest="gate",
        metavar="EXPR",
        help="exit with status 1 if it holds: 'time > +5%%' (of the baseline), 'time > 2ms'",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Print the result; 1 where the gate's expression holds."""
    args = _parser().parse_args(arguments)
    _check(args)
    # What a program prints is no part of the result.
    with contextlib.redirect_stdout(sys.stderr):
        result = _measured(args)
    failed = False
    if args.gate is not None:
        states = [_at(result, end) for end in ("low", "value", "high")]
        outcomes = [_fails(each, args.gate) for each in states]
        failed = outcomes[1]
        if len({*outcomes}) > 1:
            result = _undecided(result)
    if args.json:
        from tileprof.bench.json_form import to_json

        terminal.show(json.dumps(to_json(result)) + "\n")
    else:
        from .bench_text import text_of

        terminal.show(text_of(result))
    if failed:
        terminal.complain(f"the gate failed: {args.gate}")
    return int(failed)


def _check(args: argparse.Namespace) -> None:
    from tileprof.profile.transform.gate import parse
    from tileprof.runtime.selection import parse_device

    if args.device is not None:
        parse_device(args.device)
    if args.seconds <= 0:
        raise UsageError(f"`--seconds {args.seconds:g}` is no time", hint="For example 10.")
    if args.graph and args.clock == "host":
        raise UsageError("`--graph` needs the GPU's clock", hint="Leave out --clock host.")
    if args.gate is None:
        return
    for each in chain.from_iterable(parse(args.gate, _Compared(nan, nan).metrics)):
        if each.metric != "time":
            raise UsageError(
                f"`{each.metric}` is not measured here", hint="`tileprof bench` measures `time`."
            )
        if each.of_change and args.against is None:
            raise UsageError(
                f"`{args.gate}` compares with a baseline",
                hint="Add --against FILE:FUNCTION, or give a limit without a sign: 'time > 2ms'.",
            )


def _measured(args: argparse.Namespace) -> Result:
    from tileprof.bench import Plan, Side, measure, read_gpu, read_gpus
    from tileprof.bench.doubts import known_before, load_average
    from tileprof.runtime.cuda.driver import load_driver
    from tileprof.runtime.roofs.keeping import uuid_of
    from tileprof.runtime.selection import gpu_number

    from . import bench_calls

    names = [args.function] + ([args.against] if args.against is not None else [])
    # The driver starts after the files are loaded: they may choose what it is to see.
    before = read_gpus()
    load = load_average()
    # Nothing is drawn on the terminal while times are taken.
    with terminal.progress(), working("") as task:
        task.tell(f"loading {' and '.join(names)}")
        found = find_callables(*names)
        has_kernel = any(map(is_kernel, found))
        device = device_of_kernels(args.device) if has_kernel else ""
        calls = bench_calls.calls_of(found, bindings(args.bindings), device)
        for name, call in zip(names, calls):
            task.tell(f"calling {name} for the first time")
            with bench_calls.failures_of([name], [call]):
                call()
    gpu = gpu_number(device) if device.startswith("cuda") else _gpu_number()
    on_host = has_kernel and not device.startswith("cuda")
    clock = "host" if args.clock == "auto" and on_host else args.clock
    plan = Plan(args.within, args.seconds, args.graph, args.flush_l2)
    timer, empty_ns = _timer(clock, plan, gpu)
    uuid = "" if gpu is None or timer.clock == "host" else uuid_of(load_driver(), gpu)
    with bench_calls.failures_of(names, calls):
        return measure(
            [Side(name, call) for name, call in zip(names, calls)],
            timer,
            plan,
            look=(lambda: read_gpu(uuid)) if uuid else (lambda: None),
            empty_ns=empty_ns,
            doubts=known_before(before.get(uuid), load, os.cpu_count() or 1),
        )


def device_of_kernels(asked: str | None) -> str:
    """Return the device of kernels: the one asked for, of the environment, a GPU, or the host."""
    from tileprof.runtime.selection import choose, environment_device, parse_device

    if asked is not None:
        return parse_device(asked)
    return environment_device() or ("cuda:0" if _gpu_number() is not None else choose([]))


def _gpu_number() -> int | None:
    """Return the number of the GPU that functions use: PyTorch's current one, else the first."""
    from tileprof.runtime.cuda.driver import load_driver

    try:
        if load_driver().number("cuDeviceGetCount") == 0:
            return None
    except TileprofError:
        return None
    torch = sys.modules.get("torch")
    return torch.cuda.current_device() if torch and torch.cuda.is_initialized() else 0


def _timer(clock: str, plan: Plan, gpu: int | None) -> tuple[Timer, float]:
    """Return the timer, and the time of nothing between two events in ns."""
    from tileprof.bench import CudaTimer, HostTimer
    from tileprof.bench.timers import flusher, torch_stream
    from tileprof.runtime.cuda.device import find_device
    from tileprof.runtime.cuda.driver import load_driver

    in_use = gpu is not None and load_driver().in_use(gpu)
    if clock == "auto":
        clock = "gpu" if in_use else "host"
    if gpu is None or not in_use:
        if clock == "gpu" or plan.graph or plan.flushed:
            option = "--clock gpu" if clock == "gpu" else "--graph" if plan.graph else "--flush-l2"
            raise UsageError(
                f"`{option}` is for functions that use a GPU, and these do not",
                hint="Leave it out: they are timed by the host's clock.",
            )
        return HostTimer(), 0.0
    device = find_device(gpu)
    events = CudaTimer(device, torch_stream, flush=plan.flushed)
    if clock == "gpu":
        return events, events.empty_ns()
    flush = flusher(device, torch_stream) if plan.flushed else None
    return HostTimer(events.wait, flush=flush), 0.0


@dataclass(frozen=True)
class _Compared:
    """Times in ns of a baseline and of what is compared with it, for a gate's expression."""

    old: float
    new: float

    @property
    def metrics(self) -> dict[str, Metric]:
        """Time alone."""
        from tileprof.profile.metrics import STANDARD

        return {"time": STANDARD["time"]}

    def whole(self, metric: str) -> Change:
        """Return the change of the time."""
        from tileprof.profile import Change

        return Change(self.old, self.new)


def _at(result: Result, end: str) -> _Compared:
    """Return the times at the low end, the middle or the high end of the interval."""
    new = getattr(result.timed.time, end)
    return _Compared(new / getattr(result.ratio, end) if result.ratio else nan, new)


def _fails(times: _Compared, gate: str) -> bool:
    from tileprof.profile import fail_if

    return fail_if(times, gate)


def _undecided(result: Result) -> Result:
    from tileprof.bench import Doubt

    middle = result.timed.time.value
    found = result.ratio or result.timed.time
    scale = 1.0 if result.ratio else 1 / middle
    doubt = Doubt("gate", {"low": found.low * scale, "high": found.high * scale,
                           "name": "baseline" if result.ratio else "median"})  # fmt: skip
    return replace(result, doubts=(*result.doubts, doubt))


def _percent(text: str) -> float:
    try:
        share = float(text.removesuffix("%")) / 100
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a percentage above 0, as 1%")
    return share


COMMAND = Command("bench", "time a function or kernel, and compare it with another", main, _parser)
