"""The session inside of a program without Python; called by the library that was injected.

In: what `launching` asks for, in the environment.  Out: the profile, when the program exits, and
every few seconds before. Children of the program that use a GPU write files of their own beside it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TypedDict

from tileprof.errors import TileprofError
from tileprof.profiler.endings.termination import finalize_on_terminate
from tileprof.profiler.native_program.launching import (
    CUDA_VARIABLE,
    NVTX_VARIABLE,
    REQUEST,
)
from tileprof.profiler.session.recording import finalize_all, start


class Request(TypedDict):
    """Request of the launching process."""

    path: str
    launcher: int
    """Number of the launching process: its child is the program, others are children of that."""
    command: list[str]
    """Command line of the launching process."""
    program: str
    options: dict[str, object]


def begin() -> None:
    """Record the program from here on; what goes wrong with that must not hurt it."""
    request: Request = json.loads(os.environ[REQUEST])
    sys.argv[:] = request["command"]
    sys.modules["__main__"].__file__ = request["program"]
    # The recorder has a name of its own for NVTX.
    os.environ.pop(NVTX_VARIABLE, None)
    # What is asked of CUDA in a process of its own, before the recording, is none of the program's.
    injected = os.environ.pop(CUDA_VARIABLE, None)
    try:
        session = start(request["path"], **request["options"])
    except TileprofError as error:
        sys.stderr.write(f"tileprof: the program is not recorded: {error}\n")
        return
    finally:
        if injected is not None:
            os.environ[CUDA_VARIABLE] = injected
    if os.getppid() != request["launcher"]:
        session.become_child(Path(request["path"]))
    finalize_on_terminate(session)


def finish() -> None:
    """Write the profile: the program exits."""
    try:
        finalize_all()
    except TileprofError as error:
        sys.stderr.write(f"tileprof: {error}\n")
