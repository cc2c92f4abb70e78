"""The GPUs that kernels ran on, as their driver tells: a line for people, limits for occupancy.

In: a CUDA ordinal, which CUPTI and the driver count alike, as CUDA_VISIBLE_DEVICES leaves them.
Out: a `Device`, or None where there is no driver or it does not answer; and what the device does at
most, where that was measured.

Asked of the driver when a kernel has run there, so nothing is loaded that the program had not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tileprof.errors import ExecutionError, MissingDependencyError
from tileprof.once import once
from tileprof.profile import DeviceInfo, DevicePeak

if TYPE_CHECKING:
    from tileprof.binary.occupancy import Multiprocessor
    from tileprof.runtime.cuda.driver import Driver

_CUDA = "cuda:"

# Numbers of `CUdevice_attribute` in `cuda.h`.
_CAPABILITY = (75, 76)
_MULTIPROCESSORS, _CLOCK, _MEMORY_CLOCK = 16, 13, 36
_LIMITS = {
    "threads": 39, "blocks": 106, "shared": 81, "shared_per_block": 97, "reserved_shared": 111,
    "registers": 82, "registers_per_block": 12, "threads_per_block": 1,
}  # fmt: skip
"""Parameters of `binary.occupancy.multiprocessor`."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU."""

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    memory: int
    """Bytes."""
    clock: int
    """kHz, the highest; so is `memory_clock`."""
    memory_clock: int
    driver: str
    """The CUDA version that the driver has, as `13.0`."""
    limits: Multiprocessor | None
    """Resources that blocks share on a multiprocessor; None where the rules are unknown."""

    def __str__(self) -> str:
        major, minor = self.capability
        clocks = [f"{text} {khz / 1000:.0f} MHz" for text, khz in
                  (("clock", self.clock), ("memory clock", self.memory_clock)) if khz]  # fmt: skip
        return ", ".join(
            [
                self.name,
                f"sm_{major}{minor}",
                f"{self.multiprocessors} SMs",
                f"{self.memory / 2**30:.1f} GiB",
                *clocks,
                f"driver CUDA {self.driver}",
            ]
        )


@once
def find(number: int) -> Device | None:
    """Return the device of an ordinal; None where no driver tells of it."""
    from tileprof.runtime.cuda import driver as cuda_driver

    try:
        return _asked(cuda_driver.load_driver(), number)
    except (MissingDependencyError, ExecutionError):
        return None


def facts(names: Iterable[str]) -> dict[str, str]:
    """Return what provenance tells of devices by their names; those that are no GPU are left out.

    A name is as a kernel has it: `cuda:0`, `cpu`.
    """
    return {name: str(device) for name, device in _gpus(names)}


def described(names: Iterable[str]) -> tuple[DeviceInfo, ...]:
    """Return devices by their names as profiles keep them, without those that are no GPU."""
    return tuple(
        DeviceInfo(
            name, device.name, *device.capability, device.multiprocessors, device.memory,
            device.clock / 1000, device.memory_clock / 1000, device.driver,
        )
        for name, device in _gpus(names)
    )  # fmt: skip


def peaks(names: Iterable[str]) -> tuple[DevicePeak, ...]:
    """Return what devices do at most, by their names; nothing of those that were not measured."""
    from tileprof.runtime.roofs import known_roofs

    found: list[DevicePeak] = []
    for name in dict.fromkeys(names):
        number = name.removeprefix(_CUDA)
        known = name.startswith(_CUDA) and number.isdecimal()
        roofs = known_roofs(int(number)) if known else None
        if roofs is not None:
            found += [
                DevicePeak(
                    name, roofs.uuid, roofs.date, each.name, each.value, each.unit, each.best,
                    each.spread, each.clock_mhz, each.formula,
                )
                for each in roofs
            ]  # fmt: skip
    return tuple(found)


def _gpus(names: Iterable[str]) -> Iterator[tuple[str, Device]]:
    """Yield each device that its driver describes, with its name."""
    for name in dict.fromkeys(names):
        number = name.removeprefix(_CUDA)
        if name.startswith(_CUDA) and number.isdecimal() and (device := find(int(number))):
            yield name, device


def _asked(driver: Driver, number: int) -> Device:
    from tileprof.binary.occupancy import multiprocessor

    handle = driver.number("cuDeviceGet", number)

    def attribute(what: int) -> int:
        return driver.number("cuDeviceGetAttribute", what, handle)

    name = ctypes.create_string_buffer(256)
    driver.call("cuDeviceGetName", name, len(name), handle)
    memory = ctypes.c_size_t()
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
    major, minor = (attribute(what) for what in _CAPABILITY)
    return Device(
        name.value.decode(errors="replace"),
        (major, minor),
        attribute(_MULTIPROCESSORS),
        memory.value,
        attribute(_CLOCK),
        attribute(_MEMORY_CLOCK),
        driver.version(),
        multiprocessor(
            (major, minor), **{limit: attribute(what) for limit, what in _LIMITS.items()}
        ),
    )
