"""Lines of source code and inlined functions, which a symbolizer of the machine's tools reads.

In: a file with debugging information and addresses in it.  Out: for each address the functions that
are there, outermost first: what was inlined follows that which it was inlined into.
`llvm-symbolizer` is taken where there is one, else `addr2line`, which comes with every GCC.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

TIMEOUT_S = 60
"""Longest time that the symbols of one file may take, in seconds."""
_UNKNOWN = ("", "??")


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """A function at an address, and the line in it; '' and 0 for what is not known."""

    function: str
    """Mangled name."""
    file: str
    line: int


def read_lines(path: str, addresses: Sequence[int]) -> dict[int, list[SourceFrame]]:
    """Return what is at each address; those of which nothing is known are missing."""
    llvm = shutil.which("llvm-symbolizer")
    gnu = shutil.which("addr2line")
    if llvm is not None:
        command = [llvm, "--output-style=JSON", "--no-demangle", "--inlines", f"--obj={path}"]
        return _of_llvm(_asked(command, addresses))
    if gnu is not None:
        return _of_gnu(_asked([gnu, "-a", "-f", "-i", "-e", path], addresses))
    return {}


def _asked(command: Sequence[str], addresses: Sequence[int]) -> str:
    # What observes this process must not observe the tool, which must not ask the network either.
    ours = ("LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "DEBUGINFOD_URLS")
    environment = {key: value for key, value in os.environ.items() if key not in ours}
    asked = "".join(f"{address:#x}\n" for address in addresses)
    try:
        done = subprocess.run(
            command, input=asked, capture_output=True, text=True, errors="replace",
            timeout=TIMEOUT_S, env=environment, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _of_llvm(text: str) -> dict[int, list[SourceFrame]]:
    found: dict[int, list[SourceFrame]] = {}
    for line in text.splitlines():
        try:
            said = json.loads(line)
            # One object a line, or all in one list: versions differ.
            for each in said if isinstance(said, list) else [said]:
                frames = [
                    SourceFrame(
                        _known(symbol.get("FunctionName", "")),
                        _known(symbol.get("FileName", "")),
                        int(symbol.get("Line", 0)),
                    )
                    for symbol in each.get("Symbol", ())
                ]
                if any(frame.function for frame in frames):
                    found[int(each["Address"], 16)] = frames[::-1]
        except (ValueError, KeyError, AttributeError):
            continue
    return found


def _of_gnu(text: str) -> dict[int, list[SourceFrame]]:
    found: dict[int, list[SourceFrame]] = {}
    frames: list[SourceFrame] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("0x"):
            frames = found.setdefault(int(line, 16), [])
            continue
        file, _, number = next(lines, "").partition(" (")[0].rpartition(":")
        frames.insert(0, SourceFrame(_known(line), _known(file), _number(number)))
    return {
        address: frames
        for address, frames in found.items()
        if any(frame.function for frame in frames)
    }


def _known(text: str) -> str:
    return "" if text in _UNKNOWN else text


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0
