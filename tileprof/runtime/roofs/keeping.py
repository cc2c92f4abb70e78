"""Roofs in the cache: measured once for each device and driver, read by everybody else.

In: a device, or its number.  Out: its roofs.  The name of a file tells all that its numbers depend
on: the device by its UUID, its driver, the files of this folder, which measure. Reading needs no
compiler: a profile is given what is known when it is written.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import tileprof
from tileprof.errors import OutputError, TileprofError
from tileprof.files import replace_bytes
from tileprof.native.cache import cache_folder, create_folder, digest_of
from tileprof.runtime.cuda import driver as cuda_driver

from .model import Roofs

if TYPE_CHECKING:
    from tileprof.runtime.cuda.device import CudaDevice
    from tileprof.runtime.cuda.driver import Driver

_TARGET = "TILEPROF_CUDA_TARGET"


def measured_roofs(
    device: CudaDevice | int = 0,
    *,
    again: bool = False,
    progress: Callable[[str], None] = lambda name: None,
) -> Roofs:
    """Return the roofs of a device, from the cache, or measured now, which takes some seconds.
    `again`: measured now in any case. `progress` hears what is being measured. ArgumentError for a
    device that is not there, TileprofError where kernels cannot be compiled or run; OutputError
    where the cache cannot be written."""
    from tileprof.runtime.cuda.device import find_device

    from .measuring import measure

    held = find_device(device) if isinstance(device, int) else device
    kept = None if again else known_roofs(held.number, held.driver)
    if kept is not None:
        return kept
    roofs = Roofs(
        held.name,
        uuid_of(held.driver, held.number),
        held.target.name,
        held.sms,
        held.driver.version(),
        datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        tileprof.__version__,
        measure(held, progress),
    )
    _keep(place_of(roofs.uuid, roofs.driver), roofs)
    return roofs


def known_roofs(number: int = 0, driver: Driver | None = None) -> Roofs | None:
    """Return the roofs that the cache has of a device; None where it has none, or there is no
    device. Nothing is measured, and no context is made."""
    try:
        asked = driver or cuda_driver.load_driver()
        place = place_of(uuid_of(asked, number), asked.version())
    except TileprofError:
        return None
    return _read(place)


def uuid_of(driver: Driver, number: int) -> str:
    """Return the device's unique id, as `nvidia-smi -L` shows it."""
    held = (ctypes.c_ubyte * 16)()
    handle = driver.number("cuDeviceGet", number)
    driver.call("cuDeviceGetUuid_v2", ctypes.addressof(held), handle)
    return f"GPU-{uuid.UUID(bytes=bytes(held))}"


def place_of(uuid: str, driver: str) -> Path:
    """Return the file of a device's roofs."""
    digest = digest_of((uuid, driver, os.environ.get(_TARGET, ""), _method()))
    return cache_folder() / f"roofs-{digest}.json"


@cache
def _method() -> str:
    """Return a digest of what measures."""
    files = sorted(each for each in Path(__file__).parent.iterdir() if each.is_file())
    return hashlib.sha256(b"\0".join(each.read_bytes() for each in files)).hexdigest()


def _read(place: Path) -> Roofs | None:
    """Return the roofs in a file; None if it is missing or damaged."""
    try:
        return Roofs.from_json(json.loads(place.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _keep(place: Path, roofs: Roofs) -> None:
    """Write a file at once or not at all."""
    try:
        create_folder()
        replace_bytes(place, json.dumps(roofs.as_json(), indent=1).encode())
    except OSError as error:
        raise OutputError(
            f"roofs cannot be kept in {place.parent}: {error.strerror or error}",
            hint="Set TILEPROF_CACHE to a folder that can be written.",
        ) from error
