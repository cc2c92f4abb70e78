"""Permission of this process to read counters and samples of GPUs: hardware counters, stall
reasons.

In: what the driver's parameters and the kernel say about this process.  Out: how it may, or why not
and what to change.  Call paths, times and copies of kernels need no permission.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

DRIVER_PARAMETERS = Path("/proc/driver/nvidia/params")
PROCESS_STATUS = Path("/proc/self/status")
WSL_DEVICE = Path("/dev/dxg")
"""Device by which Windows Subsystem for Linux reaches the driver of Windows."""
CAP_SYS_ADMIN = 21
"""Number of the capability that the driver asks for."""


def counters() -> str:
    """Return what allows this process to read counters, '' where it may not."""
    if not DRIVER_PARAMETERS.exists():
        return ""
    if not _for_administrators_only():
        return "for every user (RmProfilingAdminOnly is 0)"
    return "as administrator (CAP_SYS_ADMIN)" if _is_administrator() else ""


def why_no_counters() -> str:
    """Return why this process may not read counters, '' where it may."""
    if counters():
        return ""
    if not DRIVER_PARAMETERS.exists():
        return "no NVIDIA driver is loaded"
    return "the driver lets administrators alone read counters (RmProfilingAdminOnly is 1)"


def counters_remedy() -> str:
    """Return what gives the permission, '' where this process has it."""
    if counters():
        return ""
    if not DRIVER_PARAMETERS.exists():
        return "install the NVIDIA driver for your GPU"
    if _in_container():
        return (
            "start the container with --cap-add=SYS_ADMIN; or for all users, on the host:\n" + _HOST
        )
    return "run as root; or for all users:\n" + _HOST


def refused_remedy() -> str:
    """Return in one line what gives the permission that CUPTI says this process lacks.

    It differs from `counters_remedy` where the driver's parameters allow what the driver refuses,
    as in a container whose administrator is none on the host, or are not to be seen.
    """
    if WSL_DEVICE.exists():
        return (
            "in the NVIDIA Control Panel of Windows, under Developer, allow all users to access GPU"
            " performance counters"
        )
    known = counters_remedy() if DRIVER_PARAMETERS.exists() else ""
    remedy = known or f"run as root of the host; or for all users, on the host: {_HOST}"
    return " ".join(remedy.split())


_HOST = (
    "put `options nvidia NVreg_RestrictProfilingToAdminUsers=0` into a file of /etc/modprobe.d, "
    "and restart"
)


def _for_administrators_only() -> bool:
    # A driver that does not say lets administrators alone, as all do since 2019.
    with suppress(OSError):
        found = re.search(r"^RmProfilingAdminOnly:\s*(\d+)", DRIVER_PARAMETERS.read_text(), re.M)
        return found is None or found[1] != "0"
    return True


def _is_administrator() -> bool:
    with suppress(OSError):
        found = re.search(r"^CapEff:\s*([0-9a-fA-F]+)", PROCESS_STATUS.read_text(), re.M)
        return found is not None and bool(int(found[1], 16) >> CAP_SYS_ADMIN & 1)
    return False


def _in_container() -> bool:
    return any(Path(each).exists() for each in ("/.dockerenv", "/run/.containerenv"))
