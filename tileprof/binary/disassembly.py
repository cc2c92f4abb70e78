"""Running NVIDIA's disassembler and reading its JSON.

In: the bytes of a cubin.  Out: the instructions of each function.  `nvdisasm` comes with the wheel
`nvidia-cuda-nvdisasm`; without the wheel one on PATH or in a CUDA toolkit serves.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tileprof.errors import CubinError, MissingDependencyError, extra_command

from . import limits
from .instructions import BYTES, Instruction, split_operands

try:
    import resource
except ImportError:  # on Windows only the time is limited
    resource = None  # type: ignore[assignment]

WHEEL = "nvidia-cuda-nvdisasm"
FIRST_WITH_JSON = "12.5"
MOST_ADDRESS_SPACE = 8 << 30
"""Bytes of address space that nvdisasm may take."""
_OUT_OF_TIME = getattr(signal, "SIGXCPU", 0)
"""Signal that ends a process at its limit of processor time; 0 on Windows, which has none."""


def find_nvdisasm() -> Path:
    """Return the disassembler; `MissingDependencyError` where there is none."""
    found = _in_wheel() or _on_machine()
    if found is None:
        raise MissingDependencyError(
            "no disassembler: reading SASS needs `nvdisasm`",
            hint=f"Get it with: {extra_command('cuda')}",
        )
    return found


@cache
def _in_wheel() -> Path | None:
    import importlib.metadata  # slow to import, and wanted by disassembling alone

    try:
        files = importlib.metadata.files(WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = (Path(str(f.locate())) for f in files if f.name in ("nvdisasm", "nvdisasm.exe"))
    return next((path for path in paths if path.exists()), None)


def _on_machine() -> Path | None:
    toolkit = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    found = shutil.which("nvdisasm") or shutil.which("nvdisasm", path=f"{toolkit}/bin")
    return Path(found) if found else None


def disassemble(
    data: bytes, code: dict[str, bytes], symbol: int | None = None
) -> dict[str, tuple[Instruction, ...]]:
    """Return the instructions of each function of a cubin, or only of that with a symbol index.

    `code` holds the bytes of each function, for what the JSON leaves out.
    """
    chosen = [] if symbol is None else ["-fun", str(symbol)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.cubin"
        path.write_bytes(data)
        size = sum(map(len, code.values()))
        # The analysis of data flow only adds labels, and there are cubins on which it gives up.
        done = _run([*chosen, "-json", str(path)], size)
        if done.returncode:
            done = _run([*chosen, "-ndf", "-json", str(path)], size)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().replace(str(path), "the cubin")
        raise CubinError(
            f"nvdisasm cannot read the cubin: {said}",
            hint=f"It must be as new as the compiler: pip install -U {WHEEL}",
        )
    return _functions(done.stdout, code)


def _run(arguments: list[str], code_bytes: int) -> subprocess.CompletedProcess[bytes]:
    """Run nvdisasm on some code, within limits of time, memory and output."""
    tool = str(find_nvdisasm())
    most, seconds = limits.disassembly_bytes(code_bytes), limits.disassembly_seconds(code_bytes)
    try:
        # Output goes to a file: its size can be limited, and nothing has to be read meanwhile.
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as said:
            process = subprocess.Popen([tool, *arguments], stdout=output, stderr=said)
            try:
                _bound(process.pid, most, seconds)
                code = process.wait(limits.WAIT_FACTOR * seconds)
            finally:
                process.kill()
                process.wait()
            output.seek(0)
            said.seek(0)
            text, message = output.read(most + 1), said.read(1 << 16)
    except subprocess.TimeoutExpired as error:
        raise _endless(error.timeout) from None
    except OSError as error:
        raise CubinError(
            f"nvdisasm did not work: {error}", hint="Install it: pip install nvidia-cuda-nvdisasm"
        ) from None
    if _OUT_OF_TIME and code == -_OUT_OF_TIME:
        raise _endless(seconds)
    if len(text) >= most:
        raise limits.too_much(f"nvdisasm prints more than {most:,} bytes for {code_bytes:,}")
    return subprocess.CompletedProcess(arguments, code, text, message)


def _endless(seconds: float) -> CubinError:
    return CubinError(
        f"nvdisasm did not end within {seconds:.0f} s",
        hint="Try again when the machine has less to do.",
    )


def _bound(pid: int, output_bytes: int, seconds: float) -> None:
    """Limit what a process may write and allocate, and its processor time in seconds, where the
    system can."""
    if not hasattr(resource, "prlimit"):
        return
    with contextlib.suppress(OSError, ValueError):
        whole = math.ceil(seconds)
        resource.prlimit(pid, resource.RLIMIT_CPU, (whole, whole + 1))
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (output_bytes + 1, output_bytes + 1))
        resource.prlimit(pid, resource.RLIMIT_AS, (MOST_ADDRESS_SPACE, MOST_ADDRESS_SPACE))


def _functions(output: bytes, code: dict[str, bytes]) -> dict[str, tuple[Instruction, ...]]:
    try:
        _, functions = json.loads(output)
    except ValueError:
        raise CubinError(
            "nvdisasm printed something other than JSON",
            hint=f"It must be of CUDA {FIRST_WITH_JSON} or later: pip install -U {WHEEL}",
        ) from None
    found: dict[str, tuple[Instruction, ...]] = {}
    name = ""
    for function in functions:
        # Until CUDA 13.2, procedures that lie in a function's code are listed after it.
        if function["function-name"] in code:
            name = function["function-name"]
            found[name] = ()
        if name and function["start"] == len(found[name]) * BYTES:
            found[name] += _instructions(function, code[name])
    return found


def _instructions(function: dict[str, Any], code: bytes) -> tuple[Instruction, ...]:
    start, found = function["start"], []
    for i, each in enumerate(function["sass-instructions"]):
        at = start + i * BYTES
        predicate, operands = each.get("predicate", ""), split_operands(each.get("operands", ""))
        if predicate == "PR":
            # The JSON takes this operand of P2R (the second) and R2P (the first) for a predicate.
            position = int(each["opcode"].startswith("P2R"))
            predicate, operands = "", (*operands[:position], "PR", *operands[position:])
        encoding = int.from_bytes(code[at : at + BYTES], "little")
        found.append(Instruction(at, predicate, each["opcode"], operands, encoding))
    return tuple(found)
