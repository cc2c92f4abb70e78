"""Running NVIDIA's disassembler and reading its JSON.

In: the bytes of a cubin.  Out: the instructions of each function.  `nvdisasm` comes with the wheel
`nvidia-cuda-nvdisasm`; without the wheel one on PATH or in a CUDA toolkit serves.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from tileprof.errors import CubinError, MissingDependencyError

from .instructions import BYTES, Instruction, split_operands

__all__ = ["disassemble", "find_nvdisasm"]

WHEEL = "nvidia-cuda-nvdisasm"
FIRST_WITH_JSON = "12.5"
LIMIT_S = 300


def find_nvdisasm() -> Path:
    """The disassembler; `MissingDependencyError` where there is none."""
    found = _in_wheel() or _on_machine()
    if found is None:
        raise MissingDependencyError(
            "no disassembler: reading SASS needs `nvdisasm`",
            hint="Get it with: pip install 'tileprof[cuda]'",
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
    """The instructions of each function of a cubin, or only of that with a symbol index.

    `code` holds the bytes of each function, for what the JSON leaves out.
    """
    chosen = [] if symbol is None else ["-fun", str(symbol)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "code.cubin"
        path.write_bytes(data)
        # The analysis of data flow only adds labels, and there are cubins on which it gives up.
        done = _run([*chosen, "-json", str(path)])
        if done.returncode:
            done = _run([*chosen, "-ndf", "-json", str(path)])
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().replace(str(path), "the cubin")
        raise CubinError(
            f"nvdisasm cannot read the cubin: {said}",
            hint=f"It must be as new as the compiler: pip install -U {WHEEL}",
        )
    return _functions(done.stdout, code)


def _run(arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    tool = str(find_nvdisasm())
    try:
        return subprocess.run([tool, *arguments], capture_output=True, timeout=LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CubinError(f"nvdisasm did not work: {error}") from None


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
