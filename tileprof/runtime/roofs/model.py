"""Roofs of a device as plain data, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Roof:
    """One limit, as repetitions found it."""

    name: str
    """`hbm_copy`, `tensor_bfloat16`, `launch_gap`, …"""
    value: float
    """The median of the repetitions, in `unit`: what is kept up."""
    unit: str
    """`bytes/s`, `flop/s`, `op/s` or `ns`."""
    best: float
    """The best repetition, in `unit`; the first ones may have run at a clock that is not kept."""
    spread: float
    """Interquartile range of the repetitions, as a share of the median."""
    repetitions: int
    clock_mhz: float
    """Clock of a multiprocessor right behind the last repetition, in MHz; 0 if irrelevant."""
    formula: str
    """Formula: what was counted, divided by what."""


@dataclass(frozen=True, slots=True)
class Roofs:
    """Limits of one device, with all that they depend on."""

    device: str
    """Name of the device in its driver's spelling."""
    uuid: str
    """Identity of the device, or of the part of it that the process may use: `GPU-…`."""
    target: str
    """Target that the kernels were compiled for: `sm_90a`."""
    multiprocessors: int
    driver: str
    """The CUDA version that the driver has, as `13.0`."""
    date: str
    """Date of the measurement, ISO 8601 with its zone."""
    tileprof: str
    """The version that measured."""
    roofs: Mapping[str, Roof]
    """Roofs by name, in the order of measuring."""

    def __getitem__(self, name: str) -> Roof:
        """Return the roof of a name; KeyError for one that this device has not."""
        return self.roofs[name]

    def __contains__(self, name: str) -> bool:
        return name in self.roofs

    def __iter__(self) -> Iterator[Roof]:
        return iter(self.roofs.values())

    def as_json(self) -> dict[str, Any]:
        """Everything, for `json.dump`."""
        return asdict(self) | {"roofs": [asdict(roof) for roof in self]}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> Roofs:
        """Return the reverse of `as_json`; KeyError, TypeError or ValueError for anything else."""
        roofs = [Roof(**each) for each in held["roofs"]]
        if not all(each.value > 0 and each.best > 0 for each in roofs):
            raise ValueError("a roof is above 0")
        return cls(**{**held, "roofs": {each.name: each for each in roofs}})
