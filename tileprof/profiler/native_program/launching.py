"""Launching a program without Python such that it is recorded.

In: the program, its arguments, the options of a session.  Out: its exit code; the profile is
written by the program itself, when it exits.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tileprof.errors import MissingDependencyError, UsageError
from tileprof.profiler.native import native_recorder, why_not

INTERPRETER = "TILEPROF_INTERPRETER"
"""Environment variable for the injected library: the interpreter's library and its executable, on a
line each."""
REQUEST = "TILEPROF_REQUEST"
"""Environment variable for the session in the program: JSON, see `Request` in `recording`."""
CUDA_VARIABLE = "CUDA_INJECTION64_PATH"
NVTX_VARIABLE = "NVTX_INJECTION64_PATH"
_INJECTED = "libtileprof_injection.so"
"""Name of the library that CUDA loads into the program. It lies beside the native recorder; in an
editable installation that is not where the sources are."""
_FORWARDED = (signal.SIGTERM, signal.SIGHUP)
_MAGIC = b"\x7fELF"
_HEADER, _ENTRY = 64, slice(24, 32)
"""Size of the header of an ELF file, and where in it is the address at which a program begins."""
_INTERPRETERS = re.compile(r"python[\d.]*")


def is_machine_code(path: str) -> bool:
    """Tell whether a file is a program or library of this kind of machine."""
    try:
        with open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def check_program(path: str) -> None:
    """Raise `UsageError` for machine code that cannot be recorded as a program."""
    with open(path, "rb") as file:
        header = file.read(_HEADER)
    if len(header) == _HEADER and not any(header[_ENTRY]):
        raise UsageError(
            f"`{path}` is a library: it cannot be run",
            hint="Give the program that uses it, or a Python script that loads it.",
        )
    if _INTERPRETERS.fullmatch(os.path.basename(path)):
        raise UsageError(
            f"`{path}` is Python itself, not a program without it",
            hint="Give the script: tileprof run SCRIPT ARGS…",
        )


def launch(program: Sequence[str], output: Path, options: Mapping[str, Any]) -> int:
    """Run a program with its arguments to its end, and return its exit code as a shell reports it.

    Raises `UsageError` where it cannot be executed, and `MissingDependencyError` where the parts
    that record it are missing.
    """
    environment = _environment(program[0], output, options)
    with _signals() as receivers:
        try:
            child = subprocess.Popen([os.path.abspath(program[0]), *program[1:]], env=environment)
        except OSError as error:
            raise UsageError(
                f"`{program[0]}` cannot be executed: {error.strerror}",
                hint=f"Make it executable (chmod +x {program[0]}), or build it for this machine.",
            ) from error
        receivers.append(child)
        code = child.wait()
    return code if code >= 0 else 128 - code


def _environment(program: str, output: Path, options: Mapping[str, Any]) -> dict[str, str]:
    injected = _injected()
    for variable in (CUDA_VARIABLE, NVTX_VARIABLE):
        if holder := os.environ.get(variable):
            raise UsageError(
                f"another tool records the program: {variable} is {holder}",
                hint=f"Unset {variable}.",
            )
    request = {
        "path": str(output),
        "launcher": os.getpid(),
        "command": sys.argv,
        "program": os.path.abspath(program),
        "options": dict(options),
    }
    return {
        **os.environ,
        INTERPRETER: f"{_library()}\n{sys.executable}",
        REQUEST: json.dumps(request),
        CUDA_VARIABLE: injected,
        NVTX_VARIABLE: injected,
    }


def _injected() -> str:
    """Return the path of that library; `MissingDependencyError` where there is none."""
    recorder = native_recorder()
    path = Path(str(recorder.__file__)).with_name(_INJECTED) if recorder is not None else None
    if path is None or not path.exists():
        why = why_not() if path is None else f"{path} is missing"
        raise MissingDependencyError(
            f"a program without Python is recorded by the native recorder: {why}",
            hint="Install tileprof where there is a C++ compiler.",
        )
    return str(path)


def _library() -> Path:
    """Return the shared library of this interpreter."""
    told = sysconfig.get_config_vars()
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = (str(told.get("INSTSONAME")), f"libpython{version}.so.1.0", f"libpython{version}.so")
    folder = Path(str(told.get("LIBDIR")))
    folders = (folder, folder / str(told.get("MULTIARCH")), Path(sys.base_prefix) / "lib")
    for each in (place / name for place in folders for name in names if ".so" in name):
        if each.exists():
            return each
    raise MissingDependencyError(
        f"a program without Python is recorded by a Python in it, whose library is missing: "
        f"{names[1]}",
        hint=f"Install it (Debian and Ubuntu: apt install libpython{version}), or use a Python that"
        " has it, as conda's or uv's.",
    )


@contextmanager
def _signals() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Leave Ctrl-C to the program, and pass on to it what would end this process."""
    receivers: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        for each in receivers:
            each.send_signal(number)

    # Functions, because a program inherits that a signal is ignored.
    handlers = dict.fromkeys(_FORWARDED, pass_on) | {signal.SIGINT: lambda number, frame: None}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield receivers
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
