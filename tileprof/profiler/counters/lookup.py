"""Which kind of device this machine has, asked in a process of its own.

Asking starts the CUDA driver. In the process of a program that would settle which devices it sees,
and take CUDA from the processes that it forks; so another one asks, and ends.
"""

from __future__ import annotations

import ctypes as C
import subprocess
import sys
from pathlib import Path

from tileprof.errors import MissingDependencyError, TileprofError

from .host import CuptiFailure, open_library, text_of

__all__ = ["chip_of", "find_chip"]

_PATIENCE_S = 60.0


class _Nothing(C.Structure):
    _fields_ = (("size", C.c_size_t), ("own", C.c_void_p))


class _ChipName(C.Structure):
    name: bytes | None

    _fields_ = (
        ("size", C.c_size_t),
        ("own", C.c_void_p),
        ("device", C.c_size_t),
        ("name", C.c_char_p),
    )


def chip_of(path: Path | str, device: int = 0) -> str:
    """CUPTI's name of the kind of a device; CuptiFailure where it does not tell."""
    library = open_library(path)
    # Without it CUPTI 13 knows no device.
    if code := library.cuptiProfilerInitialize(C.byref(_Nothing(size=C.sizeof(_Nothing)))):
        raise CuptiFailure("cuptiProfilerInitialize", code, text_of(library, code))
    asked = _ChipName(size=C.sizeof(_ChipName), device=device)
    if code := library.cuptiDeviceGetChipName(C.byref(asked)):
        raise CuptiFailure("cuptiDeviceGetChipName", code, text_of(library, code))
    return (asked.name or b"").decode()


def find_chip(path: Path | str) -> str:
    """The same of the first device, by another process; MissingDependencyError where it fails."""
    ask = f"import sys; from {__spec__.name} import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", ask, str(path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingDependencyError(f"the kind of device cannot be found out: {error}") from None
    if done.returncode == 0 and done.stdout.strip():
        return done.stdout.split()[-1]
    said = done.stderr.strip().splitlines()
    why = f"{said[-1] if said else 'CUPTI does not say'} (exit code {done.returncode})"
    raise MissingDependencyError(
        f"the kind of device cannot be found out: {why}",
        hint="`tileprof doctor` says what is missing.",
    )


def main(arguments: list[str]) -> int:
    """Print the kind of the first device."""
    from tileprof.runtime.cuda_driver import load_driver

    try:
        load_driver()
        print(chip_of(arguments[0]))
    except TileprofError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
