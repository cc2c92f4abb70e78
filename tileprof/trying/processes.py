"""A process of the program, seen from outside: started, asked for steps, and ended.

In: orders.  Out: times of steps, and a `Run`: what the process printed and kept of its results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tileprof.errors import ExecutionError

from .hooks.making import environment
from .orders import RESULTS, Loop, Orders, Place
from .piped import OUTPUT, PipedProcess

_PACKAGE = str(Path(__file__).resolve().parents[2])
_BEGIN = (
    "import sys; sys.path.append({package!r});"
    " from tileprof.trying.inside.main import start; start()"
)
_ORDERS = "orders.json"
_ENDING_S = 20.0
"""Time for a program to end by itself once it is told to, in s."""


class ProgramError(ExecutionError):
    """A process of the program failed, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Device and version of PyTorch that a program ran with."""

    device: str = ""
    """Name of the GPU that PyTorch used, else of the processor."""
    torch: str = ""
    """Version; empty where the program did not import it."""


@dataclass(frozen=True, slots=True)
class LoopCount:
    """Iterations of a loop."""

    loop: Loop
    count: int
    ns: int
    """Time from the beginning of its first iteration to that of its last."""


@dataclass(frozen=True, slots=True)
class Run:
    """Facts about a process that has ended."""

    folder: Path
    steps: int
    """Steps that it did."""
    ns: int
    """Time from its first line to its end."""
    counts: tuple[int, ...]
    """Number of places that each change changed."""
    printed: int
    """Bytes of its output when its results were kept."""
    circumstances: Circumstances = field(default_factory=Circumstances)
    places: tuple[tuple[Place, ...], ...] = ()
    """Places of the program's code when each change acted first."""
    loops: tuple[LoopCount, ...] = ()
    """Loops that it went through, where it was asked to count them."""
    memory_share: float = 0.0
    """Part of the free memory that the process needs at most, 0 to 1: of the device's or of the
    host's, whichever is more."""

    @property
    def results(self) -> Path:
        """File of its results."""
        return self.folder / RESULTS

    @property
    def output(self) -> str:
        """Output of the program until its results were kept."""
        with (self.folder / OUTPUT).open("rb") as file:
            return file.read(self.printed).decode(errors="replace")


class Process:
    """One process of the program."""

    def __init__(self, orders: Orders, limit_s: float) -> None:
        self._orders = orders
        self._folder = Path(orders.folder)
        self._process = PipedProcess(
            self._folder, limit_s, lambda what: ProgramError(f"`{orders.program}` {what}")
        )
        self._over: dict[str, Any] | None = None
        self.step_ns = 0.0
        """About how long a step takes, ns; 0 until it is ready."""

    def __enter__(self) -> Process:
        """Start it, and come back at once."""
        self._start()
        return self

    def __exit__(self, *ending: object) -> None:
        """End it, whatever it does: it is in no group that Ctrl-C reaches."""
        self.kill()

    def _start(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._orders.write(self._folder / _ORDERS)
        words = [sys.executable, "-c", _BEGIN.format(package=_PACKAGE),
                 str(self._folder / _ORDERS)]  # fmt: skip
        self._process.start(words, {**os.environ, **self._environment()})

    def _environment(self) -> Mapping[str, str]:
        # Hashes of texts decide the order of sets, and so may decide results.
        return {"PYTHONHASHSEED": str(self._orders.seed), **environment(self._orders.fixes)}

    def ready(self) -> bool:
        """Wait until all steps before the first timed one are done; False where it ended before."""
        message = self._hear()
        self.step_ns = float(message.get("step_ns", 0.0))
        return bool(message["at"] == "ready")

    def take(self, steps: int, lead: int) -> float | None:
        """Let it do `lead` steps and then so many that are timed; return the time of one in ns.

        None where the program ended before that.
        """
        self._process.say({"steps": steps, "lead": lead})
        message = self._hear()
        return float(message["ns"]) / steps if message["at"] == "timed" else None

    def end(self) -> Run:
        """End it where it has not ended, and return what is known of it."""
        if self._over is None:
            self._process.say({"end": True})
        return self.ended()

    def ended(self) -> Run:
        """Wait for the end of the program."""
        while self._over is None:
            self._hear()
        over = self._over
        self._process.wait(_ENDING_S)
        self.kill()
        if over["code"]:
            raise self._process.failed(f"ended with exit code {over['code']}")
        counts = tuple(int(each) for each in over["counts"])
        loops = tuple(
            LoopCount(Loop(file, int(line)), int(count), int(ns))
            for file, line, count, ns in over["loops"]
        )
        places = tuple(tuple((file, int(line)) for file, line in each) for each in over["places"])
        return Run(
            self._folder, int(over["steps"]), int(over["ns"]), counts, int(over["printed"]),
            Circumstances(str(over["device"]), str(over["torch"])), places, loops,
            float(over["memory_share"]),
        )  # fmt: skip

    def kill(self) -> None:
        """End it with all its workers, whatever they do."""
        self._process.kill()

    def _hear(self) -> dict[str, Any]:
        if self._over is not None:
            return self._over
        message = self._process.hear()
        if message["at"] == "over":
            self._over = message
        return message
