"""Devices of files of version 1, whose provenance has a line for people about each.

cuda:0    NVIDIA H200, sm_90, 132 SMs, 139.8 GiB, clock 1980 MHz, memory clock 3201 MHz, …
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tileprof.profile.tables import DeviceInfo

_DEVICE = re.compile(r"cuda:\d{1,9}")
_LINE = re.compile(
    r"(?P<name>.{1,300}), sm_(?P<major>\d{1,3})(?P<minor>\d)"
    r"(?:, (?P<multiprocessors>\d{1,6}) SMs)?(?:, (?P<memory>\d{1,7}(?:\.\d)?) GiB)?"
    r"(?:, clock (?P<clock>\d{1,6}) MHz)?(?:, memory clock (?P<memory_clock>\d{1,6}) MHz)?"
    r"(?:, driver CUDA (?P<driver>[\d.]{1,20}))?"
)


def devices(key: str, value: str) -> Iterator[DeviceInfo]:
    """Yield the devices that an entry of the provenance describes: one for each profile that was
    joined, and none where it is about something else."""
    if not _DEVICE.fullmatch(key):
        return
    for line in value.split(" | "):
        if (found := _LINE.fullmatch(line)) is not None:
            numbers = {name: float(text or 0) for name, text in found.groupdict("0").items()
                       if name not in ("name", "driver")}  # fmt: skip
            yield DeviceInfo(
                key, found["name"], int(numbers["major"]), int(numbers["minor"]),
                int(numbers["multiprocessors"]), round(numbers["memory"] * 2**30),
                numbers["clock"], numbers["memory_clock"], found["driver"] or "",
            )  # fmt: skip
