"""Processes that hold a program ready and do steps of it when they are asked for.

A member connects to a socket of ours after its imports (the gate) and waits there. Then it either
warms up and does as many steps at a time as it is asked for, or runs once as users run it; the
second is what is recorded.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from benchmarks.programs.catalog import CHANGES, Program

__all__ = ["FailedError", "Member", "Settings"]

ROOT = Path(__file__).parents[2]


class FailedError(Exception):
    """A program that ended, or did not answer in time, with the end of what it printed."""


@dataclass(frozen=True)
class Settings:
    """How members run."""

    device: str
    tiny: bool
    folder: Path
    """Where outputs, sockets and profiles are."""
    limit_s: float = 240.0
    """Longest time that a member may take to answer."""


@dataclass
class Member:
    """One process of a program with one change, or with none."""

    program: Program
    change: str
    settings: Settings
    options: Sequence[str] | None = None
    """Options of `tileprof run`, where it is recorded."""
    samples: int = 0
    """Samples a step."""
    result: float | None = None
    error: str = ""
    _process: subprocess.Popen[bytes] = field(init=False, repr=False)
    _stream: TextIO = field(init=False, repr=False)
    _socket: socket.socket = field(init=False, repr=False)

    @property
    def name(self) -> str:
        """Name of the files that it writes."""
        kind = "run" if self.options is None else "plain" if not self.options else "samples"
        return f"{self.program.name}-{self.change or 'base'}-{kind}"

    @property
    def profile(self) -> Path:
        """Where its profile is written."""
        return self.settings.folder / f"{self.name}.tprof"

    @property
    def output(self) -> Path:
        """Where it prints."""
        return self.settings.folder / f"{self.name}.txt"

    def start(self) -> None:
        """Start the process and wait until it stands at the gate."""
        with (
            tempfile.TemporaryDirectory(prefix="programs") as folder,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            path = f"{folder}/gate"
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(1)
            with self.output.open("wb") as output:
                self._process = subprocess.Popen(
                    self._command(), env=self._environment(path), stdout=output,
                    stderr=subprocess.STDOUT, cwd=self.settings.folder,
                )  # fmt: skip
            for _ in range(int(self.settings.limit_s)):
                try:
                    self._socket = listener.accept()[0]
                    break
                except TimeoutError:
                    if self._process.poll() is not None:
                        raise self._failed("ended") from None
            else:
                raise self._failed("never came to the gate")
        self._socket.settimeout(self.settings.limit_s)
        self._stream = self._socket.makefile("rw")
        self._expect("gate")

    def warm(self) -> None:
        """Let it build, compile and do its first steps."""
        self._say(go="measure")
        self.samples = int(self._expect("ready")["samples"])

    def seconds(self, steps: int) -> float:
        """Do so many steps, after some untimed ones, and return what they took together, in s."""
        untimed = CHANGES[self.change].untimed if self.change else 1
        self._say(steps=steps, untimed=untimed)
        return float(self._expect("timed")["seconds"])

    def stop(self) -> None:
        """End the loop and keep its result."""
        self._say(end=1)
        self.result = float(self._expect("over")["result"])
        self.wait()

    def run_once(self) -> None:
        """Let it run as users run it, until its steps are over."""
        self._say(go="plain")
        self.result = float(self._expect("over")["result"])

    def wait(self) -> None:
        """Wait for the end of the process."""
        try:
            status = self._process.wait(self.settings.limit_s)
        except subprocess.TimeoutExpired:
            raise self._failed("did not end") from None
        self._close()
        if status:
            raise self._failed(f"ended with {status}")

    def kill(self) -> None:
        """End the process, whatever it does."""
        if hasattr(self, "_process") and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        if hasattr(self, "_stream"):
            self._stream.close()
            self._socket.close()

    def _command(self) -> list[str]:
        script = str(self.program.script)
        if self.options is None:
            return [sys.executable, script]
        run = [sys.executable, "-m", "tileprof", "run", "--quiet", "-o", str(self.profile)]
        return [*run, *self.options, script]

    def _environment(self, path: str) -> dict[str, str]:
        threads = os.environ.get("TORCHINDUCTOR_COMPILE_THREADS", "4")
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "PROGRAM_SOCKET": path,
            "PROGRAM_CHANGE": self.change,
            "PROGRAM_DEVICE": self.settings.device,
            "PROGRAM_TINY": "1" if self.settings.tiny else "",
            "JAX_PLATFORMS": self.settings.device,
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "TORCHINDUCTOR_COMPILE_THREADS": threads,
            "TOKENIZERS_PARALLELISM": "false",
        }

    def _say(self, **message: Any) -> None:
        try:
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()
        except OSError:
            raise self._failed("ended") from None

    def _expect(self, at: str) -> dict[str, Any]:
        try:
            line = self._stream.readline()
        except TimeoutError:
            raise self._failed(f"did not come to {at}") from None
        except OSError:
            line = ""
        if not line:
            raise self._failed(f"ended before {at}")
        message: dict[str, Any] = json.loads(line)
        assert message["at"] == at, message
        return message

    def _failed(self, what: str) -> FailedError:
        self.kill()
        lines = self.output.read_text(errors="replace").strip().splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "")
        self.error = f"{what}: {last}"[:400]
        return FailedError(self.error)
