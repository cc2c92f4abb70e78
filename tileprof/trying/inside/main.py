"""The beginning and the end of a process of the program.

In: a file with orders, and the number of a pipe's end.  Out: the program's exit code, which a
program that is ended early has too.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from tileprof.profiler.import_watch import when_imported
from tileprof.profiler.session.program import (
    ProgramTarget,
    exit_code,
    prepare,
    report_uncaught,
    run_program,
)
from tileprof.profiler.session.provenance import cpu_model
from tileprof.profiler.session.recording import start as start_session
from tileprof.trying.hooks import sources
from tileprof.trying.hooks.libraries import draw_alike
from tileprof.trying.hooks.making import Made
from tileprof.trying.orders import RESULTS, Orders, TriedProgram, read_orders

from .loops import Loops, stepping_at
from .results import Results
from .stepping import Enough, Stepping, wait_for_devices

_CONTEXT_BYTES = 1e9
"""Memory of a GPU that a process takes beside its tensors, in bytes: CUDA's context and libraries.
By hand: 0.5 to 0.8 GB on an H200."""


class _Pipe:
    """This side of the pipe."""

    def __init__(self, number: int) -> None:
        os.set_inheritable(number, False)
        self._connection = Connection(number)

    def say(self, message: dict[str, Any]) -> None:
        self._connection.send_bytes(json.dumps(message).encode())

    def hear(self) -> dict[str, Any]:
        try:
            order: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except EOFError:  # nobody waits for this process any more
            return {"end": True}
        return order


def main(path: str, number: int) -> int:
    """Run the program to its end, or until it is told to end, and return its exit code."""
    orders, pipe = read_orders(path), _Pipe(number)
    _seed(orders.seed)
    run = _Run(orders, pipe)
    begin = time.perf_counter_ns()
    code = run.to_its_end()
    wait_for_devices()
    took = time.perf_counter_ns() - begin
    run.keep()
    pipe.say({"at": "over", "ns": took, "steps": run.stepping.count, "code": code,
              "counts": run.made.counts, "printed": run.printed, "loops": run.loops.counted(),
              "places": [[*each] for each in run.made.places],
              **_circumstances()})  # fmt: skip
    return code


def _circumstances() -> dict[str, Any]:
    torch: Any = sys.modules.get("torch")
    used = torch is not None and torch.cuda.is_initialized()
    device = torch.cuda.get_device_name() if used else cpu_model()
    version = str(getattr(torch, "__version__", ""))
    return {"device": device, "torch": version, "memory_share": max(_device_share(), _host_share())}


def _device_share() -> float:
    """Return the part of the free memory of the GPU that this process needs at most."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return 0.0
    needed = torch.cuda.max_memory_reserved() + _CONTEXT_BYTES
    free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved() + _CONTEXT_BYTES
    return min(1.0, float(needed / free))


def _host_share() -> float:
    """Return the part of the host's free memory that this process needs at most; 0 where the
    system does not say how much is free."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0.0
    free = next((int(each.split()[1]) for each in lines if each.startswith("MemAvailable")), 0)
    needed = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return min(1.0, needed / (free + needed)) if free else 0.0


class _Run:
    def __init__(self, orders: Orders, pipe: _Pipe) -> None:
        self._orders = orders
        self._kept = False
        self.printed = 0
        """Bytes of the program's output when its results were kept."""
        self.results = Results(orders.kept, orders.disturbed)
        self.stepping = Stepping(pipe, orders.untimed, self._ended)
        program = orders.program
        compared = program.compared or program.step
        self.loops = Loops()
        if program.loop is not None:
            begun = stepping_at(program.loop, self.results.keep_arrays, self.stepping.end)
            sources.watch_loops(_folder(program), begun)
        elif program.step is None:
            self.stepping.attach()
        if orders.counts_loops:
            sources.watch_loops(_folder(program), self.loops.begun)
        # What is replaced first is called by what is replaced later: a step ends when its result
        # has been kept, and both see what a change makes of the function.
        self.made = Made(orders.fixes)
        if orders.draws_alike:
            draw_alike()
        if compared is not None:
            sources.decorate_function(compared.file, compared.name, 0, self.results.returned)
        if program.step is not None:
            step = program.step
            sources.decorate_function(step.file, step.name, 0, self.stepping.of_function)

    def to_its_end(self) -> int:
        program = self._orders.program
        target = ProgramTarget(program.kind, program.name)
        if self._orders.profile:
            return _recorded(target, self._orders)
        try:
            prepare(target, program.arguments, sources.compiled)()
        except Enough:
            return 0
        except SystemExit as ending:
            return exit_code(ending.code)
        except BaseException as error:
            report_uncaught(error)
            return 1
        return 0

    def _ended(self, count: int) -> None:
        self.results.end_step()
        if count == self._orders.kept:
            self.keep()

    def keep(self) -> None:
        """Write what was kept, once."""
        if self._kept:
            return
        self._kept = True
        self.results.finish()
        self.results.write(Path(self._orders.folder) / RESULTS)
        if sys.stdout is not None:
            sys.stdout.flush()
        self.printed = os.fstat(1).st_size


def _recorded(target: ProgramTarget, orders: Orders) -> int:
    """Run the program under a recording, and write its profile.

    Steps whose results are kept wait for the device, so they count as set-up.
    """
    session = start_session(orders.profile, warm_up=orders.kept + 1)
    code = run_program(target, orders.program.arguments, session, sources.compiled)
    session.finalize()
    return code


def _folder(program: TriedProgram) -> str:
    """Return the folder that the program's own files are in."""
    return os.path.dirname(program.name) or "." if program.kind == "script" else "."


def _seed(seed: int) -> None:
    """Give programs that set no seed the same random numbers in each process."""
    random.seed(seed)
    np.random.seed(seed)
    when_imported("torch", lambda torch: torch.manual_seed(seed))


def start() -> None:
    """Begin, with what stands on the command line."""
    path, number = sys.argv[1:3]
    sys.exit(main(path, int(number)))
