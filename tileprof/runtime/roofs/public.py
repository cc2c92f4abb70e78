"""Names of `tileprof.runtime.roofs`, loaded when one is first used."""

from .keeping import known_roofs, measured_roofs
from .model import Roof, Roofs

__all__ = ["Roof", "Roofs", "known_roofs", "measured_roofs"]
