"""Part of `tileprof doctor` about roofs: known ones of each GPU, and `--roofs`, which measures
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tileprof.cli.doctor_gpu import Finding
from tileprof.errors import MissingDependencyError, TileprofError
from tileprof.progress import working

from . import terminal

if TYPE_CHECKING:
    from tileprof.runtime.roofs import Roofs

_SHOWN = ("hbm_copy", "l2_read", "tensor_bfloat16", "fma_float32")
"""Roofs of the one line that `doctor` has for a device."""


def findings() -> Iterator[Finding]:
    """One line for each GPU, none where there is no GPU."""
    from tileprof.runtime.roofs import known_roofs

    for number in range(_devices()):
        roofs = known_roofs(number)
        found = "" if roofs is None else f"cuda:{number} {_line(roofs)}"
        purpose = f"measured peak rates of cuda:{number}, which bound estimated gains"
        yield Finding("measured roofs", found, purpose, "tileprof doctor --roofs")


def measure() -> int:
    """Measure all GPUs and print their roofs; the exit code.

    MissingDependencyError where there is no GPU.
    """
    from tileprof.runtime.roofs import measured_roofs

    count = _devices()
    if not count:
        raise MissingDependencyError(
            "no GPU found to measure", hint="`tileprof doctor` says what is missing."
        )
    for number in range(count):
        with working(f"cuda:{number}") as task:
            roofs = measured_roofs(number, again=True, progress=task.tell)
        terminal.show(_table(number, roofs))
    return 0


def _devices() -> int:
    from tileprof.runtime.cuda import driver as cuda_driver

    try:
        return cuda_driver.load_driver().number("cuDeviceGetCount")
    except TileprofError:
        return 0


def _line(roofs: Roofs) -> str:
    from tileprof.profile.units import format_value

    shown = [f"{name} {format_value(roofs[name].value, roofs[name].unit)}"
             for name in _SHOWN if name in roofs]  # fmt: skip
    return f"{', '.join(shown)} ({roofs.date.partition('T')[0]})"


def _table(number: int, roofs: Roofs) -> str:
    from tileprof.profile.units import format_value

    head = (
        f"cuda:{number} {roofs.device}, {roofs.multiprocessors} multiprocessors, driver CUDA"
        f" {roofs.driver}, {roofs.target}, {roofs.uuid}, measured {roofs.date}\n"
    )
    rows = [("roof", "value", "best", "spread", "SM clock", "")]
    for roof in roofs:
        value, best = (format_value(each, roof.unit) for each in (roof.value, roof.best))
        clock = f"{roof.clock_mhz:,.0f} MHz" if roof.clock_mhz else ""
        rows.append((roof.name, value, best, f"{100 * roof.spread:.1f} %", clock, roof.formula))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = [
        "  ".join([row[0].ljust(widths[0]),
                   *(row[column].rjust(widths[column]) for column in range(1, 5)), row[5]])
        for row in rows
    ]  # fmt: skip
    return head + "".join(f"  {line.rstrip()}\n" for line in lines)
