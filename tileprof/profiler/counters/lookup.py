"""Lookup of this machine's kind of device, and of what CUPTI counts of its instructions, in a
process of its own.

Asking starts the CUDA driver. In the process of a program that would settle which devices it sees,
and take CUDA from the processes that it forks; so another one asks, and ends.
"""

from __future__ import annotations

import ctypes as C
import subprocess
import sys
from pathlib import Path

from tileprof.errors import MissingDependencyError, TileprofError

from .host import call, open_library, structure

_PATIENCE_S = 60.0


_NOTHING = structure()
_CHIP_NAME = structure(device=C.c_size_t, name=C.c_char_p)
_COUNTED = structure(chip=C.c_char_p, count=C.c_size_t)
_LISTED = structure(chip=C.c_char_p, count=C.c_size_t, rows=C.c_void_p)


class _Metric(C.Structure):
    name: bytes | None

    _fields_ = (("number", C.c_uint64), ("name", C.c_char_p), ("text", C.c_char_p))


def chip_of(path: Path | str, device: int = 0) -> str:
    """CUPTI's name of the kind of a device; CuptiFailure where it does not tell."""
    library = open_library(path)
    # Without it CUPTI 13 knows no device.
    call(library, "cuptiProfilerInitialize", _NOTHING())
    asked = _CHIP_NAME(device=device)
    call(library, "cuptiDeviceGetChipName", asked)
    return (asked.name or b"").decode()


def instruction_metrics_of(path: Path | str, chip: str) -> list[str]:
    """CUPTI's SASS metrics of a kind of device, after `chip_of`; none where it lacks them."""
    library = open_library(path)
    if not hasattr(library, "cuptiSassMetricsGetMetrics"):
        return []
    counted = _COUNTED(chip=chip.encode())
    call(library, "cuptiSassMetricsGetNumOfMetrics", counted)
    found = (_Metric * counted.count)()
    listed = _LISTED(chip=counted.chip, count=counted.count, rows=C.addressof(found))
    call(library, "cuptiSassMetricsGetMetrics", listed)
    return [(each.name or b"").decode() for each in found]


def find_chip(path: Path | str) -> str:
    """Return the same of the first device, by another process; MissingDependencyError where it
    fails."""
    return _asked(path)[0]


def find_instruction_metrics(path: Path | str) -> tuple[str, list[str]]:
    """Return the kind of the first device, and CUPTI's SASS metrics of it, by another process.
    MissingDependencyError where it fails."""
    chip, *metrics = _asked(path, "instructions")
    return chip, metrics


def _asked(path: Path | str, *more: str) -> list[str]:
    """Return the words of the last line that the other process prints, of which there is one at
    least."""
    ask = f"import sys; from {__spec__.name} import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", ask, str(path), *more]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MissingDependencyError(f"the kind of device cannot be found out: {error}") from None
    if done.returncode == 0 and done.stdout.strip():
        return done.stdout.strip().splitlines()[-1].split()
    said = done.stderr.strip().splitlines()
    why = f"{said[-1] if said else 'CUPTI does not say'} (exit code {done.returncode})"
    raise MissingDependencyError(
        f"the kind of device cannot be found out: {why}",
        hint="`tileprof doctor` says what is missing.",
    )


def main(arguments: list[str]) -> int:
    """Print the kind of the first device, and with a second argument its SASS metrics."""
    from tileprof.runtime.cuda.driver import load_driver

    try:
        load_driver()
        chip = chip_of(arguments[0])
        print(chip, *(instruction_metrics_of(arguments[0], chip) if arguments[1:] else ()))
    except TileprofError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
