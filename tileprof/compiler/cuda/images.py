"""Whether machine code or PTX that was read from a file is what its launches say.

In: an image, its target, and of each launch the function's name and where its arguments lie.  Out:
nothing, or a ValueError.  What the code does cannot be checked: whoever can write it decides what
runs on the GPU.  Checked is what would otherwise go wrong in the driver or corrupt a launch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tileprof import binary
from tileprof.errors import CubinError

Layout = Sequence[tuple[int, int]]
"""Offset and size in bytes of each parameter."""
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.[a-z](?P<bits>\d+)(?:\s+\.ptr[^\n,]*?)?\s+[\w$]+"
    r"(?:\[(?P<count>\d+)\])?"
)
_TARGET = re.compile(r"^\.target\s+(\w+)", re.M)


def check_image(image: bytes, target: str, ptx: bool, launches: Mapping[str, Layout]) -> None:
    """ValueError where an image is not for `target`, or lacks a function with these parameters."""
    found = _of_ptx(image, target) if ptx else _of_cubin(image, target)
    for name, layout in launches.items():
        if name not in found:
            raise ValueError(f"its machine code has no function `{name:.80}`")
        if found[name] != list(layout):
            raise ValueError(f"`{name:.80}` takes other arguments than its launch gives")


def _of_cubin(image: bytes, target: str) -> dict[str, list[tuple[int, int]]]:
    try:
        read = binary.read(image)
        if read.architecture != target:
            raise ValueError(f"its machine code is for {read.architecture}, not for {target}")
        return {
            each.name: [(p.offset, p.size) for p in each.resources.parameters]
            for each in read.kernels
        }
    except CubinError as error:
        raise ValueError(f"its machine code is damaged: {error.message}") from None


def _of_ptx(image: bytes, target: str) -> dict[str, list[tuple[int, int]]]:
    if not image.endswith(b"\0") or b"\0" in image[:-1]:
        raise ValueError("its PTX does not end with its only zero byte")
    text = image[:-1].decode("ascii", "replace")
    named = _TARGET.search(text)
    if named is None or named[1] != target:
        raise ValueError(f"its PTX is not for {target}")
    return {name: list(_parameters(body)) for name, body in _ENTRY.findall(text)}


def _parameters(body: str) -> list[tuple[int, int]]:
    made, end = [], 0
    for each in _PARAMETER.finditer(body):
        size = int(each["bits"]) // 8
        alignment = int(each["align"] or size)
        size *= int(each["count"] or 1)
        offset = -(-end // alignment) * alignment if alignment else end
        made.append((offset, size))
        end = offset + size
    return made
