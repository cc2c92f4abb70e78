"""A process that is spoken to over a pipe: started, given messages, and ended.

In: a command line, an environment, messages as JSON.  Out: its answers, and files with what it
printed.  It has a process group of its own, so that what it starts ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from tileprof.errors import ExecutionError

OUTPUT, ERRORS = "output.txt", "errors.txt"
"""Files in a process's folder that hold its output and its error output."""
_LONGEST_LINE = 300
"""Characters of a process's last line in an error."""


class PipedProcess:
    """One process; `error` makes the exception for a sentence that follows the process's name."""

    def __init__(
        self, folder: Path, limit_s: float, error: Callable[[str], ExecutionError]
    ) -> None:
        self._folder, self._limit, self._error = folder, limit_s, error
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def started(self) -> bool:
        """Whether it was started."""
        return self._process is not None

    def start(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it, and come back at once; the number of its end of the pipe follows `words`.

        OSError where the program cannot be started.
        """
        ours, theirs = Pipe()
        with (
            (self._folder / OUTPUT).open("wb") as output,
            (self._folder / ERRORS).open("wb") as errors,
            theirs,
        ):
            self._process = subprocess.Popen(
                [*words, str(theirs.fileno())], env=environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=errors, pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        self._pipe = ours

    def say(self, message: Mapping[str, Any]) -> None:
        """Send a message; the error where the process has ended."""
        try:
            self._pipe.send_bytes(json.dumps(message).encode())
        except OSError:
            raise self.failed("ended") from None

    def hear(self) -> dict[str, Any]:
        """Return its next message; the error where it has ended or does not answer in time."""
        try:
            if not self._pipe.poll(self._limit):
                raise self.failed(f"did not answer for {self._limit:.0f} s")
            message: dict[str, Any] = json.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            raise self.failed("ended") from None
        return message

    def wait(self, seconds: float) -> None:
        """Wait until it ends by itself, so long at most."""
        assert self._process is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def kill(self) -> None:
        """End it with all that it started, whatever they do; nothing where it was not started."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._pipe.close()

    def failed(self, what: str) -> ExecutionError:
        """End it, and return the error that says what it did and quotes its last line."""
        self.kill()
        text = (self._folder / ERRORS).read_text(errors="replace")
        lines = [line for line in text.splitlines() if line.strip()]
        last = f": {lines[-1].strip()[:_LONGEST_LINE]}" if lines else ""
        return self._error(f"{what}{last}")
