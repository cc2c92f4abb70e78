"""Names of `tileprof.emulator`, loaded when one is first used."""

from .driver import EmulationError, Failure, Printed, Watch, emulate
from .findings import Actor, Fault, RaceFound, Side, Stuck

__all__ = [
    "Actor", "EmulationError", "Failure", "Fault", "Printed", "RaceFound", "Side", "Stuck", "Watch",
    "emulate",
]  # fmt: skip
