"""The first GPU and kernels of it, by the driver and NVRTC alone."""

from __future__ import annotations

import numpy as np
from cuda.bindings import driver, nvrtc


def checked(answer):
    """What a call of the bindings returned."""
    result, *values = answer
    if int(result):
        raise RuntimeError(result)
    return values[0] if len(values) == 1 else values


def first_device():
    """The first GPU."""
    checked(driver.cuInit(0))
    return checked(driver.cuDeviceGet(0))


def attribute(device, name: str) -> int:
    """An attribute of a device, by the last part of its name."""
    kind = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return checked(driver.cuDeviceGetAttribute(kind, device))


def loaded(device, source: str, name: str):
    """A module of CUDA C++ for a device, with lines, in the thread's context."""
    major, minor = (attribute(device, f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    program = checked(nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), 0, [], []))
    options = [f"-arch=sm_{major}{minor}".encode(), b"-lineinfo"]
    checked(nvrtc.nvrtcCompileProgram(program, len(options), options))
    cubin = bytes(checked(nvrtc.nvrtcGetCUBINSize(program)))
    checked(nvrtc.nvrtcGetCUBIN(program, cubin))
    return checked(driver.cuModuleLoadData(np.frombuffer(cubin, np.uint8).ctypes.data))
