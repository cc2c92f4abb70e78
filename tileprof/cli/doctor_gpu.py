"""Part of `tileprof doctor` about GPUs: what runs kernels there, and what records them."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass

from tileprof.errors import extra_command

GPU = "kernels on a GPU"
CUDA_EXTRA = extra_command("cuda")
_WITHOUT_COUNTERS = "tileprof's own kernels can be sampled without it: run --instrument sample"
REBUILD = "apt install g++, then pip install --force-reinstall --no-deps --no-cache-dir tileprof"


def kernels() -> Iterator[Finding]:
    """Yield the driver, its GPUs, what compiles for them, and what makes calls fast."""
    remedy = "install the NVIDIA driver for your GPU"
    driver, devices = _driver()
    yield Finding("CUDA driver", driver, GPU, remedy)
    yield Finding("GPU", devices, GPU, "see `nvidia-smi`; CUDA_VISIBLE_DEVICES may hide it")
    yield Finding("NVRTC", _nvrtc(), "kernels compiled for a GPU", CUDA_EXTRA)
    yield Finding("nvdisasm", _nvdisasm(), "machine code of kernels, by line", CUDA_EXTRA)
    yield _launcher()


def recording() -> Iterator[Finding]:
    """Yield what `tileprof run` records with, and what it is permitted to record."""
    yield _recorder()
    yield _cupti()
    yield _others()
    yield _ranges()
    yield _counters()


def _driver() -> tuple[str, str]:
    """Versions of the driver, and its GPUs; '' for what is not there."""
    from tileprof.errors import TileprofError
    from tileprof.runtime.cuda.device import find_device
    from tileprof.runtime.cuda.driver import load_driver

    try:
        driver = load_driver()
        count = driver.number("cuDeviceGetCount")
    except TileprofError:
        return "", ""
    shown = []
    for number in range(count):
        try:
            device = find_device(number)
        except TileprofError as error:
            shown.append(f"cuda:{number} cannot be used: {error.message}")
        else:
            how = "PTX for " if device.from_ptx else ""
            shown.append(f"cuda:{number} {device.name} ({how}{device.target.name})")
    return f"CUDA {driver.version()}", ", ".join(shown)


def _nvrtc() -> str:
    from tileprof.compiler.cuda import nvrtc
    from tileprof.errors import TileprofError

    try:
        return ".".join(map(str, nvrtc.version()))
    except TileprofError:
        return ""


def _nvdisasm() -> str:
    try:
        from cuda.pathfinder import find_nvidia_binary_utility
    except ImportError:
        return ""
    return str(find_nvidia_binary_utility("nvdisasm") or "")


def _launcher() -> Finding:
    from tileprof.runtime.cuda.native_launcher import installed, why_not

    why = why_not()
    purpose = f"calls on a GPU in a few microseconds; {why}" if why else ""
    there = "installed" if installed() is not None else "compiled when it is first used"
    found = "" if why else there
    return Finding("native launcher", found, purpose, "see the lines above, or update PyTorch")


def _recorder() -> Finding:
    from tileprof.profiler import native

    why = native.why_not()
    found = "" if why else f"built for Python {platform.python_version()}"
    purpose = f"call paths of operations and of kernels on a GPU; {why}"
    return Finding("native recorder", found, purpose, REBUILD)


def _cupti() -> Finding:
    from tileprof.profiler.cupti import cupti_library

    library = cupti_library.find_cupti()
    found, why = "", cupti_library.why_not()
    if library is not None:
        version, why = cupti_library.version(library.path)
        found = f"{version}, {library.origin} ({library.path})" if version else ""
    purpose = f"kernels, copies and idle time of a GPU; {why}"
    return Finding("CUPTI", found, purpose, cupti_library.remedy())


def _others() -> Finding:
    from tileprof.profiler.cupti.other_profilers import who_holds

    who = who_holds()
    purpose = f"GPU kernels: only one tool per process can trace them, and {who} already does"
    found = "" if who else "no other tool traces this process"
    return Finding("tracing", found, purpose, "run without that tool, or expect a gap")


def _ranges() -> Finding:
    from tileprof.profiler import native
    from tileprof.profiler.device import nvtx

    why = nvtx.why_not()
    remedy = REBUILD if native.why_not() else f"unset {nvtx.VARIABLE}, or run without that tool"
    found = "" if why else "of all libraries that use NVTX"
    return Finding("NVTX ranges", found, f"ranges that libraries name; {why}", remedy)


def _counters() -> Finding:
    from tileprof.profiler.cupti import permissions

    purpose = f"counters and stall reasons of a GPU; {permissions.why_no_counters()}"
    remedy = f"{permissions.counters_remedy()}\n{_WITHOUT_COUNTERS}"
    return Finding("GPU counters", permissions.counters(), purpose, remedy)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: a thing, whether it is there, and what follows."""

    name: str
    found: str
    """Version or path; '' where it is missing."""
    purpose: str
    remedy: str = ""
    """The command that would get it; several lines where it takes more."""
