"""Clocks, temperature, power and use of a GPU, read through NVML, and why its clock is held back.

In: a GPU's unique id.  Out: a `GpuState`; None where there is no NVML or it does not know the GPU,
as for a slice of a GPU (MIG).  No CUDA context is made, so reading disturbs nothing.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import Any

from tileprof.once import once

_LIBRARY = "libnvidia-ml.so.1"
_SM_CLOCK, _MEMORY_CLOCK, _TEMPERATURE = 1, 2, 0
_REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "power brake",
}
"""NVML's clock event reasons that lower the clock below what was set; idle (0x01), set clocks
(0x02) and a synchronised boost (0x10) are none.  Numbers are those of `nvml.h`."""


class _Utilization(ctypes.Structure):
    """`nvmlUtilization_t`, in percent of the last sampling period (up to 1 s)."""

    gpu: int
    memory: int
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


@dataclass(frozen=True, slots=True)
class GpuState:
    """What a GPU does at one moment; None for what it does not say."""

    name: str
    driver: str
    sm_mhz: int | None
    most_sm_mhz: int | None
    memory_mhz: int | None
    celsius: int | None
    watts: float | None
    busy: float | None
    """Share of the last second in which a kernel of any process ran, 0 to 1."""
    held_back: tuple[str, ...]
    """Reasons for which the clock is lower than it could be, among those of `_REASONS`."""


def read_gpu(uuid: str = "") -> GpuState | None:
    """Return the state of the GPU with this unique id, `GPU-…`; '' is the first one."""
    library = _library()
    handle = None if library is None else _handle(library, uuid)
    return None if handle is None else _state(library, handle)


def read_gpus() -> dict[str, GpuState]:
    """Return the state of every GPU by its unique id, without the CUDA driver."""
    library, count = _library(), c_uint()
    if library is None or library.nvmlDeviceGetCount_v2(byref(count)):
        return {}
    found = {}
    for index in range(count.value):
        handle = c_void_p()
        if library.nvmlDeviceGetHandleByIndex_v2(index, byref(handle)) == 0:
            found[_text(library, "nvmlDeviceGetUUID", handle)] = _state(library, handle)
    return found


def _state(library: Any, handle: c_void_p) -> GpuState:
    used = _Utilization()
    known = library.nvmlDeviceGetUtilizationRates(handle, byref(used)) == 0
    watts = _number(library, "nvmlDeviceGetPowerUsage", handle)
    return GpuState(
        _text(library, "nvmlDeviceGetName", handle),
        _text(library, "nvmlSystemGetDriverVersion"),
        _number(library, "nvmlDeviceGetClockInfo", handle, _SM_CLOCK),
        _number(library, "nvmlDeviceGetMaxClockInfo", handle, _SM_CLOCK),
        _number(library, "nvmlDeviceGetClockInfo", handle, _MEMORY_CLOCK),
        _number(library, "nvmlDeviceGetTemperature", handle, _TEMPERATURE),
        None if watts is None else watts / 1000,
        used.gpu / 100 if known else None,
        _reasons(library, handle),
    )


@once
def _library() -> Any:
    """Return NVML, started; None where there is none."""
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError:
        return None
    return library if library.nvmlInit_v2() == 0 else None


def _handle(library: Any, uuid: str) -> c_void_p | None:
    handle = c_void_p()
    code = (
        library.nvmlDeviceGetHandleByUUID(uuid.encode(), byref(handle))
        if uuid
        else library.nvmlDeviceGetHandleByIndex_v2(0, byref(handle))
    )
    return None if code else handle


def _number(library: Any, function: str, handle: c_void_p, *which: int) -> int | None:
    made = c_uint()
    code = getattr(library, function)(handle, *which, byref(made))
    return None if code else made.value


def _text(library: Any, function: str, *handle: c_void_p) -> str:
    made = ctypes.create_string_buffer(96)
    code = getattr(library, function)(*handle, made, c_uint(len(made)))
    return "" if code else made.value.decode(errors="replace")


def _reasons(library: Any, handle: c_void_p) -> tuple[str, ...]:
    made = c_ulonglong()
    # The older name of `nvmlDeviceGetCurrentClocksEventReasons`, which all drivers have.
    if library.nvmlDeviceGetCurrentClocksThrottleReasons(handle, byref(made)):
        return ()
    return tuple(name for bit, name in _REASONS.items() if made.value & bit)
