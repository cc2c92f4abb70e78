"""A process of the program, seen from outside: started, asked for steps, and ended.

In: orders.  Out: times of steps, and a `Run`: what the process printed and kept of its results.
The process has a group of its own, so that its workers end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from tileprof.errors import ExecutionError

from .hooks.making import environment
from .orders import RESULTS, Orders

_PACKAGE = str(Path(__file__).resolve().parents[2])
_BEGIN = (
    "import sys; sys.path.append({package!r});"
    " from tileprof.trying.inside.main import start; start()"
)
_OUTPUT, _ERRORS, _ORDERS = "output.txt", "errors.txt", "orders.json"
_ENDING_S = 20.0
"""Time for a program to end by itself once it is told to, in s."""
_LONGEST_LINE = 300
"""Characters of a program's last line in an error."""


class ProgramError(ExecutionError):
    """A process of the program failed, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """Where a program ran."""

    device: str = ""
    """Name of the GPU that PyTorch used, else of the processor."""
    torch: str = ""
    """Version; empty where the program did not import it."""


@dataclass(frozen=True, slots=True)
class Run:
    """What is known of a process that has ended."""

    folder: Path
    steps: int
    """Steps that it did."""
    ns: int
    """Time from its first line to its end."""
    counts: tuple[int, ...]
    """For each change, the places that it changed."""
    printed: int
    """Bytes of its output when its results were kept."""
    circumstances: Circumstances = field(default_factory=Circumstances)

    @property
    def results(self) -> Path:
        """File of its results."""
        return self.folder / RESULTS

    @property
    def output(self) -> str:
        """What it printed until its results were kept."""
        with (self.folder / _OUTPUT).open("rb") as file:
            return file.read(self.printed).decode(errors="replace")


class Process:
    """One process of the program."""

    def __init__(self, orders: Orders, limit_s: float) -> None:
        self._orders, self._limit = orders, limit_s
        self._folder = Path(orders.folder)
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
        ours, theirs = Pipe()
        words = [sys.executable, "-c", _BEGIN.format(package=_PACKAGE),
                 str(self._folder / _ORDERS), str(theirs.fileno())]  # fmt: skip
        with (
            (self._folder / _OUTPUT).open("wb") as output,
            (self._folder / _ERRORS).open("wb") as errors,
            theirs,
        ):
            self._process = subprocess.Popen(
                words, env={**os.environ, **self._environment()}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=errors, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        self._pipe = ours

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
        self._say({"steps": steps, "lead": lead})
        message = self._hear()
        return float(message["ns"]) / steps if message["at"] == "timed" else None

    def end(self) -> Run:
        """End it where it has not ended, and return what is known of it."""
        if self._over is None:
            self._say({"end": True})
        return self.ended()

    def ended(self) -> Run:
        """Wait for the end of the program."""
        while self._over is None:
            self._hear()
        over = self._over
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        self.kill()
        if over["code"]:
            raise self._failed(f"ended with exit code {over['code']}")
        counts = tuple(int(each) for each in over["counts"])
        return Run(
            self._folder, int(over["steps"]), int(over["ns"]), counts, int(over["printed"]),
            Circumstances(str(over["device"]), str(over["torch"])),
        )  # fmt: skip

    def kill(self) -> None:
        """End it with all its workers, whatever they do."""
        if not hasattr(self, "_process"):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pipe.close()

    def _say(self, message: Mapping[str, Any]) -> None:
        try:
            self._pipe.send_bytes(json.dumps(message).encode())
        except OSError:
            raise self._failed("ended") from None

    def _hear(self) -> dict[str, Any]:
        if self._over is not None:
            return self._over
        try:
            if not self._pipe.poll(self._limit):
                raise self._failed(f"did not answer for {self._limit:.0f} s")
            message: dict[str, Any] = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._failed("ended") from None
        if message["at"] == "over":
            self._over = message
        return message

    def _failed(self, what: str) -> ProgramError:
        self.kill()
        text = (self._folder / _ERRORS).read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        last = f": {lines[-1].strip()[:_LONGEST_LINE]}" if lines else ""
        return ProgramError(f"`{self._orders.program}` {what}{last}")
