"""Choice of the copy of CUPTI to load: the one that the program's framework will map, or maps
already.

In: the process's map, installed packages, the CUDA toolkit.  Out: a path, and where it comes from;
or why there is none, and what to install.

Copies of one major version share their SONAME, so whichever is loaded first serves all that come
later under that name: PyTorch's profiler, other tools, us. A copy other than PyTorch's own would be
forced on it when it is imported, and a copy of another major version would stay beside it, with
two libraries asking one driver for the same events. So the choice is made before the program runs,
and without importing PyTorch: `libtorch_cpu.so` says itself what the dynamic linker will take.
Triton has a copy for its own profiler, older than most; it is the last resort.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tileprof.profiler.cupti.shared_objects import Needed, mapped_libraries, needed_by

CUDA_13_DRIVER = 580
"""The first driver series that runs CUDA 13; CUPTI must not be of a newer major version."""

VARIABLE = "TILEPROF_CUPTI"
"""Environment variable: the library to load instead of the one that is found."""

MACHINE_TOOLKIT = "/usr/local/cuda"
LDCONFIG = "/sbin/ldconfig"
DRIVER_VERSION = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class CuptiLibrary:
    """A copy of CUPTI."""

    path: Path
    origin: str
    """Owner of the copy, as a phrase: "loaded already", "PyTorch's"."""


def find_cupti() -> CuptiLibrary | None:
    """Return the copy to use, None where there is none (`why_not` tells what to do).

    `TILEPROF_CUPTI` may name one. Else it is a copy that is loaded already. Otherwise it is of the
    major version that PyTorch is linked to, where that is installed, and never newer than the
    driver.
    """
    named = os.environ.get(VARIABLE)
    if named:
        return CuptiLibrary(Path(named), f"named by {VARIABLE}")
    loaded = _loaded()
    if loaded and not _is_tritons(loaded[0].path):
        return loaded[0]
    needed = _needed_by_pytorch()
    wanted = _major(needed.name) if needed else 0
    fitting = (each for each in _installed(needed) if _serves(each.path))
    second = None
    for each in fitting:
        if not wanted or _major(each.path.name) == wanted:
            return each
        second = second or each
    return second or next(iter(loaded), None) or next(_of_triton(), None)


def why_not() -> str:
    """Return why there is no CUPTI, '' where there is one."""
    if find_cupti() is not None:
        return ""
    newer = next(_installed(None), None)
    if newer is not None:
        return f"CUPTI at {newer.path} is newer than the driver (series {_driver_series()})"
    return "CUPTI, NVIDIA's library for observing kernels, is not installed"


def remedy() -> str:
    """Return the command that installs a copy that the driver can serve."""
    series = _driver_series()
    old = series is not None and series < CUDA_13_DRIVER
    return f"pip install nvidia-cuda-cupti{'-cu12' if old else ''}"


def other_copy() -> str:
    """Return how another copy is used, where the one that is found does not serve."""
    if os.environ.get(VARIABLE):
        return f"let {VARIABLE} name another copy of CUPTI, or unset it"
    return f"get a newer copy of CUPTI, as by `{remedy()} --upgrade`, and let {VARIABLE} name it"


def version(path: Path) -> tuple[str, str]:
    """Load a copy and return its version, as "13.0", or '' and why it cannot be loaded."""
    number = ctypes.c_uint32()
    try:
        ctypes.CDLL(str(path)).cuptiGetVersion(ctypes.byref(number))
    except (OSError, AttributeError) as error:
        return "", f"{path} cannot be loaded: {error}"
    if number.value < 100_000:  # CUDA 12 and before: numbers of the interface alone
        return f"interface {number.value}", ""
    return f"{number.value // 10_000}.{number.value // 100 % 100}", ""


def _loaded() -> list[CuptiLibrary]:
    """Return the copies in this process; Triton's comes last."""
    mapped = [each for each in mapped_libraries() if each.name.startswith("libcupti")]
    return [CuptiLibrary(each, "loaded already") for each in sorted(mapped, key=_is_tritons)]


def _installed(needed: Needed | None) -> Iterator[CuptiLibrary]:
    """Yield the copies on this machine other than Triton's, in order of preference."""
    if needed is not None and needed.path is not None:
        yield CuptiLibrary(needed.path, "PyTorch's")
    for folder in ("cu13/lib", "cuda_cupti/lib"):
        for path in _in_package("nvidia", folder):
            yield CuptiLibrary(path, "of the package nvidia-cuda-cupti")
    for path in _of_toolkits():
        yield CuptiLibrary(path, "of the CUDA toolkit")
    for path in _of_system():
        yield CuptiLibrary(path, "of the system")


def _of_triton() -> Iterator[CuptiLibrary]:
    for path in _in_package("triton", "backends/nvidia/lib/cupti"):
        if _serves(path):
            yield CuptiLibrary(path, "Triton's")


def _is_tritons(path: Path) -> bool:
    return "/triton/backends/" in str(path)


def _needed_by_pytorch() -> Needed | None:
    """Return what PyTorch is linked to, including copies beside it with a hash in the name."""
    for folder in _package_folders("torch"):
        needed = needed_by(folder / "lib" / "libtorch_cpu.so", "libcupti")
        if needed is not None:
            return needed
    return None


def _serves(path: Path) -> bool:
    """Return whether the driver is new enough; one that is not to be seen may be."""
    series = _driver_series()
    return series is None or series >= CUDA_13_DRIVER or _major(path.name) < 13


def _of_toolkits() -> Iterator[Path]:
    """Yield the folders of the requested toolkit, of the environment (conda) and of the machine."""
    asked = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    for root in [*filter(None, asked), sys.prefix, MACHINE_TOOLKIT]:
        for folder in ("extras/CUPTI/lib64", "lib64", "targets/x86_64-linux/lib", "lib"):
            yield from _copies(Path(root) / folder)


def _of_system() -> Iterator[Path]:
    """Yield what the dynamic linker finds by name."""
    for folder in filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(":")):
        yield from _copies(Path(folder))
    with suppress(OSError, subprocess.SubprocessError):
        listing = subprocess.run(
            [LDCONFIG, "-p"], capture_output=True, text=True, timeout=10, check=True
        ).stdout
        found = re.findall(r"^\s*libcupti\.so\S* .*=> (/\S+)$", listing, re.MULTILINE)
        yield from sorted(map(Path, found), key=lambda each: _major(each.name), reverse=True)


def _in_package(package: str, folder: str) -> Iterator[Path]:
    for each in _package_folders(package):
        yield from _copies(each / folder)


def _package_folders(package: str) -> list[Path]:
    """Return a package's folders without importing it."""
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec(package)
        return [Path(each) for each in (spec and spec.submodule_search_locations) or ()]
    return []


def _copies(folder: Path) -> list[Path]:
    """The copies in a folder, the newest first, each once whatever its links are called."""
    with suppress(OSError):
        real = {each.resolve() for each in folder.glob("libcupti.so*")}
        return sorted(
            (each for each in real if each.is_file()),
            key=lambda each: _major(each.name),
            reverse=True,
        )
    return []


def _major(name: str) -> int:
    """Return the major version of CUDA: of `libcupti.so.13`, and of `libcupti.so.2025.1.1` (12)."""
    number = re.search(r"\.so\.(\d+)(?:\.(\d+))?", name)
    if number is None:
        return 0
    first, second = int(number[1]), int(number[2] or 0)
    if first < 2000:
        return first
    return 13 if (first, second) >= (2025, 3) else 12


def _driver_series() -> int | None:
    """Return the driver's release series, as 580; None where there is no driver to be seen."""
    with suppress(OSError):
        number = re.search(r"\s(\d{3})\.\d+", DRIVER_VERSION.read_text())
        return int(number[1]) if number else None
    return None
