"""Lessons of failed trials: a configuration that is too large rules out those that are larger.

In: refused configurations with the resource that there was too little of, and those that spill.
Out: for a configuration that was not tried, the failure that rules it out.

    shared memory   sides of tiles and stages at least as large, the same threads and controls
    registers       sides of tiles at least as large, a part of the threads to share them
    threads         at least as many threads
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tileprof.errors import Resource

from .configurations import Configuration, Value
from .space import Role, Space

_GROWS: Mapping[Resource, frozenset[Role]] = {
    "shared memory": frozenset({"tile", "stages"}),
    "registers": frozenset({"tile"}),
    "threads": frozenset({"threads"}),
    "barriers": frozenset({"threads"}),
}
"""Roles of arguments with which the need for a resource grows."""
_SHRINKS: Mapping[Resource, frozenset[Role]] = {"registers": frozenset({"threads"})}
"""Roles of arguments with which it shrinks."""
_ANY: Mapping[Resource, frozenset[Role]] = {
    "registers": frozenset({"raster", "stages"}),
    "shared memory": frozenset({"raster"}),
    "threads": frozenset({"tile", "stages", "raster"}),
    "barriers": frozenset({"tile", "stages", "raster"}),
}
"""Roles of arguments that do not matter for it."""


_CONTROLS: Mapping[Resource, frozenset[str]] = {
    "registers": frozenset({"registers", "overlap", "ping_pong", "late_sums", "peel"}),
    "threads": frozenset({"warp_specialization"}),
}
"""Controls that change the need for a resource; all of them where nothing stands here."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One configuration that failed."""

    configuration: Configuration
    resource: Resource


class RuledOut:
    """Failures so far."""

    def __init__(self, space: Space) -> None:
        self._roles = space.roles()
        self._failures: list[Failure] = []

    def learn(self, configuration: Configuration, resource: Resource | None) -> None:
        """Note a failure; one whose reason is none of a resource teaches nothing about others."""
        if resource is not None and self.by(configuration) is None:
            self._failures.append(Failure(configuration, resource))

    def by(self, configuration: Configuration) -> Failure | None:
        """Return the failure that rules a configuration out; None where it may work."""
        return next((f for f in self._failures if self._follows(f, configuration)), None)

    def _follows(self, failure: Failure, other: Configuration) -> bool:
        """Return whether a configuration must fail because another one did."""
        relevant = _CONTROLS.get(failure.resource)
        ours, theirs = (
            {n: v for n, v in each.controls if relevant is None or n in relevant}
            for each in (failure.configuration, other)
        )
        if ours != theirs:
            return False
        known = other.named
        for name, value in failure.configuration.arguments:
            if not self._at_least(name, value, known.get(name), failure.resource):
                return False
        return True

    def _at_least(self, name: str, failed: Value, value: Value, resource: Resource) -> bool:
        role = self._roles.get(name, "given")
        if failed == value or role in _ANY.get(resource, ()):
            return True
        if not (isinstance(failed, int) and isinstance(value, int)):
            return False
        if role in _GROWS[resource]:
            return value >= failed
        # Half the threads have twice the registers each; 256 of 384 may divide a tile better.
        return role in _SHRINKS.get(resource, ()) and value > 0 and failed % value == 0
